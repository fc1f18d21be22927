//! A fault in a file of a store, anywhere: opening refuses it, or `check` does, or it changes no answer, or the torn end
//! of something that was never promised is reported. No fault goes unnoticed and does harm.
//!
//! `PHALANX_DAMAGES` is the long run: every whole-file fault, cuts at every record's end and beside it, and as many faults
//! anywhere per file. `PHALANX_MERKLE_SEED` sets where those are, `PHALANX_DAMAGE_TABLE` prints a table.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::common::life::{Oracle, boundaries, config, copy, copy_live, number, start_anew, turn};
use phalanx_merkle::{Access, Durability, Error, Store};
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

const SEED: u64 = 121;

/// Turns before the earlier image of a store, and after it.
const BEFORE: u64 = 9;
const AFTER: u64 = 8;

/// Fault in one file.
#[derive(Clone, Debug)]
enum Fault {
    Flip(usize, u8),
    /// A bit of the length of the record at this offset.
    Length(usize, u8),
    /// A sector of zeros.
    Zero(usize),
    Cut(usize),
    Missing,
    /// The content follows itself.
    Twice,
    /// The file is also there under the next number.
    Again,
    /// Another file of the same kind is in its place, and it in the other's.
    Swapped(String),
    /// The file as it was some blocks earlier.
    Older,
}

/// Result of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    AtOpening,
    ByCheck,
    /// Same root and answers.
    Harmless,
    /// An earlier block, with a report, behind all that was promised.
    Torn,
    Undetected,
}

/// End of the process that wrote a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Killed,
    /// Killed, and the machine was started anew since: nothing that reached the kernel alone is promised.
    Restarted,
}

/// A store on disk, and what it must answer.
struct Image {
    name: String,
    kind: &'static str,
    durability: Durability,
    dir: PathBuf,
    older: PathBuf,
    tip: u64,
    /// Height that was promised to survive a power cut.
    promised: Option<u64>,
    export: Vec<u8>,
}

impl Image {
    fn new(home: &Path, kind: &'static str, durability: Durability, end: End) -> Self {
        let killed = end != End::Closed;
        let name = format!("{kind} {durability:?} {end:?}");
        let (live, dir, older) = (home.join("live"), home.join("image"), home.join("older"));
        let (mut promised, mut tip) = (None, 0);
        let mut turns = |store: &mut Store, count: u64| {
            for _ in 0..count {
                turn(store, SEED, &mut |event| {
                    if let crate::common::life::Event::End("flush" | "prune") = event {
                        promised = Some(tip);
                    } else if let crate::common::life::Event::Written(height) = event {
                        tip = height;
                    }
                })
                .expect("a turn");
            }
        };
        let mut store = Store::open(config(kind, &live, durability)).expect("a store");
        turns(&mut store, BEFORE);
        if !killed {
            drop(store);
            store = Store::open(config(kind, &live, durability)).expect("a store");
        }
        copy_live(&live, &older);
        turns(&mut store, AFTER);
        let mut export = Vec::new();
        store.export(&mut export).expect("an export");
        if killed {
            copy_live(&live, &dir);
        }
        drop(store);
        if !killed {
            copy(&live, &dir);
        }
        if end == End::Restarted {
            start_anew(&dir.join("promise"));
        }
        let promised = if durability == Durability::Block { Some(tip) } else { promised };
        std::fs::remove_dir_all(&live).expect("the live store");
        Self { name, kind, durability, dir, older, tip, promised, export }
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = content(&self.dir).into_keys().collect();
        names.retain(|name| !name.starts_with("LOG") && name != "LOCK" && !name.ends_with("lock"));
        names
    }

    /// Returns true if the store, which opened for writing, makes its next block and has it at the opening after.
    fn goes_on(&self, hurt: &Path, oracle: &mut Oracle) -> bool {
        let open = || Store::open(config(self.kind, hurt, self.durability));
        let Ok(mut store) = open() else { return false };
        let went = turn(&mut store, SEED, &mut |_| ());
        let (height, root) = (store.height(), store.root());
        drop(store);
        let Ok(store) = open() else { return false };
        let right = height.is_some_and(|height| store.root() == oracle.root(height));
        went.is_ok() && right && (store.height(), store.root()) == (height, root) && store.check().is_ok()
    }

