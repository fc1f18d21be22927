//! Errors of a node as a whole.

use crate::store::StoreError;
use phalanx::api::Failure;
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
    /// Setting that cannot be followed.
    #[error("{0}")]
    Setting(String),
}
