//! A cache of entries by position, bounded in bytes, with second-chance eviction.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::atomic::{AtomicU64, Ordering},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::metrics;

/// Number of shards, each with its lock.
const SHARDS: u64 = 64;

/// Consecutive positions in one shard: an extent's entries are under one lock, or two.
const NEIGHBOURS: u64 = 64;

/// Bytes per entry besides its own: a cell, a place in the table, two counters, and the allocator's rounding.
const OVERHEAD: usize = 80;

/// Height and canonical encoding of an entry.
pub(crate) type Stored = Arc<[u8]>;

/// Entries by position. The entry of a position never changes, so the cache is never stale.
#[derive(Debug)]
pub(crate) struct Cache {
    shards: Box<[Mutex<Shard>]>,
    /// Maximum bytes per shard.
    budget: usize,
    /// Number of rewinds so far. An entry is read without the store's lock, and its position may be another's by the time it is
    /// put here: a rewind is counted before its positions are evicted, and a put compares the count under a shard's lock, so
    /// that it either comes before the eviction, or is refused.
    rewinds: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    /// Cell of each entry.
    cells_of: HashMap<u64, u32, BuildHasherDefault<Spread>>,
    cells: Vec<Cell>,
    free: Vec<u32>,
    /// Next cell to be considered for eviction.
    hand: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Cell {
    sn: u64,
    /// `None` while the cell is free.
    stored: Option<Stored>,
    /// True if the entry was read since the hand last passed.
    was_read: bool,
}

/// Hasher for positions, which an adversary does not choose.
#[derive(Debug, Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

/// Access to the cache that keeps the lock of the last shard.
pub(super) struct Part<'c> {
    cache: &'c Cache,
    locked: Option<(u64, MutexGuard<'c, Shard>)>,
}

impl Cache {
    pub(crate) fn new(bytes: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let zero = || AtomicU64::new(0);
        Self { shards, budget: bytes / SHARDS as usize, rewinds: zero(), hits: zero(), misses: zero() }
    }

    /// Counts a rewind, whose positions are removed next.
    pub(super) fn rewind(&self) {
        self.rewinds.fetch_add(1, Ordering::Release);
    }

    /// Number of rewinds so far.
    pub(super) fn rewinds(&self) -> u64 {
        self.rewinds.load(Ordering::Acquire)
    }

    /// Returns true if the budget holds any entry.
    pub(crate) const fn keeps(&self) -> bool {
        self.budget > OVERHEAD
    }

    /// Creates an access that keeps its lock from one neighbour to the next.
    pub(super) const fn part(&self) -> Part<'_> {
        Part { cache: self, locked: None }
    }

    /// Counts hits and misses.
    pub(super) fn count(&self, hits: usize, misses: usize) {
        self.hits.fetch_add(hits as u64, Ordering::Relaxed);
        self.misses.fetch_add(misses as u64, Ordering::Relaxed);
        metrics::cache_reads(hits, misses);
    }

    /// Hits and misses so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    pub(crate) fn memory(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).bytes).sum()
    }
}

impl Part<'_> {
    #[inline]
    fn shard(&mut self, sn: u64) -> &mut Shard {
        let at = sn / NEIGHBOURS % SHARDS;
        let locked = self.locked.take().filter(|(locked, _)| *locked == at);
        let lock = || (at, self.cache.shards[at as usize].lock().unwrap_or_else(PoisonError::into_inner));
        &mut self.locked.insert(locked.unwrap_or_else(lock)).1
    }

    #[inline]
    pub(super) fn get(&mut self, sn: u64) -> Option<Stored> {
        if !self.cache.keeps() {
            return None;
        }
        let shard = self.shard(sn);
        let cell = &mut shard.cells[*shard.cells_of.get(&sn)? as usize];
        cell.was_read = true;
        cell.stored.clone()
    }

    /// Returns true if the entry is cached. It counts as read: it is about to be.
    pub(super) fn has(&mut self, sn: u64) -> bool {
        let shard = self.shard(sn);
        let cell = shard.cells_of.get(&sn).map(|at| &mut shard.cells[*at as usize]);
        cell.is_some_and(|cell| {
            cell.was_read = true;
            true
        })
    }

    /// Caches an entry that was found after this many rewinds, and evicts entries that were not read lately.
    pub(super) fn put(&mut self, sn: u64, stored: &Stored, rewinds: u64) {
        let cache = self.cache;
        let (cost, budget) = (stored.len() + OVERHEAD, cache.budget);
        let shard = self.shard(sn);
        // The cached entry is the same.
        if cost > budget || cache.rewinds() != rewinds || shard.cells_of.contains_key(&sn) {
            return;
        }
        while shard.bytes + cost > budget {
            shard.evict();
        }
        let cell = Cell { sn, stored: Some(Arc::clone(stored)), was_read: false };
        let at = match shard.free.pop() {
            Some(at) => {
                shard.cells[at as usize] = cell;
                at
            }
            None => {
                shard.cells.push(cell);
                shard.cells.len() as u32 - 1
            }
        };
        shard.cells_of.insert(sn, at);
        shard.bytes += cost;
    }

    /// Evicts an entry that is not needed any more.
    pub(super) fn remove(&mut self, sn: u64) {
        if self.cache.keeps() {
            let shard = self.shard(sn);
            if let Some(at) = shard.cells_of.get(&sn) {
                shard.clear(*at);
            }
        }
    }
}

