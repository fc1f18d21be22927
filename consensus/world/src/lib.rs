//! Worlds of ordering protocols in virtual time: tests and the papers' figures drive a protocol by the same parts.
//!
//! ```text
//!  Facts: Protocol ──► World     seeded runs: loss, cuts, crashes, lies; the ledger holds what no fault may break
//!                  ──► explore   every reachable state of a Space, or the first ones up to a limit
//!  Queue, Timers, Outbox, Line, Links ──► World, and the machines of `phalanx-sim`
//! ```
//!
//! No thread, clock or hash map decides anything: one seed is one history. [`Facts`] is what a protocol states about itself
//! beyond [`Protocol`](phalanx_bft::Protocol); its one implementation puts the protocol into every world.

mod unrest;
mod figures;
mod effects;
mod world;
mod replica;
mod conditions;
mod ledger;
mod explore;
mod facts;
mod liar;
mod crypto;
pub mod signatures;
mod outbox;
mod links;
mod line;
mod timers;
mod queue;

pub use conditions::Conditions;
pub use crypto::{is_genuine, sign, signed, work};
pub use explore::{Space, Visits, explore, fingerprint, most, walk};
pub use facts::{Facts, Pace, Verified, Vote, kind};
pub use ledger::Ledger;
pub use liar::{Liar, Lie};
pub use line::Line;
pub use links::Links;
pub use outbox::{Commit, Next, Outbox};
pub use queue::Queue;
pub use timers::Timers;
pub use world::World;
