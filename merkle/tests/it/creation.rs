//! A store's creation is interrupted, and goes on without rewriting what the first attempt left; what another program made is
//! refused untouched; a torn end without room for a copy is told.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::common::life::{Oracle, config, turn};
use phalanx_merkle::{
    Access, Durability, Error, HashFn, Params, Store,
    faults::{Faults, Step, Verdict},
};

const SEED: u64 = 392;

fn kinds() -> Vec<&'static str> {
    if cfg!(feature = "rocksdb") { vec!["file", "rocks"] } else { vec!["file"] }
}

/// Names and content of a directory's files.
fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.map(|path| (path.clone(), std::fs::read(&path).unwrap_or_default())).collect()
}

/// Fails every step from one on.
#[derive(Debug)]
struct Dead {
    from: u64,
    step: AtomicU64,
    /// Writes to the file that names the store in the making.
    named: Mutex<Vec<String>>,
}

impl Dead {
    fn new(from: u64) -> Arc<Self> {
        Arc::new(Self { from, step: AtomicU64::new(0), named: Mutex::default() })
    }
}

impl Faults for Dead {
    fn before(&self, step: Step<'_>) -> Verdict {
        if self.step.fetch_add(1, Relaxed) + 1 >= self.from {
            return match step {
                Step::Append(_, len) => Verdict::Tear(len / 2, io::Error::other("dead")),
                _ => Verdict::Fail(io::Error::other("dead")),
            };
        }
        if let Step::Append(path, _) | Step::Overwrite(path, ..) | Step::Cut(path, _) = step
            && path.ends_with("store.new")
        {
            self.named.lock().expect("no panic").push(format!("{step:?}"));
        }
        Verdict::Go
    }
}

#[test]
fn a_creation_that_is_interrupted_again_and_again_goes_on() {
    for kind in kinds() {
        let (mut attempts, mut resumed) = (0, 0);
        for first in 1.. {
            let home = tempfile::tempdir().expect("a directory");
            let place = home.path().join("store");
            let open = |from: u64| {
                let dead = Dead::new(from);
                let faults: Arc<dyn Faults> = Arc::<Dead>::clone(&dead);
                (Store::open(config(kind, &place, Durability::Block).with_faults(faults)), dead)
            };
            if open(first).0.is_ok() {
                break;
            }
            // The second attempt ends at every step, too.
            for second in 1.. {
                attempts += 1;
                let begun = std::fs::read(place.join("store.new")).unwrap_or_default();
                // The file that names the store is 64 bytes or so; a torn one says that nothing else was made.
                let is_whole = begun.len() > 40;
                let (opened, dead) = open(second);
                let context = format!("{kind}: steps {first} and {second}");
                if is_whole && !place.join("store").exists() {
                    resumed += 1;
                    assert_eq!(*dead.named.lock().expect("no panic"), [""; 0], "{context}: rewritten");
                    let now = std::fs::read(place.join("store.new")).unwrap_or_else(|_| begun.clone());
                    assert!(opened.is_ok() || now == begun, "{context}: changed");
                }
                if let Ok(store) = opened {
                    // The next step would fail.
                    drop(store);
                    let mut store = Store::open(config(kind, &place, Durability::Block)).expect(&context);
                    turn(&mut store, SEED, &mut |_| ()).expect(&context);
                    drop(store);
                    let store = Store::open(config(kind, &place, Durability::Block)).expect(&context);
                    Oracle::new(SEED).check(&store, Some(0), Some(0), &context);
                    break;
                }
                assert!(second < 100, "{context}: {:?}", opened.err());
            }
        }
        println!("{kind}: {attempts} attempts, {resumed} of them of a creation that had begun");
        assert!(resumed > 3, "{kind}: {resumed} of {attempts}");
    }
}

/// The parameters of a store in the making are those of its first attempt, as for a whole store.
#[test]
fn a_creation_goes_on_with_its_own_parameters_only() {
    for kind in kinds() {
        let home = tempfile::tempdir().expect("a directory");
        let faults: Arc<dyn Faults> = Dead::new(6);
        let mine = config(kind, home.path(), Durability::Async);
        assert!(Store::open(mine.clone().with_faults(faults)).is_err(), "{kind}: it dies");
        let before = content(home.path());
        let other = Store::open(mine.clone().with_params(Params::with_hash(HashFn::Blake3)));
        assert!(matches!(other, Err(Error::Format { .. })), "{kind}: {other:?}");
        assert!(content(home.path()) == before, "{kind}: refused, and changed");
        drop(Store::open(mine).expect("a store"));
    }
}