impl Shard {
    /// Evicts the next entry that was not read since the hand last passed. The shard is not empty.
    fn evict(&mut self) {
        loop {
            let at = self.hand % self.cells.len().max(1);
            self.hand = at + 1;
            match self.cells.get_mut(at) {
                Some(Cell { was_read: was_read @ true, stored: Some(_), .. }) => *was_read = false,
                Some(Cell { stored: Some(_), .. }) => return self.clear(at as u32),
                _ => {}
            }
        }
    }

    fn clear(&mut self, at: u32) {
        let cell = &mut self.cells[at as usize];
        if let Some(stored) = cell.stored.take() {
            self.cells_of.remove(&cell.sn);
            self.bytes -= stored.len() + OVERHEAD;
            self.free.push(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    #[test]
    fn recently_read_entries_stay_within_the_budget() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let stored = |sn: u64| Stored::from(vec![sn as u8; sn as usize % 300]);
        for budget in [0, 64 * 97, 1 << 16, 1 << 20] {
            let cache = Cache::new(budget);
            let mut part = cache.part();
            let mut hits = 0;
            for step in 0..40_000u64 {
                let sn = if step % 2 == 0 { rng.random_range(0..50) } else { rng.random_range(0..20_000) };
                // Every shard gets its share.
                let sn = sn * NEIGHBOURS;
                match part.get(sn) {
                    Some(found) => {
                        assert_eq!(found, stored(sn));
                        hits += usize::from(sn < 50 * NEIGHBOURS);
                    }
                    None => part.put(sn, &stored(sn), 0),
                }
                if step % 50 == 0 {
                    part.remove(sn);
                    assert_eq!(part.get(sn), None);
                }
            }
            drop(part);
            for shard in &cache.shards {
                let shard = shard.lock().expect("no panic");
                let stored = shard.cells.iter().filter_map(|cell| Some((cell.sn, cell.stored.as_ref()?)));
                let bytes: usize = stored.clone().map(|(_, stored)| stored.len() + OVERHEAD).sum();
                assert_eq!(stored.clone().count() + shard.free.len(), shard.cells.len());
                assert!(stored.clone().all(|(sn, _)| shard.cells[shard.cells_of[&sn] as usize].sn == sn));
                assert_eq!(stored.count(), shard.cells_of.len());
                assert!(bytes == shard.bytes && bytes <= budget / SHARDS as usize, "{bytes} of {budget}");
            }
            assert_eq!(hits > 15_000, budget >= 1 << 16, "{hits} hits with {budget}");
        }
    }
    /// Threads put entries that they found before a rewind while positions are rewound and given to others. The value of an
    /// entry is the rewind after which it was found.
    #[test]
    fn no_entry_of_before_a_rewind_stays() {
        const ROUNDS: u64 = 3000;
        let cache = Cache::new(1 << 20);
        let stored = |rewinds: u64| Stored::from(rewinds.to_be_bytes().as_slice());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while cache.rewinds() < ROUNDS {
                        let rewinds = cache.rewinds();
                        let found = stored(rewinds);
                        if rewinds.is_multiple_of(2) {
                            std::thread::yield_now();
                        }
                        for sn in [3, 3 + NEIGHBOURS] {
                            cache.part().put(sn, &found, rewinds);
                        }
                    }
                });
            }
            for round in 1..=ROUNDS {
                cache.rewind();
                [3, 3 + NEIGHBOURS].iter().for_each(|sn| cache.part().remove(*sn));
                for sn in [3, 3 + NEIGHBOURS] {
                    let found = cache.part().get(sn);
                    assert!(found.is_none_or(|found| found == stored(round)), "round {round}");
                }
            }
        });
    }
}
