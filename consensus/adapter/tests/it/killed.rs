//! Kill -9 of a process that replaces its log all the time: no record that it has reported is lost.

use alloy_primitives::Bytes;
use phalanx_adapter::{Sync, Wal};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// Names the log in the environment of the process that is killed.
const CHILD: &str = "PHALANX_REPLACED_LOG";
/// Records that a replacement keeps.
const KEPT: u64 = 20;

fn record(number: u64) -> Bytes {
    number.to_be_bytes().repeat(200).into()
}

/// Numbers of the records in a log, which follow each other.
fn numbers(found: &[Bytes]) -> core::ops::Range<u64> {
    let number = |bytes: &Bytes| u64::from_be_bytes(bytes[..8].try_into().expect("a number"));
    let first = found.first().map_or(0, number);
    for (at, bytes) in found.iter().enumerate() {
        assert_eq!(*bytes, record(first + at as u64), "records follow each other");
    }
    first..first + found.len() as u64
}

/// The process that is killed: appends, reports, and replaces. An ordinary run has nothing to do here.
#[test]
fn writer() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let (mut wal, found) = Wal::open(path, Sync::Always).expect("a log");
    let mut next = numbers(&found).end;
    println!();
    loop {
        wal.append(&[record(next), record(next + 1)]).expect("room");
        next += 2;
        println!("durable {next}");
        let kept: Vec<Bytes> = (next.saturating_sub(KEPT)..next).map(record).collect();
        wal.replace(&kept).expect("room");
        println!("replaced {next}");
    }
}

/// Starts the writer, kills it a random time after a random report, and returns the number of records that it has reported.
fn kill(path: &Path, rng: &mut ChaCha8Rng) -> u64 {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "killed::writer", "--nocapture"]).env(CHILD, path);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a process");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut reported = 0;
    // Half of the kills come while the log is being replaced.
    let (kind, mut reports) = (["durable ", "replaced "][rng.random_range(0..2)], rng.random_range(1..12));
    let mut note = |line: &str| {
        let number = line.strip_prefix("durable ").or_else(|| line.strip_prefix("replaced "));
        reported = number.and_then(|number| number.parse().ok()).unwrap_or(reported);
    };
    while reports > 0 {
        let line = lines.next().expect("the writer goes on until it is killed");
        reports -= u32::from(line.starts_with(kind));
        note(&line);
    }
    thread::sleep(Duration::from_micros(rng.random_range(0..400)));
    child.kill().expect("it runs");
    // What it wrote before the signal counts.
    lines.for_each(|line| note(&line));
    child.wait().expect("it has ended");
    reported
}

#[test]
fn no_reported_record_is_lost_by_a_kill_while_the_log_is_replaced() {
    let kills: u64 = std::env::var("PHALANX_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(20);
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let path = folder.path().join("log");
    let mut between = 0;
    for kill_number in 0..kills {
        let reported = kill(&path, &mut rng);
        between += u64::from(folder.path().join("log.next").exists());
        let (wal, found) = Wal::open(&path, Sync::Always).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        drop(wal);
        let found = numbers(&found);
        assert!(found.end >= reported, "seed {seed}, kill {kill_number}: {found:?} of {reported} reported");
        assert!(found.start <= reported.saturating_sub(KEPT), "seed {seed}, kill {kill_number}: {found:?}");
    }
    println!("{between} of {kills} kills came between the beginning of a replacement and its end");
}
