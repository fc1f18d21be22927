//! Decides which transactions of a block are worth executing.

use crate::model::Outcome;
use revm::context::TxEnv;

/// Follows the transactions of a block in order.
///
/// A block of a chain is **judged**: it ends with its first invalid transaction. Later transactions are bounded only by
/// what the block's maker writes, and are not executed. A builder **chooses**: a transaction without room is left out,
/// and the next one is tried. Any other block takes all transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockGas {
    /// Gas left, of a block with a limit.
    left: Option<u64>,
    judged: bool,
    ended: bool,
}

impl BlockGas {
    /// Follows a judged block with the gas limit `gas`.
    pub(crate) const fn new(gas: Option<u64>) -> Self {
        Self { left: gas, judged: gas.is_some(), ended: false }
    }

    /// Follows a builder's block with this much gas left.
    pub(crate) const fn choosing(gas: u64) -> Self {
        Self { left: Some(gas), judged: false, ended: false }
    }

    /// True if `tx`, the next transaction, is to be executed.
    pub(crate) fn admits(&mut self, tx: &TxEnv) -> bool {
        let fits = self.left.is_none_or(|left| tx.gas_limit <= left);
        self.ended |= self.judged && !fits;
        fits && !self.ended
    }

    /// True if no further transaction is to be executed.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Follows the outcome of the last transaction.
    pub(crate) const fn follow(&mut self, outcome: &Outcome) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(outcome.gas_used());
            self.ended |= self.judged && outcome.result().is_none();
        }
    }
}
