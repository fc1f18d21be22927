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
//! `slot.rs` is the agreement on one slot, `choose.rs` the rule for the next view, `execute.rs` turns cuts into blocks. Rules call
//! down alone: `protocol.rs` is the list of inputs, `replica.rs` and `state.rs` are what all rules use.
//!
//! Paper: *Autobahn: Seamless high speed BFT*.
//!
//! # Deviations
//!
//! - A view change counts reports of a value, not equal pairs of value and view: `choose.rs` says why.
//! - Tickets are durable, and are repeated while a slot is open: one lost message cannot part n-f replicas for good.
//! - The digest that is signed covers the places of a cut, not their certificates: one cut has one value.
//! - A replica judges a proposal by the leader's timeout certificate alone: two of them may permit different values.
//! - A CONFIRM of a later view moves a replica there: n-f votes of that view are in it. The paper buffers it.
//! - Each certificate of a car is spread at once, and travels on the next car as well.
//! - Patience with a slot that has no proposal yet runs only while a certified car waits.
//! - Optimistic tips are the default, a leader proposes with fewer lanes after a time, and checkpoints bound the slots in flight.
//! - Left out: weak votes, messages that ride on cars, cars before the last one's certificate, reputation of lanes.

mod protocol;
mod restart;
mod repeat;
mod settle;
mod lead;
mod execute;
mod checkpoint;
mod wants;
mod witness;
mod prepare;
mod drive;
mod sync;
mod cars;
mod fetch;
mod replica;
mod state;
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
pub use replica::Autobahn;
pub use slot::{Instance, Step};
pub use state::Timer;
pub use statement::{Ack, Checkpoint, Mark, PrepVote, Timeout};
