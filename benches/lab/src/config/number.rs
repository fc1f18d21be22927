//! Counts on the command line: one parser for every flag that takes a whole number.

use clap::{Arg, Command, builder::ValueParser, value_parser};
use std::str::FromStr as _;

/// Suffixes and their factors. The binary ones are those of IEC 80000-13.
const SUFFIXES: [(&str, u64); 8] = [
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
];

/// Reads a whole number: `5000`, `1_000_000`, `64k`, `1M`, `1.5M`, `1Gi`, `1e6` or `2^20`.
///
/// # Errors
/// If the word is no whole number, is negative, or does not fit 64 bits; the error says which.
pub fn count(word: &str) -> Result<u64, String> {
    let text = word.trim().replace('_', "").to_ascii_lowercase();
    if text.starts_with('-') && text.len() > 1 {
        return Err("must not be negative".into());
    }
    let large = || too_large(word);
    if let Some((base, power)) = text.split_once('^') {
        let (base, power) = (digits(base, word)?, digits(power, word)?);
        let power = u32::try_from(power).map_err(|_| large())?;
        return base.checked_pow(power).ok_or_else(large);
    }
    let suffix = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)));
    let (number, factor) = match (suffix, text.split_once('e')) {
        (Some(found), _) => found,
        (None, Some((number, power))) => {
            let power = u32::try_from(digits(power, word)?).ok();
            (number, power.and_then(|power| 10u64.checked_pow(power)).ok_or_else(large)?)
        }
        (None, None) => (text.as_str(), 1),
    };
    let Some((whole, part)) = number.split_once('.') else {
        return digits(number, word)?.checked_mul(factor).ok_or_else(large);
    };
    // Each further digit of the fraction stands for a tenth of the one before; all must come out whole.
    let scale = u32::try_from(part.len()).ok().and_then(|len| 10u64.checked_pow(len)).ok_or_else(|| odd(word))?;
    let parts = digits(part, word)?.checked_mul(factor).ok_or_else(large)?;
    if !parts.is_multiple_of(scale) {
        return Err(format!("{word} is no whole number"));
    }
    digits(whole, word)?.checked_mul(factor).and_then(|whole| whole.checked_add(parts / scale)).ok_or_else(large)
}

/// [`count`] of bytes, where `K`, `M`, `G` and `T` are powers of 1024, as memory has them.
///
/// # Errors
/// As [`count`].
pub fn bytes(word: &str) -> Result<u64, String> {
    let binary = word.ends_with(['k', 'm', 'g', 't', 'K', 'M', 'G', 'T']);
    if binary { count(&format!("{word}i")) } else { count(word) }
}

/// Plain digits as a number.
fn digits(text: &str, word: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(odd(word));
    }
    u64::from_str(text).map_err(|_| too_large(word))
}

fn too_large(word: &str) -> String {
    format!("number too large: {word} needs more than 64 bits")
}

fn odd(word: &str) -> String {
    format!("invalid digit found in {word:?}: expected a whole number, as 5000, 64k, 1.5M, 1Gi, 1e6 or 2^20")
}

/// Lets every flag of `command` and its subcommands that takes a whole number be written as [`count`] reads it, and a negative
/// number be refused as a value of its flag instead of as an unknown flag.
pub fn numbers(command: Command) -> Command {
    let command = command.mut_args(numeric);
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, numbers))
}

fn numeric(arg: Arg) -> Arg {
    let own = arg.get_value_parser().clone();
    let is = |parser: ValueParser| parser.type_id() == own.type_id();
    let arg = match () {
        () if is(value_parser!(u64).into()) => arg.value_parser(within::<u64>(own)),
        () if is(value_parser!(usize).into()) => arg.value_parser(within::<usize>(own)),
        () if is(value_parser!(u32).into()) => arg.value_parser(within::<u32>(own)),
        () if is(value_parser!(u16).into()) => arg.value_parser(within::<u16>(own)),
        () if is(value_parser!(f64).into()) => arg,
        () => return arg,
    };
    // A switch that counts its occurrences takes no value.
    if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg }
}

