//! Reads on a ring: whatever the kernel answers, a batch has the values that the log has, or the caller gets an error.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use phalanx_merkle::{
    Backend, Delta, Error, Memory, Reading, Store, StoreConfig,
    faults::{Faults, Step, Verdict},
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const SEED: u64 = 45;

/// Keys of the state: far more extents than a ring reads together.
const KEYS: u64 = 4000;

/// Answer of the kernel that a test replaces.
#[derive(Clone, Copy, Debug)]
enum How {
    /// Fewer bytes than there are: sectors, or up to any byte.
    Short { sectors: bool },
    /// An error that passes by.
    Passing(i32),
    /// An error that stays.
    Fail(i32),
    /// The queue is full.
    Full,
    /// The system refuses a ring, with this error.
    Refused(i32),
    /// The kernel refuses to look at the queue.
    Shut(i32),
    /// The thread panics while reads are in flight.
    Panic,
}

#[derive(Debug)]
struct Plan {
    how: How,
    /// The answers that are replaced: each multiple of `every` from `first` on.
    first: u64,
    every: u64,
    step: AtomicU64,
    hits: AtomicU64,
    /// Rings that were asked for, and reads that rings have completed.
    rings: AtomicU64,
    completed: AtomicU64,
}

impl Plan {
    fn new(how: How, first: u64, every: u64) -> Arc<Self> {
        let [step, hits, rings, completed] = [const { AtomicU64::new(0) }; 4];
        Arc::new(Self { how, first, every, step, hits, rings, completed })
    }

    fn is_hit(&self) -> bool {
        let step = self.step.fetch_add(1, Ordering::Relaxed);
        let is_hit = step >= self.first && (step - self.first).is_multiple_of(self.every);
        self.hits.fetch_add(u64::from(is_hit), Ordering::Relaxed);
        is_hit
    }
}

impl Faults for Plan {
    fn before(&self, _: Step<'_>) -> Verdict {
        Verdict::Go
    }

    fn segment_bytes(&self) -> Option<u64> {
        Some(100_000)
    }

    fn completed(&self, _: &Path, bytes: io::Result<usize>) -> io::Result<usize> {
        self.completed.fetch_add(1, Ordering::Relaxed);
        match (self.how, bytes) {
            (How::Short { sectors }, Ok(bytes)) if self.is_hit() => {
                let mut rng = ChaCha8Rng::seed_from_u64(self.step.load(Ordering::Relaxed));
                let short = rng.random_range(0..=bytes);
                Ok(if sectors { short / 512 * 512 } else { short })
            }
            (How::Passing(code) | How::Fail(code), _) if self.is_hit() => Err(io::Error::from_raw_os_error(code)),
            (How::Panic, _) if self.is_hit() => panic!("a visitor"),
            (_, bytes) => bytes,
        }
    }

    fn is_queue_full(&self) -> bool {
        matches!(self.how, How::Full) && self.is_hit()
    }

    fn refuses_ring(&self) -> Option<io::Error> {
        self.rings.fetch_add(1, Ordering::Relaxed);
        let How::Refused(code) = self.how else { return None };
        self.is_hit().then(|| io::Error::from_raw_os_error(code))
    }

    fn refuses_to_enter(&self) -> Option<io::Error> {
        let How::Shut(code) = self.how else { return None };
        self.is_hit().then(|| io::Error::from_raw_os_error(code))
    }
}

fn config(dir: &Path) -> StoreConfig {
    let config = StoreConfig::new(Backend::File(dir.into())).with_memory(Memory::Cached { bytes: 0 });
    config.with_reading(Reading::Direct).with_history(2)
}

/// Makes a chain, and returns its values.
fn chain(dir: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let faults = Plan::new(How::Full, u64::MAX, 1);
    let mut store = Store::open(config(dir).with_faults(faults)).expect("a new store");
    let mut model = BTreeMap::new();
    for height in 0..5 {
        let mut delta = Delta::new();
        for number in 0..KEYS {
            if height == 0 || rng.random_bool(0.2) {
                let key = number.to_be_bytes().to_vec();
                // Some entries are longer than a usual extent.
                let most = if rng.random_bool(0.02) { 12_000 } else { 900 };
                let value = vec![rng.random(); rng.random_range(0..most)];
                delta.put(&key, &value);
                model.insert(key, value);
            }
        }
        let prepared = store.prepare(delta, height).expect("a block");
        store.commit(prepared).expect("it is written");
    }
    model
}

/// Reads all keys in one batch; `None` if a read failed.
fn read(store: &Store, model: &BTreeMap<Vec<u8>, Vec<u8>>, context: &str) -> Option<()> {
    let reader = store.read();
    let mut found = Vec::with_capacity(model.len());
    reader.get_many(model.keys().map(Vec::as_slice), |value| found.push(value.map(|(value, _)| value.to_vec())));
    if reader.check().is_err() {
        return None;
    }
    assert!(found.into_iter().eq(model.values().cloned().map(Some)), "{context}: a value is not the log's");
    Some(())
}

