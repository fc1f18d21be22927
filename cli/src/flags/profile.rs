//! `--profile`: flags by a name, or from a file. Flags of the command line override them.

use phalanx_lab::{
    config::{FAFO_PAPER, FAFO_TABLE_1},
    error::Usage,
};
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

/// Sizes of FAFO's Table 1 (§3.3): 2^30 accounts, 512 blocks of about 500,000 transfers, no contention. The paper has no oracle; every
/// eighth block is compared here.
const TABLE_1: [(&str, &str); 5] =
    [("accounts", "2^30"), ("txs", "256M"), ("block-txs", "500k"), ("alpha", "0"), ("oracle", "sampled")];

/// Flags that say how a run is measured: a block that is explained is not, so they are left out for `explain`.
pub(crate) const MEASUREMENT: [&str; 15] = [
    "executor",
    "pin",
    "touch",
    "signatures",
    "overlap",
    "store",
    "memory",
    "state",
    "durability",
    "hasher",
    "root",
    "runs",
    "oracle",
    "duration",
    "rate",
];

/// Flags of a profile with a name; `None` for no such name.
fn preset(name: &str) -> Option<Vec<(&'static str, &'static str)>> {
    let sized = |workload| [("workload", workload)].into_iter().chain(TABLE_1);
    let [native, erc20] = FAFO_TABLE_1;
    match name {
        FAFO_PAPER => Some(FAFO.to_vec()),
        name if name == native => Some(FAFO.into_iter().chain(sized("native")).collect()),
        name if name == erc20 => Some(FAFO.into_iter().chain(sized("erc20")).collect()),
        _ => None,
    }
}

/// A command line with the flags of its profile.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    pub(crate) words: Vec<OsString>,
    /// Name of the profile, and the words that it added; none without a profile.
    added: Option<(String, Vec<String>)>,
}

impl Expanded {
    /// True if the profile has added the flag.
    pub(crate) fn adds(&self, flag: &str) -> bool {
        let words = self.added.iter().flat_map(|(_, words)| words);
        words.filter_map(|word| word.strip_prefix("--")?.split('=').next()).any(|known| known == flag)
    }

    /// Line for an error about a flag that the profile added: the user did not write it.
    pub(crate) fn blame(&self, error: &str) -> Option<String> {
        let (profile, words) = self.added.as_ref()?;
        // Below the reason is how the command is used, with flags that nothing is wrong with.
        let error = error.split("\n\n").next().unwrap_or(error);
        let named = |word: &&String| {
            let flag = word.split('=').next().unwrap_or(word);
            error.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|known| known == flag)
        };
        words.iter().find(named).map(|word| format!("{word} is from --profile {profile}"))
    }
}

/// Adds the flags of the profile to a command line. Profiles of a comparison are within its variants.
pub(crate) fn expand(mut words: Vec<OsString>) -> Result<Expanded, Usage> {
    let is = |at: usize, name: &str| words.get(at).is_some_and(|word| word == name);
    let benches = is(1, "explain") || (is(1, "bench") && !is(2, "compare"));
    let Some(name) = benches.then(|| named(&words)).flatten() else { return Ok(Expanded { words, added: None }) };
    let flags = if let Some(flags) = preset(&name) {
        flags.into_iter().map(|(flag, value)| (flag.to_owned(), value.to_owned())).collect()
    } else if name.ends_with(".toml") {
        let text = fs::read_to_string(&name).map_err(|error| Usage(format!("--profile {name}: {error}")))?;
        read(&text).map_err(|error| Usage(format!("--profile {name}: {error}")))?
    } else {
        let known = FAFO_TABLE_1.join(" or ");
        return Err(Usage(format!("--profile must be {FAFO_PAPER} or a file FILE.toml, or {known}, not {name}")));
    };
    let said = |flag: &str, words: &[OsString]| {
        words.iter().filter_map(|word| word.to_str()?.strip_prefix("--")?.split('=').next()).any(|word| word == flag)
    };
    let left_out = |flag: &str| is(1, "explain") && MEASUREMENT.contains(&flag);
    let missing = flags.into_iter().filter(|(flag, _)| !said(flag, &words) && !left_out(flag));
    let added: Vec<String> = missing.map(|(flag, value)| format!("--{flag}={value}")).collect();
    words.extend(added.iter().map(OsString::from));
    Ok(Expanded { words, added: Some((name, added)) })
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
    use phalanx_lab::config::{self, LoadConfig, RunConfig, parse};

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn text(words: Vec<OsString>) -> String {
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_line_overrides_its_profile() {
        let line = "phalanx bench run --profile fafo-paper --order given --hasher=blake3";
        let expanded = text(expand(words(line)).unwrap().words);
        assert_eq!(expanded, format!("{line} --executor=dag --signatures=off --overlap=on --fast-path=on"));
        for untouched in [
            "phalanx bench run --txs 1",
            "phalanx",
            "phalanx state info --profile fafo-paper",
            "phalanx bench compare --preset abc --common --profile=fafo-paper",
        ] {
            assert_eq!(text(expand(words(untouched)).unwrap().words), untouched);
        }
        for wrong in ["phalanx bench run --profile paper", "phalanx bench run --profile=/nowhere.toml"] {
            assert!(expand(words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn table_1_has_the_papers_sizes() {
        for (name, workload) in FAFO_TABLE_1.into_iter().zip(["native", "erc20"]) {
            let expanded = expand(words(&format!("phalanx bench run --profile {name} --block-txs 1k"))).unwrap();
            let config: RunConfig = parse(expanded.words.into_iter().skip(3)).unwrap();
            let LoadConfig { accounts, txs, block_txs, alpha, .. } = config.load;
            assert_eq!((accounts, txs, block_txs, alpha), (1 << 30, 512 * 500_000, 1000, 0.0));
            assert_eq!(config::word(config.load.workload), workload);
            assert!(config.load.block_txs == 1000, "the command line overrides");
            config.check().unwrap();
        }
        assert!(
            expand(words("phalanx bench run --profile fafo")).unwrap_err().to_string().contains("fafo-table1-erc20")
        );
    }

    #[test]
    fn an_error_about_a_flag_of_the_profile_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("own.toml");
        fs::write(&file, "foo = 1\ntxs = 5").unwrap();
        let expanded = expand(words(&format!("phalanx bench run --profile {}", file.display()))).unwrap();
        let blame = expanded.blame("error: unexpected argument '--foo' found").unwrap();
        assert!(blame.starts_with("--foo=1 is from --profile ") && blame.ends_with("own.toml"), "{blame}");
        assert!(expanded.blame("invalid value for '--txs <TXS>'").is_some());
        fs::write(&file, "accounts = 5\nfoo = 1").unwrap();
        let expanded = expand(words(&format!("phalanx bench run --profile {}", file.display()))).unwrap();
        let error = "error: unexpected argument '--foo' found\n\nUsage: phalanx bench run --accounts <ACCOUNTS>";
        assert!(expanded.blame(error).unwrap().starts_with("--foo=1 is from"));
        assert!(expanded.blame("invalid value for '--block-txs <N>'").is_none(), "another flag");
        assert!(expand(words("phalanx bench run")).unwrap().blame("--foo").is_none());
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
