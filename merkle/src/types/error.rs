//! The errors of a store.

use std::{io, path::PathBuf};

use phalanx_merkle_proof::Hash;

use super::{block_id::BlockId, snapshot_error::SnapshotError};

/// Hexadecimal digits of a hash.
pub(crate) fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Height in words.
fn height_of(height: Option<u64>) -> String {
    height.map_or_else(|| "before its first block".into(), |height| format!("at height {height}"))
}

/// Error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store is open in another process, or by another handle of this process.
    #[error("{} is open elsewhere: end the process that uses it, or choose another store", path.display())]
    Locked {
        /// The store.
        path: PathBuf,
    },
    /// There is no store at the path, and none may be created there. Nothing was changed.
    #[error("there is no store at {}: {found}", path.display())]
    NoStore {
        /// The path.
        path: PathBuf,
        /// Description of what is there instead.
        found: &'static str,
    },
    /// The directory holds a store of another backend. Nothing was changed.
    #[error("{} holds a store of the backend {found}, not {expected}", path.display())]
    OtherBackend {
        /// The store.
        path: PathBuf,
        /// Backend of the store.
        found: &'static str,
        /// Backend that the caller asked for.
        expected: &'static str,
    },
    /// A store cannot be made at the path: something is there. Nothing was changed.
    #[error("{} is not empty: choose an absent or empty directory", path.display())]
    NotEmpty {
        /// The path.
        path: PathBuf,
    },
    /// Chunks of an interrupted restore are there: the restore goes on with them, and an import has to discard them first.
    #[error("{} holds chunks of an interrupted restore: go on with it, or discard them", path.display())]
    Interrupted {
        /// Directory of the chunks.
        path: PathBuf,
    },
    /// The store was opened with [`Access::Read`](crate::Access::Read).
    #[error("the store was opened for reading only")]
    ReadOnly,
    /// A copy is whole and in its place, and its names may not be durable yet; opening it failed. Open it again.
    #[error("{} is whole and in its place, but cannot be opened now: {source}", path.display())]
    Unopened {
        /// The store.
        path: PathBuf,
        /// Reason.
        source: Box<Self>,
    },
    /// The store has another format version or other genesis parameters. Nothing was changed.
    #[error("{} has {found}, and {expected} was asked for: open it with the parameters and the version that made it", path.display())]
    Format {
        /// The store.
        path: PathBuf,
        /// Format and parameters of the store.
        found: String,
        /// Format and parameters that the caller asked for.
        expected: String,
    },
    /// Stored bytes are not the bytes that were written. Restore the store from a backup or a peer; nothing was
    /// changed.
    #[error("{} is corrupt: {what}; restore it from a backup or sync it again", path.display())]
    Corrupt {
        /// The store.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// The store ends below the height that the caller knows as committed.
    #[error("the store ends {}, and must reach height {expected}: restore a newer copy, or let consensus replay the blocks", height_of(*found))]
    Behind {
        /// Height of the store's last block.
        found: Option<u64>,
        /// [`StoreConfig::expected_min_height`](crate::StoreConfig::expected_min_height).
        expected: u64,
    },
    /// The block's height does not follow the tip's.
    #[error("block {got} does not follow the tip, expected {expected}")]
    Height {
        /// Height after the tip.
        expected: u64,
        /// Height of the block.
        got: u64,
    },
    /// The block was prepared on a parent that is no longer the tip.
    #[error("block {height} was prepared on a parent that is no longer the tip")]
    Stale {
        /// Height of the block.
        height: u64,
    },
    /// The delta has a locator of a key that was deleted after it was located.
    #[error("a locator is stale: its key was deleted after it was located")]
    StaleLocator,
    /// The delta declares a change that leaves the value unchanged.
    #[error("the delta declares a change that leaves the value unchanged")]
    Unchanged,
    /// The input is longer than the format allows.
    #[error("{what}: {len} exceeds the maximum of {max}")]
    TooLong {
        /// Name of the input.
        what: &'static str,
        /// Length of the input.
        len: usize,
        /// Maximum length.
        max: usize,
    },
    /// A write came before an earlier one. The handle cannot be used any more.
    #[error("write {got} came out of order, expected {expected}")]
    OutOfOrder {
        /// Number of the next write.
        expected: u64,
        /// Number of the write that came.
        got: u64,
    },
    /// The block cannot be read or built upon: it was discarded or rewound, a sibling was committed, or it is too far
    /// behind the tip.
    #[error("block {} is gone: it was discarded, or is too far behind the tip", block.0)]
    Gone {
        /// The block.
        block: BlockId,
    },
    /// The chain cannot be rewound that far.
    #[error("cannot rewind to height {height:?}; the earliest is {earliest:?}")]
    Rewind {
        /// Requested height; `None` for the state before genesis.
        height: Option<u64>,
        /// Earliest height that can be rewound to.
        earliest: Option<u64>,
    },
    /// A fork has too many uncommitted blocks on top of each other.
    #[error("more than {max} uncommitted blocks on top of each other")]
    TooDeep {
        /// Maximum number of uncommitted blocks on top of each other.
        max: usize,
    },
    /// The application cannot have a key of this length, so its absence says nothing.
    #[error("there is no key of {len} bytes in this state")]
    Key {
        /// Length of the key, in bytes.
        len: usize,
    },
    /// The proof needs entries that are applied but not written yet.
    #[error("the entry is not written yet; write the pending blocks first")]
    NotWritten,
    /// An earlier write failed or was dropped, so memory is ahead of the log: reopen the store.
    #[error("an earlier write failed; reopen the store")]
    Poisoned,
    /// A stream leads to another root than the expected one.
    #[error("the stream leads to root 0x{}", hex(found))]
    OtherRoot {
        /// Root that the stream leads to.
        found: Hash,
        /// Root that the caller trusts.
        expected: Hash,
    },
    /// A manifest or a chunk of a snapshot is refused: what sent it is at fault.
    #[error("the snapshot is refused: {0}")]
    Snapshot(#[from] SnapshotError),
    /// The file system reported an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// RocksDB reported an error.
    #[cfg(feature = "rocksdb")]
    #[error("{}: {source}", path.display())]
    Rocks {
        /// The database.
        path: PathBuf,
        /// Cause.
        source: rocksdb::Error,
    },
}