/// [`count`], and then the flag's own parser, which knows its bounds.
fn within<T: Clone + Send + Sync + 'static>(
    own: ValueParser,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |word: &str| {
        let digits = count(word)?.to_string();
        let alone = Arg::new("count").required(true).value_parser(own.clone());
        let parsed = Command::new("count").no_binary_name(true).arg(alone).try_get_matches_from([digits]);
        let refused = |error: clap::Error| {
            let text = error.to_string();
            let reason =
                text.lines().next().and_then(|line| line.rsplit_once("': ")).map(|(_, reason)| reason.to_owned());
            reason.unwrap_or(text)
        };
        parsed.map_err(refused)?.remove_one("count").ok_or_else(|| odd(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_many_forms() {
        for (word, number) in [
            ("0", 0),
            ("5000", 5000),
            ("1_000_000", 1_000_000),
            ("64k", 64_000),
            ("1M", 1_000_000),
            ("1.5M", 1_500_000),
            ("0.25k", 250),
            ("2G", 2_000_000_000),
            ("1Ki", 1024),
            ("1Gi", 1 << 30),
            ("1.5Ki", 1536),
            ("1e6", 1_000_000),
            ("2.5e3", 2500),
            ("1E3", 1000),
            ("2^20", 1 << 20),
            ("2^0", 1),
            ("10^6", 1_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(count(word), Ok(number), "{word}");
        }
    }

    #[test]
    fn other_words_are_refused_with_their_reason() {
        for word in [
            "", "ten", "1x", "M", "1.M", ".5M", "1..5M", "0x10", "1M5", "1e", "e6", "2^", "^2", "2^x", "1,000", "+5",
            "--5",
        ] {
            assert!(count(word).is_err(), "{word}");
        }
        for word in ["ten", "1x", "0x10", "1,000"] {
            assert!(count(word).unwrap_err().contains("1.5M, 1Gi, 1e6 or 2^20"), "{word}");
        }
        for word in ["1.5", "0.0001k", "1.2345e2"] {
            assert!(count(word).unwrap_err().contains("no whole number"), "{word}");
        }
        assert_eq!(count("-5").unwrap_err(), "must not be negative");
        for word in ["18446744073709551616", "2^64", "1e20", "99999999999G", "2^99999999999", "1.9e99"] {
            assert!(count(word).unwrap_err().starts_with("number too large: "), "{word}: {:?}", count(word));
        }
        assert_eq!(
            (bytes("1G"), bytes("64k"), bytes("1Mi"), bytes("4096")),
            (Ok(1 << 30), Ok(65_536), Ok(1 << 20), Ok(4096))
        );
        assert!(bytes("Gi").is_err() && bytes("G").is_err());
        let small = within::<u16>(value_parser!(u16).into());
        assert_eq!(small("64k"), Ok(64_000));
        assert!(small("65536").unwrap_err().contains("65536 is not in"), "{:?}", small("65536"));
        let few = within::<u16>(value_parser!(u16).range(1..=16).into());
        assert_eq!((few("2^4"), few("1")), (Ok(16), Ok(1)));
        assert!(few("17").unwrap_err().contains("17 is not in 1..=16") && few("0").is_err() && few("-1").is_err());
    }

    /// A count reads alike with and without its suffix.
    #[test]
    fn every_small_count_survives_its_suffix() {
        for number in 0..3000u64 {
            assert_eq!(count(&number.to_string()), Ok(number));
            assert_eq!(count(&format!("{}.{:03}k", number / 1000, number % 1000)), Ok(number), "{number}");
            assert_eq!(count(&format!("{number}ki")), Ok(number * 1024));
            assert_eq!(count(&format!("{number}e3")), Ok(number * 1000));
        }
    }

    #[test]
    fn flags_of_all_depths_take_them() {
        let sub = Command::new("run").arg(Arg::new("txs").long("txs").value_parser(value_parser!(u64)));
        let sub = sub.arg(Arg::new("threads").long("threads").value_parser(value_parser!(usize)));
        let sub = sub.arg(Arg::new("alpha").long("alpha").value_parser(value_parser!(f64)));
        let command = || numbers(Command::new("phalanx").subcommand(Command::new("bench").subcommand(sub.clone())));
        let parse = |flags: &[&str]| command().try_get_matches_from([&["phalanx", "bench", "run"], flags].concat());
        let matches = parse(&["--txs", "1M", "--threads", "2^3", "--alpha", "-0.5"]).unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        assert_eq!(matches.get_one::<u64>("txs"), Some(&1_000_000));
        assert_eq!(matches.get_one::<usize>("threads"), Some(&8));
        assert_eq!(matches.get_one::<f64>("alpha"), Some(&-0.5));
        let why = parse(&["--txs", "-5"]).unwrap_err().to_string();
        assert!(why.contains("--txs") && why.contains("must not be negative"), "{why}");
    }
}
