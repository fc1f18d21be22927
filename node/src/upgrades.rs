//! Upgrades of a running chain: forks that its genesis does not schedule, or schedules for another time.
//!
//! The genesis names the chain, so it stays as it is; upgrades are laid over it. A node keeps those that it runs with in its folder, and
//! starts with others only if all blocks that it has keep their rules.

use crate::{
    durable::{failed, write_durably},
    error::NodeError,
};
use phalanx::{alloy::genesis::Genesis, chain::ChainSpec};
use serde_json::{Map, Value};
use std::{fs, io::ErrorKind, path::PathBuf, str::FromStr};

/// Name of the file in the node's folder.
const FILE: &str = "upgrades.json";

/// Keys of geth's chain configuration that an upgrade may have beside the blob parameters.
const TIMES: [&str; 10] = [
    "shanghaiTime",
    "cancunTime",
    "pragueTime",
    "osakaTime",
    "bpo1Time",
    "bpo2Time",
    "bpo3Time",
    "bpo4Time",
    "bpo5Time",
    "amsterdamTime",
];

/// Key of the blob parameters, by fork.
const BLOBS: &str = "blobSchedule";

/// Times of forks in seconds since 1970, and their blob parameters, under the keys of `config` in geth's `genesis.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upgrades(Map<String, Value>);

impl FromStr for Upgrades {
    type Err = String;

    /// Reads a JSON object as `{"osakaTime": 1800000000, "blobSchedule": {"osaka": {…}}}`.
    fn from_str(text: &str) -> Result<Self, String> {
        let keys: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let is_known = |key: &str| key == BLOBS || TIMES.contains(&key);
        match keys.keys().find(|key| !is_known(key)) {
            Some(key) => Err(format!("{key:?} is no upgrade: there are {}, {BLOBS}", TIMES.join(", "))),
            None => Ok(Self(keys)),
        }
    }
}

impl Upgrades {
    /// Rules of the chain of a genesis with these upgrades.
    ///
    /// # Errors
    /// [`NodeError::Chain`] if the genesis, or what becomes of it, is no chain that the engine knows.
    pub fn over(&self, genesis: &Genesis) -> Result<ChainSpec, NodeError> {
        let chain = |error: &dyn core::fmt::Display| NodeError::Chain(error.to_string());
        let begun = ChainSpec::from_genesis(genesis).map_err(|error| chain(&error))?;
        if self.0.is_empty() {
            return Ok(begun);
        }
        let mut config = serde_json::to_value(&genesis.config).map_err(|error| chain(&error))?;
        for (key, value) in &self.0 {
            match (&mut config[key], value) {
                (Value::Object(forks), Value::Object(changed)) if key == BLOBS => forks.extend(changed.clone()),
                (place, value) => *place = value.clone(),
            }
        }
        let config = serde_json::from_value(config).map_err(|error| {
            NodeError::Setting(format!("the upgrades are no part of a chain's configuration: {error}"))
        })?;
        let upgraded = ChainSpec::from_genesis(&Genesis { config, ..genesis.clone() });
        let upgraded = upgraded.map_err(|error| NodeError::Setting(format!("the upgrades: {error}")))?;
        if !upgraded.agrees_until(&begun, genesis.number.unwrap_or_default(), genesis.timestamp) {
            return Err(NodeError::Setting("the upgrades change the rules of the genesis: it is another chain".into()));
        }
        Ok(upgraded)
    }
}

/// Upgrades that the node of a folder last ran with.
#[derive(Debug)]
pub(crate) struct KeptUpgrades {
    path: PathBuf,
    kept: Upgrades,
}

