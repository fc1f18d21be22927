//! Snapshots: equal bytes from stores of different history, bad chunks refused alone, restores that go on.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use phalanx_merkle::{
    Backend, CodeRule, Contents, Delta, Error, Hash, HashFn, Memory, Params, Restore, Sentinels, Store, StoreConfig,
    snapshot::{Chunk, Importer, Manifest, SnapshotError},
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Seed of the environment, or `default`.
fn seed(default: u64) -> u64 {
    std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(default)
}

fn path_of(backend: &Backend) -> std::path::PathBuf {
    match backend {
        Backend::File(path) => path.clone(),
        #[cfg(feature = "rocksdb")]
        Backend::Rocks(path) => path.clone(),
        _ => panic!("a place on disk"),
    }
}

/// Values of 33 bytes that begin with 1 name code.
fn contents() -> Contents {
    Contents {
        is_key: |key| !key.is_empty(),
        code: Some(CodeRule {
            named: |_, value| {
                value.split_first().filter(|(kind, _)| **kind == 1).and_then(|(_, hash)| hash.try_into().ok())
            },
            hash: |code| HashFn::Blake3.key(code),
        }),
    }
}

fn code(number: u64) -> Vec<u8> {
    vec![number as u8; 1 + number as usize % 900]
}

fn config(backend: Backend, params: Params) -> StoreConfig {
    StoreConfig::new(backend).with_params(params).with_contents(contents())
}

/// Block of a chain: many small keys, some deleted, some with code.
fn delta(seed: u64, height: u64, keys: u64) -> Delta {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ height << 20);
    let mut delta = Delta::new();
    let changes = if height == 0 { keys } else { keys / 8 };
    for number in 0..changes {
        let key = if height == 0 { number } else { rng.random_range(0..keys * 5 / 4) };
        let key = key.to_be_bytes().repeat(1 + key as usize % 4);
        match rng.random_range(0..10) {
            0 if height > 0 => delta.delete(&key),
            1 => {
                let which = rng.random_range(0..40);
                let hash = HashFn::Blake3.key(&code(which));
                delta.put_code(hash, code(which));
                delta.put(&key, &[&[1][..], &hash].concat());
            }
            _ => delta.put(&key, &rng.random::<[u8; 24]>()[..rng.random_range(2..24)]),
        }
    }
    delta
}

fn grow(store: &mut Store, seed: u64, keys: u64, to: u64) {
    for height in store.height().map_or(0, |height| height + 1)..=to {
        let prepared = store.prepare(delta(seed, height, keys), height).expect("a block");
        store.commit(prepared.with_payload(vec![height as u8; 3]).expect("short")).expect("a block");
    }
}

fn chunks(store: &Store) -> (Vec<u8>, Vec<Vec<u8>>) {
    let exporter = store.exporter(store.tip()).expect("the tip");
    let chunks = (0..exporter.manifest().chunks()).map(|number| exporter.chunk(number).expect("a chunk"));
    (exporter.manifest().encode().to_vec(), chunks.collect())
}

fn backends(dir: &Path, name: &str) -> Vec<Backend> {
    vec![
        Backend::File(dir.join(format!("{name}-file"))),
        #[cfg(feature = "rocksdb")]
        Backend::Rocks(dir.join(format!("{name}-rocks"))),
    ]
}

fn restored(config: StoreConfig, manifest: &[u8], chunks: &[Vec<u8>]) -> Store {
    let Manifest { height, root, .. } = Manifest::decode(manifest).expect("a manifest");
    let mut restore = Restore::begin(config, manifest, height, &root).expect("an empty place");
    for (number, chunk) in chunks.iter().enumerate().rev() {
        restore.accept(number as u64, chunk).expect("a proven chunk");
    }
    restore.finish(vec![9]).expect("a store")
}

