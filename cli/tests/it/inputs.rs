//! Inputs that cannot be used: the reason in one sentence, and before any work is done.

use crate::command::{end, phalanx, run};
use std::{fs, path::Path};

/// Recorded blocks of the repository.
fn blocks() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/blocks").display().to_string()
}

#[test]
fn a_sweep_looks_at_all_values_before_its_first_run() {
    let load = "--accounts 100 --txs 100 --block-txs 50";
    for (axis, says) in [
        ("alpha=0,2", "alpha must be between 0 and 1, not 2"),
        ("threads=1,", "threads has an empty value"),
        ("threads=1,x", "threads takes whole numbers"),
        ("txs=100,0", "--txs must be at least 1"),
        ("txs=100,100", "twice"),
        ("gamma=1,1000 --alpha 0.5", "gamma must be between 1 and the 100 accounts"),
    ] {
        let load = if axis.starts_with("txs") { load.replace("--txs 100", "") } else { load.to_owned() };
        let ended = run(&format!("bench sweep --axis {axis} {load}"));
        ended.refused(2, says);
        assert!(!ended.stderr.contains("making accounts"), "{ended:?}");
    }
}

#[test]
fn counts_have_suffixes_in_every_command() {
    let result =
        run("bench run --accounts 0.25k --txs 1e3 --block-txs 2^6 --threads 2^0 --block-gas 30G --json -").json();
    let config = &result["config"];
    let found = ["accounts", "txs", "block_txs", "threads"].map(|name| config[name].as_u64());
    assert_eq!(found, [250, 1000, 64, 1].map(Some));
    assert_eq!(config["block_gas"], 30_000_000_000u64);
    for line in ["bench store --keys 1k --updates 1x", "simulate zaptos --validators 1.5", "replay . --repeat -1"] {
        run(line).refused(2, "invalid value");
    }
}

#[test]
fn flags_of_another_workload_are_warned_of() {
    let load = "bench run --accounts 100 --txs 100 --block-txs 50";
    let idle = run(&format!("{load} --workload erc20 --pools 5 --gamma 7"));
    assert!(idle.code == Some(0) && idle.stderr.contains("warning: --pools, --gamma without effect"), "{idle:?}");
    let mem = run(&format!("{load} --durability block"));
    assert!(mem.code == Some(0) && mem.stderr.contains("warning: --durability block without effect"), "{mem:?}");
    assert!(!run(load).stderr.contains("warning"));
}

#[test]
fn another_schema_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("new.json");
    let mut result = run("bench run --accounts 100 --txs 100 --json -").json();
    result["schema"] = 99.into();
    fs::write(&path, result.to_string()).expect("a file");
    let path = path.display();
    run(&format!("bench compare {path} {path}")).refused(2, "has schema 99, and this program reads schema 1");
    run(&format!("explain {path}")).refused(2, "has schema 99, and this program reads schema 1");
}

#[test]
fn a_report_that_cannot_be_written_is_no_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("a file");
    let mut command = phalanx(["demo", "--report"]);
    command.arg(file.join("below"));
    let ended = end(command);
    ended.refused(2, "the report cannot be written to");
    assert!(!ended.stderr.contains("making accounts"), "{ended:?}");
}

#[test]
fn output_that_cannot_be_written_is_no_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("a file");
    let below = file.join("x");
    let below = below.display();
    let load = "--accounts 100 --txs 100";
    for line in [
        format!("bench run {load} --json {below}"),
        format!("bench run {load} --csv {below}"),
        format!("bench run {load} --trace {below}"),
        format!("bench run {load} --json {}", dir.path().display()),
        format!("bench build {load} --report {below}"),
        format!("bench sweep --axis seed=1 {load} --svg {below}"),
        format!("bench scale {load} --svg {below}"),
        format!("bench schedule {load} --json {below}"),
        format!("bench store --keys 100 --updates 10 --json {below}"),
        format!("explain {load} --svg {below}"),
        format!("simulate zaptos --json {below}"),
        format!("simulate sbft --report {below}"),
        format!("replay . --json {below}"),
    ] {
        let ended = run(&line);
        ended.refused(2, "cannot be written");
        assert!(!ended.stderr.contains("making"), "{ended:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1, "nothing was made");
}

#[test]
fn what_is_no_stream_folder_or_number_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let stream = dir.path().join("stream");
    fs::write(&stream, [0x5a; 300]).expect("a file");
    let import = run(&format!("state import --db {} {}", dir.path().join("new").display(), stream.display()));
    import.refused(6, "does not begin as what `state export` writes");
    assert!(!import.stderr.contains('{'), "no value of the program's: {import:?}");
    run(&format!("explain {}", blocks())).refused(2, "is a folder of 2 recorded blocks: name one of them");
    run("explain --block 0").refused(2, "--block counts from 1, not 0");
    run("simulate zaptos --tps 0").refused(2, "transactions per second must be between 1 and 10000000, not 0");
    let profile = dir.path().join("own.toml");
    fs::write(&profile, "accounts = \"2^10\"\ntxs = 10\nfoo = 1").expect("a file");
    let blamed = run(&format!("bench run --profile {}", profile.display()));
    blamed.refused(2, "--foo=1 is from --profile");
    assert!(blamed.stderr.contains("own.toml"), "{blamed:?}");
}

#[test]
fn a_malformed_recording_is_named_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let block = dir.path().join("1");
    fs::create_dir(&block).expect("a folder");
    fs::write(block.join("block.json"), "no block").expect("a file");
    let ended = run(&format!("replay {}", dir.path().display()));
    assert_eq!(ended.code, Some(7), "{ended:?}");
    let line = ended.stderr.lines().find(|line| line.starts_with("phalanx:")).expect("a reason");
    assert_eq!(line.matches(&block.display().to_string()).count(), 1, "{line}");
}
