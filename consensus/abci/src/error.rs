//! Calls that are refused, and reasons to halt.

use alloy_primitives::{Address, B256};
use phalanx_engine_api::{Candidate, ExecOutcome, Failure};

/// Reason for which a call gets no answer but an exception, after which CometBFT ends; none at all for `Halted` and `Stopping`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The call is for another height than the next.
    #[error("{call} is for height {says} where {expected} is due")]
    Height {
        /// Name of the call.
        call: &'static str,
        /// Height that the call names.
        says: i64,
        /// Height that it must name.
        expected: u64,
    },
    /// The chain has not begun: InitChain comes first.
    #[error("{call} comes before InitChain")]
    NotBegun {
        /// Name of the call.
        call: &'static str,
    },
    /// InitChain for a chain that has blocks.
    #[error("InitChain for a chain at height {height}: it has begun already")]
    Begun {
        /// Committed height.
        height: u64,
    },
    /// InitChain for another chain.
    #[error("chain id {says:?}: the number at its end must be {ours}, as in the genesis of this node")]
    Chain {
        /// Chain id of CometBFT.
        says: String,
        /// Chain id of this node.
        ours: u64,
    },
    /// A first height that the engine does not have.
    #[error("the chain begins at height {says}: it must begin at 1")]
    FirstHeight {
        /// Height that CometBFT names.
        says: i64,
    },
    /// A field that is missing, or has no sensible value.
    #[error("{call}: {field} is missing or malformed")]
    Malformed {
        /// Name of the call.
        call: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// Fields that make no block of this chain.
    #[error("no block of this chain: {0}")]
    Environment(String),
    /// Proposal of more transactions than the gas limit has room for.
    #[error("{count} transactions: the gas limit has room for {most}")]
    Crowded {
        /// Number of transactions.
        count: usize,
        /// Maximum number of transactions.
        most: u64,
    },
    /// Proposal with bytes that are no transaction of the chain.
    #[error("transaction {place} is none: {why}")]
    NoTx {
        /// Place in the block, from 0.
        place: usize,
        /// Reason.
        why: String,
    },
    /// Proposal with a transaction of no bytes.
    #[error("transaction {place} is empty")]
    EmptyTx {
        /// Place in the block, from 0.
        place: usize,
    },
    /// Commit without FinalizeBlock.
    #[error("Commit, and no block was finalized")]
    NothingFinalized,
    /// FinalizeBlock of a second block at one height.
    #[error("two blocks are decided at height {height}: {first} and {second}")]
    DecidedTwice {
        /// Height of the blocks.
        height: u64,
        /// Hash of the first one.
        first: B256,
        /// Hash of the second one.
        second: B256,
    },
    /// A block that comes with another content than before, under one hash.
    #[error("block {hash} comes with another content than before")]
    Altered {
        /// Hash of the block.
        hash: B256,
    },
    /// A request without content, or of a later version.
    #[error("a request of an unknown kind")]
    Unknown,
    /// The node is ending.
    #[error("the node is stopping")]
    Stopping,
    /// The application has halted.
    #[error("halted: {0}")]
    Halted(String),
}

/// Reason for which the application answers nothing any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Halt {
    /// More than two thirds of the power have another result.
    #[error("{0}")]
    Divergence(Box<Divergence>),
    /// A decided block that the chain has no result for, or an engine that has ended.
    #[error("block {height}: {why}")]
    Engine {
        /// Height of the block.
        height: u64,
        /// Failure of the engine.
        why: Failure,
    },
    /// A call has panicked: what it has left behind is unknown.
    #[error("a call panicked: this is a bug; {0}")]
    Panic(String),
    /// The node's own store has failed.
    #[error("block {height} is committed, and the node cannot show it: {why}")]
    Host {
        /// Height of the block.
        height: u64,
        /// Reason in words.
        why: String,
    },
}

/// Data for a report on a block with two results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Height of the block.
    pub height: u64,
    /// Hash of the block in CometBFT.
    pub hash: B256,
    /// Digest of this node's outcome.
    pub ours: B256,
    /// Digest that more than two thirds of the power vote for.
    pub theirs: B256,
    /// Voting power of the validators that vote for it.
    pub power: u64,
    /// Voting power of all validators.
    pub total: u64,
    /// The block and this node's outcome.
    pub block: (Candidate, ExecOutcome),
    /// Digests that validators have voted for.
    pub votes: Vec<(Address, B256)>,
}

impl core::fmt::Display for Divergence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { height, ours, theirs, power, total, .. } = self;
        write!(f, "block {height} has digest {ours} here, and {power} of {total} of the power vote for {theirs}")
    }
}
