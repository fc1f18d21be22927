//! The result of a benchmark, as scripts read it (schema version 1). Fields may be added; none is renamed.

use crate::quality::Line;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Version of the schema.
pub const SCHEMA: u32 = 1;

/// One benchmark: a workload, and a run per executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchResult {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What measured.
    pub tool: Tool,
    /// On what.
    pub host: Host,
    /// Every flag as resolved.
    pub config: Map<String, Value>,
    /// What was inside the timer, and by which rules.
    pub scope: Scope,
    /// One per executor and repetition.
    pub runs: Vec<Run>,
    /// What `bench build` tells besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub building: Option<Building>,
    /// Circumstances: `interrupted`.
    pub tags: Vec<String>,
    /// The exact command.
    pub command: String,
}

/// How a measurement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every result is right and complete.
    Complete,
    /// A result differs from the oracle's.
    Wrong,
    /// A ratio that was expected does not hold.
    Missed,
    /// The user stopped it.
    Interrupted,
}

impl Ending {
    /// Worst ending among `results`.
    pub fn of(results: &[BenchResult]) -> Self {
        if results.iter().flat_map(|result| &result.runs).any(|run| run.throughput.is_none()) {
            Self::Wrong
        } else if results.iter().any(BenchResult::is_interrupted) {
            Self::Interrupted
        } else {
            Self::Complete
        }
    }
}

impl BenchResult {
    /// True if the user stopped the benchmark.
    pub fn is_interrupted(&self) -> bool {
        self.tags.iter().any(|tag| tag == INTERRUPTED)
    }
}

/// Tag of a result that was cut short.
pub const INTERRUPTED: &str = "interrupted";

/// The program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Of the crate.
    pub version: String,
    /// Git commit, `-dirty` with local changes, or `unknown`.
    pub commit: String,
    /// Compiler.
    pub rustc: String,
    /// Cargo features.
    pub features: Vec<String>,
    /// Allocator.
    pub allocator: String,
    /// Cargo profile; with `+pgo` if a profile of earlier runs guided the build.
    pub profile: String,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Model name.
    pub cpu: String,
    /// Logical cores.
    pub cores: usize,
    /// Main memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Frequency governor, if there is one.
    pub governor: Option<String>,
    /// Transparent huge pages, as set.
    pub thp: Option<String>,
    /// Device and file system of the store, if it is on disk.
    pub disk: Option<String>,
}

/// What a number covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Senders are recovered from signatures inside the timer.
    pub signatures: bool,
    /// Nonces are checked.
    pub nonces: bool,
    /// Fees are charged and paid.
    pub fees: bool,
    /// Gas limits are enforced.
    pub gas_limit: bool,
    /// Receipts and their root are made.
    pub receipts: bool,
    /// Blocks per state root.
    pub root_interval_blocks: u64,
    /// `none`, `async` or `block`.
    pub durability: String,
    /// Where access sets come from.
    pub access_source: String,
    /// `free` or `given`.
    pub order: String,
    /// Memory, in GiB, that was written to before the timer started.
    #[serde(default)]
    pub touched_gib: u64,
    /// Rules of the chain that did not apply.
    pub disabled_rules: Vec<String>,
    /// Rules that the profile's model lacks and that applied all the same, as this engine cannot switch them off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_rules: Vec<String>,
}

/// One timed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// `dag`, `block-stm` or `sequential`; of `bench build` also `build`, `build-list`, `given-none`, `given-exceptions` and
    /// `given-list`.
    pub executor: String,
    /// Worker threads.
    pub threads: usize,
    /// The core that each worker was alone allowed on, as the system confirmed at the end; every other thread of the process
    /// was allowed on these. Absent where nothing was pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<usize>,
    /// `null` when the state or the results differ from the oracle's.
    pub throughput: Option<Throughput>,
    /// Processor time.
    pub cpu: Cpu,
    /// From the first transaction of a block entering a stage to its root.
    pub block_latency_ms: Quantiles,
    /// Processor time per stage, over all threads, per succeeded transaction.
    pub stages_ns_per_tx: Stages,
    /// In how many blocks stages were timed, which stand for the others, as reading clocks would hold small blocks up.
    /// Absent if in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages_blocks: Option<u64>,
    /// How much ran side by side.
    pub parallelism: Parallelism,
    /// Memory and disk.
    pub resources: Resources,
    /// Whether it was right.
    pub integrity: Integrity,
    /// Transactions committed in each interval since the start: `[seconds at its end, transactions per second]`.
    #[serde(default)]
    pub series: Vec<(f64, f64)>,
    /// Succeeded transactions of every second since the start.
    #[serde(default)]
    pub per_second: Vec<Second>,
    /// Whether the rate had settled. Null in results that are older than the test.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// How busy each worker was.
    #[serde(default)]
    pub balance: Vec<WorkerShare>,
}

/// A second of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Its end, in seconds since the start.
    pub t: f64,
    /// Transactions; those of a block count evenly over the time since the one before.
    pub txs: f64,
    /// The same per second: the last second is as long as is left of it.
    pub per_second: f64,
}