    /// Opens a damaged copy for reading and then for writing.
    fn outcome(&self, hurt: &Path, oracle: &mut Oracle, context: &str) -> Outcome {
        let before = content(hurt);
        let reading = self.read(Access::Read, hurt, oracle, context);
        let after = content(hurt);
        assert!(before == after, "{context}: reading changed {:?}", difference(&before, &after));
        let writing = self.read(Access::Write, hurt, oracle, context);
        if writing == Outcome::AtOpening {
            let after = content(hurt);
            let changed = difference(&before, &after);
            let stays = changed.iter().all(|name| name.ends_with("lock") || name == "LOG" || name == "LOCK");
            assert!(stays, "{context}: a refused opening changed {changed:?}");
        }
        reading.max(writing)
    }

    fn read(&self, access: Access, hurt: &Path, oracle: &mut Oracle, context: &str) -> Outcome {
        let store = match Store::open(config(self.kind, hurt, self.durability).with_access(access)) {
            Ok(store) => store,
            Err(error) => {
                typed(&error, context);
                return Outcome::AtOpening;
            }
        };
        let Some(height) = store.height() else {
            let noticed = !store.tail().is_clean() && self.promised.is_none();
            return if noticed { Outcome::Torn } else { Outcome::Undetected };
        };
        if store.root() != oracle.root(height) {
            return Outcome::Undetected;
        }
        if height < self.tip {
            let noticed = !store.tail().is_clean() && self.promised.is_none_or(|promised| promised <= height);
            return match store.check() {
                Ok(_) if noticed => Outcome::Torn,
                Ok(_) => Outcome::Undetected,
                Err(error) => {
                    typed(&error, context);
                    Outcome::ByCheck
                }
            };
        }
        if let Err(error) = store.check() {
            typed(&error, context);
            return Outcome::ByCheck;
        }
        // All answers are in an export: entries, proofs' nodes, payloads, code.
        let mut export = Vec::new();
        match store.export(&mut export) {
            Ok(_) if export.len() == self.export.len() && sorted(&export) == sorted(&self.export) => Outcome::Harmless,
            Ok(_) => Outcome::Undetected,
            Err(error) => panic!("{context}: check says sound, and an export fails: {error}"),
        }
    }

    /// Other files of the same kind.
    fn others(&self, name: &str) -> Vec<String> {
        let end = |name: &str| name.rsplit_once('.').map_or_else(|| name.to_owned(), |(_, end)| end.to_owned());
        self.files().into_iter().filter(|other| other != name && end(other) == end(name)).collect()
    }

    /// All faults of a whole file, cuts at every record's end and beside it, and `count` faults anywhere.
    fn all_faults(&self, rng: &mut ChaCha8Rng, name: &str, count: u64) -> Vec<Fault> {
        let bytes = std::fs::read(self.dir.join(name)).expect("a file");
        let mut faults = vec![Fault::Missing, Fault::Again];
        faults.extend(self.others(name).into_iter().map(Fault::Swapped));
        faults.extend(self.older.join(name).exists().then_some(Fault::Older));
        if bytes.is_empty() {
            return faults;
        }
        faults.push(Fault::Twice);
        let begins = lengths(name, &bytes);
        let every = begins.len().div_ceil(2 * count as usize).max(1);
        let first = rng.random_range(0..every);
        let bit = |at| Fault::Length(at, rng.random_range(0..16));
        faults.extend(begins.into_iter().skip(first).step_by(every).map(bit));
        let cuts = boundaries(name, &bytes).into_iter().flat_map(|end| [end.saturating_sub(1), end, end + 1]);
        faults.extend(cuts.filter(|at| *at < bytes.len()).map(Fault::Cut));
        faults.extend((0..count).map(|at| match at % 4 {
            0 => Fault::Zero(rng.random_range(0..bytes.len()) / 512 * 512),
            1 => Fault::Cut(rng.random_range(0..bytes.len())),
            _ => Fault::Flip(rng.random_range(0..bytes.len()), rng.random_range(0..8)),
        }));
        faults
    }

