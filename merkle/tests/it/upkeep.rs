//! Pruning, checking and copying keep the state, its root and its proofs.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::common::{Model, chain_ops, config, open, plain};
use phalanx_merkle::{Backend, Delta, Error, HashFn, Store, verify_inclusion};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

fn chain(backend: &Backend, seed: u64, blocks: u64) -> (Store, Model) {
    let (mut store, mut model) = (open(backend, HashFn::Sha256), Model::new(HashFn::Sha256));
    for height in 0..blocks {
        let ops = chain_ops(seed, height);
        model.block(&ops);
        let mut delta = plain(&ops);
        delta.put_code([height as u8; 32], vec![height as u8; 100]);
        let prepared = store.prepare(delta, height).expect("a block").with_payload(vec![height as u8]).expect("short");
        store.commit(prepared).expect("a block");
    }
    (store, model)
}

fn copies(from: &Backend, to: impl Fn(&Path) -> Backend) {
    let seed = 21;
    let (store, model) = chain(from, seed, 30);
    let mut stream = Vec::new();
    assert_eq!(store.export(&mut stream).expect("an export"), 30);
    let dir = crate::common::folder();
    let backend = to(&dir.path().join("copy"));
    let copy = Store::import(config(&backend, HashFn::Sha256), &mut &stream[..]).expect("an import");
    model.assert_equals(&copy, "the copy");
    assert_eq!(copy.payload(), store.payload());
    for key in model.state.keys().take(50) {
        assert_eq!(copy.read().prove(key).expect("a proof"), store.read().prove(key).expect("a proof"));
    }
    assert_eq!(copy.code(&[7; 32]).expect("code").as_deref(), Some(&[7; 100][..]));
    let twigs = copy.check().expect("a sound copy");
    assert_eq!(store.check().expect("a sound store"), twigs);
    let again = Store::import(config(&backend, HashFn::Sha256), &mut &stream[..]);
    assert!(matches!(again, Err(Error::NotEmpty { .. })), "the place is taken");
    let other = Store::import(config(&to(&dir.path().join("other")), HashFn::Blake3), &mut &stream[..]);
    assert!(matches!(other, Err(Error::Format { .. })), "{other:?}");

    // An import of a damaged stream is one of the chain's states, or an error.
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for round in 0..60 {
        let mut damaged = stream.clone();
        let at = rng.random_range(0..damaged.len());
        if round % 2 == 0 {
            damaged.truncate(at);
        } else {
            damaged[at] ^= 1 << rng.random_range(0..8);
        }
        let place = dir.path().join(format!("damaged {round}"));
        match Store::import(config(&to(&place), HashFn::Sha256), &mut &damaged[..]) {
            Ok(store) => assert!(model.roots.contains(&store.root()), "seed {seed} round {round}"),
            Err(Error::Corrupt { .. } | Error::Format { .. }) => {
                assert!(!place.exists(), "seed {seed} round {round}: what is left passes for a store");
            }
            Err(other) => panic!("seed {seed} round {round}: {other}"),
        }
    }
}

#[test]
fn a_copy_of_a_file_is_the_same_store() {
    let dir = crate::common::folder();
    copies(&Backend::File(dir.path().to_path_buf()), |path| Backend::File(path.to_path_buf()));
}

#[cfg(feature = "rocksdb")]
#[test]
fn copies_go_from_one_backend_to_another() {
    let dir = crate::common::folder();
    copies(&Backend::File(dir.path().join("file")), |path| Backend::Rocks(path.to_path_buf()));
    copies(&Backend::Rocks(dir.path().join("rocks")), |path| Backend::File(path.to_path_buf()));
}

