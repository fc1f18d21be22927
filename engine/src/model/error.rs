//! Errors of the engine.

use super::too_wide::TooWide;
use revm::primitives::hardfork::SpecId;

/// Failure of the engine. Invalid transactions are not errors but [`crate::Outcome::Skipped`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The state store failed, or refused a request.
    #[error(transparent)]
    Store(#[from] phalanx_merkle::Error),
    /// A stored value is not of the engine's format: the store belongs to another program, or was changed by one.
    #[error("the state store holds a value that the engine did not write: {what}; restore the store from a backup")]
    Corrupt {
        /// Kind of the value.
        what: String,
    },
    /// The executors do not implement this spec.
    #[error("spec {spec:?} is not supported: choose one from Frontier to Osaka")]
    UnsupportedSpec {
        /// Requested spec.
        spec: SpecId,
    },
    /// The block environment lacks a field that its spec demands.
    #[error("the block environment lacks {what}")]
    Environment {
        /// The missing field.
        what: &'static str,
    },
    /// A number of the block environment is wider than the engine's fields.
    #[error(transparent)]
    TooWide(#[from] TooWide),
    /// A block names a transaction that the caller did not supply.
    #[error("the block names transaction {index}, but there are {len}")]
    NoSuchTransaction {
        /// Named index.
        index: usize,
        /// Number of transactions.
        len: usize,
    },
    /// The EVM failed on a transaction for a reason that is not the transaction's.
    #[error("the EVM failed at transaction {index} of the block: {reason}")]
    Evm {
        /// Position in the block.
        index: usize,
        /// Message of the EVM.
        reason: String,
    },
    /// A block is merkleized on another state than it was executed on.
    #[error("the block was executed on another state: execute it again on the committed one")]
    Stale,
    /// Worker threads could not be started.
    #[error("starting {threads} worker threads failed: {source}")]
    Threads {
        /// Requested number of threads.
        threads: usize,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The store already holds a chain, or does not hold one yet.
    #[error("{what}")]
    Genesis {
        /// Description of the expected store.
        what: &'static str,
    },
    /// The thread that writes blocks has ended, after an error that an earlier ticket reported.
    #[error("the store no longer takes writes after an earlier failure; reopen it")]
    WriterGone,
}
