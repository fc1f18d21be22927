//! What a chain team implements to drive an engine from its consensus, and what checks that it did.
//!
//! ```text
//!  your consensus ─ impl Consensus ─► Node ─► Pipeline ─► Engine
//!                                      │
//!                        open: handshake, then replay or rewind
//! ```
//!
//! [`Node::open`] compares where consensus and engine stand after whatever ended the last run, and brings them together;
//! there are four cases ([`Handshake`]). [`Node::poll`] then moves events and effects until nothing is left to do. It runs
//! no thread and reads no clock.
//!
//! [`Solo`] is the smallest consensus there is, one node and a block whenever one is due. `examples/sequencer.rs` binds a
//! foreign one, a log that orders first, in under 150 lines. [`conformance`] runs either through every legal oddity and
//! prints a report.

pub mod conformance;

mod node;
mod handshake;
mod solo;
mod journal;
mod consensus;

pub use consensus::{Consensus, Decided, DecidedBlock, Standing};
pub use handshake::{Handshake, handshake};
pub use journal::{FileJournal, Journal, JournalError, MemoryJournal};
pub use node::{Node, OpenError};
pub use solo::Solo;
