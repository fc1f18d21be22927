//! Output of `net` as JSON.

use super::{
    args::{AUTHENTICATIONS, DURABILITIES, NetArgs, PROTOCOLS},
    load::Load,
    report::{Report, ms, quantile},
    sample::{Acknowledgements, Sample},
};
use crate::flags::word;
use phalanx_lab::{
    config::name_of,
    result::SCHEMA,
    written::{Named, schema},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The result of a run.
#[derive(Serialize, JsonSchema)]
pub(super) struct Written<'a> {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Flags as resolved.
    config: Flags,
    /// Decided blocks.
    blocks: u64,
    /// Transactions that were answered.
    txs: u64,
    /// Transactions that blocks skipped.
    skipped: u64,
    /// Transactions that were sent again.
    repeated: u64,
    /// Transactions without an answer.
    unanswered: usize,
    /// Answered transactions ÷ time from the first transaction to the last answer.
    tps: f64,
    /// Time from a transaction to f+1 equal answers, in ms.
    latency_ms: Latency,
    /// Least latency that the distances allow, in ms. Null where it is not known.
    floor_ms: Option<f64>,
    /// Longest time without an answer, in ms.
    longest_gap_ms: f64,
    /// Figures by second of submission.
    by_second: Vec<Second>,
    /// Heights whose result each replica has named.
    heights_compared: &'a [usize],
    /// True if every replica has named the result of every height, and there is one.
    one_root_per_height: bool,
    /// Heights that sequential revm has executed with the same result.
    heights_executed: u64,
    /// True if these are all.
    equals_serial: bool,
    /// Root after the last of them.
    state_root: &'a str,
    /// True if all replicas stand at one height and every transaction is answered.
    settled: bool,
    /// True if the user stopped the run.
    interrupted: bool,
    /// Faults with the replica that they hit, in the order of their ends.
    faults: &'a [String],
    /// Last status of each replica.
    replicas: &'a [Value],
    /// Blocks that the fast path decided.
    fast_blocks: u64,
    /// Blocks that the slow path decided.
    slow_blocks: u64,
    /// Time from the end of each fault to the usual latency.
    hangovers: Vec<Hangover<'a>>,
    /// The client that believes a single message. Null for protocols without such messages.
    acknowledgements: Option<Acknowledgements>,
}

/// Flags, as written.
#[derive(Serialize, JsonSchema)]
struct Flags {
    /// Protocol.
    protocol: &'static str,
    /// Replicas.
    n: usize,
    /// Round trips between them.
    rtt: String,
    /// Bandwidth of a link in megabits per second. Null without a limit.
    mbits: Option<u64>,
    /// Messages in a thousand that are lost.
    loss_per_mille: u16,
    /// Transactions per second that are submitted.
    tps: u64,
    /// Clients.
    clients: u64,
    /// Time of the load, in s.
    seconds: u64,
    /// Most transactions in a batch.
    batch: usize,
    /// Batch threads.
    batch_threads: u16,
    /// Kind of execution.
    execution: String,
    /// Kind of authentication.
    authentication: &'static str,
    /// Failures that a decided block survives.
    durability: &'static str,
    /// Blocks between checkpoints.
    interval: u64,
    /// Patience with a primary, in ms.
    timeout_ms: u64,
    /// Patience of a client, in ms.
    retry_ms: u64,
    /// Seed.
    seed: u64,
}

/// Order statistics of a latency, in ms.
#[derive(Serialize, JsonSchema)]
struct Latency {
    /// Mean.
    mean: f64,
    /// Median.
    p50: f64,
    /// 95th percentile.
    p95: f64,
    /// 99th percentile.
    p99: f64,
    /// Maximum.
    max: f64,
}

/// Figures of the transactions that were due in one second.
#[derive(Serialize, JsonSchema)]
struct Second {
    /// Number of the second.
    second: u64,
    /// Transactions that were sent.
    sent: u64,
    /// Transactions that were answered.
    confirmed: u64,
    /// Mean latency, in ms.
    mean_ms: f64,
    /// Longest latency, in ms.
    max_ms: f64,
    /// Blocks that the fast path decided in it.
    fast_blocks: u64,
    /// Blocks that the slow path decided in it.
    slow_blocks: u64,
}

/// Time from the end of a fault to the usual latency.
#[derive(Serialize, JsonSchema)]
struct Hangover<'a> {
    /// The fault, as given.
    fault: &'a str,
    /// The time, in ms. Null if it lasts to the end.
    ms: Option<f64>,
}

/// Schema of what is written.
pub(in crate::cmd) fn net_schema() -> Named {
    schema::<Written<'_>>("net", "net --json")
}

impl Report {
    pub(super) fn written(&self, args: &NetArgs, load: &Load) -> Written<'_> {
        let mut sorted = load.latencies_us.clone();
        sorted.sort_unstable();
        let mean = sorted.iter().sum::<u64>() / (sorted.len() as u64).max(1);
        let q = |of| ms(quantile(&sorted, of));
        let second = |(second, of): (&u64, &super::load::Second)| {
            let [fast_blocks, slow_blocks] = self.paths.get(second).copied().unwrap_or_default();
            Second {
                second: *second,
                sent: of.sent,
                confirmed: of.confirmed,
                mean_ms: ms(of.latency_us / of.confirmed.max(1)),
                max_ms: ms(of.most_us),
                fast_blocks,
                slow_blocks,
            }
        };
        Written {
            schema: SCHEMA,
            config: Flags::from(args),
            blocks: self.blocks,
            txs: self.txs,
            skipped: load.skipped,
            repeated: load.repeated,
            unanswered: load.unanswered(),
            tps: self.tps(),
            latency_ms: Latency { mean: ms(mean), p50: q(0.5), p95: q(0.95), p99: q(0.99), max: q(1.0) },
            floor_ms: self.floor_us.map(ms),
            longest_gap_ms: ms(load.longest_gap_us),
            by_second: load.seconds.iter().map(second).collect(),
            heights_compared: &self.compared,
            one_root_per_height: self.has_one_root(),
            heights_executed: self.executed,
            equals_serial: self.equals_serial(),
            state_root: &self.state_root,
            settled: self.settled,
            interrupted: self.interrupted,
            faults: &self.faults,
            replicas: &self.replicas,
            fast_blocks: self.of_path(0),
            slow_blocks: self.of_path(1),
            hangovers: self.hangovers.iter().map(|(fault, us)| Hangover { fault, ms: us.map(ms) }).collect(),
            acknowledgements: self.sample.as_ref().map(Sample::written),
        }
    }
}

impl From<&NetArgs> for Flags {
    fn from(args: &NetArgs) -> Self {
        Self {
            protocol: name_of(PROTOCOLS, &args.protocol),
            n: args.n,
            rtt: args.rtt.to_string(),
            mbits: args.mbits,
            loss_per_mille: args.loss,
            tps: args.load.tps,
            clients: args.load.clients,
            seconds: args.load.seconds,
            batch: args.batch,
            batch_threads: args.batch_threads,
            execution: word(args.execution),
            authentication: name_of(AUTHENTICATIONS, &args.authentication),
            durability: name_of(DURABILITIES, &args.durability),
            interval: args.interval,
            timeout_ms: args.timeout_ms,
            retry_ms: args.load.retry_ms,
            seed: args.load.seed,
        }
    }
}
