//! Errors of the engine.

use super::{foreign::ForeignError, too_wide::TooWide};
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
    #[error(
        "these settings of {spec:?} are not supported: take CfgEnv::new_with_spec of a spec from Frontier to Amsterdam"
    )]
    UnsupportedSpec {
        /// Requested spec.
        spec: SpecId,
    },
    /// Parts of the configuration contradict each other.
    #[error("{what}")]
    Configuration {
        /// Description of the contradiction.
        what: String,
    },
    /// The store holds another chain than the engine was set up for. Nothing was changed.
    #[error("the store holds {found}, and the engine was set up for {expected}: open the store of that chain")]
    OtherChain {
        /// Chain that the store holds.
        found: String,
        /// Chain that was asked for.
        expected: String,
    },
    /// The state is that of an earlier version's service: its next block would have another root than elsewhere. Nothing was
    /// changed.
    #[error(
        "the state at block {height} is of an earlier version, whose roots differ from this version's: begin the chain anew, \
         or join it by a snapshot of a node of this version"
    )]
    Outdated {
        /// Height of the committed block.
        height: u64,
    },
    /// The header's number does not follow that of the last whole block that was committed.
    #[error("the header has number {got}, and the state is after a block that {expected} follows")]
    Number {
        /// Number after the committed block's.
        expected: u64,
        /// Number of the header.
        got: u64,
    },
    /// A block is committed that was not staged.
    #[error("the block is not staged: stage it, and wait for the end of its write")]
    NotStaged,
    /// The state at a height is not kept any more.
    #[error("the state at height {height} is pruned: the oldest is that at height {oldest}")]
    Pruned {
        /// Requested height.
        height: u64,
        /// Lowest height whose state is kept.
        oldest: u64,
    },
    /// The trie of Ethereum's root could not follow the engine.
    #[error("Ethereum's trie: {what}")]
    EthereumRoot {
        /// Description of the fault.
        what: String,
    },
    /// No block is committed at a height.
    #[error("no block is committed at height {height}")]
    NoSuchHeight {
        /// Requested height.
        height: u64,
    },
    /// A foreign database failed under a block.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
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