/// A database that is not ours is refused before a lock is made in it.
#[cfg(feature = "rocksdb")]
#[test]
fn the_database_of_another_program_is_refused_untouched() {
    use rocksdb::{DB, Options};
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    for families in [&[][..], &["accounts"], &["entries"], &["entries", "blocks", "code"]] {
        let home = tempfile::tempdir().expect("a directory");
        let db = DB::open_cf(&options, home.path(), families).expect("a database");
        db.put(b"theirs", b"kept").expect("a write");
        drop(db);
        let before = content(home.path());
        for access in [Access::Read, Access::Write, Access::Create] {
            let opened = Store::open(config("rocks", home.path(), Durability::Async).with_access(access));
            assert!(matches!(opened, Err(Error::NoStore { .. })), "{families:?} for {access:?}: {opened:?}");
            let after = content(home.path());
            assert!(after == before, "{families:?} for {access:?}: {:?}", after.keys());
        }
        let named = phalanx_merkle::Identity::of(home.path());
        assert!(matches!(named, Err(Error::NoStore { .. })), "{families:?}: {named:?}");
    }
}

/// A store of ours that lacks a family is damaged; reading it must not panic.
#[cfg(feature = "rocksdb")]
#[test]
fn a_database_without_one_of_its_families_is_damaged() {
    use rocksdb::{DB, Options};
    for family in ["entries", "blocks", "meta", "code"] {
        let home = tempfile::tempdir().expect("a directory");
        let mut store = Store::open(config("rocks", home.path(), Durability::Block)).expect("a store");
        turn(&mut store, SEED, &mut |_| ()).expect("a turn");
        drop(store);
        let families = ["entries", "blocks", "meta", "code"];
        let mut db = DB::open_cf(&Options::default(), home.path(), families).expect("a database");
        db.drop_cf(family).expect("a family");
        drop(db);
        for access in [Access::Read, Access::Write, Access::Create] {
            let opened = Store::open(config("rocks", home.path(), Durability::Async).with_access(access));
            let refused = matches!(&opened, Err(Error::Corrupt { what, .. }) if what.contains(family));
            assert!(refused, "{family} for {access:?}: {opened:?}");
        }
    }
}

/// A store whose own file is gone is damaged, and the error names the file: it is neither an earlier version's nor another's.
#[test]
fn a_store_without_the_file_that_names_it_is_damaged() {
    for kind in kinds() {
        let home = tempfile::tempdir().expect("a directory");
        let mut store = Store::open(config(kind, home.path(), Durability::Block)).expect("a store");
        turn(&mut store, SEED, &mut |_| ()).expect("a turn");
        drop(store);
        std::fs::remove_file(home.path().join("store")).expect("the file that names it");
        for access in [Access::Read, Access::Write, Access::Create] {
            let opened = Store::open(config(kind, home.path(), Durability::Async).with_access(access));
            let refused = matches!(&opened, Err(Error::Corrupt { what, .. }) if what.contains("`store` is missing"));
            assert!(refused, "{kind} for {access:?}: {opened:?}");
        }
    }
}

/// Fails to write copies of torn ends.
#[derive(Debug)]
struct NoCopy(i32);

impl Faults for NoCopy {
    fn before(&self, step: Step<'_>) -> Verdict {
        match step {
            Step::Append(path, len) if path.extension().is_some_and(|end| end == "torn") => {
                Verdict::Tear(len / 2, io::Error::from_raw_os_error(self.0))
            }
            _ => Verdict::Go,
        }
    }

    fn segment_bytes(&self) -> Option<u64> {
        Some(4 << 10)
    }
}

/// A full disk, a quota and a limit of the process leave no room for a copy; any other failure is an error, and nothing is cut.
#[cfg(target_os = "linux")]
#[test]
fn a_torn_end_without_room_for_a_copy_is_cut_and_told() {
    let (eio, efbig, enospc, edquot) = (5, 27, 28, 122);
    for kind in kinds() {
        let home = tempfile::tempdir().expect("a directory");
        let mut store = Store::open(config(kind, home.path(), Durability::Async)).expect("a store");
        turn(&mut store, SEED, &mut |_| ()).expect("a turn");
        drop(store);
        let torn = || {
            let ends = if kind == "file" { ".seg" } else { ".log" };
            let mut names: Vec<PathBuf> = content(home.path()).into_keys().collect();
            names.retain(|path| path.to_string_lossy().ends_with(ends));
            let mut file = std::fs::OpenOptions::new().append(true).open(&names[names.len() - 1]).expect("a log");
            file.write_all(&[7; 5]).expect("a torn end");
        };
        let open = |code| Store::open(config(kind, home.path(), Durability::Async).with_faults(Arc::new(NoCopy(code))));
        let copies =
            || content(home.path()).into_keys().filter(|path| path.extension().is_some_and(|e| e == "torn")).count();
        for code in [efbig, enospc, edquot] {
            torn();
            let store = open(code).unwrap_or_else(|error| panic!("{kind}, error {code}: {error}"));
            let ends = &store.tail().torn;
            assert!(ends.len() == 1 && ends[0].bytes == 5 && ends[0].kept.is_none(), "{kind}, error {code}: {ends:?}");
            assert_eq!(copies(), 0, "{kind}, error {code}");
            assert_eq!(store.height(), Some(0));
        }
        torn();
        assert!(matches!(open(eio), Err(Error::Io { .. })), "{kind}");
        let store = Store::open(config(kind, home.path(), Durability::Async)).expect("a store");
        assert!(store.tail().torn[0].kept.is_some(), "{kind}: it was still there");
    }
}
