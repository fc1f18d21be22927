//! Predictions of a batch of transactions: access sets, digests and preimages, with the source of each prediction.

use crate::{
    key::StateKey,
    preimage::{Preimage, Preimages},
};
use phalanx_access::{Access, AccessSets, Key as _, Salt};
use phalanx_memory::prefetch;

/// Maximum number of accesses that are searched linearly for keys that come twice; more are sorted.
const MAX_SCANNED: usize = 24;

/// Maximum number of a set's slots whose preimages are kept: an execution searches all of them for each hash.
const MAX_PREIMAGES: usize = 16;

/// Layer that a prediction came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// L0: a value transfer to an account without code.
    Native,
    /// L1: the EIP-2930 access list, and the accesses of every call.
    Declared,
    /// L2: a known ERC20 call on a known storage layout.
    Erc20,
    /// L3: formulas learned from earlier calls of the same code.
    Template,
    /// L4: a dry run on the snapshot.
    Simulated,
    /// No layer predicts the transaction: only sender and callee are named. It usually escapes once, and is then predicted on
    /// the newer state.
    Unknown,
}

/// Predictions of a batch of transactions, in flat arenas.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    sets: AccessSets<StateKey>,
    /// Parallel to the entries of `sets`.
    digests: Vec<(u64, Access)>,
    /// Preimages of slots, by index in the transaction's set.
    preimages: Preimages<u32>,
    sources: Vec<Source>,
}

impl Batch {
    /// Creates an empty batch.
    pub const fn new() -> Self {
        Self { sets: AccessSets::new(), digests: Vec::new(), preimages: Preimages::new(), sources: Vec::new() }
    }

    /// Predicted access sets.
    pub const fn sets(&self) -> &AccessSets<StateKey> {
        &self.sets
    }

    /// Returns the salted digests of transaction `index` with their accesses, in the order of its set, for the framer.
    ///
    /// # Panics
    /// If there is no such transaction.
    #[inline]
    pub fn digests(&self, index: usize) -> &[(u64, Access)] {
        &self.digests[self.sets.range(index)]
    }

    /// Returns the preimages of slots of transaction `index`, by index in its set, as [`Preimages`] has them. They are right even
    /// if the prediction is wrong: the slots were hashed from them.
    #[inline]
    pub fn preimages(&self, index: usize) -> &[(u32, Preimage)] {
        self.preimages.get(index)
    }

    /// Prefetches the prediction of transaction `index`.
    ///
    /// # Panics
    /// If there is no such transaction.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        self.sets.get(index).iter().for_each(prefetch);
        self.digests(index).first().into_iter().for_each(prefetch);
        self.preimages.get(index).iter().for_each(prefetch);
    }

    /// Source of the prediction of transaction `index`.
    ///
    /// # Panics
    /// If there is no such transaction.
    pub fn source(&self, index: usize) -> Source {
        self.sources[index]
    }

    /// Number of transactions.
    pub const fn len(&self) -> usize {
        self.sources.len()
    }

    /// Returns true if there is no transaction.
    pub const fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Removes all transactions and keeps the memory.
    pub fn clear(&mut self) {
        self.sets.clear();
        self.digests.clear();
        self.preimages.clear();
        self.sources.clear();
    }

    /// Appends a set, in which no key appears twice.
    pub fn push(&mut self, set: impl IntoIterator<Item = (StateKey, Access)>, source: Source, salt: &Salt) {
        for (key, access) in set {
            self.add_new(key, access);
        }
        self.close(source, salt);
    }

    /// Adds an access to the open set, joined with the access that the set holds of this key, and returns its index. Inlined, so
    /// that a new key is not read back before its stores are complete.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: StateKey, access: Access) -> usize {
        let set = self.sets.open_set();
        let new = set.len();
        match set.iter_mut().enumerate().find(|(_, (held, _))| *held == key) {
            Some((place, (_, held))) => {
                *held = held.join(access);
                place
            }
            None => {
                self.sets.add(key, access);
                new
            }
        }
    }

    /// Adds a slot, which is the hash of `preimage`. Its second half is the hash of `inner`, if there is one.
    #[inline]
    pub(crate) fn add_slot(&mut self, key: StateKey, access: Access, preimage: &Preimage, inner: Option<&Preimage>) {
        let new = self.sets.open_set().len();
        let place = self.add(key, access);
        if place == new {
            self.hash_of(place, preimage, inner);
        }
    }

    /// Adds the preimage of the slot at an index, which has none yet.
    #[inline]
    fn hash_of(&mut self, place: usize, preimage: &Preimage, inner: Option<&Preimage>) {
        self.preimages.add(place as u32, *preimage, inner);
    }

    /// Adds an access to a key that the open set does not hold.
    #[inline]
    pub(crate) fn add_new(&mut self, key: StateKey, access: Access) {
        self.sets.add(key, access);
    }

    /// Adds accesses, in which a key may come more than once, to the open set, which is empty. Reorders them. `hashed` gives
    /// indices of slots, in order, with their preimages and the inner preimages of these.
    pub(crate) fn add_all<'p>(
        &mut self,
        accesses: &mut [(StateKey, Access)],
        hashed: impl Iterator<Item = (usize, &'p Preimage, Option<&'p Preimage>)>,
    ) {
        let mut hashed = hashed.take(MAX_PREIMAGES).peekable();
        if accesses.len() <= MAX_SCANNED {
            for (entry, (key, access)) in accesses.iter().enumerate() {
                let new = self.sets.open_set().len();
                let place = self.add(*key, *access);
                if let Some((_, preimage, inner)) = hashed.next_if(|(of, ..)| *of == entry)
                    && place == new
                {
                    self.hash_of(place, preimage, inner);
                }
            }
            return;
        }
        let mut of_keys: Vec<_> = hashed.map(|(entry, preimage, inner)| (accesses[entry].0, preimage, inner)).collect();
        of_keys.sort_by_key(|(key, ..)| *key);
        of_keys.dedup_by_key(|(key, ..)| *key);
        accesses.sort_unstable_by_key(|(key, _)| *key);
        for same in accesses.chunk_by(|(a, _), (b, _)| a == b) {
            let access = same.iter().fold(same[0].1, |joined, (_, access)| joined.join(*access));
            self.add_new(same[0].0, access);
        }
        for (key, preimage, inner) in of_keys {
            if let Ok(place) = self.sets.open_set().binary_search_by_key(&key, |(held, _)| *held) {
                self.hash_of(place, preimage, inner);
            }
        }
    }

    #[inline]
    pub(crate) fn close(&mut self, source: Source, salt: &Salt) {
        self.digests.extend(self.sets.open_set().iter().map(|(key, access)| (key.digest(salt), *access)));
        self.sets.close();
        self.preimages.close();
        self.sources.push(source);
    }

    /// Appends transaction `index` of `other`.
    pub(crate) fn append(&mut self, other: &Self, index: usize) {
        self.sets.push(other.sets.get(index).iter().copied());
        self.digests.extend_from_slice(other.digests(index));
        other.preimages(index).iter().for_each(|(place, preimage)| self.preimages.copy(*place, preimage));
        self.preimages.close();
        self.sources.push(other.sources[index]);
    }
}
