//! Decides which transactions of a block are worth executing.

use crate::model::{GasRoom, GasRules, Outcome};
use revm::context::TxEnv;

/// Follows the transactions of a block in order.
///
/// A block of a chain is **judged**: it ends with its first invalid transaction. Later transactions are bounded only by
/// what the block's maker writes, and are not executed. A builder **chooses**: a transaction without room is left out,
/// and the next one is tried. Any other block takes all transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockGas {
    rules: GasRules,
    /// Gas left, of a block with a limit.
    left: Option<GasRoom>,
    judged: bool,
    ended: bool,
}

impl BlockGas {
    /// Follows a judged block with this much gas left.
    pub(crate) const fn new(rules: GasRules, left: Option<GasRoom>) -> Self {
        Self { rules, left, judged: left.is_some(), ended: false }
    }

    /// Follows a builder's block with this much gas left.
    pub(crate) const fn choosing(rules: GasRules, left: GasRoom) -> Self {
        Self { rules, left: Some(left), judged: false, ended: false }
    }

    /// True if `tx`, the next transaction, is to be executed.
    pub(crate) fn admits(&mut self, tx: &TxEnv) -> bool {
        let fits = self.left.is_none_or(|left| left.lacks(self.rules.most(tx)).is_none());
        self.ended |= self.judged && !fits;
        fits && !self.ended
    }

    /// True if no further transaction is to be executed.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Follows the outcome of the last transaction.
    pub(crate) fn follow(&mut self, outcome: &Outcome) {
        if let Some(left) = &mut self.left {
            *left = left.minus(self.rules.used(outcome));
            self.ended |= self.judged && outcome.result().is_none();
        }
    }
}
