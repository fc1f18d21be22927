//! PBFT as ResilientDB runs it: out-of-order slots, checkpoints, journal view change.
//!
//! ```text
//!             PRE-PREPARE        PREPARE           COMMIT
//! primary ──────────────► all ───────────► all ───────────► decided, in any order of slots
//!            batch, slot        q-1 backups      q replicas
//! ```
//!
//! The normal case needs authenticated channels only: no replica forwards what another one said. VIEW-CHANGE, NEW-VIEW and
//! CHECKPOINT travel further and are signed. COMMIT is the order vote of Zaptos's pipeline: f+1 correct replicas behind a
//! quorum of them keep the batch through every view change.
//!
//! Paper: *Permissioned Blockchain Through the Looking Glass*; view change: Castro and Liskov 2002, see `choose.rs`.
//!
//! # Deviations
//!
//! - A replica's timer ends its view only with complaints of f others (`complain.rs`), so that one which was suspended stays in it.
//! - Every vote is durable before it leaves, so that a replica which restarts contradicts none of its own.
//! - A slot is learned from f+1 equal claims, outside of the three phases (`on_decided`).
//! - Batches are fetched by digest: messages of a view change name them and carry none.
//! - A proposal is refused if its time is too far ahead, held while the pipeline is behind, and refused if too many bytes are undecided.

mod change;
mod checkpoint;
mod choose;
mod complain;
mod config;
mod message;
mod normal;
mod record;
mod protocol;
mod repeat;
mod replica;
mod restart;
mod slots;

pub use config::Config;
#[cfg(feature = "mutations")]
pub use config::Mutation;
pub use message::{
    Checkpoint, Decision, Fetch, Leaving, Msg, NewView, PrePrepare, Record, Report, Status, ViewChange, Vote,
};
pub use replica::{Pbft, Timer};
