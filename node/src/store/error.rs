//! Errors of the block store.

use std::path::PathBuf;

/// Reason for which the block store has no answer, or takes no block.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refuses to read or write a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Stored bytes of a committed block are not as written. Nothing was changed.
    #[error("block {height} is damaged in {} at byte {offset}: {what}. Restore the file from a copy", path.display())]
    Damaged {
        /// Height of the block.
        height: u64,
        /// Segment.
        path: PathBuf,
        /// Offset of the block in the segment, in bytes.
        offset: u64,
        /// Part that differs.
        what: &'static str,
    },
    /// A file in the folder is no segment, or segments do not follow each other.
    #[error("{} does not belong to the block store: {what}", path.display())]
    Foreign {
        /// File.
        path: PathBuf,
        /// Reason.
        what: String,
    },
    /// The store holds blocks of another chain.
    #[error("{} holds blocks of another chain: chain {found}, and this is chain {expected}", path.display())]
    OtherChain {
        /// Segment.
        path: PathBuf,
        /// Chain id, or genesis, of the segment.
        found: String,
        /// Chain id, or genesis, of the node.
        expected: String,
    },
    /// A segment is of another version's format.
    #[error(
        "{} is of another version of this program, which names blocks otherwise: begin the chain anew, or join it by a snapshot \
         of a node of this version",
        path.display()
    )]
    Outdated {
        /// Segment.
        path: PathBuf,
    },
    /// Committed blocks are missing.
    #[error(
        "the block store ends at {held}, and the state is at block {committed}: blocks are missing. Restore both from \
         one copy"
    )]
    Behind {
        /// Highest stored height, or "no block".
        held: String,
        /// Height of the committed state.
        committed: u64,
    },
    /// A block does not follow the last stored one.
    #[error("block {got} does not follow block {last}")]
    Order {
        /// Height of the block.
        got: u64,
        /// Highest stored height.
        last: u64,
    },
    /// A block is longer than the format allows.
    #[error("block {height} is longer than 4 GiB")]
    TooLong {
        /// Height of the block.
        height: u64,
    },
    /// Another process has the store open.
    #[error("{} is open in another process: stop that node, or choose another folder", path.display())]
    Locked {
        /// File of the index.
        path: PathBuf,
    },
    /// The index failed. It is derived: the node builds it anew if the file is gone.
    #[error("the index of blocks failed: {what}. Stop the node and delete {}; it is built anew", path.display())]
    Index {
        /// File of the index.
        path: PathBuf,
        /// Error of the database.
        what: String,
    },
    /// An earlier write failed; the store takes no block until it is opened again.
    #[error("an earlier write of the block store failed: restart the node")]
    Poisoned,
}

impl StoreError {
    /// Wraps an error of the system.
    pub(super) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
