//! A paged state as one block or reader uses it: entries that were read stay in its arena, and their ids stay valid.

use super::arena;
use std::{
    collections::HashMap,
    hash::BuildHasherDefault,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use phalanx_memory::PrefetchIterator as _;
use phalanx_merkle_proof::{Entry, Hash, HashFn, Params};

use super::{
    cache::{Spread, Stored},
    fetcher::Wait,
    keys::LOOKAHEAD,
    later::Later,
    page::{Frag, frag},
    state::{Paged, missing},
};
use crate::{
    log::Log,
    parallel::Par,
    state::view::{BaseState, StateView},
    tree::Tree,
    types::{Error, Links, Lookup, Memory, Written, prefix},
};

/// Entries that a session read, by id.
pub(crate) type Arena = arena::Arena<Item>;

/// Entry that was read.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) links: Links,
    pub(crate) written: Written,
    pub(crate) sentinel: bool,
    key_len: u8,
    value_len: u16,
    stored: Stored,
}

/// Hashes whose neighbours one task reads.
const EXPECTED: usize = 1024;

/// Bytes of a stored entry before its key: the height, flags and the key's length.
const HEAD: usize = 10;

impl Item {
    pub(crate) fn new(params: &Params, sn: u64, stored: Stored) -> Option<Self> {
        let hash = decode(&stored)?.key_hash(params.hash);
        Self::with_hash(hash, sn, stored)
    }

    fn with_hash(hash: Hash, sn: u64, stored: Stored) -> Option<Self> {
        let entry = decode(&stored)?;
        let links = Links { hash, next: entry.next };
        let written = Written::new(sn, entry.previous, entry.height);
        let (key_len, value_len, sentinel) = (entry.key.len() as u8, entry.value.len() as u16, entry.sentinel);
        Some(Self { links, written, sentinel, key_len, value_len, stored })
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.stored[HEAD..][..usize::from(self.key_len)]
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        &self.stored[HEAD + usize::from(self.key_len) + 2..][..usize::from(self.value_len)]
    }
}

pub(super) fn decode(stored: &[u8]) -> Option<Entry<'_>> {
    let (height, encoded) = stored.split_first_chunk::<8>()?;
    Entry::decode(encoded, u64::from_be_bytes(*height)).map(|(entry, _)| entry)
}

/// Time at which a session reads what is not in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reads<'p> {
    /// At once, while the caller holds the store's lock.
    Now(Wait),
    /// Later: what is not in memory seems absent, and the caller asks again when it has been read.
    Later(&'p Later),
}

/// Paged state, and the entries read from it. Ids belong to the arena.
#[derive(Debug)]
pub(crate) struct Session<'p> {
    paged: &'p Paged,
    /// Tree of the state: its bits tell whether an entry is current sooner than the index does.
    tree: &'p Tree,
    log: &'p dyn Log,
    hash: HashFn,
    reads: Reads<'p>,
    arena: Arc<Arena>,
    /// Entries read together before their use, by position.
    ahead: OnceLock<HashMap<u64, u32, BuildHasherDefault<Spread>>>,
    /// First error of a read; the entry seemed to be absent.
    failed: Mutex<Option<Error>>,
}

impl Paged {
    /// Begins a session with the entries that `arena` has.
    pub(crate) fn session<'p>(
        &'p self,
        tree: &'p Tree,
        log: &'p dyn Log,
        arena: Arc<Arena>,
        reads: Reads<'p>,
    ) -> Session<'p> {
        let (hash, ahead, failed) = (self.params.hash, OnceLock::new(), Mutex::new(None));
        Session { paged: self, tree, log, hash, reads, arena, ahead, failed }
    }
}

