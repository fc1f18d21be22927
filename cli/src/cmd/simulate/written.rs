//! Output of `simulate` as JSON. Times are virtual.

use super::point::ms;
use phalanx_lab::{
    result::SCHEMA,
    written::{Named, schema},
};
use phalanx_sim::{load, paper::Comparison, sbft, zaptos};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Figures of a paper, simulated.
#[derive(Serialize, JsonSchema)]
pub(super) struct Figures<P> {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    pub(super) schema: u32,
    /// Source of the distances between replicas, if they are measured ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) topology_source: Option<&'static str>,
    /// Figures in the order of the flags.
    pub(super) figures: Vec<Figure<P>>,
}

/// A figure of a paper.
#[derive(Serialize, JsonSchema)]
pub(super) struct Figure<P> {
    /// Name of the figure.
    pub(super) figure: String,
    /// Points of the figure.
    pub(super) points: Vec<P>,
    /// Numbers that the paper states, beside ours.
    pub(super) compared: Vec<Compared>,
    /// Number of them that could have failed: neither fitted nor put in.
    pub(super) judged: usize,
    /// Number of these that agree.
    pub(super) met: usize,
}

/// A number that the paper states, beside ours.
#[derive(Serialize, JsonSchema)]
pub(super) struct Compared {
    /// Subject of the comparison.
    what: &'static str,
    /// The paper's number.
    paper: f64,
    /// Ours.
    ours: f64,
    /// Rule by which they agree.
    rule: String,
    /// True if they do.
    agrees: bool,
    /// Known cause of a difference; empty if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl Compared {
    /// A comparison as it is written, with the cause of a difference if the paper's evaluation names causes.
    pub(super) fn new(of: &Comparison, has_reasons: bool) -> Self {
        let (rule, agrees) = (format!("{:?}", of.rule), of.agrees());
        Self { what: of.what, paper: of.paper, ours: of.ours, rule, agrees, reason: has_reasons.then_some(of.reason) }
    }
}

/// Hash of all events of a run, as written: equal settings, equal hashes.
pub(super) fn trace(hash: u64) -> String {
    format!("0x{hash:016x}")
}

/// A point of SBFT's evaluation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SbftPoint {
    /// Line of the figure.
    pub(super) series: String,
    /// Value on the axis.
    pub(super) at: f64,
    /// Replicas.
    pub(super) replicas: usize,
    /// Faulty replicas that are tolerated.
    pub(super) f: usize,
    /// Slow or crashed replicas that the fast path tolerates.
    pub(super) c: usize,
    /// Place of the replicas.
    pub(super) topology: &'static str,
    /// Clients.
    pub(super) clients: u64,
    /// Crashed replicas.
    pub(super) crashed: usize,
    /// Operations in a request.
    pub(super) operations_per_request: u64,
    /// Seed.
    pub(super) seed: u64,
    #[serde(flatten)]
    pub(super) outcome: sbft::Outcome,
}

/// A point of Autobahn's evaluation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AutobahnPoint {
    /// Line of the figure.
    pub(super) series: String,
    /// Value on the axis.
    pub(super) at: f64,
    /// Transactions per second that became ready to execute.
    pub(super) tps: f64,
    /// Mean latency, in ms.
    pub(super) latency_ms: f64,
    /// Share of transactions that are ready at the end.
    pub(super) ready: f64,
    /// Views that were given up.
    pub(super) views_given_up: u64,
    /// Messages between replicas per second.
    pub(super) messages_per_second: f64,
    /// Mean latency by second of submission, in s. Null if nothing was submitted or answered.
    pub(super) seconds: Vec<Option<f64>>,
    /// The paper's latency by second from the blip on, in s.
    pub(super) paper_seconds: Vec<f64>,
    /// Hash of all events.
    pub(super) trace_hash: String,
}

/// A point of ResilientDB's evaluation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ResilientdbPoint {
    /// Line of the figure.
    pub(super) series: String,
    /// Value on the axis.
    pub(super) at: f64,
    #[serde(flatten)]
    pub(super) outcome: load::Outcome,
}

/// Protocols side by side.
#[derive(Serialize, JsonSchema)]
pub(super) struct SideBySide {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    pub(super) schema: u32,
    /// Replicas.
    pub(super) replicas: usize,
    /// Transactions per second that are submitted.
    pub(super) load_tps: u64,
    /// Script of faults.
    pub(super) fault: String,
    /// Protocols in the order of the flags.
    pub(super) rows: Vec<OfProtocol>,
}

