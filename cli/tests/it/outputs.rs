//! Output files.

use crate::command::{all_match, end, phalanx, run};
use serde_json::Value;
use std::{fs, path::Path};

const BENCH: &str = "bench run --accounts 200 --txs 600 --block-txs 100 --executor dag --executor sequential";

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_file_holds_the_json_of_stdout() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("result.json");
    let ended = run(&format!("{BENCH} --json {}", path.display()));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result: Value = serde_json::from_str(&read(&path)).expect("one JSON value");
    all_match(&result, 600);
    // The table goes to stdout then.
    assert!(serde_json::from_str::<Value>(&ended.stdout).is_err() && ended.stdout.contains("dag"), "{ended:?}");
}

#[test]
fn rows_and_a_report_agree_with_the_result() {
    let dir = tempfile::tempdir().expect("a folder");
    let [csv, report] = ["rows.csv", "deep/report"].map(|name| dir.path().join(name));
    let line = format!("{BENCH} --json - --csv {} --report {}", csv.display(), report.display());
    let result = run(&line).json();
    let roots = all_match(&result, 600);

    let rows = read(&csv);
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + roots.len());
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
    let column =
        |name: &str| rows[0].iter().position(|head| *head == name).unwrap_or_else(|| panic!("{name}: {rows:?}"));
    for (row, run) in rows[1..].iter().zip(result["runs"].as_array().expect("runs")) {
        assert_eq!(row[column("workload")], "native");
        for (name, found) in [("executor", &run["executor"]), ("state_root", &run["integrity"]["state_root"])] {
            assert_eq!(Some(row[column(name)]), found.as_str());
        }
        let tps: f64 = row[column("tps")].parse().expect("a number");
        assert!((tps / run["throughput"]["tps"].as_f64().expect("a number") - 1.0).abs() < 1e-3);
    }

    let kept: Value = serde_json::from_str(&read(&report.join("results.json"))).expect("one JSON value");
    assert_eq!(kept, Value::Array(vec![result]));
    let page = read(&report.join("index.html"));
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"), "{page}");
    for plot in ["tps.svg", "stages.svg"] {
        assert!(read(&report.join(plot)).contains("<svg"), "{plot}");
    }
}

#[test]
fn an_unwritable_file_is_refused_before_the_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("a file");
    let nowhere = file.join("below-a-file");
    for flags in ["--csv", "--report", "--json"] {
        let mut command = phalanx(BENCH.split_whitespace());
        command.arg(flags).arg(&nowhere);
        let ended = end(command);
        ended.refused(2, "below-a-file");
    }
}

#[test]
fn names_are_quoted_for_a_shell() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("it's a store");
    let mut command = phalanx(BENCH.split_whitespace());
    command
        .args(["--json", "-", "--runs", "1", "--executor", "dag", "--store"])
        .arg(format!("file:{}", path.display()));
    let result = end(command).json();
    let command = result["command"].as_str().expect("text");
    assert!(command.contains(r"it'\''s a store'"), "{command}");
}
