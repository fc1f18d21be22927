//! The current state on disk: memory holds which position each key has and where positions are, about eleven bytes per
//! key; keys, values and links are read from the log, and kept up to a number of bytes.
//!
//! Entries are never changed where they are, so the state after a block is nothing but the positions of its keys. What
//! leads back from a block is the positions before it, and what a key was then is still in the log.

mod session;
mod read;
mod state;
mod entries;
mod cache;
mod extents;
mod keys;
mod arena;

pub(crate) use extents::Extents;
pub(crate) use keys::{Keys, slot_of};
pub(crate) use read::Wait;
pub(crate) use session::{Arena, Session};
pub(crate) use state::{Paged, PositionChange, UnwrittenExtents};
