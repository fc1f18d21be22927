//! The disk fails at every possible step, or the process dies there, or the power fails: the store returns an error,
//! takes no more blocks, and reopens at a block that it had.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use crate::common::life::{Event, Oracle, config, copy, copy_live, number, start_anew, turn};
use phalanx_merkle::{
    Delta, Durability, Error, Store,
    faults::{Faults, Step, Verdict},
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const SEED: u64 = 71;

/// Turns of a life: enough for all its events.
const TURNS: u64 = 9;

/// Fault at the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// A single error.
    Fail(i32),
    /// Part of a write reaches the file, then an error.
    Tear,
    /// The process ends: the kernel's data is copied, and nothing more is done.
    Die,
    /// The power fails: some of the data that was not synced is there, followed by nothing or by zeros.
    PowerCut,
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

#[derive(Debug)]
struct Plan {
    segment_bytes: u64,
    how: How,
    /// Step of the fault.
    at: u64,
    dir: PathBuf,
    image: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    step: u64,
    /// Description of the fault, once it happened.
    hit: Option<String>,
    /// Bytes of each file that survive a power cut.
    synced: HashMap<PathBuf, u64>,
    /// Content of files that are overwritten, as it was synced last.
    written: HashMap<PathBuf, Vec<u8>>,
}

impl Plan {
    fn cut_power(&self, synced: &HashMap<PathBuf, u64>, written: &HashMap<PathBuf, Vec<u8>>) {
        copy_live(&self.dir, &self.image);
        let mut rng = ChaCha8Rng::seed_from_u64(self.at);
        for entry in std::fs::read_dir(&self.image).expect("the image") {
            let path = entry.expect("an entry").path();
            let len = path.metadata().expect("a file").len();
            let safe = synced.get(&self.dir.join(path.file_name().expect("a name"))).copied().unwrap_or(0);
            let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
            file.set_len(rng.random_range(safe.min(len)..=len)).expect("a cut");
            if rng.random_bool(0.3) {
                file.set_len(len).expect("zeros");
            }
        }
        // What was overwritten since the last sync is there, or not, or up to some byte.
        for (path, old) in written {
            let path = self.image.join(path.file_name().expect("a name"));
            let mut bytes = std::fs::read(&path).expect("the file");
            let changed: Vec<usize> = (0..bytes.len()).filter(|at| old.get(*at) != Some(&bytes[*at])).collect();
            let kept = rng.random_range(0..=changed.len());
            changed[kept..].iter().for_each(|at| bytes[*at] = old[*at]);
            std::fs::write(&path, bytes).expect("a write");
        }
        start_anew(&self.image.join("promise"));
    }
}

impl Faults for Plan {
    fn before(&self, step: Step<'_>) -> Verdict {
        let mut state = self.state.lock().expect("no panic");
        state.step += 1;
        if state.hit.is_some() && matches!(self.how, How::Die | How::PowerCut) {
            return Verdict::Fail(io::Error::other("dead"));
        }
        if state.step == self.at {
            state.hit = Some(format!("{step:?}"));
            return match self.how {
                How::Fail(code) => Verdict::Fail(io::Error::from_raw_os_error(code)),
                How::Tear => match step {
                    Step::Append(_, len) => {
                        Verdict::Tear((self.at as usize * 7919) % (len + 1), io::Error::other("torn"))
                    }
                    _ => Verdict::Fail(io::Error::other("torn")),
                },
                How::Die => {
                    copy_live(&self.dir, &self.image);
                    Verdict::Fail(io::Error::other("dead"))
                }
                How::PowerCut => {
                    self.cut_power(&state.synced, &state.written);
                    Verdict::Fail(io::Error::other("dead"))
                }
            };
        }
        match step {
            Step::Sync(path) => {
                if let Ok(meta) = path.metadata() {
                    state.synced.insert(path.to_path_buf(), meta.len());
                }
                if path.ends_with("promise") {
                    state.written.insert(path.to_path_buf(), std::fs::read(path).expect("the file"));
                }
            }
            Step::Rename(from, to) => {
                if let Some(len) = state.synced.remove(from) {
                    state.synced.insert(to.to_path_buf(), len);
                }
            }
            _ => {}
        }
        Verdict::Go
    }

    fn segment_bytes(&self) -> Option<u64> {
        Some(self.segment_bytes)
    }
}

/// Promises made before the disk failed.
#[derive(Debug, Default)]
struct Promised {
    acked: Option<u64>,
    /// Height that survives a power cut.
    durable: Option<u64>,
    begun: Option<u64>,
    failed: Option<Error>,
}

/// Lives until the disk fails.
fn live(kind: &str, dir: &Path, durability: Durability, plan: &Arc<Plan>, past: u64, context: &str) -> Promised {
    let tip = past.checked_sub(1);
    let mut promised = Promised { acked: tip, durable: tip, begun: tip, failed: None };
    let faults: Arc<dyn Faults> = Arc::<Plan>::clone(plan);
    let mut store = match Store::open(config(kind, dir, durability).with_faults(faults)) {
        Ok(store) => store,
        Err(error) => return Promised { failed: Some(error), ..promised },
    };
    for height in past..past + TURNS {
        promised.begun = Some(height);
        let result = turn(&mut store, SEED, &mut |event| match event {
            Event::Written(height) => promised.acked = Some(height),
            // What is rewound was durable, and the block that is made anew may not be.
            Event::Leaving(height) => {
                promised.acked = Some(height);
                promised.durable = promised.durable.min(Some(height));
            }
            Event::End("flush") => promised.durable = promised.acked,
            // A chain that is no longer than its history is not pruned, and so not flushed.
            Event::End("prune") if promised.acked >= Some(3) => promised.durable = promised.acked,
            Event::Begin(_) | Event::End(_) => {}
        });
        let Err(error) = result else { continue };
        // A failed read harms nothing; a failed write ends the handle.
        let read = plan.state.lock().expect("no panic").hit.as_ref().is_some_and(|hit| hit.starts_with("Read"));
        let next = store.height().map_or(0, |height| height + 1);
        match store.prepare(Delta::new(), next) {
            Err(Error::Poisoned) => {
                assert!(!read, "{context}: reading poisoned");
                assert!(matches!(store.flush(), Err(Error::Poisoned)), "{context}");
                assert!(matches!(store.prune(), Err(Error::Poisoned)), "{context}");
                let tip = store.tip();
                assert!(matches!(store.prepare_on(tip, Delta::new()), Err(Error::Poisoned)), "{context}");
            }
            Ok(_) if read => {}
            // The entry had to be written before it was read.
            Ok(prepared) => assert!(matches!(store.commit(prepared), Err(Error::Poisoned)), "{context}: {error}"),
            // A read writes what waits in the buffer first, and a dead disk fails every time.
            Err(Error::Io { .. }) if plan.how == How::Die => {}
            Err(other) => panic!("{context}: {other}, after {:?}", plan.state.lock().expect("no panic").hit),
        }
        promised.failed = Some(error);
        break;
    }
    promised
}

/// True for the error that a backend makes of a disk's.
const fn is_of_the_disk(error: &Error) -> bool {
    #[cfg(feature = "rocksdb")]
    if matches!(error, Error::Rocks { .. }) {
        return true;
    }
    matches!(error, Error::Io { .. })
}

/// Turns of the store before the faults begin. RocksDB drops only files that were moved down, which takes some
/// openings.
fn past(kind: &str, dir: &Path) -> u64 {
    std::fs::create_dir(dir).expect("a directory");
    if kind == "file" {
        return 0;
    }
    const OPENINGS: u64 = 7;
    for _ in 0..OPENINGS {
        // With such a long history nothing is pruned yet.
        let config = config(kind, dir, Durability::Async).with_history(1000);
        let mut store = Store::open(config).expect("a store");
        turn(&mut store, SEED, &mut |_| ()).expect("a turn");
    }
    OPENINGS
}

/// Fails at every `stride`-th step from `first` on, until a life needs no more steps.
fn fails(kind: &str, durability: Durability, how: How, first: u64, stride: u64) {
    let mut oracle = Oracle::new(SEED);
    let home = crate::common::folder();
    let before = home.path().join("before");
    let past = past(kind, &before);
    // In a database some blocks are past this size and some are not.
    let segment_bytes = if kind == "file" { 4 << 10 } else { 1 << 9 };
    let mut hits = Vec::new();
    let mut at = if stride == 1 { 1 } else { first };
    loop {
        let context = format!("{kind} {durability:?} {how:?} step {at}");
        let dir = crate::common::folder();
        let (place, image) = (dir.path().join("store"), dir.path().join("image"));
        copy(&before, &place);
        let plan = Plan { segment_bytes, how, at, dir: place.clone(), image: image.clone(), state: Mutex::default() };
        let plan = Arc::new(plan);
        let Promised { acked, durable, begun, failed } = live(kind, &place, durability, &plan, past, &context);
        let hit = plan.state.lock().expect("no panic").hit.clone();
        let Some(hit) = hit else {
            assert!(failed.is_none(), "{context}: {failed:?}");
            break;
        };
        let context = format!("{context} ({hit})");
        match &failed {
            Some(Error::Io { .. }) => {}
            // The last step, when the handle is dropped, promises nothing.
            None => assert_eq!(begun, Some(past + TURNS - 1), "{context}"),
            Some(other) => panic!("{context}: {other}"),
        }
        let left = if image.exists() { &image } else { &place };
        // Without durability, or power, everything since the last flush may be gone.
        let short = durability == Durability::None || how == How::PowerCut && durability == Durability::Async;
        let acked = if short { durable } else { acked };
        let mut store = Store::open(config(kind, left, durability)).expect(&context);
        oracle.check(&store, acked, begun, &context);
        turn(&mut store, SEED, &mut |_| ()).expect(&context);
        let height = store.height();
        drop(store);
        let store = Store::open(config(kind, left, durability)).expect(&context);
        oracle.check(&store, height.filter(|_| durability != Durability::None), height, &context);
        hits.push(hit.split('(').next().unwrap_or_default().to_owned());
        at += stride;
    }
    hits.sort();
    hits.dedup();
    assert!(kind != "file" || stride > 1 || hits.iter().any(|hit| hit == "Remove"), "nothing was pruned");
    let is_table = |hit: &String| hit == "Rename";
    let brings_tables = durability != Durability::None;
    assert!(kind == "file" || stride > 1 || brings_tables == hits.iter().any(is_table), "{durability:?}: {hits:?}");
    println!("{kind} {durability:?} {how:?}: steps {first}..{at} by {stride}: {}", hits.join(" "));
    assert!(at > 30 && hits.len() > 2, "{kind} {how:?}: only {at} steps");
}

/// Distance between two failing steps, in the tests of a change a small prime: each setting begins at another step. Every step fails
/// with `PHALANX_FAULT_STRIDE=1`, from the first one.
fn stride() -> u64 {
    number("PHALANX_FAULT_STRIDE", 7).max(1)
}

#[test]
fn file_fails_at_every_step() {
    fails("file", Durability::Async, How::Fail(EIO), 3, stride());
    fails("file", Durability::Block, How::Fail(ENOSPC), 5, stride());
    fails("file", Durability::None, How::Fail(EIO), 7, stride());
}

#[test]
fn file_tears_at_every_step() {
    fails("file", Durability::Async, How::Tear, 2, stride());
    fails("file", Durability::None, How::Tear, 4, stride());
}

#[test]
fn file_dies_at_every_step() {
    fails("file", Durability::Async, How::Die, 6, stride());
    fails("file", Durability::Block, How::Die, 1, stride());
    fails("file", Durability::None, How::Die, 3, stride());
}

#[test]
fn file_loses_power_at_every_step() {
    fails("file", Durability::Block, How::PowerCut, 5, stride());
    fails("file", Durability::Async, How::PowerCut, 7, stride());
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_fails_at_every_step() {
    fails("rocks", Durability::Async, How::Fail(EIO), 2, stride());
    fails("rocks", Durability::Block, How::Fail(ENOSPC), 4, stride());
    // Blocks bring no tables then.
    fails("rocks", Durability::None, How::Fail(EIO), 6, stride());
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_dies_at_every_step() {
    fails("rocks", Durability::Async, How::Die, 1, stride());
    fails("rocks", Durability::Block, How::Die, 3, stride());
    fails("rocks", Durability::None, How::Die, 5, stride());
}

/// A failed import leaves nothing that passes for a store.
fn imports(kind: &str) {
    let dir = crate::common::folder();
    let (mut stream, from) = (Vec::new(), dir.path().join("from"));
    let mut store = Store::open(config("file", &from, Durability::Async)).expect("a store");
    (0..TURNS).for_each(|_| turn(&mut store, SEED, &mut |_| ()).expect("a turn"));
    store.export(&mut stream).expect("an export");
    let place = dir.path().join("place");
    let mut unopened = 0;
    for at in 1.. {
        let plan = Plan {
            segment_bytes: 4 << 10,
            how: How::Fail(ENOSPC),
            at,
            dir: place.clone(),
            image: dir.path().join("image"),
            state: Mutex::default(),
        };
        let plan = Arc::new(plan);
        let faults: Arc<dyn Faults> = Arc::<Plan>::clone(&plan);
        let into = config(kind, &place, Durability::Block).with_faults(faults);
        let copy = Store::import(into, &mut &stream[..]);
        let hit = plan.state.lock().expect("no panic").hit.clone();
        match (copy, hit) {
            (Err(Error::Unopened { source, .. }), Some(hit)) => {
                // The copy got its place whole, and opens once the disk is well.
                assert!(is_of_the_disk(&source), "{kind} step {at} ({hit}): {source}");
                let copy = Store::open(config(kind, &place, Durability::Block)).expect("a whole store");
                assert_eq!(copy.root(), store.root(), "{kind} step {at} ({hit})");
                drop(copy);
                std::fs::remove_dir_all(&place).expect("a directory");
                unopened += 1;
            }
            (Err(Error::Io { .. }), Some(hit)) => assert!(!place.exists(), "{kind} step {at} ({hit})"),
            (Ok(copy), None) => {
                assert_eq!(copy.root(), store.root());
                assert!(at > 20 && unopened > 0, "{kind}: only {at} steps, {unopened} after the last rename");
                break;
            }
            (copy, hit) => panic!("{kind} step {at} ({hit:?}): {copy:?}"),
        }
    }
}

#[test]
fn an_import_into_files_fails_at_every_step() {
    imports("file");
}

#[cfg(feature = "rocksdb")]
#[test]
fn an_import_into_a_database_fails_at_every_step() {
    imports("rocks");
}
