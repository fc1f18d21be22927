//! Flags of `node`, and the settings that they make.

use super::{
    consensus::ConsensusArgs,
    development::{DevelopmentArgs, begin},
    service::{ServiceArgs, one_or_more, server},
};
use anyhow::Context as _;
use clap::{Args, ValueEnum, builder::BoolishValueParser};
use phalanx::alloy::{genesis::Genesis, primitives::Address};
use phalanx_lab::{
    config::{Words, heading, one_of, threads},
    error::Usage,
    machine::temporary::Temporary,
};
use phalanx_node::{
    DEV_NAMESPACES, DevAccount, Development, Durability, NodeConfig, Production, Remote, StorePlace, Upgrades,
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Number of older states of a chain for development that can be read: each takes some 16 KiB of memory.
const DEV_HISTORY: usize = 1 << 14;

/// Number of older states of other chains.
const HISTORY: usize = 128;

/// Namespaces of JSON-RPC that a chain for development has beside the usual ones.
const DEBUGGING: [&str; 4] = ["debug", "trace", "ots", "erigon"];

/// Refusal of a node without a genesis.
const NO_CHAIN: &str = "name a chain: --genesis FILE, or --dev";

/// Database of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Database {
    /// Segments of files
    File,
    /// RocksDB, if it is built in
    Rocks,
}

/// Faults that a committed block survives.
const DURABILITIES: Words<Durability> =
    &[(Durability::Block, "block", "A power cut"), (Durability::Async, "async", "kill -9, but no power cut")];

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// Chain for development: every hard fork, funded accounts, a block per transaction
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = BoolishValueParser::new(), value_name = "BOOL", hide_possible_values = true)]
    dev: bool,
    #[command(flatten)]
    pub(super) development: DevelopmentArgs,
    /// Chain and its first accounts, as geth's genesis.json
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// Forks that the chain takes after its genesis, as a JSON object: {"osakaTime": 1800000000}
    #[arg(long, value_name = "FILE")]
    upgrades: Option<PathBuf>,
    /// Folder of state and blocks [default: that of the replica with --network; with --dev a temporary one, which goes at the end]
    #[arg(long, value_name = "DIR", help_heading = heading::STORE)]
    datadir: Option<PathBuf>,
    /// Database of the state
    #[arg(long, value_enum, default_value = "file", help_heading = heading::STORE)]
    database: Database,
    /// Faults that a committed block survives [default: block, async with --dev]
    #[arg(long, value_parser = one_of(DURABILITIES), help_heading = heading::STORE)]
    durability: Option<Durability>,
    /// Number of older states that can be read [default: 128, 16384 with --dev]
    #[arg(long, value_name = "N", help_heading = heading::STORE)]
    history: Option<usize>,
    /// Number of blocks whose bodies and receipts are kept [default: all]
    #[arg(long, value_name = "N", value_parser = one_or_more::<u64>, help_heading = heading::STORE)]
    keep_blocks: Option<u64>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = one_or_more::<usize>, help_heading = heading::BLOCKS)]
    threads: Option<usize>,
    /// When blocks are made: instant, a period as 500ms or 2s, or off [default: instant with --dev alone, else off]
    #[arg(long, value_name = "WHEN", value_parser = production, help_heading = heading::BLOCKS)]
    blocks: Option<Production>,
    /// Follow the node with this JSON-RPC instead: execute its blocks, compare every root, and send it the transactions
    #[arg(long, value_name = "URL", value_parser = server, help_heading = heading::BLOCKS)]
    follow: Option<String>,
    #[command(flatten)]
    pub(super) consensus: ConsensusArgs,
    /// Gas limit of made blocks, reached by steps of less than 1/1024 per block, at once with --dev [default: the genesis's]
    #[arg(long, value_name = "GAS", value_parser = one_or_more::<u64>, help_heading = heading::BLOCKS)]
    gas_limit: Option<u64>,
    /// Account that gets the fees of made blocks
    #[arg(long, value_name = "ADDRESS", default_value = "0x0000000000000000000000000000000000000000", help_heading = heading::BLOCKS)]
    beneficiary: Address,
    /// Minimum tip of a transaction, in wei per gas
    #[arg(long, value_name = "WEI", default_value_t = 0, help_heading = heading::BLOCKS)]
    min_tip: u128,
    #[command(flatten)]
    pub(super) service: ServiceArgs,
    /// Read further flags from a TOML file: flags of the command line come first, then PHALANX_NODE_*, then the file
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
}

/// Settings of a node, and what lives as long as it.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) config: NodeConfig,
    pub(super) accounts: Vec<DevAccount>,
    /// The folder, if it goes at the end.
    pub(super) temporary: Option<Temporary>,
}

/// When blocks are made, in words.
pub(crate) fn production(text: &str) -> Result<Production, String> {
    match text {
        "instant" => return Ok(Production::Instant),
        "off" => return Ok(Production::Off),
        _ => {}
    }
    let (digits, milliseconds) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, 1),
        (None, Some(digits)) => (digits, 1000),
        (None, None) => ("", 0),
    };
    let period = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(milliseconds));
    let period = period.filter(|period| (1..=86_400_000).contains(period));
    let period = period.ok_or("instant, off, or a period from 1ms to 86400s is expected")?;
    Ok(Production::Every(Duration::from_millis(period)))
}

