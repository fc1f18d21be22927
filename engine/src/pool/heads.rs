//! The next transaction of every sender, in the order of the policy.

use super::{
    PooledTx,
    bid::{Bid, number},
    config::Policy,
    lanes::{Best, Entry, Lanes},
};
use alloy_primitives::{Address, map::AddressMap};
use std::{collections::BTreeSet, sync::Arc};

/// What gas costs in the next block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fees {
    /// Base fee, wei per gas.
    pub base: u128,
    /// Base fee of blob gas, wei per gas.
    pub blob: u128,
}

impl Fees {
    /// Whether a block with these fees may hold `tx`.
    pub(super) fn admit(&self, tx: &PooledTx) -> bool {
        let blobs = tx.tx().blob_hashes.is_empty() || tx.tx().max_fee_per_blob_gas >= self.blob;
        blobs && tx.bid.cap >= self.base
    }
}

/// The heads of all senders' queues. Those that the fees do not admit are known, and wait outside of the order until the
/// fees have come down to them.
#[derive(Debug)]
pub(super) struct Heads {
    policy: Policy,
    fees: Fees,
    lanes: Lanes,
    all: AddressMap<Arc<PooledTx>>,
    /// All of them by the highest base fee that admits them.
    by_cap: BTreeSet<(u128, Address)>,
    /// Those with blobs by the highest base fee of blob gas that admits them.
    by_blob_cap: BTreeSet<(u128, Address)>,
}

impl Heads {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            fees: Fees::default(),
            lanes: Lanes::default(),
            all: AddressMap::default(),
            by_cap: BTreeSet::new(),
            by_blob_cap: BTreeSet::new(),
        }
    }

    pub(super) const fn fees(&self) -> &Fees {
        &self.fees
    }

    /// Sets or removes a sender's head. O(log n).
    pub(super) fn set(&mut self, sender: Address, head: Option<&Arc<PooledTx>>) {
        let old = self.all.get(&sender);
        if old.map(|tx| tx.rank()) == head.map(|tx| tx.rank()) {
            return;
        }
        if let Some(old) = self.all.remove(&sender) {
            self.by_cap.remove(&(old.bid.cap, sender));
            self.by_blob_cap.remove(&(old.tx().max_fee_per_blob_gas, sender));
        }
        if let Some(head) = head {
            self.by_cap.insert((head.bid.cap, sender));
            if !head.tx().blob_hashes.is_empty() {
                self.by_blob_cap.insert((head.tx().max_fee_per_blob_gas, sender));
            }
            self.all.insert(sender, Arc::clone(head));
        }
        self.place(sender);
    }

    /// Moves the fees. O(k log n) for k senders whose head they pass.
    pub(super) fn set_fees(&mut self, fees: Fees) {
        let passed = |index: &BTreeSet<(u128, Address)>, old: u128, new: u128| -> Vec<Address> {
            let range = (old.min(new), Address::ZERO)..(old.max(new), Address::ZERO);
            index.range(range).map(|(_, sender)| *sender).collect()
        };
        let mut senders = passed(&self.by_cap, self.fees.base, fees.base);
        senders.extend(passed(&self.by_blob_cap, self.fees.blob, fees.blob));
        self.fees = fees;
        self.lanes.set_base(fees.base);
        for sender in senders {
            self.place(sender);
        }
    }

    /// The heads that the fees admit, best first.
    pub(super) fn best(&self) -> Best<'_> {
        self.lanes.best()
    }

    /// What `tx` is worth by the policy.
    pub(super) fn worth(&self, tx: &PooledTx) -> i128 {
        let Entry { bid, bonus, .. } = self.entry(tx);
        bid.worth(self.fees.base) + bonus
    }

    fn place(&mut self, sender: Address) {
        let head = self.all.get(&sender).filter(|head| self.fees.admit(head));
        let entry = head.map(|head| self.entry(head));
        self.lanes.set(sender, entry);
    }

    /// Ageing is a handicap by birth: who is a tick younger is worth `boost` less, now and for ever, so that nothing has to
    /// be sorted anew as time goes by.
    fn entry(&self, tx: &PooledTx) -> Entry {
        let rank = tx.rank();
        match self.policy {
            Policy::Price { boost } => {
                let handicap = number(u128::from(boost) * u128::from(tx.born()));
                Entry { bid: tx.bid, bonus: -handicap, rank }
            }
            Policy::Arrival => Entry { bid: Bid { cap: 0, tip: 0 }, bonus: 0, rank },
        }
    }
}