#[test]
fn stores_of_different_history_give_the_same_bytes() {
    let seed = seed(390);
    for (round, keys, params) in [
        (0, 9_000, Params::default()),
        (1, 1_500, Params { sentinels: Sentinels::new(12).expect("4,096"), ..Params::with_hash(HashFn::Blake3) }),
        (2, 50, Params { sentinels: Sentinels::new(1).expect("two"), ..Params::with_hash(HashFn::Keccak256) }),
    ] {
        let dir = crate::common::folder();
        let mut seen: Vec<(Vec<u8>, Vec<Vec<u8>>)> = Vec::new();
        for (which, backend) in backends(dir.path(), "life").into_iter().enumerate() {
            // One store lives on; the other is reopened, paged, with checkpoints of another cadence, pruned, and rewound.
            let first = config(backend.clone(), params);
            let mut store = Store::open(first.clone()).expect("a store");
            for height in [3, 7, 11, 20, 26, 30] {
                grow(&mut store, seed, keys, height);
                if which == 1 || cfg!(not(feature = "rocksdb")) && height == 20 {
                    store.prune().expect("a prune");
                    drop(store);
                    let memory = if height % 2 == 0 { Memory::Resident } else { Memory::Cached { bytes: 1 << 20 } };
                    store =
                        Store::open(first.clone().with_checkpoint_bytes(1 << 16).with_memory(memory)).expect("a store");
                    store.rewind(Some(height - 2)).and_then(|pending| pending.write()).expect("a rewind");
                    grow(&mut store, seed, keys, height);
                }
            }
            seen.push(chunks(&store));
        }
        let (manifest, chunks_of) = seen[0].clone();
        assert!(seen.iter().all(|other| *other == seen[0]), "seed {seed} round {round}: other bytes");
        for memory in [Memory::Resident, Memory::Cached { bytes: 1 << 20 }] {
            for backend in backends(dir.path(), if memory == Memory::Resident { "restored" } else { "paged" }) {
                let at = format!("seed {seed} round {round} {backend:?} {memory:?}");
                let config = config(backend, params).with_memory(memory);
                let mut store = restored(config.clone(), &manifest, &chunks_of);
                assert_eq!(store.payload(), [9], "{at}");
                store.check().expect(&at);
                assert_eq!(chunks(&store), seen[0], "{at}: a restored store gives the same bytes");
                // It goes on like the others, is reopened, pruned, exported and imported.
                grow(&mut store, seed, keys, 36);
                drop(store);
                let mut store = Store::open(config.clone()).expect(&at);
                store.rewind(Some(33)).and_then(|pending| pending.write()).expect(&at);
                grow(&mut store, seed, keys, 60);
                store.prune().expect(&at);
                let mut other = Store::open(config_of(dir.path(), params)).expect("a store");
                grow(&mut other, seed, keys, 60);
                assert_eq!(store.root(), other.root(), "{at}");
                assert_eq!(chunks(&store), chunks(&other), "{at}");
            }
        }
    }
}

/// The first life's store, which is continued.
fn config_of(dir: &Path, params: Params) -> StoreConfig {
    config(Backend::File(dir.join("life-file")), params)
}

#[test]
fn a_restored_store_is_exported_and_imported() {
    let seed = seed(391);
    let dir = crate::common::folder();
    let mut store = Store::open(config(Backend::File(dir.path().join("a")), Params::default())).expect("a store");
    grow(&mut store, seed, 5_000, 12);
    let (manifest, chunks_of) = chunks(&store);
    let mut store = restored(config(Backend::File(dir.path().join("b")), Params::default()), &manifest, &chunks_of);
    grow(&mut store, seed, 5_000, 15);
    let mut stream = Vec::new();
    store.export(&mut stream).expect("an export");
    for backend in backends(dir.path(), "c") {
        let copy = Store::import(config(backend, Params::default()), &mut &stream[..]).expect("an import");
        assert_eq!(chunks(&copy), chunks(&store));
    }
}

