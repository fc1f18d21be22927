//! CometBFT as a program: its version, the files that it makes, and the settings that are changed in them.

use anyhow::Context as _;
use phalanx_lab::error::Usage;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Beginnings of the versions whose ABCI the node speaks. v0.40.0 says of itself that it is v0.39.0.
const VERSIONS: [&str; 3] = ["0.38.", "0.39.", "0.40."];

/// The program CometBFT.
#[derive(Clone, Debug)]
pub(super) struct Program(PathBuf);

impl Program {
    /// Checks that the program is there, in a version that the node speaks with.
    pub(super) fn find(path: &Path) -> anyhow::Result<Self> {
        let install = "go install github.com/cometbft/cometbft/cmd/cometbft@v0.38.26 installs it";
        let output = Command::new(path).arg("version").output();
        let output = output.map_err(|error| Usage(format!("{}: {error}; {install}", path.display())))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().trim_start_matches('v').to_owned();
        if !output.status.success() || !VERSIONS.iter().any(|known| version.starts_with(known)) {
            let why = format!("{} is version {version:?}, and v0.38 to v0.40 are known; {install}", path.display());
            return Err(Usage(why).into());
        }
        Ok(Self(path.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes keys and files of validators in the folders `node0`, `node1` and so on.
    pub(super) fn make(&self, folder: &Path, validators: usize) -> anyhow::Result<()> {
        let mut command = Command::new(&self.0);
        command.args(["testnet", "--populate-persistent-peers=false", "--v", &validators.to_string(), "--o"]);
        self.ask(command.arg(folder), folder).map(drop)
    }

    /// Makes keys and files of a node without a vote.
    pub(super) fn make_full(&self, home: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(&self.0);
        self.ask(command.args(["init", "full", "--home"]).arg(home), home).map(drop)
    }

    /// Name of a validator for its peers.
    pub(super) fn id(&self, home: &Path) -> anyhow::Result<String> {
        let mut command = Command::new(&self.0);
        let output = self.ask(command.arg("show-node-id").arg("--home").arg(home), home)?;
        let id = output.trim().to_owned();
        anyhow::ensure!(id.len() == 40, "CometBFT names {} {id:?}", home.display());
        Ok(id)
    }

    /// Runs a command to its end. CometBFT gets a home of its own, since it makes one if there is none.
    fn ask(&self, command: &mut Command, home: &Path) -> anyhow::Result<String> {
        let output = command.env("CMTHOME", home).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("starting {}", self.0.display()))?;
        let error = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{} ended with {}: {error}", self.0.display(), output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Names the chain in the genesis that CometBFT has made, and asks for vote extensions from the first block on. Only the first
/// genesis counts: every validator gets a copy.
pub(super) fn name_chain(homes: &[PathBuf], chain: u64) -> anyhow::Result<()> {
    let path = |home: &PathBuf| home.join("config/genesis.json");
    let Some(first) = homes.first().map(path) else { return Ok(()) };
    let text = fs::read_to_string(&first).with_context(|| format!("reading {}", first.display()))?;
    let mut genesis: Value = serde_json::from_str(&text).with_context(|| format!("reading {}", first.display()))?;
    genesis["chain_id"] = json!(format!("phalanx-{chain}"));
    genesis["initial_height"] = json!("1");
    genesis["consensus_params"]["abci"]["vote_extensions_enable_height"] = json!("1");
    let text = serde_json::to_string_pretty(&genesis)?;
    for home in homes {
        let path = path(home);
        fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Changes settings in a `config.toml` of CometBFT, and nothing else. A name is a section, which may be empty, and a key.
pub(super) fn set(text: &str, settings: &[((&str, &str), String)]) -> anyhow::Result<String> {
    let (mut section, mut lines, mut found) = ("", Vec::new(), vec![false; settings.len()]);
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            section = name;
        }
        let key = line.split_once(" = ").map(|(key, _)| key.trim());
        match settings.iter().position(|((of, name), _)| *of == section && Some(*name) == key) {
            Some(place) => {
                found[place] = true;
                lines.push(format!("{} = {}", settings[place].0.1, settings[place].1));
            }
            None => lines.push(line.to_owned()),
        }
    }
    if let Some(((section, key), _)) = settings.iter().zip(found).find(|(_, found)| !found).map(|(setting, _)| setting)
    {
        anyhow::bail!("CometBFT's configuration has no setting {section}.{key}");
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_change_in_their_section_alone() {
        let text = "moniker = \"a\"\n# laddr = 0\n[rpc]\nladdr = \"x\"\n\n[p2p]\nladdr = \"y\"\n";
        let changed = set(text, &[(("p2p", "laddr"), "\"z\"".into()), (("", "moniker"), "1".into())]).unwrap();
        assert_eq!(changed, "moniker = 1\n# laddr = 0\n[rpc]\nladdr = \"x\"\n\n[p2p]\nladdr = \"z\"\n");
        let error = set(text, &[(("rpc", "cors"), "1".into())]).unwrap_err();
        assert_eq!(error.to_string(), "CometBFT's configuration has no setting rpc.cors");
    }

    #[test]
    fn a_program_that_is_not_there_or_is_another_is_refused() {
        for path in ["/nowhere/cometbft", "true", "false"] {
            let error = Program::find(Path::new(path)).unwrap_err();
            assert!(error.is::<Usage>() && error.to_string().contains("go install"), "{error}");
        }
    }
}
