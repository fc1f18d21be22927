//! The current state in memory: keys, values, where in the log each value was written, and the ring of keys.

use std::collections::VecDeque;

use phalanx_merkle_proof::{Entry, Hash, Params, Sentinels};

use crate::{
    index::{Index, MAX_KEYS},
    keyed::Keyed,
    prefetch::prefetch,
    ring::{Ring, prefix},
};

/// Bytes of key and value together that live in the record; longer ones live on the heap.
const INLINE: usize = 96;

/// Records per chunk. Chunks keep growth free of copies.
const CHUNK: usize = 1 << 14;

/// Owner of a position that is known not to be active.
const NOBODY: u32 = u32::MAX;

/// How many lookups are under way at a time, enough to cover a cache miss with others.
const WAVE: usize = 16;

/// Where a key's record is: a fast name for a key that was looked up.
///
/// It stays good while the key exists, whatever happens to its value. After the key was deleted it is stale, for ever and
/// detectably, even if the key or another one takes the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Locator {
    pub(crate) id: u32,
    generation: u32,
}

impl Locator {
    /// No key's locator: no place is alive in an even generation.
    pub(crate) const NONE: Self = Self { id: 0, generation: 0 };

    /// Where the state is on disk, a key's locator is the position that it had, by its low forty bits, and how often the
    /// chain had been taken back.
    pub(crate) const fn of_position(sn: u64, epoch: u32) -> Self {
        Self { id: sn as u32, generation: epoch << 8 | (sn >> 32) as u32 & 0xff }
    }

    /// The low bits of the position, and how often the chain had been taken back.
    pub(crate) const fn position(self) -> (u64, u32) {
        (((self.generation & 0xff) as u64) << 32 | self.id as u64, self.generation >> 8)
    }
}

/// One of many keys to be looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lookup<'k> {
    Key(&'k [u8]),
    At(Locator),
}

/// Two neighbouring cache lines; reading touches the first one if key and value are short.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
struct Record {
    /// Counts the keys that lived here; odd while one does.
    generation: u32,
    key_len: u8,
    kind: Kind,
    value_len: u16,
    /// Key then value, or the place in `Resident::spill` of both.
    bytes: [u8; INLINE],
    written: Written,
}

const _: () = assert!(size_of::<Record>() == 128);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Inline,
    Spilled,
    Sentinel,
}

/// Where and when a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The position of the current value.
    pub(crate) sn: u64,
    /// The position before it plus one, zero for none.
    previous: u64,
    /// The block that wrote it.
    pub(crate) height: u64,
}

impl Written {
    #[inline]
    pub(crate) fn new(sn: u64, previous: Option<u64>, height: u64) -> Self {
        Self { sn, previous: previous.map_or(0, |sn| sn + 1), height }
    }

    #[inline]
    pub(crate) const fn previous(&self) -> Option<u64> {
        self.previous.checked_sub(1)
    }
}

/// What only a commit touches: one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Links {
    /// The key's hash, computed once per key.
    pub(crate) hash: Hash,
    /// The hash of the next key in the ring.
    pub(crate) next: Hash,
}

/// The state: an [`Index`] and a [`Ring`] over a slab of records. About 240 bytes per key.
pub(crate) struct Resident {
    keyed: Keyed,
    index: Index,
    ring: Ring,
    records: Vec<Box<[Record; CHUNK]>>,
    links: Vec<Box<[Links; CHUNK]>>,
    /// Who was written at each position from `owners_from` on, current or not.
    owners: VecDeque<u32>,
    owners_from: u64,
    sentinels: u32,
    /// Places ever used; the first ones are the sentinels'.
    places: u32,
    free: Vec<u32>,
    spill: Vec<Box<[u8]>>,
    spill_free: Vec<u32>,
}

impl std::fmt::Debug for Resident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resident").field("keys", &self.len()).finish_non_exhaustive()
    }
}

impl Resident {
    /// The state before the first block: sentinels only.
    pub(crate) fn new(salt: u64, params: &Params) -> Self {
        let mut state = Self {
            keyed: Keyed::new(salt),
            index: Index::new(),
            ring: Ring::new(),
            records: Vec::new(),
            links: Vec::new(),
            owners: VecDeque::new(),
            owners_from: 0,
            sentinels: params.sentinels.count() as u32,
            places: 0,
            free: Vec::new(),
            spill: Vec::new(),
            spill_free: Vec::new(),
        };
        for index in 0..params.sentinels.count() {
            let name = params.sentinels.name(index);
            let entry = params.sentinels.entry(index, &name);
            let hash = Sentinels::place(name);
            let id = state.new_place();
            state.record_mut(id).generation += 1;
            state.fill(id, &name, &[]);
            state.record_mut(id).kind = Kind::Sentinel;
            state.record_mut(id).written = Written::new(index, None, 0);
            *state.links_mut(id) = Links { hash, next: entry.next };
            state.link(id);
            state.owners.push_back(id);
        }
        state
    }