impl Session<'_> {
    /// Entries read so far.
    pub(crate) const fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    #[inline]
    pub(crate) fn item(&self, id: u32) -> &Item {
        self.arena.get(id)
    }

    pub(crate) fn hash_of(&self, key: &[u8]) -> Hash {
        self.hash.key(key)
    }

    /// Records an error.
    fn ok<T>(&self, read: Result<T, Error>) -> Option<T> {
        let note = |error| _ = self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        read.map_err(note).ok()
    }

    fn corrupt(&self, sn: u64) -> Error {
        missing(self.log, sn)
    }

    fn fetch(&self, sn: u64) -> Option<Stored> {
        match self.reads {
            Reads::Now(_) => self.ok(self.paged.fetch(self.log, sn)),
            Reads::Later(later) => later.get(self.paged, sn),
        }
    }

    fn fetch_many(&self, sns: &[u64]) -> Option<Vec<Stored>> {
        match self.reads {
            Reads::Now(wait) => self.ok(self.paged.fetch_many(self.log, sns, wait)),
            Reads::Later(later) => {
                // All of them are noted.
                let found: Vec<Option<Stored>> = sns.iter().map(|sn| later.get(self.paged, *sn)).collect();
                found.into_iter().collect()
            }
        }
    }

    /// Entry of a position that is or was a key's.
    pub(crate) fn at(&self, sn: u64) -> Option<u32> {
        if let Some(id) = self.ahead.get().and_then(|ahead| ahead.get(&sn)) {
            return Some(*id);
        }
        let stored = self.fetch(sn)?;
        let item = Item::new(&self.paged.params, sn, stored).ok_or_else(|| self.corrupt(sn));
        self.ok(item).map(|item| self.arena.push(item))
    }

    fn find_hashed(&self, hash: &Hash, is_it: impl Fn(&Entry<'_>) -> bool) -> Option<u32> {
        for sn in self.paged.keys.find(frag(prefix(hash))) {
            let stored = self.fetch(sn)?;
            if decode(&stored).is_some_and(|entry| is_it(&entry)) {
                return Item::with_hash(*hash, sn, stored).map(|item| self.arena.push(item));
            }
        }
        None
    }

    /// Id of the key of a locator, unless the key is deleted.
    pub(crate) fn live(&self, sn: u64) -> Option<u32> {
        let id = self.at(sn)?;
        let item = self.arena.get(id);
        if item.sentinel {
            return None;
        }
        if self.tree.is_active(sn) { Some(id) } else { self.find(item.key()) }
    }

    /// Reads the entries of many positions.
    fn at_many(&self, sns: &[u64]) -> Option<Vec<u32>> {
        let stored = self.fetch_many(sns)?;
        let items = sns.iter().zip(stored).map(|(sn, stored)| {
            let item = Item::new(&self.paged.params, *sn, stored).ok_or_else(|| self.corrupt(*sn));
            self.ok(item).map(|item| self.arena.push(item))
        });
        items.collect()
    }

    /// Positions that may be before a hash, grouped by fragment, downwards.
    fn below(&self, hash: &Hash) -> impl Iterator<Item = Vec<u64>> {
        Groups { slots: self.paged.keys.down_from(frag(prefix(hash))), next: None }
    }

    /// Ids of keys that share a fragment, in key order.
    fn group(&self, sns: &[u64]) -> Option<Vec<u32>> {
        let mut ids: Vec<u32> = sns.iter().map(|sn| self.at(*sn)).collect::<Option<_>>()?;
        ids.sort_by_key(|id| self.arena.get(*id).links.hash);
        Some(ids)
    }
}

impl BaseState for Session<'_> {
    fn find(&self, key: &[u8]) -> Option<u32> {
        self.find_hashed(&self.hash.key(key), |entry| !entry.sentinel && entry.key == key)
    }

    fn is_sentinel(&self, id: u32) -> bool {
        self.arena.get(id).sentinel
    }

    fn in_key_order<'s>(&'s self, from: &'s Hash) -> impl Iterator<Item = u32> + 's {
        let groups = Groups { slots: self.paged.keys.up_from(frag(prefix(from))), next: None };
        let groups = groups.map_while(|sns| self.group(&sns));
        groups.flatten().skip_while(move |id| self.arena.get(*id).links.hash < *from)
    }
}

/// Groups of positions whose keys share a fragment.
struct Groups<I> {
    slots: I,
    next: Option<(Frag, u64)>,
}

impl<I: Iterator<Item = (Frag, u64)>> Iterator for Groups<I> {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let (frag, sn) = self.next.take().or_else(|| self.slots.next())?;
        let mut group = vec![sn];
        for (other, sn) in self.slots.by_ref() {
            if other != frag {
                self.next = Some((other, sn));
                break;
            }
            group.push(sn);
        }
        Some(group)
    }
}

