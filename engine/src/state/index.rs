//! Contracts and incarnations by address, beside the store, and which of them the last blocks have changed: going back reads these
//! again, and no others.

use super::{AccountChange, AccountIndexDelta};
use alloy_primitives::{Address, B256, map::AddressMap};
use std::collections::VecDeque;

/// Code and incarnation of accounts, small enough to stay in cache where most accounts are not contracts.
#[derive(Debug, Default)]
pub(super) struct Index {
    contracts: AddressMap<B256>,
    /// Incarnations that are not zero.
    incarnations: AddressMap<u32>,
    /// Height from which on every change is known; `None` before the first block.
    from: Option<u64>,
    /// Changed accounts of the newest blocks, by height.
    changed: VecDeque<(u64, Vec<Address>)>,
}

impl Index {
    /// Creates the index of a state at a height, which has no account yet.
    pub(super) fn at(height: Option<u64>) -> Self {
        Self { from: height, ..Self::default() }
    }

    /// Takes up the code and the incarnation of an account.
    pub(super) fn meet(&mut self, address: Address, code_hash: Option<B256>, incarnation: u32) {
        match code_hash {
            Some(hash) => _ = self.contracts.insert(address, hash),
            None => _ = self.contracts.remove(&address),
        }
        if incarnation != 0 {
            self.incarnations.insert(address, incarnation);
        } else if !self.incarnations.is_empty() {
            self.incarnations.remove(&address);
        }
    }

    /// Takes up the changes of the block at a height. Those below the newest `history` blocks are forgotten as changes.
    pub(super) fn add(&mut self, height: u64, history: u64, delta: &AccountIndexDelta) {
        for AccountChange { address, code, incarnation } in &delta.changes {
            self.meet(*address, *code, *incarnation);
        }
        if !delta.changes.is_empty() {
            self.changed.push_back((height, delta.changes.iter().map(|change| change.address).collect()));
        }
        let least = height.saturating_sub(history);
        self.from = Some(self.from.unwrap_or(height).max(least));
        while self.changed.pop_front_if(|(at, _)| *at <= least).is_some() {}
    }

    /// Takes the accounts that the blocks above a height have changed; `None` if not all of them are known.
    pub(super) fn take_above(&mut self, height: u64) -> Option<Vec<Address>> {
        self.from.filter(|from| *from <= height)?;
        let mut changed = Vec::new();
        while let Some((_, block)) = self.changed.pop_back_if(|(at, _)| *at > height) {
            changed.extend(block);
        }
        Some(changed)
    }

    /// Hash of a contract's code.
    #[inline]
    pub(super) fn code_hash(&self, address: &Address) -> Option<B256> {
        self.contracts.get(address).copied()
    }

    /// Number of times that the storage of an account was emptied.
    #[inline]
    pub(super) fn incarnation(&self, address: &Address) -> u32 {
        if self.incarnations.is_empty() { 0 } else { self.incarnations.get(address).copied().unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_known_as_far_back_as_the_history() {
        let of = |byte: u8| [Address::repeat_byte(byte)];
        let delta = |byte: u8| {
            let change = |address| AccountChange { address, code: Some(B256::repeat_byte(byte)), incarnation: 0 };
            AccountIndexDelta { changes: of(byte).map(change).into(), bare_storage: false }
        };
        assert_eq!(Index::default().take_above(0), None, "nothing was read");
        let mut index = Index::at(Some(3));
        assert_eq!(index.take_above(2), None);
        (4..=7).for_each(|height| index.add(height, 3, &delta(height as u8)));
        index.add(8, 3, &AccountIndexDelta::default());
        assert_eq!(index.take_above(4), None, "block 5 is the oldest that can be gone back to");
        assert_eq!(index.take_above(8), Some(vec![]));
        assert_eq!(index.take_above(5), Some([of(7), of(6)].concat()));
        assert_eq!(index.take_above(5), Some(vec![]), "taken");
        index.add(6, 3, &delta(9));
        assert_eq!(index.take_above(5), Some(of(9).to_vec()));
        assert_eq!(index.code_hash(&of(9)[0]), Some(B256::repeat_byte(9)));
        index.meet(of(9)[0], None, 2);
        assert_eq!((index.code_hash(&of(9)[0]), index.incarnation(&of(9)[0])), (None, 2));
        index.meet(of(9)[0], None, 0);
        assert_eq!(index.incarnation(&of(9)[0]), 0);
    }
}
