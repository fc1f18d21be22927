//! `phalanx net`: processes with the real engine under kill -9, cuts and delays agree on every root; wrong input is refused.

use crate::command::{Ended, phalanx, run};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
};

/// Heights whose records one sync of the log covers, at most, while other tests keep the cores busy: 200 ms at these rates.
/// A run with kills shows at least that half of the heights are compared.
const HIDDEN: u64 = 32;

/// Runs a network with everything compared, and returns the result.
#[track_caller]
fn net(flags: &str) -> Value {
    // In memory where the system has such a folder: other tests keep the disk busy.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let ended = run(&format!("net --json - --drain 240 --dir {} {flags}", folder.path().display()));
    let result = ended.json();
    assert!(result["settled"] == true && result["unanswered"] == 0 && result["skipped"] == 0, "{result:#}");
    // A kill between commits and the sync of their records leaves heights whose results the replica cannot name.
    let (blocks, kills) = (result["blocks"].as_u64().expect("a number"), flags.matches("--kill").count() as u64);
    let compared = result["heights_compared"].as_array().expect("a number per replica");
    let named = |least: u64| compared.iter().all(|heights| heights.as_u64() >= Some(least));
    assert!(named(blocks - (HIDDEN * kills).min(blocks / 2)), "too many heights are missing: {result:#}");
    assert_eq!(result["one_root_per_height"], named(blocks), "{result:#}");
    assert_eq!(result["equals_serial"], true, "{result:#}");
    assert!(result["heights_executed"] == result["blocks"] && result["blocks"].as_u64() > Some(0), "{result:#}");
    result
}

/// Kill -9 at random moments, of the primary in turns with any replica; `PHALANX_KILLS=50` is the long run.
/// Only the first kill must change the view: a shorter one may end before the others' timeouts.
#[test]
fn kills_at_random_moments_under_load_lose_nothing() {
    let kills: u64 = std::env::var("PHALANX_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(4);
    let seed =
        std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| rand::rng().random());
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut flags = format!("--seconds {} --tps 200 --clients 300 --timeout-ms 700", kills + 4);
    flags.push_str(&format!(" --kill primary@{:.3}+2.8", rng.random_range(0.2..0.8)));
    for kill in 3..kills + 2 {
        let victim = if kill % 2 == 0 { "primary".into() } else { rng.random_range(0..4).to_string() };
        let (at, down) = (kill as f64 + rng.random_range(0.3..1.5), rng.random_range(0.1..1.5));
        flags.push_str(&format!(" --kill {victim}@{at:.3}+{down:.3}"));
    }
    println!("{flags}");
    let result = net(&flags);
    let views = result["replicas"].as_array().expect("replicas").iter().filter_map(|replica| replica["view"].as_u64());
    assert!(views.max() >= Some(1), "the killed primary was left: {result:#}");
}

/// Decided blocks come from a peer.
#[test]
fn a_replica_that_was_away_past_checkpoints_is_brought_back() {
    let result = net("--seconds 5 --tps 200 --clients 200 --batch 10 --interval 4 --kill 3@1+3");
    assert!(result["replicas"][3]["transfers"].as_u64() >= Some(1), "{result:#}");
}

/// All others have pruned what a replica lacks: its process takes a snapshot and goes on with the blocks behind it. How much of its
/// lanes Autobahn has pruned depends on the machine's load: it joins in the tests of `phalanx-host` and `phalanx-node`.
#[test]
fn a_replica_that_was_away_for_longer_than_blocks_are_retained_joins_by_a_snapshot() {
    for protocol in ["pbft", "sbft"] {
        let folder = tempfile::tempdir().expect("a folder");
        let flags = "--seconds 9 --tps 100 --clients 200 --batch 1 --interval 4 --retention 16 --snapshot-every 8";
        let dir = folder.path().display();
        let ended = run(&format!("net --json - --drain 240 --protocol {protocol} --dir {dir} {flags} --kill 3@1+6"));
        let result = ended.json();
        assert!(
            result["settled"] == true && result["unanswered"] == 0 && result["equals_serial"] == true,
            "{result:#}"
        );
        let words = fs::read_to_string(folder.path().join("replica-3.stderr")).expect("its words");
        assert!(words.contains("is the state now"), "{protocol}: {words}\n{result:#}");
        let replicas = result["replicas"].as_array().expect("replicas");
        assert!(replicas.iter().all(|replica| replica["committed"] == replicas[0]["committed"]), "{replicas:#?}");
    }
}

/// A backup that is suspended for twice its patience is in the view of all others when it is back: it complained, and did not leave.
/// A machine that is too busy for a primary has three attempts.
#[test]
fn a_suspended_backup_stays_in_the_view_of_all_others() {
    let stays = |_| {
        let result = net("--seconds 7 --tps 100 --clients 200 --stop 3@2+2");
        let replicas = result["replicas"].as_array().expect("replicas");
        println!("{result:#}");
        replicas.iter().all(|replica| replica["view"] == replicas[0]["view"])
    };
    assert!((0..3).any(stays), "its view is another");
}

