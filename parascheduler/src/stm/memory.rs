//! The multi-version memory: every key of a run, and its chain.

use super::{chain::Chain, keys::Keys};
use crate::sync::{Mutex, MutexGuard};
use phalanx_access::{Key, KeyId, Salt};
use std::sync::{
    OnceLock, PoisonError,
    atomic::{AtomicU32, Ordering},
};

/// Memory of a run, reused by the next: a run writes hundreds of bytes per key.
///
/// After a run that has a report it is empty and keeps a few megabytes at most. The keys of a run that failed stay until the
/// next run begins.
#[derive(Debug)]
pub struct StmMemory<K, V, C>(Option<Memory<K, V, C>>);

impl<K, V, C> Default for StmMemory<K, V, C> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: Key, V: Clone + PartialEq, C: PartialEq> StmMemory<K, V, C> {
    /// Empties the memory for a run, with room for so many keys before a table grows.
    pub(super) fn begin(&mut self, salt: Salt, keys: usize) -> &mut Memory<K, V, C> {
        match &mut self.0 {
            Some(memory) => {
                // A run that failed or panicked has left its keys.
                memory.clear();
                (memory.salt, memory.keys) = (salt, Keys::new(keys));
            }
            None => self.0 = Some(Memory::new(salt, keys)),
        }
        self.0.as_mut().expect("just made")
    }
}

/// Keys, compared in full, with their ids; and the chain of each id.
///
/// The digest is keyed: without the salt an attacker cannot aim keys at one place. Chains never move, so a lookup needs no
/// lock.
#[derive(Debug)]
pub(super) struct Memory<K, V, C> {
    salt: Salt,
    keys: Keys,
    next: AtomicU32,
    /// Segment *s* holds `FIRST << s` places. It is made when its first place is needed.
    segments: [Segment<K, V, C>; SEGMENTS],
}

type Segment<K, V, C> = OnceLock<Box<[Place<K, V, C>]>>;

#[derive(Debug)]
struct Place<K, V, C> {
    /// Set before another thread knows the place.
    key: OnceLock<K>,
    chain: Mutex<Chain<V, C>>,
    /// Held while the value before the run is loaded, so that it is loaded once.
    loading: parking_lot::Mutex<()>,
}

/// Number of places of the first segment.
const FIRST: usize = 256;

/// Maximum number of segments: enough for 2^32 places.
const SEGMENTS: usize = 25;

/// Number of segments that stay for the next run: some 16,000 places.
const KEPT: usize = 6;

impl<K, V, C> Default for Place<K, V, C> {
    fn default() -> Self {
        Self { key: OnceLock::new(), chain: Mutex::new(Chain::default()), loading: parking_lot::Mutex::default() }
    }
}

/// Segment and offset of a place.
const fn locate(id: KeyId) -> (usize, usize) {
    let shifted = id.index() + FIRST;
    let segment = (shifted.ilog2() - FIRST.ilog2()) as usize;
    (segment, shifted - (FIRST << segment))
}

impl<K: Key, V: Clone + PartialEq, C: PartialEq> Memory<K, V, C> {
    /// Creates an empty memory, with room for so many keys before a table grows.
    pub(super) fn new(salt: Salt, keys: usize) -> Self {
        Self { salt, keys: Keys::new(keys), next: AtomicU32::new(0), segments: [const { OnceLock::new() }; SEGMENTS] }
    }

    /// Returns the id of `key`, and adds the key if it is new.
    ///
    /// # Panics
    /// If there are 2^32 - 1 keys.
    pub(super) fn id(&self, key: &K) -> KeyId {
        let is_key = |number| self.place(KeyId(number)).key.get() == Some(key);
        KeyId(self.keys.find_or_add(key.digest(&self.salt), is_key, || self.add(key)))
    }

