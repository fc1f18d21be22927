//! `localnet`: a chain of several validators on this machine, each a node with a CometBFT beside it, or with a replica in it.

mod run;
mod joiner;
mod faults;
mod partitions;
mod height;
mod validator;

mod layout;
mod replicas;
mod links;
mod comet;

use crate::cmd::node::Consensus;
use anyhow::Context as _;
use clap::{
    Args, ValueEnum as _,
    builder::{PossibleValuesParser, TypedValueParser},
    value_parser,
};
use comet::Program;
use faults::Faults;
use layout::{Layout, Order, Plan};
use partitions::Partitions;
use phalanx_lab::{
    config::{heading, threads as checked},
    error::Usage,
    machine::temporary::Temporary,
};
use std::{path::PathBuf, time::Duration};

/// Chain id, which CometBFT's genesis repeats: networks in folders have it.
const CHAIN: u64 = 1337;

/// Consensus among validators. A consensus client, which `node` knows too, drives one node.
fn of_validators() -> impl TypedValueParser<Value = Consensus> {
    let those = Consensus::value_variants().iter().filter(|one| **one != Consensus::Engine);
    let names = PossibleValuesParser::new(those.filter_map(Consensus::to_possible_value));
    names.map(|name| Consensus::from_str(&name, false).expect("a possible value"))
}

#[derive(Debug, Args)]
pub(crate) struct LocalnetArgs {
    /// Consensus of the validators
    #[arg(long, default_value = "cometbft", value_parser = of_validators(), help_heading = heading::NETWORK)]
    consensus: Consensus,
    /// Number of validators
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u16).range(1..=16), help_heading = heading::NETWORK)]
    validators: u16,
    /// Folder of keys, chains and logs: a later start continues there [default: a temporary one, which goes at the end]
    #[arg(long, value_name = "DIR", help_heading = heading::NETWORK)]
    folder: Option<PathBuf>,
    /// First port of JSON-RPC: validator I listens on this one + I. 0 takes free ones
    #[arg(long, value_name = "PORT", default_value_t = 8545, help_heading = heading::NETWORK)]
    rpc_port: u16,
    /// Chain id
    #[arg(long, value_name = "ID", default_value_t = CHAIN, help_heading = heading::NETWORK)]
    chain_id: u64,
    /// Number of funded accounts, at most 10
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u16).range(0..=10), help_heading = heading::NETWORK)]
    accounts: u16,
    /// Milliseconds that CometBFT waits after a block for more votes, which is most of the time between two blocks
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = value_parser!(u64).range(1..=60_000), help_heading = heading::NETWORK)]
    period: u64,
    /// The program CometBFT, v0.38 to v0.40
    #[arg(long, value_name = "FILE", default_value = "cometbft", help_heading = heading::NETWORK)]
    cometbft: PathBuf,
    /// Let CometBFT keep no transactions, and fetch them from the nodes' pools: its mempool.type "app", from v0.40 on
    #[arg(long, help_heading = heading::NETWORK)]
    app_mempool: bool,
    /// End a random process by kill -9 every so many milliseconds, with CometBFT in turn one of these and a node; each kill waits until
    /// every validator has a block since the last one
    #[arg(long, value_name = "MS", value_parser = value_parser!(u64).range(1..), help_heading = heading::FAULTS)]
    kill: Option<u64>,
    /// Cut the links between two random groups of validators for so many milliseconds, and again so long after they have
    /// healed; each waits until every validator has a block since the last one
    #[arg(long, value_name = "MS", value_parser = value_parser!(u64).range(1..), help_heading = heading::FAULTS)]
    partition: Option<u64>,
    /// Let a node without a vote join by state sync once there is a snapshot
    #[arg(long, help_heading = heading::NETWORK)]
    join: bool,
    /// Heights from one snapshot for nodes that join to the next; 0 for none
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = heading::NETWORK)]
    snapshot_every: u64,
    /// Seed of the choice of processes and groups
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = heading::FAULTS)]
    seed: u64,
    /// Worker threads of each node's engine
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = heading::NETWORK)]
    threads: u16,
}

impl LocalnetArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        checked(Some(self.threads.into()))?;
        let order = match self.consensus.protocol() {
            None => Order::Comet(Program::find(&self.cometbft)?),
            Some(_) if self.join || self.app_mempool => {
                return Err(Usage("--join and --app-mempool are of --consensus cometbft".into()).into());
            }
            Some(protocol) => Order::Replicas(protocol),
        };
        let (folder, temporary) = match &self.folder {
            Some(folder) => (folder.clone(), None),
            None => {
                let folder = Temporary::new().context("making a temporary folder")?;
                (folder.path().to_owned(), Some(folder))
            }
        };
        let &Self { validators, accounts, chain_id: chain, rpc_port, period, threads, snapshot_every, join, .. } = self;
        if join && snapshot_every == 0 {
            return Err(Usage("--join needs snapshots: --snapshot-every is 0".into()).into());
        }
        let (links, app_mempool) = (self.partition.is_some(), self.app_mempool);
        let plan =
            Plan { validators, accounts, chain, rpc_port, period, threads, snapshot_every, join, links, app_mempool };
        let layout = Layout::open(&folder, &order, plan)?;
        let faults = self.kill.map(|every| Faults::new(Duration::from_millis(every), self.seed));
        let partitions = self.partition.map(|lasting| Partitions::new(Duration::from_millis(lasting), self.seed));
        let code = run::run(&layout, &order, faults, partitions)?;
        drop(temporary);
        Ok(code)
    }
}