#[test]
fn a_changed_chunk_is_refused_alone() {
    let seed = seed(392);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let dir = crate::common::folder();
    let mut store = Store::open(config(Backend::File(dir.path().join("a")), Params::default())).expect("a store");
    grow(&mut store, seed, 60_000, 9);
    let (bytes, chunks_of) = chunks(&store);
    let manifest = Manifest::decode(&bytes).expect("a manifest");
    assert!(chunks_of.len() > 2, "{}", chunks_of.len());
    let verify = |number: u64, chunk: &[u8]| Chunk::verify(&manifest, &contents(), number, chunk).map(|_| ());
    for round in 0..120 {
        let number = rng.random_range(0..chunks_of.len());
        let mut chunk = chunks_of[number].clone();
        let at = rng.random_range(0..chunk.len());
        match round % 6 {
            0 => chunk.truncate(at),
            1 => drop(chunk.remove(at)),
            2 => chunk.insert(at, rng.random()),
            3 => chunk.push(rng.random()),
            _ => chunk[at] ^= 1 << rng.random_range(0..8),
        }
        if chunk != chunks_of[number] {
            assert!(verify(number as u64, &chunk).is_err(), "seed {seed} round {round} chunk {number} at {at}");
        }
    }
    // At the ends of each chunk every byte counts.
    for (number, chunk) in chunks_of.iter().enumerate() {
        assert_eq!(verify(number as u64, chunk), Ok(()));
        for at in (0..40).chain(chunk.len() - 40..chunk.len()) {
            let mut chunk = chunk.clone();
            chunk[at] ^= 1;
            assert!(verify(number as u64, &chunk).is_err(), "chunk {number} at {at}");
        }
    }
    // Chunks of other numbers, heights and roots.
    assert_eq!(verify(0, &chunks_of[1]), Err(SnapshotError::Root));
    assert_eq!(verify(chunks_of.len() as u64, &chunks_of[0]), Err(SnapshotError::Number(chunks_of.len() as u64)));
    grow(&mut store, seed, 60_000, 10);
    let (later, later_chunks) = chunks(&store);
    assert!(later_chunks.iter().zip(0..).all(|(chunk, number)| verify(number, chunk).is_err()));
    let importer = |bytes: &[u8], height, root: &Hash| Importer::new(bytes, contents(), height, root).map(|_| ());
    assert_eq!(importer(&bytes, 9, &manifest.root), Ok(()));
    assert_eq!(importer(&later, 9, &manifest.root), Err(SnapshotError::Untrusted));
    assert_eq!(importer(&bytes, 8, &manifest.root), Err(SnapshotError::Untrusted));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        assert!(importer(&changed, 9, &manifest.root).is_err(), "byte {at} of the manifest");
        assert!(importer(&bytes[..at], 9, &manifest.root).is_err(), "cut at {at}");
    }
    // Keys and code that the application's rules exclude.
    let rules = Contents { is_key: |key| key.len() != 16, ..contents() };
    let refused = (0..).zip(&chunks_of).map(|(number, chunk)| Chunk::verify(&manifest, &rules, number, chunk).err());
    assert!(refused.into_iter().any(|error| error == Some(SnapshotError::Key)));
}