/// Figures of a protocol.
#[derive(Serialize, JsonSchema)]
pub(super) struct OfProtocol {
    /// Name of the protocol.
    pub(super) protocol: &'static str,
    /// Transactions per second that became ready to execute.
    pub(super) tps: f64,
    /// Mean latency, in ms.
    pub(super) latency_ms: f64,
    /// Share of transactions that are ready at the end.
    pub(super) ready: f64,
    /// Messages between replicas per second.
    pub(super) messages_per_second: f64,
    /// Bytes between replicas per second.
    pub(super) bytes_per_second: f64,
    /// Signatures that all replicas make per second.
    pub(super) signed_per_second: f64,
    /// Signatures that all replicas check per second.
    pub(super) verified_per_second: f64,
    /// Time from the fault to the usual latency, in s. Null without a fault or recovery.
    pub(super) recovery_s: Option<f64>,
    /// Hash of all events.
    pub(super) trace_hash: String,
}

/// Points of Zaptos's figures.
#[derive(Serialize, JsonSchema)]
pub(super) struct Points {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    pub(super) schema: u32,
    /// Seed of all points.
    pub(super) seed: u64,
    /// Points in the order of the figures.
    pub(super) points: Vec<ZaptosPoint>,
}

/// A point, with the pipeline in each mode.
#[derive(Serialize, JsonSchema)]
pub(super) struct ZaptosPoint {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    pub(super) schema: u32,
    /// Every flag as resolved.
    pub(super) config: Map<String, Value>,
    /// Seed.
    pub(super) seed: u64,
    /// Hash of all events of all modes.
    pub(super) trace_hash: String,
    /// Modes that were run.
    pub(super) modes: Vec<OfMode>,
}

/// Figures of the pipeline in one mode.
#[derive(Serialize, JsonSchema)]
pub(super) struct OfMode {
    /// `baseline` or `optimistic`.
    pub(super) mode: &'static str,
    /// Transactions per second that clients saw certified.
    pub(super) tps: f64,
    /// Latency for clients, in ms.
    pub(super) latency_ms: Latency,
    /// Mean time in consensus, in ms.
    pub(super) consensus_ms: f64,
    /// Mean latency outside of ordering, in ms.
    pub(super) rest_ms: f64,
    /// Time by stage.
    pub(super) stages_ms: BTreeMap<String, Stage>,
    /// Share of execution, roots, staging, certification and flip that lies between proposal and order.
    pub(super) shadowed_share: f64,
    /// Share of the executors' time that went into blocks that lost.
    pub(super) wasted_execution_share: f64,
    /// Messages per block.
    pub(super) messages_per_block: f64,
    /// Latency by the paper's formula, in ms. Null unless its assumptions hold (`--ideal`).
    pub(super) formula_ms: Option<f64>,
    /// Hash of all events.
    pub(super) trace_hash: String,
}

/// Quantiles of a latency, in ms.
#[derive(Serialize, JsonSchema)]
pub(super) struct Latency {
    /// 25th percentile.
    pub(super) p25: f64,
    /// Median.
    pub(super) p50: f64,
    /// 75th percentile.
    pub(super) p75: f64,
    /// 99th percentile.
    pub(super) p99: f64,
}

/// Time of a stage, in ms.
#[derive(Serialize, JsonSchema)]
pub(super) struct Stage {
    /// Waiting for it.
    pub(super) wait: f64,
    /// Work of it.
    pub(super) work: f64,
}

impl From<&zaptos::Stage> for Stage {
    fn from(of: &zaptos::Stage) -> Self {
        Self { wait: ms(of.wait_us), work: ms(of.work_us) }
    }
}

/// Output of `simulate zaptos`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the schema of either, which are written apart")]
enum Zaptos {
    /// Without `--figure`.
    One(ZaptosPoint),
    /// With `--figure`.
    Many(Points),
}

/// Schemas of what is written.
pub(crate) fn schemas() -> [Named; 5] {
    [
        schema::<Zaptos>("simulate-zaptos", "simulate zaptos --json"),
        schema::<Figures<ResilientdbPoint>>("simulate-resilientdb", "simulate resilientdb --json"),
        schema::<Figures<SbftPoint>>("simulate-sbft", "simulate sbft --json"),
        schema::<Figures<AutobahnPoint>>("simulate-autobahn", "simulate autobahn --json"),
        schema::<SideBySide>("simulate-compare", "simulate compare --json"),
    ]
}
