//! The result of a benchmark (schema version 1), which scripts read. Fields may be added; none is renamed.

use crate::quality::Line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Version of the schema.
pub const SCHEMA: u32 = 1;

/// Result of a benchmark: a workload, and a run per executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchResult {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// Program that measured.
    pub tool: Tool,
    /// Machine that it ran on.
    pub host: Host,
    /// Every flag as resolved.
    pub config: Map<String, Value>,
    /// Contents of the timer, and the rules.
    pub scope: Scope,
    /// Runs, per executor and repetition.
    pub runs: Vec<Run>,
    /// Figures of `bench build`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub building: Option<Building>,
    /// Tags: `interrupted`, `not-steady`, `cut` by `--duration`, `traced` by `--trace`.
    pub tags: Vec<String>,
    /// The exact command.
    pub command: String,
}

/// Ending of a measurement.
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

/// Tag of a result with a run whose rate drifted; the runs themselves hold the verdicts.
pub const NOT_STEADY: &str = "not-steady";

/// Reason why a text is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// No JSON, or JSON of another shape.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Another version of the schema.
    #[error(
        "it has schema {found}, and this program reads schema {SCHEMA}: use the version of phalanx that wrote it{by}"
    )]
    Schema {
        /// The version.
        found: Value,
        /// Program that wrote it, in words; empty if unknown.
        by: String,
    },
    /// An array without a result.
    #[error("it holds no result")]
    Empty,
}

/// Reads a result, or an array of results as `demo` writes it.
///
/// # Errors
/// If the text is no result, or of another schema.
pub fn read(text: &str) -> Result<Vec<BenchResult>, Unreadable> {
    let list = match serde_json::from_str(text)? {
        Value::Array(list) => list,
        single => vec![single],
    };
    if list.is_empty() {
        return Err(Unreadable::Empty);
    }
    let result = |value: Value| {
        // The version first: fields of another schema may be missing, and their names would mislead.
        if let Some(found) = value.get("schema").filter(|schema| **schema != SCHEMA) {
            let version = value.pointer("/tool/version").and_then(Value::as_str);
            let by = version.map_or_else(String::new, |version| format!(", {version}"));
            return Err(Unreadable::Schema { found: found.clone(), by });
        }
        Ok(serde_json::from_value(value)?)
    };
    list.into_iter().map(result).collect()
}

/// The program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Version of the crate.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Findings of `doctor`, before the runs of `bench run` and `bench build` and after those of other commands, as far as they need no experiment. Absent in older results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Effect of a fact on measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No effect.
    Fine,
    /// Figures must be read with this in mind.
    Note,
    /// Figures mean little.
    Spoils,
}

/// Verdict on one fact of the machine or the build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Name of the fact.
    pub check: String,
    /// Effect of the finding.
    pub verdict: Verdict,
    /// The fact.
    pub found: String,
    /// Remedy, if there is one.
    pub advice: Option<String>,
}

/// Contents of the timer, and the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Source of access sets.
    pub access_source: String,
    /// `free` or `given`.
    pub order: String,
    /// Memory, in GiB, that was written to before the timer started.
    #[serde(default)]
    pub touched_gib: u64,
    /// Work inside the timer, in the order of its beginning. Absent in older results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside_timer: Vec<String>,
    /// Rules of the chain that did not apply.
    pub disabled_rules: Vec<String>,
    /// Rules that the profile's model lacks and that applied all the same, as this engine cannot switch them off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_rules: Vec<String>,
}