/// Exports and checks on one thread while another commits, prunes and rewinds.
fn copies_meanwhile(backend: &Backend) {
    let seed = 23;
    let (mut store, mut model) = chain(backend, seed, 12);
    let dir = crate::common::folder();
    let background = store.background();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let copier = scope.spawn(|| {
            let (mut copies, mut gone) = (Vec::new(), 0);
            while !done.load(Ordering::Acquire) || copies.is_empty() {
                let mut stream = Vec::new();
                match background.export(&mut stream) {
                    Ok(_) => copies.push(stream),
                    Err(Error::Gone { .. }) => gone += 1,
                    Err(other) => panic!("seed {seed}: {other}"),
                }
                assert!(background.check().expect("a sound store") < 1000);
                copies.drain(..copies.len().saturating_sub(6));
            }
            (copies, gone)
        });
        for height in 12..60 {
            let ops = chain_ops(seed, height);
            model.block(&ops);
            let prepared = store.prepare(plain(&ops), height).expect("a block");
            store.commit(prepared).expect("a block");
            if height % 5 == 0 {
                store.rewind(Some(height - 1)).expect("a way back").write().expect("a write");
                let prepared = store.prepare(plain(&ops), height).expect("a block");
                store.commit(prepared).expect("a block");
            }
            if height % 7 == 0 {
                store.prune().expect("a pruned store");
            }
        }
        done.store(true, Ordering::Release);
        let (copies, gone) = copier.join().expect("the copier");
        println!("{} copies, {gone} pruned meanwhile", copies.len());
        for (at, stream) in copies.iter().enumerate() {
            let place = Backend::File(dir.path().join(format!("{at}")));
            let copy = Store::import(config(&place, HashFn::Sha256), &mut &stream[..]).expect("an import");
            let height = copy.height().expect("a block") as usize;
            assert_eq!(copy.root(), model.roots[height], "seed {seed} height {height}");
        }
    });
    drop(background);
    drop(store);
    model.assert_equals(&open(backend, HashFn::Sha256), "afterwards");
}

#[test]
fn a_file_is_copied_and_checked_beside_commits() {
    let dir = crate::common::folder();
    copies_meanwhile(&Backend::File(dir.path().to_path_buf()));
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_database_is_copied_and_checked_beside_commits() {
    let dir = crate::common::folder();
    copies_meanwhile(&Backend::Rocks(dir.path().to_path_buf()));
}

/// Writer that discards its input, after a callback.
struct Before<F>(Vec<u8>, F);

impl<F: FnMut()> std::io::Write for Before<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.1();
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A slow writer of an export: every write waits for a commit or for pruning.
fn copies_wait_for_blocks(backend: &Backend) {
    let seed = 29;
    for prunes in [false, true] {
        let (mut store, mut model) = chain(backend, seed, 6);
        let (background, copied) = (store.background(), model.roots.len());
        let (ask, asked) = std::sync::mpsc::channel::<()>();
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for () in asked {
                    let height = model.roots.len() as u64;
                    // The model is slow.
                    if height < 26 {
                        let ops = chain_ops(seed, height);
                        model.block(&ops);
                        store.commit(store.prepare(plain(&ops), height).expect("a block")).expect("a block");
                    } else {
                        store.flush().expect("a write");
                    }
                    if prunes {
                        store.prune().expect("a pruned store");
                    }
                    done.send(()).expect("the receiver lives");
                }
            });
            let mut out = Before(Vec::new(), || {
                ask.send(()).expect("the writer lives");
                is_done.recv().expect("it is done");
            });
            let exported = background.export(&mut out);
            let Before(stream, _) = out;
            match exported {
                Ok(_) => {
                    let dir = crate::common::folder();
                    let place = Backend::File(dir.path().join("copy"));
                    let copy = Store::import(config(&place, HashFn::Sha256), &mut &stream[..]).expect("an import");
                    assert_eq!(copy.height(), Some(copied as u64 - 1));
                }
                Err(Error::Gone { .. }) if prunes => {}
                Err(other) => panic!("{other}"),
            }
            drop(ask);
        });
        drop((background, store));
        if let Backend::File(path) = backend {
            std::fs::remove_dir_all(path).expect("a directory");
        }
    }
}

#[test]
fn a_file_is_copied_by_a_writer_that_waits_for_blocks() {
    let dir = crate::common::folder();
    copies_wait_for_blocks(&Backend::File(dir.path().join("store")));
}

/// Damage is reported, and the export of another node replaces the damaged store.
#[test]
fn a_corrupt_store_is_restored_from_an_export() {
    let dir = crate::common::folder();
    let [damaged, peer] = ["damaged", "peer"].map(|name| Backend::File(dir.path().join(name)));
    let (store, model) = chain(&damaged, 24, 20);
    drop(store);
    let path = dir.path().join("damaged/00000000.seg");
    let mut bytes = std::fs::read(&path).expect("the log");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("a write");
    let opened = Store::open(config(&damaged, HashFn::Sha256));
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    let mut stream = Vec::new();
    chain(&peer, 24, 20).0.export(&mut stream).expect("an export");
    let into_damaged = Store::import(config(&damaged, HashFn::Sha256), &mut &stream[..]);
    assert!(matches!(into_damaged, Err(Error::NotEmpty { .. })), "nothing is written over: {into_damaged:?}");
    std::fs::rename(dir.path().join("damaged"), dir.path().join("aside")).expect("another name");
    let mut restored = Store::import(config(&damaged, HashFn::Sha256), &mut &stream[..]).expect("an import");
    model.assert_equals(&restored, "restored");
    let prepared = restored.prepare(plain(&chain_ops(24, 20)), 20).expect("a block");
    restored.commit(prepared).expect("a block");
    restored.check().expect("a sound store");
}

