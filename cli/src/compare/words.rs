//! Flags within a flag: splits them as a shell would, and replaces some.

use crate::exit::Usage;

/// The words of `text`, split at blanks outside of quotes.
pub(crate) fn split(text: &str) -> Result<Vec<String>, Usage> {
    let (mut words, mut word, mut open) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (open, c) {
            (Some(quote), c) if c == quote => open = None,
            (None, '\'' | '"') => {
                open = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match open {
        None => Ok(words),
        Some(quote) => Err(Usage(format!("a {quote} is never closed in: {text}"))),
    }
}

/// Whether `flag` is among the words, with its value behind it or after `=`.
pub(crate) fn has(words: &[String], flag: &str) -> bool {
    words.iter().any(|word| word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
}

/// Gives `flag`, which is among the words, another value.
pub(crate) fn replace(words: &mut [String], flag: &str, value: &str) {
    for index in 0..words.len() {
        if words[index] == flag && index + 1 < words.len() {
            value.clone_into(&mut words[index + 1]);
        } else if words[index].strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')) {
            words[index] = format!("{flag}={value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_would() {
        let split = |text| split(text).unwrap();
        assert_eq!(split("  --a 1\t--b=2 "), ["--a", "1", "--b=2"]);
        assert_eq!(split("--store 'file:/a b' \"it's\" ''"), ["--store", "file:/a b", "it's", ""]);
        assert!(split("").is_empty());
        assert!(super::split("--store 'file").is_err());
    }

    #[test]
    fn values_are_replaced_in_both_spellings() {
        let mut words = split("--store mem --seed=1 --stores x").unwrap();
        assert!(has(&words, "--store") && has(&words, "--seed") && !has(&words, "--see"));
        replace(&mut words, "--store", "file:/x");
        replace(&mut words, "--seed", "2");
        assert_eq!(words, ["--store", "file:/x", "--seed=2", "--stores", "x"]);
    }
}
