use std::{io, path::PathBuf};

use super::block_id::BlockId;

/// What can go wrong with a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process, or another handle of this one, has the store open.
    #[error("{} is open elsewhere: end the process that uses it, or choose another store", path.display())]
    Locked {
        /// The store.
        path: PathBuf,
    },
    /// The store was made by another format version or with other genesis parameters. Nothing was changed.
    #[error("{} has format and parameters {found}, expected {expected}: open it with the parameters and the version that made it", path.display())]
    Format {
        /// The store.
        path: PathBuf,
        /// What the store says it is.
        found: String,
        /// What the caller asked for.
        expected: String,
    },
    /// Stored bytes are not what was written. Restore the store from a backup or a peer; nothing was changed.
    #[error("{} is corrupt: {what}; restore it from a backup or sync it again", path.display())]
    Corrupt {
        /// The store.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// The store ends below the height that the caller knows to be committed.
    #[error("the store ends at height {found:?}, committed was {expected}")]
    Behind {
        /// The store's last height.
        found: Option<u64>,
        /// [`StoreConfig::expected_min_height`](crate::StoreConfig::expected_min_height).
        expected: u64,
    },
    /// A block is not for the height after the tip.
    #[error("block {got} does not follow the tip, expected {expected}")]
    Height {
        /// The height after the tip.
        expected: u64,
        /// The block's height.
        got: u64,
    },
    /// A block was prepared on a tip that is no longer the tip.
    #[error("block {height} was prepared on a parent that is no longer the tip")]
    Stale {
        /// The block's height.
        height: u64,
    },
    /// A delta names a key by a locator whose key was deleted since.
    #[error("a locator's key was deleted since it was located")]
    StaleLocator,
    /// A delta changes a key to the value that it has.
    #[error("a value that was said to be another is what the key has")]
    Unchanged,
    /// Something is longer than the format can hold.
    #[error("{what}: {len} exceeds the maximum of {max}")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// How long it is.
        len: usize,
        /// How long it may be.
        max: usize,
    },
    /// Something was written before what came first. The handle is of no further use.
    #[error("write {got} came out of order, expected {expected}")]
    OutOfOrder {
        /// The number of the write that is next.
        expected: u64,
        /// The number of the one that was offered.
        got: u64,
    },
    /// A block is not, or no longer, one that can be read or built upon: it was discarded or taken back, a sibling was
    /// committed, or it lies too far behind the tip.
    #[error("block {} is gone: it was discarded or lies too far behind the tip", block.0)]
    Gone {
        /// The block.
        block: BlockId,
    },
    /// The chain cannot be taken back that far.
    #[error("cannot go back to height {height:?}, at the earliest to {earliest:?}")]
    Rewind {
        /// The height that was asked for; `None` for the state before genesis.
        height: Option<u64>,
        /// The earliest height that can be gone back to.
        earliest: Option<u64>,
    },
    /// More uncommitted blocks would be on top of each other than are allowed.
    #[error("more than {max} uncommitted blocks on top of each other")]
    TooDeep {
        /// The most there may be.
        max: usize,
    },
    /// The proof needs entries that are applied and not written yet.
    #[error("the entry is not written yet; write the pending blocks first")]
    NotWritten,
    /// An earlier write failed or was dropped, so memory is ahead of the log: reopen the store.
    #[error("an earlier write failed; reopen the store")]
    Poisoned,
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// RocksDB refused.
    #[cfg(feature = "rocksdb")]
    #[error("{}: {source}", path.display())]
    Rocks {
        /// The database.
        path: PathBuf,
        /// The reason.
        source: rocksdb::Error,
    },
}
