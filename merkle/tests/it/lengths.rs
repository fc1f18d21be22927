//! A flipped bit in the length of a record, or a file that has become shorter: opening refuses the store and changes no byte.

use std::path::{Path, PathBuf};

use crate::common::life::{boundaries, config, copy, copy_live, start_anew, turn};
use phalanx_merkle::{Access, Durability, Error, Memory, Store};

const SEED: u64 = 391;

/// A store whose process was killed, with blocks that nothing made durable.
fn killed(kind: &str, home: &Path, turns: u64) -> PathBuf {
    let (live, image) = (home.join("live"), home.join("image"));
    let mut store = Store::open(config(kind, &live, Durability::Async)).expect("a store");
    (0..turns).for_each(|_| turn(&mut store, SEED, &mut |_| ()).expect("a turn"));
    copy_live(&live, &image);
    image
}

/// Content of the directory's files but the locks.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| !path.ends_with("lock")).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

/// Opens a store for reading and for writing; returns the description of the damage, if both say that there is some.
fn refused(dir: &Path, context: &str) -> Option<String> {
    let mut what = None;
    for access in [Access::Read, Access::Write] {
        let before = content(dir);
        match Store::open(config("file", dir, Durability::Async).with_access(access)) {
            Err(Error::Corrupt { what: found, .. }) => what = Some(found),
            Ok(store) => {
                assert!(!store.tail().is_clean(), "{context}: opened for {access:?} as if it were whole");
                return None;
            }
            Err(other) => panic!("{context}: {other}"),
        }
        assert!(content(dir) == before, "{context}: refused, and changed");
    }
    what
}

/// Flips each bit of the length of every record of a file; returns the records and bits for which the store opens.
fn opening_after_flips(image: &Path, name: &str, anew: bool, hurt: &Path) -> Vec<(usize, u32)> {
    let bytes = std::fs::read(image.join(name)).expect("a file");
    let mut begins = boundaries(name, &bytes);
    begins.pop();
    let mut opening = Vec::new();
    for (begin, bit) in begins.iter().flat_map(|begin| (0..32).map(move |bit| (*begin, bit))) {
        let context = format!("{name}: bit {bit} of the length at byte {begin} of {}, anew: {anew}", bytes.len());
        copy(image, hurt);
        let mut flipped = bytes.clone();
        flipped[begin + 4 + bit as usize / 8] ^= 1 << (bit % 8);
        std::fs::write(hurt.join(name), flipped).expect("a write");
        if anew {
            start_anew(&hurt.join("promise"));
        }
        if refused(hurt, &context).is_none() {
            opening.push((begin, bit));
        }
        std::fs::remove_dir_all(hurt).expect("the copy");
    }
    opening
}

#[test]
fn a_damaged_length_in_the_file_of_code_is_refused() {
    let home = crate::common::folder();
    // The last block brings code, and nothing made it durable.
    let image = killed("file", home.path(), 4);
    for anew in [false, true] {
        let opening = opening_after_flips(&image, "code.log", anew, &home.path().join("hurt"));
        assert_eq!(opening, [], "anew: {anew}");
    }
}

#[test]
fn a_damaged_length_in_a_segment_is_refused() {
    let home = crate::common::folder();
    let image = killed("file", home.path(), 2);
    let name = "00000000.seg";
    let begins = boundaries(name, &std::fs::read(image.join(name)).expect("a segment"));
    let last = begins[begins.len() - 2];
    assert_eq!(opening_after_flips(&image, name, false, &home.path().join("hurt")), []);
    // Only a power cut can have left the last block without one of the rows before its own.
    let opening = opening_after_flips(&image, name, true, &home.path().join("hurt"));
    assert!(opening.iter().all(|(begin, _)| *begin < last), "the last row: {opening:?}");
    let before = begins.iter().filter(|begin| opening.iter().any(|(at, _)| at == *begin)).count();
    assert!(before <= 2, "{opening:?} of {begins:?}");
}

/// Segments that a checkpoint notes are not scanned, but a place behind their end is damage.
#[test]
fn a_noted_segment_that_has_become_shorter_is_refused() {
    let home = crate::common::folder();
    let dir = home.path().join("store");
    let paged = |dir: &Path| {
        let config = config("file", dir, Durability::Async).with_memory(Memory::Cached { bytes: 4000 });
        config.with_checkpoint_bytes(1)
    };
    let mut store = Store::open(paged(&dir)).expect("a store");
    // An odd seed has enough keys for a log of many segments, and nothing is pruned without a call.
    for height in 0..24 {
        let prepared = store.prepare(crate::common::life::delta(SEED + 1, height), height).expect("a block");
        store.commit(prepared).expect("a block");
    }
    drop(store);
    let store = Store::open(paged(&dir)).expect("a store");
    assert!(matches!(store.opened(), phalanx_merkle::Opened::Checkpoint { .. }), "{:?}", store.opened());
    store.flush().expect("a flush");
    drop(store);
    let first = std::fs::metadata(dir.join("00000000.seg")).expect("a segment").len();
    assert!(dir.join("00000002.seg").exists(), "there are several segments");
    for len in (first / 3..first).step_by(first as usize / 9) {
        let hurt = home.path().join("hurt");
        copy(&dir, &hurt);
        let file = std::fs::OpenOptions::new().write(true).open(hurt.join("00000000.seg")).expect("a segment");
        file.set_len(len).expect("a cut");
        for access in [Access::Read, Access::Write] {
            let opened = Store::open(paged(&hurt).with_access(access));
            assert!(matches!(opened, Err(Error::Corrupt { .. })), "{len} of {first}: {:?}", opened.err());
        }
        std::fs::remove_dir_all(hurt).expect("the copy");
    }
}
