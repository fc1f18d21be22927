//! Reads of a paged state hold no lock while they wait for the disk: blocks go on, and every answer is of one block.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::ThreadId,
    time::Duration,
};

use phalanx_merkle::{
    Backend, Delta, Durability, Error, Memory, Opened, Reading, Snapshot, Store, StoreConfig,
    faults::{Faults, Step, Verdict},
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

type Model = BTreeMap<[u8; 8], [u8; 40]>;

fn config(dir: &Path, bytes: usize, reading: Reading) -> StoreConfig {
    let config = StoreConfig::new(Backend::File(dir.into())).with_memory(Memory::Cached { bytes });
    config.with_reading(reading).with_history(3)
}

fn commit(store: &mut Store, changes: &[([u8; 8], Option<[u8; 40]>)]) {
    let mut delta = Delta::new();
    for (key, value) in changes {
        match value {
            Some(value) => delta.put(key, value),
            None => delta.delete(key),
        }
    }
    let height = store.height().map_or(0, |height| height + 1);
    let prepared = store.prepare(delta, height).expect("a block");
    store.commit(prepared).expect("it is written");
}

fn begun(config: StoreConfig, keys: u64) -> Store {
    let mut store = Store::open(config).expect("a store");
    let all: Vec<_> = (0..keys).map(|key| (key.to_be_bytes(), Some([1; 40]))).collect();
    commit(&mut store, &all);
    // What was just written is in memory: the entries of the first block are not any more.
    for _ in 0..2 {
        commit(&mut store, &[([255; 8], Some([2; 40]))]);
        commit(&mut store, &[([255; 8], Some([3; 40]))]);
    }
    store
}

/// Disk that lets reads of other threads than one wait, or syncs.
#[derive(Debug)]
struct Gate {
    free: ThreadId,
    syncs: bool,
    open: Mutex<bool>,
    opened: Condvar,
    waits: AtomicU64,
}

impl Gate {
    fn new() -> Arc<Self> {
        Self::of(false)
    }

    fn of(syncs: bool) -> Arc<Self> {
        let (free, open) = (std::thread::current().id(), Mutex::new(true));
        Arc::new(Self { free, syncs, open, opened: Condvar::new(), waits: AtomicU64::new(0) })
    }

    fn set(&self, open: bool) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = open;
        self.opened.notify_all();
    }

    fn await_a_read(&self) {
        self.await_reads(1);
    }

    /// Waits until so many reads wait; a minute at most.
    fn await_reads(&self, count: u64) {
        for _ in 0..60_000 {
            if self.waits.load(Ordering::SeqCst) >= count {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{} reads wait, not {count}", self.waits.load(Ordering::SeqCst));
    }
}

impl Faults for Gate {
    fn before(&self, step: Step<'_>) -> Verdict {
        let is_gated = if self.syncs { matches!(step, Step::Sync(_)) } else { matches!(step, Step::Read(_)) };
        if is_gated && std::thread::current().id() != self.free {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            while !*open {
                self.waits.fetch_add(1, Ordering::SeqCst);
                open = self.opened.wait(open).unwrap_or_else(PoisonError::into_inner);
            }
        }
        Verdict::Go
    }
}

#[test]
fn a_block_is_applied_while_a_reader_waits_for_the_disk() {
    for reading in [Reading::Direct, Reading::Buffered, Reading::Threads] {
        let (dir, gate) = (crate::common::folder(), Gate::new());
        let faults: Arc<dyn Faults> = Arc::<Gate>::clone(&gate);
        let mut store = begun(config(dir.path(), 0, reading).with_faults(faults), 900);
        let snapshot = store.snapshot(store.tip()).expect("the tip");
        let (key, root) = (7u64.to_be_bytes(), store.root());
        gate.set(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let reader = snapshot.read().expect("the tip");
                let found = reader.get(&key).map(<[u8]>::to_vec);
                (found, reader.root(), reader.check())
            });
            gate.await_a_read();
            commit(&mut store, &[(key, Some([9; 40]))]);
            gate.set(true);
            let (found, read_root, checked) = reader.join().expect("no panic");
            assert_eq!(found.as_deref(), Some(&[1; 40][..]), "{reading:?}: the value of the reader's block");
            assert!(read_root == root && checked.is_ok());
        });
        assert_eq!(store.read().get(&key), Some(&[9; 40][..]), "{reading:?}");
    }
}