impl StateView for Session<'_> {
    fn len(&self) -> usize {
        self.paged.len()
    }

    fn max_len(&self) -> usize {
        Memory::Cached { bytes: 0 }.max_keys() as usize
    }

    fn find_many<'k>(
        &self,
        lookups: impl ExactSizeIterator<Item = Lookup<'k>> + Clone,
        mut found: impl FnMut(Option<u32>),
    ) {
        let mut ids: Vec<Option<u32>> = vec![None; lookups.len()];
        // Located keys are at their positions, or were.
        let located = lookups.clone().enumerate().filter_map(|(at, lookup)| match lookup {
            Lookup::At(locator) => self.paged.position(locator).map(|sn| (at, sn)),
            Lookup::Key(_) => None,
        });
        let (places, sns): (Vec<usize>, Vec<u64>) = located.unzip();
        let stored = self.fetch_many(&sns).unwrap_or_default();
        let mut moved = Vec::new();
        for ((at, sn), stored) in places.iter().zip(&sns).zip(stored) {
            let item = Item::new(&self.paged.params, *sn, stored).ok_or_else(|| self.corrupt(*sn));
            let Some(item) = self.ok(item).filter(|item| !item.sentinel) else { continue };
            if self.tree.is_active(*sn) {
                ids[*at] = Some(self.arena.push(item));
            } else {
                moved.push((*at, item));
            }
        }
        // All other keys are found by hash.
        let by_key = lookups.enumerate().filter_map(|(at, lookup)| match lookup {
            Lookup::Key(key) => Some((at, key, self.hash.key(key))),
            Lookup::At(_) => None,
        });
        let by_key: Vec<(usize, &[u8], Hash)> =
            by_key.chain(moved.iter().map(|(at, item)| (*at, item.key(), item.links.hash))).collect();
        let keys = &self.paged.keys;
        let frags = by_key.iter().map(|(_, _, hash)| frag(prefix(hash))).lookahead(LOOKAHEAD);
        let likely = frags.enumerate().flat_map(|(rank, (frag, ahead))| {
            keys.prefetch(ahead);
            keys.find(frag).map(move |sn| (rank, sn))
        });
        let (ranks, sns): (Vec<usize>, Vec<u64>) = likely.unzip();
        let stored = self.fetch_many(&sns).unwrap_or_default();
        for ((rank, sn), stored) in ranks.iter().zip(&sns).zip(stored) {
            let (at, key, hash) = &by_key[*rank];
            if decode(&stored).is_some_and(|entry| !entry.sentinel && entry.key == *key) {
                ids[*at] = Item::with_hash(*hash, *sn, stored).map(|item| self.arena.push(item));
            }
        }
        ids.into_iter().for_each(&mut found);
    }

    #[inline]
    fn entry(&self, id: u32) -> (&[u8], &[u8]) {
        let item = self.arena.get(id);
        (item.key(), item.value())
    }

    fn committed(&self, id: u32) -> Entry<'_> {
        let item = self.arena.get(id);
        let (previous, height, next) = (item.written.previous(), item.written.height, item.links.next);
        Entry { sentinel: item.sentinel, key: item.key(), value: item.value(), next, previous, height }
    }

    fn hash(&self, id: u32) -> Hash {
        self.arena.get(id).links.hash
    }

    fn prefix(&self, id: u32) -> u64 {
        prefix(&self.arena.get(id).links.hash)
    }

    fn next(&self, id: u32) -> &Hash {
        &self.arena.get(id).links.next
    }

    #[inline]
    fn written(&self, id: u32) -> Written {
        self.arena.get(id).written
    }

    fn owners(&self, sns: &[u64]) -> Option<Vec<u32>> {
        self.at_many(sns)
    }

    fn predecessor(&self, hash: &Hash) -> Option<u32> {
        for sns in self.below(hash) {
            let below = self.group(&sns)?.into_iter().rev().find(|id| self.arena.get(*id).links.hash < *hash);
            if below.is_some() {
                return below;
            }
        }
        None
    }

    fn prefetch_predecessor_entries(&self, hashes: impl Iterator<Item = Hash>) {
        let hashes: Vec<Hash> = hashes.collect();
        if hashes.len() < 2 {
            return;
        }
        let read = Par::UNOBSERVED.map_range(hashes.len().div_ceil(EXPECTED), EXPECTED * 2000, |chunk| {
            let mut sns = Vec::with_capacity(EXPECTED);
            let hashes = hashes.iter().skip(chunk * EXPECTED).take(EXPECTED);
            hashes.for_each(|hash| self.paged.likely_before(frag(prefix(hash)), &mut sns));
            let ids = self.at_many(&sns).unwrap_or_default();
            sns.into_iter().zip(ids).collect::<Vec<_>>()
        });
        let _ = self.ahead.set(read.into_iter().flatten().collect());
    }

    #[inline]
    fn prefetch(&self, _: u32) {}

    fn check(&self) -> Result<(), Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}
