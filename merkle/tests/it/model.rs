//! The store equals a model that hashes everything.

use crate::common::{Model, Op, config, delta_of, open, random_memory, random_ops};
use phalanx_merkle::{Backend, Delta, Durability, Error, HashFn, Memory, Store, StoreConfig};
use rand::{Rng as _, SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;

pub(crate) const FUNCTIONS: [HashFn; 3] = [HashFn::Sha256, HashFn::Keccak256, HashFn::Blake3];

/// Asserts that random blocks with random reopening equal the model.
fn equals_model(backend: &Backend, function: HashFn, seed: u64, blocks: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut model = Model::new(function);
    let memory = random_memory(&mut rng);
    let mut store = Store::open(config(backend, function).with_memory(memory)).expect("a store");
    for block in 0..blocks {
        let context = format!("{backend:?} {function} seed {seed} block {block}");
        let ops = random_ops(&mut rng);
        model.block(&ops);
        let mut delta = delta_of(&store, &ops, &mut rng);
        let code = [block as u8; 32];
        delta.put_code(code, vec![1u8; block * 100]);
        let before = store.root();
        let prepared = store.prepare(delta, block as u64).expect(&context);
        assert_eq!(prepared.root(), model.root(), "{context}");
        assert_eq!(store.root(), before, "{context}: preparing changes nothing");
        let payload = vec![block as u8; block];
        store.commit(prepared.with_payload(payload.clone()).expect(&context)).expect(&context);
        assert_eq!(store.payload(), payload);
        assert_eq!(store.written_height(), store.height());
        if *backend != Backend::Mem && rng.random_bool(0.2) {
            drop(store);
            let config = config(backend, function).with_salt(rng.random()).with_memory(random_memory(&mut rng));
            store = Store::open(config.with_expected_min_height(block as u64)).expect(&context);
        }
        if rng.random_bool(0.3) {
            model.assert_equals(&store, &context);
            assert_eq!(store.code(&code).expect(&context).as_deref(), Some(&vec![1u8; block * 100][..]), "{context}");
            assert_eq!(store.payload_at(block as u64).expect(&context), Some(payload), "{context}");
            assert_eq!(store.payload(), vec![block as u8; block]);
        }
    }
    model.assert_equals(&store, &format!("{backend:?} {function} seed {seed} at the end"));
}

#[test]
fn memory_equals_model() {
    for (function, seed) in FUNCTIONS.into_iter().zip(0..) {
        equals_model(&Backend::Mem, function, seed, 60);
    }
}

#[test]
fn file_equals_model() {
    for (function, seed) in FUNCTIONS.into_iter().zip(10..) {
        let dir = crate::common::folder();
        equals_model(&Backend::File(dir.path().to_path_buf()), function, seed, 60);
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_equals_model() {
    for (function, seed) in FUNCTIONS.into_iter().zip(20..) {
        let dir = crate::common::folder();
        equals_model(&Backend::Rocks(dir.path().to_path_buf()), function, seed, 40);
    }
}

/// The same blocks with any order of operations, number of threads and memory setting: one root, and one log, byte for
/// byte but for the marks of the store's secret, which an export leaves out.
#[test]
fn roots_and_logs_depend_on_neither_order_nor_threads_nor_memory() {
    let seed = 5;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let key = |i: u32| [i.to_be_bytes().as_slice(), &[1; 16]].concat();
    let value = |i: u32, more: u32| Some(vec![(i ^ more) as u8; 9 + more as usize * 5]);
    let mut blocks: Vec<Vec<Op>> = vec![(0..30_000).map(|i| (key(i), value(i, 4))).collect()];
    // Updates, deletions and new keys, until compaction moves old entries.
    blocks.extend((0..5).map(|block| {
        let op = |i: u32| (key(i * 7 % 34_000), if i.is_multiple_of(9) { None } else { value(i, block) });
        (block * 999..block * 999 + 12_000).map(op).collect()
    }));
    let memories = [Memory::Resident, Memory::Cached { bytes: 0 }, Memory::Cached { bytes: 1 << 19 }];
    let memories = memories.into_iter().chain([Memory::Cached { bytes: 1 << 30 }]);
    let mut logs: Vec<(Vec<[u8; 32]>, u64, Vec<u8>)> = Vec::new();
    for (memory, threads) in memories.flat_map(|memory| [1, 2, 4, 8].map(|threads| (memory, threads))) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let dir = crate::common::folder();
        let backend = Backend::File(dir.path().to_path_buf());
        pool.install(|| {
            let mut store = Store::open(config(&backend, HashFn::Sha256).with_memory(memory)).expect("a store");
            let mut roots = Vec::new();
            for (height, ops) in blocks.iter().enumerate() {
                let mut ops = ops.clone();
                ops.shuffle(&mut rng);
                let delta = delta_of(&store, &ops, &mut rng);
                let prepared = store.prepare(delta, height as u64).expect("a block");
                assert!(height < 5 || prepared.moves() > 0, "nothing moves");
                store.commit(prepared).expect("a block");
                roots.push(store.root());
            }
            let mut export = Vec::new();
            store.export(&mut export).expect("an export");
            let log = std::fs::metadata(dir.path().join("00000000.seg")).expect("the log").len();
            logs.push((roots, log, export));
        });
        assert!(logs[0] == logs[logs.len() - 1], "{memory:?}, {threads} threads, seed {seed}");
    }
    let mut model = Model::new(HashFn::Sha256);
    blocks[..2].iter().for_each(|ops| model.block(ops));
    assert_eq!(logs[0].0[..2], model.roots);
}

/// Pinned: a change here is a change of the format.
#[test]
fn roots_are_pinned() {
    let mut pinned = Vec::new();
    for function in FUNCTIONS {
        let (mut store, mut model) = (open(&Backend::Mem, function), Model::new(function));
        let mut hex = Vec::new();
        for height in 0..3u32 {
            let op = |i: u32| {
                let value = (!(i + height).is_multiple_of(10)).then(|| vec![i as u8]);
                ((i * 5 + height * 1000).to_be_bytes().to_vec(), value)
            };
            let ops: Vec<Op> = (0..3000).map(op).collect();
            model.block(&ops);
            let delta = delta_of(&store, &ops, &mut ChaCha8Rng::seed_from_u64(0));
            let prepared = store.prepare(delta, u64::from(height)).expect("a block");
            store.commit(prepared).expect("a block");
            assert_eq!(store.root(), model.root());
            hex.push(store.root()[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        }
        pinned.push(format!("{function}: {}", hex.join(" ")));
    }
    assert_eq!(
        pinned,
        [
            "sha256: 16ea07c75d5d1a59 62a8ec8b3451e864 1e4667fc87fb5e81",
            "keccak256: 37f2f2456dc3a293 0c5c3dbf9036a4ed 341831ed0a2d4f23",
            "blake3: a4c8ffa4146122c6 46d701a5507c71ee c747c4fe9d9baa9f",
        ]
    );
}

#[test]
fn the_last_operation_on_a_key_counts() {
    let mut store = open(&Backend::Mem, HashFn::Sha256);
    let mut delta = Delta::new();
    delta.put(b"a", b"1");
    delta.put(b"b", b"1");
    let genesis = store.prepare(delta, 0).expect("a block");
    store.commit(genesis).expect("a block");
    let (before, a) = (store.root(), store.read().locate(b"a").expect("a exists"));

    let mut delta = Delta::new();
    delta.put(b"a", b"2");
    delta.delete_at(a);
    delta.put_at(a, b"1"); // as it was
    delta.delete(b"b");
    delta.put(b"b", b"1"); // as it was
    delta.put(b"c", b"1");
    delta.delete(b"c"); // created and deleted
    delta.delete(b"d"); // never there
    let prepared = store.prepare(delta, 1).expect("a block");
    assert_eq!((prepared.puts(), prepared.deletes(), prepared.root()), (0, 0, before));
    store.commit(prepared).expect("a block");
    assert_eq!((store.height(), store.root()), (Some(1), before), "an empty block keeps the root");
}

#[test]
fn misuse_is_an_error_and_changes_nothing() {
    let mut store = open(&Backend::Mem, HashFn::Sha256);
    let put = |key: &[u8]| {
        let mut delta = Delta::new();
        delta.put(key, b"v");
        delta
    };
    assert!(matches!(store.prepare(put(b"a"), 1), Err(Error::Height { expected: 0, got: 1 })));
    let genesis = store.prepare(put(b"a"), 0).expect("a block");
    let sibling = store.prepare(put(b"b"), 0).expect("a block");
    store.commit(genesis).expect("a block");
    let root = store.root();
    assert!(matches!(store.commit(sibling), Err(Error::Stale { height: 0 })));

    let other = open(&Backend::Mem, HashFn::Sha256);
    let foreign = other.prepare(put(b"b"), 0).expect("a block");
    assert!(matches!(store.commit(foreign), Err(Error::Stale { height: 0 })));

    for (key, value) in [(vec![0; 256], vec![]), (vec![], vec![0; 65536])] {
        let mut delta = Delta::new();
        delta.put(&key, &value);
        assert!(matches!(store.prepare(delta, 1), Err(Error::TooLong { .. })));
    }
    let stale = store.read().locate(b"a").expect("a exists");
    let mut delta = Delta::new();
    delta.delete(b"a");
    let prepared = store.prepare(delta, 1).expect("a block");
    assert_eq!(store.root(), root);
    store.commit(prepared).expect("a block");
    let block = store.prepare(put(b"x"), 2).expect("a block");
    store.commit(block).expect("a block");
    assert_eq!(store.read().value(stale), None, "its place belongs to another key now");
    let mut delta = Delta::new();
    delta.put_at(stale, b"2");
    assert!(matches!(store.prepare(delta, 3), Err(Error::StaleLocator)));
}

#[test]
fn writes_follow_on_another_thread_in_order() {
    let dir = crate::common::folder();
    let backend = Backend::File(dir.path().to_path_buf());
    let seed = 3;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut model = Model::new(HashFn::Sha256);
    let mut store = Store::open(StoreConfig::new(backend.clone()).with_durability(Durability::Block)).expect("a store");
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::sync_channel::<phalanx_merkle::Pending>(2);
        let writer = scope.spawn(move || receive.into_iter().for_each(|pending| pending.write().expect("a write")));
        for height in 0..40 {
            let ops = random_ops(&mut rng);
            model.block(&ops);
            let prepared = store.prepare(delta_of(&store, &ops, &mut rng), height).expect("a block");
            send.send(store.apply(prepared).expect("a block")).expect("the writer runs");
            // Proofs do not wait for the writer.
            if let Some((key, _)) = model.state.iter().next() {
                store.read().prove(key).expect("a proof").expect("the key exists");
            }
        }
        drop(send);
        writer.join().expect("the writer ends");
    });
    assert_eq!(store.written_height(), Some(39));
    drop(store);
    model.assert_equals(&open(&backend, HashFn::Sha256), &format!("seed {seed}"));
}

#[test]
fn writing_out_of_order_or_dropping_a_write_ends_the_handle() {
    for drop_it in [false, true] {
        let dir = crate::common::folder();
        let backend = Backend::File(dir.path().to_path_buf());
        let mut store = open(&backend, HashFn::Sha256);
        let mut apply = |height| {
            let mut delta = Delta::new();
            delta.put(b"height", &[height as u8]);
            let prepared = store.prepare(delta, height).expect("a block");
            let root = prepared.root();
            (store.apply(prepared).expect("a block"), root)
        };
        let (first, root) = apply(0);
        let (second, _) = apply(1);
        let (third, _) = apply(2);
        first.write().expect("a write");
        if drop_it {
            drop(second);
            assert!(matches!(third.write(), Err(Error::Poisoned)));
        } else {
            assert!(matches!(third.write(), Err(Error::OutOfOrder { expected: 1, got: 2 })));
            assert!(matches!(second.write(), Err(Error::Poisoned)));
        }
        assert!(matches!(store.prepare(Delta::new(), 3), Err(Error::Poisoned)));
        assert!(matches!(store.read().prove(b"height"), Err(Error::Poisoned)));
        assert!(matches!(store.flush(), Err(Error::Poisoned)));
        assert_eq!(store.read().get(b"height"), Some(&[2][..]), "memory can still be read");
        drop(store);
        let store = open(&backend, HashFn::Sha256);
        assert_eq!((store.height(), store.root()), (Some(0), root));
    }
}

#[test]
fn locating_many_equals_locating_each() {
    let mut store = open(&Backend::Mem, HashFn::Blake3);
    let keys: Vec<[u8; 20]> = (0..5000u32).map(|i| std::array::from_fn(|at| (i >> (at % 4 * 8)) as u8)).collect();
    let mut delta = Delta::new();
    keys.iter().step_by(2).for_each(|key| delta.put(key, &key[..7]));
    let genesis = store.prepare(delta, 0).expect("a block");
    store.commit(genesis).expect("a block");
    for len in [0, 1, 15, 16, 17, 5000] {
        let (mut found, reader) = (Vec::new(), store.read());
        reader.get_many(keys[..len].iter().map(<[u8; 20]>::as_slice), |item| {
            found.push(item.map(|(value, at)| (value.to_vec(), at)));
        });
        assert_eq!(found.len(), len);
        for (i, (key, item)) in keys.iter().zip(found).enumerate() {
            let expected = (i % 2 == 0).then(|| (key[..7].to_vec(), reader.locate(key)));
            assert_eq!(item, expected);
            assert_eq!(
                reader.locate(key).and_then(|at| reader.value(at)),
                expected.as_ref().map(|(value, _)| &value[..])
            );
        }
    }
}
