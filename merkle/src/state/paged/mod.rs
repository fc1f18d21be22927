//! The state on disk: memory has the position of every key and the place of every extent, about eleven bytes per key.
//! Keys, values and links are read from the log, through a cache bounded in bytes.
//!
//! The log never changes an entry in place. So a state is nothing but the positions of its keys: a block is undone by
//! restoring positions, and earlier entries are still in the log.

mod session;
mod later;
mod read;
mod pass;
mod state;
mod fetcher;
mod entries;
mod claims;
mod cache;
mod extents;
mod keys;
mod recent;
mod page;
mod arena;

pub(crate) use extents::Extents;
pub(crate) use fetcher::{Ahead, Wait};
pub(crate) use keys::{Keys, SortedKeys};
pub(crate) use later::Later;
pub(crate) use page::slot_of;
pub(crate) use session::{Arena, Reads, Session};
pub(crate) use state::{Paged, PositionChange, UnwrittenExtents};