    fn fault(&self, rng: &mut ChaCha8Rng, name: &str, at: usize) -> Fault {
        let len = std::fs::metadata(self.dir.join(name)).expect("a file").len() as usize;
        let bytes = std::fs::read(self.dir.join(name)).expect("a file");
        let (ends, begins) = (boundaries(name, &bytes), lengths(name, &bytes));
        let others = self.others(name);
        match at % 9 {
            _ if len == 0 => Fault::Missing,
            0 => Fault::Missing,
            1 if !others.is_empty() => Fault::Swapped(others.choose(rng).expect("another").clone()),
            2 if self.older.join(name).exists() => Fault::Older,
            3 => [Fault::Twice, Fault::Again].choose(rng).expect("one").clone(),
            4 => Fault::Zero(rng.random_range(0..len) / 512 * 512),
            5 => {
                let end = *ends.choose(rng).expect("the begin");
                Fault::Cut((end + rng.random_range(0..3)).saturating_sub(1).min(len - 1))
            }
            6 => Fault::Cut(rng.random_range(0..len)),
            8 if !begins.is_empty() => Fault::Length(*begins.choose(rng).expect("one"), rng.random_range(0..16)),
            _ => Fault::Flip(rng.random_range(0..len), rng.random_range(0..8)),
        }
    }

    fn apply(&self, fault: &Fault, name: &str, hurt: &Path) {
        let path = hurt.join(name);
        let mut bytes = std::fs::read(&path).expect("a file");
        match fault {
            Fault::Flip(at, bit) => bytes[*at] ^= 1 << bit,
            Fault::Length(at, bit) => flip_length(name, &mut bytes[*at..], *bit),
            Fault::Zero(at) => {
                let end = bytes.len().min(at + 512);
                bytes[*at..end].fill(0);
            }
            Fault::Cut(len) => bytes.truncate(*len),
            Fault::Missing => return std::fs::remove_file(&path).expect("a file"),
            Fault::Twice => bytes.extend_from_within(..),
            Fault::Again => {
                let digits = name.chars().take_while(char::is_ascii_digit).count();
                let next = name[..digits].parse::<u64>().map_or(1, |number| number + 1);
                let again =
                    if digits > 0 { format!("{next:0digits$}{}", &name[digits..]) } else { format!("{name}.1") };
                if !hurt.join(&again).exists() {
                    std::fs::write(hurt.join(again), &bytes).expect("a write");
                }
                return;
            }
            Fault::Swapped(other) => {
                let theirs = std::fs::read(hurt.join(other)).expect("a file");
                std::fs::write(hurt.join(other), &bytes).expect("a write");
                bytes = theirs;
            }
            Fault::Older => bytes = std::fs::read(self.older.join(name)).expect("a file"),
        }
        std::fs::write(path, bytes).expect("a write");
    }
}

/// Offsets of the records of a file that state their length.
fn lengths(name: &str, bytes: &[u8]) -> Vec<usize> {
    let mut begins = boundaries(name, bytes);
    begins.retain(|at| begins_with_length(name) && at + 9 <= bytes.len());
    begins
}

fn begins_with_length(name: &str) -> bool {
    name.ends_with(".seg") || name.ends_with(".log") || name.starts_with("checkpoint") || name.starts_with("MANIFEST")
}

/// Flips one of the lower 16 bits of the length of a record.
fn flip_length(name: &str, record: &mut [u8], bit: u8) {
    let bit = usize::from(bit);
    let is_wal = name != "code.log" && name.ends_with(".log") || name.starts_with("MANIFEST");
    let byte = if is_wal { 4 + bit / 8 } else { 7 - bit / 8 };
    record[byte] ^= 1 << (bit % 8);
}

/// Records of an export in an order that does not depend on the backend's.
fn sorted(export: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    let mut at = 0;
    while at + 9 <= export.len() {
        let len = u32::from_be_bytes(export[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        records.push(&export[at..at + 9 + len]);
        at += 9 + len;
    }
    records.sort_unstable();
    records
}

fn content(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    files
        .map(|file| (file.file_name().to_string_lossy().into_owned(), std::fs::read(file.path()).expect("a file")))
        .collect()
}

fn difference(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let names = before.keys().chain(after.keys());
    let mut changed: Vec<String> = names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect();
    changed.dedup();
    changed
}

fn typed(error: &Error, context: &str) {
    match error {
        Error::Corrupt { .. } | Error::Format { .. } | Error::NoStore { .. } => {}
        #[cfg(feature = "rocksdb")]
        Error::Rocks { .. } => {}
        other => panic!("{context}: {other}"),
    }
}

/// Names of the outcomes, as the table's columns have them.
const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::AtOpening, "at opening"),
    (Outcome::ByCheck, "by `check`"),
    (Outcome::Torn, "torn, reported"),
    (Outcome::Harmless, "harmless"),
    (Outcome::Undetected, "undetected and harmful"),
];

