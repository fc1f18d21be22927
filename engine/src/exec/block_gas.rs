//! How far the transactions of a block are worth executing.

use crate::model::Outcome;
use revm::context::TxEnv;

/// Follows the transactions of a block in order.
///
/// A block of a chain is **judged**: it ends with the first transaction that makes it invalid. What comes behind that one
/// has no bound but what the block's maker writes down, and is not executed. A builder **chooses**: what has no room is
/// left out, and the next one is looked at. A block of which neither is said takes everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockGas {
    /// Gas left, of a block that has a limit.
    left: Option<u64>,
    judged: bool,
    ended: bool,
}

impl BlockGas {
    /// `gas` is the gas limit of a block that is judged.
    pub(crate) const fn new(gas: Option<u64>) -> Self {
        Self { left: gas, judged: gas.is_some(), ended: false }
    }

    /// A builder's block with so much gas left.
    pub(crate) const fn choosing(gas: u64) -> Self {
        Self { left: Some(gas), judged: false, ended: false }
    }

    /// Whether `tx`, the next one, is to be executed.
    pub(crate) fn admits(&mut self, tx: &TxEnv) -> bool {
        let fits = self.left.is_none_or(|left| tx.gas_limit <= left);
        self.ended |= self.judged && !fits;
        fits && !self.ended
    }

    /// Whether nothing is to be executed any more.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// What became of it.
    pub(crate) const fn follow(&mut self, outcome: &Outcome) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(outcome.gas_used());
            self.ended |= self.judged && outcome.result().is_none();
        }
    }
}
