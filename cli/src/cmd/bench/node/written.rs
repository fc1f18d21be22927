//! Figures of `bench node` as text and as JSON.

use super::{
    NodeBench,
    alone::Alone,
    load::{Kind, Recovered},
    run::Ran,
};
use crate::output;
use phalanx_lab::{
    doctor,
    machine::host,
    report::Output,
    result::{Host, SCHEMA, Tool},
    written::{self, Named},
};
use phalanx_node::Production;
use schemars::JsonSchema;
use serde::Serialize;
use std::{fmt::Write as _, time::Duration};

/// From signed bytes to durable blocks.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// The program.
    tool: Tool,
    /// The machine. Clients and node share it.
    host: Host,
    /// Transactions of every run: transfers, signed before.
    txs: u64,
    /// Their kind.
    workload: Kind,
    /// Accounts that pay.
    payers: u64,
    /// Connections that send.
    writers: u64,
    /// Maximum number of transactions that were sent and that no block had yet.
    window: u64,
    /// Transactions that were due per second; absent if the node's answers have set the pace.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u64>,
    /// When blocks are made.
    block_production: String,
    /// Gas limit of a block.
    gas_limit: u64,
    /// Runs against a node, each on a new chain.
    runs: Vec<Run<'a>>,
    /// The engine's service on the same transactions: from bytes to the durable commit.
    engine: Engine,
    /// Recovery of one signature on one thread, one by one, with nothing beside it, in µs.
    recovery_us: f64,
    /// The exact command.
    command: String,
}

/// A run against a node.
#[derive(Serialize, JsonSchema)]
struct Run<'a> {
    /// Name of the run.
    name: &'a str,
    /// Transactions in a request or a frame.
    batch: u64,
    /// From the first request until every transaction, beside receipts every one of the batches, was read in a visible block, whose receipts are on disk; in s.
    seconds: f64,
    /// Transactions ÷ seconds.
    tps: f64,
    /// Median time from the sending of a transaction, or from when it was due, to the reading of its block, in ms.
    p50_ms: f64,
    /// 99th percentile of the same, in ms.
    p99_ms: f64,
    /// Blocks, empty ones included. Each is as sequential revm makes it.
    blocks: u64,
    /// Transactions that were refused for lack of room and sent again.
    resent: u64,
    /// From the sending of a request with transactions to its answer: they are in the pool then. Absent where all answers are receipts.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<Times>,
    /// From the sending of a transaction to its receipt, as the answer to `eth_sendRawTransactionSync`. Absent where none is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipts: Option<Times>,
    /// Processor time of the node's process ÷ transactions, in µs.
    node_us_per_tx: f64,
    /// `node_us_per_tx` ÷ that of the engine alone, which builds equal blocks.
    node_to_engine: f64,
    /// Processor time of the clients, which send, read blocks and keep their times, ÷ transactions, in µs.
    clients_us_per_tx: f64,
    /// Transactions of the senders ÷ time until the last of their answers. Beside it `tps` is that of blocks.
    admitted_per_second: f64,
    /// Growth of the node's resident memory in the run ÷ transactions, in bytes. The accounts that the transfers make are a part of it.
    node_bytes_per_tx: f64,
    /// Reads of balances beside. Absent without readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<Reads>,
    /// Work by stage, as the node counts it; stages overlap, and workers of one stage count as one.
    stages: Vec<Stage>,
    /// Processor time of the node's threads by their names, as the kernel counts it. It has no gaps and no waits: the sum is that of
    /// the process. Absent where the kernel does not count it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    threads: Vec<Stage>,
}

/// Times of requests.
#[derive(Serialize, JsonSchema)]
struct Times {
    /// Number of requests.
    count: usize,
    /// Median, in ms.
    p50_ms: f64,
    /// 99th percentile, in ms.
    p99_ms: f64,
}

impl Times {
    /// Figures of sorted times; `None` if there are none.
    fn of(times: &[Duration]) -> Option<Self> {
        let [p50_ms, p99_ms] = [50, 99].map(|percent| ms(percentile(times, percent)));
        (!times.is_empty()).then_some(Self { count: times.len(), p50_ms, p99_ms })
    }
}

/// Reads beside writes.
#[derive(Serialize, JsonSchema)]
struct Reads {
    /// Connections that read.
    readers: u64,
    /// Answered reads ÷ seconds of the run.
    per_second: f64,
    /// Median time of a read, in µs.
    p50_us: f64,
    /// 99th percentile of the same, in µs.
    p99_us: f64,
}

