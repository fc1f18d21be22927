//! A process is killed in every phase of a block's life, again and again, and the store reopens at a block that it had.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::life::{self, Event, Oracle, number, turn};
use phalanx_merkle::{Durability, Memory, Opened, Store, StoreConfig};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const CHILD: &str = "PHALANX_MERKLE_KILL_CHILD";

const PHASES: [&str; 8] = ["open", "prepare", "stage", "promote", "commit", "discard", "rewind", "prune"];

/// Lives after which a store begins anew, so that the model stays small.
const LIVES: u64 = 60;

/// Child process that is killed: lives for ever and announces each phase.
#[test]
fn child() {
    let Ok(role) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = role.split('|').collect();
    let [kind, durability, seed, round, dir] = words[..] else { panic!("{role}") };
    let (seed, round) = (seed.parse().expect("a seed"), round.parse().expect("a round"));
    let mut out = std::io::stdout();
    let mut say = |words: String| out.write_all(words.as_bytes()).and_then(|()| out.flush()).expect("a pipe");
    say("\nbegin open\n".into());
    let mut store = Store::open(config(kind, Path::new(dir), self::durability(durability), round)).expect("a store");
    say("end open\n".into());
    loop {
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

/// Configuration: every other opening has a small cache, and checkpoints are due all the time.
fn config(kind: &str, dir: &Path, durability: Durability, round: u64) -> StoreConfig {
    let memory = if round.is_multiple_of(2) { Memory::Resident } else { Memory::Cached { bytes: 4000 } };
    life::config(kind, dir, durability).with_checkpoint_bytes(1).with_memory(memory)
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
    let (mut round, mut from_checkpoint) = (0, 0);
    for seed in first_seed.. {
        if round >= kills {
            break;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let mut oracle = Oracle::new(seed);
        let mut acked = None;
        for _ in 0..LIVES.min(kills - round) {
            let phase = PHASES[round as usize % PHASES.len()];
            round += 1;
            let nth = if phase == "open" { 1 } else { rng.random_range(1..4) };
            // Most phases take some tens of microseconds, opening some thousands.
            let delay = Duration::from_micros(rng.random_range(0..if phase == "open" { 20_000 } else { 250 }));
            let context = format!("{kind} {durability} seed {seed} round {round}: {phase} {nth} after {delay:?}");
            let role = format!("{kind}|{durability}|{seed}|{round}|{}", dir.path().display());
            let said = kill_in(&role, phase, nth, delay);
            *inside.entry(said.phase.unwrap_or_else(|| "between".into())).or_default() += 1;
            // A child that wrote nothing leaves the previous state.
            acked = said.acked.or(acked);
            let begun = said.begun.or(acked);
            let store = Store::open(config(kind, dir.path(), self::durability(durability), round / 2)).expect(&context);
            oracle.check(&store, acked, begun, &context);
            from_checkpoint += u64::from(matches!(store.opened(), Opened::Checkpoint { .. }));
            acked = store.height();
        }
    }
    println!(
        "{kind} {durability}: {round} kills from seed {first_seed} on, inside {inside:?}, {from_checkpoint} checkpoints"
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
