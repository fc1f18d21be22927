//! Store of blocks, receipts and what finds them: segments that are only appended to, and an index that follows from them.
//!
//! A block is in its segment, durably, before the state that belongs to it becomes visible: [`BlockStore`] is the
//! service's [`BlockSink`](phalanx::BlockSink). So after a crash the store has every committed block, and perhaps blocks that
//! were never committed, which [`BlockStore::open`] cuts off. It tells them from damage by the committed height alone:
//! a block at or below it that cannot be read is an error, and nothing is changed.

mod blocks;
mod lookup;
mod index;
mod checked_file;
mod segment;
mod frame;
mod record;
mod error;

pub(crate) use blocks::put_aside;
pub use blocks::{BlockStore, Cut, Options, Sizes};
pub use error::StoreError;
pub use index::Key;
pub use record::{Block, Entry, Head, Skipped};
pub use segment::Identity;