/// Name of the recovery among the stages.
const RECOVERY: &str = "of admission: recovery, as alone";

/// Work of a stage.
#[derive(Serialize, JsonSchema)]
struct Stage {
    /// Name, of threads that in the system: `admission` is `eth_sendRawTransaction` from its arguments to its answer, recovery of the sender, pool and waits included;
    /// `blocks` is the producer from the build of a block to its visibility; `engine: ..` are the engine's stages within both. The last is the recovery of
    /// all signatures at its cost alone.
    name: String,
    /// Time in s, of all threads.
    seconds: f64,
    /// The same ÷ transactions, in µs.
    us_per_tx: f64,
    /// The same ÷ seconds of the run.
    share: f64,
}

/// The engine alone.
#[derive(Serialize, JsonSchema)]
struct Engine {
    /// From the first block's bytes to the last durable commit, recovery of signatures included, in s.
    seconds: f64,
    /// Transactions ÷ seconds.
    tps: f64,
    /// Blocks: as long as those of the first run on average.
    blocks: u64,
    /// Processor time of the same transactions over the pool and the builder ÷ transactions, from bytes to the durable commit, in µs.
    built_us_per_tx: f64,
}

/// Schema of what is written.
pub(in crate::cmd) fn schema() -> Named {
    written::schema::<Written<'_>>("bench-node", "bench node --json")
}

/// The time below which so many percent of all are; zero of none. The times are sorted.
pub(super) fn percentile(times: &[Duration], percent: usize) -> Duration {
    let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(place).copied().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn run<'a>(
    bench: &NodeBench,
    (recovery_us, built_us): (f64, f64),
    &(name, batch, ref ran): &'a (&str, u64, Ran),
) -> Run<'a> {
    // A run has no other load where few receipts are asked for.
    let (seconds, txs) = (ran.took.as_secs_f64(), ran.latencies.len() as f64);
    let reads = (!ran.reads.is_empty()).then(|| Reads {
        readers: bench.readers,
        per_second: ran.reads.len() as f64 / seconds,
        p50_us: ms(percentile(&ran.reads, 50)) * 1e3,
        p99_us: ms(percentile(&ran.reads, 99)) * 1e3,
    });
    let stage = |(name, spent): &(String, f64)| Stage {
        name: name.clone(),
        seconds: *spent,
        us_per_tx: spent / txs * 1e6,
        share: spent / seconds,
    };
    Run {
        name,
        batch,
        seconds,
        tps: txs / seconds,
        p50_ms: ms(percentile(&ran.latencies, 50)),
        p99_ms: ms(percentile(&ran.latencies, 99)),
        blocks: ran.blocks,
        resent: ran.resent,
        answers: Times::of(&ran.answers),
        receipts: Times::of(&ran.receipts),
        node_us_per_tx: ran.used.cpu / txs * 1e6,
        node_to_engine: ran.used.cpu / txs * 1e6 / built_us,
        clients_us_per_tx: ran.clients.as_secs_f64() / txs * 1e6,
        admitted_per_second: ran.admitted,
        node_bytes_per_tx: ran.used.resident / txs,
        reads,
        stages: ran.used.stages.iter().chain([&(RECOVERY.to_owned(), recovery_us * txs / 1e6)]).map(stage).collect(),
        threads: ran.used.threads.iter().map(stage).collect(),
    }
}

/// Text and JSON.
pub(super) fn output(bench: &NodeBench, recovered: &Recovered, runs: &[(&str, u64, Ran)], alone: &Alone) -> Output {
    let seconds = alone.took.as_secs_f64();
    let recovery_us = recovered.took.as_secs_f64() / recovered.count.max(1) as f64 * 1e6;
    let built_us = alone.built.as_secs_f64() / bench.txs as f64 * 1e6;
    let written = Written {
        schema: SCHEMA,
        tool: host::tool(),
        host: doctor::host(None),
        txs: bench.txs,
        workload: bench.workload,
        payers: bench.payers,
        writers: bench.writers,
        window: bench.window,
        rate: bench.rate,
        block_production: match bench.blocks {
            Production::Every(period) => format!("every {} ms", period.as_millis()),
            _ => "instant".into(),
        },
        gas_limit: bench.gas_limit,
        runs: runs.iter().map(|ran| run(bench, (recovery_us, built_us), ran)).collect(),
        engine: Engine { seconds, tps: bench.txs as f64 / seconds, blocks: alone.blocks, built_us_per_tx: built_us },
        recovery_us,
        command: output::command(),
    };
    Output { text: text(&written), value: written::value(&written), claim: None, csv: None, picture: None }
}

