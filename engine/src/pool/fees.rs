//! Worth of transactions at the fees of the next block.

use super::{
    PooledTx,
    bid::number,
    config::Policy,
    lane::Key,
    queue::{Queue, Tail},
};

/// Prices of gas in the next block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fees {
    /// Base fee, wei per gas.
    pub base: u128,
    /// Base fee of blob gas, wei per gas.
    pub blob: u128,
}

impl Fees {
    /// Returns true if a block with these fees may hold `tx`.
    pub(super) fn admit(&self, tx: &PooledTx) -> bool {
        let blobs = tx.tx().blob_hashes.is_empty() || tx.tx().max_fee_per_blob_gas >= self.blob;
        blobs && tx.bid.cap >= self.base
    }

    /// Key of `tx` in the order of handing out; `None` until the fees have come down to it.
    ///
    /// Ageing is a handicap by birth: a transaction that came a tick later is worth `boost` less, now and for ever,
    /// so time passing re-sorts nothing.
    pub(super) fn place(&self, policy: Policy, tx: &PooledTx) -> Option<Key> {
        self.admit(tx).then(|| match policy {
            Policy::Price { boost } => {
                let handicap = number(u128::from(boost) * u128::from(tx.born()));
                Key::best(tx.bid.worth(self.base) - handicap, tx.rank())
            }
            Policy::Arrival => Key::best(0, tx.rank()),
        })
    }

    /// Key of a sender in the order of handing out, by its next transaction.
    pub(super) fn head(&self, policy: Policy, queue: &Queue) -> Option<Key> {
        queue.head().and_then(|head| self.place(policy, head))
    }

    /// Key of a sender in the order of eviction, by its last transaction `tail`.
    pub(super) fn tail(&self, tail: Option<Tail>) -> Option<Key> {
        tail.map(|Tail { rank, low, .. }| Key::worst(low.worth(self.base), rank))
    }
}
