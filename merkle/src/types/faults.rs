use std::{fmt::Debug, io, path::Path};

/// What a log is about to do to its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step<'p> {
    /// Reading part of a file, or of a database.
    Read(&'p Path),
    /// Appending so many bytes to a file.
    Append(&'p Path, usize),
    /// Cutting a file to so many bytes.
    Cut(&'p Path, u64),
    /// Making a file's content survive power loss; for a database, its write-ahead log's.
    Sync(&'p Path),
    /// Making the names in a directory survive power loss.
    SyncNames(&'p Path),
    /// Giving a file another name, which may be taken.
    Rename(&'p Path, &'p Path),
    /// Removing a file, or whole files of a database.
    Remove(&'p Path),
    /// Writing a batch of so many bytes to a database.
    Batch(&'p Path, usize),
    /// Making a database's tables of what it holds in memory.
    Flush(&'p Path),
}

/// What becomes of a step.
#[derive(Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// It is done.
    Go,
    /// It fails and does nothing.
    Fail(io::Error),
    /// It fails after so many bytes of what is appended; of other steps nothing is done.
    Tear(usize, io::Error),
}

/// Makes the disk fail, for tests ([`StoreConfig::with_faults`](crate::StoreConfig::with_faults)).
pub trait Faults: Debug + Send + Sync {
    /// Decides on a step, right before it.
    fn before(&self, step: Step<'_>) -> Verdict;

    /// Size past which a file takes no further block and a batch nothing more of one, and from which on a block brings a
    /// table of its own; none for what the store would do without faults.
    fn segment_bytes(&self) -> Option<u64> {
        None
    }
}