impl NodeArgs {
    pub(super) fn settings(&self) -> anyhow::Result<Settings> {
        let accounts = if self.dev { self.development.accounts()? } else { Vec::new() };
        let replica = self.consensus.replica()?;
        let own = self.datadir.as_deref().or_else(|| replica.as_ref().map(|replica| replica.folder.as_path()));
        let (folder, temporary) = match (own, self.dev) {
            (Some(folder), _) => (folder.to_owned(), None),
            (None, true) => {
                let folder = Temporary::new().context("making a temporary folder")?;
                (folder.path().to_owned(), Some(folder))
            }
            (None, false) if self.genesis.is_none() => return Err(Usage(NO_CHAIN.into()).into()),
            (None, false) => return Err(Usage("--datadir names no folder, and only --dev does without".into()).into()),
        };
        let remote = self.development.remote.open(self.is_development(), &folder)?;
        let genesis = self.read_genesis(&accounts, &folder, remote.as_ref())?;
        let mut config = NodeConfig::new(genesis, self.place(folder)?);
        config.upgrades = self.read_upgrades()?;
        let usual = if self.is_development() { Durability::Async } else { Durability::Block };
        config.durability = self.durability.unwrap_or(usual);
        config.development = self.is_development().then(|| Development { accounts: accounts.clone() });
        config.remote = remote;
        config.production =
            self.blocks.unwrap_or(if self.is_development() { Production::Instant } else { Production::Off });
        config.source = self.consensus.source(config.store.folder(), replica, self.follow.clone())?;
        config.history = self.history.unwrap_or(if self.is_development() { DEV_HISTORY } else { HISTORY });
        config.keep_blocks = self.keep_blocks;
        config.threads = self.threads.map(|of| threads(Some(of))).transpose()?;
        config.gas_limit = self.gas_limit;
        config.beneficiary = self.beneficiary;
        config.min_tip = self.min_tip;
        config.metrics = self.service.metrics;
        config.rpc = match (self.dev, self.is_development()) {
            (false, _) => self.service.rpc(&[], &[]),
            (true, false) => self.service.rpc(&DEBUGGING, &["*"]),
            (true, true) => self.service.rpc(&[&DEBUGGING[..], &DEV_NAMESPACES].concat(), &["*"]),
        };
        config.ingress.clone_from(&self.service.ingress);
        Ok(Settings { config, accounts, temporary })
    }

    /// True if this node alone makes the blocks of a chain for development.
    const fn is_development(&self) -> bool {
        self.dev && self.consensus.is_none() && self.follow.is_none()
    }

    fn read_genesis(&self, accounts: &[DevAccount], folder: &Path, remote: Option<&Remote>) -> anyhow::Result<Genesis> {
        match (&self.genesis, self.dev) {
            (Some(_), true) => Err(Usage("--dev has a genesis of its own: leave out --genesis".into()).into()),
            (None, true) if self.follow.is_some() => {
                let why = "a node that follows has the genesis of the other: --genesis FILE, which --dev writes as \
                           genesis.json into its --datadir";
                Err(Usage(why.into()).into())
            }
            (None, true) => self.dev_genesis(accounts, folder, remote),
            (None, false) => Err(Usage(NO_CHAIN.into()).into()),
            (Some(path), false) => {
                let text = fs::read_to_string(path).map_err(|error| Usage(format!("{}: {error}", path.display())))?;
                let genesis = serde_json::from_str(&text);
                Ok(genesis.map_err(|error| Usage(format!("{}: {error}", path.display())))?)
            }
        }
    }

    fn read_upgrades(&self) -> anyhow::Result<Upgrades> {
        let Some(path) = &self.upgrades else { return Ok(Upgrades::default()) };
        let refused = |why: String| Usage(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        Ok(text.parse().map_err(refused)?)
    }

    fn dev_genesis(&self, accounts: &[DevAccount], folder: &Path, remote: Option<&Remote>) -> anyhow::Result<Genesis> {
        let mut genesis = self.development.genesis(accounts, remote);
        if self.consensus.has_replicas() {
            genesis.config.extra_fields.insert("phalanxFixedBaseFee".into(), true.into());
        }
        match self.is_development() {
            true => begin(genesis, self.gas_limit, folder, remote),
            false => Ok(genesis),
        }
    }

    #[cfg_attr(feature = "rocksdb", expect(clippy::missing_const_for_fn, reason = "it makes an error without RocksDB"))]
    fn place(&self, folder: PathBuf) -> anyhow::Result<StorePlace> {
        match self.database {
            Database::File => Ok(StorePlace::Folder(folder)),
            #[cfg(feature = "rocksdb")]
            Database::Rocks => Ok(StorePlace::Rocks(folder)),
            #[cfg(not(feature = "rocksdb"))]
            Database::Rocks => Err(Usage("RocksDB is not built in: use --database file".into()).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_instantly_by_period_or_never() {
        assert_eq!(production("instant"), Ok(Production::Instant));
        assert_eq!(production("off"), Ok(Production::Off));
        assert_eq!(production("250ms"), Ok(Production::Every(Duration::from_millis(250))));
        assert_eq!(production("12s"), Ok(Production::Every(Duration::from_secs(12))));
        for wrong in ["", "s", "ms", "0s", "-1s", "1", "1h", "86401s", "99999999999999999999s"] {
            assert!(production(wrong).is_err(), "{wrong}");
        }
    }
}