#[test]
fn an_interrupted_restore_goes_on() {
    let seed = seed(393);
    let dir = crate::common::folder();
    let mut store = Store::open(config(Backend::File(dir.path().join("a")), Params::default())).expect("a store");
    grow(&mut store, seed, 60_000, 5);
    let (bytes, chunks_of) = chunks(&store);
    let Manifest { height, root, .. } = Manifest::decode(&bytes).expect("a manifest");
    for backend in backends(dir.path(), "b") {
        let config = config(backend, Params::default());
        let place = &path_of(&config.backend);
        let partial = phalanx_merkle::interrupted_import;
        let begin = || Restore::begin(config.clone(), &bytes, height, &root).expect("a restore");
        let mut restore = begin();
        restore.accept(1, &chunks_of[1]).expect("a chunk");
        assert!(matches!(restore.accept(0, &chunks_of[1]), Err(Error::Snapshot(SnapshotError::Root))));
        assert!(matches!(Restore::begin(config.clone(), &bytes, height, &root), Err(Error::Locked { .. })), "it runs");
        drop(restore);
        assert!(!place.exists(), "it is no store yet");
        // A chunk that was damaged meanwhile is missing again, and so is one whose writing was interrupted.
        let mut restore = begin();
        assert!(!restore.missing().any(|number| number == 1));
        restore.accept(0, &chunks_of[0]).expect("a chunk");
        drop(restore);
        let place_of = |number: u64| partial(place).expect("it is interrupted").join(format!("{number:08}.chunk"));
        std::fs::write(place_of(0), &chunks_of[0][1..]).expect("a file");
        std::fs::write(place_of(2).with_extension("new"), b"torn").expect("a file");
        let mut restore = begin();
        let missing: Vec<u64> = restore.missing().collect();
        assert_eq!(missing, (0..chunks_of.len() as u64).filter(|number| *number != 1).collect::<Vec<_>>());
        for number in missing {
            restore.accept(number, &chunks_of[number as usize]).expect("a chunk");
        }
        let copy = restore.finish(Vec::new()).expect("a store");
        assert_eq!(copy.root(), store.root());
        assert_eq!(partial(place), None, "nothing is left beside");
        assert!(
            matches!(Restore::begin(config.clone(), &bytes, height, &root), Err(Error::NotEmpty { .. })),
            "it is taken"
        );
    }
    // What is left is removed at one call.
    let config = config(Backend::File(dir.path().join("c")), Params::default());
    drop(Restore::begin(config, &bytes, height, &root).expect("a restore"));
    assert!(phalanx_merkle::discard_import(&dir.path().join("c")).expect("a folder"));
    assert!(!phalanx_merkle::discard_import(&dir.path().join("c")).expect("no folder"));
}

/// Keys that were compared with the rules, by the test that counts them.
static KEYS_SEEN: AtomicU64 = AtomicU64::new(0);

#[test]
fn a_chunk_is_verified_once_when_it_comes_and_once_when_it_is_used() {
    let seed = seed(395);
    let dir = crate::common::folder();
    let mut store = Store::open(config(Backend::File(dir.path().join("a")), Params::default())).expect("a store");
    grow(&mut store, seed, 9_000, 2);
    let (bytes, chunks_of) = chunks(&store);
    let manifest = Manifest::decode(&bytes).expect("a manifest");
    let counted = Contents {
        is_key: |key| {
            KEYS_SEEN.fetch_add(1, Relaxed);
            !key.is_empty()
        },
        ..contents()
    };
    let into = config(Backend::File(dir.path().join("b")), Params::default()).with_contents(counted);
    let mut restore = Restore::begin(into, &bytes, manifest.height, &manifest.root).expect("a restore");
    for (number, chunk) in (0..).zip(&chunks_of) {
        KEYS_SEEN.store(0, Relaxed);
        Chunk::verify(&manifest, &counted, number, chunk).expect("a proven chunk");
        let once = KEYS_SEEN.swap(0, Relaxed);
        restore.accept(number, chunk).expect("a proven chunk");
        assert_eq!(KEYS_SEEN.load(Relaxed), once, "chunk {number}");
        assert!(once > 0 && !restore.missing().any(|missing| missing == number), "chunk {number}");
    }
    KEYS_SEEN.store(0, Relaxed);
    assert_eq!(restore.finish(Vec::new()).expect("a store").root(), store.root());
    assert_eq!(KEYS_SEEN.load(Relaxed), store.len() as u64, "the chunks on disk are verified before they are used");
}

