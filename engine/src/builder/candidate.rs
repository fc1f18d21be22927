//! Candidates of a builder, and the reasons for which it drops them.

use crate::RecoveredTx;
use core::fmt;
use revm::{context::TxEnv, context_interface::result::InvalidTransaction};
use std::sync::Arc;

/// A transaction as a builder sees it: a pool implements this for its entries.
pub trait Transaction: fmt::Debug + Send + Sync {
    /// Transaction that is executed.
    fn env(&self) -> &TxEnv;

    /// Bytes that the transaction takes in the block, for [`crate::Budget::bytes`].
    fn size(&self) -> u64;
}

/// A transaction without an encoding: it takes no bytes.
impl Transaction for TxEnv {
    fn env(&self) -> &TxEnv {
        self
    }

    fn size(&self) -> u64 {
        0
    }
}

/// Implemented for a transaction as a block holds it.
impl Transaction for RecoveredTx {
    fn env(&self) -> &TxEnv {
        self.tx()
    }

    fn size(&self) -> u64 {
        self.bytes().len() as u64
    }
}

/// A transaction that may come into a block.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The transaction.
    pub tx: Arc<dyn Transaction>,
    /// Place in the order that the caller wishes for: candidates that are offered together are framed by ascending
    /// rank. Of one sender, the lower nonce must have the lower rank, or the same rank and an earlier offer; it is
    /// tried first.
    pub rank: u64,
}

impl Candidate {
    /// Creates a candidate from an unshared transaction.
    pub fn new(tx: impl Transaction + 'static, rank: u64) -> Self {
        Self { tx: Arc::new(tx), rank }
    }
}

/// A candidate that cannot come into this block any more.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// The candidate.
    pub candidate: Candidate,
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
