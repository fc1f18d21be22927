//! A transaction that is offered to a builder.

use alloy_primitives::Bytes;
use core::fmt;
use revm::context::TxEnv;
use std::sync::Arc;

/// A transaction as a builder sees it: [`RecoveredTx`](crate::RecoveredTx) and the entries of a pool are such.
pub trait Transaction: fmt::Debug + Send + Sync {
    /// Transaction that is executed.
    fn env(&self) -> &TxEnv;

    /// Bytes that the transaction takes in the block, for [`crate::Budget::bytes`].
    fn size(&self) -> u64;

    /// Encoding as the block holds it, if there is one: from a built block's candidates a node takes the block's body.
    fn bytes(&self) -> Option<&Bytes> {
        None
    }
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

/// A transaction that may come into a block.
#[derive(Clone, Debug)]
pub struct CandidateTx {
    /// The transaction.
    pub tx: Arc<dyn Transaction>,
    /// Place in the order that the caller wishes for: candidates that are offered together are framed by ascending
    /// rank. Of one sender, the lower nonce must have the lower rank, or the same rank and an earlier offer; it is
    /// tried first.
    pub rank: u64,
}

impl CandidateTx {
    /// Creates a candidate from an unshared transaction.
    pub fn new(tx: impl Transaction + 'static, rank: u64) -> Self {
        Self { tx: Arc::new(tx), rank }
    }
}