#[test]
fn short_reads_passing_errors_and_full_queues_change_no_value() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chain(dir.path());
    let untouched = Store::open(config(dir.path())).expect("the store");
    read(&untouched, &model, "no fault").expect("no fault");
    let reads = untouched.reads().expect("the state is paged");
    assert!(reads.extents > 200 && reads.reads > 0 && reads.bytes > 0 && reads.depths >= reads.reads, "{reads:?}");
    let on_rings = reads.on_rings;
    drop(untouched);
    let hows = [
        How::Short { sectors: true },
        How::Short { sectors: false },
        How::Passing(4),
        How::Passing(11),
        // Direct reads are refused.
        How::Passing(22),
        How::Full,
        // No such call, not allowed; no files, no memory; a signal, not now, too much owed.
        How::Refused(38),
        How::Refused(1),
        How::Refused(24),
        How::Refused(12),
        How::Shut(38),
        How::Shut(1),
        How::Shut(22),
        How::Shut(4),
        How::Shut(11),
        How::Shut(16),
    ];
    for how in hows {
        for (first, every) in [(0, 1), (0, 2), (1, 3), (7, 64), (63, 1000)] {
            let plan = Plan::new(how, first, every);
            let faults: Arc<dyn Faults> = Arc::<Plan>::clone(&plan);
            let context = format!("{how:?}, {first} + {every} n");
            let mut store = Store::open(config(dir.path()).with_faults(faults)).expect("the store");
            read(&store, &model, &context).expect(&context);
            // As does a block, whose moves are read as well.
            let mut delta = Delta::new();
            model.keys().for_each(|key| delta.put(key, b"new"));
            let next = store.height().expect("a chain") + 1;
            let root = store.prepare(delta, next).expect(&context).root();
            assert_ne!(root, store.root());
            let hits = plan.hits.load(Ordering::Relaxed);
            // What a kernel does not know or allow, it never will; files and memory may be there for the next batch.
            let for_ever = hits > 0 && matches!(how, How::Refused(1 | 38) | How::Shut(1 | 22 | 38));
            assert_eq!(store.reads().expect("paged").on_rings, on_rings && !for_ever, "{context}");
            // A ring is made once, and its queue is looked at for several reads at a time.
            let is_rare = matches!((how, first), (How::Refused(_), 1..) | (How::Shut(_), 7..));
            if on_rings && !is_rare {
                assert!(hits > 0, "{context}: nothing was injected");
            }
            drop(store.add_fork(store.prepare(Delta::new(), next).expect(&context)));
        }
    }
}

#[test]
fn an_error_of_any_read_reaches_the_caller() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chain(dir.path());
    let mut failed = 0;
    for first in (0..400).step_by(13) {
        let plan = Plan::new(How::Fail(5), first, u64::MAX);
        let faults: Arc<dyn Faults> = Arc::<Plan>::clone(&plan);
        let store = Store::open(config(dir.path()).with_faults(faults)).expect("the store");
        let mut delta = Delta::new();
        model.keys().for_each(|key| delta.put(key, b"new"));
        let next = store.height().expect("a chain") + 1;
        let prepared = store.prepare(delta, next);
        if plan.hits.load(Ordering::Relaxed) == 0 {
            drop(prepared.expect("no read failed"));
            continue;
        }
        failed += 1;
        assert!(matches!(prepared, Err(Error::Io { .. })), "read {first}");
        // Nothing is in flight any more, and the store goes on.
        read(&store, &model, "after an error").expect("one read failed");
    }
    let store = Store::open(config(dir.path())).expect("the store");
    read(&store, &model, "without a fault").expect("no read fails");
    let on_rings = store.reads().is_some_and(|reads| reads.on_rings);
    assert!(failed > 0 || !on_rings);
}

#[test]
fn a_thread_that_panics_leaves_reads_that_end_by_themselves() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chain(dir.path());
    for first in [0, 1, 20, 63] {
        let plan = Plan::new(How::Panic, first, u64::MAX);
        let faults: Arc<dyn Faults> = Arc::<Plan>::clone(&plan);
        let store = Store::open(config(dir.path()).with_faults(faults)).expect("the store");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(&store, &model, "a panic")));
        assert_eq!(panicked.is_err(), plan.hits.load(Ordering::Relaxed) > 0, "read {first}");
        read(&store, &model, "after a panic").expect("no read fails");
        assert!(plan.rings.load(Ordering::Relaxed) <= 2, "the ring is another one");
    }
}

#[test]
fn without_files_for_a_ring_the_next_batch_has_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chain(dir.path());
    let plan = Plan::new(How::Refused(24), 0, u64::MAX);
    let faults: Arc<dyn Faults> = Arc::<Plan>::clone(&plan);
    let store = Store::open(config(dir.path()).with_faults(faults)).expect("the store");
    read(&store, &model, "no files").expect("threads read");
    assert_eq!(plan.completed.load(Ordering::Relaxed), 0, "there was no ring");
    read(&store, &model, "files").expect("a ring reads");
    let reads = store.reads().expect("paged");
    assert_eq!(reads.on_rings, plan.completed.load(Ordering::Relaxed) > 0);
    assert_eq!(plan.rings.load(Ordering::Relaxed) > 0, cfg!(target_os = "linux"));
}

