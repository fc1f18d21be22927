use phalanx_merkle_proof::{Entry, Hash};

use crate::types::{Error, Locator, Lookup, Written};

/// The state that a block is prepared on: keys have ids below 2^31.
pub(crate) trait StateView: Sync {
    /// Number of keys.
    fn len(&self) -> usize;
    /// Looks many keys up, handing each result out in order.
    fn find_many<'k>(&self, lookups: impl ExactSizeIterator<Item = Lookup<'k>> + Clone, found: impl FnMut(Option<u32>));
    /// The id that a locator may name, if that can be said without a look at it. It may be of no key, or of another one:
    /// whoever encodes it asks [`Self::is_current`].
    fn id_of_locator(&self, _locator: Locator) -> Option<u32> {
        None
    }
    /// Whether a locator that [`Self::id_of`] an id is right about it.
    fn is_current(&self, _locator: Locator) -> bool {
        true
    }
    /// Key and value.
    fn entry(&self, id: u32) -> (&[u8], &[u8]);
    /// What the current position of `id` holds.
    fn committed(&self, id: u32) -> Entry<'_>;
    /// The hash that `id` stands at. May have to be computed.
    fn hash(&self, id: u32) -> Hash;
    /// The first bytes of the hash.
    fn prefix(&self, id: u32) -> u64;
    /// The hash of the next key in the ring.
    fn next(&self, id: u32) -> &Hash;
    /// Where and when the value of `id` was written.
    fn written(&self, id: u32) -> Written;
    /// Whether two ids are of one key.
    fn is_same(&self, a: u32, b: u32) -> bool {
        // A key may have several, and has one position.
        self.written(a).sn == self.written(b).sn
    }
    /// Who was written at positions that are not below the floor.
    fn owners(&self, sns: &[u64]) -> Option<Vec<u32>>;
    /// The key, or sentinel, before `hash` in the ring.
    fn before(&self, hash: &Hash) -> Option<u32>;
    /// Says, in order, before which hashes [`Self::before`] will be asked for.
    fn expect(&self, _hashes: impl Iterator<Item = Hash>) {}
    /// Asks the cache for what [`Self::before`] will look at, by the first bytes of three hashes: the one that it will be asked
    /// for after `KEY_ORDER_LOOKAHEAD` others, after twice and after three times as many.
    fn prefetch_predecessors(&self, _prefixes: [Option<u64>; 3]) {}
    /// Asks the cache for all there is of `id`.
    fn prefetch(&self, id: u32);
    /// Whether all that was asked for could be read; what could not seemed to be absent.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// A committed state, below those that are not.
pub(crate) trait BaseState: StateView {
    /// The id of a key.
    fn find(&self, key: &[u8]) -> Option<u32>;
    /// Whether `id` is a sentinel's.
    fn is_sentinel(&self, id: u32) -> bool;
    /// Keys and sentinels in order of their hashes, from `from` on.
    fn in_key_order<'s>(&'s self, from: &'s Hash) -> impl Iterator<Item = u32> + 's;
}
