//! Flags, and what they resolve to. Only this file and `exit.rs` know what a wrong command line is.

pub(crate) use crate::simulate::ZaptosArgs;

use crate::{exit::Usage, memory, pin};
use clap::{Args, Parser, Subcommand, ValueEnum};
use phalanx::{
    BlockLimits, Executor, Order, Traces,
    merkle::{self, Backend, StoreConfig},
    paralyze::Layers,
    revm::primitives::hardfork::SpecId,
};
use phalanx_workloads::{HotSide, TransferLoad};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

mod build;
mod compare;
mod explain;
mod fixtures;
mod market;
mod state;
mod sweep;
mod tools;

pub(crate) use build::BuildArgs;
pub(crate) use compare::{CompareArgs, Expectation, Variant};
pub(crate) use explain::ExplainArgs;
pub(crate) use fixtures::{ArtefactKind, HintsKind, ReplayArgs, TestArgs, TestCommand};
use market::MarketArgs;
pub(crate) use state::{Db, Hex, Skew, StateCommand, StoreArgs};
pub(crate) use sweep::{AXES, Axis, CapacityArgs, ScaleArgs, SweepArgs, SweepFigure};
pub(crate) use tools::{DoctorArgs, ManArgs};

/// Parallel EVM execution engine: demo, benchmarks and tools.
#[derive(Debug, Parser)]
#[command(name = "phalanx", version, after_help = "Try: phalanx demo")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Native and ERC20 transfers through every stage to a durable root, in under a minute
    Demo(DemoArgs),
    /// Measurements
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Real blocks, compared with what they did on their chain and with sequential revm
    Replay(Box<ReplayArgs>),
    /// Conformance tests of the Ethereum clients
    #[command(subcommand)]
    Test(TestCommand),
    /// Consensus and pipeline in a simulated network, in virtual time
    #[command(subcommand)]
    Simulate(SimulateCommand),
    /// Looks at a state store
    #[command(subcommand)]
    State(StateCommand),
    /// Why a block is as parallel as it is: critical path, hottest keys, escapes
    Explain(Box<ExplainArgs>),
    /// What on this machine spoils a measurement
    Doctor(DoctorArgs),
    /// A script for a shell that completes commands and flags
    Completions {
        /// For which shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// The manual page, for man(1)
    Man(ManArgs),
    /// What this program is
    Version {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// One workload through the whole engine
    Run(Box<BenchArgs>),
    /// Blocks built from signed bytes, and validated with each artefact: what producing costs, and what validators save
    Build(Box<BuildArgs>),
    /// Framing and DAG alone, without execution (FAFO's ablation)
    Schedule(ScheduleArgs),
    /// One workload over a range of settings, or a figure of FAFO's
    Sweep(Box<SweepArgs>),
    /// A model of more cores than there are: the costs of one thread, replayed over the true DAGs. It is compared with 1, 2,
    /// 4 .. real threads up to --threads [default: 2]
    Scale(Box<ScaleArgs>),
    /// Is one faster than the other? Two results, or variants that are run in turns, with intervals
    Compare(Box<CompareArgs>),
    /// The state store alone: updates of random keys, a root and a write per block
    Store(StoreArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// Latency of the Zaptos pipeline, baseline beside optimistic (Figures 5 to 8 of the paper)
    Zaptos(ZaptosArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Worker threads [default: one per core]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Where the state lives: mem, file:DIR or rocks:DIR [default: a temporary folder, RocksDB if it is built in]
    #[arg(long, value_parser = Store::parse)]
    pub(crate) store: Option<Store>,
    /// Seed of the workloads
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Writes the results as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Folder for the report
    #[arg(long, value_name = "DIR", default_value = "phalanx-report")]
    pub(crate) report: PathBuf,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadKind {
    /// Transfers of ether between accounts without code
    Native,
    /// Transfers of one ERC20 token
    Erc20,
    /// Swaps in constant-product pools
    Amm,
    /// Ether, many tokens, swaps, approvals, deployments, and what is made to revert
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecutorKind {
    /// Workers on the exact per-slot DAG
    Dag,
    /// Block-STM: optimistic, without predictions
    BlockStm,
    /// Stock revm, one after the other
    Sequential,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TracesKind {
    /// revm interprets every call
    Off,
    /// Calls that go a recorded way are replayed
    On,
    /// revm interprets them as well, and a difference is an error
    Check,
}

impl TracesKind {
    pub(crate) const fn traces(self) -> Traces {
        match self {
            Self::Off => Traces::Off,
            Self::On => Traces::On,
            Self::Check => Traces::Checked,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderKind {
    /// The engine frames and orders
    Free,
    /// The order of generation
    Given,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessKind {
    /// Native and ERC20 rules, access lists, learned templates, simulation for the rest
    Static,
    /// The same without templates
    Rules,
    /// The same without the ERC20 rule
    Templates,
    /// Simulation for all
    Simulate,
}

impl AccessKind {
    pub(crate) const fn layers(self) -> Layers {
        match self {
            Self::Static => Layers::All,
            Self::Rules => Layers::WithoutTemplates,
            Self::Templates => Layers::WithoutStandards,
            Self::Simulate => Layers::Simulation,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityKind {
    /// No log: survives nothing but a clean end
    None,
    /// Survives kill -9
    Async,
    /// Survives power loss: fsync per block
    Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hasher {
    Sha256,
    Keccak256,
    Blake3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpecKind {
    Cancun,
    Prague,
    Osaka,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OracleKind {
    /// Every block is executed again by sequential revm and compared
    Full,
    /// The first eighth of the blocks, at least one
    Sampled,
    /// Nothing but the arithmetic check of the final balances
    Off,
}

/// Where the state lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Mem,
    File(PathBuf),
    Rocks(PathBuf),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// What is sent
    #[arg(long, value_enum, default_value_t = WorkloadKind::Native)]
    pub(crate) workload: WorkloadKind,
    /// Funded accounts
    #[arg(long, default_value_t = 1 << 20)]
    pub(crate) accounts: u64,
    /// Transactions
    #[arg(long, default_value_t = 500_000)]
    pub(crate) txs: u64,
    /// Transactions per block
    #[arg(long, default_value_t = 10_000)]
    pub(crate) block_txs: usize,
    /// Probability that the hot side of a transfer is a hot account, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    pub(crate) alpha: f64,
    /// Number of hot accounts
    #[arg(long, default_value_t = 1000)]
    pub(crate) gamma: u64,
    /// Which side is hot: sender, receiver or both; a swap has only a sender
    #[arg(long, default_value_t = HotSide::Sender)]
    pub(crate) hot: HotSide,
    #[command(flatten)]
    market: MarketArgs,
    /// Seed of the workload
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Who orders the transactions
    #[arg(long, value_enum, default_value_t = OrderKind::Free)]
    pub(crate) order: OrderKind,
    /// Who executes; repeatable: the same blocks, interleaved
    #[arg(long = "executor", value_enum, default_values_t = [ExecutorKind::Dag])]
    pub(crate) executors: Vec<ExecutorKind>,
    /// Where access sets come from
    #[arg(long, value_enum, default_value_t = AccessKind::Static)]
    pub(crate) access: AccessKind,
    /// Worker threads [default: one per core]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Confine each run to as many cores as it has threads, worker i to core i and all else, the writer too, to these cores.
    /// Taken are physical cores before their siblings and one NUMA node before the next, of those that the process may use
    /// (Linux)
    #[arg(long, value_enum, default_value_t = Switch::Off, num_args = 0..=1, default_missing_value = "on")]
    pub(crate) pin: Switch,
    /// Memory, in GiB, to write to before the timer starts and to keep for the run, which then need not wait for the system
    /// to find and clear it. `phalanx doctor` says whether that takes long
    #[arg(long, value_name = "GIB", default_value_t = 0)]
    pub(crate) touch: u64,
    /// Sign the transactions and recover their senders inside the timer
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub(crate) signatures: Switch,
    /// Plan the next block beside the execution of one, from the state before it (with one thread they take turns)
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub(crate) overlap: Switch,
    /// Do plain transfers of the DAG without the EVM
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub(crate) fast_path: Switch,
    /// Replay calls of contracts on the DAG that go a way which was recorded; `check` interprets them as well and compares
    #[arg(long, value_enum, default_value_t = TracesKind::On)]
    pub(crate) traces: TracesKind,
    /// Where the state lives: mem, file:DIR or rocks:DIR, the folder new or empty
    #[arg(long, value_parser = Store::parse, default_value = "mem")]
    pub(crate) store: Store,
    /// What a committed block survives
    #[arg(long, value_enum, default_value_t = DurabilityKind::Async)]
    pub(crate) durability: DurabilityKind,
    /// Hash of the state commitment
    #[arg(long, value_enum, default_value_t = Hasher::Sha256)]
    pub(crate) hasher: Hasher,
    /// Rules of the EVM
    #[arg(long, value_enum, default_value_t = SpecKind::Osaka)]
    pub(crate) evm_spec: SpecKind,
    /// Gas limit of a block, by the sum of its transactions' limits
    #[arg(long, default_value_t = 30_000_000_000)]
    pub(crate) block_gas: u64,
    /// Repetitions of each executor
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: usize,
    /// Flags by a name, fafo-paper, or from a file of TOML; what the command line says itself counts more
    #[arg(long, value_name = "FILE.toml|fafo-paper")]
    pub(crate) profile: Option<String>,
    /// How results are compared with sequential revm
    #[arg(long, value_enum, default_value_t = OracleKind::Full)]
    pub(crate) oracle: OracleKind,
    /// Writes the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Writes a row per run
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Writes a page with plots
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Repetitions; the median is shown
    #[arg(long, default_value_t = 5)]
    pub(crate) runs: usize,
    /// Worker threads of the dispatch [default: one per core]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Instead of times, what reordering is worth over a grid of --alpha and --gamma: parallelism of the order of arrival
    /// beside that of the framer's
    #[arg(long, value_enum, conflicts_with_all = ["alpha", "gamma", "runs", "threads"])]
    pub(crate) figure: Option<FigureKind>,
    /// Writes the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
}

/// A grid that somebody has measured before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FigureKind {
    /// FAFO's Figure 4: alpha of 0 to 0.99, gamma of 100 to 10,000
    #[value(name = "fafo-4")]
    Fafo4,
}

/// More threads than this are a typing error.
const MAX_THREADS: usize = 1024;

/// The number of threads to use.
pub(crate) fn threads(asked: Option<usize>) -> Result<usize, Usage> {
    match asked {
        None => Ok(crate::host::cores()),
        Some(n @ 1..=MAX_THREADS) => Ok(n),
        Some(n) => Err(Usage(format!("--threads must be between 1 and {MAX_THREADS}, not {n}"))),
    }
}

impl Store {
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        match word.split_once(':') {
            None if word == "mem" => Ok(Self::Mem),
            Some(("file", dir)) if !dir.is_empty() => Ok(Self::File(dir.into())),
            Some(("rocks", dir)) if !dir.is_empty() => Ok(Self::Rocks(dir.into())),
            _ => Err("expected mem, file:DIR or rocks:DIR".into()),
        }
    }

    /// Its folder, if it has one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Mem => None,
            Self::File(path) | Self::Rocks(path) => Some(path),
        }
    }

    /// The same kind of store in another folder.
    pub(crate) fn at(&self, path: PathBuf) -> Self {
        match self {
            Self::Mem => Self::Mem,
            Self::File(_) => Self::File(path),
            Self::Rocks(_) => Self::Rocks(path),
        }
    }

    pub(crate) fn backend(&self) -> Result<Backend, Usage> {
        match self {
            Self::Mem => Ok(Backend::Mem),
            Self::File(path) => Ok(Backend::File(path.clone())),
            #[cfg(feature = "rocksdb")]
            Self::Rocks(path) => Ok(Backend::Rocks(path.clone())),
            #[cfg(not(feature = "rocksdb"))]
            Self::Rocks(_) => {
                Err(Usage("this build has no RocksDB: build with `--features rocksdb`, or use file:DIR".into()))
            }
        }
    }
}

impl core::fmt::Display for Store {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Mem => f.write_str("mem"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Rocks(path) => write!(f, "rocks:{}", path.display()),
        }
    }
}

impl Hasher {
    pub(crate) fn params(self) -> merkle::Params {
        let hash = match self {
            Self::Sha256 => merkle::HashFn::Sha256,
            Self::Keccak256 => merkle::HashFn::Keccak256,
            Self::Blake3 => merkle::HashFn::Blake3,
        };
        merkle::Params::with_hash(hash)
    }
}

impl SpecKind {
    pub(crate) const fn spec(self) -> SpecId {
        match self {
            Self::Cancun => SpecId::CANCUN,
            Self::Prague => SpecId::PRAGUE,
            Self::Osaka => SpecId::OSAKA,
        }
    }
}

impl ExecutorKind {
    pub(crate) const fn executor(self) -> Executor {
        match self {
            Self::Dag => Executor::Dag,
            Self::BlockStm => Executor::BlockStm,
            Self::Sequential => Executor::Sequential,
        }
    }
}

/// The word for a choice on the command line.
pub(crate) fn word(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

impl DurabilityKind {
    pub(crate) const fn durability(self) -> merkle::Durability {
        match self {
            Self::None => merkle::Durability::None,
            Self::Async => merkle::Durability::Async,
            Self::Block => merkle::Durability::Block,
        }
    }
}

impl BenchArgs {
    pub(crate) const fn ordering(&self) -> Order {
        match self.order {
            OrderKind::Free => Order::Free,
            OrderKind::Given => Order::Given,
        }
    }

    /// For tests: those of `bench run` with some flags.
    #[cfg(test)]
    pub(crate) fn of(flags: &str) -> Self {
        let words = ["phalanx", "bench", "run"].into_iter().chain(flags.split_whitespace());
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Some(Command::Bench(BenchCommand::Run(args)))) => *args,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) const fn limits(&self) -> BlockLimits {
        BlockLimits { max_txs: self.load.block_txs, max_gas: self.block_gas }
    }

    /// The load these flags describe; `memory` is what it may take.
    pub(crate) fn transfers(&self, memory: u64) -> TransferLoad {
        let signatures = self.signatures == Switch::On;
        TransferLoad { signatures, memory_limit: Some(memory), ..self.load.transfers() }
    }

    pub(crate) fn store_config(&self, store: &Store) -> Result<StoreConfig, Usage> {
        let durability = self.durability.durability();
        Ok(StoreConfig::new(store.backend()?).with_durability(durability).with_params(self.hasher.params()))
    }

    /// Refuses what no run could carry out.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        pin::check(self.pin, threads(self.threads)?)?;
        self.store.backend()?;
        self.load.check()?;
        memory::check(self.touch)?;
        if self.runs == 0 || self.runs > 1000 {
            return Err(Usage(format!("--runs must be between 1 and 1000, not {}", self.runs)));
        }
        let gas = self.load.workload.gas_limit();
        if self.block_gas < gas {
            return Err(Usage(format!("--block-gas must hold one transaction of {gas} gas, not {}", self.block_gas)));
        }
        Ok(())
    }

    /// Every flag as resolved.
    pub(crate) fn resolved(&self, threads: usize) -> Map<String, Value> {
        let executors: Vec<_> = self.executors.iter().map(|e| word(*e)).collect();
        let mut map = self.load.resolved();
        let rest = json!({
            "order": word(self.order), "executor": executors, "access": word(self.access), "threads": threads, "pin": word(self.pin), "touch": self.touch,
            "signatures": word(self.signatures), "overlap": word(self.overlap), "fast_path": word(self.fast_path), "traces": word(self.traces),
            "store": self.store.to_string(), "durability": word(self.durability), "hasher": word(self.hasher), "evm_spec": word(self.evm_spec), "block_gas": self.block_gas,
            "runs": self.runs, "profile": self.profile, "oracle": word(self.oracle),
        });
        if let Value::Object(rest) = rest {
            map.extend(rest);
        }
        map
    }
}

impl LoadArgs {
    pub(crate) fn transfers(&self) -> TransferLoad {
        let Self { accounts, txs, alpha, gamma, hot, seed, .. } = *self;
        TransferLoad { accounts, txs, alpha, gamma, hot, seed, ..TransferLoad::default() }
    }

    pub(crate) fn check(&self) -> Result<(), Usage> {
        if self.txs == 0 {
            return Err(Usage("--txs must be at least 1".into()));
        }
        if self.block_txs == 0 {
            return Err(Usage("--block-txs must be at least 1".into()));
        }
        Ok(())
    }

    pub(crate) fn resolved(&self) -> Map<String, Value> {
        let map = json!({
            "workload": word(self.workload), "accounts": self.accounts, "txs": self.txs, "block_txs": self.block_txs,
            "alpha": self.alpha, "gamma": self.gamma, "hot": self.hot.to_string(), "seed": self.seed,
            "pools": self.market.pools, "hot_pool_share": self.market.hot_pool_share, "mix": self.market.mix.to_string(),
        });
        match map {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}