#[test]
fn a_block_is_applied_while_entries_are_read_ahead() {
    let (dir, gate) = (crate::common::folder(), Gate::new());
    let faults: Arc<dyn Faults> = Arc::<Gate>::clone(&gate);
    drop(begun(config(dir.path(), 1 << 20, Reading::Direct), 900));
    let mut store = Store::open(config(dir.path(), 1 << 20, Reading::Direct).with_faults(faults)).expect("the store");
    let prefetcher = store.prefetcher().expect("the state is paged");
    gate.set(false);
    let key = 7u64.to_be_bytes();
    assert!(prefetcher.announce(
        (0..900u64).filter(|at| *at != 7).map(u64::to_be_bytes).collect::<Vec<_>>().iter().map(|key| &key[..])
    ));
    gate.await_a_read();
    commit(&mut store, &[(key, Some([9; 40]))]);
    gate.set(true);
    drop(prefetcher);
    assert_eq!(store.read().get(&key), Some(&[9; 40][..]));
}

#[test]
fn a_cold_read_waits_for_no_write() {
    for reading in [Reading::Direct, Reading::Threads] {
        let (dir, gate) = (crate::common::folder(), Gate::of(true));
        let faults: Arc<dyn Faults> = Arc::<Gate>::clone(&gate);
        let config = config(dir.path(), 0, reading).with_durability(Durability::Block).with_faults(faults);
        let mut store = begun(config, 900);
        let mut delta = Delta::new();
        delta.put(&[254; 8], b"a");
        let prepared = store.prepare(delta, store.height().expect("a block") + 1).expect("a block");
        let pending = store.apply(prepared).expect("it is applied");
        gate.set(false);
        std::thread::scope(|scope| {
            let write = scope.spawn(|| pending.write());
            gate.await_a_read();
            // While the block is made durable.
            assert_eq!(store.read().get(&7u64.to_be_bytes()), Some(&[1; 40][..]), "{reading:?}");
            gate.set(true);
            write.join().expect("no panic").expect("it is written");
        });
    }
}

/// Use of a store that needs many entries.
type Batch<'b> = &'b (dyn Fn(&Store) + Sync);

#[test]
fn a_batch_waits_for_what_is_read_ahead_and_reads_none_of_it_again() {
    let keys: Vec<[u8; 8]> = (0..900u64).map(u64::to_be_bytes).collect();
    let prepare = |store: &Store| {
        let mut delta = Delta::new();
        keys.iter().take(300).for_each(|key| delta.put(key, &[6; 40]));
        drop(store.prepare(delta, store.height().expect("a block") + 1).expect("a block"));
    };
    let look_up = |store: &Store| {
        let (reader, mut found) = (store.read(), 0);
        reader.get_many(keys.iter().take(300).map(|key| &key[..]), |value| found += usize::from(value.is_some()));
        reader.check().expect("no read fails");
        assert_eq!(found, 300);
    };
    let batches: [Option<Batch<'_>>; 3] = [None, Some(&prepare), Some(&look_up)];
    let extents = batches.map(|batch| {
        let (dir, gate) = (crate::common::folder(), Gate::new());
        let faults: Arc<dyn Faults> = Arc::<Gate>::clone(&gate);
        drop(begun(config(dir.path(), 1 << 20, Reading::Direct), 900));
        let store = Store::open(config(dir.path(), 1 << 20, Reading::Direct).with_faults(faults)).expect("the store");
        let prefetcher = store.prefetcher().expect("the state is paged");
        gate.set(false);
        assert!(prefetcher.announce(keys.iter().map(|key| &key[..])));
        gate.await_a_read();
        let Some(batch) = batch else {
            gate.set(true);
            drop(prefetcher);
            return store.reads().expect("paged").extents;
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                gate.set(true);
            });
            batch(&store);
        });
        drop(prefetcher);
        store.reads().expect("paged").extents
    });
    assert!(extents[0] > 0 && extents.iter().all(|count| *count == extents[0]), "{extents:?}: with a batch as without");
}

#[test]
fn a_store_that_is_closed_lets_its_log_go_though_entries_are_read_ahead() {
    let (dir, gate) = (crate::common::folder(), Gate::new());
    let faults: Arc<dyn Faults> = Arc::<Gate>::clone(&gate);
    let config = config(dir.path(), 1 << 20, Reading::Direct);
    drop(begun(config.clone(), 900));
    let store = Store::open(config.clone().with_faults(faults)).expect("the store");
    let prefetcher = store.prefetcher().expect("the state is paged");
    gate.set(false);
    let keys: Vec<[u8; 8]> = (0..900u64).map(u64::to_be_bytes).collect();
    assert!(prefetcher.announce(keys.iter().map(|key| &key[..])));
    gate.await_a_read();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            gate.set(true);
        });
        drop(store);
    });
    drop(Store::open(config).expect("nothing holds the store"));
    drop(prefetcher);
}

