//! States larger than memory: values on disk, and a state that is made once.

use crate::{
    command::{all_match, disk_stores, end, phalanx, run},
    fixtures::committed,
};
use serde_json::Value;
use std::{fs, path::Path};

const LOAD: &str = "bench run --accounts 3000 --txs 1200 --block-txs 300 --threads 2";

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().expect("a name")).collect();
    names.sort();
    names
}

#[test]
fn values_on_disk_lead_to_the_roots_of_a_resident_state() {
    for workload in ["native", "erc20", "amm"] {
        let resident = run(&format!("{LOAD} --workload {workload} --json -")).json();
        assert!(resident["runs"][0].get("reads").is_none(), "{resident}");
        let root = &resident["runs"][0]["integrity"]["state_root"];
        for kind in disk_stores() {
            let dir = tempfile::tempdir().expect("a folder");
            let store = dir.path().join("state");
            let executors = "--executor dag --executor block-stm --executor sequential";
            let line = format!(
                "{LOAD} --workload {workload} {executors} --memory cached:64K --store {kind}:{}",
                store.display()
            );
            let result = run(&format!("{line} --json -")).json();
            all_match(&result, 1200);
            assert_eq!(result["config"]["memory"], "cached:65536");
            for of in result["runs"].as_array().expect("runs") {
                assert_eq!(&of["integrity"]["state_root"], root, "{workload} on {kind}: {of}");
                if *kind == "file" {
                    let figure = |name: &str| of["reads"][name].as_f64().expect("a figure");
                    assert!(figure("per_s") > 0.0 && figure("per_tx") > 0.0 && figure("bytes_per_tx") > 0.0, "{of}");
                    assert!((0.0..=1.0).contains(&figure("hit_rate")) && figure("depth") >= 1.0, "{of}");
                }
            }
            assert_eq!(files(dir.path()), ["state"], "the oracle's folder went with it");
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let table = run(&format!("{LOAD} --memory cached:64K --store file:{}", dir.path().display())).stdout;
    assert!(table.contains("Values on disk, dag: ") && table.contains("reads per second"), "{table}");
}

#[test]
fn a_state_is_made_once_and_every_run_works_on_a_copy() {
    let resident = run(&format!("{LOAD} --json -")).json();
    let dir = tempfile::tempdir().expect("a folder");
    let state = dir.path().join("made");
    let of =
        |load: &str, more: &str| format!("bench run {load} --threads 2 --state {} {more} --json -", state.display());
    let line = |more: &str| of("--accounts 3000 --txs 1200", more);
    let ran = run(&line("--block-txs 300 --memory cached:64K --executor dag --executor sequential --runs 2"));
    assert!(ran.stderr.contains("making the state"), "{ran:?}");
    let first = ran.json();
    all_match(&first, 1200);
    assert_eq!(first["runs"][0]["integrity"]["state_root"], resident["runs"][0]["integrity"]["state_root"]);
    assert_eq!(files(&state), ["made"], "copies go with their runs");
    let store = state.join("made/store");
    let kept: Vec<(String, Vec<u8>)> =
        files(&store).into_iter().map(|name| (name.clone(), fs::read(store.join(name)).expect("a file"))).collect();

    // The state is used again, also by a resident run in other blocks.
    let again = run(&line("--block-txs 100"));
    assert!(!again.stderr.contains("making the state"), "{again:?}");
    all_match(&again.json(), 1200);
    for (name, bytes) in kept {
        assert!(fs::read(store.join(&name)).expect("a file") == bytes, "{name} has changed");
    }
    run(&of("--accounts 3001 --txs 1200", "")).refused(2, "made with accounts 3000, this run has 3001");
    run(&of("--accounts 3000 --txs 1201", "")).refused(2, "txs");
    run(&line("--hasher blake3")).refused(2, "hasher");
    let other = dir.path().join("other");
    fs::create_dir(&other).expect("a folder");
    fs::write(other.join("file"), "content").expect("a file");
    run(&format!("{LOAD} --state {}", other.display())).refused(2, "holds something else");
    assert_eq!(files(&other), ["file"]);
}

#[test]
fn memory_without_a_disk_is_refused() {
    for (line, says) in [
        (format!("{LOAD} --memory cached:1M"), "--store file:DIR"),
        (format!("{LOAD} --memory cached:1X"), "expected resident or cached:BYTES"),
        (format!("{LOAD} --memory cached"), "expected resident or cached:BYTES"),
        (format!("{LOAD} --state here --store file:there"), "--store has no place beside it"),
        ("bench build --accounts 300 --txs 100 --memory cached:1M".to_owned(), "--store file:DIR"),
        ("demo --memory cached:1M --store mem".to_owned(), "--store file:DIR"),
    ] {
        run(&line).refused(2, says);
    }
}

#[test]
fn builders_validators_and_replays_run_on_a_state_on_disk() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = dir.path().join("state");
    let line = "bench build --workload erc20 --accounts 500 --txs 600 --block-txs 200 --threads 2 --memory cached:64K --signatures off";
    let shared = dir.path().join("shared");
    for place in [format!("--store file:{}", store.display()), format!("--state {}", shared.display())] {
        let result = run(&format!("{line} {place} --json -")).json();
        let runs = result["runs"].as_array().expect("runs");
        assert!(runs.len() > 5);
        for of in runs {
            assert_ne!(of["integrity"]["oracle"], "mismatch", "{of}");
            assert!(of["reads"]["per_tx"].as_f64().is_some_and(|reads| reads > 0.0), "{of}");
        }
    }
    assert_eq!(files(&shared), ["made"], "copies go with their runs");
    let beside = files(dir.path());
    assert_eq!(beside, ["shared", "state"], "the oracle's folder went with it");
    let other = line.replace("bench build", "bench run");
    run(&format!("{other} --state {}", shared.display())).refused(2, "request_contracts");

    let mut command = phalanx(["replay", "--memory", "cached:64K", "--json", "-"]);
    command.arg(committed("blocks"));
    let ended = end(command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for line in ended.stdout.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&line["memory"], &line["equals_sequential"]), (&"cached:65536".into(), &true.into()), "{line}");
        // The state of a small block may still be in memory as what was written last.
        assert!(line["reads"].is_u64() && line["hit_rate"].is_f64(), "{line}");
    }
}
