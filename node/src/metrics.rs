//! Counters of a node, in the text format of Prometheus, and the observer of the engine's stages.

use crate::store::Sizes;
use parking_lot::Mutex;
use phalanx::{Observer, Stage};
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
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

/// Label of a JSON-RPC method.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

/// Label of a stage of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    stage: &'static str,
}

/// A counter of seconds.
type Seconds = Counter<f64, AtomicU64>;

/// Counters of a node.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    height: Gauge,
    txs: Counter,
    pub(crate) block_seconds: Histogram,
    pub(crate) missed_blocks: Counter,
    stages: Family<OfStage, Seconds>,
    requests: Family<Method, Counter>,
    errors: Family<Method, Counter>,
    request_seconds: Family<Method, Histogram>,
    pool_txs: Gauge,
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
            height: Gauge::default(),
            txs: Counter::default(),
            block_seconds: durations(),
            missed_blocks: Counter::default(),
            stages: Family::default(),
            requests: Family::default(),
            errors: Family::default(),
            request_seconds: Family::new_with_constructor(durations),
            pool_txs: Gauge::default(),
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
            unit,
            metrics.request_seconds.clone(),
        );
        registry.register("pool_transactions", "Transactions in the pool", metrics.pool_txs.clone());
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

    /// The page for Prometheus, with sizes as they are now.
    pub(crate) fn page(&self, waiting: usize, sizes: &Sizes) -> String {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.pool_txs.set(number(waiting as u64));
        self.stored_bytes.set(number(sizes.segments));
        self.index_bytes.set(number(sizes.index));
        self.stored_txs.set(number(sizes.txs));
        self.bytes_per_tx.set(sizes.per_tx());
        let mut page = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut page, &self.registry.lock());
        page
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
