//! Replicas as machines with threads: throughput and latency of ordering protocols under load.
//!
//! Each replica runs the state machine of its [`Protocol`](phalanx_bft::Protocol) behind stations: client input, replica input,
//! batch, worker, execute, checkpoint and output. Service times come from one frozen table, [`Costs`]. Nodes and links have
//! bandwidth, logs have disks, clients are a closed loop or an open one. The primary stays up; worlds with crashes and view changes
//! are those of a host.
//!
//! ```text
//! clients ─► client input ─► batch ─► output ═► replica input ─► worker ─► execute ─► output ═► clients
//!                          (0B: worker)             (two)           │      (0E: worker)
//!                                                                checkpoint
//! ```

mod world;
mod work;
mod clients;
mod hangover;
mod series;
mod zyzzyva;
mod station;
mod cost;

pub use cost::{Costs, Signatures};
pub use hangover::hangover;
pub use series::{Second, Series};
pub use world::run;
pub use zyzzyva::Zyzzyva;

use crate::paper;
use phalanx_bft::{MAX_REPLICAS, ReplicaSet};
use schemars::JsonSchema;
use serde::Serialize;

/// An ordering protocol, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// PBFT: three phases, f+1 equal answers.
    Pbft,
    /// Zyzzyva's path without failures: one phase, answers of all replicas, else a second phase after the client's timer.
    Zyzzyva,
    /// No order at all: batch threads of a single machine answer requests.
    Nothing,
}

/// Arrival of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Each client sends its next request when the last one is answered.
    Closed(u64),
    /// Requests per second, whatever is answered.
    Open(u64),
}

/// An interval in which a group of replicas is apart from all others. Clients reach all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Begin, in ms.
    pub from_ms: u64,
    /// End, in ms.
    pub until_ms: u64,
    /// The group.
    pub group: ReplicaSet,
    /// Fate of messages between the sides.
    pub fate: Fate,
}

/// Fate of a message that a cut separates from its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Lost.
    Lost,
    /// Held until the cut ends, as a link with retransmission does.
    Held,
}

/// A point of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Protocol.
    pub order: Order,
    /// Number of replicas.
    pub n: usize,
    /// Clients.
    pub clients: Clients,
    /// Transactions per batch.
    pub batch: u64,
    /// Operations per transaction.
    pub operations: u64,
    /// Execute threads, zero or one: without one the worker executes.
    pub execute_threads: u64,
    /// Batch threads: without one the worker makes batches.
    pub batch_threads: u64,
    /// True if transactions are executed.
    pub executes: bool,
    /// True if the state is in SQLite instead of memory.
    pub sqlite: bool,
    /// Authentication.
    pub signatures: Signatures,
    /// Length of a proposal in bytes, if it is padded.
    pub proposal_bytes: Option<u64>,
    /// Cores of a replica.
    pub cores: u64,
    /// Backups that are down.
    pub down: usize,
    /// Batches in flight at a time, `None` for the window of the protocol.
    pub window: Option<u64>,
    /// A cut of the network.
    pub cut: Option<Cut>,
    /// Patience with a primary, in ms.
    pub timeout_ms: u64,
    /// Time between two repetitions of what may be lost, in ms.
    pub resend_ms: u64,
    /// Service times.
    pub costs: Costs,
    /// Virtual time before measuring, in ms. It goes on until each client of a closed loop is answered.
    pub warm_up_ms: u64,
    /// Measured time, in ms. In a closed loop it goes on until a quarter of the clients and 32 checkpoints are through, or
    /// whole rounds of all clients where the load comes in waves.
    pub measured_ms: u64,
}

impl Setting {
    /// The paper's base: 16 replicas, 80,000 clients, batches of 100, one execute and two batch threads, eight cores.
    pub const BASE: Self = Self {
        order: Order::Pbft,
        n: 16,
        clients: Clients::Closed(80_000),
        batch: 100,
        operations: 1,
        execute_threads: 1,
        batch_threads: 2,
        executes: true,
        sqlite: false,
        signatures: Signatures::MacAndEd25519,
        proposal_bytes: None,
        cores: 8,
        down: 0,
        window: None,
        cut: None,
        timeout_ms: 3_600_000,
        resend_ms: 3_600_000,
        costs: Costs::FROZEN,
        warm_up_ms: 1_000,
        measured_ms: 4_000,
    };

