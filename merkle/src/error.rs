use std::{io, path::PathBuf};

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
    /// A block was written before the one below it. The handle is of no further use.
    #[error("block {got} was written out of order, expected {expected}")]
    OutOfOrder {
        /// The height that is next to be written.
        expected: u64,
        /// The height that was offered.
        got: u64,
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
