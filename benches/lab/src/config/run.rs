//! Settings of a run of the whole engine.

use super::{
    heading,
    load::LoadConfig,
    pace::Pace,
    parse,
    store::Store,
    word::{Word, Words, choice, word},
};
use crate::{
    error::Usage,
    machine::{host, memory, pin},
};
use clap::{ArgAction, Args};
use phalanx::{
    BlockLimits, Executor, Order, RootKind, Traces,
    merkle::{Durability, HashFn, Memory, Params, Reading, StoreConfig},
    paralyze::Layers,
    parascheduler::max_threads,
    revm::primitives::hardfork::SpecId,
};
use phalanx_workloads::TransferLoad;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Name of FAFO's profile.
pub const FAFO_PAPER: &str = "fafo-paper";

/// Names of FAFO's profile with the sizes of its Table 1.
pub const FAFO_TABLE_1: [&str; 2] = ["fafo-table1-native", "fafo-table1-erc20"];

/// Rules that FAFO's code lacks and that this engine cannot switch off: they apply under every profile.
pub const KEPT_RULES: [&str; 5] = ["nonces", "fees", "gas-limit", "receipts", "access-sets-found-here"];

/// Threads from which on the size of a block is looked at; transactions per thread that are too few, and enough, in a block.
const MANY_THREADS: usize = 8;
const THIN: usize = 2_000;
const TXS_PER_THREAD: usize = 25_000;

/// Number of threads to use: `asked`, or one per core.
///
/// # Errors
/// If `asked` is out of range.
pub fn threads(asked: Option<usize>) -> Result<usize, Usage> {
    let (cores, most) = (host::cores(), max_threads());
    match asked {
        None => Ok(cores),
        Some(n) if (1..=most).contains(&n) => Ok(n),
        Some(n) => Err(Usage(format!("--threads must be between 1 and {most} on {cores} cores, not {n}"))),
    }
}

/// Share of the blocks that sequential revm executes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OracleKind {
    /// Every block.
    Full,
    /// The first eighth of the blocks, at least one.
    Sampled,
    /// No block; the final balances are checked by arithmetic.
    Off,
}

impl Word for OracleKind {
    const WORDS: Words<Self> = &[
        (Self::Full, "full", "Every block is compared with sequential revm"),
        (Self::Sampled, "sampled", "The first eighth of the blocks, at least one, is compared"),
        (Self::Off, "off", "Only the final balances are checked by arithmetic"),
    ];
}

