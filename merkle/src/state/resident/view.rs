//! The resident state as a view and as a base of overlays.

use phalanx_merkle_proof::{Entry, Hash};

use super::{index::MAX_KEYS, state::Resident};
use crate::{
    state::view::{BaseState, StateView},
    types::{Locator, Lookup, Memory, Written},
};

impl BaseState for Resident {
    #[inline]
    fn find(&self, key: &[u8]) -> Option<u32> {
        self.find(key)
    }

    #[inline]
    fn is_sentinel(&self, id: u32) -> bool {
        self.is_sentinel(id)
    }

    fn in_key_order<'s>(&'s self, from: &'s Hash) -> impl Iterator<Item = u32> + 's {
        self.in_key_order(from)
    }
}

impl StateView for Resident {
    fn len(&self) -> usize {
        self.len()
    }

    fn max_len(&self) -> usize {
        // Ids of deleted keys are taken again only later.
        const { assert!(Memory::Resident.max_keys() <= MAX_KEYS as u64 / 2) };
        Memory::Resident.max_keys() as usize
    }

    #[inline]
    fn find_many<'k>(
        &self,
        lookups: impl ExactSizeIterator<Item = Lookup<'k>> + Clone,
        found: impl FnMut(Option<u32>),
    ) {
        self.find_many(lookups, found);
    }

    #[inline]
    fn id_of_locator(&self, locator: Locator) -> Option<u32> {
        self.id_of_locator(locator)
    }

    #[inline]
    fn is_current(&self, locator: Locator) -> bool {
        self.is_current(locator)
    }

    #[inline]
    fn entry(&self, id: u32) -> (&[u8], &[u8]) {
        self.entry(id)
    }

    fn committed(&self, id: u32) -> Entry<'_> {
        self.committed(id)
    }

    fn hash(&self, id: u32) -> Hash {
        self.hash(id)
    }

    #[inline]
    fn prefix(&self, id: u32) -> u64 {
        self.prefix(id)
    }

    #[inline]
    fn next(&self, id: u32) -> &Hash {
        self.next(id)
    }

    #[inline]
    fn written(&self, id: u32) -> Written {
        self.written(id)
    }

    #[inline]
    fn is_same(&self, a: u32, b: u32) -> bool {
        a == b
    }

    fn owners(&self, sns: &[u64]) -> Option<Vec<u32>> {
        sns.iter().map(|sn| self.owner(*sn)).collect()
    }

    fn predecessor(&self, hash: &Hash) -> Option<u32> {
        self.predecessor(hash)
    }

    #[inline]
    fn prefetch_predecessors(&self, prefixes: [Option<u64>; 3]) {
        self.prefetch_predecessors(prefixes);
    }

    #[inline]
    fn prefetch(&self, id: u32) {
        self.prefetch(id);
    }
}