impl KeptUpgrades {
    /// Reads the file of a folder; without one there are none.
    pub(crate) fn read(folder: &std::path::Path) -> Result<Self, NodeError> {
        let path = folder.join(FILE);
        let kept = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Upgrades::default(),
            read => {
                let parsed = read.map_err(|error| failed(&path, &error))?.parse();
                parsed.map_err(|what| failed(&path, &format!("{what}; restore it from a copy")))?
            }
        };
        Ok(Self { path, kept })
    }

    /// Keeps, durably, the upgrades that the node runs with, if they change no rule of blocks up to a number and a time.
    pub(crate) fn replace(self, wanted: &Upgrades, genesis: &Genesis, head: (u64, u64)) -> Result<(), NodeError> {
        let Self { path, kept } = self;
        if kept == *wanted {
            return Ok(());
        }
        let (number, timestamp) = head;
        if !wanted.over(genesis)?.agrees_until(&kept.over(genesis)?, number, timestamp) {
            let why = format!(
                "the upgrades change rules of blocks that there are, up to block {number} at {timestamp} s: a fork that has \
                 begun keeps its time and its parameters, which are in {}",
                path.display()
            );
            return Err(NodeError::Setting(why));
        }
        let text = serde_json::to_vec_pretty(&wanted.0).map_err(|error| failed(&path, &error))?;
        write_durably(&path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::dev_genesis;
    use alloy_primitives::U256;
    use phalanx::revm::primitives::hardfork::SpecId;

    fn genesis() -> Genesis {
        let mut genesis = dev_genesis(7, &[], U256::ZERO);
        genesis.config.osaka_time = None;
        genesis
    }

    fn upgrades(text: &str) -> Upgrades {
        text.parse().expect("upgrades")
    }

    #[test]
    fn forks_are_added_moved_and_given_parameters() {
        let chain = upgrades(r#"{"osakaTime": 1000}"#).over(&genesis()).expect("a chain");
        assert_eq!(chain.spec_at(5, 999, true), SpecId::PRAGUE);
        assert_eq!(chain.spec_at(5, 1000, true), SpecId::OSAKA);
        let blobs = r#"{"osakaTime": 1000, "bpo1Time": 2000, "blobSchedule":
            {"bpo1": {"target": 10, "max": 15, "baseFeeUpdateFraction": 8346193}}}"#;
        let chain = upgrades(blobs).over(&genesis()).expect("a chain");
        assert_eq!(chain.blob_params(2000).map(|params| params.max_blob_count), Some(15));
        assert_eq!(chain.blob_params(1999).map(|params| params.max_blob_count), Some(9));
    }

    #[test]
    fn what_is_no_upgrade_is_refused_with_a_reason() {
        for (text, part) in [
            ("[]", "invalid type"),
            ("{", "EOF"),
            (r#"{"osakatime": 1}"#, "osakatime"),
            (r#"{"chainId": 8}"#, "chainId"),
            (r#"{"londonBlock": 8}"#, "londonBlock"),
        ] {
            let why = text.parse::<Upgrades>().expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
        for (text, part) in [
            (r#"{"osakaTime": "soon"}"#, "configuration"),
            (r#"{"osakaTime": -1}"#, "configuration"),
            (r#"{"blobSchedule": 4}"#, "configuration"),
            (r#"{"osakaTime": 1000, "bpo1Time": 10}"#, "before"),
            (r#"{"bpo1Time": 10}"#, "without"),
            (r#"{"pragueTime": 1}"#, "genesis"),
            (r#"{"osakaTime": 0}"#, "genesis"),
        ] {
            let why = upgrades(text).over(&genesis()).expect_err(text).to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn a_fork_that_has_begun_stays_and_a_later_one_moves() {
        let folder = tempfile::tempdir().expect("a folder");
        let replace = |text: &str, head| KeptUpgrades::read(folder.path())?.replace(&upgrades(text), &genesis(), head);
        replace("{}", (0, 0)).expect("none");
        assert!(!folder.path().join(FILE).exists(), "nothing is kept without upgrades");
        replace(r#"{"osakaTime": 1000}"#, (5, 900)).expect("it comes");
        replace(r#"{"osakaTime": 1100}"#, (6, 950)).expect("it is postponed");
        replace(r#"{"osakaTime": 1100}"#, (9, 1200)).expect("it is in force");
        for changed in ["{}", r#"{"osakaTime": 1101}"#, r#"{"osakaTime": 1100, "bpo1Time": 1200}"#] {
            let why = replace(changed, (9, 1200)).expect_err(changed).to_string();
            assert!(why.contains("block 9 at 1200 s") && why.contains(FILE), "{why}");
        }
        replace(r#"{"osakaTime": 1100, "bpo1Time": 1201}"#, (9, 1200)).expect("it comes");
        fs::write(folder.path().join(FILE), "{\"osakaTime\": 11").expect("a torn file");
        let why = replace("{}", (9, 1200)).expect_err("damage").to_string();
        assert!(why.contains(FILE) && why.contains("copy"), "{why}");
    }
}
