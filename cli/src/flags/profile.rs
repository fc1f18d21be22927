//! `--profile`: flags by a name, or from a file. Flags of the command line override them.

use phalanx_lab::{config::FAFO_PAPER, error::Usage};
use std::{ffi::OsString, fs};
use toml_edit::{DocumentMut, Value};

/// Flags of FAFO's code and paper, as far as this engine can follow them: the builder orders, senders are given, a root after
/// every block. Contention and sizes stay flags, as they are the axes of its figures.
const FAFO: [(&str, &str); 6] = [
    ("order", "free"),
    ("executor", "dag"),
    ("signatures", "off"),
    ("overlap", "on"),
    ("fast-path", "on"),
    ("hasher", "sha256"),
];

/// Adds the flags of the profile to a command line. Profiles of a comparison are within its variants.
pub(crate) fn expand(mut words: Vec<OsString>) -> Result<Vec<OsString>, Usage> {
    let is = |at: usize, name: &str| words.get(at).is_some_and(|word| word == name);
    let benches = is(1, "explain") || (is(1, "bench") && !is(2, "compare"));
    let Some(name) = benches.then(|| named(&words)).flatten() else { return Ok(words) };
    let flags = if name == FAFO_PAPER {
        FAFO.map(|(flag, value)| (flag.to_owned(), value.to_owned())).to_vec()
    } else if name.ends_with(".toml") {
        let text = fs::read_to_string(&name).map_err(|error| Usage(format!("--profile {name}: {error}")))?;
        read(&text).map_err(|error| Usage(format!("--profile {name}: {error}")))?
    } else {
        return Err(Usage(format!("--profile must be {FAFO_PAPER} or a file FILE.toml, not {name}")));
    };
    let said = |flag: &str, words: &[OsString]| {
        words.iter().filter_map(|word| word.to_str()?.strip_prefix("--")?.split('=').next()).any(|word| word == flag)
    };
    let given = words.clone();
    for (flag, value) in flags.into_iter().filter(|(flag, _)| !said(flag, &given)) {
        words.push(format!("--{flag}={value}").into());
    }
    Ok(words)
}

fn named(words: &[OsString]) -> Option<String> {
    let words = || words.iter().map(|word| word.to_string_lossy());
    let joined = words().find_map(|word| word.strip_prefix("--profile=").map(str::to_owned));
    joined.or_else(|| words().skip_while(|word| word != "--profile").nth(1).map(|word| word.into_owned()))
}

/// Flags and values; a list repeats its flag.
pub(crate) fn read(text: &str) -> Result<Vec<(String, String)>, String> {
    let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let mut flags = Vec::new();
    for (name, item) in document.iter() {
        let flag = name.replace('_', "-");
        if flag == "profile" {
            return Err("a profile cannot name another".into());
        }
        let value = item.as_value().ok_or_else(|| format!("{name} is a table; flags stand at the top"))?;
        match value {
            Value::Array(values) => {
                for value in values {
                    flags.push((
                        flag.clone(),
                        word(value).ok_or_else(|| format!("{name} has a value that is no flag's"))?,
                    ));
                }
            }
            value => flags.push((flag, word(value).ok_or_else(|| format!("{name} has a value that is no flag's"))?)),
        }
    }
    Ok(flags)
}

/// Switches are words on the command line, booleans in a file.
fn word(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => text.value().clone(),
        Value::Integer(number) => number.value().to_string(),
        Value::Float(number) => number.value().to_string(),
        Value::Boolean(switch) => if *switch.value() { "on" } else { "off" }.to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn text(words: Vec<OsString>) -> String {
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_line_overrides_its_profile() {
        let line = "phalanx bench run --profile fafo-paper --order given --hasher=blake3";
        let expanded = text(expand(words(line)).unwrap());
        assert_eq!(expanded, format!("{line} --executor=dag --signatures=off --overlap=on --fast-path=on"));
        for untouched in [
            "phalanx bench run --txs 1",
            "phalanx",
            "phalanx state info --profile fafo-paper",
            "phalanx bench compare --preset abc --common --profile=fafo-paper",
        ] {
            assert_eq!(text(expand(words(untouched)).unwrap()), untouched);
        }
        for wrong in ["phalanx bench run --profile paper", "phalanx bench run --profile=/nowhere.toml"] {
            assert!(expand(words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_toml_file_holds_flags() {
        let flags =
            read("block_txs = 5_000\nalpha = 0.5\nsignatures = true\nexecutor = [\"dag\", \"sequential\"]").unwrap();
        let told: Vec<_> = flags.iter().map(|(flag, value)| format!("{flag}={value}")).collect();
        assert_eq!(told, ["block-txs=5000", "alpha=0.5", "signatures=on", "executor=dag", "executor=sequential"]);
        for wrong in ["[table]\na = 1", "a =", "profile = \"b.toml\"", "a = [[1]]", "day = 2026-11-22"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
