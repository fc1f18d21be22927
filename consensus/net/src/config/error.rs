//! Reasons why a configuration cannot be used.

use super::VERSION;
use phalanx_bft::{ConfigError, QuorumError};
use std::{net::SocketAddr, path::PathBuf};

/// Reason why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetConfigError {
    /// The version is another one.
    #[error("the configuration has version {version}, and this program reads version {VERSION}")]
    Version {
        /// Version of the configuration.
        version: u32,
    },
    /// Numbers of replicas and faults do not fit.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
    /// A constant is out of range.
    #[error(transparent)]
    Constant(#[from] ConfigError),
    /// Two addresses are equal.
    #[error("{address} is listed twice: every replica needs two addresses of its own")]
    Address {
        /// The address.
        address: SocketAddr,
    },
    /// Two replicas share a folder.
    #[error("replicas {first} and {second} share the folder {}", dir.display())]
    Folder {
        /// Lower index.
        first: usize,
        /// Higher index.
        second: usize,
        /// The folder.
        dir: PathBuf,
    },
    /// A later epoch without the members before it, or a first one with them.
    #[error(
        "`epoch` is {epoch}: members change by an ordered change (phalanx members propose), which writes the next network with the keys of \
         the members `before`"
    )]
    Epoch {
        /// Number of the epoch.
        epoch: u64,
    },
    /// The table of delays has another shape.
    #[error("`links.delay_us` must have {n} rows of {n} delays, one row per replica")]
    Delays {
        /// Number of replicas.
        n: usize,
    },
    /// The index names no replica.
    #[error("there is no replica {index}: the configuration lists {n}, from 0")]
    Index {
        /// The index.
        index: u16,
        /// Number of replicas.
        n: usize,
    },
}
