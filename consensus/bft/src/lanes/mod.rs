//! Lanes: each replica spreads its own batches, at its own rate, whatever the agreement protocol does.
//!
//! ```text
//! owner ── car p (batch, parent, certificate of p-1) ──► all ── votes ──► owner: f+1 votes certify p, and p-1, p-2, …
//! ```
//!
//! Replicas vote in the order of a lane, once per position, when the batch is durable. A certificate of f+1 votes therefore
//! proves that a correct replica has the car **and its whole history**: one tip stands for a lane of any length. Agreement orders
//! *cuts*, a tip per lane. Lanes of correct replicas never fork; others may, and a cut decides which branch counts.
//!
//! Paper: *Autobahn: Seamless high speed BFT*, section 5.1. Nothing in here knows an agreement protocol.

mod order;
mod book;
mod lane;
mod car;

pub use book::{Lanes, Missing, Taken};
pub use car::{Ballot, Car, Certificate, Cut, Header, LaneVote, Tip, cut_digest, endorses};
pub use order::{Block, blocks};
