//! Counters of a node, and the page that shows them.

use super::{
    abci::Abci,
    families::{END, Seconds, append, durations, number, plain, with_unit},
    replica::{self, Reporter},
    rpc::Rpc,
    stages::Stages,
    system::System,
};
use crate::{counters::Counters, store::Sizes};
use parking_lot::Mutex;
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64},
    },
};

/// Counters of a node.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    height: Gauge,
    txs: Counter,
    pub(crate) block_seconds: Histogram,
    pub(crate) missed_blocks: Counter,
    /// Time of payloads of a consensus client before they were chosen, and of the choices.
    pub(crate) ahead_seconds: Seconds,
    pub(crate) choice_seconds: Seconds,
    /// True while the last try to make a block has failed.
    pub(crate) stalled: AtomicBool,
    pub(crate) stages: Arc<Stages>,
    pub(crate) rpc: Rpc,
    pub(crate) abci: Abci,
    replica: OnceLock<Reporter>,
    pool_txs: Gauge,
    recovered: Gauge,
    disk_free: Gauge,
    store: Store,
    system: System,
    /// Counts of libraries.
    counters: &'static Counters,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Sizes of the store.
struct Store {
    segments: Gauge,
    index: Gauge,
    txs: Gauge,
    bytes_per_tx: Gauge<f64, AtomicU64>,
}

impl Store {
    fn new(registry: &mut Registry) -> Self {
        Self {
            segments: with_unit(registry, "store_segments", "Size of the stored blocks", Unit::Bytes),
            index: with_unit(registry, "store_index", "Size of the index", Unit::Bytes),
            txs: plain(registry, "store_transactions", "Stored transactions"),
            bytes_per_tx: plain(registry, "store_bytes_per_transaction", "Size of the stored blocks per transaction"),
        }
    }

    fn set(&self, sizes: &Sizes) {
        self.segments.set(number(sizes.segments));
        self.index.set(number(sizes.index));
        self.txs.set(number(sizes.txs));
        self.bytes_per_tx.set(sizes.per_tx());
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut all = Registry::with_prefix("phalanx");
        let registry = &mut all;
        let block_seconds = durations();
        let what = "Time from the build of a block to its visibility";
        registry.register_with_unit("producer_block", what, Unit::Seconds, block_seconds.clone());
        let metrics = Self {
            height: plain(registry, "chain_height", "Height of the newest visible block"),
            txs: plain(registry, "chain_transactions", "Committed transactions"),
            missed_blocks: plain(registry, "producer_missed_blocks", "Failed tries to make a block"),
            ahead_seconds: with_unit(
                registry,
                "client_ahead",
                "Time of chosen payloads before their choice: executed, hashed and staged",
                Unit::Seconds,
            ),
            choice_seconds: with_unit(
                registry,
                "client_choice",
                "Time of a consensus client's choices that moved the head",
                Unit::Seconds,
            ),
            stages: Arc::new(Stages::new(registry)),
            rpc: Rpc::new(registry),
            abci: Abci::new(registry),
            disk_free: with_unit(registry, "disk_free", "Room on the disk of the node's folder", Unit::Bytes),
            pool_txs: plain(registry, "pool_transactions", "Transactions in the pool"),
            recovered: with_unit(
                registry,
                "recovered_transactions",
                "Memory of recovered transactions, of the pool and the newest blocks",
                Unit::Bytes,
            ),
            store: Store::new(registry),
            block_seconds,
            stalled: AtomicBool::default(),
            replica: OnceLock::new(),
            system: System::new(),
            counters: Counters::install(),
            registry: Mutex::default(),
        };
        *metrics.registry.lock() = all;
        metrics
    }

    /// Counts a block that has become visible.
    pub(crate) fn block(&self, height: u64, txs: u64) {
        self.at(height);
        self.txs.inc_by(txs);
    }

    /// Sets the height of the newest visible block.
    pub(crate) fn at(&self, height: u64) {
        self.height.set(number(height));
    }

    /// Takes the status of the node's replica.
    pub(crate) fn report_replica(&self, reporter: Reporter) {
        // A node has one replica.
        let _ = self.replica.set(reporter);
    }

    /// The page for Prometheus, with the pool's transactions, the bytes of recovered ones, sizes and the `free` bytes of the disk as they are
    /// now.
    pub(crate) fn page(&self, (waiting, recovered): (usize, usize), sizes: &Sizes, free: u64) -> String {
        self.pool_txs.set(number(waiting as u64));
        self.recovered.set(number(recovered as u64));
        self.store.set(sizes);
        self.disk_free.set(number(free));
        self.rpc.measure();
        let mut page = String::new();
        self.system.write(&mut page);
        append(&mut page, &self.registry.lock());
        self.counters.write(&mut page);
        if let Some(status) = self.replica.get().and_then(|status| status()) {
            replica::write(&mut page, &status);
        }
        page.push_str(END);
        page
    }
}