/// Whether the rate of blocks still had a trend in the second half of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Null where there were too few blocks, or too much noise, to tell.
    pub steady: Option<bool>,
    /// In the second half.
    pub blocks: usize,
    /// By how much of the median the rate moves over them, by the slope of Theil and Sen.
    pub drift: f64,
    /// Of the test of Mann and Kendall: beyond ±2.58 a trend is sure at 1 %.
    pub z: f64,
    /// Succeeded transactions per second of the second half alone. Zero where nothing was committed in it.
    #[serde(default)]
    pub tps: f64,
}

/// A worker's share of the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerShare {
    /// Its number among the workers, as in `phalanx-worker-0`.
    pub worker: String,
    /// Processor time inside the timer, waiting with open eyes included.
    pub cpu_seconds: f64,
    /// The same ÷ the time on the wall.
    pub busy: f64,
}

/// Work per time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Succeeded transactions per second.
    pub tps: f64,
    /// Transactions that ran and succeeded.
    pub succeeded: u64,
    /// Transactions that ran and reverted or halted.
    pub reverted: u64,
    /// Transactions that were invalid.
    pub invalid: u64,
    /// Gas used per second.
    pub gas_per_s: f64,
    /// Wall time inside the timer.
    pub seconds: f64,
}

/// Processor time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// User and system time of the whole process inside the timer ÷ succeeded transactions, in microseconds.
    pub us_core_per_tx: f64,
}

/// Order statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// Nine of ten are below.
    pub p90: f64,
    /// Ninety-nine of a hundred are below.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// Nanoseconds of processor time per succeeded transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// Senders from signatures.
    pub recover: f64,
    /// Admission to a pool of transactions and hand-out from it.
    #[serde(default)]
    pub pool: f64,
    /// Access sets, and their interning.
    pub analyse: f64,
    /// Frames and block formation.
    pub frame: f64,
    /// The DAG, with the plan or after it, and loading of values.
    pub schedule: f64,
    /// EVM.
    pub execute: f64,
    /// Receipts.
    pub seal: f64,
    /// Delta and root.
    pub merkle: f64,
    /// Durable write.
    pub persist: f64,
}

impl Stages {
    /// Names and figures of the engine's stages in order. The pool is not one of them: tables and plots have it in what is
    /// outside of all stages.
    pub const fn named(&self) -> [(&'static str, f64); 8] {
        [
            ("recover", self.recover),
            ("analyse", self.analyse),
            ("frame", self.frame),
            ("schedule", self.schedule),
            ("execute", self.execute),
            ("seal", self.seal),
            ("merkle", self.merkle),
            ("persist", self.persist),
        ]
    }
}

/// How much ran side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parallelism {
    /// Transactions ÷ frames (FAFO's definition). Null where nothing was framed.
    pub tlp_frames: Option<f64>,
    /// Transactions ÷ critical path of the DAG, over all blocks. Null where there was no DAG.
    pub tlp_dag: Option<f64>,
    /// Transactions that reached outside their predicted set.
    pub escapes: u64,
    /// Executions beyond the first.
    pub reexecutions: u64,
    /// Calls that went a recorded way, which revm did not interpret, or only to compare.
    #[serde(default)]
    pub replayed: u64,
    /// Blocks that were executed over again in order.
    pub fallback_blocks: u64,
}

/// Memory and disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Highest resident set of the process so far.
    pub rss_peak_bytes: u64,
    /// Written to block devices by the process inside the timer.
    pub disk_written_bytes: u64,
    /// Size of the store at the end.
    pub db_bytes: u64,
}

/// What only a builder has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Building {
    /// How far its order moved transactions from that of arrival.
    pub fairness: Fairness,
    /// Bytes that a validator gets beside the blocks.
    pub artefacts: Artefacts,
    /// The builder's processor time without recovery of senders and without the pool ÷ that of `bench run` on the same
    /// transactions, in blocks of the same size. Null unless both are right.
    pub cost_beside_run: Option<f64>,
    /// How good predictions are, by their source; of the blocks in their order, if that was asked for. Behind the sources
    /// `(learned)`: the transactions of the ERC20 rule again, by templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Line>,
}

/// Displacement in places, waiting in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fairness {
    /// Furthest that one was moved, in either direction.
    pub max_displacement: usize,
    /// Half of all were moved no further.
    pub p50_displacement: usize,
    /// 99 of 100 were moved no further.
    pub p99_displacement: usize,
    /// Furthest that one was moved back.
    pub max_delay: usize,
    /// Most blocks that one ran later than in the order of arrival.
    pub max_wait_blocks: usize,
}

/// Bytes per transaction. Null where the artefact was not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Artefacts {
    /// Access sets of what no rule derives.
    pub exceptions_bytes_per_tx: Option<f64>,
    /// Block access lists (EIP-7928).
    pub list_bytes_per_tx: Option<f64>,
}

/// Whether it was right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integrity {
    /// Root after the last block.
    pub state_root: String,
    /// `match`, `sampled`, `off` or `mismatch`.
    pub oracle: String,
    /// What the oracle compared, or where it found a difference.
    #[serde(default)]
    pub detail: String,
}
