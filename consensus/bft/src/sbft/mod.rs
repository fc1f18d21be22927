//! SBFT: collectors and threshold signatures, a fast path beside linear PBFT, and a single message to the client.
//!
//! ```text
//!            PRE-PREPARE        SIGN-SHARE             FULL-COMMIT-PROOF
//! primary ──────────────► all ─────────────► collector ─────────────────► all          fast: σ of 3f+c+1
//!                               σ and τ          │ PREPARE: τ of 2f+c+1
//!                                                └──────► all ──COMMIT──► collector ──► all    slow: τ over τ
//!
//!           executed: SIGN-STATE                 FULL-EXECUTE-PROOF
//!       all ─────────────────► execution collector ─────────────────► all             π of f+1
//!                                      └──► one message to each client
//! ```
//!
//! n = 3f+2c+1. A slot has c+1 backups as collectors, one after the other. The primary is a further one, to which replicas turn where
//! none answers; in linear form it is the last of the c+1. Both paths run at the same time and either decides; the view change respects both, see `choose.rs`.
//!
//! A replica signs σ only near the executed prefix (`normal.rs`, `Sbft::accept`). A collector gives the fast path a head start
//! (`collect.rs`, `Sbft::collect_step`), whose length follows past delays ([`Sbft::fast_wait`]).
//!
//! Paper: Gueta et al., *SBFT: a Scalable and Decentralized Trust Infrastructure*.
//!
//! # Deviations
//!
//! - Slots are dropped only below a checkpoint that τ signs: π may have a single correct signer, and a fast decision names no state.
//! - The second τ signs the prepared vote instead of the first τ.
//! - A replica's timer ends its view only with complaints of f others (`complain.rs`).
//! - A decision is a proof in itself, whatever its view: a replica that is behind learns it from anyone.
//! - The shortened view change of section V-G.1 is left out.
//! - Execution collectors are c+1 of all replicas, by slot alone: the paper takes backups by slot and view, and the primary as the last.
//! - A proposal is refused if its time is too far ahead, held while the pipeline is behind, and refused if too many bytes are undecided.

mod protocol;
mod share;
mod collect;
mod execute;
mod normal;
mod complain;
mod change;
mod choose;
mod repeat;
mod restart;
#[cfg(feature = "mutations")]
mod inspect;
mod replica;
mod slots;
mod wait;
mod record;
mod message;
mod config;

#[cfg(feature = "mutations")]
pub use config::Mutation;
pub use config::{Config, FastWait, Paths, Replies};
pub use message::{
    Certificate, Checkpoint, CommitShare, Decision, Executed, Msg, NewView, PrePrepare, Prepared, Proposal, Record,
    SignShare, Stable, StateShare, Status, ViewChange, Vote,
};
pub use replica::{Sbft, Timer};
pub use slots::Step;
