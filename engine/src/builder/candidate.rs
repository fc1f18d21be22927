//! What a builder is offered, and why it leaves something out.

use crate::RecoveredTx;
use core::fmt;
use revm::{context::TxEnv, context_interface::result::InvalidTransaction};
use std::sync::Arc;

/// A transaction as a builder sees it, wherever it is kept: a pool implements this for its entries.
pub trait Transaction: fmt::Debug + Send + Sync {
    /// What is executed.
    fn env(&self) -> &TxEnv;

    /// Its bytes in the block, for [`crate::Budget::bytes`].
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

/// As a block holds it.
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
    /// Its place in the order that the caller wishes for: those offered together are framed by ascending rank. Of one
    /// sender the lower nonce must have the lower rank, or the same one and be offered before; it is tried first.
    pub rank: u64,
}

impl Candidate {
    /// A candidate that nobody else keeps.
    pub fn new(tx: impl Transaction + 'static, rank: u64) -> Self {
        Self { tx: Arc::new(tx), rank }
    }
}

/// A candidate that was left out for a reason that time will not mend in this block.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// Which.
    pub candidate: Candidate,
    /// Why.
    pub reason: Reason,
}

/// Why a candidate is not in the block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// It was invalid where its turn came, for nothing that it may still get from others in this block.
    #[error("invalid: {0}")]
    Invalid(InvalidTransaction),
    /// The block has less gas left than its gas limit.
    #[error("its gas limit is {needs}, and the block has {left} gas left")]
    Gas {
        /// Its gas limit.
        needs: u64,
        /// What was left.
        left: u64,
    },
    /// The block has less blob gas left than its blobs need.
    #[error("its blobs need {needs} blob gas, and the block has {left} left")]
    BlobGas {
        /// Its blob gas.
        needs: u64,
        /// What was left.
        left: u64,
    },
    /// The block has fewer bytes left.
    #[error("it takes {needs} bytes, and the block has {left} left")]
    Bytes {
        /// Its bytes.
        needs: u64,
        /// What was left.
        left: u64,
    },
    /// The block has as many transactions as it may.
    #[error("the block has as many transactions as it may")]
    Count,
    /// Its nonce was too high where its turn came, because an earlier one of its sender had found no room.
    #[error("nonce {nonce} of its sender found no room")]
    Behind {
        /// The nonce of that one.
        nonce: u64,
    },
}
