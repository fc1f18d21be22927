//! How far the transactions of a block are worth executing.

use crate::Outcome;
use revm::context::TxEnv;

/// Follows the transactions of a block in order, up to the first that makes a block of a chain invalid: what comes behind
/// that one has no bound but what the block's maker writes down, and is not executed. A block that is not judged, because
/// its invalid transactions are left out, has no such end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// Gas left, of a block that is judged.
    left: Option<u64>,
    ended: bool,
}

impl Admission {
    /// `gas` is the gas limit of a block that is judged.
    pub(crate) const fn new(gas: Option<u64>) -> Self {
        Self { left: gas, ended: false }
    }

    /// Whether `tx`, the next one, is to be executed.
    pub(crate) fn admits(&mut self, tx: &TxEnv) -> bool {
        self.ended |= self.left.is_some_and(|left| tx.gas_limit > left);
        !self.ended
    }

    /// Whether nothing is to be executed any more.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// What became of it.
    pub(crate) const fn follow(&mut self, outcome: &Outcome) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(outcome.gas_used());
            self.ended |= outcome.result().is_none();
        }
    }
}
