//! A process is killed in every phase of a block's life, again and again, and the store reopens at a block that it had.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::life::{self, Event, Oracle, number, turn};
use phalanx_merkle::{
    Access, Durability, Error, Memory, Opened, Reading, Store, StoreConfig, discard_import, interrupted_import,
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const CHILD: &str = "PHALANX_MERKLE_KILL_CHILD";

const PHASES: [&str; 12] = [
    "open", "prepare", "stage", "export", "promote", "commit", "import", "discard", "rewind", "backup", "prune",
    "flush",
];

/// Phases that make a copy beside the store.
const COPIES: [&str; 3] = ["export", "import", "backup"];

/// Lives after which a store begins anew, so that the model stays small.
const LIVES: u64 = 60;

/// Child process that is killed: lives for ever and announces each phase.
#[test]
fn child() {
    let Ok(role) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = role.split('|').collect();
    let [kind, durability, seed, round, phase, dir] = words[..] else { panic!("{role}") };
    let (seed, round) = (seed.parse().expect("a seed"), round.parse().expect("a round"));
    let mut out = std::io::stdout();
    let mut say = |words: String| out.write_all(words.as_bytes()).and_then(|()| out.flush()).expect("a pipe");
    say("\nbegin open\n".into());
    let mut store = Store::open(config(kind, Path::new(dir), self::durability(durability), round)).expect("a store");
    say("end open\n".into());
    let copies = Copies::of(kind, Path::new(dir));
    loop {
        if COPIES.contains(&phase) && store.height().is_some() {
            copies.make(&store, phase, |words| say(format!("{words} {phase}\n")));
        }
        let begun = store.height().map_or(0, |height| height + 1);
        say(format!("begun {begun}\n"));
        turn(&mut store, seed, &mut |event| {
            say(match event {
                Event::Begin(phase) => format!("begin {phase}\n"),
                Event::End(phase) => format!("end {phase}\n"),
                Event::Written(height) => format!("written {height}\n"),
                Event::Leaving(height) => format!("leaving {height}\n"),
            });
        })
        .expect("a turn");
    }
}

/// Copies of a store, in directories beside it.
struct Copies {
    kind: String,
    stream: PathBuf,
    imported: PathBuf,
    backup: PathBuf,
}

impl Copies {
    fn of(kind: &str, dir: &Path) -> Self {
        let beside = |end: &str| PathBuf::from(format!("{}{end}", dir.display()));
        Self { kind: kind.into(), stream: beside(".stream"), imported: beside(".imported"), backup: beside(".backup") }
    }

    fn config(&self, place: &Path) -> StoreConfig {
        life::config(&self.kind, place, Durability::Async)
    }

    /// Makes one copy, as the commands do, and says when its phase begins and ends.
    fn make(&self, store: &Store, phase: &str, mut say: impl FnMut(&str)) {
        // A copy is replaced as a whole: what is removed has another name by then.
        for place in [&self.imported, &self.backup] {
            let old = place.with_extension("old");
            let _ = std::fs::remove_dir_all(&old);
            let _ = std::fs::rename(place, &old);
        }
        let mut stream = Vec::new();
        match phase {
            "export" => {
                say("begin");
                let new = self.stream.with_extension("new");
                let mut file = File::create(&new).expect("a file");
                store.export(&mut file).expect("an export");
                file.sync_all().and_then(|()| std::fs::rename(&new, &self.stream)).expect("a rename");
            }
            "import" => {
                store.export(&mut stream).expect("an export");
                say("begin");
                Store::import(self.config(&self.imported), &mut &stream[..]).expect("an import");
            }
            _ => {
                let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
                say("begin");
                let root = store.root();
                std::thread::scope(|scope| {
                    // The pipe ends with the thread.
                    scope.spawn(move || store.background().export(&mut writer).expect("an export"));
                    Store::import_root(self.config(&self.backup), &mut reader, Some(&root)).expect("a backup");
                });
            }
        }
        say("end");
    }

    /// Asserts after a kill that each copy is absent or whole. What an interrupted one left goes with one call. Returns the number
    /// of interrupted copies.
    fn check(&self, oracle: &mut Oracle, begun: Option<u64>, context: &str) -> u64 {
        let mut interrupted = 0;
        let mut is_whole = |store: &Store, what: &str| {
            let height = store.height().expect("a block");
            assert!(Some(height) <= begun, "{context}: {what} of height {height}");
            assert_eq!(store.root(), oracle.root(height), "{context}: {what} of height {height}");
            store.check().unwrap_or_else(|error| panic!("{context}: {what}: {error}"));
        };
        for place in [&self.imported, &self.backup] {
            let config = self.config(place);
            match Store::open(config.clone().with_access(Access::Read)) {
                Ok(store) => is_whole(&store, "a copy"),
                Err(Error::NoStore { .. }) => assert!(!place.exists(), "{context}: {} is no store", place.display()),
                Err(error) => panic!("{context}: {}: {error}", place.display()),
            }
            interrupted += u64::from(interrupted_import(place).is_some());
            discard_import(place).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(interrupted_import(place).is_none(), "{context}");
        }
        if let Ok(stream) = std::fs::read(&self.stream) {
            let copy = Store::import(self.config(&self.imported.with_extension("again")), &mut &stream[..]);
            let copy = copy.unwrap_or_else(|error| panic!("{context}: the exported stream: {error}"));
            is_whole(&copy, "a stream");
            drop(copy);
            std::fs::remove_dir_all(self.imported.with_extension("again")).expect("the copy");
            std::fs::remove_file(&self.stream).expect("the stream");
        }
        interrupted
    }
}

/// Configuration: every other opening has a small cache, and checkpoints are due all the time.
fn config(kind: &str, dir: &Path, durability: Durability, round: u64) -> StoreConfig {
    // Every life is a paged one if the environment names a way to read; otherwise some are, with either way.
    let named = std::env::var("PHALANX_MERKLE_READING");
    let reading = match named.as_deref() {
        Ok("direct") => Reading::Direct,
        Ok("buffered") => Reading::Buffered,
        Ok("threads") => Reading::Threads,
        Ok(other) => panic!("PHALANX_MERKLE_READING={other}: expected direct, buffered or threads"),
        Err(_) if round % 4 == 1 => Reading::Direct,
        Err(_) => Reading::Threads,
    };
    let is_paged = named.is_ok() || !round.is_multiple_of(2);
    let memory = if is_paged { Memory::Cached { bytes: 4000 } } else { Memory::Resident };
    life::config(kind, dir, durability).with_checkpoint_bytes(1).with_memory(memory).with_reading(reading)
}

fn durability(name: &str) -> Durability {
    if name == "block" { Durability::Block } else { Durability::Async }
}

/// Output of a child before it was killed.
#[derive(Default)]
struct Said {
    acked: Option<u64>,
    begun: Option<u64>,
    phase: Option<String>,
}

/// Lets a child with this role live until its `nth` time in `phase`, and kills it a moment later.
fn kill_in(role: &str, phase: &str, nth: u32, delay: Duration) -> Said {
    let mut child = Command::new(std::env::current_exe().expect("this test's path"))
        .args(["--exact", "kill::child", "--nocapture", "--test-threads=1"])
        .env(CHILD, role)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let (mut said, mut left) = (Said::default(), nth);
    for line in lines.map_while(Result::ok) {
        match line.split_once(' ') {
            Some(("begin", begun)) => {
                said.phase = Some(begun.to_owned());
                if begun == phase && left > 0 {
                    left -= 1;
                    if left == 0 {
                        let begin = Instant::now();
                        while begin.elapsed() < delay {
                            std::hint::spin_loop();
                        }
                        child.kill().expect("a kill");
                    }
                }
            }
            Some(("end", _)) => said.phase = None,
            Some(("written" | "leaving", height)) => said.acked = height.parse().ok(),
            Some(("begun", height)) => said.begun = height.parse().ok(),
            _ => {}
        }
    }
    child.wait().expect("its end");
    assert_eq!(left, 0, "the child ended before it was killed");
    said
}

fn killed(kind: &str, durability: &str, first_seed: u64, kills: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(first_seed);
    let mut inside: BTreeMap<String, u32> = BTreeMap::new();
    let (mut round, mut from_checkpoint, mut interrupted) = (0, 0, 0);
    for seed in first_seed.. {
        if round >= kills {
            break;
        }
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("store");
        let (mut oracle, copies) = (Oracle::new(seed), Copies::of(kind, &dir));
        let mut acked = None;
        for _ in 0..LIVES.min(kills - round) {
            let phase = PHASES[round as usize % PHASES.len()];
            round += 1;
            let nth = if phase == "open" { 1 } else { rng.random_range(1..4) };
            // Most phases take some tens of microseconds, opening and copying some thousands.
            let is_long = phase == "open" || COPIES.contains(&phase);
            let delay = Duration::from_micros(rng.random_range(0..if is_long { 20_000 } else { 250 }));
            let context = format!("{kind} {durability} seed {seed} round {round}: {phase} {nth} after {delay:?}");
            let role = format!("{kind}|{durability}|{seed}|{round}|{phase}|{}", dir.display());
            let said = kill_in(&role, phase, nth, delay);
            *inside.entry(said.phase.unwrap_or_else(|| "between".into())).or_default() += 1;
            // A child that wrote nothing leaves the previous state.
            acked = said.acked.or(acked);
            let begun = said.begun.or(acked);
            let store = Store::open(config(kind, &dir, self::durability(durability), round / 2)).expect(&context);
            oracle.check(&store, acked, begun, &context);
            from_checkpoint += u64::from(matches!(store.opened(), Opened::Checkpoint { .. }));
            acked = store.height();
            interrupted += copies.check(&mut oracle, begun, &context);
        }
    }
    println!(
        "{kind} {durability}: {round} kills from seed {first_seed} on, inside {inside:?}, {from_checkpoint} checkpoints, \
         {interrupted} interrupted copies"
    );
    let phases = PHASES.iter().filter(|phase| inside.contains_key(**phase)).count();
    // Number of phases hit, which depends on the load of the machine.
    assert!(phases > 1, "few phases were hit: {inside:?}");
}

/// Share of the kills that the environment asks for.
fn share(of: u64) -> u64 {
    number("PHALANX_KILLS", 48).div_ceil(of).max(16)
}

#[test]
fn file_survives_kills_in_every_phase() {
    let seed = number("PHALANX_MERKLE_SEED", 1000);
    killed("file", "async", seed, share(3));
    killed("file", "block", seed + 1_000_000, share(6));
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_survives_kills_in_every_phase() {
    let seed = number("PHALANX_MERKLE_SEED", 2000);
    killed("rocks", "async", seed, share(3));
    killed("rocks", "block", seed + 1_000_000, share(6));
}
