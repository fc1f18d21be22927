//! Entries that are read ahead: they are there when a block needs them, and change no result.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use phalanx_merkle::{
    Backend, Delta, Memory, ReadUse, Reading, Store, StoreConfig,
    faults::{Faults, Step, Verdict},
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const KEYS: u64 = 900;

fn config(dir: &Path, bytes: usize) -> StoreConfig {
    let config = StoreConfig::new(Backend::File(dir.into())).with_memory(Memory::Cached { bytes });
    config.with_reading(Reading::Direct).with_history(3)
}

fn keys() -> Vec<[u8; 8]> {
    (0..KEYS).map(u64::to_be_bytes).collect()
}

fn begun(dir: &Path, bytes: usize) -> Store {
    let mut store = Store::open(config(dir, bytes)).expect("a new store");
    let mut delta = Delta::new();
    keys().iter().for_each(|key| delta.put(key, &[7; 40]));
    let prepared = store.prepare(delta, 0).expect("a block");
    store.commit(prepared).expect("it is written");
    store
}

/// Waits until reads of one slice have begun: the end of the prefetcher waits for them.
fn wait_for_reads(store: &Store, before: ReadUse) {
    let began = (0..10_000).any(|_| {
        thread::sleep(Duration::from_millis(1));
        store.reads().is_some_and(|reads| reads.extents > before.extents)
    });
    assert!(began, "nothing was read ahead");
}

#[test]
fn announced_entries_are_in_memory_when_they_are_needed() {
    let dir = tempfile::tempdir().expect("a folder");
    drop(begun(dir.path(), 1 << 20));
    let store = Store::open(config(dir.path(), 1 << 20)).expect("the store");
    let before = store.reads().expect("the state is paged");
    let prefetcher = store.prefetcher().expect("the state is paged");
    assert!(prefetcher.announce(keys().iter().map(|key| &key[..])));
    wait_for_reads(&store, before);
    drop(prefetcher);
    assert_eq!(store.cache().expect("paged").misses, 0, "what is read ahead is no miss");
    let mut found = 0;
    store.read().get_many(keys().iter().map(|key| &key[..]), |value| found += usize::from(value.is_some()));
    let cache = store.cache().expect("paged");
    assert_eq!((found as u64, cache.misses, cache.hits), (KEYS, 0, KEYS));
}

/// A creation changes the entry of the key before it, which is as cold as any other.
#[test]
fn predecessors_of_announced_creations_are_in_memory() {
    let dir = tempfile::tempdir().expect("a folder");
    drop(begun(dir.path(), 1 << 20));
    let mut store = Store::open(config(dir.path(), 1 << 20)).expect("the store");
    let created: Vec<[u8; 8]> = (KEYS..KEYS + 300).map(u64::to_be_bytes).collect();
    let before = store.reads().expect("paged");
    let prefetcher = store.prefetcher().expect("paged");
    assert!(prefetcher.announce(created.iter().map(|key| &key[..])));
    wait_for_reads(&store, before);
    drop(prefetcher);
    let mut delta = Delta::new();
    created.iter().for_each(|key| delta.put(key, &[8; 40]));
    let read = store.reads();
    let prepared = store.prepare(delta, 1).expect("a block");
    assert_eq!(store.reads(), read, "every predecessor was read ahead");
    let cache = store.cache().expect("paged");
    assert!(cache.hits > 200, "{} predecessors", cache.hits);
    store.commit(prepared).expect("it is written");
}

#[test]
fn a_value_is_at_hand_when_it_is_in_memory() {
    let dir = tempfile::tempdir().expect("a folder");
    drop(begun(dir.path(), 1 << 20));
    let store = Store::open(config(dir.path(), 1 << 20)).expect("the store");
    let (key, absent) = (7u64.to_be_bytes(), (KEYS + 9).to_be_bytes());
    let before = store.reads().expect("paged");
    let (reader, value) = (store.read(), [7; 40]);
    assert_eq!(reader.get_at_hand(&key), None, "it is on disk");
    assert_eq!(reader.get_at_hand(&absent), Some(None), "no position has its hash");
    assert_eq!(store.reads(), Some(before), "nothing was read");
    assert_eq!(store.cache().expect("paged").misses, 0, "the one who reads counts");
    assert_eq!(reader.get(&key), Some(&value[..]));
    assert_eq!(reader.get_at_hand(&key), Some(Some(&value[..])));
    let cache = store.cache().expect("paged");
    assert_eq!((cache.misses, cache.hits), (1, 1));
    let mut resident = Store::open(StoreConfig::new(Backend::Mem)).expect("a store");
    let mut delta = Delta::new();
    delta.put(&key, &value);
    let prepared = resident.prepare(delta, 0).expect("a block");
    resident.commit(prepared).expect("it is written");
    let reader = resident.read();
    assert_eq!((reader.get_at_hand(&key), reader.get_at_hand(&absent)), (Some(Some(&value[..])), Some(None)));
}