/// A timed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// `dag`, `block-stm` or `sequential`; of `bench build` also `build`, `build-list`, `given-none`, `given-exceptions` and
    /// `given-list`.
    pub executor: String,
    /// Worker threads.
    pub threads: usize,
    /// Core of each worker, as the system confirmed at the end; every other thread could run on all of these. Absent if
    /// nothing was pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<usize>,
    /// `null` when the state or the results differ from the oracle's.
    pub throughput: Option<Throughput>,
    /// Processor time.
    pub cpu: Cpu,
    /// Time from a block's first stage to its root.
    pub block_latency_ms: Quantiles,
    /// Processor time per stage, over all threads, per succeeded transaction.
    pub stages_ns_per_tx: Stages,
    /// Number of blocks whose stages were timed, on behalf of all: reading clocks would slow small blocks down. Absent if
    /// all were timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages_blocks: Option<u64>,
    /// Parallelism and mispredictions.
    pub parallelism: Parallelism,
    /// Memory and disk.
    pub resources: Resources,
    /// Reads of a state on disk. Absent where the state is resident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Reads>,
    /// Comparison with the oracle.
    pub integrity: Integrity,
    /// Transactions committed in each interval since the start: `[seconds at its end, transactions per second]`.
    #[serde(default)]
    pub series: Vec<(f64, f64)>,
    /// Succeeded transactions of every second since the start.
    #[serde(default)]
    pub per_second: Vec<Second>,
    /// Steadiness of the rate. Null in results that are older than the test.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// Load of each worker.
    #[serde(default)]
    pub balance: Vec<WorkerShare>,
    /// Latency from arrivals on, with `--rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
    /// Other work of the machine inside the timer. Null where the system does not tell, and in older results.
    #[serde(default)]
    pub disturbance: Option<Disturbance>,
}

/// Figures of an open loop: transactions arrive at a fixed rate, whatever the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenLoop {
    /// Arrivals per second.
    pub rate: u64,
    /// Time from a transaction's arrival to the root of its block, in ms.
    pub latency_ms: Quantiles,
    /// Time from the last arrival to the end, in ms: it grows with the run if the rate is more than the engine's.
    pub behind_ms: f64,
}

/// Other work of the machine while a run was timed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// Cores that other processes and the system kept busy.
    pub other_cores: f64,
    /// Share of the cores' time that the hypervisor gave to other machines.
    pub stolen: f64,
}

/// A second of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// End of the second, in seconds since the start.
    pub t: f64,
    /// Transactions; a block's count evenly over the time since the block before.
    pub txs: f64,
    /// Transactions per second; the last second may be shorter.
    pub per_second: f64,
}

/// Trend of the rate in the second half of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    /// True if the rate had no trend. Null with too few blocks, or too much noise.
    pub steady: Option<bool>,
    /// Blocks in the second half.
    pub blocks: usize,
    /// Change of the rate over them ÷ its median, by the slope of Theil and Sen.
    pub drift: f64,
    /// Deviate of the test of Mann and Kendall: beyond ±2.58 a trend is significant at 1 %.
    pub z: f64,
    /// Succeeded transactions per second of the second half. Zero if nothing was committed in it.
    #[serde(default)]
    pub tps: f64,
}

/// A worker's share of the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerShare {
    /// Name of the worker, as in `phalanx-worker-0`.
    pub worker: String,
    /// Processor time inside the timer, spinning included.
    pub cpu_seconds: f64,
    /// Processor time ÷ wall time.
    pub busy: f64,
}

/// Transactions per time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// Reads of a state on disk inside the timer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reads {
    /// Reads per second.
    pub per_s: f64,
    /// Reads per succeeded transaction.
    pub per_tx: f64,
    /// Bytes read per succeeded transaction.
    pub bytes_per_tx: f64,
    /// Bytes written to block devices per succeeded transaction.
    pub written_bytes_per_tx: f64,
    /// Share of the values that were in memory when they were asked for: read ahead, or used lately.
    pub hit_rate: f64,
    /// Mean number of reads in flight.
    pub depth: f64,
    /// True if reads were queued on io_uring, and not made by a thread each.
    pub on_rings: bool,
}

/// Processor time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// User and system time of the whole process inside the timer ÷ succeeded transactions, in microseconds.
    pub us_core_per_tx: f64,
}

/// Order statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Quantiles {
    /// Order statistics of `values`; zeros if there are none.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |q: f64| match sorted.len() {
            0 => 0.0,
            n => sorted[((n as f64 * q).ceil() as usize).clamp(1, n) - 1],
        };
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }
}

/// Nanoseconds of processor time per succeeded transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stages {
    /// Recovery of senders.
    pub recover: f64,
    /// Admission to a pool of transactions and hand-out from it.
    #[serde(default)]
    pub pool: f64,
    /// Access sets and interning.
    pub analyse: f64,
    /// Frames and block formation.
    pub frame: f64,
    /// DAG build, and loading of values.
    pub schedule: f64,
    /// Execution.
    pub execute: f64,
    /// Receipts.
    pub seal: f64,
    /// Delta and root.
    pub merkle: f64,
    /// Durable write.
    pub persist: f64,
    /// Reading of values ahead of blocks, from disk.
    #[serde(default)]
    pub read: f64,
}

