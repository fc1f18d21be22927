//! What a transaction offers for its gas.

use alloy_primitives::U256;
use revm::context::{Transaction as _, TxEnv};

/// Prices beyond this, wei per gas, are alike: more than all ether for one gas. It leaves room to add and subtract.
const MOST: i128 = 1 << 100;

/// A price as a signed number that can be added and subtracted without care.
pub(super) const fn number(wei: u128) -> i128 {
    if wei < MOST as u128 { wei as i128 } else { MOST }
}

/// The two prices of a transaction, wei per gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bid {
    /// Most that it pays altogether.
    pub(super) cap: u128,
    /// Most that it pays above the base fee.
    pub(super) tip: u128,
}

impl Bid {
    pub(super) fn of(tx: &TxEnv) -> Self {
        Self { cap: tx.gas_price, tip: tx.gas_priority_fee.unwrap_or(tx.gas_price) }
    }

    /// What whoever includes it earns per gas at a base fee: `min(cap - base, tip)`, below zero if it cannot be included.
    pub(super) fn worth(self, base: u128) -> i128 {
        (number(self.cap) - number(base)).min(number(self.tip))
    }

    /// The lower of both prices each. The worth of the result is the lower worth of the two, at every base fee.
    pub(super) fn min(self, other: Self) -> Self {
        Self { cap: self.cap.min(other.cap), tip: self.tip.min(other.tip) }
    }
}

/// Most that a transaction can cost its sender in wei; `None` past 2^256.
pub(super) fn most_cost(tx: &TxEnv) -> Option<U256> {
    let gas = U256::from(tx.gas_price).checked_mul(U256::from(tx.gas_limit))?;
    let blobs = U256::from(tx.max_fee_per_blob_gas).checked_mul(U256::from(tx.total_blob_gas()))?;
    gas.checked_add(tx.value)?.checked_add(blobs)
}
