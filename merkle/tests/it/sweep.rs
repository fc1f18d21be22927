//! Files are truncated and damaged anywhere: the store opens at a block that it had, or returns a typed error. It never
//! panics and never has a wrong root.

use std::path::{Path, PathBuf};

use crate::common::life::{Event, Oracle, boundaries, config, copy, number, turn};
use phalanx_merkle::{Durability, Error, Store};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const SEED: u64 = 81;

/// Heights of a store after a life.
#[derive(Clone, Copy, Debug)]
struct Life {
    tip: u64,
    /// Last height that was promised to survive a power cut.
    promised: u64,
}

/// Lives some turns in several openings. The last ones must not flush: then nothing could be torn.
fn live(kind: &str, dir: &Path, openings: u64, turns: u64) -> Life {
    let mut life = Life { tip: 0, promised: 0 };
    for _ in 0..openings {
        let mut store = Store::open(config(kind, dir, Durability::Async)).expect("a store");
        for _ in 0..turns {
            let on = &mut |event| match event {
                Event::Written(height) => life.tip = height,
                Event::End("flush" | "prune") => life.promised = life.tip,
                Event::Begin(_) | Event::End(_) | Event::Leaving(_) => {}
            };
            turn(&mut store, SEED, on).expect("a turn");
        }
        assert_eq!(store.height(), Some(life.tip));
    }
    assert!(life.promised < life.tip, "{life:?}");
    life
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

/// Results of opening damaged stores.
#[derive(Debug, Default)]
struct Tally {
    tip: u32,
    earlier: u32,
    behind: u32,
    refused: u32,
}

impl Tally {
    /// Opens the damaged store, without and with the height that consensus remembers.
    fn open(&mut self, kind: &str, dir: &Path, life: Life, oracle: &mut Oracle, context: &str) -> Option<u64> {
        let tip = life.tip;
        let expecting = dir.with_extension("expecting");
        copy(dir, &expecting);
        let remembered = config(kind, &expecting, Durability::Async).with_expected_min_height(tip);
        let remembers = match Store::open(remembered) {
            Ok(store) => {
                assert_eq!(store.root(), oracle.root(tip), "{context}");
                true
            }
            Err(Error::Behind { found, expected }) => {
                assert!(found < Some(tip) && expected == tip, "{context}: {found:?}");
                self.behind += 1;
                false
            }
            Err(error) => {
                typed(&error, context);
                false
            }
        };
        std::fs::remove_dir_all(&expecting).expect("the copy");
        match Store::open(config(kind, dir, Durability::Async)) {
            Ok(store) => {
                let height = store.height();
                assert!((Some(life.promised)..=Some(tip)).contains(&height), "{context}: {height:?} of {life:?}");
                assert_eq!(remembers, height == Some(tip), "{context}");
                match height {
                    Some(height) => assert_eq!(store.root(), oracle.root(height), "{context}"),
                    None => assert!(store.is_empty(), "{context}"),
                }
                // Everything under the root is there.
                store.check().map_or_else(|error| typed(&error, context), |_| ());
                if remembers {
                    self.tip += 1
                } else {
                    self.earlier += 1
                }
                height
            }
            Err(error) => {
                typed(&error, context);
                self.refused += 1;
                None
            }
        }
    }
}

fn typed(error: &Error, context: &str) {
    match error {
        Error::Corrupt { .. } | Error::Format { .. } | Error::Io { .. } => {}
        #[cfg(feature = "rocksdb")]
        Error::Rocks { .. } => {}
        other => panic!("{context}: {other}"),
    }
}

#[test]
fn a_file_is_cut_at_every_record() {
    let dir = crate::common::folder();
    let (whole, cut) = (dir.path().join("whole"), dir.path().join("cut"));
    let life = live("file", &whole, 2, 8);
    let (mut oracle, mut tally) = (Oracle::new(SEED), Tally::default());
    let all = files(&whole);
    let segments: Vec<&PathBuf> = all.iter().filter(|path| path.extension().is_some_and(|e| e == "seg")).collect();
    assert!(segments.len() > 3, "{segments:?}");
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let last = segments[segments.len() - 1];
    for path in [last, segments[segments.len() - 2], &whole.join("code.log")] {
        let bytes = std::fs::read(path).expect("a file");
        let mut cuts: Vec<usize> = boundaries(&path.file_name().expect("a name").to_string_lossy(), &bytes)
            .iter()
            .flat_map(|end| [end.saturating_sub(1), *end, end + 1])
            .collect();
        cuts.extend((0..number("PHALANX_CUTS", 150) / 3).map(|_| rng.random_range(0..bytes.len())));
        cuts.retain(|at| *at <= bytes.len());
        let mut before = None;
        cuts.sort_unstable();
        for at in cuts {
            let name = path.file_name().expect("a name");
            let context = format!("{name:?} cut at {at} of {}", bytes.len());
            copy(&whole, &cut);
            std::fs::write(cut.join(name), &bytes[..at]).expect("a write");
            let found = tally.open("file", &cut, life, &mut oracle, &context);
            if path == last {
                // What was flushed is promised; a torn end behind it is no damage.
                assert!(found.is_some() || before.is_none(), "{context}: {found:?} after {before:?}");
                assert!(found.map(|found| found + 1) >= before, "{context}: {found:?} after {before:?}");
                before = found;
            } else if at < bytes.len() && name != "code.log" {
                assert_eq!(found, None, "{context}: only the end of the log may be torn");
            }
            std::fs::remove_dir_all(&cut).expect("the copy");
        }
    }
    println!("{tally:?}");
    assert!(tally.tip > 0 && tally.earlier > 0 && tally.refused > 0 && tally.behind > 0, "{tally:?}");
}

/// Damages files at random: bits flip, ends are missing, ranges are zero, files are gone.
fn damaged(kind: &str, openings: u64, turns: u64, rounds: u64) {
    let dir = crate::common::folder();
    let (whole, hurt) = (dir.path().join("whole"), dir.path().join("hurt"));
    let life = live(kind, &whole, openings, turns);
    let (mut oracle, mut tally) = (Oracle::new(SEED), Tally::default());
    let seed = number("PHALANX_MERKLE_SEED", SEED);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let all: Vec<PathBuf> = files(&whole).into_iter().filter(|path| path.is_file()).collect();
    // Every file is removed once, then each is damaged in turn.
    for round in 0..all.len() as u64 + rounds {
        let path = &all[round as usize % all.len()];
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        copy(&whole, &hurt);
        let mut bytes = std::fs::read(path).expect("a file");
        let how = if round < all.len() as u64 { 0 } else { rng.random_range(1..4) };
        let at = rng.random_range(0..bytes.len().max(1));
        match how {
            0 => std::fs::remove_file(hurt.join(&name)).expect("a file"),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << rng.random_range(0..8),
            2 => bytes.truncate(at),
            _ => {
                let end = bytes.len().min(at + 600);
                bytes[at.min(end)..end].fill(0);
            }
        }
        if how > 0 {
            std::fs::write(hurt.join(&name), &bytes).expect("a write");
        }
        let context = format!("{kind} seed {seed} round {round}: {name} how {how} at {at}");
        tally.open(kind, &hurt, life, &mut oracle, &context);
        std::fs::remove_dir_all(&hurt).expect("the copy");
    }
    println!("{kind}: {tally:?} over {} files", all.len());
    assert!(tally.tip > 0 && tally.refused > 0, "{tally:?}");
}

#[test]
fn damaged_files_open_at_a_block_or_are_an_error() {
    damaged("file", 2, 8, number("PHALANX_CUTS", 150));
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_damaged_database_opens_at_a_block_or_is_an_error() {
    damaged("rocks", 2, 8, number("PHALANX_CUTS", 150) / 2);
}

/// RocksDB's write-ahead log is truncated at the end of every record, beside it, and anywhere.
#[cfg(feature = "rocksdb")]
#[test]
fn a_write_ahead_log_is_cut_at_every_record() {
    let dir = crate::common::folder();
    let (whole, cut) = (dir.path().join("whole"), dir.path().join("cut"));
    let life = live("rocks", &whole, 2, 16);
    let (mut oracle, mut tally) = (Oracle::new(SEED), Tally::default());
    let log =
        files(&whole).into_iter().filter(|path| path.extension().is_some_and(|e| e == "log")).max().expect("a log");
    let bytes = std::fs::read(&log).expect("the log");
    let ends = boundaries(&log.to_string_lossy(), &bytes);
    let (seed, count) = (number("PHALANX_MERKLE_SEED", SEED), number("PHALANX_CUTS", 150) / 3);
    let every = (ends.len() as u64 * 3).div_ceil(count).max(1);
    let beside = ends.iter().flat_map(|end| [end.saturating_sub(1), *end, end + 1]).step_by(every as usize);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let anywhere = (0..count / 2).map(|_| rng.random_range(0..bytes.len()));
    let mut cuts: Vec<usize> = beside.chain(anywhere).filter(|at| *at <= bytes.len()).collect();
    cuts.sort_unstable();
    let mut before = None;
    for at in cuts {
        let context = format!("seed {seed}: cut at {at} of {}", bytes.len());
        copy(&whole, &cut);
        std::fs::write(cut.join(log.file_name().expect("a name")), &bytes[..at]).expect("a write");
        let found = tally.open("rocks", &cut, life, &mut oracle, &context);
        // A block may have been rewound in between.
        assert!(found.is_none() || found.map(|found| found + 1) >= before, "{context}: {found:?} after {before:?}");
        before = found.or(before);
        if let Some(height) = found {
            // The chain continues from there, and later data behind the tear does not return.
            let mut store = Store::open(config("rocks", &cut, Durability::Async)).expect(&context);
            turn(&mut store, SEED, &mut |_| ()).expect(&context);
            let (now, root) = (store.height(), store.root());
            drop(store);
            let store = Store::open(config("rocks", &cut, Durability::Async)).expect(&context);
            assert!(now > Some(height) && (store.height(), store.root()) == (now, root), "{context}");
        }
        std::fs::remove_dir_all(&cut).expect("the copy");
    }
    println!("{tally:?} over {} records", ends.len());
    // Cuts before the last flush lose what was promised.
    assert!(tally.earlier > 0 && tally.refused > 0, "{tally:?}");
}
