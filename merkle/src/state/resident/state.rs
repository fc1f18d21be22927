//! The resident state: finds, inserts, changes and removes keys over records, index, key order and owners.

use std::{
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
};

use phalanx_memory::PrefetchIterator as _;
use phalanx_merkle_proof::{Entry, Hash, Params};

use super::{
    index::{Index, MAX_KEYS},
    key_order::{KeyOrder, PIECES},
    owners::Owners,
    slab::{Part, RecordSlab},
};
use crate::{
    parallel::{Par, WORTH, fork_join},
    state::digester::KeyDigester,
    types::{Links, Locator, Lookup, MemoryUse, Written, prefix, same},
};

/// Lookups in flight at the index, and at the records: enough to cover a cache miss.
const IN_FLIGHT: usize = 16;

/// Cost of indexing and linking a key, in nanoseconds. Tests share few keys.
const INSERT_NANOS: usize = if cfg!(test) { WORTH / 64 } else { 500 };

/// Resident state: an [`Index`] and a [`KeyOrder`] over a slab of records, about 160 bytes per key.
pub(crate) struct Resident {
    pub(super) digester: KeyDigester,
    pub(super) index: Index,
    key_order: KeyOrder,
    pub(super) slab: RecordSlab,
    pub(super) owners: Owners,
    pub(super) sentinels: u32,
    /// Number of places ever used; the first ones are the sentinels'.
    pub(super) places: u32,
    pub(super) free: Vec<u32>,
}

impl std::fmt::Debug for Resident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resident").field("keys", &self.len()).finish_non_exhaustive()
    }
}

impl Resident {
    /// Creates the state before the first block: sentinels only.
    pub(crate) fn new(salt: u64, params: &Params) -> Self {
        let mut state = Self {
            digester: KeyDigester::new(salt),
            index: Index::new(),
            key_order: KeyOrder::new(),
            slab: RecordSlab::new(params.hash),
            owners: Owners::default(),
            sentinels: params.sentinels.count() as u32,
            places: 0,
            free: Vec::new(),
        };
        for index in 0..params.sentinels.count() {
            let name = params.sentinels.name(index);
            let entry = params.sentinels.entry(index, &name);
            let id = state.new_place();
            state.slab.fill_sentinel(id, name);
            let record = state.slab.record_mut(id);
            record.generation += 1;
            (record.written, record.next) = (Written::new(index, None, 0).into(), entry.next);
            let slab = &state.slab;
            state.key_order.insert(id, &slab.hash(id), |id| slab.hash(id));
            state.owners.push(Some(id));
        }
        state
    }

    /// Number of keys.
    pub(crate) const fn len(&self) -> usize {
        (self.places - self.sentinels) as usize - self.free.len()
    }