    /// Returns true if a worker has tasks of all kinds, so that it takes them in waves.
    pub(crate) const fn has_waves(&self) -> bool {
        !matches!(self.order, Order::Nothing) && (self.batch_threads == 0 || self.execute_threads == 0)
    }

    /// Returns true if clients wait for an answer that does not come.
    pub(crate) const fn waits(&self) -> bool {
        matches!(self.order, Order::Zyzzyva) && self.down > 0
    }

    /// Checks the numbers of a setting.
    ///
    /// # Errors
    /// Names what is impossible.
    pub fn check(&self) -> Result<(), &'static str> {
        const HOUR: u64 = 3_600_000;
        let (Clients::Closed(clients) | Clients::Open(clients)) = self.clients;
        let may_be_down = self.n.saturating_sub(1) / 3;
        if !(4..=MAX_REPLICAS).contains(&self.n) {
            Err("between 4 and 256 replicas")
        } else if self.down > may_be_down {
            Err("at most f backups down")
        } else if self.batch == 0 || self.batch > 100_000 || self.operations == 0 || self.operations > 10_000 {
            Err("batches of 1 to 100,000 transactions with 1 to 10,000 operations")
        } else if clients == 0 || clients > 10_000_000 || matches!(self.clients, Clients::Closed(n) if n < self.batch) {
            Err("at least one batch of clients, and at most ten million")
        } else if self.execute_threads > 1 || self.batch_threads > 64 || self.cores == 0 || self.cores > 1_024 {
            Err("at most one execute thread, 64 batch threads, 1 to 1,024 cores")
        } else if self.order == Order::Nothing && self.batch_threads == 0 {
            Err("without an order, at least one batch thread")
        } else if self.window == Some(0) || self.measured_ms == 0 || self.measured_ms.max(self.warm_up_ms) > HOUR {
            Err("a window of at least one, and up to an hour of measured time")
        } else if self.timeout_ms == 0 || self.resend_ms == 0 || self.timeout_ms.max(self.resend_ms) > HOUR {
            Err("timers between 1 ms and an hour")
        } else if self.proposal_bytes.is_some_and(|bytes| bytes > 1 << 30) {
            Err("proposals up to 1 GiB")
        } else if self.costs.bandwidth == 0 || self.costs.bundle == 0 || self.costs.polling_threads > 1_024 {
            Err("some bandwidth, bundles of at least one transaction, up to 1,024 threads")
        } else {
            Ok(())
        }
    }
}

/// Result of a point.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Outcome {
    /// Answered transactions per second.
    pub tps: f64,
    /// Mean latency, in s.
    #[serde(rename = "latency_ms", serialize_with = "paper::in_ms")]
    #[schemars(description = "Mean latency, in ms.")]
    pub latency_s: f64,
    /// Utilisation of the primary's threads.
    pub primary: Utilisation,
    /// Utilisation of a backup's threads.
    pub backup: Utilisation,
    /// Requests under way ÷ (throughput × latency): one, by Little's law.
    pub little: f64,
    /// Messages between replicas.
    pub messages: u64,
    /// Virtual time of the run, in s.
    #[serde(rename = "virtual_seconds")]
    pub seconds: f64,
    /// Answers by second of submission.
    #[serde(skip)]
    pub series: Series,
    /// Hash of all events.
    #[serde(rename = "trace_hash", serialize_with = "paper::in_hex")]
    #[schemars(with = "String")]
    pub trace: u64,
}

/// Utilisation of a replica's threads by kind, the busiest of each: 1 for a thread that always works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Utilisation {
    /// Input of clients.
    pub input: f64,
    /// Batch threads.
    pub batch: f64,
    /// Worker.
    pub worker: f64,
    /// Execute thread.
    pub execute: f64,
    /// Checkpoint thread.
    pub checkpoint: f64,
    /// Output threads.
    pub output: f64,
    /// All together.
    pub all: f64,
}