/// Settings of a run of the whole engine.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct RunConfig {
    /// The transactions.
    #[command(flatten)]
    pub load: LoadConfig,
    /// Order of the transactions
    #[arg(long, value_parser = choice::<Order>(), default_value = "free", help_heading = heading::ENGINE)]
    pub order: Order,
    /// Executor; repeatable, all run the same blocks in turns
    #[arg(long = "executor", value_parser = choice::<Executor>(), default_values = ["dag"], help_heading = heading::ENGINE)]
    pub executors: Vec<Executor>,
    /// Source of access sets
    #[arg(long, value_parser = choice::<Layers>(), default_value = "static", help_heading = heading::ENGINE)]
    pub access: Layers,
    /// Worker threads [default: one per core]
    #[arg(long, help_heading = heading::ENGINE)]
    pub threads: Option<usize>,
    /// Confine each run to as many cores as it has threads, worker i to core i, all other threads to these cores (Linux).
    /// Physical cores come before their siblings, and one NUMA node before the next
    #[arg(long, action = ArgAction::Set, value_parser = choice::<bool>(), default_value = "off", num_args = 0..=1, default_missing_value = "on", help_heading = heading::MEASURE)]
    pub pin: bool,
    /// Memory, in GiB, to write to before the timer starts, so that the run need not wait for new pages. `phalanx doctor`
    /// measures how long they take
    #[arg(long, value_name = "GIB", default_value_t = 0, help_heading = heading::MEASURE)]
    pub touch: u64,
    /// Sign the transactions and recover their senders inside the timer
    #[arg(long, action = ArgAction::Set, value_parser = choice::<bool>(), default_value = "off", help_heading = heading::ENGINE)]
    pub signatures: bool,
    /// Plan the next block while one is executed, on the state before it (in turns on one thread)
    #[arg(long, action = ArgAction::Set, value_parser = choice::<bool>(), default_value = "on", help_heading = heading::ENGINE)]
    pub overlap: bool,
    /// Execute plain transfers of the DAG without the EVM
    #[arg(long, action = ArgAction::Set, value_parser = choice::<bool>(), default_value = "on", help_heading = heading::ENGINE)]
    pub fast_path: bool,
    /// Replay contract calls of the DAG from recorded traces; `check` interprets them as well and compares
    #[arg(long, value_parser = choice::<Traces>(), default_value = "on", help_heading = heading::ENGINE)]
    pub traces: Traces,
    /// Place of the state: mem, file:DIR or rocks:DIR, a new or empty folder
    #[arg(long, value_parser = Store::parse, default_value = "mem", help_heading = heading::STORE)]
    pub store: Store,
    /// Part of the state in memory: resident, or cached:BYTES (with K, M or G) of values besides an index; the others are read
    /// from disk. For a state on disk
    #[arg(long, value_parser = super::memory, default_value = "resident", help_heading = heading::STORE)]
    pub memory: Memory,
    /// Folder of a state that is made once: a genesis is written there if it is empty, and each run works on a copy, which
    /// shares what does not change. In place of --store
    #[arg(long, value_name = "DIR", help_heading = heading::STORE)]
    pub state: Option<PathBuf>,
    /// Failures that a committed block survives
    #[arg(long, value_parser = choice::<Durability>(), default_value = "async", help_heading = heading::STORE)]
    pub durability: Durability,
    /// Hash of the state commitment
    #[arg(long, value_parser = choice::<HashFn>(), default_value = "sha256", help_heading = heading::STORE)]
    pub hasher: HashFn,
    /// Root that blocks report
    #[arg(long, value_parser = choice::<RootKind>(), default_value = "twigs", help_heading = heading::STORE)]
    pub root: RootKind,
    /// Rules of the EVM
    #[arg(long, value_parser = choice::<SpecId>(), default_value = "osaka", help_heading = heading::ENGINE)]
    pub evm_spec: SpecId,
    /// Gas limit of a block, by the sum of its transactions' limits
    #[arg(long, default_value_t = 30_000_000_000, help_heading = heading::ENGINE)]
    pub block_gas: u64,
    /// Repetitions of each executor
    #[arg(long, default_value_t = 1, help_heading = heading::MEASURE)]
    pub runs: usize,
    /// Profile of flags; flags of the command line override it: a TOML file, fafo-paper for the rules of FAFO's paper, or
    /// fafo-table1-native or fafo-table1-erc20 for its sizes too, 2^30 accounts and 512 blocks of 500,000 transfers
    #[arg(long, value_name = "FILE.toml|NAME")]
    pub profile: Option<String>,
    /// Share of the blocks that are compared with sequential revm
    #[arg(long, value_parser = choice::<OracleKind>(), default_value = "full", help_heading = heading::MEASURE)]
    pub oracle: OracleKind,
    /// Length of the run, and arrivals.
    #[arg(skip)]
    pub pace: Pace,
    /// File for a timeline of every run.
    #[arg(skip)]
    pub trace: Option<PathBuf>,
    /// Command that the result carries.
    #[arg(skip)]
    pub command: String,
}

impl Default for RunConfig {
    fn default() -> Self {
        parse([]).expect("every flag has a default")
    }
}

impl RunConfig {
    /// Limits of a block.
    pub const fn limits(&self) -> BlockLimits {
        BlockLimits { max_txs: self.load.block_txs, max_gas: self.block_gas }
    }

    /// The load that these settings describe, which may take `memory` bytes.
    pub(crate) fn transfers(&self, memory: u64) -> TransferLoad {
        let (signatures, memory_limit) = (self.signatures, Some(memory));
        let state_gas = self.evm_spec.is_enabled_in(SpecId::AMSTERDAM);
        TransferLoad { signatures, memory_limit, state_gas, ..self.load.transfers() }
    }

    /// Settings of the state store at `store`.
    ///
    /// # Errors
    /// If this build lacks the backend.
    pub fn store_config(&self, store: &Store) -> Result<StoreConfig, Usage> {
        let params = Params::with_hash(self.hasher);
        let config = StoreConfig::new(store.backend()?).with_durability(self.durability).with_params(params);
        Ok(match self.memory {
            // Past the page cache: memory is what the cache of values takes.
            Memory::Cached { .. } if *store != Store::Mem => {
                config.with_memory(self.memory).with_reading(Reading::Direct)
            }
            _ => config,
        })
    }

    /// Folder of a state on disk.
    pub fn folder(&self) -> Option<&std::path::Path> {
        self.store.path().or(self.state.as_deref())
    }

    /// Refuses settings that no run could carry out.
    ///
    /// # Errors
    /// With the first such setting.
    pub fn check(&self) -> Result<(), Usage> {
        pin::check(self.pin, threads(self.threads)?)?;
        self.store.check()?;
        self.load.check()?;
        if self.state.is_some() && self.store != Store::Mem {
            return Err(Usage("--state names where the state is, so --store has no place beside it".into()));
        }
        if self.memory != Memory::Resident && self.store == Store::Mem && self.state.is_none() {
            return Err(Usage("--memory cached keeps values on disk: name a folder with --store file:DIR".into()));
        }
        memory::check(self.touch)?;
        self.pace.check(self.signatures)?;
        if self.runs == 0 || self.runs > 1000 {
            return Err(Usage(format!("--runs must be between 1 and 1000, not {}", self.runs)));
        }
        let gas = self.load.workload.gas_limit();
        if self.block_gas < gas {
            return Err(Usage(format!("--block-gas must hold one transaction of {gas} gas, not {}", self.block_gas)));
        }
        Ok(())
    }

