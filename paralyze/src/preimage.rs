//! Preimages of mapping slots. ParaLyze hashes them to predict a transaction, and its execution need not hash them again.

use alloy_primitives::U256;
use phalanx_memory::{Reuse, prefetch, prefetch_slice};

/// Preimage of a mapping entry's slot in Solidity: the key, then the mapping's own slot.
pub type Preimage = [u8; 64];

/// Preimages of predicted slots, by transaction, in a flat arena. `K` names the slot.
///
/// A preimage may be followed by another one of the same slot, which hashes to its second half, as in a mapping of mappings.
#[derive(Clone, Debug)]
pub struct Preimages<K> {
    entries: Vec<(K, Preimage)>,
    /// End of each transaction's preimages in `entries`.
    ends: Vec<u32>,
}

impl<K> Default for Preimages<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Preimages<K> {
    /// Creates an arena without transactions.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), ends: Vec::new() }
    }

    /// Creates an arena with room for so many preimages of so many transactions.
    pub fn with_capacity(preimages: usize, transactions: usize) -> Self {
        Self { entries: Vec::with_capacity(preimages), ends: Vec::with_capacity(transactions) }
    }

    /// Number of preimages.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no preimage.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a preimage of `slot`, which has none yet, to the open transaction; [`Self::close`] ends it.
    ///
    /// The preimage must hash to the slot, and `inner`, if there is one, to its second half: unlike a prediction, nothing
    /// checks them.
    #[inline]
    pub fn add(&mut self, slot: K, preimage: Preimage, inner: Option<&Preimage>)
    where
        K: Copy + PartialEq,
    {
        debug_assert!(self.entries.last().is_none_or(|(last, _)| *last != slot) || self.is_at_start());
        self.entries.push((slot, preimage));
        inner.into_iter().for_each(|inner| self.entries.push((slot, *inner)));
    }

    /// Copies a preimage that [`Self::get`] of another arena gave, under its name here. All of a transaction, in their order.
    #[inline]
    pub fn copy(&mut self, slot: K, preimage: &Preimage) {
        self.entries.push((slot, *preimage));
    }

    /// Returns true if the open transaction has no preimage.
    fn is_at_start(&self) -> bool {
        self.ends.last().is_none_or(|end| *end as usize == self.entries.len())
    }

    /// Ends the open transaction.
    ///
    /// # Panics
    /// If there are 2^32 preimages.
    #[inline]
    pub fn close(&mut self) {
        self.ends.push(u32::try_from(self.entries.len()).expect("fewer than 2^32 preimages"));
    }

    /// Returns the preimages of transaction `index`; none if there is no such transaction.
    #[inline]
    pub fn get(&self, index: usize) -> &[(K, Preimage)] {
        let Some(end) = self.ends.get(index) else { return &[] };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.entries[start as usize..*end as usize]
    }

    /// Returns the hash of `preimage`, if transaction `index` has it. `slot` gives the number of a named slot.
    #[inline]
    pub fn find(&self, index: usize, preimage: &Preimage, slot: impl Fn(&K) -> Option<U256>) -> Option<U256>
    where
        K: PartialEq,
    {
        let known = self.get(index);
        let at = known.iter().position(|(_, known)| known == preimage)?;
        let (name, _) = &known[at];
        match at.checked_sub(1).map(|before| &known[before]) {
            Some((same, [_, half @ ..])) if same == name => {
                half.last_chunk().map(|half| U256::from_be_bytes::<32>(*half))
            }
            _ => slot(name),
        }
    }

    /// Prefetches the end of the preimages of transaction `index`, if there is such a transaction.
    #[inline]
    pub fn prefetch_end(&self, index: usize) {
        self.ends.get(index).into_iter().for_each(prefetch);
    }

    /// Prefetches the preimages of transaction `index`, if there is such a transaction.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        if !self.is_empty() {
            prefetch_slice(self.get(index));
        }
    }

    /// Replaces all preimages. `ends` are the ends of the transactions, ascending, and `fill` puts their preimages, in order,
    /// into the empty vector that it gets: many threads may write them.
    ///
    /// # Panics
    /// If the number of preimages is not the last end.
    pub fn refill(&mut self, ends: impl Iterator<Item = u32>, fill: impl FnOnce(&mut Vec<(K, Preimage)>)) {
        self.clear();
        self.ends.extend(ends);
        fill(&mut self.entries);
        debug_assert!(self.ends.is_sorted());
        assert_eq!(self.entries.len(), self.ends.last().map_or(0, |end| *end as usize), "all preimages are there");
    }

    /// Removes all transactions and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.ends.clear();
    }
}

/// A database that knows the slots of some preimages of the running transaction.
pub trait KnownSlots: revm::Database {
    /// Returns `keccak256(preimage)`, if it is known.
    fn known_slot(&self, preimage: &Preimage) -> Option<U256>;
}

impl<K> Reuse for Preimages<K> {
    fn clear(&mut self) {
        self.clear();
    }

    fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preimage_is_found_by_its_slot_or_as_the_inner_one() {
        let preimage = |first: u8, second: u8| {
            let mut preimage = [second; 64];
            preimage[..32].fill(first);
            preimage
        };
        let mut known = Preimages::new();
        known.add(7, preimage(1, 2), None);
        known.close();
        known.add(7, preimage(1, 2), Some(&preimage(3, 4)));
        known.add(8, preimage(5, 6), None);
        known.close();
        let mut copied = Preimages::new();
        for index in 0..2 {
            known.get(index).iter().for_each(|(slot, preimage)| copied.copy(*slot, preimage));
            copied.close();
        }
        let known = copied;
        let number = |slot: &u32| (*slot != 8).then(|| U256::from(*slot));
        let find = |index, first, second| known.find(index, &preimage(first, second), number);
        assert_eq!((find(0, 1, 2), find(1, 1, 2)), (Some(U256::from(7)), Some(U256::from(7))));
        assert_eq!(find(1, 3, 4), Some(U256::from_be_bytes([2; 32])), "the second half of the one before");
        assert_eq!(find(0, 3, 4), None, "of another transaction");
        assert_eq!(find(1, 5, 6), None, "what it names has no number");
        assert_eq!((find(1, 1, 3), find(2, 1, 2)), (None, None));
    }
}