#[test]
fn small_announcements_are_read_side_by_side() {
    let (dir, gate) = (crate::common::folder(), Gate::new());
    let faults: Arc<dyn Faults> = Arc::<Gate>::clone(&gate);
    drop(begun(config(dir.path(), 1 << 20, Reading::Direct), 900));
    let store = Store::open(config(dir.path(), 1 << 20, Reading::Direct).with_faults(faults)).expect("the store");
    let prefetcher = store.prefetcher().expect("the state is paged");
    gate.set(false);
    for key in [0u64, 800] {
        assert!(prefetcher.announce([&key.to_be_bytes()[..]]));
    }
    gate.await_reads(2);
    gate.set(true);
}

#[test]
fn announcements_are_bounded_in_bytes() {
    let (dir, gate) = (crate::common::folder(), Gate::new());
    let faults: Arc<dyn Faults> = Arc::<Gate>::clone(&gate);
    drop(begun(config(dir.path(), 1 << 20, Reading::Direct), 900));
    let store = Store::open(config(dir.path(), 1 << 20, Reading::Direct).with_faults(faults)).expect("the store");
    let prefetcher = store.prefetcher().expect("the state is paged");
    gate.set(false);
    let keys: Vec<[u8; 8]> = (0..900u64).map(u64::to_be_bytes).collect();
    assert!(prefetcher.announce(keys.iter().map(|key| &key[..])));
    gate.await_a_read();
    // 16 bytes each: three million of them do not fit.
    let other = [3; 8];
    assert!(!prefetcher.announce(std::iter::repeat_n(&other[..], 3_000_000)));
    let refused = prefetcher.refused();
    assert!((900_000..1_000_000).contains(&refused), "{refused} of three million");
    gate.set(true);
}

#[test]
fn a_store_that_is_closed_beside_a_prefetcher_makes_its_checkpoint() {
    let heights = [true, false].map(|ahead| {
        let dir = crate::common::folder();
        let config = config(dir.path(), 1 << 20, Reading::Direct).with_checkpoint_bytes(1 << 17);
        let store = begun(config.clone(), 900);
        let prefetcher = store.prefetcher().filter(|_| ahead);
        drop(store);
        // It finds the store closed.
        prefetcher.iter().for_each(|prefetcher| _ = prefetcher.announce([&[1; 8][..]]));
        drop(prefetcher);
        let store = Store::open(config).expect("the store");
        assert!(matches!(store.opened(), Opened::Checkpoint { .. }), "{:?}", store.opened());
        format!("{:?}", store.opened())
    });
    assert_eq!(heights[0], heights[1]);
}

#[test]
fn a_folder_that_is_replaced_under_an_open_store_is_not_read() {
    for reading in [Reading::Direct, Reading::Buffered] {
        let home = crate::common::folder();
        let (dir, other) = (home.path().join("store"), home.path().join("other"));
        drop(begun(config(&dir, 0, reading), 900));
        let store = Store::open(config(&dir, 0, reading)).expect("the store");
        let mut another = begun(config(&other, 0, reading), 900);
        let all: Vec<_> = (0..900u64).map(|key| (key.to_be_bytes(), Some([5; 40]))).collect();
        commit(&mut another, &all);
        drop(another);
        std::fs::rename(&dir, home.path().join("moved")).expect("a rename");
        std::fs::rename(&other, &dir).expect("a rename");
        let reader = store.read();
        for key in 0..900u64 {
            assert_eq!(reader.get(&key.to_be_bytes()), Some(&[1; 40][..]), "{reading:?}");
        }
    }
}

/// Disk that is slow now and then, with small segments.
#[derive(Debug)]
struct Slow(AtomicU64);

impl Faults for Slow {
    fn before(&self, step: Step<'_>) -> Verdict {
        if matches!(step, Step::Read(_)) {
            match self.0.fetch_add(1, Ordering::Relaxed) % 7 {
                0 => std::thread::sleep(Duration::from_micros(400)),
                1..4 => std::thread::yield_now(),
                _ => {}
            }
        }
        Verdict::Go
    }

    fn segment_bytes(&self) -> Option<u64> {
        Some(60_000)
    }
}