    /// All keys with their values, in an arbitrary order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (self.sentinels..self.places).filter(|id| self.slab.record(*id).is_alive()).map(|id| self.entry(id))
    }

    /// Hash function of the index.
    pub(crate) const fn digester(&self) -> KeyDigester {
        self.digester
    }

    /// Returns true if `more` further keys fit.
    pub(crate) const fn has_room(&self, more: usize) -> bool {
        self.len() + more <= MAX_KEYS
    }

    /// Position and height of the value of `id`.
    #[inline]
    pub(crate) fn written(&self, id: u32) -> Written {
        self.slab.record(id).written.into()
    }

    /// Hash of the key of `id`. Computed.
    pub(crate) fn hash(&self, id: u32) -> Hash {
        self.slab.hash(id)
    }

    /// Prefix of [`Self::hash`]. Not computed.
    #[inline]
    pub(crate) fn prefix(&self, id: u32) -> u64 {
        self.slab.record(id).prefix
    }

    /// Hash of the next key in key order.
    #[inline]
    pub(crate) fn next(&self, id: u32) -> &Hash {
        &self.slab.record(id).next
    }

    /// Entry at the current position of `id`.
    #[inline]
    pub(crate) fn committed(&self, id: u32) -> Entry<'_> {
        let ((key, value), written) = (self.entry(id), self.written(id));
        let sentinel = self.slab.is_sentinel(id);
        Entry { sentinel, key, value, next: *self.next(id), previous: written.previous(), height: written.height }
    }

    /// Owner of a position that is not below the floor.
    #[inline]
    pub(crate) fn owner(&self, sn: u64) -> Option<u32> {
        self.owners.get(sn)
    }

    /// Returns true if `id` is a sentinel's.
    #[inline]
    pub(crate) const fn is_sentinel(&self, id: u32) -> bool {
        id < self.sentinels
    }

    /// Id of a sentinel.
    pub(crate) fn sentinel(&self, name: &[u8]) -> Option<u32> {
        (0..self.sentinels).find(|id| self.entry(*id).0 == name)
    }

    /// Key, or sentinel, before `hash` in key order.
    pub(crate) fn predecessor(&self, hash: &Hash) -> Option<u32> {
        self.key_order.before(hash, |id| self.hash(id))
    }

    /// Prefetches for later calls of [`Self::predecessor`], and the record of the likely result; see
    /// [`KeyOrder::prefetch_predecessors`].
    #[inline]
    pub(crate) fn prefetch_predecessors(&self, prefixes: [Option<u64>; 3]) {
        if let Some(id) = self.key_order.prefetch_predecessors(prefixes) {
            self.prefetch(id);
        }
    }

    /// Keys and sentinels in key order, from `from` on.
    pub(crate) fn in_key_order<'s>(&'s self, from: &'s Hash) -> impl Iterator<Item = u32> + 's {
        self.key_order.from(from, |id| self.hash(id))
    }

    /// Prefetches all of `id`.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        self.slab.prefetch(id);
    }

    /// Prefetches the value of a locator, which may be of any store.
    #[inline]
    pub(crate) fn prefetch_located(&self, locator: Locator) {
        if locator.id < self.places {
            self.slab.prefetch_entry(locator.id, 0);
        }
    }

    /// Key and value.
    #[inline]
    pub(crate) fn entry(&self, id: u32) -> (&[u8], &[u8]) {
        self.slab.entry(id)
    }

    /// Id of a locator, unless its key was deleted. Another store's locator may name a key here, but no sentinel.
    #[inline]
    pub(crate) fn live(&self, locator: Locator) -> Option<u32> {
        let record = self.slab.get(locator.id)?;
        let same = record.generation == locator.generation.get() && record.is_alive();
        (same && !self.is_sentinel(locator.id)).then_some(locator.id)
    }

    #[inline]
    pub(crate) fn locator(&self, id: u32) -> Locator {
        let record = self.slab.record(id);
        // The generation is odd while there is a key.
        Locator { generation: NonZeroU32::MIN | record.generation, id, word: record.prefix }
    }

    /// Id of a locator, without reading the record.
    #[inline]
    pub(crate) fn id_of_locator(&self, locator: Locator) -> Option<u32> {
        (locator.id < self.places && !self.is_sentinel(locator.id)).then_some(locator.id)
    }

    /// Returns true if a locator is right about its key.
    #[inline]
    pub(crate) fn is_current(&self, locator: Locator) -> bool {
        self.live(locator).is_some_and(|id| self.prefix(id) == locator.prefix())
    }

    #[inline]
    pub(crate) fn digest(&self, key: &[u8]) -> u64 {
        self.digester.digest(key)
    }

    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        self.find_digested(key, self.digest(key))
    }

    #[inline]
    pub(crate) fn find_digested(&self, key: &[u8], digest: u64) -> Option<u32> {
        self.index.find(digest, |id| same(self.slab.key(id), key))
    }

    /// Looks up many keys with overlapping cache misses, and hands out the results in order.
    #[inline]
    pub(crate) fn find_many<'k>(
        &self,
        lookups: impl ExactSizeIterator<Item = Lookup<'k>> + Clone,
        found: impl FnMut(Option<u32>),
    ) {
        let is_long = |lookup| matches!(lookup, Lookup::Key(key) if RecordSlab::may_be_outside(key.len()));
        // A fourth step would cost every lookup.
        if lookups.clone().any(is_long) {
            self.find_in_steps::<true>(lookups, found);
        } else {
            self.find_in_steps::<false>(lookups, found);
        }
    }

    /// [`Self::find_many`] in three steps: the index, the record, the key. With `LONG` the value outside the record is
    /// a fourth.
    #[inline]
    fn find_in_steps<'k, const LONG: bool>(
        &self,
        lookups: impl ExactSizeIterator<Item = Lookup<'k>> + Clone,
        mut found: impl FnMut(Option<u32>),
    ) {
        const DIGESTS: usize = 2 * IN_FLIGHT;
        // Digests of the lookups in flight, by number.
        let mut digests = [0; DIGESTS];
        // Likely ids of the next lookups whose values may be outside their records.
        let mut long = [None; IN_FLIGHT];
        let begin = |digest: &mut u64, lookup: Lookup<'_>| {
            if let Lookup::Key(key) = lookup {
                *digest = self.digest(key);
                self.index.prefetch(*digest);
            }
        };
        let follow = |digest: u64, lookup: Lookup<'_>, long: &mut Option<u32>| match lookup {
            Lookup::Key(key) => {
                let id = self.index.candidate(digest);
                if let Some(id) = id {
                    self.slab.prefetch_entry(id, key.len());
                }
                if LONG {
                    *long = id.filter(|_| RecordSlab::may_be_outside(key.len()));
                }
            }
            Lookup::At(locator) => self.prefetch_located(locator),
        };
        let (mut new, mut followed) = (lookups.clone(), lookups.clone());
        digests.iter_mut().zip(new.by_ref()).for_each(|(digest, lookup)| begin(digest, lookup));
        let firsts = digests.iter().zip(&mut long).zip(followed.by_ref().take(IN_FLIGHT));
        firsts.for_each(|((digest, long), lookup)| follow(*digest, lookup, long));
        for (at, lookup) in lookups.enumerate() {
            if LONG && let Some(id) = long[(at + IN_FLIGHT / 2) % IN_FLIGHT].take() {
                self.slab.prefetch_outside(id);
            }
            if let Some(lookup) = followed.next() {
                follow(digests[(at + IN_FLIGHT) % DIGESTS], lookup, &mut long[at % IN_FLIGHT]);
            }
            let digest = &mut digests[at % DIGESTS];
            found(match lookup {
                Lookup::Key(key) => self.find_digested(key, *digest),
                Lookup::At(locator) => self.live(locator),
            });
            if let Some(lookup) = new.next() {
                begin(digest, lookup);
            }
        }
    }

    /// Inserts keys that the state does not have, given in key order, and returns their ids. [`Self::own`] sets the
    /// owners of their positions.
    ///
    /// # Panics
    /// Past [`MAX_KEYS`]; ask [`Self::has_room`] first.
    pub(crate) fn insert_all<'k>(
        &mut self,
        new: impl ExactSizeIterator<Item = (&'k [u8], &'k [u8], Links, Written)>,
        par: Par<'_>,
    ) -> Vec<u32> {
        // First, because the index grows by the keys that are in it.
        self.make_room(new.len());
        let (mut digests, mut keys) = (Vec::with_capacity(new.len()), Vec::with_capacity(new.len()));
        for (key, value, links, written) in new {
            let id = self.fill(key, value, &links, written);
            digests.push(self.digest(key));
            keys.push((links.hash, id));
        }
        let Self { index, key_order, slab, .. } = self;
        let indexing = || {
            for ((digest, [ahead]), (_, id)) in digests.iter().lookahead([IN_FLIGHT]).zip(&keys) {
                ahead.into_iter().for_each(|digest| index.prefetch(*digest));
                index.insert(*digest, *id);
            }
        };
        let nanos = keys.len() * INSERT_NANOS;
        par.observe_as_shared(1 + PIECES, nanos, || {
            // The index is filled by one thread, and takes longest.
            let (indexing, pieces) = (Mutex::new(Some(indexing)), Mutex::new(key_order.pieces(&keys)));
            let work = || {
                let indexing = indexing.lock().unwrap_or_else(PoisonError::into_inner).take();
                indexing.into_iter().for_each(|mut indexing| indexing());
                let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
                core::iter::from_fn(next).for_each(|piece| piece.insert(|id| slab.hash(id)));
            };
            match rayon::current_num_threads().min(1 + nanos / WORTH) {
                1 => work(),
                threads => fork_join(threads - 1, &work),
            }
        });
        keys.into_iter().map(|(_, id)| id).collect()
    }

    /// Inserts a key that the state does not have, written at the next position, without a place in key order;
    /// [`Self::link_all`] gives it one.
    pub(crate) fn insert_unlinked(&mut self, key: &[u8], value: &[u8], links: Links, written: Written) -> u32 {
        let id = self.place(key, value, &links, written);
        self.owners.push(Some(id));
        id
    }

    fn place_linked(&mut self, key: &[u8], value: &[u8], links: Links, written: Written) -> u32 {
        let id = self.place(key, value, &links, written);
        let slab = &self.slab;
        self.key_order.insert(id, &links.hash, |id| slab.hash(id));
        id
    }

    fn place(&mut self, key: &[u8], value: &[u8], links: &Links, written: Written) -> u32 {
        self.make_room(1);
        let id = self.fill(key, value, links, written);
        self.index.insert(self.digest(key), id);
        id
    }

    /// Creates the record of a key; the index has room for it.
    fn fill(&mut self, key: &[u8], value: &[u8], links: &Links, written: Written) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| self.new_place());
        self.slab.fill(id, key, value);
        let record = self.slab.record_mut(id);
        record.generation += 1;
        (record.written, record.prefix, record.next) = (written.into(), prefix(&links.hash), links.next);
        id
    }

    /// Makes `id` the owner of the next position.
    #[inline]
    pub(crate) fn write(&mut self, id: u32, written: Written) {
        self.slab.record_mut(id).written = written.into();
        self.owners.push(Some(id));
    }

    /// Passes over the next position, which is not active.
    pub(crate) fn pass(&mut self) {
        self.owners.push(None);
    }

    #[inline]
    pub(crate) fn set_next(&mut self, id: u32, next: &Hash) {
        self.slab.record_mut(id).next = *next;
    }

    /// Sets the owners of the next positions, whose records are written already.
    pub(crate) fn own(&mut self, ids: &[u32]) {
        self.owners.extend(ids);
    }

    /// Number of records: all ids are below it.
    pub(crate) const fn places(&self) -> usize {
        self.places as usize
    }

    /// Divides all records into parts of `each`, for several threads to write.
    pub(crate) fn parts(&mut self, each: usize) -> Vec<Part<'_>> {
        self.slab.parts(self.places as usize, each)
    }

    /// Forgets the owners below `floor`.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        self.owners.raise(floor);
    }

    /// Forgets the owners from `next_sn` on.
    pub(crate) fn truncate(&mut self, next_sn: u64) {
        self.owners.truncate(next_sn);
    }

    /// Rolls `id` back to an earlier position, perhaps below the known ones.
    pub(crate) fn write_back(&mut self, id: u32, written: Written) {
        self.owners.set(written.sn, id);
        self.slab.record_mut(id).written = written.into();
    }

    /// Inserts a deleted key again, at its earlier position.
    pub(crate) fn insert_back(&mut self, key: &[u8], value: &[u8], links: Links, written: Written) -> u32 {
        let id = self.place_linked(key, value, links, written);
        self.owners.set(written.sn, id);
        id
    }

    /// Makes `sn` the next position; no position may be known.
    pub(crate) fn begin_at(&mut self, sn: u64) {
        self.owners.begin_at(sn);
    }

    /// Builds the order of all keys anew. Returns false if a key is there twice.
    #[must_use]
    pub(crate) fn link_all(&mut self) -> bool {
        let alive = (0..self.places).filter(|id| self.slab.record(*id).is_alive());
        let key_order = KeyOrder::build(alive.map(|id| (self.prefix(id), id)), self.places(), |id| self.hash(id));
        key_order.is_some_and(|key_order| {
            self.key_order = key_order;
            true
        })
    }

    /// Replaces a value.
    #[inline]
    pub(crate) fn replace(&mut self, id: u32, value: &[u8]) {
        self.slab.replace(id, value);
    }

    /// Removes a key; its locators are stale from here on.
    pub(crate) fn remove(&mut self, id: u32) {
        let slab = &self.slab;
        self.key_order.remove(id, &slab.hash(id), |id| slab.hash(id));
        self.remove_unlinked(id);
    }

    /// Removes a key without a place in key order.
    pub(crate) fn remove_unlinked(&mut self, id: u32) {
        let digest = self.digest(self.slab.key(id));
        let Self { digester, index, slab, .. } = self;
        index.remove(digest, id, |id| digester.digest(slab.key(id)));
        slab.release(id);
        let record = slab.record_mut(id);
        // The place is retired before its generation could repeat.
        record.generation += 1;
        if record.generation < u32::MAX - 1 {
            self.free.push(id);
        }
    }

    fn new_place(&mut self) -> u32 {
        self.places += 1;
        self.slab.reserve(self.places as usize);
        self.places - 1
    }

    /// Grows the index until `more` further keys fit.
    pub(crate) fn make_room(&mut self, more: usize) {
        let places = self.places as usize + more.saturating_sub(self.free.len());
        assert!(places <= MAX_KEYS, "the caller asked for room");
        if places > self.index.capacity() {
            let Self { digester, index, slab, sentinels, places: held, .. } = self;
            let live = (*sentinels..*held).filter(|id| slab.record(*id).is_alive());
            index.grow(places, live.map(|id| (digester.digest(slab.key(id)), id)));
        }
    }

    /// Adds the memory of the state.
    pub(crate) fn memory(&self, to: &mut MemoryUse) {
        (to.records, to.spilled) = self.slab.memory();
        to.index = self.index.memory();
        to.key_order = self.key_order.memory();
        to.owners = self.owners.memory() + self.free.capacity() * size_of::<u32>();
    }
}
