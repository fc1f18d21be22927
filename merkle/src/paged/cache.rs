//! Entries that were read or written lately, up to a number of bytes.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Parts with a lock each.
const SHARDS: usize = 64;

/// What an entry takes besides its bytes: two counters and a pointer, a place in the table and one in the queue.
const OVERHEAD: usize = 96;

/// An entry's height and canonical encoding.
pub(crate) type Stored = Arc<[u8]>;

/// Entries by position. What a position holds does not change, so nothing here is ever out of date.
#[derive(Debug)]
pub(crate) struct Cache {
    shards: Box<[Mutex<Shard>]>,
    /// Bytes per shard.
    budget: usize,
}

#[derive(Debug, Default)]
struct Shard {
    /// With whether the entry was asked for since it was last passed over.
    entries: HashMap<u64, (Stored, bool)>,
    /// Positions in the order in which they come up for eviction. Some may be gone.
    queue: VecDeque<u64>,
    bytes: usize,
}

impl Cache {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), budget: bytes / SHARDS }
    }

    /// Whether anything can be kept at all.
    pub(crate) const fn keeps(&self) -> bool {
        self.budget > OVERHEAD
    }

    fn shard(&self, sn: u64) -> MutexGuard<'_, Shard> {
        self.shards[sn as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, sn: u64) -> Option<Stored> {
        if !self.keeps() {
            return None;
        }
        let mut shard = self.shard(sn);
        let (stored, asked) = shard.entries.get_mut(&sn)?;
        *asked = true;
        Some(Arc::clone(stored))
    }

    /// Keeps an entry, in place of such that nobody asked for lately.
    pub(crate) fn put(&self, sn: u64, stored: Stored) {
        let cost = stored.len() + OVERHEAD;
        if cost > self.budget {
            return;
        }
        let shard = &mut *self.shard(sn);
        if shard.entries.insert(sn, (stored, false)).is_some() {
            // It is the same entry.
            return;
        }
        shard.queue.push_back(sn);
        shard.bytes += cost;
        while shard.bytes > self.budget
            && let Some(oldest) = shard.queue.pop_front()
        {
            match shard.entries.get_mut(&oldest) {
                Some((_, asked @ true)) => {
                    *asked = false;
                    shard.queue.push_back(oldest);
                }
                Some(_) => shard.remove(oldest),
                None => {}
            }
        }
        if shard.queue.len() > 2 * shard.entries.len() + 64 {
            let Shard { entries, queue, .. } = shard;
            queue.retain(|sn| entries.contains_key(sn));
        }
    }

    /// Forgets an entry that nothing needs any more.
    pub(crate) fn remove(&self, sn: u64) {
        if self.keeps() {
            self.shard(sn).remove(sn);
        }
    }
}

impl Shard {
    fn remove(&mut self, sn: u64) {
        if let Some((stored, _)) = self.entries.remove(&sn) {
            self.bytes -= stored.len() + OVERHEAD;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    #[test]
    fn keeps_what_is_asked_for_within_its_budget() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let stored = |sn: u64| Stored::from(vec![sn as u8; sn as usize % 300]);
        for budget in [0, 64 * 97, 1 << 16, 1 << 20] {
            let cache = Cache::new(budget);
            let mut hits = 0;
            for step in 0..40_000u64 {
                let sn = if step % 2 == 0 { rng.random_range(0..50) } else { rng.random_range(0..20_000) };
                match cache.get(sn) {
                    Some(found) => {
                        assert_eq!(found, stored(sn));
                        hits += usize::from(sn < 50);
                    }
                    None => cache.put(sn, stored(sn)),
                }
                if step % 50 == 0 {
                    cache.remove(sn);
                    assert_eq!(cache.get(sn), None);
                }
            }
            for shard in &cache.shards {
                let shard = shard.lock().expect("nobody panicked");
                let bytes: usize = shard.entries.values().map(|(stored, _)| stored.len() + OVERHEAD).sum();
                assert!(bytes == shard.bytes && bytes <= budget / SHARDS, "{bytes} of {budget}");
                assert!(shard.queue.len() <= 2 * shard.entries.len() + 65);
            }
            assert_eq!(hits > 15_000, budget >= 1 << 16, "{hits} hits with {budget}");
        }
    }
}