#[test]
fn rings_are_few_however_many_threads_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chain(dir.path());
    let plan = Plan::new(How::Full, u64::MAX, 1);
    let faults: Arc<dyn Faults> = Arc::<Plan>::clone(&plan);
    let store = Store::open(config(dir.path()).with_faults(faults)).expect("the store");
    std::thread::scope(|scope| {
        for thread in 0..48 {
            let (store, model) = (&store, &model);
            scope.spawn(move || read(store, model, &format!("thread {thread}")).expect("no fault"));
        }
    });
    let rings = plan.rings.load(Ordering::Relaxed);
    assert!(rings <= 24, "{rings} rings");
}

#[test]
fn reads_through_the_page_cache_and_past_it_bring_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chain(dir.path());
    for reading in [Reading::Direct, Reading::Buffered, Reading::Threads] {
        for how in [How::Short { sectors: false }, How::Passing(11), How::Passing(22), How::Full] {
            let plan = Plan::new(how, 1, 3);
            let faults: Arc<dyn Faults> = Arc::<Plan>::clone(&plan);
            let config = config(dir.path()).with_reading(reading).with_faults(faults);
            let store = Store::open(config).expect("the store");
            read(&store, &model, &format!("{reading:?}, {how:?}")).expect("no fault stays");
            let reads = store.reads().expect("paged");
            assert!(reads.on_rings == (reading != Reading::Threads) || !cfg!(target_os = "linux"));
        }
    }
}

#[test]
fn threads_that_read_together_have_a_ring_each() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = chain(dir.path());
    let plan = Plan::new(How::Short { sectors: true }, 3, 5);
    let faults: Arc<dyn Faults> = Arc::<Plan>::clone(&plan);
    let store = Store::open(config(dir.path()).with_faults(faults)).expect("the store");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, model) = (&store, &model);
            scope.spawn(move || {
                for round in 0..3 {
                    read(store, model, &format!("thread {thread}, round {round}")).expect("no fault stays");
                }
            });
        }
    });
}

#[test]
fn a_pass_over_all_entries_meets_each_once_or_ends_with_the_error_of_a_read() {
    const MANY: u64 = 30_000;
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(config(dir.path())).expect("a new store");
    for (height, keys) in [(0, 0..MANY), (1, 100..MANY / 2), (2, 7..8)] {
        let mut delta = Delta::new();
        keys.for_each(|key| delta.put(&key.to_be_bytes(), &(key ^ height).to_be_bytes()));
        let prepared = store.prepare(delta, height).expect("a block");
        store.commit(prepared).expect("it is written");
    }
    drop(store);
    let pass = |how, first| {
        let plan = Plan::new(how, first, u64::MAX);
        let faults: Arc<dyn Faults> = Arc::<Plan>::clone(&plan);
        let store = Store::open(config(dir.path()).with_faults(faults)).expect("the store");
        let (mut sum, mut met) = (0, BTreeMap::new());
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            store.read().each_committed(|key, value| {
                sum += 1;
                met.insert(key.to_vec(), value.to_vec());
            })
        }));
        let ended = ended.map_err(|panic| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        (ended, sum, met, plan.hits.load(Ordering::Relaxed), plan.completed.load(Ordering::Relaxed))
    };
    let (ended, sum, met, _, completed) = pass(How::Full, u64::MAX);
    ended.expect("no panic").expect("no fault");
    assert_eq!(sum, MANY);
    for key in 0..MANY {
        let height = if key == 7 { 2 } else { u64::from((100..MANY / 2).contains(&key)) };
        assert_eq!(met[key.to_be_bytes().as_slice()], (key ^ height).to_be_bytes(), "key {key}");
    }
    for at in 0..8 {
        let first = completed * at / 8;
        let (ended, sum, _, hits, _) = pass(How::Fail(5), first);
        let ended = ended.expect("no panic");
        assert_eq!((hits, sum < MANY), (u64::from(completed > 0), completed > 0), "read {first}");
        assert!(completed == 0 || matches!(ended, Err(Error::Io { .. })), "read {first}: {ended:?}");
        // A reader that panics ends the caller as well.
        let (ended, _, _, hits, _) = pass(How::Panic, first);
        assert_eq!(ended.is_err(), hits > 0, "read {first}");
        assert!(
            ended.is_ok() || matches!(&ended, Err(Some(text)) if text == "a visitor"),
            "read {first}: the panic is the reader's"
        );
    }
    for reading in [Reading::Direct, Reading::Threads] {
        let store = Store::open(config(dir.path()).with_reading(reading)).expect("the store");
        let mut met = 0;
        store.read().each_committed(|_, _| met += 1).expect("no fault");
        assert_eq!(met, MANY, "{reading:?}");
        // A caller that panics leaves no thread behind, which would be waited for.
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            store.read().each_committed(|_, _| panic!("a caller"))
        }));
        assert!(panicked.is_err(), "{reading:?}");
        read(
            &store,
            &BTreeMap::from([(7u64.to_be_bytes().to_vec(), (7u64 ^ 2).to_be_bytes().to_vec())]),
            "after a panic",
        )
        .expect("no fault");
    }
}