    /// Sentences on flags that were changed and have no effect beside the others; empty if all have one.
    pub fn idle(&self) -> Vec<String> {
        let mut idle: Vec<String> = self.load.idle().into_iter().collect();
        if self.folder().is_none() && self.durability == Durability::Block {
            idle.push("--durability block without effect: --store mem survives nothing".into());
        }
        idle.extend(self.cut_blocks());
        idle.extend(self.thin_blocks(self.threads.unwrap_or_else(host::cores)));
        let flags = [("--fast-path", !self.fast_path), ("--traces", self.traces != Traces::On)];
        if !self.executors.contains(&Executor::Dag) {
            let unused = flags.into_iter().filter(|(_, is_changed)| *is_changed);
            idle.extend(unused.map(|(flag, _)| format!("{flag} without effect: only --executor dag has it")));
        }
        idle
    }

    /// Sentence on blocks that hold fewer transactions than their number says, by gas.
    pub(crate) fn cut_blocks(&self) -> Option<String> {
        let (gas, txs) = (self.load.workload.gas_limit(), (self.load.block_txs as u64).min(self.load.txs));
        let held = self.block_gas / gas;
        (held < txs).then(|| {
            format!(
                "--block-txs {} without effect: --block-gas {} holds {held} transactions of {gas} gas; --block-gas {} holds all",
                self.load.block_txs,
                self.block_gas,
                txs.saturating_mul(gas)
            )
        })
    }

    /// Sentence on blocks of too few transactions for many threads.
    fn thin_blocks(&self, threads: usize) -> Option<String> {
        let (txs, wanted) = (self.load.block_txs, threads.saturating_mul(TXS_PER_THREAD));
        let is_thin = threads >= MANY_THREADS && txs / threads < THIN && self.load.txs >= wanted as u64;
        is_thin.then(|| {
            format!(
                "blocks of {txs} transactions have {} for each of {threads} threads, which then wait for each other: --block-txs {wanted}",
                txs / threads
            )
        })
    }

    /// Every setting by its name in results.
    pub(crate) fn resolved(&self, threads: usize) -> Map<String, Value> {
        let executors: Vec<_> = self.executors.iter().map(|executor| word(*executor)).collect();
        let mut map = self.load.resolved();
        let rest = json!({
            "order": word(self.order), "executor": executors, "access": word(self.access), "threads": threads,
            "pin": word(self.pin), "touch": self.touch, "signatures": word(self.signatures),
            "overlap": word(self.overlap), "fast_path": word(self.fast_path), "traces": word(self.traces),
            "store": self.store.to_string(), "memory": super::memory_word(self.memory), "state": self.state, "durability": word(self.durability), "hasher": word(self.hasher),
            "root": word(self.root),
            "evm_spec": word(self.evm_spec), "block_gas": self.block_gas, "runs": self.runs, "profile": self.profile,
            "oracle": word(self.oracle),
        });
        if let Value::Object(rest) = rest {
            map.extend(rest);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(flags: &str) -> RunConfig {
        parse(flags.split_whitespace().map(Into::into)).expect("flags")
    }

    #[test]
    fn blocks_that_gas_cuts_are_named_with_the_gas_that_they_need() {
        let cut = config("--block-txs 2400k --txs 5M").cut_blocks().expect("cut");
        assert!(cut.contains("30000000000 holds 1428571 transactions of 21000 gas; --block-gas 50400000000"), "{cut}");
        assert_eq!(config("--block-txs 2400k --txs 5M --block-gas 50400000000").cut_blocks(), None);
        assert_eq!(config("--block-txs 2400k --txs 1M").cut_blocks(), None, "the whole load fits");
        assert_eq!(RunConfig::default().cut_blocks(), None);
    }

    #[test]
    fn blocks_of_too_few_transactions_for_their_threads_are_named() {
        let thin = config("--txs 5M").thin_blocks(96).expect("thin");
        assert!(thin.contains("104 for each of 96 threads") && thin.ends_with("--block-txs 2400000"), "{thin}");
        assert_eq!(config("--txs 5M --block-txs 2400k").thin_blocks(96), None);
        assert_eq!([2, 4].map(|threads| config("--txs 5M").thin_blocks(threads)), [None, None]);
        assert_eq!(config("--txs 100k").thin_blocks(96), None, "no larger blocks would fill them");
    }
}