impl Stages {
    /// Names and figures of the engine's stages in order. The pool is no stage: tables and plots count it as other time.
    pub const fn named(&self) -> [(&'static str, f64); 9] {
        [
            ("recover", self.recover),
            ("analyse", self.analyse),
            ("frame", self.frame),
            ("schedule", self.schedule),
            ("execute", self.execute),
            ("seal", self.seal),
            ("merkle", self.merkle),
            ("persist", self.persist),
            ("read", self.read),
        ]
    }
}

/// Parallelism and mispredictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parallelism {
    /// Transactions ÷ frames (FAFO's definition). Null if nothing was framed.
    pub tlp_frames: Option<f64>,
    /// Transactions ÷ critical path of the DAG, over all blocks. Null without a DAG.
    pub tlp_dag: Option<f64>,
    /// Mispredicted transactions.
    pub escapes: u64,
    /// Re-executions.
    pub reexecutions: u64,
    /// Executions on Block-STM that ended at a value on disk, and were repeated when it had been read.
    #[serde(default)]
    pub parked: u64,
    /// Values on disk for which a worker of Block-STM waited.
    #[serde(default)]
    pub waits: u64,
    /// Calls that were replayed from a trace.
    #[serde(default)]
    pub replayed: u64,
    /// Blocks that another executor took over.
    pub fallback_blocks: u64,
}

/// Memory and disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// Highest resident set of the process so far.
    pub rss_peak_bytes: u64,
    /// Bytes that the process wrote to block devices inside the timer.
    pub disk_written_bytes: u64,
    /// Size of the store at the end.
    pub db_bytes: u64,
}

/// Figures of a builder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Building {
    /// Displacement of transactions from the order of arrival.
    pub fairness: Fairness,
    /// Sizes of the data that a validator gets beside the blocks.
    pub artefacts: Artefacts,
    /// Processor time of the builder without recovery and pool ÷ that of `bench run` on the same transactions, in blocks of
    /// the same size. Null unless both are right.
    pub cost_beside_run: Option<f64>,
    /// Quality of predictions by source, if it was measured. The line `(learned)` holds the transactions of the ERC20 rule
    /// again, predicted by templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Line>,
}

/// Displacement in places, waiting in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fairness {
    /// Maximum displacement in either direction.
    pub max_displacement: usize,
    /// Median displacement.
    pub p50_displacement: usize,
    /// 99th percentile of the displacement.
    pub p99_displacement: usize,
    /// Maximum displacement towards the end.
    pub max_delay: usize,
    /// Maximum delay in blocks.
    pub max_wait_blocks: usize,
}

/// Bytes per transaction. Null if the artefact was not made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Artefacts {
    /// Access sets of transactions that no rule predicts.
    pub exceptions_bytes_per_tx: Option<f64>,
    /// Block access lists (EIP-7928).
    pub list_bytes_per_tx: Option<f64>,
}

/// Comparison with the oracle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Integrity {
    /// Root after the last block.
    pub state_root: String,
    /// `match`, `sampled`, `off` or `mismatch`.
    pub oracle: String,
    /// Scope of the oracle's comparison, or the difference.
    #[serde(default)]
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn another_schema_is_refused_with_a_sentence() {
        let mut value = serde_json::to_value(fixture::demo().remove(0)).unwrap();
        assert_eq!(read(&value.to_string()).unwrap().len(), 1);
        assert_eq!(read(&Value::Array(vec![value.clone(), value.clone()]).to_string()).unwrap().len(), 2);
        for other in [Value::from(99), Value::from("1"), Value::from(0), Value::Null] {
            value["schema"] = other.clone();
            // Fields that are missing are no better reason.
            value.as_object_mut().unwrap().remove("runs");
            let why = read(&value.to_string()).unwrap_err().to_string();
            assert!(why.contains(&format!("schema {other}, and this program reads schema 1")), "{why}");
            assert!(why.ends_with("wrote it, 0.1.0"), "{why}");
        }
        value.as_object_mut().unwrap().remove("schema");
        assert!(read(&value.to_string()).unwrap_err().to_string().contains("missing field"));
        assert!(read("[]").unwrap_err().to_string().contains("no result"));
        assert!(matches!(read("{"), Err(Unreadable::Json(_))));
    }
}
