//! Ctrl-C: the first one stops, flushes and reports.

use crate::{
    command::{Ended, disk_stores, phalanx, run},
    reference::Load,
};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command},
    time::Duration,
};

/// A load long enough to interrupt on any machine: a block takes at least a thousand hashes.
const LONG: Load = Load { accounts: 300, txs: 600_000, block_txs: 100, seed: 3 };

/// Waits until the store at `path` holds some blocks, and sends SIGINT.
fn interrupt(child: &mut Child, path: &Path) {
    let size = || -> u64 {
        let Ok(entries) = fs::read_dir(path) else { return 0 };
        entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
    };
    while size() < 400_000 {
        assert!(child.try_wait().expect("a child").is_none(), "the run ended before it could be interrupted");
        std::thread::sleep(Duration::from_millis(1));
    }
    stop(child);
}

/// Presses Ctrl-C.
fn stop(child: &Child) {
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success());
}

fn interrupted(words: &str, path: &Path) -> Ended {
    let mut child = phalanx(words.split_whitespace()).spawn().expect("the binary starts");
    interrupt(&mut child, path);
    end(child)
}

/// Exit code and output of a child.
fn end(mut child: Child) -> Ended {
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("text");
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
    Ended { code: child.wait().expect("a child").code(), stdout, stderr }
}

#[test]
fn ctrl_c_reports_what_is_there() {
    for kind in disk_stores() {
        for oracle in ["off", "full"] {
            let dir = tempfile::tempdir().expect("a folder");
            let path = dir.path().join("state");
            let name = format!("{kind}:{}", path.display());
            let line = format!("bench run {} --oracle {oracle} --store {name} --json -", LONG.flags());
            let ended = interrupted(&line, &path);
            assert_eq!(ended.code, Some(130), "{ended:?}");
            let result = ended.only_json();
            assert_eq!(result["tags"], serde_json::json!(["interrupted"]));
            let only = &result["runs"][0];
            let succeeded = only["throughput"]["succeeded"].as_u64().expect("a count");
            assert!(0 < succeeded && succeeded < LONG.txs, "{succeeded}");
            // The oracle stops as well, so nothing was compared.
            assert_eq!(only["integrity"]["oracle"], "off", "{only}");

            let info = run(&format!("state info --db {name} --json")).json();
            assert_eq!(info["state_root"], only["integrity"]["state_root"], "what was reported is on disk");
            assert_eq!(info["height"].as_u64().map(|height| height * LONG.block_txs as u64), Some(succeeded));
        }
    }
}

#[test]
fn an_interrupted_sweep_shows_its_last_cell_without_a_verdict() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("state");
    let line = format!(
        "bench sweep --axis threads=1,2 {} --oracle off --store file:{} --json -",
        LONG.flags(),
        path.display()
    );
    let ended = interrupted(&line, &path.join("cell-1"));
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let result = ended.only_json();
    assert_eq!((&result["tags"], &result["judged"]), (&serde_json::json!(["interrupted"]), &serde_json::Value::Null));
    let cells = result["cells"].as_array().expect("cells");
    assert!(cells.len() == 1 && cells[0]["tags"] == serde_json::json!(["interrupted"]), "{cells:?}");
    assert!(!path.join("cell-2").exists(), "no further run begins");
}

#[test]
fn an_interrupted_model_prints_nothing() {
    for command in ["bench scale", "bench sweep --figure fafo-3"] {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("state");
        let line = format!("{command} {} --oracle off --store file:{} --json -", LONG.flags(), path.display());
        let ended = interrupted(&line, &path.join("measured-0"));
        ended.refused(130, "interrupted");
    }
}

#[test]
fn an_interrupted_explanation_prints_nothing() {
    let line = format!("explain {} --order given --block 5900", LONG.flags());
    let mut child = phalanx(line.split_whitespace()).spawn().expect("the binary starts");
    // Its first output shows that it has begun; each of its blocks executes a hundred transactions twice.
    let mut said = [0];
    child.stderr.as_mut().expect("a pipe").read_exact(&mut said).expect("a word");
    stop(&child);
    let ended = end(child);
    ended.refused(130, "interrupted");
}

/// Sends SIGINT at a line of progress.
fn interrupted_at(line: &str, progress: &str) -> Ended {
    let mut child = phalanx(line.split_whitespace()).spawn().expect("the binary starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains(progress) {
        assert!(stderr.read_line(&mut said).expect("text") > 0, "no {progress:?}: {said}");
    }
    stop(&child);
    stderr.read_to_string(&mut said).expect("text");
    let mut stdout = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("text");
    Ended { code: child.wait().expect("a child").code(), stdout, stderr: said }
}

#[test]
fn ctrl_c_ends_what_comes_before_the_first_measurement() {
    let load = "--accounts 2^16 --txs 3M --oracle off";
    for (line, progress, next) in [
        ("bench run --accounts 2^20 --txs 100k --oracle off".to_owned(), "making accounts", "making transactions"),
        (format!("bench run {load}"), "making transactions", "writing genesis"),
        (
            "bench run --workload erc20 --accounts 2^20 --txs 100k --executor dag --oracle off".to_owned(),
            "writing genesis",
            "dag on",
        ),
        ("bench build --accounts 1k --txs 1M".to_owned(), "signing", "writing genesis"),
        (format!("bench scale {load}"), "making transactions", "writing genesis"),
    ] {
        let ended = interrupted_at(&line, progress);
        ended.refused(130, "interrupted");
        assert!(!ended.stderr.contains(next), "{line}: {ended:?}");
    }
}

#[test]
fn the_table_says_that_it_was_interrupted() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("state");
    let line =
        format!("bench run {} --oracle off --runs 3 --executor dag --store file:{}", LONG.flags(), path.display());
    let ended = interrupted(&line, &path.join("1-dag"));
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stdout.contains("interrupted"), "{ended:?}");
    assert!(!path.join("2-dag").exists(), "no further run begins");
}
