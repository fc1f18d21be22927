//! Autobahn: lanes of batches, and agreement on cuts of them.
//!
//! ```text
//!            PREPARE           PREP-VOTE         n votes: COMMIT
//! leader ──────────────► all ────────────► leader ─────────────────────────────────────► all       fast path
//!         cut, ticket                        │     CONFIRM          CONFIRM-ACK    COMMIT
//!                                            └───────────────► all ────────────► leader ───► all   slow path, n-f votes
//! ```
//!
//! Data flows in [`lanes`](crate::lanes), at every replica's own rate. Each slot agrees on a cut, a tip per lane, so that one
//! decision covers a backlog of any length: after a blip there is no hangover. Up to k slots run side by side. All signatures
//! cover slot, view and the digest of the cut. In the all-to-all form votes go to every replica, and certificates form locally.
//!
//! A replica that signs two statements which contradict each other is named by [`Out::Evidence`](crate::Out::Evidence); see
//! [`Testimony`].
//!
//! `slot.rs` is the agreement on one slot, `choose.rs` the rule for the next view, `execute.rs` turns cuts into blocks.
//! Paper: *Autobahn: Seamless high speed BFT*.

mod restart;
mod repeat;
mod checkpoint;
mod sync;
mod lead;
mod execute;
mod drive;
mod witness;
mod replica;
mod slot;
mod quota;
mod choose;
mod record;
mod message;
mod evidence;
mod certificate;
mod statement;
mod config;

pub use certificate::{Complaint, Phase, Qc, Tc};
pub use choose::winner;
#[cfg(feature = "mutations")]
pub use config::Mutation;
pub use config::{Config, Spread, Tips};
pub use evidence::{Testimony, convict};
pub use message::{Commit, CutOf, Msg, Prepare, Status, Sync, WantCut};
pub use record::Record;
pub use replica::{Autobahn, Timer};
pub use slot::{Instance, Step};
pub use statement::{Ack, Checkpoint, Mark, PrepVote, Timeout};