/// A stream with correct checksums and wrong blocks.
#[test]
fn a_forged_stream_is_corrupt() {
    let dir = crate::common::folder();
    let (store, model) = chain(&Backend::File(dir.path().join("from")), 22, 12);
    let mut stream = Vec::new();
    store.export(&mut stream).expect("an export");
    let mut rng = ChaCha8Rng::seed_from_u64(22);
    let (mut frames, mut at) = (Vec::new(), 0);
    while at < stream.len() {
        let len = u32::from_be_bytes(stream[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        frames.push(at..at + 9 + len);
        at += 9 + len;
    }
    for round in 0..400 {
        let mut forged = stream.clone();
        let frame = if round % 3 == 0 {
            // A block record: its shape, positions and links.
            let blocks: Vec<_> = frames.iter().filter(|frame| stream[frame.start + 8] == 3).collect();
            blocks[rng.random_range(0..blocks.len())].clone()
        } else {
            frames[rng.random_range(1..frames.len())].clone()
        };
        let body = frame.start + 9..frame.end;
        let hit = if round % 3 == 0 { body.start..body.start + 165 } else { body };
        forged[rng.random_range(hit)] ^= 1 << rng.random_range(0..8);
        let checksum = crc32c::crc32c(&forged[frame.start + 4..frame.end]);
        forged[frame.start..frame.start + 4].copy_from_slice(&checksum.to_be_bytes());
        let place = Backend::File(dir.path().join(format!("{round}")));
        match Store::import(config(&place, HashFn::Sha256), &mut &forged[..]) {
            // The root does not bind everything in a record: ids, and numbers that an import assigns anew.
            Ok(store) => assert_eq!(Some(&store.root()), model.roots.last(), "round {round}"),
            Err(Error::Corrupt { .. }) => {}
            Err(other) => panic!("round {round}: {other}"),
        }
    }
}

fn size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("the directory");
    files.map(|file| file.expect("a file").metadata().map_or(0, |meta| meta.len())).sum()
}

/// Values so large that a few blocks fill several segments.
fn prunes(backend: &Backend, dir: &Path) {
    let config = config(backend, HashFn::Sha256).with_history(1);
    let mut store = Store::open(config.clone()).expect("a store");
    let key = |i: u32| [i.to_be_bytes().as_slice(), &[3; 16]].concat();
    for height in 0..6u64 {
        let mut delta = Delta::new();
        (0..4500).for_each(|i| delta.put(&key(i), &vec![height as u8 ^ i as u8; 16_000]));
        let prepared = store.prepare(delta, height).expect("a block");
        store.commit(prepared).expect("a block");
    }
    let (root, before) = (store.root(), size(dir));
    let pruned = store.prune().expect("a pruned store");
    assert!(pruned > 0 && store.block_at(0).is_none() && store.root() == root);
    // RocksDB may remove files on a thread of its own, which closing waits for.
    drop(store);
    assert!(size(dir) < before * 9 / 10, "{} of {before} bytes are left", size(dir));
    // A longer history than was kept: all that is there.
    assert_eq!(Store::open(config.clone().with_history(100)).expect("a store").root(), root);
    let mut store = Store::open(config).expect("a store");
    assert_eq!((store.root(), store.height(), store.len()), (root, Some(5), 4500));
    store.check().expect("a sound store");
    for i in [0, 17, 4499] {
        let proof = store.read().prove(&key(i)).expect("a proof").expect("the key exists");
        let entry = verify_inclusion(store.params(), &root, &proof).expect("a sound proof");
        assert_eq!(entry.value, vec![5 ^ i as u8; 16_000]);
    }
    // The history is there, and the chain continues.
    store.rewind(Some(4)).expect("a way back").write().expect("a write");
    let value = |store: &Store| store.read().get(&key(3)).map(|value| value[0]);
    assert_eq!(value(&store), Some(4 ^ 3));
    assert!(matches!(store.rewind(Some(3)), Err(Error::Rewind { .. })));
    let mut delta = Delta::new();
    (0..4500).for_each(|i| delta.put(&key(i), &vec![5 ^ i as u8; 16_000]));
    let prepared = store.prepare(delta, 5).expect("a block");
    assert_eq!(prepared.root(), root, "the same block again");
    store.commit(prepared).expect("a block");
}

/// An undo record needs the entries that its block replaces, and the twigs that they are in.
#[test]
fn a_pruned_file_opens_with_any_history() {
    let dir = crate::common::folder();
    let config = config(&Backend::File(dir.path().to_path_buf()), HashFn::Sha256).with_checkpoint_bytes(0);
    let mut store = Store::open(config.clone().with_history(3)).expect("a store");
    let mut roots = Vec::new();
    for height in 0..40u32 {
        let mut delta = Delta::new();
        (0..300).for_each(|i| delta.put(&((height * 311 + i) % 900).to_be_bytes(), &[height as u8; 30_000]));
        let prepared = store.prepare(delta, height.into()).expect("a block");
        roots.push(prepared.root());
        store.commit(prepared).expect("a block");
    }
    assert!(store.prune().expect("a pruned store") > 0);
    drop(store);
    for history in [1, 2, 3, 4, 6, 8, 11, 16, 30] {
        let store = Store::open(config.clone().with_history(history)).expect("a store");
        assert_eq!((store.root(), store.height()), (roots[39], Some(39)), "history of {history}");
    }
    // As far back as whole twigs are there: further than was asked for when the log was pruned.
    let mut store = Store::open(config.with_history(30)).expect("a store");
    let mut to = |height| store.rewind(Some(height)).is_ok_and(|way| way.write().is_ok());
    let back = (0..39).rev().take_while(|height| to(*height)).count();
    assert!((3..30).contains(&back), "{back}");
    assert_eq!(store.root(), roots[39 - back]);
}

#[test]
fn a_pruned_file_is_the_same_store() {
    let dir = crate::common::folder();
    prunes(&Backend::File(dir.path().to_path_buf()), dir.path());
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_pruned_database_is_the_same_store() {
    let dir = crate::common::folder();
    prunes(&Backend::Rocks(dir.path().to_path_buf()), dir.path());
}

/// A file of a database may end with the single record of the first kept block.
#[cfg(feature = "rocksdb")]
#[test]
fn a_database_keeps_the_file_that_ends_at_the_first_kept_block() {
    let dir = crate::common::folder();
    // Files move down, where they can be dropped, once there are four: the kept part must begin further back.
    let config = config(&Backend::Rocks(dir.path().to_path_buf()), HashFn::Sha256).with_history(14);
    let key = |i: u64| i.to_be_bytes();
    let (mut root, mut pruned, mut aligned) = (None, 0, 0);
    // Each opening leaves a file behind.
    for opening in 0..24u64 {
        let mut store = Store::open(config.clone()).expect("a store");
        assert!(root.is_none_or(|root| root == store.root()), "opening {opening}");
        let next = |store: &Store| store.height().map_or(0, |height| height + 1);
        // A block up to the end of a twig, and a block of a single record that begins the next: the kept part begins
        // there.
        let block = |count: u64| {
            let mut delta = Delta::new();
            (0..count).for_each(|i| delta.put(&key(i), &key(opening)));
            store.prepare(delta, next(&store)).expect("a block")
        };
        // More keys end further back.
        let (begin, end) = (block(1).shape().next_sn, block(1400).shape().next_sn);
        let reach = |wanted: u64| {
            let (mut low, mut high) = (1, 1400);
            while low < high {
                let middle = (low + high) / 2;
                if block(middle).shape().next_sn < wanted { low = middle + 1 } else { high = middle }
            }
            // Compaction makes it a little uneven.
            (low.saturating_sub(12).max(1)..low + 12).map(block).find(|block| block.shape().next_sn == wanted)
        };
        let ends = (begin / 2048 + 1..=end / 2048).map(|twig| twig * 2048);
        let reached = ends.filter_map(reach).next();
        aligned += u32::from(reached.is_some());
        let block = reached.unwrap_or_else(|| block(700 + opening));
        store.commit(block).expect("a block");
        let mut delta = Delta::new();
        delta.put(&key(1_000_000 + opening), b"new");
        let single = store.prepare(delta, next(&store)).expect("a block");
        assert_eq!((single.puts(), single.moves()), (2, 0), "opening {opening}");
        store.commit(single).expect("a block");
        root = Some(store.root());
        pruned += store.prune().expect("a pruned store");
    }
    assert!(pruned > 0 && aligned > 3, "{pruned} pruned, {aligned} aligned");
}
