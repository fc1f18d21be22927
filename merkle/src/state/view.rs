//! A state as a block is prepared on it: resident, paged, or either with an overlay on top.

use phalanx_merkle_proof::{Entry, Hash};

use crate::types::{Error, Locator, Lookup, Written};

/// State that a block is prepared on. Ids of keys are below 2^31.
pub(crate) trait StateView: Sync {
    /// Number of keys.
    fn len(&self) -> usize;
    /// Maximum number of keys.
    fn max_len(&self) -> usize;
    /// Looks up many keys, and hands out the results in order.
    fn find_many<'k>(&self, lookups: impl ExactSizeIterator<Item = Lookup<'k>> + Clone, found: impl FnMut(Option<u32>));
    /// Id that a locator claims, where that takes no memory access. It may be no key's, or another key's:
    /// [`Self::is_current`] checks it.
    fn id_of_locator(&self, _locator: Locator) -> Option<u32> {
        None
    }
    /// Returns true if a locator with an id by [`Self::id_of_locator`] is right about its key.
    fn is_current(&self, _locator: Locator) -> bool {
        true
    }
    /// Key and value.
    fn entry(&self, id: u32) -> (&[u8], &[u8]);
    /// Entry at the current position of `id`.
    fn committed(&self, id: u32) -> Entry<'_>;
    /// Hash of the key of `id`. May have to be computed.
    fn hash(&self, id: u32) -> Hash;
    /// Prefix of the hash.
    fn prefix(&self, id: u32) -> u64;
    /// Hash of the next key in key order.
    fn next(&self, id: u32) -> &Hash;
    /// Position and height of the value of `id`.
    fn written(&self, id: u32) -> Written;
    /// Returns true if two ids are of one key.
    fn is_same(&self, a: u32, b: u32) -> bool {
        // A key may have several ids; its position is unique.
        self.written(a).sn == self.written(b).sn
    }
    /// Owners of positions that are not below the floor.
    fn owners(&self, sns: &[u64]) -> Option<Vec<u32>>;
    /// Key, or sentinel, before `hash` in key order.
    fn predecessor(&self, hash: &Hash) -> Option<u32>;
    /// Announces, in order, the hashes that [`Self::predecessor`] will get, so that a paged state can read their
    /// entries together.
    fn prefetch_predecessor_entries(&self, _hashes: impl Iterator<Item = Hash>) {}
    /// Prefetches for three later calls of [`Self::predecessor`], by prefix: one, two and three times
    /// `KEY_ORDER_LOOKAHEAD` calls ahead.
    fn prefetch_predecessors(&self, _prefixes: [Option<u64>; 3]) {}
    /// Prefetches all of `id`.
    fn prefetch(&self, id: u32);
    /// Returns the first error of a read; what could not be read seemed to be absent.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Committed state that overlays lie on.
pub(crate) trait BaseState: StateView {
    /// Id of a key.
    fn find(&self, key: &[u8]) -> Option<u32>;
    /// Returns true if `id` is a sentinel's.
    fn is_sentinel(&self, id: u32) -> bool;
    /// Keys and sentinels in key order, from `from` on.
    fn in_key_order<'s>(&'s self, from: &'s Hash) -> impl Iterator<Item = u32> + 's;
}