    /// Number of keys.
    pub(crate) const fn len(&self) -> usize {
        (self.places - self.sentinels) as usize - self.free.len()
    }

    /// All keys with their values, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (self.sentinels..self.places).filter(|id| self.record(*id).generation % 2 == 1).map(|id| self.entry(id))
    }

    /// What keys are looked up by.
    pub(crate) const fn keyed(&self) -> Keyed {
        self.keyed
    }

    /// Whether `more` further keys fit.
    pub(crate) const fn has_room(&self, more: usize) -> bool {
        self.len() + more <= MAX_KEYS
    }

    #[inline]
    fn record(&self, id: u32) -> &Record {
        &self.records[id as usize / CHUNK][id as usize % CHUNK]
    }

    /// Where and when the value of `id` was written.
    #[inline]
    pub(crate) fn written(&self, id: u32) -> &Written {
        &self.record(id).written
    }

    /// Hash and next hash of `id`.
    #[inline]
    pub(crate) fn links(&self, id: u32) -> &Links {
        &self.links[id as usize / CHUNK][id as usize % CHUNK]
    }

    /// What the current position of `id` holds.
    #[inline]
    pub(crate) fn committed(&self, id: u32) -> Entry<'_> {
        let ((key, value), written) = (self.entry(id), self.written(id));
        let sentinel = self.record(id).kind == Kind::Sentinel;
        Entry { sentinel, key, value, next: self.links(id).next, previous: written.previous(), height: written.height }
    }

    /// Who was written at a position that is not below the floor.
    #[inline]
    pub(crate) fn owner(&self, sn: u64) -> Option<u32> {
        self.owners.get(usize::try_from(sn.checked_sub(self.owners_from)?).ok()?).copied()
    }

    /// Whether `id` is a sentinel's.
    #[inline]
    pub(crate) const fn is_sentinel(&self, id: u32) -> bool {
        id < self.sentinels
    }

    /// The id of a sentinel.
    pub(crate) fn sentinel(&self, name: &[u8]) -> Option<u32> {
        (0..self.sentinels).find(|id| self.entry(*id).0 == name)
    }

    /// The key, or sentinel, before `hash` in the ring.
    pub(crate) fn before(&self, hash: &Hash) -> Option<u32> {
        self.ring.before(hash, |id| &self.links(id).hash)
    }

    /// Keys and sentinels in order of their hashes, from `from` on.
    pub(crate) fn ring_from<'s>(&'s self, from: &'s Hash) -> impl Iterator<Item = u32> + 's {
        self.ring.from(from, |id| &self.links(id).hash)
    }

    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        prefetch(self.record(id));
    }

    /// Like [`Self::prefetch`] for a locator of unknown origin.
    #[inline]
    pub(crate) fn prefetch_located(&self, locator: Locator) {
        if locator.id < self.places {
            self.prefetch(locator.id);
        }
    }

    #[inline]
    pub(crate) fn prefetch_written(&self, id: u32) {
        prefetch(self.written(id));
        prefetch(self.links(id));
    }

    /// Key and value.
    #[inline]
    pub(crate) fn entry(&self, id: u32) -> (&[u8], &[u8]) {
        entry(&self.records, &self.spill, id)
    }

    /// The id behind a locator, unless its key was deleted.
    #[inline]
    pub(crate) fn live(&self, locator: Locator) -> Option<u32> {
        (self.records.get(locator.id as usize / CHUNK)?[locator.id as usize % CHUNK].generation == locator.generation)
            .then_some(locator.id)
    }

    #[inline]
    pub(crate) fn locator(&self, id: u32) -> Locator {
        Locator { id, generation: self.record(id).generation }
    }

    #[inline]
    pub(crate) fn digest(&self, key: &[u8]) -> u64 {
        self.keyed.digest(key)
    }

    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        self.find_digested(key, self.digest(key))
    }

    #[inline]
    pub(crate) fn find_digested(&self, key: &[u8], digest: u64) -> Option<u32> {
        self.index.find(digest, |id| self.entry(id).0 == key)
    }

    /// Looks many keys up with their cache misses overlapped, handing each result out in order. `WRITTEN` says whether the
    /// caller will read [`Self::written`] too.
    #[inline]
    pub(crate) fn find_many<'k, const WRITTEN: bool>(
        &self,
        lookups: impl ExactSizeIterator<Item = Lookup<'k>> + Clone,
        mut found: impl FnMut(Option<u32>),
    ) {
        let mut digests = [0; WAVE];
        let mut rest = lookups;
        while rest.len() > 0 {
            let wave = rest.clone().take(WAVE);
            for (digest, lookup) in digests.iter_mut().zip(wave.clone()) {
                if let Lookup::Key(key) = lookup {
                    *digest = self.digest(key);
                    self.index.prefetch(*digest);
                }
            }
            for (digest, lookup) in digests.iter().zip(wave.clone()) {
                let likely = match lookup {
                    Lookup::Key(_) => self.index.candidate(*digest),
                    Lookup::At(locator) => Some(locator.id).filter(|id| *id < self.places),
                };
                if let Some(id) = likely {
                    self.prefetch(id);
                    if WRITTEN {
                        self.prefetch_written(id);
                    }
                }
            }
            for (digest, lookup) in digests.iter().zip(wave) {
                found(match lookup {
                    Lookup::Key(key) => self.find_digested(key, *digest),
                    Lookup::At(locator) => self.live(locator),
                });
            }
            if rest.nth(WAVE - 1).is_none() {
                break;
            }
        }
    }

    /// Adds a key that is not there, written at the next position.
    ///
    /// # Panics
    /// Past [`MAX_KEYS`]; ask [`Self::has_room`] first.
    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8], links: Links, written: Written) -> u32 {
        let id = self.insert_unlinked(key, value, links, written);
        self.link(id);
        id
    }

    /// Like [`Self::insert`] without a place in the ring, which [`Self::link_all`] gives.
    pub(crate) fn insert_unlinked(&mut self, key: &[u8], value: &[u8], links: Links, written: Written) -> u32 {
        let digest = self.digest(key);
        let id = self.free.pop().unwrap_or_else(|| self.new_place());
        self.record_mut(id).generation += 1;
        self.fill(id, key, value);
        self.record_mut(id).written = written;
        *self.links_mut(id) = links;
        self.index.insert(digest, id);
        self.owners.push_back(id);
        id
    }

    /// Notes that the next position is `id`'s.
    #[inline]
    pub(crate) fn write(&mut self, id: u32, written: Written) {
        self.record_mut(id).written = written;
        self.owners.push_back(id);
    }

    #[inline]
    pub(crate) fn set_next(&mut self, id: u32, next: &Hash) {
        self.links_mut(id).next = *next;
    }

    /// Forgets who was written below `floor`.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        while self.owners_from < floor && self.owners.pop_front().is_some() {
            self.owners_from += 1;
        }
    }

    /// Forgets who was written at `next_sn` and above.
    pub(crate) fn truncate(&mut self, next_sn: u64) {
        self.owners.truncate((next_sn - self.owners_from) as usize);
    }

    /// Goes back to an earlier position of `id`, perhaps below what is known.
    pub(crate) fn write_back(&mut self, id: u32, written: Written) {
        while written.sn < self.owners_from {
            self.owners.push_front(NOBODY);
            self.owners_from -= 1;
        }
        let at = (written.sn - self.owners_from) as usize;
        self.owners[at] = id;
        self.record_mut(id).written = written;
    }

    /// Adds a key that was there before, at its earlier position.
    pub(crate) fn insert_back(&mut self, key: &[u8], value: &[u8], links: Links, written: Written) -> u32 {
        let id = self.insert(key, value, links, written);
        // The position is an old one, not the next.
        self.owners.pop_back();
        self.write_back(id, written);
        id
    }

    /// Notes that the next position is nobody's.
    pub(crate) fn skip(&mut self) {
        self.owners.push_back(NOBODY);
    }

    /// Makes `sn`, to which no position is known, the next position.
    pub(crate) fn begin_at(&mut self, sn: u64) {
        self.owners.clear();
        self.owners_from = sn;
    }

    fn link(&mut self, id: u32) {
        let links = &self.links;
        let hash_of = |id: u32| &links[id as usize / CHUNK][id as usize % CHUNK].hash;
        self.ring.insert(id, hash_of(id), hash_of);
    }

    /// Builds the ring of all keys anew.
    pub(crate) fn link_all(&mut self) {
        let alive = |id: &u32| self.record(*id).generation % 2 == 1;
        let mut ids: Vec<(u64, u32)> =
            (0..self.places).filter(alive).map(|id| (prefix(&self.links(id).hash), id)).collect();
        rayon::slice::ParallelSliceMut::par_sort_unstable_by(ids.as_mut_slice(), |a, b| {
            a.0.cmp(&b.0).then_with(|| self.links(a.1).hash.cmp(&self.links(b.1).hash))
        });
        let ids: Vec<u32> = ids.into_iter().map(|(_, id)| id).collect();
        self.ring = Ring::from_sorted(&ids, |id| &self.links(id).hash);
    }

    /// Gives a key another value.
    #[inline]
    pub(crate) fn replace(&mut self, id: u32, value: &[u8]) {
        let record = self.record_mut(id);
        let key_len = usize::from(record.key_len);
        if record.kind != Kind::Spilled && key_len + value.len() <= INLINE {
            record.value_len = value.len() as u16;
            record.bytes[key_len..key_len + value.len()].copy_from_slice(value);
            return;
        }
        let key = self.entry(id).0.to_vec();
        self.release(id);
        self.fill(id, &key, value);
    }

    /// Forgets a key; its locators are stale from here on.
    pub(crate) fn remove(&mut self, id: u32) {
        let links = &self.links;
        let hash_of = |id: u32| &links[id as usize / CHUNK][id as usize % CHUNK].hash;
        self.ring.remove(id, hash_of(id), hash_of);
        self.remove_unlinked(id);
    }

    /// Like [`Self::remove`] for a key without a place in the ring.
    pub(crate) fn remove_unlinked(&mut self, id: u32) {
        let digest = self.digest(self.entry(id).0);
        let Self { keyed, index, records, spill, .. } = self;
        index.remove(digest, id, |id| keyed.digest(entry(records, spill, id).0));
        self.release(id);
        let record = self.record_mut(id);
        // The place retires before its generation could repeat.
        record.generation += 1;
        if record.generation < u32::MAX - 1 {
            self.free.push(id);
        }
    }

    #[inline]
    fn record_mut(&mut self, id: u32) -> &mut Record {
        &mut self.records[id as usize / CHUNK][id as usize % CHUNK]
    }

    #[inline]
    fn links_mut(&mut self, id: u32) -> &mut Links {
        &mut self.links[id as usize / CHUNK][id as usize % CHUNK]
    }

    fn new_place(&mut self) -> u32 {
        let id = self.places;
        assert!((id as usize) < MAX_KEYS, "the caller asked for room");
        if id as usize == self.records.len() * CHUNK {
            let written = Written::new(0, None, 0);
            let bytes = [0; INLINE];
            let record = Record { generation: 0, key_len: 0, kind: Kind::Inline, value_len: 0, bytes, written };
            self.records.push(chunk(record));
            self.links.push(chunk(Links { hash: [0; 32], next: [0; 32] }));
        }
        self.places += 1;
        if id as usize >= self.index.capacity() {
            let Self { keyed, index, records, spill, sentinels, .. } = self;
            let live =
                (*sentinels..id).filter(|id| records[*id as usize / CHUNK][*id as usize % CHUNK].generation & 1 == 1);
            index.grow(id as usize + 1, live.map(|id| (keyed.digest(entry(records, spill, id).0), id)));
        }
        id
    }

    fn fill(&mut self, id: u32, key: &[u8], value: &[u8]) {
        let spilled = key.len() + value.len() > INLINE;
        let place = spilled.then(|| {
            let both = [key, value].concat().into_boxed_slice();
            match self.spill_free.pop() {
                Some(place) => {
                    self.spill[place as usize] = both;
                    place
                }
                None => {
                    self.spill.push(both);
                    self.spill.len() as u32 - 1
                }
            }
        });
        let record = self.record_mut(id);
        record.key_len = key.len() as u8;
        record.value_len = value.len() as u16;
        record.kind = if spilled { Kind::Spilled } else { Kind::Inline };
        match place {
            Some(place) => record.bytes[..4].copy_from_slice(&place.to_le_bytes()),
            None => {
                let (to_key, rest) = record.bytes.split_at_mut(key.len());
                to_key.copy_from_slice(key);
                rest[..value.len()].copy_from_slice(value);
            }
        }
    }

    fn release(&mut self, id: u32) {
        let record = self.record_mut(id);
        if record.kind == Kind::Spilled {
            record.kind = Kind::Inline;
            let place = record.place();
            self.spill[place as usize] = Box::default();
            self.spill_free.push(place);
        }
    }
}

impl Record {
    const fn place(&self) -> u32 {
        let [a, b, c, d, ..] = self.bytes;
        u32::from_le_bytes([a, b, c, d])
    }
}

#[inline]
fn entry<'a>(records: &'a [Box<[Record; CHUNK]>], spill: &'a [Box<[u8]>], id: u32) -> (&'a [u8], &'a [u8]) {
    let record = &records[id as usize / CHUNK][id as usize % CHUNK];
    let bytes = if record.kind == Kind::Spilled { &*spill[record.place() as usize] } else { &record.bytes[..] };
    let (key, rest) = bytes.split_at(usize::from(record.key_len));
    (key, &rest[..usize::from(record.value_len)])
}

fn chunk<T: Clone>(value: T) -> Box<[T; CHUNK]> {
    vec![value; CHUNK].try_into().unwrap_or_else(|_| unreachable!("the vector has the array's length"))
}

#[cfg(test)]
mod tests;