    /// Adds a place for `key`.
    fn add(&self, key: &K) -> u32 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(number != u32::MAX, "fewer than 2^32 - 1 keys");
        let (segment, offset) = locate(KeyId(number));
        let places = self.segments[segment].get_or_init(|| (0..FIRST << segment).map(|_| Place::default()).collect());
        places[offset].key.get_or_init(|| *key);
        number
    }

    fn place(&self, id: KeyId) -> &Place<K, V, C> {
        let (segment, offset) = locate(id);
        &self.segments[segment].get().expect("made before its first id was given out")[offset]
    }

    /// Locks the chain of a key. No other lock is taken under it, and of the program only arithmetic runs.
    pub(super) fn chain(&self, id: KeyId) -> MutexGuard<'_, Chain<V, C>> {
        self.place(id).chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the value before the run, unless that or a final value is there. Returns true if the caller waited: it called `base`,
    /// or another thread did meanwhile.
    pub(super) fn load<E>(&self, id: KeyId, base: impl FnOnce() -> Result<V, E>) -> Result<bool, E> {
        let loading = &self.place(id).loading;
        let (_once, mut waited) = loading.try_lock().map_or_else(|| (loading.lock(), true), |claim| (claim, false));
        if self.chain(id).settled().is_none() {
            waited = true;
            // The chain is not locked: readers of known values do not wait for the load.
            let base = base()?;
            self.chain(id).settle(base);
        }
        Ok(waited)
    }

    /// Loads the value before the run if `at_hand` has it, unless it is there. Returns false if it has not. Takes no claim: threads that find the same
    /// value at hand settle the same value.
    pub(super) fn load_at_hand<E>(&self, id: KeyId, at_hand: impl FnOnce() -> Result<Option<V>, E>) -> Result<bool, E> {
        if self.is_loaded(id) {
            return Ok(true);
        }
        let base = at_hand()?;
        Ok(base.map(|base| self.chain(id).settle(base)).is_some())
    }

    /// Claims the load of a key, to read many keys at once, unless it is loaded or another thread loads it now.
    pub(super) fn claim(&self, id: KeyId) -> Option<parking_lot::MutexGuard<'_, ()>> {
        let claim = self.place(id).loading.try_lock()?;
        (!self.is_loaded(id)).then_some(claim)
    }

    /// Waits for the thread that loads the key now, if one does. Returns true if the value is there.
    pub(super) fn await_load(&self, id: KeyId) -> bool {
        drop(self.place(id).loading.lock());
        self.is_loaded(id)
    }

    /// True if the value before the run, or a final value, is there.
    fn is_loaded(&self, id: KeyId) -> bool {
        self.chain(id).settled().is_some()
    }

    /// Key of an id.
    pub(super) fn key(&self, id: KeyId) -> K {
        *self.place(id).key.get().expect("set before the id was given out")
    }

    /// Takes the final values of all written keys, and empties the memory.
    pub(super) fn take_written(&mut self) -> Vec<(K, V)> {
        let mut written = Vec::new();
        self.clear_into(|key, chain| written.extend(key.zip(chain.into_written())));
        written
    }

    fn clear(&mut self) {
        self.clear_into(|_, _| {});
    }

    /// Empties all used places.
    fn clear_into(&mut self, mut take: impl FnMut(Option<K>, Chain<V, C>)) {
        let taken = core::mem::take(self.next.get_mut()) as usize;
        let segments = self.segments.iter_mut().enumerate();
        for (at, places) in segments.filter_map(|(at, segment)| Some((at, segment.get_mut()?))) {
            let before = (FIRST << at) - FIRST;
            for Place { key, chain, .. } in places.iter_mut().take(taken.saturating_sub(before)) {
                let chain = chain.get_mut().unwrap_or_else(PoisonError::into_inner);
                take(key.take(), core::mem::take(chain));
            }
        }
        for segment in &mut self.segments[KEPT..] {
            segment.take();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::stm::chain::Write;

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
    fn equal_digests_never_merge_keys_of_concurrent_threads() {
        let memory = Memory::<Colliding, u64, u64>::new(Salt::new(1), 0);
        std::thread::scope(|scope| {
            for step in [1, 3, 5, 7] {
                let memory = &memory;
                scope.spawn(move || (0..500).for_each(|i| _ = memory.id(&Colliding(i * step % 500))));
            }
        });
        let mut ids: Vec<_> = (0..500).map(|key| memory.id(&Colliding(key))).collect();
        let again = (0..500).map(|key| memory.id(&Colliding(key)));
        assert!(again.eq(ids.iter().copied()), "a key keeps its id");
        assert!((0..500).all(|key| memory.place(ids[key as usize]).key.get() == Some(&Colliding(key))));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 500, "and shares it with none");
    }

    #[test]
    fn a_reused_memory_holds_no_key_of_an_earlier_run() {
        let mut kept = StmMemory::<u64, u64, u64>::default();
        for (round, keys) in [10u64, 40_000, 300].into_iter().enumerate() {
            let memory = kept.begin(Salt::new(1), 4);
            for key in 0..keys {
                let id = memory.id(&(key * 7 + round as u64));
                assert_eq!(id.0, key as u32, "each is new");
                assert_eq!(memory.chain(id).settled(), None);
                memory.load(id, || Ok::<_, ()>(key)).unwrap();
                if key % 3 == 0 {
                    memory.chain(id).apply(Write::Credit(1), |value, credit| Some(value + credit));
                }
            }
            // The last round fails: its values are not taken.
            if round < 2 {
                let written = memory.take_written();
                let expected = (0..keys).step_by(3).map(|key| (key * 7 + round as u64, key + 1));
                assert!(written.into_iter().eq(expected), "round {round}");
            }
        }
        assert!(kept.begin(Salt::new(1), 4).take_written().is_empty());
    }

    /// The thread that reads many keys leaves one that a worker loads, and waits for it.
    #[test]
    fn a_key_that_another_thread_loads_is_awaited() {
        for fails in [false, true] {
            let memory = Memory::<u64, u64, u64>::new(Salt::new(1), 0);
            let (id, other) = (memory.id(&9), memory.id(&10));
            let begun = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    memory.load(id, || {
                        begun.wait();
                        std::thread::sleep(std::time::Duration::from_millis(5));
                        if fails { Err(()) } else { Ok(5) }
                    })
                });
                begun.wait();
                assert!(memory.claim(id).is_none() && memory.claim(other).is_some());
                assert!(!memory.await_load(other), "no thread loads it");
                assert_eq!(memory.load_at_hand(other, || Ok::<_, ()>(Some(1))), Ok(true), "the other key is free");
                assert_eq!(memory.await_load(id), !fails);
                assert_eq!(worker.join().expect("no panic"), if fails { Err(()) } else { Ok(true) });
            });
            assert_eq!(memory.claim(id).is_some(), fails, "what is loaded is not claimed");
            assert!(memory.claim(other).is_none());
            assert_eq!(memory.load(other, || Err(())), Ok(false), "a value that is there costs no wait");
        }
    }

    #[test]
    fn a_base_is_loaded_once_and_a_failed_load_can_be_repeated() {
        let memory = Memory::<u64, u64, u64>::new(Salt::new(1), 0);
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
        let mut memory = memory;
        assert!(memory.take_written().is_empty());
    }
}
