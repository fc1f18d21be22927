//! Errors of a node as a whole.

use crate::store::StoreError;
use phalanx::{alloy::primitives::B256, api::Failure};
use std::{net::SocketAddr, path::PathBuf};

/// Reason for which a node does not start, or has stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The genesis has no chain that the engine knows.
    #[error("the genesis: {0}")]
    Chain(String),
    /// The engine does not open.
    #[error(transparent)]
    Engine(#[from] phalanx::Error),
    /// The block store does not open, or has failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state and the blocks do not belong together.
    #[error("the state at height {height} is {state}, and the stored block says {block}: restore both from one copy")]
    Differ {
        /// Committed height.
        height: u64,
        /// Name of the committed block.
        state: String,
        /// Name of the stored block.
        block: String,
    },
    /// The system does not let the server listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Address.
        address: SocketAddr,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The system does not let the binary ingress listen.
    #[error("the binary ingress cannot listen on {address}: {source}")]
    Ingress {
        /// Address, or path of a Unix socket.
        address: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The system gives no thread, or no runtime.
    #[error("cannot start threads: {0}")]
    Threads(std::io::Error),
    /// The engine has ended for good.
    #[error("block production has stopped: {0}")]
    Stopped(Failure),
    /// The node that is followed has another chain, or says what is not so.
    #[error("block {height} of the upstream node: {what}")]
    Upstream {
        /// Height of the block.
        height: u64,
        /// Difference in words.
        what: String,
    },
    /// Consensus has halted; a report is in the node's folder.
    #[error("consensus has halted: {0}")]
    Halted(phalanx_abci::Halt),
    /// The replica of this node does not start.
    #[error(transparent)]
    Replica(#[from] phalanx_net::ReplicaError),
    /// The replica of this node lacks blocks that no other one retains: start the node again with
    /// [`Beginning::Snapshot`](phalanx_net::Beginning::Snapshot).
    #[error("{0}")]
    Behind(String),
    /// The epoch of this node's replica is over: start the node again with the network of the next one.
    #[error("epoch {epoch} begins above height {height}, with the network that has the digest {network}")]
    Epoch {
        /// Epoch that begins.
        epoch: u64,
        /// Height of the last block before it.
        height: u64,
        /// Digest of its network.
        network: B256,
    },
    /// The replica of this node has ended by itself.
    #[error("{0}")]
    Ended(String),
    /// An earlier run has found another result than that of two thirds of the power.
    #[error(
        "results differ ({path} says how): a start would go on with this node's own; remove the report once that is mended"
    )]
    Divergent {
        /// Report of the halt.
        path: PathBuf,
    },
    /// The report of an earlier halt cannot be looked for.
    #[error("{path}: {source}")]
    Reports {
        /// The node's folder.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The remote node, from whose chain this one goes on, has no answer.
    #[error("{0}")]
    Remote(String),
    /// Setting that cannot be followed.
    #[error("{0}")]
    Setting(String),
}

impl NodeError {
    /// True if the node's replica lacks blocks that no other one retains: it goes on once it has joined by a snapshot.
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        matches!(self, Self::Behind(_) | Self::Replica(phalanx_net::ReplicaError::Behind { .. }))
    }

    /// The epoch that has begun without the node's replica, and the digest of its network.
    #[must_use]
    pub const fn next_epoch(&self) -> Option<(u64, B256)> {
        match self {
            Self::Epoch { epoch, network, .. } => Some((*epoch, *network)),
            Self::Replica(phalanx_net::ReplicaError::Ended { epoch, network, .. }) => Some((*epoch, *network)),
            _ => None,
        }
    }
}
