//! The disk is full: on a small file system, and under a limit on file sizes.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::life::{Event, Oracle, config, copy, turn};
use phalanx_merkle::{Delta, Durability, Error, Store};

const CHILD: &str = "PHALANX_MERKLE_FULL_CHILD";

const SEED: u64 = 91;

/// Number of turns after which the limit must have been met.
const MOST: u64 = 2000;

/// Lives until nothing more can be written; returns what was promised, what has begun and what failed.
fn fill(kind: &str, dir: &Path, durability: Durability) -> (Option<u64>, Option<u64>, String) {
    let mut acked = None;
    // With such a long history nothing is pruned.
    let mut store = match Store::open(config(kind, dir, durability).with_history(MOST as usize)) {
        Ok(store) => store,
        Err(error) => return (None, None, format!("{error:?}")),
    };
    for height in 0..MOST {
        let result = turn(&mut store, SEED, &mut |event| match event {
            Event::Written(height) | Event::Leaving(height) => acked = Some(height),
            Event::Begin(_) | Event::End(_) => {}
        });
        if let Err(error) = result {
            let next = store.height().map_or(0, |height| height + 1);
            let after = store.prepare(Delta::new(), next).err();
            assert!(matches!(after, Some(Error::Poisoned)), "{error}: then {after:?}");
            return (acked, Some(height), format!("{error:?}"));
        }
    }
    panic!("{kind}: nothing was ever full");
}

/// Small file system in memory, unmounted on drop.
struct Small(PathBuf);

impl Small {
    /// Mounts it; `None` if this process may not.
    fn mount(at: PathBuf, kib: u32) -> Option<Self> {
        std::fs::create_dir(&at).expect("a directory");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "none"])
            .arg(&at)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: a process that another test has just forked may hold a descriptor for a moment.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn no_space(kind: &str, kib: u32, durability: Durability) {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(small) = Small::mount(dir.path().join("small"), kib) else {
        println!("skipped: no right to mount a file system of {kib} KiB for {kind}");
        return;
    };
    let place = small.0.join("store");
    let (acked, begun, failed) = fill(kind, &place, durability);
    let context = format!("{kind} {durability:?} in {kib} KiB, {acked:?} of {begun:?}: {failed}");
    assert!(failed.contains("No space") || failed.contains("StorageFull"), "{context}");
    assert!(acked.is_some() || kib < 400, "{context}");
    // While the disk is still full, the store opens as it was, or returns a disk error.
    match Store::open(config(kind, &place, durability)) {
        Ok(store) => Oracle::new(SEED).check(&store, acked, begun, &context),
        Err(Error::Poisoned | Error::Corrupt { .. } | Error::Behind { .. }) => panic!("{context}"),
        Err(other) => println!("{kind}: while the disk is full: {other}"),
    }
    // With room the chain continues.
    let roomy = dir.path().join("roomy");
    copy(&place, &roomy);
    let mut store = Store::open(config(kind, &roomy, durability)).expect(&context);
    Oracle::new(SEED).check(&store, acked, begun, &context);
    turn(&mut store, SEED, &mut |_| ()).expect(&context);
    println!("{context}");
}

#[cfg(target_os = "linux")]
#[test]
fn file_meets_the_end_of_a_file_system() {
    // The first blocks take half a megabyte; a smaller disk is full from the beginning.
    for (kib, durability) in
        [(4, Durability::Async), (200, Durability::Block), (700, Durability::Async), (836, Durability::None)]
    {
        no_space("file", kib, durability);
    }
}

#[cfg(all(target_os = "linux", feature = "rocksdb"))]
#[test]
fn rocks_meets_the_end_of_a_file_system() {
    for (kib, durability) in [(1500, Durability::Async), (1804, Durability::Block)] {
        no_space("rocks", kib, durability);
    }
}

/// Child process whose files may not grow.
#[test]
fn child() {
    let Ok(role) = std::env::var(CHILD) else { return };
    let (kind, dir) = role.split_once('|').expect("a role");
    let (acked, begun, failed) = fill(kind, Path::new(dir), Durability::Async);
    println!("\nfilled|{}|{}|{failed}", acked.map_or(-1, |acked| acked as i64), begun.unwrap_or_default());
}

#[cfg(all(target_os = "linux", feature = "rocksdb"))]
#[test]
fn rocks_meets_a_limit_on_the_size_of_files() {
    for blocks in [500, 1301] {
        let dir = tempfile::tempdir().expect("a directory");
        // With the signal ignored, a write past the limit is an ordinary error.
        let output = Command::new("sh")
            .args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" --exact full::child --nocapture")])
            .arg(std::env::current_exe().expect("this test's path"))
            .env(CHILD, format!("rocks|{}", dir.path().display()))
            .output()
            .expect("a child");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("filled|")).expect("a failed write").to_owned();
        let words: Vec<&str> = line.splitn(3, '|').collect();
        let [acked, begun, failed] = words[..] else { panic!("{line}") };
        let (acked, begun): (i64, u64) = (acked.parse().expect("a height"), begun.parse().expect("a height"));
        assert!(failed.contains("File too large"), "{line}");
        let store = Store::open(config("rocks", dir.path(), Durability::Async)).expect("a store");
        Oracle::new(SEED).check(&store, u64::try_from(acked).ok(), Some(begun), &line);
    }
}
