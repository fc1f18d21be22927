//! Injected disk faults: a test decides on every step that a log is about to take.

use std::{fmt::Debug, io, path::Path};

/// Step that a log is about to take on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step<'p> {
    /// Reads part of a file, or of a database.
    Read(&'p Path),
    /// Appends a number of bytes to a file.
    Append(&'p Path, usize),
    /// Overwrites a number of bytes of a file at an offset.
    Overwrite(&'p Path, u64, usize),
    /// Truncates a file to a length.
    Cut(&'p Path, u64),
    /// Makes a file's content durable; for a database, its write-ahead log.
    Sync(&'p Path),
    /// Makes the names in a directory durable.
    SyncNames(&'p Path),
    /// Renames a file, perhaps over another.
    Rename(&'p Path, &'p Path),
    /// Removes a file, or whole files of a database.
    Remove(&'p Path),
    /// Writes a batch of this many bytes to a database.
    Batch(&'p Path, usize),
    /// Flushes a database's memtables into tables.
    Flush(&'p Path),
}

/// Decision on a step.
#[derive(Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// The step is taken.
    Go,
    /// The step fails and does nothing.
    Fail(io::Error),
    /// The step fails after this many bytes of an append; any other step does nothing.
    Tear(usize, io::Error),
}

/// Injects disk faults, in tests ([`StoreConfig::with_faults`](crate::StoreConfig::with_faults)).
pub trait Faults: Debug + Send + Sync {
    /// Decides on a step, right before it.
    fn before(&self, step: Step<'_>) -> Verdict;

    /// Size after which a file or batch takes no further block, and from which on a block brings a table of its own;
    /// `None` for the default.
    fn segment_bytes(&self) -> Option<u64> {
        None
    }

    /// Replaces the result of a read that a ring completed. A short read claims fewer bytes than there are.
    fn completed(&self, _file: &Path, bytes: io::Result<usize>) -> io::Result<usize> {
        bytes
    }

    /// Returns true if a ring's queue takes no read now.
    fn is_queue_full(&self) -> bool {
        false
    }

    /// Error with which the system refuses another ring, if it does.
    fn refuses_ring(&self) -> Option<io::Error> {
        None
    }

    /// Error with which the kernel refuses to take reads from a ring's queue, and to hand out those that have ended, if it does.
    fn refuses_to_enter(&self) -> Option<io::Error> {
        None
    }
}
