//! Failures of requests: five kinds, each with one answer.

use crate::id::ExecId;
use alloy_primitives::B256;
use core::fmt;

/// Reason for which a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not now: repeat the call later. Consensus does not see it.
    Retry(RetryCause),
    /// Never: a deterministic verdict on the block and its parent's state. A passing condition must not become one.
    Invalid(InvalidCause),
    /// The branch has lost. Drop it quietly: a sibling becoming durable is ordinary.
    Superseded,
    /// The height has left the history: only reads and proofs meet it, and another node may have the data.
    Pruned {
        /// Lowest height that can be read.
        oldest: u64,
    },
    /// Stop, keep everything for a report, then sync or call the operator.
    Fatal(FatalCause),
}

/// Condition that is missing for the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryCause {
    /// The parent is neither committed nor submitted, or was dropped.
    MissingParent(ExecId),
    /// The block itself is not there, or not far enough for the request.
    NotReady(ExecId),
    /// Depth, siblings or memory are at their limit ([`crate::Limits`]).
    Busy,
    /// A [`crate::ExecutionEngine::quiesce`] is in force.
    Quiesced,
    /// The disk has no room for a staged block.
    DiskFull,
    /// The node's own store refused a block.
    Sink,
    /// The remote state could not be read.
    Remote,
}

/// Rule that makes a block invalid for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidCause {
    /// Under [`crate::TxPolicy::Strict`], the first transaction that is invalid.
    Transaction {
        /// Position of the transaction.
        index: u32,
    },
    /// The block's height is not one more than its parent's.
    Height {
        /// Height that the block claims.
        says: u64,
        /// Height that it must have.
        expected: u64,
    },
    /// The transactions need more gas than the block has.
    GasLimit,
    /// The block touches more accounts and slots than its gas limit permits (EIP-7928).
    AccessList,
    /// The environment breaks a rule of the chain.
    Environment,
    /// The first transaction for which a block with forced transactions is refused: it does not decode, stands there twice, or
    /// the node has no check of forced transactions or one that refuses the block.
    Forced {
        /// Position of the transaction: in the block, or among the forced ones of a request to build.
        index: u32,
    },
}

/// Cause for which a node stops.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FatalCause {
    /// A certificate names a different result than this node's.
    Divergence {
        /// The execution.
        id: ExecId,
        /// Digest that this node computed.
        ours: B256,
        /// Digest that is certified.
        theirs: B256,
    },
    /// Two different blocks are decided at one height, or a decided block does not build on what is committed.
    Fork {
        /// Height of the conflict.
        height: u64,
    },
    /// Consensus contradicts itself otherwise: it abandons an ordered block, or orders an invalid one.
    Contradiction {
        /// Height of the contradiction.
        height: u64,
    },
    /// Stored data is damaged.
    Corrupt(String),
    /// The disk failed.
    Io(String),
    /// The engine has stopped, for a cause that is no disk's: a panic, or the end of the process.
    Stopped(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(cause) => write!(f, "not now: {cause}"),
            Self::Invalid(cause) => write!(f, "invalid block: {cause}"),
            Self::Superseded => f.write_str("the branch has lost"),
            Self::Pruned { oldest } => write!(f, "pruned: the oldest height is {oldest}"),
            Self::Fatal(cause) => write!(f, "fatal: {cause}"),
        }
    }
}

impl fmt::Display for RetryCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingParent(id) => write!(f, "parent {id} is missing; submit it first"),
            Self::NotReady(id) => write!(f, "{id} is not there or not far enough"),
            Self::Busy => f.write_str("depth, siblings or memory are at their limit"),
            Self::Quiesced => f.write_str("the engine is quiesced"),
            Self::DiskFull => f.write_str("the disk is full"),
            Self::Sink => f.write_str("the node's own store refused the block"),
            Self::Remote => f.write_str("the remote state could not be read"),
        }
    }
}

impl fmt::Display for InvalidCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transaction { index } => write!(f, "transaction {index} is invalid"),
            Self::Height { says, expected } => write!(f, "height {says} where {expected} is due"),
            Self::GasLimit => f.write_str("more gas than the block has"),
            Self::AccessList => f.write_str("more accounts and slots than the gas limit permits (EIP-7928)"),
            Self::Environment => f.write_str("the environment breaks a rule of the chain"),
            Self::Forced { index } => write!(
                f,
                "forced transaction {index} does not decode, has no room, stands there twice, or is refused by this node's check of \
                 forced transactions; a node without such a check refuses every one: set it"
            ),
        }
    }
}

impl fmt::Display for FatalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Divergence { id, ours, theirs } => {
                write!(f, "{id} has digest {ours} here, and {theirs} is certified: do not vote, compare the inputs")
            }
            Self::Fork { height } => write!(f, "two decided blocks at height {height}"),
            Self::Contradiction { height } => write!(f, "consensus contradicts itself at height {height}"),
            Self::Corrupt(what) => write!(f, "stored data is damaged: {what}"),
            Self::Io(what) => write!(f, "the disk failed: {what}"),
            Self::Stopped(what) => write!(f, "the engine has stopped: {what}"),
        }
    }
}

impl core::error::Error for Failure {}
impl core::error::Error for FatalCause {}
