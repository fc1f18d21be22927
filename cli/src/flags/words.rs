//! Flags within a flag: splits them as a shell would, and replaces some.

use phalanx_lab::error::Usage;

/// Splits `text` as a shell would.
pub(crate) fn split(text: &str) -> Result<Vec<String>, Usage> {
    shlex::split(text).ok_or_else(|| Usage(format!("a quote is never closed in: {text}")))
}

/// True if `flag` is among the words, with its value behind it or after `=`.
pub(crate) fn has(words: &[String], flag: &str) -> bool {
    words.iter().any(|word| word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
}

/// The words without `flag` and its value.
pub(crate) fn without(words: Vec<String>, flag: &str) -> Vec<String> {
    let mut left = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == flag {
            words.next();
        } else if !word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')) {
            left.push(word);
        }
    }
    left
}

/// Replaces the value of `flag`, which is among the words.
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
        // A quoted quote, as in the command of a result.
        assert_eq!(split(r"--store 'file:/it'\''s here'"), ["--store", "file:/it's here"]);
        assert_eq!(super::split(&crate::output::quoted("a 'b' c")).unwrap(), ["a 'b' c"]);
        assert!(split("").is_empty());
        assert!(super::split("--store 'file").is_err());
    }

    #[test]
    fn a_flag_goes_with_its_value() {
        let rest = |text| without(split(text).unwrap(), "--profile").join(" ");
        assert_eq!(rest("--a 1 --profile x --b --profile=y --profiles z"), "--a 1 --b --profiles z");
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
