//! Reasons why a log cannot be opened.

use phalanx_adapter::WalError;
use std::{io, path::PathBuf};

/// Reason why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be used.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// A record is whole and is no record of this protocol and version.
    #[error("record {number} of the log is not one of this protocol and version: {error}")]
    Record {
        /// Number of the record, from 1.
        number: usize,
        /// Reason.
        error: alloy_rlp::Error,
    },
    /// The log is another replica's, or of another network.
    #[error(
        "the log {} is of another replica or network: on it, a replica would vote against what it has said. Give each replica its own \
         folder",
        path.display()
    )]
    Foreign {
        /// Path of the file.
        path: PathBuf,
    },
    /// The log is empty, and this is not the first start.
    #[error(
        "the log {} is empty, and this is no first start: the replica may have voted before, and without its log it may contradict its \
         votes. Restore the newest folder of this replica, or let it rejoin silently (--rejoin), also with an older copy",
        path.display()
    )]
    Lost {
        /// Path of the file.
        path: PathBuf,
    },
    /// The system starts no thread.
    #[error("the system starts no thread: {0}")]
    Thread(#[from] io::Error),
}
