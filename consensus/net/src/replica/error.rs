//! Reasons for which a replica does not start, or ends.

pub use crate::log::LogError;

use crate::config::NetConfigError;
use phalanx_adapter::{OpenError, WalError};
use phalanx_engine_api::FatalCause;
use phalanx_keys::KeyError;
use std::{io, net::SocketAddr, path::PathBuf};

/// Reason for which a replica does not start, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] NetConfigError),
    /// The keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The keys are of a network of another size.
    #[error("the keys are for a network of {keys} replicas, and the configuration lists {replicas}")]
    Count {
        /// Replicas of the key file.
        keys: usize,
        /// Replicas of the configuration.
        replicas: usize,
    },
    /// The keys are for another number of faulty replicas.
    #[error("the keys are for {keys} faulty replicas, and the configuration has {faults}: deal the keys again")]
    Faults {
        /// Faulty replicas of the key file.
        keys: usize,
        /// Faulty replicas of the configuration.
        faults: usize,
    },
    /// The protocol needs shares of groups.
    #[error("the keys have no shares of groups, which SBFT needs: deal the keys again")]
    Shares,
    /// The log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A write to the log failed. Free some space or mend the disk, and start again: nothing that left is lost.
    #[error(transparent)]
    Write(#[from] WalError),
    /// An address cannot be listened on.
    #[error("listening on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The replica stopped earlier with an incident: it would vote against what it knows.
    #[error(
        "the replica stopped with an incident, described in {}: find its cause, and remove the file to start it again",
        path.display()
    )]
    Incident {
        /// File with the description.
        path: PathBuf,
    },
    /// The folder is a copy, or was moved.
    #[error(
        "{} is not where it was: a copy may be older than what the replica has said, and with it the replica would contradict its votes. Let \
         it rejoin silently (--rejoin), or say that this is the newest folder of the replica, moved (--moved)",
        path.display()
    )]
    Copied {
        /// The folder.
        path: PathBuf,
    },
    /// Log and engine cannot be brought together.
    #[error("log and state do not belong together: {0}")]
    Open(#[from] OpenError),
    /// The engine is behind everything that the log retains.
    #[error("the state ends before height {from}, the oldest in the log: copy the folder of another replica's state")]
    Behind {
        /// Lowest height that the log can replay.
        from: u64,
    },
    /// The system starts no thread.
    #[error("the system starts no thread: {0}")]
    Thread(io::Error),
    /// The program around the replica cannot go on.
    #[error("the replica stopped, because the node cannot go on: {0}")]
    Embedder(String),
    /// The replica had to stop.
    #[error("the replica stopped: {0}")]
    Halted(FatalCause),
}
