//! Reasons for which a replica does not start, or ends.

pub use crate::log::LogError;

use crate::config::NetConfigError;
use alloy_primitives::B256;
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
        "the folder of {} is not where that file says: it was moved or is a copy, or the file is damaged. A copy may be older than what the \
         replica has said, and with it the replica would contradict its votes. Let it rejoin silently (--rejoin), or say that this is the \
         newest folder of the replica (--moved)",
        path.display()
    )]
    Copied {
        /// The file that binds the folder to its place.
        path: PathBuf,
    },
    /// Log and engine cannot be brought together.
    #[error("log and state do not belong together: {0}")]
    Open(#[from] OpenError),
    /// The replica has to join by a snapshot: see [`join`](super::join()).
    #[error(
        "the replica lacks blocks that are retained nowhere: after height {height} it needs a snapshot of another replica's state, which it \
         takes when it joins again"
    )]
    Behind {
        /// Height of the newest block here; zero if joining was interrupted.
        height: u64,
    },
    /// The engine cannot take a snapshot, or not go on from one.
    #[error("joining by a snapshot: {0}")]
    Snapshot(String),
    /// The epoch is over: the replica goes on in the next one, as a member of its network.
    #[error(
        "epoch {epoch} begins above height {height}, with other members: start the replica with the network of that epoch, whose digest is \
         {network}"
    )]
    Ended {
        /// Epoch that begins.
        epoch: u64,
        /// Height of the last block before it.
        height: u64,
        /// Digest of its network, see [`NetConfig::digest`](crate::NetConfig::digest).
        network: B256,
    },
    /// The folder has no proof of where the epoch begins: see [`find_beginning`](super::find_beginning).
    #[error("the folder does not say where epoch {epoch} begins: another member proves it")]
    NoBoundary {
        /// The epoch.
        epoch: u64,
    },
    /// The members before have agreed on another network.
    #[error(
        "the members before have agreed on the network with digest {agreed} for epoch {epoch}, and this one has {here}: take the file that they \
         signed, and the keys of that network"
    )]
    OtherNetwork {
        /// The epoch.
        epoch: u64,
        /// Digest that the members signed.
        agreed: B256,
        /// Digest of the configuration with these keys.
        here: B256,
    },
    /// The members before, as the configuration names them, have not signed the proof in the folder.
    #[error(
        "the proof of where epoch {epoch} begins is not signed by the members `before` in the configuration: take the file that all have"
    )]
    OtherMembers {
        /// The epoch.
        epoch: u64,
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
