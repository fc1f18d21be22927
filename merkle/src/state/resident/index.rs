//! The index of a resident state: from a key's digest to its id.

use std::ops::Range;

use phalanx_memory::prefetch;
use rayon::prelude::*;

/// Maximum number of keys of an index: a slot has no room for larger ids.
pub(crate) const MAX_KEYS: usize = 1 << 30;

/// Hash table from digests to ids: open addressing over 32-bit words, at most five eighths full. A power of two of
/// keys, with the sentinels, takes eight bytes per key.
///
/// A word is `tag << id_bits | id + 1`, zero when free. `id_bits` grows with the table, and the tag takes the other
/// bits: eleven at a million keys, where one in two thousand probes reads a wrong record.
///
/// # Invariants
/// Every id is below five eighths of the number of slots. The table never shrinks.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Vec<u32>,
    id_bits: u32,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self::with_slots(1 << 10)
    }

    fn with_slots(len: usize) -> Self {
        Self { slots: vec![0; len], id_bits: len.trailing_zeros() }
    }

    /// Minimum number of slots for ids below `ids`.
    fn fitting(ids: usize) -> usize {
        let fits = |len: &usize| len / 8 * 5 >= ids;
        (10..).map(|bits| 1 << bits).find(fits).unwrap_or(MAX_KEYS)
    }

    /// Exclusive bound of the ids that fit.
    pub(crate) const fn capacity(&self) -> usize {
        self.slots.len() / 8 * 5
    }

    #[inline]
    const fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// Tag of a digest, in place. The tag is taken from the top of the digest, the slot from its bottom.
    #[inline]
    const fn tag(&self, digest: u64) -> u32 {
        ((digest >> 32) as u32) & !self.ids()
    }

    #[inline]
    const fn ids(&self) -> u32 {
        (1 << self.id_bits) - 1
    }

    /// Prefetches the first slot of `digest`.
    #[inline]
    pub(crate) fn prefetch(&self, digest: u64) {
        prefetch(&self.slots[digest as usize & self.mask()]);
    }

    /// First id with the digest's tag: most likely the key's, to be prefetched.
    #[inline]
    pub(crate) fn candidate(&self, digest: u64) -> Option<u32> {
        self.find(digest, |_| true)
    }

    /// Id with the digest's tag that `is_key` confirms.
    #[inline]
    pub(crate) fn find(&self, digest: u64, mut is_key: impl FnMut(u32) -> bool) -> Option<u32> {
        let (tag, mask) = (self.tag(digest), self.mask());
        let mut at = digest as usize & mask;
        loop {
            let word = self.slots[at];
            if word == 0 {
                return None;
            }
            if word & !self.ids() == tag {
                let id = (word & self.ids()) - 1;
                if is_key(id) {
                    return Some(id);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an id that is not in the table and below [`Self::capacity`].
    #[inline]
    pub(crate) fn insert(&mut self, digest: u64, id: u32) {
        debug_assert!((id as usize) < self.capacity());
        self.put(digest as usize & self.mask(), self.tag(digest) | (id + 1));
    }

    /// Removes `id`, which is in the table, and moves later words into the hole, so that no probe ends early.
    pub(crate) fn remove(&mut self, digest: u64, id: u32, digest_of: impl Fn(u32) -> u64) {
        let mask = self.mask();
        let mut hole = digest as usize & mask;
        while self.slots[hole] & self.ids() != id + 1 {
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let word = self.slots[at];
            if word == 0 {
                break;
            }
            // A word may fill the hole unless its home lies behind the hole, cyclically in (hole, at].
            let home = digest_of((word & self.ids()) - 1) as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = word;
                hole = at;
            }
        }
        self.slots[hole] = 0;
    }

    pub(crate) const fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    /// Doubles the table until ids below `ids` fit, given `(digest, id)` of all keys.
    pub(crate) fn grow(&mut self, ids: usize, keys: impl Iterator<Item = (u64, u32)>) {
        *self = Self::with_slots(Self::fitting(ids).max(self.slots.len()));
        keys.for_each(|(digest, id)| self.insert(digest, id));
    }
}

/// Ids per task, and maximum number of parts that the table is filled in.
const TASK: u32 = if cfg!(test) { 1 << 12 } else { 1 << 17 };
const PARTS: usize = 256;

/// Minimum number of tasks whose digests are held at a time; an eighth of all tasks if that is more.
const ROUND: usize = 16;

impl Index {
    /// Builds an index of the ids that have a digest. O(n), in parallel; takes one or two more bytes per id meanwhile.
    pub(crate) fn build(ids: Range<u32>, digest_of: impl Fn(u32) -> Option<u64> + Sync) -> Self {
        let len = Self::fitting(ids.end as usize);
        let mut index = Self::with_slots(len);
        // A task fills one part of the table, with the ids whose first slot is in it: within the cache, and in order.
        let parts = (len >> 14).clamp(1, PARTS);
        let part_len = len / parts;
        let tasks: Vec<u32> = ids.clone().step_by(TASK as usize).collect();
        for round in tasks.chunks(tasks.len().div_ceil(8).max(ROUND)) {
            let scatter = |first: &u32| {
                let mut by_part = vec![Vec::with_capacity(TASK as usize / parts * 5 / 4); parts];
                for id in *first..ids.end.min(first + TASK) {
                    if let Some(digest) = digest_of(id) {
                        let at = digest as usize & index.mask();
                        by_part[at / part_len].push((at as u64) << 32 | u64::from(index.tag(digest) | (id + 1)));
                    }
                }
                by_part
            };
            let scattered: Vec<Vec<Vec<u64>>> = round.par_iter().map(scatter).collect();
            let fill = |(part, slots): (usize, &mut [u32])| {
                let mut late = Vec::new();
                for word in scattered.iter().flat_map(|by_part| &by_part[part]) {
                    let at = (word >> 32) as usize - part * part_len;
                    match slots[at..].iter().position(|slot| *slot == 0) {
                        Some(free) => slots[at + free] = *word as u32,
                        None => late.push(*word),
                    }
                }
                late
            };
            let late: Vec<Vec<u64>> = index.slots.par_chunks_mut(part_len).enumerate().map(fill).collect();
            // Words without a free slot in their part go behind it, once that part is filled.
            for word in late.into_iter().flatten() {
                index.put((word >> 32) as usize, word as u32);
            }
        }
        index
    }

    fn put(&mut self, mut at: usize, word: u32) {
        let mask = self.mask();
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};
    use std::collections::HashMap;

    /// Few homes and few tags: probes run long, wrap around the end and meet wrong tags.
    fn digest(key: u32) -> u64 {
        let home = u64::from(key % 7) * 3 + 1013;
        (u64::from(key % 5) << 60) | (home & 0xffff)
    }

    #[test]
    fn equals_a_map_under_insertion_and_removal() {
        for seed in 0..20 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let mut index = Index::new();
            // An id is the rank of its key in `keys`.
            let mut keys: Vec<u32> = Vec::new();
            let mut model: HashMap<u32, u32> = HashMap::new();
            for step in 0..3000 {
                let key = rng.random_range(0..400u32);
                match model.remove(&key) {
                    Some(id) => index.remove(digest(key), id, |id| digest(keys[id as usize])),
                    None => {
                        let id = keys.iter().rposition(|k| !model.contains_key(k)).unwrap_or(keys.len());
                        if id == keys.len() {
                            keys.push(key);
                        } else {
                            keys[id] = key;
                        }
                        index.insert(digest(key), id as u32);
                        model.insert(key, id as u32);
                    }
                }
                for key in 0..400 {
                    let found = index.find(digest(key), |id| keys[id as usize] == key && model.contains_key(&key));
                    assert_eq!(found, model.get(&key).copied(), "seed {seed} step {step} key {key}");
                }
            }
        }
    }

    #[test]
    fn built_equals_inserted() {
        for (seed, len) in [(0, 0), (1, 1), (2, 700), (3, 40_000), (4, 300_000)] {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            // Some ids have no digest, some share a home, which may be the last of a part or of the table.
            let digests: Vec<Option<u64>> = (0..len)
                .map(|_| match rng.random_range(0..10) {
                    0 => None,
                    1 if seed == 2 => Some(rng.random::<u64>() | 0x3ff),
                    2 => Some(rng.random::<u64>() | 0x3fff),
                    _ => Some(rng.random()),
                })
                .collect();
            let mut index = Index::build(0..len, |id| digests[id as usize]);
            let id_of = |index: &Index, id: u32| index.find(digests[id as usize]?, |found| found == id);
            for id in 0..len {
                let expected = digests[id as usize].map(|_| id);
                assert_eq!(id_of(&index, id), expected, "seed {seed} id {id}");
            }
            for id in (0..len).step_by(3) {
                if let Some(digest) = digests[id as usize] {
                    index.remove(digest, id, |id| digests[id as usize].expect("an id of the index"));
                }
            }
            for id in 0..len {
                let expected = digests[id as usize].filter(|_| id % 3 != 0).map(|_| id);
                assert_eq!(id_of(&index, id), expected, "seed {seed} id {id} after removals");
            }
        }
    }
}
