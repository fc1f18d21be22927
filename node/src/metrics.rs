//! Counters of a node, in the text format of Prometheus, and the observer of the engine's stages.

use crate::{
    counters::Counters,
    edge::{Cut, Pool},
    process::Process,
    store::Sizes,
};
use parking_lot::Mutex;
use phalanx::{Observer, Stage};
use phalanx_net::Status;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use std::{
    fmt::{self, Write as _},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64},
    },
    time::{Duration, Instant},
};

/// Reader of the status of a replica.
pub(crate) type Reporter = Box<dyn Fn() -> Option<Status> + Send + Sync>;

/// Label of a JSON-RPC method.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

/// Label of a call of CometBFT.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCall {
    call: &'static str,
}

/// Label of a stage of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    stage: &'static str,
}

/// Label of a connection that the node has closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// A counter of seconds.
type Seconds = Counter<f64, AtomicU64>;

/// Counters of a node.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    process: Mutex<Registry>,
    height: Gauge,
    txs: Counter,
    pub(crate) block_seconds: Histogram,
    pub(crate) missed_blocks: Counter,
    /// Time of payloads of a consensus client before they were chosen, and of the choices.
    pub(crate) ahead_seconds: Seconds,
    pub(crate) choice_seconds: Seconds,
    /// True while the last try to make a block has failed.
    pub(crate) stalled: AtomicBool,
    stages: Family<OfStage, Seconds>,
    requests: Family<Method, Counter>,
    errors: Family<Method, Counter>,
    abci_calls: Family<OfCall, Counter>,
    abci_failed: Family<OfCall, Counter>,
    abci_seconds: Family<OfCall, Histogram>,
    pub(crate) rejected_proposals: Counter,
    disk_free: Gauge,
    cpu_seconds: Gauge<f64, AtomicU64>,
    resident_bytes: Gauge,
    open_fds: Gauge,
    threads: Gauge,
    /// Counts of libraries.
    counters: &'static Counters,
    request_seconds: Family<Method, Histogram>,
    connections: Gauge,
    refused: Counter,
    cut: Family<Reason, Counter>,
    pools: OnceLock<[Arc<Pool>; 2]>,
    replica: OnceLock<Reporter>,
    request_bytes: Gauge,
    answer_bytes: Gauge,
    pool_txs: Gauge,
    recovered: Gauge,
    stored_bytes: Gauge,
    index_bytes: Gauge,
    stored_txs: Gauge,
    bytes_per_tx: Gauge<f64, AtomicU64>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Buckets of durations: from 50 µs to 26 s.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(50e-6, 3.0, 13))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("phalanx");
        let metrics = Self {
            registry: Mutex::default(),
            process: Mutex::default(),
            height: Gauge::default(),
            txs: Counter::default(),
            block_seconds: durations(),
            missed_blocks: Counter::default(),
            ahead_seconds: Seconds::default(),
            choice_seconds: Seconds::default(),
            stalled: AtomicBool::default(),
            stages: Family::default(),
            requests: Family::default(),
            errors: Family::default(),
            abci_calls: Family::default(),
            abci_failed: Family::default(),
            abci_seconds: Family::new_with_constructor(durations),
            rejected_proposals: Counter::default(),
            disk_free: Gauge::default(),
            cpu_seconds: Gauge::default(),
            resident_bytes: Gauge::default(),
            open_fds: Gauge::default(),
            threads: Gauge::default(),
            counters: Counters::install(),
            request_seconds: Family::new_with_constructor(durations),
            connections: Gauge::default(),
            refused: Counter::default(),
            cut: Family::default(),
            pools: OnceLock::new(),
            replica: OnceLock::new(),
            request_bytes: Gauge::default(),
            answer_bytes: Gauge::default(),
            pool_txs: Gauge::default(),
            recovered: Gauge::default(),
            stored_bytes: Gauge::default(),
            index_bytes: Gauge::default(),
            stored_txs: Gauge::default(),
            bytes_per_tx: Gauge::default(),
        };
        let unit = Unit::Seconds;
        registry.register("chain_height", "Height of the newest visible block", metrics.height.clone());
        registry.register("chain_transactions", "Committed transactions", metrics.txs.clone());
        registry.register("producer_missed_blocks", "Failed tries to make a block", metrics.missed_blocks.clone());
        registry.register_with_unit(
            "producer_block",
            "Time from the build of a block to its visibility",
            unit.clone(),
            metrics.block_seconds.clone(),
        );
        let what = "Time of chosen payloads before their choice: executed, hashed and staged";
        registry.register_with_unit("client_ahead", what, unit.clone(), metrics.ahead_seconds.clone());
        let what = "Time of a consensus client's choices that moved the head";
        registry.register_with_unit("client_choice", what, unit.clone(), metrics.choice_seconds.clone());
        registry.register_with_unit(
            "engine_stage",
            "Time of the engine's stages, of all workers",
            unit.clone(),
            metrics.stages.clone(),
        );
        registry.register("rpc_requests", "Answered JSON-RPC requests", metrics.requests.clone());
        registry.register("rpc_errors", "JSON-RPC requests answered with an error", metrics.errors.clone());
        registry.register_with_unit(
            "rpc_request",
            "Time of JSON-RPC requests, waiting included",
            unit.clone(),
            metrics.request_seconds.clone(),
        );
        registry.register("abci_calls", "Answered calls of CometBFT", metrics.abci_calls.clone());
        registry.register("abci_failed_calls", "Calls of CometBFT that were refused", metrics.abci_failed.clone());
        registry.register_with_unit(
            "abci_call",
            "Time of calls of CometBFT, waiting included",
            unit,
            metrics.abci_seconds.clone(),
        );
        registry.register(
            "abci_rejected_proposals",
            "Proposals of other validators that break a rule",
            metrics.rejected_proposals.clone(),
        );
        let bytes = Unit::Bytes;
        registry.register_with_unit(
            "disk_free",
            "Room on the disk of the node's folder",
            bytes,
            metrics.disk_free.clone(),
        );
        registry.register("rpc_connections", "Open connections of JSON-RPC", metrics.connections.clone());
        let what = "Connections of JSON-RPC that found no place";
        registry.register("rpc_connections_refused", what, metrics.refused.clone());
        let what = "Connections of JSON-RPC that the node closed because of a limit";
        registry.register("rpc_connections_closed", what, metrics.cut.clone());
        let what = "Size of requests in flight, beyond what every connection may hold";
        registry.register_with_unit("rpc_requests_in_flight", what, Unit::Bytes, metrics.request_bytes.clone());
        let what = "Size of answers and notifications in flight, beyond what every connection may hold";
        registry.register_with_unit("rpc_answers_in_flight", what, Unit::Bytes, metrics.answer_bytes.clone());
        registry.register("pool_transactions", "Transactions in the pool", metrics.pool_txs.clone());
        let what = "Memory of recovered transactions, of the pool and the newest blocks";
        registry.register_with_unit("recovered_transactions", what, Unit::Bytes, metrics.recovered.clone());
        registry.register_with_unit(
            "store_segments",
            "Size of the stored blocks",
            Unit::Bytes,
            metrics.stored_bytes.clone(),
        );
        registry.register_with_unit("store_index", "Size of the index", Unit::Bytes, metrics.index_bytes.clone());
        registry.register("store_transactions", "Stored transactions", metrics.stored_txs.clone());
        registry.register(
            "store_bytes_per_transaction",
            "Size of the stored blocks per transaction",
            metrics.bytes_per_tx.clone(),
        );
        // Names without a prefix are those that every exporter gives these.
        let mut process = Registry::default();
        process.register("process_cpu_seconds", "Processor time of all threads", metrics.cpu_seconds.clone());
        process.register("process_resident_memory_bytes", "Resident memory", metrics.resident_bytes.clone());
        process.register("process_open_fds", "Open files and sockets", metrics.open_fds.clone());
        process.register("process_threads", "Threads", metrics.threads.clone());
        *metrics.process.lock() = process;
        for reason in Cut::ALL.map(Cut::name) {
            // Counters that begin at zero are on the page from the start.
            drop(metrics.cut.get_or_create(&Reason { reason }));
        }
        *metrics.registry.lock() = registry;
        metrics
    }

    /// Counts a block that has become visible.
    pub(crate) fn block(&self, height: u64, txs: u64) {
        self.height.set(i64::try_from(height).unwrap_or(i64::MAX));
        self.txs.inc_by(txs);
    }

    /// Sets the height of the newest visible block.
    pub(crate) fn at(&self, height: u64) {
        self.height.set(i64::try_from(height).unwrap_or(i64::MAX));
    }

    /// Counts a request.
    pub(crate) fn request(&self, method: &'static str, failed: bool, took: Duration) {
        let label = Method { method };
        self.requests.get_or_create(&label).inc();
        if failed {
            self.errors.get_or_create(&label).inc();
        }
        self.request_seconds.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// Counts a call of CometBFT.
    pub(crate) fn call(&self, call: &'static str, failed: bool, took: Duration) {
        let label = OfCall { call };
        let family = if failed { &self.abci_failed } else { &self.abci_calls };
        family.get_or_create(&label).inc();
        self.abci_seconds.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// Counts an open connection.
    pub(crate) fn connected(&self) {
        self.connections.inc();
    }

    /// Counts the end of a connection, with the reason for which the node has closed it.
    pub(crate) fn disconnected(&self, cut: Option<Cut>) {
        self.connections.dec();
        if let Some(cut) = cut {
            self.cut.get_or_create(&Reason { reason: cut.name() }).inc();
        }
    }

    /// Counts a connection that found no place.
    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    /// Takes the status of the node's replica.
    pub(crate) fn report_replica(&self, reporter: Reporter) {
        // A node has one replica.
        let _ = self.replica.set(reporter);
    }

    /// Takes the pools whose bytes the page shows: of requests, and of answers.
    pub(crate) fn of_pools(&self, requests: &Arc<Pool>, answers: &Arc<Pool>) {
        // Those of the public server, which starts before that of a consensus client.
        let _ = self.pools.set([Arc::clone(requests), Arc::clone(answers)]);
    }

    /// The page for Prometheus, with the pool's transactions, the bytes of recovered ones, sizes and the `free` bytes of the disk as they are
    /// now.
    pub(crate) fn page(&self, (waiting, recovered): (usize, usize), sizes: &Sizes, free: u64) -> String {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.pool_txs.set(number(waiting as u64));
        self.recovered.set(number(recovered as u64));
        self.stored_bytes.set(number(sizes.segments));
        self.index_bytes.set(number(sizes.index));
        self.stored_txs.set(number(sizes.txs));
        self.bytes_per_tx.set(sizes.per_tx());
        self.disk_free.set(number(free));
        if let Some([requests, answers]) = self.pools.get() {
            self.request_bytes.set(number(requests.used() as u64));
            self.answer_bytes.set(number(answers.used() as u64));
        }
        let mut page = String::new();
        if let Some(process) = Process::now() {
            self.cpu_seconds.set(process.cpu_seconds);
            self.resident_bytes.set(number(process.resident_bytes));
            self.open_fds.set(number(process.open_fds));
            self.threads.set(number(process.threads));
            append(&mut page, &self.process.lock());
        }
        append(&mut page, &self.registry.lock());
        self.counters.write(&mut page);
        if let Some(status) = self.replica.get().and_then(|status| status()) {
            write_replica(&mut page, &status);
        }
        page.push_str(END);
        page
    }
}

/// Appends the status of a replica.
fn write_replica(page: &mut String, status: &Status) {
    let gauges = [
        ("decided_height", status.decided),
        ("epoch", status.epoch),
        ("view", status.view),
        ("leader", status.leader.into()),
        ("silent", status.silent.into()),
        ("forgers", status.forgers.len() as u64),
    ];
    let counters = [
        ("evidence", status.evidence),
        ("transfers", status.transfers),
        ("log_compactions", status.compactions),
        ("fast_blocks", status.fast),
        ("slow_blocks", status.slow),
        ("dropped_frames", status.dropped),
        ("refused_transactions", status.refused_txs),
        ("refused_frames", status.refused.iter().map(|(_, count)| count).sum()),
    ];
    // Writing to a string does not fail.
    for (name, value) in gauges {
        let _ = writeln!(page, "# TYPE phalanx_replica_{name} gauge\nphalanx_replica_{name} {value}");
    }
    for (name, value) in counters {
        let _ = writeln!(page, "# TYPE phalanx_replica_{name} counter\nphalanx_replica_{name}_total {value}");
    }
}

/// Last line of a page.
const END: &str = "# EOF\n";

/// Appends the families of a registry.
fn append(page: &mut String, registry: &Registry) {
    // Writing to a string does not fail.
    let _ = encode(page, registry);
    if page.ends_with(END) {
        page.truncate(page.len() - END.len());
    }
}

/// Observer of the engine that counts the time of each stage.
#[derive(Debug)]
pub(crate) struct Stages {
    metrics: Arc<Metrics>,
    /// Begin of each stage that runs now.
    begun: Mutex<[Option<Instant>; Stage::ALL.len()]>,
}

impl Stages {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, begun: Mutex::default() }
    }
}

impl Observer for Stages {
    fn enter(&self, stage: Stage) {
        self.begun.lock()[stage as usize] = Some(Instant::now());
    }

    fn leave(&self, stage: Stage) {
        if let Some(begun) = self.begun.lock()[stage as usize].take() {
            let (label, took) = (OfStage { stage: stage.name() }, begun.elapsed());
            self.metrics.stages.get_or_create(&label).inc_by(took.as_secs_f64());
            tracing::trace!(target: "phalanx_node::stage", stage = stage.name(), us = took.as_micros() as u64);
        }
    }
}