/// Lives of the stores that faults come to.
const ENDS: [(Durability, End); 5] = [
    (Durability::Async, End::Closed),
    (Durability::Async, End::Killed),
    (Durability::Async, End::Restarted),
    (Durability::Block, End::Closed),
    (Durability::Block, End::Killed),
];

fn swept(kind: &'static str, durability: Durability, end: End, few: usize) {
    let home = crate::common::folder();
    let image = Image::new(home.path(), kind, durability, end);
    let (seed, hurt) = (number("PHALANX_MERKLE_SEED", SEED), home.path().join("hurt"));
    // Each image gets faults of its own.
    let own = seed ^ (durability as u64 + 1) << 32 ^ (end as u64 + 1) << 40;
    let (mut rng, mut oracle) = (ChaCha8Rng::seed_from_u64(own), Oracle::new(SEED));
    oracle.root(image.tip);
    let (names, whole) = (image.files(), content(&image.dir));
    // A fault that changes no byte is none.
    let changes = |name: &str, fault: &Fault| {
        copy(&image.dir, &hurt);
        image.apply(fault, name, &hurt);
        let changes = content(&hurt) != whole;
        std::fs::remove_dir_all(&hurt).expect("the copy");
        changes
    };
    let mut faults: Vec<(&String, Fault)> = Vec::new();
    match number("PHALANX_DAMAGES", 0) {
        0 => {
            for at in 0.. {
                if faults.len() == few {
                    break;
                }
                let name = &names[at % names.len()];
                let how = at / names.len() + rng.random_range(0..9usize);
                faults.push((name, image.fault(&mut rng, name, how)));
                faults.pop_if(|(name, fault)| !changes(name, fault));
            }
        }
        count => {
            for name in &names {
                let all = image.all_faults(&mut rng, name, count).into_iter();
                faults.extend(all.filter(|fault| changes(name, fault)).map(|fault| (name, fault)));
            }
        }
    }
    let mut table: BTreeMap<(String, Outcome), u64> = BTreeMap::new();
    let mut bad = Vec::new();
    for (name, fault) in &faults {
        let context = format!("{}, seed {seed}, {name}: {fault:?}", image.name);
        copy(&image.dir, &hurt);
        image.apply(fault, name, &hurt);
        let mut outcome = image.outcome(&hurt, &mut oracle, &context);
        if matches!(outcome, Outcome::Harmless | Outcome::Torn) && !image.goes_on(&hurt, &mut oracle) {
            outcome = Outcome::Undetected;
        }
        let words = format!("{fault:?}");
        let kind_of_fault = words.split(['(', ' ']).next().unwrap_or_default();
        let kind_of_file: String = name.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        *table.entry((format!("{kind_of_file} | {kind_of_fault}"), outcome)).or_default() += 1;
        if outcome == Outcome::Undetected {
            bad.push(context);
        }
        std::fs::remove_dir_all(&hurt).expect("the copy");
    }
    let sum = |wanted: Outcome| table.iter().filter(|((_, found), _)| *found == wanted).map(|(_, n)| n).sum::<u64>();
    let sums: Vec<String> = OUTCOMES.iter().map(|(outcome, words)| format!("{words} {}", sum(*outcome))).collect();
    println!("{}, seed {seed}: {} files, {} faults: {}", image.name, names.len(), faults.len(), sums.join(", "));
    if number("PHALANX_DAMAGE_TABLE", 0) > 0 {
        let mut rows: Vec<&String> = table.keys().map(|(what, _)| what).collect();
        rows.dedup();
        for what in rows {
            let counts = OUTCOMES.map(|(outcome, _)| table.get(&(what.clone(), outcome)).copied().unwrap_or(0));
            println!("| {} | {what} | {} |", image.name, counts.map(|count| count.to_string()).join(" | "));
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(sum(Outcome::AtOpening) > 0, "nothing was refused");
}

#[test]
fn no_fault_in_a_file_goes_unnoticed_and_does_harm() {
    ENDS.into_iter().for_each(|(durability, end)| swept("file", durability, end, 60));
}

#[cfg(feature = "rocksdb")]
#[test]
fn no_fault_in_a_database_goes_unnoticed_and_does_harm() {
    ENDS.into_iter().for_each(|(durability, end)| swept("rocks", durability, end, 25));
}