#[test]
fn an_exporter_outlives_later_blocks_and_ends_with_its_positions() {
    let seed = seed(394);
    let dir = crate::common::folder();
    for backend in backends(dir.path(), "a") {
        let mut store = Store::open(config(backend, Params::default())).expect("a store");
        grow(&mut store, seed, 20_000, 5);
        let (_, expected) = chunks(&store);
        let exporter = store.exporter(store.tip()).expect("the tip");
        grow(&mut store, seed, 20_000, 8);
        // The state of an earlier block that can be rewound to is exported as well.
        let past = store.exporter(store.block_at(5).expect("a block")).expect("a block");
        for (number, expected) in expected.iter().enumerate() {
            assert!(exporter.chunk(number as u64).expect("a chunk") == *expected);
            assert!(past.chunk(number as u64).expect("a chunk") == *expected);
        }
        store.rewind(Some(4)).and_then(|pending| pending.write()).expect("a rewind");
        assert!(matches!(exporter.chunk(0), Err(Error::Gone { .. })));
    }
    let store = Store::open(config(Backend::Mem, Params::default())).expect("a store");
    assert!(store.exporter(store.tip()).is_err());
}

#[test]
fn pruning_leaves_what_an_exporter_reads() {
    let seed = seed(395);
    let dir = crate::common::folder();
    for backend in backends(dir.path(), "a") {
        let mut store = Store::open(config(backend, Params::default()).with_history(1)).expect("a store");
        grow(&mut store, seed, 20_000, 5);
        let (_, expected) = chunks(&store);
        let exporter = store.exporter(store.tip()).expect("the tip");
        let copy = exporter.clone();
        grow(&mut store, seed, 20_000, 60);
        store.prune().expect("a prune");
        drop(copy);
        store.prune().expect("a prune");
        for (number, expected) in expected.iter().enumerate() {
            assert!(exporter.chunk(number as u64).expect("a chunk") == *expected);
        }
        drop(exporter);
        assert!(store.prune().expect("a prune") > 0, "what it has held goes with it");
    }
}

/// Time and bytes of a large state: `PHALANX_KEYS=16777216 cargo test --release -p phalanx-merkle --test it large -- --nocapture`.
#[test]
fn a_large_state_is_exported_and_restored() {
    let keys: u64 = std::env::var("PHALANX_KEYS").ok().and_then(|keys| keys.parse().ok()).unwrap_or(1 << 14);
    let dir = crate::common::folder();
    let mut store = Store::open(config(Backend::File(dir.path().join("a")), Params::default())).expect("a store");
    let mut genesis = Delta::new();
    for key in 0..keys {
        genesis.put(&key.to_be_bytes().repeat(3)[..20], &[7; 12]);
    }
    let prepared = store.prepare(genesis, 0).expect("a block");
    store.commit(prepared).expect("a block");
    let time = std::time::Instant::now();
    let exporter = store.exporter(store.tip()).expect("the tip");
    let manifest = *exporter.manifest();
    let begun = time.elapsed();
    let target = config(Backend::File(dir.path().join("b")), Params::default());
    let mut restore = Restore::begin(target, &manifest.encode(), 0, &manifest.root).expect("a restore");
    let (mut bytes, mut made, mut taken) = (0, std::time::Duration::ZERO, std::time::Duration::ZERO);
    for number in 0..manifest.chunks() {
        let time = std::time::Instant::now();
        let chunk = exporter.chunk(number).expect("a chunk");
        made += time.elapsed();
        let time = std::time::Instant::now();
        restore.accept(number, &chunk).expect("a chunk");
        taken += time.elapsed();
        bytes += chunk.len();
    }
    let time = std::time::Instant::now();
    let copy = restore.finish(Vec::new()).expect("a store");
    println!(
        "{keys} keys: exporter {begun:?}, {} chunks, {bytes} bytes, made in {made:?}, checked and kept in {taken:?}, \
         restored in {:?}",
        manifest.chunks(),
        time.elapsed()
    );
    assert_eq!(copy.root(), store.root());
}
