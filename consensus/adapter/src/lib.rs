//! Binds a consensus to the engine, and checks that the binding conforms.
//!
//! ```text
//!  your consensus ─ impl Consensus ─► Node ─► Pipeline ─► Engine
//!                                      │
//!                        open: handshake, then replay or rewind
//! ```
//!
//! [`Node::open`] compares the positions of consensus and engine after the last run ended, and brings them together;
//! there are four cases ([`Handshake`]). [`Node::poll`] then moves events and effects until no work is left. The node
//! runs no thread and reads no clock.
//!
//! [`Solo`] is the smallest consensus, one node and a block whenever one is due. `examples/sequencer.rs` binds a
//! foreign one, a log that orders first, in under 150 lines. [`conformance`] runs either through every legal oddity and
//! prints a report.

pub mod conformance;

mod node;
mod handshake;
mod solo;
mod journal;
mod wal;
mod append;
mod codec;
mod consensus;

pub use codec::TooLong;
pub use consensus::{Consensus, Decided, DecidedBlock, Standing};
pub use handshake::{Handshake, handshake};
pub use journal::{FileJournal, Journal, MemoryJournal};
pub use node::{Node, OpenError};
pub use solo::Solo;
pub use wal::{Sync, Wal, WalError};
