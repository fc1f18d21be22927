//! Where mappings keep what a transaction looks for. ParaLyze hashes that to predict the transaction; whoever runs it need
//! not hash it again.

use alloy_primitives::U256;
use phalanx_memory::{prefetch, prefetch_slice};

/// What Solidity hashes to find an entry of a mapping: the key, then the mapping's own slot.
pub type Preimage = [u8; 64];

/// By transaction, the preimages of some of the slots that it is predicted to touch, in a flat arena. `K` names the slot.
///
/// Behind one there may be another of the same slot: what hashes to its second half, as in a mapping of mappings.
#[derive(Clone, Debug)]
pub struct Preimages<K> {
    entries: Vec<(K, Preimage)>,
    /// `ends[i]` is where those of transaction `i` stop.
    ends: Vec<u32>,
}

impl<K> Default for Preimages<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Preimages<K> {
    /// Of no transaction.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), ends: Vec::new() }
    }

    /// Of no transaction, with room for so many preimages of so many.
    pub fn with_capacity(preimages: usize, transactions: usize) -> Self {
        Self { entries: Vec::with_capacity(preimages), ends: Vec::with_capacity(transactions) }
    }

    /// Number of preimages.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no preimage.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds one to the transaction that [`Self::close`] will end. It must hash to what `slot` names, of which it has none yet,
    /// and `inner`, if there is one, to its second half: unlike a prediction, nothing checks it.
    #[inline]
    pub fn add(&mut self, slot: K, preimage: Preimage, inner: Option<&Preimage>)
    where
        K: Copy + PartialEq,
    {
        debug_assert!(self.entries.last().is_none_or(|(last, _)| *last != slot) || self.is_at_start());
        self.entries.push((slot, preimage));
        inner.into_iter().for_each(|inner| self.entries.push((slot, *inner)));
    }

    /// Adds one that [`Self::get`] of others gave, whose slot is called so here: all of them, in their order.
    #[inline]
    pub fn copy(&mut self, slot: K, preimage: &Preimage) {
        self.entries.push((slot, *preimage));
    }

    /// Whether the transaction that is open has none.
    fn is_at_start(&self) -> bool {
        self.ends.last().is_none_or(|end| *end as usize == self.entries.len())
    }

    /// Ends a transaction.
    ///
    /// # Panics
    /// If there are 2^32 preimages.
    #[inline]
    pub fn close(&mut self) {
        self.ends.push(u32::try_from(self.entries.len()).expect("fewer than 2^32 preimages"));
    }

    /// Those of transaction `index`; none if there is no such transaction.
    #[inline]
    pub fn get(&self, index: usize) -> &[(K, Preimage)] {
        let Some(end) = self.ends.get(index) else { return &[] };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.entries[start as usize..*end as usize]
    }

    /// What `preimage` hashes to, if it is one of transaction `index`; `slot` says the number of a slot that is named.
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

    /// Asks the cache for where those of transaction `index` are, if there is such a transaction.
    #[inline]
    pub fn prefetch_end(&self, index: usize) {
        self.ends.get(index).into_iter().for_each(prefetch);
    }

    /// Asks the cache for those of transaction `index`, if there is such a transaction.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        if !self.is_empty() {
            prefetch_slice(self.get(index));
        }
    }

    /// Replaces all by those of transactions that stop at `ends`, in ascending order, once `fill` has put them all, in order,
    /// into the empty vector that it is given: for whoever has many threads write them.
    ///
    /// # Panics
    /// If there are fewer or more.
    pub fn refill(&mut self, ends: impl Iterator<Item = u32>, fill: impl FnOnce(&mut Vec<(K, Preimage)>)) {
        self.clear();
        self.ends.extend(ends);
        fill(&mut self.entries);
        debug_assert!(self.ends.is_sorted());
        assert_eq!(self.entries.len(), self.ends.last().map_or(0, |end| *end as usize), "all preimages are there");
    }

    /// Forgets all and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.ends.clear();
    }
}

/// A database that knows where some mappings keep what the running transaction looks for.
pub trait KnownSlots: revm::Database {
    /// `keccak256(preimage)`, if it is known.
    fn known_slot(&self, preimage: &Preimage) -> Option<U256>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preimage_is_found_as_a_slots_or_as_the_half_of_one() {
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
