//! Budget of a block: its limits, and what it has used of them.

use crate::{
    builder::Reason,
    model::{GasRoom, GasRules, GasUse, Transaction},
};

/// Limits of a block, or use in the same units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Gas. A transaction is admitted by its gas limit and counts with the gas that it used, or with its limit after
    /// [`Builder::with_limits_reserved`](crate::Builder::with_limits_reserved).
    pub gas: u64,
    /// Gas of state growth from Amsterdam on, when [`Self::gas`] is that of execution alone (EIP-8037).
    pub state_gas: u64,
    /// Blob gas (EIP-4844).
    pub blob_gas: u64,
    /// Bytes of all transactions as the block holds them, see [`Transaction::size`].
    pub bytes: u64,
    /// Number of transactions.
    pub txs: u64,
}

/// Gas of the budget that a transaction of the block takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GasCounts {
    /// Gas that was used, as Ethereum has it.
    Used,
    /// Gas limit.
    Limit,
}

impl Default for Budget {
    /// No limits beyond the block's own.
    fn default() -> Self {
        Self { gas: u64::MAX, state_gas: u64::MAX, blob_gas: u64::MAX, bytes: u64::MAX, txs: u64::MAX }
    }
}

impl Budget {
    pub(super) const NOTHING: Self = Self { gas: 0, state_gas: 0, blob_gas: 0, bytes: 0, txs: 0 };

    /// Maximum that a transaction may use.
    pub(super) fn of(rules: GasRules, tx: &dyn Transaction) -> Self {
        Self::with_gas(rules.most(tx.env()), tx)
    }

    /// Use of a transaction with this gas.
    pub(super) fn with_gas(gas: GasUse, tx: &dyn Transaction) -> Self {
        let GasUse { execution: gas, state: state_gas } = gas;
        Self { gas, state_gas, blob_gas: blob_gas(tx), bytes: tx.size(), txs: 1 }
    }

    /// The gas of these limits.
    pub(super) const fn room(self) -> GasRoom {
        GasRoom { execution: self.gas, state: self.state_gas }
    }

    /// Takes the tighter of both limits, each.
    pub(super) fn min(self, other: Self) -> Self {
        Self {
            gas: self.gas.min(other.gas),
            state_gas: self.state_gas.min(other.state_gas),
            blob_gas: self.blob_gas.min(other.blob_gas),
            bytes: self.bytes.min(other.bytes),
            txs: self.txs.min(other.txs),
        }
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            gas: self.gas.saturating_add(other.gas),
            state_gas: self.state_gas.saturating_add(other.state_gas),
            blob_gas: self.blob_gas.saturating_add(other.blob_gas),
            bytes: self.bytes.saturating_add(other.bytes),
            txs: self.txs.saturating_add(other.txs),
        }
    }

    /// Rest of these limits after `used`.
    pub(super) const fn minus(self, used: Self) -> Self {
        Self {
            gas: self.gas.saturating_sub(used.gas),
            state_gas: self.state_gas.saturating_sub(used.state_gas),
            blob_gas: self.blob_gas.saturating_sub(used.blob_gas),
            bytes: self.bytes.saturating_sub(used.bytes),
            txs: self.txs.saturating_sub(used.txs),
        }
    }

    /// Reason for the first of these limits that `need` exceeds.
    pub(super) const fn lacks(self, need: Self) -> Option<Reason> {
        if need.txs > self.txs {
            return Some(Reason::Count);
        }
        if need.gas > self.gas {
            return Some(Reason::Gas { needs: need.gas, left: self.gas });
        }
        if need.state_gas > self.state_gas {
            return Some(Reason::Gas { needs: need.state_gas, left: self.state_gas });
        }
        if need.blob_gas > self.blob_gas {
            return Some(Reason::BlobGas { needs: need.blob_gas, left: self.blob_gas });
        }
        if need.bytes > self.bytes {
            return Some(Reason::Bytes { needs: need.bytes, left: self.bytes });
        }
        None
    }
}

/// Blob gas of a transaction.
pub(super) fn blob_gas(tx: &dyn Transaction) -> u64 {
    (tx.env().blob_hashes.len() as u64).saturating_mul(alloy_eips::eip4844::DATA_GAS_PER_BLOB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_that_is_exceeded_is_named() {
        let left = Budget { gas: 10, state_gas: 15, blob_gas: 20, bytes: 30, txs: 1 };
        assert_eq!(left.lacks(left), None);
        assert_eq!(left.lacks(Budget { txs: 2, ..left }), Some(Reason::Count));
        assert_eq!(left.lacks(Budget { gas: 11, bytes: 99, ..left }), Some(Reason::Gas { needs: 11, left: 10 }));
        assert_eq!(left.lacks(Budget { state_gas: 16, ..left }), Some(Reason::Gas { needs: 16, left: 15 }));
        assert_eq!(left.lacks(Budget { blob_gas: 21, ..left }), Some(Reason::BlobGas { needs: 21, left: 20 }));
        assert_eq!(left.lacks(Budget { bytes: 31, ..left }), Some(Reason::Bytes { needs: 31, left: 30 }));
        assert_eq!(left.minus(Budget { gas: 4, ..Budget::NOTHING }), Budget { gas: 6, ..left });
    }
}
