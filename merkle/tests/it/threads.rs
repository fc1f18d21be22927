//! Blocks are applied alike by any number of threads, and no reader or block waits for ever.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use crate::common::hash;
use phalanx_merkle::{Backend, Delta, Hash, HashFn, Memory, Reading, Snapshot, Store, StoreConfig};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

fn key(number: u32) -> [u8; 20] {
    let mut key = [5; 20];
    key[..4].copy_from_slice(&number.to_be_bytes());
    key
}

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool")
}

const KEYS: u32 = 60_000;
const BLOCKS: u64 = 24;

fn block(height: u64) -> Delta {
    let mut delta = Delta::new();
    (0..KEYS).for_each(|number| delta.put(&key(number), &height.to_be_bytes()));
    delta
}

/// Commits a block as a job of its own, and the next block as another.
fn go_on<'s>(scope: &Scope<'s>, store: &'s mut Store, done: &'s AtomicBool, height: u64) {
    if height > BLOCKS {
        done.store(true, Ordering::Release);
        return;
    }
    let prepared = store.prepare(block(height), height).expect("a block");
    store.commit(prepared).expect("a block");
    scope.spawn(move |scope| go_on(scope, store, done, height + 1));
}

/// Reads, and works on the value, so that not all readers wait for a block at once.
fn read(snapshot: &Snapshot, at: u32) {
    let reader = snapshot.read().expect("it is not too far back");
    let value = reader.get(&key(at * 17 % KEYS)).map(<[u8]>::to_vec);
    assert_eq!(value.as_deref(), Some(&0u64.to_be_bytes()[..]));
    // Many keys at a time, from all parts of the log.
    if at.is_multiple_of(8) {
        let keys: Vec<_> = (0..60).map(|part| key((at * 17 + part * 997) % KEYS)).collect();
        reader.get_many(keys.iter().map(AsRef::as_ref), |found| assert!(found.is_some()));
    }
    drop(reader);
    std::hint::black_box(hash(HashFn::Blake3, &[&[at as u8; 1 << 16]]));
}