/// Reads snapshots of the last blocks, each with what it has to hold, until the writer has ended. Returns the number of answers, and
/// of blocks that were gone.
fn read_beside(seed: u64, tips: &Mutex<Vec<(Snapshot, Arc<Model>)>>, ended: &AtomicBool) -> (u64, u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut answers, mut gone) = (0, 0);
    while !ended.load(Ordering::Relaxed) {
        let (snapshot, model) = {
            let tips = tips.lock().expect("no panic");
            tips[rng.random_range(0..tips.len())].clone()
        };
        let Ok(reader) = snapshot.read() else {
            gone += 1;
            continue;
        };
        let keys: Vec<[u8; 8]> =
            (0..rng.random_range(1..40)).map(|_| rng.random_range(0..700u64).to_be_bytes()).collect();
        let mut found: Vec<Option<Vec<u8>>> = Vec::new();
        if rng.random() {
            reader
                .get_many(keys.iter().map(|key| &key[..]), |value| found.push(value.map(|(value, _)| value.to_vec())));
        } else {
            found.extend(keys.iter().map(|key| {
                let value = reader.get(key).map(<[u8]>::to_vec);
                let located = reader.locate(key).and_then(|locator| reader.value(locator)).map(<[u8]>::to_vec);
                // A locator is of the present: the key may have been deleted since.
                assert!(located.is_none() || located == value || reader.check().is_err(), "seed {seed}");
                value
            }));
        }
        match reader.check() {
            Ok(()) => {
                let expected: Vec<_> = keys.iter().map(|key| model.get(key).map(|value| value.to_vec())).collect();
                assert!(found == expected, "seed {seed}: an answer is of another block");
                answers += 1;
            }
            Err(Error::Gone { .. }) => gone += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    (answers, gone)
}

#[test]
fn answers_are_of_one_block_while_blocks_come_and_go() {
    let rounds = crate::common::life::number("PHALANX_MERKLE_ROUNDS", 60);
    for (seed, reading, bytes) in [
        (1, Reading::Direct, 0),
        (2, Reading::Direct, 30_000),
        (3, Reading::Threads, 30_000),
        (4, Reading::Buffered, 1 << 20),
    ] {
        let dir = crate::common::folder();
        let config = config(dir.path(), bytes, reading).with_faults(Arc::new(Slow(AtomicU64::new(0))));
        let mut store = Store::open(config).expect("a store");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut model: Model = (0..600u64).map(|key| (key.to_be_bytes(), [1; 40])).collect();
        let all: Vec<_> = model.iter().map(|(key, value)| (*key, Some(*value))).collect();
        commit(&mut store, &all);
        // Models by height, of the present chain.
        let mut chain = vec![Arc::new(model.clone())];
        let tip = store.snapshot(store.tip()).expect("the tip");
        let (tips, ended) = (Mutex::new(vec![(tip, Arc::clone(&chain[0]))]), AtomicBool::new(false));
        let prefetcher = store.prefetcher().expect("paged");
        let totals = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|at| (seed * 100 + at, &tips, &ended))
                .map(|(seed, tips, ended)| scope.spawn(move || read_beside(seed, tips, ended)))
                .collect();
            for _ in 0..rounds {
                let mut changes = BTreeMap::new();
                for _ in 0..60 {
                    let value = if rng.random_bool(0.15) { None } else { Some([rng.random(); 40]) };
                    changes.insert(rng.random_range(0..700u64).to_be_bytes(), value);
                }
                let changes: Vec<_> = changes.into_iter().collect();
                prefetcher.announce(changes.iter().map(|(key, _)| &key[..]));
                commit(&mut store, &changes);
                for (key, value) in changes {
                    match value {
                        Some(value) => _ = model.insert(key, value),
                        None => _ = model.remove(&key),
                    }
                }
                chain.push(Arc::new(model.clone()));
                if rng.random_bool(0.2) && chain.len() > 4 {
                    let back = chain.len() - 1 - rng.random_range(1..=2);
                    store.rewind(Some(back as u64)).expect("history").write().expect("it is written");
                    chain.truncate(back + 1);
                    model = (*chain[back]).clone();
                }
                if rng.random_bool(0.2) {
                    store.prune().expect("it is pruned");
                }
                let tip = store.snapshot(store.tip()).expect("the tip");
                let mut tips = tips.lock().expect("no panic");
                tips.push((tip, Arc::clone(chain.last().expect("a block"))));
                let first = tips.len().saturating_sub(3);
                tips.drain(..first);
            }
            ended.store(true, Ordering::Relaxed);
            readers
                .into_iter()
                .map(|reader| reader.join().expect("an answer"))
                .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
        });
        drop(prefetcher);
        println!("seed {seed}, {reading:?}, cache of {bytes}: {} answers, {} blocks gone", totals.0, totals.1);
        assert!(totals.0 > 0, "seed {seed}: nothing was read");
        store.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
