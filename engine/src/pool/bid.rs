//! Bid of a transaction: the prices that it offers for its gas, and its highest cost.

use alloy_primitives::U256;
use revm::context::{Transaction as _, TxEnv};

/// Cap of a price, in wei per gas: more than all ether for one gas. Sums and differences of two prices do not
/// overflow.
const MOST: i128 = 1 << 100;

/// Converts a price to a signed number; prices above [`MOST`] become `MOST`.
pub(super) const fn number(wei: u128) -> i128 {
    if wei < MOST as u128 { wei as i128 } else { MOST }
}

/// Prices of a transaction, in wei per gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bid {
    /// Maximum price, base fee included.
    pub(super) cap: u128,
    /// Maximum tip above the base fee.
    pub(super) tip: u128,
}

impl Bid {
    pub(super) fn of(tx: &TxEnv) -> Self {
        Self { cap: tx.gas_price, tip: tx.gas_priority_fee.unwrap_or(tx.gas_price) }
    }

    /// Tip that its block's proposer earns per gas at a base fee: `min(cap - base, tip)`; negative if it cannot be
    /// included.
    pub(super) fn worth(self, base: u128) -> i128 {
        (number(self.cap) - number(base)).min(number(self.tip))
    }

    /// Takes the lower of both prices each. The worth of the result is the lower worth of the two, at every base fee.
    pub(super) fn min(self, other: Self) -> Self {
        Self { cap: self.cap.min(other.cap), tip: self.tip.min(other.tip) }
    }
}

/// Maximum cost to the sender, in wei; `None` past 2^256.
pub(super) fn most_cost(tx: &TxEnv) -> Option<U256> {
    let gas = U256::from(tx.gas_price).checked_mul(U256::from(tx.gas_limit))?;
    let blobs = U256::from(tx.max_fee_per_blob_gas).checked_mul(U256::from(tx.total_blob_gas()))?;
    gas.checked_add(tx.value)?.checked_add(blobs)
}
