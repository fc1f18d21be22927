//! The multi-version memory: every key that a run has met, and its chain.

use super::chain::Chain;
use crate::sync::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;
use hashbrown::HashTable;
use parking_lot::RwLock;
use phalanx_access::{Key, KeyId, Salt};
use std::sync::{
    OnceLock, PoisonError,
    atomic::{AtomicU32, Ordering},
};

/// Keys by full comparison, each with an id; ids with their chains.
///
/// The table is split by digest, so that workers rarely meet at a lock; chains never move, so that they need none to be
/// found. The digest is keyed: who does not know the salt cannot aim keys at one place.
#[derive(Debug)]
pub(super) struct Memory<K, V, C> {
    salt: Salt,
    shards: Box<[CachePadded<Shard<K>>]>,
    next: AtomicU32,
    /// Segment *s* holds `FIRST << s` places and is made when the first of them is needed.
    segments: [Segment<V, C>; SEGMENTS],
}

type Shard<K> = RwLock<HashTable<(K, KeyId)>>;

type Segment<V, C> = OnceLock<Box<[Place<V, C>]>>;

#[derive(Debug)]
struct Place<V, C> {
    chain: Mutex<Chain<V, C>>,
    /// Held while the value before the run is loaded, so that it is loaded once.
    loading: parking_lot::Mutex<()>,
}

/// Places of the first segment.
const FIRST: usize = 256;

/// Enough for 2^32 places.
const SEGMENTS: usize = 25;

const SHARDS: usize = 64;

impl<V, C> Default for Place<V, C> {
    fn default() -> Self {
        Self { chain: Mutex::new(Chain::default()), loading: parking_lot::Mutex::default() }
    }
}

/// Segment and offset of a place.
const fn locate(id: KeyId) -> (usize, usize) {
    let shifted = id.index() + FIRST;
    let segment = (shifted.ilog2() - FIRST.ilog2()) as usize;
    (segment, shifted - (FIRST << segment))
}

impl<K: Key, V: Clone + PartialEq, C: PartialEq> Memory<K, V, C> {
    /// An empty memory for one worker or many, with room for that many keys before a table grows.
    pub(super) fn new(salt: Salt, workers: usize, keys: usize) -> Self {
        let shards = if workers == 1 { 1 } else { SHARDS };
        let table = || HashTable::with_capacity(keys / shards);
        Self {
            salt,
            shards: (0..shards).map(|_| CachePadded::new(RwLock::new(table()))).collect(),
            next: AtomicU32::new(0),
            segments: [const { OnceLock::new() }; SEGMENTS],
        }
    }

    /// The id of `key`, new or known.
    ///
    /// # Panics
    /// If there are 2^32 - 1 keys.
    pub(super) fn id(&self, key: &K) -> KeyId {
        let digest = key.digest(&self.salt);
        // The table uses the lowest and the highest bits.
        let shard = &self.shards[(digest >> 32) as usize % self.shards.len()];
        let is_key = |entry: &(K, KeyId)| entry.0 == *key;
        if let Some((_, id)) = shard.read().find(digest, is_key) {
            return *id;
        }
        let mut table = shard.write();
        if let Some((_, id)) = table.find(digest, is_key) {
            return *id;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(id != u32::MAX, "fewer than 2^32 - 1 keys");
        let id = KeyId(id);
        let (segment, _) = locate(id);
        self.segments[segment].get_or_init(|| (0..FIRST << segment).map(|_| Place::default()).collect());
        table.insert_unique(digest, (*key, id), |entry| entry.0.digest(&self.salt));
        id
    }

    fn place(&self, id: KeyId) -> &Place<V, C> {
        let (segment, offset) = locate(id);
        &self.segments[segment].get().expect("made before its first id was given out")[offset]
    }

    /// Locks the chain of a key. No other lock is taken and nothing of the program but its arithmetic runs under it.
    pub(super) fn chain(&self, id: KeyId) -> MutexGuard<'_, Chain<V, C>> {
        self.place(id).chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that the value before the run, or a final one, is there.
    pub(super) fn load<E>(&self, id: KeyId, base: impl FnOnce() -> Result<V, E>) -> Result<(), E> {
        let _once = self.place(id).loading.lock();
        if self.chain(id).settled().is_none() {
            // Nobody who only wants what is there waits for this.
            let base = base()?;
            self.chain(id).settle(base);
        }
        Ok(())
    }

    /// The final values of all keys that were written.
    pub(super) fn into_written(self) -> Vec<(K, V)> {
        // The tables are in the order of digests; places are better looked at in theirs.
        let mut keys = vec![None; self.next.into_inner() as usize];
        for shard in self.shards {
            shard.into_inner().into_inner().into_iter().for_each(|(key, id)| keys[id.index()] = Some(key));
        }
        let segments = self.segments.into_iter().filter_map(OnceLock::into_inner);
        keys.into_iter()
            .zip(segments.flat_map(Box::into_iter))
            .filter_map(|(key, place)| {
                let chain = place.chain.into_inner().unwrap_or_else(PoisonError::into_inner);
                Some((key?, chain.into_written()?))
            })
            .collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_tile_the_segments() {
        let mut expected = (0, 0);
        for id in 0..100_000 {
            assert_eq!(locate(KeyId(id)), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(locate(KeyId(u32::MAX)).0, SEGMENTS - 1);
    }

    /// Keys whose digests all collide.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    struct Colliding(u32);

    impl Key for Colliding {
        fn digest(&self, _: &Salt) -> u64 {
            7
        }
    }

    #[test]
    fn equal_digests_never_merge_keys_however_many_ask() {
        let memory = Memory::<Colliding, u64, u64>::new(Salt::new(1), 4, 0);
        std::thread::scope(|scope| {
            for step in [1, 3, 5, 7] {
                let memory = &memory;
                scope.spawn(move || (0..500).for_each(|i| _ = memory.id(&Colliding(i * step % 500))));
            }
        });
        let mut ids: Vec<_> = (0..500).map(|key| memory.id(&Colliding(key)).0).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..500).collect::<Vec<_>>());
    }

    #[test]
    fn a_base_is_loaded_once_and_a_failed_load_can_be_repeated() {
        let memory = Memory::<u64, u64, u64>::new(Salt::new(1), 4, 0);
        let id = memory.id(&9);
        assert_eq!(memory.load(id, || Err("no")), Err("no"));
        let loads = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    memory.load(id, || {
                        loads.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                        Ok::<_, ()>(5)
                    })
                });
            }
        });
        assert_eq!((loads.into_inner(), memory.chain(id).settled().copied()), (1, Some(5)));
        assert!(memory.into_written().is_empty());
    }
}