/// A disk whose reads ahead last until they are let go; it counts the reads of other threads.
#[derive(Debug, Default)]
struct Held {
    is_armed: AtomicBool,
    has_begun: AtomicBool,
    goes_on: AtomicBool,
    others: AtomicU64,
}

impl Held {
    fn read(&self) {
        if !self.is_armed.load(SeqCst) {
            return;
        }
        if !thread::current().name().is_some_and(|name| name.starts_with("phalanx-ahead")) {
            self.others.fetch_add(1, SeqCst);
            return;
        }
        self.has_begun.store(true, SeqCst);
        while !self.goes_on.load(SeqCst) {
            thread::yield_now();
        }
    }
}

impl Faults for Held {
    fn before(&self, step: Step<'_>) -> Verdict {
        if matches!(step, Step::Read(_)) {
            self.read();
        }
        Verdict::Go
    }

    fn completed(&self, _: &Path, bytes: io::Result<usize>) -> io::Result<usize> {
        self.read();
        bytes
    }
}

#[test]
fn a_large_lookup_waits_for_what_is_read_ahead() {
    let dir = tempfile::tempdir().expect("a folder");
    drop(begun(dir.path(), 1 << 20));
    let held = Arc::new(Held::default());
    let store = Store::open(config(dir.path(), 1 << 20).with_faults(Arc::<Held>::clone(&held))).expect("the store");
    held.is_armed.store(true, SeqCst);
    let prefetcher = store.prefetcher().expect("paged");
    assert!(prefetcher.announce(keys().iter().map(|key| &key[..])));
    while !held.has_begun.load(SeqCst) {
        thread::yield_now();
    }
    thread::scope(|scope| {
        let lookup = scope.spawn(|| {
            let mut found = 0;
            store.read().get_many(keys().iter().map(|key| &key[..]), |value| found += u64::from(value.is_some()));
            found
        });
        // Time to read by itself, which it does not.
        thread::sleep(Duration::from_millis(100));
        held.goes_on.store(true, SeqCst);
        assert_eq!(lookup.join().expect("no panic"), KEYS);
    });
    assert_eq!(held.others.load(SeqCst), 0, "what is being read is not read again");
}

#[test]
fn a_resident_state_has_nothing_to_read_ahead() {
    let store = Store::open(StoreConfig::new(Backend::Mem)).expect("a store");
    assert!(store.prefetcher().is_none() && store.reads().is_none());
}

#[test]
fn reading_ahead_while_blocks_come_and_go_changes_no_root() {
    for (seed, bytes) in [(1, 1 << 20), (2, 40_000), (3, 0)] {
        let roots: Vec<_> = [true, false].map(|ahead| life(seed, bytes, ahead)).into();
        assert_eq!(roots[0], roots[1], "seed {seed}");
    }
}

/// Roots of a chain that is rewound now and then.
fn life(seed: u64, bytes: usize, ahead: bool) -> Vec<[u8; 32]> {
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = begun(dir.path(), bytes);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let prefetcher = store.prefetcher().filter(|_| ahead);
    let mut roots = Vec::new();
    for _ in 0..60 {
        let changed: Vec<[u8; 8]> = (0..200).map(|_| rng.random_range(0..KEYS + 50).to_be_bytes()).collect();
        if let Some(prefetcher) = &prefetcher {
            prefetcher.announce(changed.iter().map(|key| &key[..]));
        }
        let mut delta = Delta::new();
        for key in &changed {
            if rng.random_bool(0.1) { delta.delete(key) } else { delta.put(key, &[rng.random(); 40]) }
        }
        let next = store.height().expect("a chain") + 1;
        let prepared = store.prepare(delta, next).expect("a block");
        store.commit(prepared).expect("it is written");
        roots.push(store.root());
        // Other entries get these positions: none of the old ones may stay in the cache.
        if rng.random_bool(0.3) {
            let back = next.saturating_sub(rng.random_range(1..3));
            store.rewind(Some(back)).expect("history").write().expect("it is written");
            roots.push(store.root());
        }
    }
    drop(prefetcher);
    roots
}
