//! Flags of `node` from the environment and from a TOML file. The command line overrides both, the environment the file.

use super::args::NodeArgs;
use crate::flags::profile;
use clap::Args as _;
use phalanx_lab::error::Usage;
use std::{ffi::OsString, fs};

/// Beginning of the names of variables that are flags.
const PREFIX: &str = "PHALANX_NODE_";

/// Adds the flags that the environment and `--config` name to the command line of `node`. A variable of that kind which names no flag
/// is an error: it is a slip, and the node would run without what it says.
pub(crate) fn expand(
    mut words: Vec<OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<OsString>, Usage> {
    if words.get(1).is_none_or(|word| word != "node") {
        return Ok(words);
    }
    let command = NodeArgs::augment_args(clap::Command::new("node"));
    let flags: Vec<String> = command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
    let mut named = Vec::new();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        // Kubernetes and Docker give processes the addresses of services, under such names beside a service phalanx-node.
        let is_of_service = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"].iter().any(|part| name.contains(part));
        if is_of_service || name.ends_with("_PORT") {
            continue;
        }
        let is_it = |flag: &&String| name[PREFIX.len()..] == flag.replace('-', "_").to_uppercase();
        let flag = flags.iter().find(is_it).ok_or_else(|| Usage(format!("{name} is no flag of node: unset it")))?;
        let value = value.into_string().map_err(|_| Usage(format!("the value of {name} is no text")))?;
        named.push((flag, value));
    }
    // In the order of the flags, whatever that of the environment.
    named.sort_by_key(|(flag, _)| flags.iter().position(|known| known == *flag));
    for (flag, value) in named.into_iter().filter(|(flag, _)| !said(flag, &words)).collect::<Vec<_>>() {
        words.push(format!("--{flag}={value}").into());
    }
    let Some(path) = config(&words) else { return Ok(words) };
    let wrong = |why: String| Usage(format!("--config {path}: {why}"));
    let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let mut lists: Vec<(String, Vec<String>)> = Vec::new();
    for (flag, value) in profile::read(&text).map_err(wrong)? {
        if flag == "config" || !flags.contains(&flag) {
            return Err(wrong(format!("{flag} is no flag of node")));
        }
        match lists.last_mut() {
            Some((last, values)) if *last == flag => values.push(value),
            _ => lists.push((flag, vec![value])),
        }
    }
    for (flag, values) in lists {
        if !said(&flag, &words) {
            words.push(format!("--{flag}={}", values.join(",")).into());
        }
    }
    Ok(words)
}

/// True if the command line has a flag.
fn said(flag: &str, words: &[OsString]) -> bool {
    words.iter().filter_map(|word| word.to_str()?.strip_prefix("--")?.split('=').next()).any(|word| word == flag)
}

/// File of the last `--config`.
fn config(words: &[OsString]) -> Option<String> {
    let words = || words.iter().map(|word| word.to_string_lossy());
    let joined = words().find_map(|word| word.strip_prefix("--config=").map(str::to_owned));
    joined.or_else(|| words().skip_while(|word| word != "--config").nth(1).map(|word| word.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(line: &str, environment: &[(&str, &str)]) -> Result<String, Usage> {
        let words = line.split_whitespace().map(OsString::from).collect();
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        let words = expand(words, environment)?;
        Ok(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_command_line_comes_before_the_environment_and_that_before_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.toml");
        fs::write(&path, "dev = true\nhistory = 7\ngas_limit = 30_000_000\nrpc_api = [\"eth\", \"net\"]\n").unwrap();
        let line = format!("phalanx node --history 3 --config {}", path.display());
        let environment = [("PHALANX_NODE_GAS_LIMIT", "5"), ("PHALANX_NODE_HISTORY", "4"), ("OTHER", "1")];
        let whole = expanded(&line, &environment).unwrap();
        assert_eq!(whole, format!("{line} --gas-limit=5 --dev=on --rpc-api=eth,net"));
        assert_eq!(expanded("phalanx demo", &environment).unwrap(), "phalanx demo");
        fs::write(&path, "colour = 1\n").unwrap();
        let error = expanded(&line, &[]).unwrap_err();
        assert!(error.0.ends_with("colour is no flag of node"), "{error}");
        assert!(expanded("phalanx node --config=/nowhere.toml", &[]).is_err());
        for slip in ["PHALANX_NODE_HISTROY", "PHALANX_NODE_", "PHALANX_NODE_history", "PHALANX_NODE_DATA_DIR"] {
            let error = expanded("phalanx node --dev", &[(slip, "1")]).unwrap_err();
            assert!(error.0.starts_with(&format!("{slip} is no flag of node")), "{error}");
            assert!(expanded("phalanx demo", &[(slip, "1")]).is_ok(), "another command");
        }
    }
}
