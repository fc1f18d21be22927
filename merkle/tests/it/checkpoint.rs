//! A store opens from its last checkpoint as from its whole log, and ignores a checkpoint that is not sound.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::common::{Model, chain_ops, plain, random_memory};
use phalanx_merkle::{
    Backend, Delta, Error, HashFn, Ignored, Memory, Opened, Params, Store, StoreConfig,
    faults::{Faults, Step, Verdict},
    verify_inclusion,
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const WINDOW: usize = 3;

fn seed(default: u64) -> u64 {
    std::env::var("PHALANX_MERKLE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(default)
}

fn config(backend: &Backend, memory: Memory) -> StoreConfig {
    let config = StoreConfig::new(backend.clone()).with_params(Params::with_hash(HashFn::Sha256));
    config.with_history(WINDOW).with_memory(memory).with_checkpoint_bytes(20_000)
}

fn block(store: &mut Store, model: &mut Model, seed: u64) {
    let height = model.roots.len() as u64;
    let ops = chain_ops(seed, height);
    model.block(&ops);
    let prepared =
        store.prepare(plain(&ops), height).expect("a block").with_payload(vec![height as u8]).expect("short");
    assert_eq!(prepared.root(), model.roots[height as usize]);
    store.commit(prepared).expect("a block");
}

/// Asserts values, roots, proofs, the last blocks and their payloads.
fn equals(store: &mut Store, models: &[Model], context: &str) {
    let model = &models[models.len() - 1];
    model.assert_equals(store, context);
    assert_eq!(store.payload(), vec![model.roots.len() as u8 - 1], "{context}");
    for (key, value) in model.state.iter().take(12) {
        let proof = store.read().prove(key).expect(context).expect(context);
        let entry = verify_inclusion(&model.params, &store.root(), &proof).expect(context);
        assert_eq!((entry.key, entry.value), (&key[..], &value[..]), "{context}");
    }
    let window = WINDOW.min(model.roots.len() - 1);
    for depth in 1..=window {
        let past = &models[models.len() - 1 - depth];
        let block = store.block_at(past.roots.len() as u64 - 1).expect(context);
        let snapshot = store.snapshot(block).expect(context);
        let reader = snapshot.read().expect(context);
        assert_eq!(reader.root(), past.roots[past.roots.len() - 1], "{context} depth {depth}");
        past.state.iter().for_each(|(key, value)| assert_eq!(reader.get(key), Some(&value[..]), "{context}"));
    }
    assert!(store.check().is_ok(), "{context}");
}

fn reopens(backend: impl Fn(&Path) -> Backend, first: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(first);
    let dir = crate::common::folder();
    let backend = backend(dir.path());
    let mut store = Store::open(config(&backend, random_memory(&mut rng))).expect("a store");
    let mut models = vec![Model::new(HashFn::Sha256)];
    let mut from_checkpoint = 0;
    for step in 0..60 {
        let context = format!("seed {first} step {step}");
        let mut model = models[models.len() - 1].clone();
        block(&mut store, &mut model, first + step);
        models.push(model);
        if rng.random_bool(0.1) && models.len() > WINDOW + 2 {
            let back = rng.random_range(1..=WINDOW);
            let height = models[models.len() - 1 - back].roots.len() as u64 - 1;
            match store.rewind(Some(height)) {
                Ok(pending) => {
                    pending.write().expect(&context);
                    models.truncate(models.len() - back);
                }
                // An earlier rewind leaves less to rewind.
                Err(Error::Rewind { .. }) => {}
                Err(other) => panic!("{context}: {other}"),
            }
        }
        if rng.random_bool(0.1) {
            store.prune().expect(&context);
        }
        if rng.random_bool(0.15) {
            drop(store);
            let memory = random_memory(&mut rng);
            store = Store::open(config(&backend, memory).with_salt(rng.random())).expect(&context);
            from_checkpoint += usize::from(matches!(store.opened(), Opened::Checkpoint { .. }));
            let context = format!("{context} {memory:?} {:?}", store.opened());
            equals(&mut store, &models, &context);
        }
    }
    assert!(from_checkpoint > 0, "seed {first}: {from_checkpoint} of the openings used a checkpoint");
}

#[test]
fn file_reopens_from_a_checkpoint() {
    for run in 0..3 {
        reopens(|dir| Backend::File(dir.to_path_buf()), seed(500) + run);
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_reopens_from_a_checkpoint() {
    reopens(|dir| Backend::Rocks(dir.to_path_buf()), seed(600));
}

/// Builds a chain that has a checkpoint.
fn chain(backend: &Backend, memory: Memory, seed: u64) -> Vec<Model> {
    let mut models = vec![Model::new(HashFn::Sha256)];
    let mut store = Store::open(config(backend, memory)).expect("a store");
    let Backend::File(dir) = backend else { unreachable!("the tests' chains are files") };
    while models.len() < 200 && !(models.len() > 20 && dir.join("checkpoint").exists()) {
        let mut model = models[models.len() - 1].clone();
        block(&mut store, &mut model, seed);
        models.push(model);
    }
    models
}

#[test]
fn a_damaged_checkpoint_is_ignored() {
    let seed = seed(700);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for memory in [Memory::Resident, Memory::Cached { bytes: 1 << 16 }] {
        let dir = crate::common::folder();
        let backend = Backend::File(dir.path().to_path_buf());
        let models = chain(&backend, memory, seed);
        let path = dir.path().join("checkpoint");
        let sound = std::fs::read(&path).expect("a checkpoint");
        for round in 0..16 {
            let mut damaged = sound.clone();
            let at = rng.random_range(0..damaged.len());
            if round % 2 == 0 {
                damaged[at] ^= 1 << rng.random_range(0..8);
            } else {
                damaged.truncate(at);
            }
            std::fs::write(&path, damaged).expect("a write");
            let store = Store::open(config(&backend, memory)).expect("the log is sound");
            let Opened::Replayed { ignored: Some(Ignored::Damaged(_)) } = store.opened() else {
                panic!("seed {seed} byte {at}: {:?}", store.opened());
            };
            models[models.len() - 1].assert_equals(&store, &format!("seed {seed} byte {at}"));
        }
        std::fs::write(&path, &sound).expect("a write");
        let mut store = Store::open(config(&backend, memory)).expect("a store");
        assert!(matches!(store.opened(), Opened::Checkpoint { .. }), "{:?}", store.opened());
        equals(&mut store, &models, "sound again");
    }
}

#[test]
fn a_checkpoint_of_another_log_or_time_is_ignored() {
    let seed = seed(800);
    let (dir, other) = (crate::common::folder(), crate::common::folder());
    let (backend, foreign) = (Backend::File(dir.path().to_path_buf()), Backend::File(other.path().to_path_buf()));
    let memory = Memory::Cached { bytes: 1 << 20 };
    let models = chain(&backend, memory, seed);
    chain(&foreign, memory, seed + 1);
    let sound = std::fs::read(dir.path().join("checkpoint")).expect("a checkpoint");

    // More blocks must be rewindable than follow the checkpoint.
    let store = Store::open(config(&backend, memory).with_history(models.len())).expect("a store");
    assert_eq!(*store.opened(), Opened::Replayed { ignored: Some(Ignored::TooRecent) });
    drop(store);

    // A checkpoint of another store.
    let copy = crate::common::folder();
    drop(Store::open(config(&Backend::File(copy.path().to_path_buf()), memory)).expect("a new store"));
    std::fs::write(copy.path().join("checkpoint"), &sound).expect("a write");
    let mut shorter = Store::open(config(&Backend::File(copy.path().to_path_buf()), memory)).expect("a store");
    assert_eq!(*shorter.opened(), Opened::Replayed { ignored: Some(Ignored::Foreign) });
    let mut model = Model::new(HashFn::Sha256);
    (0..4).for_each(|_| block(&mut shorter, &mut model, seed));
    model.assert_equals(&shorter, "a store of its own");
    drop(shorter);

    std::fs::copy(other.path().join("checkpoint"), dir.path().join("checkpoint")).expect("a copy");
    let store = Store::open(config(&backend, memory));
    match store {
        Ok(store) => {
            assert_eq!(*store.opened(), Opened::Replayed { ignored: Some(Ignored::Foreign) });
            models[models.len() - 1].assert_equals(&store, "with a foreign checkpoint");
        }
        Err(error) => panic!("the log itself is sound: {error}"),
    }
}

/// The tip's note is neither in the checkpoint nor in a block.
fn keeps_notes(backend: &Backend) {
    let seed = seed(900);
    let mut models = vec![Model::new(HashFn::Sha256)];
    let config = || config(backend, Memory::Resident).with_history(0).with_checkpoint_bytes(1);
    let mut store = Store::open(config()).expect("a store");
    let mut from_checkpoint = 0;
    for height in 0..30u8 {
        let mut model = models[models.len() - 1].clone();
        block(&mut store, &mut model, seed);
        models.push(model);
        assert!(store.note().is_empty());
        // Some blocks have no note.
        let note = vec![height; usize::from(height % 3)];
        if !note.is_empty() {
            store.annotate(note.clone()).expect("a note").write().expect("a write");
        }
        if height % 4 == 3 {
            drop(store);
            store = Store::open(config()).expect("a store");
            let context = format!("seed {seed} height {height} {:?}", store.opened());
            from_checkpoint += usize::from(matches!(store.opened(), Opened::Checkpoint { .. }));
            assert_eq!(store.note(), note, "{context}");
            models[models.len() - 1].assert_equals(&store, &context);
        }
    }
    assert!(from_checkpoint > 1, "{from_checkpoint} of the openings used a checkpoint");
}

#[test]
fn the_tips_note_survives_opening_from_a_checkpoint() {
    let dir = crate::common::folder();
    keeps_notes(&Backend::File(dir.path().to_path_buf()));
    #[cfg(feature = "rocksdb")]
    {
        let dir = crate::common::folder();
        keeps_notes(&Backend::Rocks(dir.path().to_path_buf()));
    }
}

/// Fails once, at a chosen step.
#[derive(Debug)]
struct Flaw {
    wanted: fn(Step<'_>) -> bool,
    at: u64,
    step: AtomicU64,
}

impl Faults for Flaw {
    fn before(&self, step: Step<'_>) -> Verdict {
        if !(self.wanted)(step) || self.step.fetch_add(1, Ordering::Relaxed) + 1 != self.at {
            return Verdict::Go;
        }
        match step {
            Step::Append(_, len) => Verdict::Tear(len / 2, io::Error::other("torn")),
            _ => Verdict::Fail(io::Error::other("failed")),
        }
    }
}

/// Returns true for a step on a checkpoint.
fn of_checkpoint(step: Step<'_>) -> bool {
    let (Step::Read(path) | Step::Append(path, _) | Step::Cut(path, _) | Step::Sync(path) | Step::Rename(path, _)) =
        step
    else {
        return false;
    };
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("checkpoint"))
}

/// With a disk that writes blocks at any time, only a checkpoint makes anything durable.
fn syncs_segment(step: Step<'_>) -> bool {
    matches!(step, Step::Sync(path) if path.extension().is_some_and(|name| name == "seg"))
}

#[test]
fn a_failed_checkpoint_changes_nothing() {
    let seed = seed(950);
    for at in 1.. {
        let dir = crate::common::folder();
        let backend = Backend::File(dir.path().to_path_buf());
        let flaw = Arc::new(Flaw { wanted: of_checkpoint, at, step: AtomicU64::new(0) });
        let (mut model, mut models) = (Model::new(HashFn::Sha256), Vec::new());
        for _ in 0..3 {
            let faults: Arc<dyn Faults> = Arc::<Flaw>::clone(&flaw);
            let config = config(&backend, Memory::Cached { bytes: 4000 }).with_checkpoint_bytes(1).with_faults(faults);
            let mut store = Store::open(config).expect("a checkpoint is not needed");
            model.assert_equals(&store, &format!("seed {seed} step {at}"));
            for _ in 0..7 {
                block(&mut store, &mut model, seed);
                models.push(model.clone());
            }
        }
        let mut store = Store::open(config(&backend, Memory::Resident)).expect("a store");
        let context = format!("seed {seed} step {at} {:?}", store.opened());
        equals(&mut store, &models, &context);
        if flaw.step.load(Ordering::Relaxed) < at {
            assert!(at > 10, "only {at} steps");
            break;
        }
    }
}

#[test]
fn a_sync_that_fails_for_a_checkpoint_ends_the_handle() {
    let seed = seed(970);
    let dir = crate::common::folder();
    let backend = Backend::File(dir.path().to_path_buf());
    drop(Store::open(config(&backend, Memory::Resident)).expect("a store"));
    let flaw = Arc::new(Flaw { wanted: syncs_segment, at: 1, step: AtomicU64::new(0) });
    let faults: Arc<dyn Faults> = Arc::<Flaw>::clone(&flaw);
    let config = config(&backend, Memory::Resident).with_checkpoint_bytes(1).with_faults(faults);
    let mut store = Store::open(config).expect("a store");
    let mut model = Model::new(HashFn::Sha256);
    let mut written = model.clone();
    // The other thread takes any time.
    loop {
        let height = model.roots.len() as u64;
        let mut delta = Delta::new();
        delta.put(b"key", &height.to_be_bytes());
        model.block(&[(b"key".to_vec(), Some(height.to_be_bytes().to_vec()))]);
        match store.prepare(delta, height).and_then(|prepared| store.commit(prepared)) {
            Ok(()) => written = model.clone(),
            Err(Error::Poisoned) => break,
            Err(other) => panic!("seed {seed}: {other}"),
        }
        std::thread::yield_now();
    }
    drop(store);
    let store = Store::open(StoreConfig::new(backend).with_params(Params::with_hash(HashFn::Sha256))).expect("a store");
    let height = store.height();
    assert!(height.map_or(0, |height| height + 1) >= written.roots.len() as u64, "{height:?}");
}

/// A checkpoint may be older than what was pruned: between the two a process ends, or a reader opens the store. All other keys are
/// in every block here, so only sentinels are missing.
#[test]
fn a_checkpoint_whose_entries_were_pruned_is_not_used() {
    use crate::common::life::{config, copy};
    let home = crate::common::folder();
    let (dir, image) = (home.path().join("store"), home.path().join("image"));
    let at =
        |dir: &std::path::Path| config("file", dir, phalanx_merkle::Durability::Async).with_checkpoint_bytes(1 << 14);
    let mut store = Store::open(at(&dir)).expect("a store");
    let (mut checkpoints, mut pruned, mut ignored): (Vec<Vec<u8>>, u64, u64) = (Vec::new(), 0, 0);
    // Blocks of many entries, so that a checkpoint is often just behind what the next prune drops.
    for height in 0..1500u64 {
        if ignored >= 2 && pruned > 3 {
            break;
        }
        let mut delta = Delta::new();
        (0..200u64).for_each(|key| delta.put(&key.to_be_bytes(), &(height * 1000 + key).to_be_bytes()));
        let prepared = store.prepare(delta, height).expect("a block");
        store.commit(prepared).expect("a block");
        // A checkpoint is written meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(2));
        let found = std::fs::read(dir.join("checkpoint")).unwrap_or_default();
        let is_new = !found.is_empty() && checkpoints.last() != Some(&found);
        if is_new {
            checkpoints.push(found);
        }
        let drops = store.prune().expect("a prune") > 0;
        pruned += u64::from(drops);
        if drops || is_new {
            for earlier in checkpoints.iter().rev().take(6) {
                copy(&dir, &image);
                std::fs::write(image.join("checkpoint"), earlier).expect("a write");
                let found = Store::open(at(&image).with_access(phalanx_merkle::Access::Read));
                let found = found.unwrap_or_else(|error| panic!("height {height}: {error}"));
                assert_eq!((found.height(), found.root()), (Some(height), store.root()), "{:?}", found.opened());
                ignored += u64::from(matches!(found.opened(), Opened::Replayed { ignored: Some(Ignored::Pruned) }));
                std::fs::remove_dir_all(&image).expect("the copy");
            }
        }
    }
    let context = format!("{pruned} prunes, {} checkpoints, {ignored} openings without", checkpoints.len());
    println!("{context}");
    assert!(pruned > 3 && checkpoints.len() > 3 && ignored > 0, "{context}");
}

/// Checkpoints add a part to what is written: after a reopening the length of the last one counts as before it.
#[test]
fn a_reopened_store_writes_no_checkpoint_for_a_little_log() {
    let dir = crate::common::folder();
    let config = || {
        let config = StoreConfig::new(Backend::File(dir.path().to_path_buf())).with_history(WINDOW);
        config.with_memory(Memory::Cached { bytes: 1 << 20 }).with_checkpoint_bytes(4_000)
    };
    let put = |store: &mut Store, keys: std::ops::Range<u32>| {
        let height = store.read().height().map_or(0, |height| height + 1);
        let mut delta = Delta::new();
        keys.for_each(|key| delta.put(&key.to_be_bytes(), &height.to_be_bytes()));
        let prepared = store.prepare(delta, height).expect("a block");
        store.commit(prepared).expect("a block");
    };
    let opened = || match Store::open(config()).expect("a store").opened() {
        Opened::Checkpoint { height } => *height,
        other => panic!("{other:?}"),
    };
    let mut store = Store::open(config()).expect("a store");
    (0..20).for_each(|_| put(&mut store, 0..1_000));
    // What can be rolled back lies behind the checkpoint.
    (0..WINDOW).for_each(|_| put(&mut store, 0..4));
    drop(store);
    let (at, length) = (opened(), std::fs::metadata(dir.path().join("checkpoint")).expect("a checkpoint").len());
    assert!(length > 10_000, "{length} bytes");
    // More log than lies between the least checkpoints, and less than an eighth of what this one must be apart.
    for _ in 0..3 {
        let mut store = Store::open(config()).expect("a store");
        (0..2).for_each(|_| put(&mut store, 0..4));
        drop(store);
        assert_eq!(opened(), at, "no new checkpoint");
    }
    // What is behind the checkpoint counts together, however many openings it takes.
    let session = || {
        let mut store = Store::open(config()).expect("a store");
        put(&mut store, 0..40);
        drop(store);
        opened()
    };
    let sessions = (1..100).find(|_| session() > at).expect("a new checkpoint");
    assert!(sessions > 2, "{sessions}");
    let (at, mut store) = (opened(), Store::open(config()).expect("a store"));
    (0..20).for_each(|_| put(&mut store, 0..1_000));
    drop(store);
    assert!(opened() > at, "a new checkpoint");
}