#[test]
fn distances_cuts_and_losses_cost_time_and_nothing_else() {
    let partition = "--partition 0@1+1:holds --partition 1,2@3+1:loses";
    let result = net(&format!("--seconds 5 --tps 100 --clients 200 --rtt autobahn4 --loss 5 --mbits 200 {partition}"));
    let (median, floor) = (result["latency_ms"]["p50"].as_f64(), result["floor_ms"].as_f64());
    assert!(floor > Some(50.0) && median >= floor, "no answer is faster than the distances permit: {result:#}");
}

#[test]
fn every_number_of_threads_and_authentication_agrees() {
    net(
        "--seconds 1 --tps 0 --clients 50 --execution worker --batch-threads 0 --authentication none --durability none",
    );
    net("--seconds 1 --tps 0 --clients 50 --execution worker --batch-threads 1 --authentication ed25519 --batch 1");
}

/// Logs of a few KiB are replaced all the time, and two replicas are killed meanwhile.
#[test]
fn logs_are_replaced_under_load_and_kills() {
    for protocol in ["pbft", "sbft", "autobahn"] {
        let flags = "--seconds 3 --tps 200 --clients 200 --batch 5 --interval 4 --log-kib 4 --timeout-ms 700";
        let result = net(&format!("--protocol {protocol} {flags} --kill 2@1+0.3 --kill primary@2+0.3"));
        let replaced = |replica: &Value| replica["compactions"].as_u64() > Some(0);
        let replicas = result["replicas"].as_array().expect("replicas");
        assert!(replicas.iter().any(replaced), "{protocol}: {replicas:#?}");
    }
}

/// Lanes under distances: a leader is killed, and half of the network is cut off from the other.
#[test]
fn autobahn_orders_under_distances_kills_and_cuts() {
    let faults = "--kill primary@2+1 --partition 0,1@4+1:loses";
    let result = net(&format!("--protocol autobahn --seconds 7 --tps 100 --clients 200 --rtt autobahn4 {faults}"));
    let hangovers = result["hangovers"].as_array().expect("one per fault");
    assert_eq!(hangovers.len(), 2, "{result:#}");
    println!("{hangovers:?}, median {}", result["latency_ms"]["p50"]);
}

/// The fast path, the slow one while a replica is suspended for twice its patience, and the fast one again. A machine that is too busy
/// for a path has three attempts; a replica that left its view, or collectors that do not learn, have no chance in any.
#[test]
fn sbft_changes_paths_and_proves_transactions_in_one_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ack.json");
    let flags = "--protocol sbft --seconds 8 --tps 60 --clients 200 --stop 3@2+2 --acknowledgement";
    let changes = |_| {
        let result = net(&format!("{flags} {}", path.display()));
        let of = |seconds: std::ops::Range<usize>, path: &str| -> u64 {
            seconds.filter_map(|second| result["by_second"][second][path].as_u64()).sum()
        };
        println!("{:#}\n{:#}", result["by_second"], result["replicas"]);
        assert!(result["acknowledgements"]["verified"].as_u64() > Some(0), "{result:#}");
        of(2..4, "slow_blocks") > 0 && of(0..2, "fast_blocks") > 0 && of(5..8, "fast_blocks") > 0
    };
    assert!((0..3).any(changes), "no slow path while a replica is suspended, or no fast one before and behind");
    let message: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    let key = message["public_key"].as_str().expect("a key");
    let instance = message["instance"].as_str().expect("a name");
    let verify = |path: &Path, flags: &str| run(&format!("state acknowledged {} {flags}", path.display()));
    assert_eq!(verify(&path, &format!("--public-key {key}")).code, Some(3), "of a network without a name");
    let key = format!("{key} --instance {instance}");
    let known = verify(&path, &format!("--public-key {key}"));
    assert!(known.code == Some(0) && known.stdout.contains("succeeded"), "{known:?}");
    assert_eq!(verify(&path, &format!("--public-key {key} --chain 2")).code, Some(3));
    verify(&path, "--public-key 0x12").refused(2, "96 bytes");
    let mut other = message.clone();
    other["transaction"] = format!("0x{:064}", 1).into();
    fs::write(&path, other.to_string()).expect("a file");
    assert_eq!(verify(&path, &format!("--public-key {key}")).code, Some(3));
    fs::write(&path, "{}").expect("a file");
    verify(&path, &format!("--public-key {key}")).refused(2, "no acknowledgement");
}

/// n = 3f+2c+1 with a replica to spare: kill -9 of the primary, and of a backup, which is a collector of every few slots.
#[test]
fn sbft_of_six_survives_kills() {
    let kills = "--kill primary@1+1 --kill 4@3+1";
    let result = net(&format!("--protocol sbft --n 6 --seconds 5 --tps 100 --clients 200 --timeout-ms 700 {kills}"));
    assert!(result["fast_blocks"].as_u64() > Some(0), "{result:#}");
}

/// A configuration of four replicas in a folder.
fn dealt(dir: &Path) -> PathBuf {
    let config = dir.join("net");
    let ended = run(&format!("net --seconds 0 --dir {}", config.display()));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    config.join("network.json")
}