/// Readers and blocks are jobs of one pool: whatever job a waiting worker runs, none waits for ever.
fn readers_and_blocks_share_a_pool(config: StoreConfig) {
    let mut store = Store::open(config.with_history(BLOCKS as usize)).expect("a store");
    let pool = pool(8);
    let genesis = store.prepare(block(0), 0).expect("a block");
    pool.install(|| store.commit(genesis)).expect("a block");
    let snapshot = store.snapshot(store.tip()).expect("the tip");
    let (done, waiting) = (AtomicBool::new(false), AtomicU32::new(0));
    // From outside the pool, so that a worker first helps with a block and runs a reader when there is no help to give.
    pool.in_place_scope(|scope| {
        let (store, snapshot, done, waiting) = (&mut store, &snapshot, &done, &waiting);
        scope.spawn(move |scope| go_on(scope, store, done, 1));
        for at in (0..1 << 20).cycle() {
            while waiting.load(Ordering::Acquire) > 32 && !done.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            if done.load(Ordering::Acquire) {
                break;
            }
            waiting.fetch_add(1, Ordering::AcqRel);
            scope.spawn(move |_| {
                read(snapshot, at);
                waiting.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
    assert_eq!(store.height(), Some(BLOCKS));
    assert_eq!(store.read().get(&key(7)), Some(&BLOCKS.to_be_bytes()[..]));
}

#[test]
fn readers_and_blocks_of_a_state_in_memory_share_a_pool() {
    readers_and_blocks_share_a_pool(StoreConfig::new(Backend::Mem));
}

#[test]
fn readers_and_blocks_of_a_state_on_disk_share_a_pool() {
    for bytes in [64 << 20, 0] {
        let dir = crate::common::folder();
        let config = StoreConfig::new(Backend::File(dir.path().to_path_buf()));
        readers_and_blocks_share_a_pool(config.with_memory(Memory::Cached { bytes }));
    }
}

/// Runs blocks and returns the root after each block and each rewind.
fn run(seed: u64, memory: Memory) -> Vec<Hash> {
    // Records of more than two chunks.
    const KEYS: u32 = 150_000;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let dir = crate::common::folder();
    let config = StoreConfig::new(Backend::File(dir.path().to_path_buf())).with_history(2).with_memory(memory);
    let mut store = Store::open(config).expect("a store");
    let (mut models, mut roots, mut history) = (Vec::<BTreeMap<u32, Vec<u8>>>::new(), Vec::new(), 0);
    for step in 0..5 {
        let height = models.len() as u64;
        let mut model = models.last().cloned().unwrap_or_default();
        let mut delta = Delta::new();
        let numbers: Vec<u32> = match height {
            0 => (0..KEYS).collect(),
            _ => (0..60_000).map(|_| rng.random_range(0..KEYS + 9000)).collect(),
        };
        for number in numbers {
            if height > 0 && rng.random_bool(0.05) {
                delta.delete(&key(number));
                model.remove(&number);
            } else {
                let value = vec![rng.random(); [8, 40, 45, 90][rng.random_range(0..4)]];
                delta.put(&key(number), &value);
                model.insert(number, value);
            }
        }
        let prepared = store.prepare(delta, height).expect("a block");
        store.commit(prepared).expect("a block");
        models.push(model);
        roots.push(store.root());
        // The state as it is, and as it was.
        history = (history + 1).min(2);
        for depth in 0..models.len().min(history + 1) {
            let height = models.len() - 1 - depth;
            let snapshot = store.snapshot(store.block_at(height as u64).expect("a block")).expect("a view");
            let reader = snapshot.read().expect("it is not too far back");
            for number in (0..KEYS + 9000).step_by(if matches!(memory, Memory::Resident) { 1 } else { 501 }) {
                let expected = models[height].get(&number).map(Vec::as_slice);
                assert_eq!(reader.get(&key(number)), expected, "seed {seed} step {step} depth {depth} key {number}");
            }
            assert_eq!(reader.len(), models[height].len(), "seed {seed} step {step} depth {depth}");
        }
        if step == 3 {
            models.truncate(models.len() - 2);
            history = 0;
            store.rewind(Some(models.len() as u64 - 1)).expect("a way back").write().expect("a write");
            let model = &models[models.len() - 1];
            assert_eq!(store.len(), model.len());
            if memory == Memory::Resident {
                let all =
                    |(number, value): (&u32, &Vec<u8>)| assert_eq!(store.read().get(&key(*number)), Some(&value[..]));
                model.iter().for_each(all);
            }
            roots.push(store.root());
        }
    }
    roots
}

#[test]
fn many_chunks_of_records_are_alike_on_any_number_of_threads() {
    let one = pool(1).install(|| run(40, Memory::Resident));
    assert_eq!(pool(8).install(|| run(40, Memory::Resident)), one, "8 threads");
    let on_disk = pool(2).install(|| run(40, Memory::Cached { bytes: 16 << 20 }));
    assert_eq!(on_disk, one, "on disk");
}

/// Names, without numbers, of the threads that a store started: each has called the callback itself.
fn started(config: StoreConfig) -> BTreeSet<String> {
    let names: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let noted = Arc::clone(&names);
    let mut store = Store::open(config.with_checkpoint_bytes(1 << 16).with_thread_start(move || {
        let name =
            std::thread::current().name().unwrap_or_default().trim_end_matches(|c: char| c.is_numeric()).to_owned();
        noted.lock().expect("no panic").insert(name);
    }))
    .expect("a store");
    pool(2).install(|| {
        for height in 0..4 {
            let prepared = store.prepare(block(height), height).expect("a block");
            store.commit(prepared).expect("a block");
        }
    });
    store.read().each_committed(|_, _| ()).expect("no fault");
    drop(store);
    let names = names.lock().expect("no panic");
    names.clone()
}

#[test]
fn every_thread_that_a_store_starts_calls_the_callback() {
    let dir = crate::common::folder();
    let config = |name: &str| StoreConfig::new(Backend::File(dir.path().join(name)));
    let resident = started(config("resident"));
    assert_eq!(resident, ["phalanx-checkpoint"].map(str::to_owned).into());
    // One thread applies its blocks, several read the entries that they change, and some read ahead of a pass over all.
    let cached = config("cached").with_memory(Memory::Cached { bytes: 0 }).with_reading(Reading::Threads);
    let cached = started(cached);
    assert_eq!(cached, ["phalanx-checkpoint", "phalanx-pass-", "phalanx-read-"].map(str::to_owned).into());
}
