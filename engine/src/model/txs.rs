//! Transactions of a block, found by index.

use crate::model::CandidateTx;
use core::ops::Index;
use revm::context::TxEnv;

/// Transactions by index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Txs<'a> {
    /// List of a caller.
    List(&'a [TxEnv]),
    /// Candidates offered to a builder.
    Offered(&'a [CandidateTx]),
}

impl Txs<'_> {
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Offered(candidates) => candidates.len(),
        }
    }
}

impl Index<usize> for Txs<'_> {
    type Output = TxEnv;

    #[inline]
    fn index(&self, index: usize) -> &TxEnv {
        match self {
            Self::List(list) => &list[index],
            Self::Offered(candidates) => candidates[index].tx.env(),
        }
    }
}