fn replica(config: &Path, index: &str) -> Ended {
    run(&format!("replica --control --config {} --index {index}", config.display()))
}

#[test]
fn wrong_configurations_keys_and_files_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = dealt(dir.path());
    // Stdin has ended, so that a replica stops at once.
    let ended = replica(&config, "0");
    assert!(ended.code == Some(0) && ended.stdout.contains("ready"), "{ended:?}");
    replica(&config, "4").refused(2, "there is no replica 4");
    let whole = fs::read_to_string(&config).expect("a file");
    let changes = [
        ("{", "[", "column"),
        ("\"version\": 2", "\"version\": 1", "version 1"),
        ("\"pbft\"", "\"raft\"", "raft"),
        ("\"faults\": 1", "\"faults\": 2", "7"),
        ("\"interval\": 128", "\"interval\": 0", "`interval` is 0"),
        ("\"interval\": 128", "\"intervals\": 128", "unknown field"),
        ("\"threads\": 1", "\"threads\": 0", "`engine.threads` is 0"),
    ];
    for (from, to, says) in changes {
        assert!(whole.contains(from), "{from}: {whole}");
        fs::write(&config, whole.replacen(from, to, 1)).expect("a file");
        replica(&config, "0").refused(2, says);
    }
    fs::write(&config, &whole).expect("a file");
    let keys = config.with_file_name("keys-1.json");
    let dealt = fs::read(&keys).expect("keys");
    fs::write(&keys, b"{}").expect("a file");
    replica(&config, "1").refused(2, "malformed");
    fs::copy(config.with_file_name("keys-2.json"), &keys).expect("a file");
    replica(&config, "1").refused(2, "has the keys of replica 2");
    fs::remove_file(&keys).expect("a file");
    replica(&config, "1").refused(2, "keys-1.json");
    fs::write(&keys, dealt).expect("a file");
    let network: Value = serde_json::from_str(&whole).expect("JSON");
    let address = network["network"]["replicas"][1]["clients"].as_str().expect("an address");
    let taken = TcpListener::bind(address).expect("free");
    replica(&config, "1").refused(2, "listening on");
    drop(taken);
    let log = config.with_file_name("replica-0").join("log");
    fs::write(&log, b"junk").expect("a file");
    replica(&config, "0").refused(2, "no log of this version");
    replica(Path::new("/nowhere/network.json"), "0").refused(2, "/nowhere/network.json");
}

/// A log that has lost what was promised: the replica could contradict its votes.
#[test]
fn a_replica_with_a_damaged_log_does_not_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let net = dir.path().join("net");
    let ended = run(&format!("net --seconds 1 --tps 50 --clients 50 --drain 240 --dir {}", net.display()));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (config, log) = (net.join("network.json"), net.join("replica-2").join("log"));
    let whole = fs::read(&log).expect("a log");
    let length = whole.iter().rposition(|byte| *byte != 0).expect("records");
    assert!(length > 4_096, "a run leaves records: {length}");
    let mut damaged = whole.clone();
    damaged[length / 2] ^= 1;
    fs::write(&log, damaged).expect("a file");
    let ended = replica(&config, "2");
    assert!(ended.code == Some(6) && ended.stderr.contains("log"), "{ended:?}");
    fs::write(&log, whole).expect("a file");
    let ended = replica(&config, "2");
    assert!(ended.code == Some(0) && ended.stdout.contains("ready"), "the whole log opens: {ended:?}");
}

#[test]
fn wrong_flags_are_refused_before_anything_starts() {
    let table = tempfile::NamedTempFile::new().expect("a file");
    fs::write(table.path(), "[[0, 1], [1, 0]]").expect("a file");
    let table = format!("--rtt {}", table.path().display());
    let refusals = [
        ("--n 3", "--n is 3"),
        ("--seconds 0", "--dir"),
        ("--genesis /nowhere.json", "--seconds 0"),
        ("--genesis /nowhere.json --seconds 0 --dir /tmp/none", "/nowhere.json"),
        ("--kill 9@1+1", "no replica 9"),
        ("--kill 0@99+1", "the load ends"),
        ("--kill 0@1", "length is missing"),
        ("--kill 0@1+1 --durability none", "contradict its votes"),
        ("--stop 4@1+1", "no replica 4"),
        ("--protocol sbft --n 5", "`replicas` is 5"),
        ("--acknowledgement ack.json", "--protocol sbft"),
        ("--partition 0@1+1:bends", "none of holds, loses"),
        ("--batch 0", "`batch_txs` is 0"),
        ("--log-kib 0", "`log_bytes` is 0"),
        ("--loss 1000", "loss_per_mille"),
        ("--rtt /nowhere", "/nowhere"),
        (&table, "4 rows of 4"),
        ("--dir /proc", "not empty"),
    ];
    for (flags, says) in refusals {
        run(&format!("net {flags}")).refused(2, says);
    }
    let mut unknown = phalanx(["net", "--protocol", "raft"]);
    assert_eq!(unknown.output().expect("the binary").status.code(), Some(2));
}
