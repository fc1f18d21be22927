//! Errors of the engine.

use revm::primitives::hardfork::SpecId;

/// What can go wrong in the engine. Invalid transactions are not errors but [`crate::Outcome::Skipped`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The state store failed, or was given something it refuses.
    #[error(transparent)]
    Store(#[from] phalanx_merkle::Error),
    /// A stored value is not what the engine writes: the store belongs to another program, or was changed by one.
    #[error("the state store holds a value that the engine did not write: {what}; restore the store from a backup")]
    Corrupt {
        /// Which value.
        what: String,
    },
    /// The executors do not implement this spec.
    #[error("spec {spec:?} is not supported: choose one from Frontier to Osaka")]
    UnsupportedSpec {
        /// The spec asked for.
        spec: SpecId,
    },
    /// The block environment lacks what its spec demands.
    #[error("the block environment lacks {what}")]
    Environment {
        /// The missing field.
        what: &'static str,
    },
    /// A block names a transaction that the caller did not hand in.
    #[error("the block names transaction {index}, but there are {len}")]
    NoSuchTransaction {
        /// The index named.
        index: usize,
        /// How many transactions there are.
        len: usize,
    },
    /// The EVM gave up on a transaction for a reason that is not the transaction's.
    #[error("the EVM failed at transaction {index} of the block: {reason}")]
    Evm {
        /// Position in the block.
        index: usize,
        /// The EVM's words.
        reason: String,
    },
    /// A block is merkleized on another state than the one it was executed on.
    #[error("the block was executed on another state: execute it again on the committed one")]
    Stale,
    /// Worker threads could not be started.
    #[error("starting {threads} worker threads failed: {source}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The store already holds a chain, or does not hold one yet.
    #[error("{what}")]
    Genesis {
        /// What was expected.
        what: &'static str,
    },
    /// The thread that writes blocks has ended, after an error that an earlier ticket reported.
    #[error("the store no longer takes writes after an earlier failure; reopen it")]
    WriterGone,
}
