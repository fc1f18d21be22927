//! Candidates that a builder leaves out, and why.

use crate::model::CandidateTx;
use revm::context_interface::result::InvalidTransaction;

/// A candidate that cannot come into this block any more.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// The candidate.
    pub candidate: CandidateTx,
    /// Reason of the drop.
    pub reason: Reason,
}

/// Reason for which a candidate is not in the block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The transaction was invalid at its turn, and no other transaction of this block could make it valid.
    #[error("invalid: {0}")]
    Invalid(InvalidTransaction),
    /// The block has less gas left than its gas limit.
    #[error("gas limit {needs} is above the block's remaining gas {left}")]
    Gas {
        /// Gas limit of the transaction.
        needs: u64,
        /// Gas that the block had left.
        left: u64,
    },
    /// The block has less blob gas left than its blobs need.
    #[error("blob gas {needs} is above the block's remaining blob gas {left}")]
    BlobGas {
        /// Blob gas of the transaction.
        needs: u64,
        /// Blob gas that the block had left.
        left: u64,
    },
    /// The block has fewer bytes left.
    #[error("{needs} bytes are more than the block's remaining {left}")]
    Bytes {
        /// Bytes of the transaction.
        needs: u64,
        /// Bytes that the block had left.
        left: u64,
    },
    /// The block holds its maximum number of transactions.
    #[error("the block holds its maximum number of transactions")]
    Count,
    /// The nonce was too high at its turn, because an earlier transaction of the sender found no room.
    #[error("nonce {nonce} of the sender found no room")]
    Behind {
        /// Nonce of the earlier transaction.
        nonce: u64,
    },
}