fn text(written: &Written<'_>) -> String {
    let Written { txs, payers, writers, block_production, host, engine, recovery_us, .. } = written;
    let pace = match written.rate {
        Some(rate) => format!("{rate} transactions per second"),
        None => format!("at most {} transactions under way", written.window),
    };
    let kind = match written.workload {
        Kind::Native => "transfers",
        Kind::Erc20 => "transfers of tokens",
        Kind::Mixed => "transfers, every other one of tokens,",
    };
    let mut text = format!(
        "{txs} {kind} of {payers} accounts, signed before; blocks {block_production}; {writers} connections, {pace}\nnode and clients share {} cores; in the timer: from the first request to the last transaction in \
         a visible block\n\n{:<22}{:>10}{:>13}{:>12}{:>10}{:>10}{:>12}{:>12}{:>8}{:>8}\n",
        host.cores,
        "",
        "tx/s",
        "node µs/tx",
        "node B/tx",
        "p50 ms",
        "p99 ms",
        "answer p50",
        "answer p99",
        "blocks",
        "resent"
    );
    // Writing to a string does not fail.
    for Run {
        name,
        tps,
        node_us_per_tx,
        node_to_engine,
        clients_us_per_tx,
        admitted_per_second,
        node_bytes_per_tx,
        p50_ms,
        p99_ms,
        blocks,
        resent,
        reads,
        answers,
        receipts,
        ..
    } in &written.runs
    {
        let of_answers =
            |pick: fn(&Times) -> f64| answers.as_ref().map_or(String::new(), |times| format!("{:.2}", pick(times)));
        let (p50, p99) = (of_answers(|times| times.p50_ms), of_answers(|times| times.p99_ms));
        let _ = writeln!(
            text,
            "{name:<22}{tps:>10.0}{node_us_per_tx:>13.1}{node_bytes_per_tx:>12.0}{p50_ms:>10.1}{p99_ms:>10.1}{p50:>12}{p99:>12}{blocks:>8}{resent:>8}"
        );
        let _ = writeln!(
            text,
            "  {admitted_per_second:.0} admitted/s; {node_to_engine:.2} times the engine's processor time; clients {clients_us_per_tx:.1} µs/tx"
        );
        if let Some(Times { count, p50_ms, p99_ms }) = receipts {
            let _ = writeln!(text, "  {count} receipts as answers: p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms");
        }
        if let Some(Reads { per_second, p50_us, p99_us, readers }) = reads {
            let _ = writeln!(
                text,
                "  {readers} readers beside: {per_second:.0} reads/s, p50 {p50_us:.0} µs, p99 {p99_us:.0} µs"
            );
        }
    }
    let _ = writeln!(
        text,
        "{:<22}{:>10.0}{:>13}{:>12}{:>10}{:>10}{:>12}{:>12}{:>8}",
        "engine alone", engine.tps, "", "", "", "", "", "", engine.blocks
    );
    let _ =
        writeln!(text, "  from bytes to the durable commit, recovery included; no pool, no block store, no JSON-RPC");
    let _ = writeln!(text, "  processor time with pool and builder: {:.1} µs/tx", engine.built_us_per_tx);
    for Run { name, stages, threads, .. } in &written.runs {
        for (what, stages) in [("work", stages), ("processor", threads)] {
            let head = format!("{what}: {name}");
            let _ = writeln!(text, "\n{head:<34}{:>10}{:>12}{:>16}", "s", "µs per tx", "% of the run");
            for Stage { name, seconds, us_per_tx, share } in stages.iter().filter(|stage| stage.share >= 0.0005) {
                let _ = writeln!(text, "  {name:<32}{seconds:>10.3}{us_per_tx:>12.2}{:>16.1}", share * 100.0);
            }
        }
    }
    let _ = writeln!(
        text,
        "\nevery block is as sequential revm makes it; node µs/tx is the processor time of the node's process, and `processor` divides it by its threads; answer is the time of a request with transactions in ms; admission is the time of all requests with transactions, waits included; blocks is the producer, from build to \
         visible;\nengine stages are within both. A signature alone, on one thread before the runs: {recovery_us:.1} µs"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&times, percent).as_millis()), [100, 198, 200]);
        assert_eq!(percentile(&times[..1], 50), Duration::from_millis(1));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }
}
