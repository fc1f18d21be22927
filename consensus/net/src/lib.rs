//! Replicas as processes: threads, TCP and a durable log around a [`Host`](phalanx_host::Host).
//!
//! ```text
//!  clients ─► client input ─► batch × B ─┐                      ┌─► output, one per peer (delay, bandwidth, loss, cuts)
//!                                        ▼                      │
//!  peers ───► replica input, one per ─► worker: Node<E, Host<P>> ├─► log: group commit, compaction at checkpoints
//!             peer: tag, decode          ▲        │            │
//!                                         │        └─► engine: execute, stage, commit on threads of its own
//!                                         └─ durable, timers    └─► client output: one notice per committed block
//! ```
//!
//! The threads are those of "Permissioned Blockchain Through the Looking Glass", section 4, with blocking I/O: one thread reads
//! and one writes for each peer. The worker alone touches the protocol. Every queue is bounded: a slow worker slows its senders down,
//! and a slow peer loses the oldest frames, which the protocol repeats.
//!
//! This crate is for measurements and fault tests on one machine or in one trusted network: frames are authenticated, not
//! encrypted, and clients are not authenticated beyond the signatures of their transactions.

mod audit;
mod replica;
mod client;
mod log;
mod peer;
mod snapshot;
mod wire;
mod queue;
mod config;

pub use audit::{Audit, AuditError, Settled};
pub use client::{Acknowledgement, Client, ClientSender, Notice, Reply, Request};
pub use config::{
    Authentication, Before, Cut, Durability, LOG_BYTES, Link, Links, Member, NetConfig, NetConfigError, ProtocolName,
    RETENTION, SNAPSHOT_EVERY, VERSION, order_floor,
};
pub use phalanx_adapter::WalError;
pub use phalanx_host::{Anchor, Boundary, Certified, Change, ChangeError, Content, SignedChange};
pub use replica::{
    Admission, Admit, Beginning, DecisionPath, Doorbell, Embedder, Genesis, Joining, LogError, Machine, Networked,
    PoolChanges, Replica, ReplicaError, ReplicaKeys, Restorer, Status, Step, find_beginning, is_joining, join,
    leave_token,
};
pub use snapshot::{Snapshot, Snapshots};
pub use wire::Refused;
