//! `bench build`: blocks from bytes, which validate with every artefact; and the gain of reordering.

use crate::command::run;
use serde_json::Value;
use std::collections::BTreeSet;

const TXS: u64 = 600;

/// Executors of a result and their threads, in order; every run equals the oracle and placed all transactions.
#[track_caller]
fn runs(result: &Value) -> Vec<(String, u64)> {
    let runs = result["runs"].as_array().expect("runs");
    let placed = |run: &Value| {
        assert_eq!(run["integrity"]["oracle"], "match", "{run}");
        let counts =
            ["succeeded", "reverted", "invalid"].map(|count| run["throughput"][count].as_u64().expect("a count"));
        assert_eq!((counts[0] + counts[1], counts[2]), (TXS, 0), "{run}");
        (run["executor"].as_str().expect("a name").to_owned(), run["threads"].as_u64().expect("a count"))
    };
    runs.iter().map(placed).collect()
}

/// The roots of the runs on the builder's blocks.
fn roots(result: &Value) -> BTreeSet<String> {
    let runs = result["runs"].as_array().expect("runs").iter().filter(|run| run["executor"] != "dag");
    runs.map(|run| run["integrity"]["state_root"].to_string()).collect()
}

#[test]
fn built_blocks_validate_with_every_artefact() {
    for workload in ["native", "erc20", "amm", "mixed"] {
        for flags in [
            "--signatures on",
            "--signatures off --alpha 0.5 --gamma 10 --evm-spec cancun --hasher blake3",
            "--signatures off --evm-spec amsterdam",
        ] {
            let line = format!(
                "bench build --workload {workload} --accounts 300 --txs {TXS} --block-txs 250 --threads 2 \
                 --given-threads 1,4 {flags} --json -"
            );
            let result = run(&line).json();
            let named = |name: &str, threads: &[u64]| threads.iter().map(|n| (name.to_owned(), *n)).collect::<Vec<_>>();
            let expected = [
                named("dag", &[2]),
                named("build", &[2]),
                named("build-list", &[2]),
                named("given-none", &[1, 4]),
                named("given-exceptions", &[1, 4]),
                named("given-list", &[1, 4]),
                named("sequential", &[1]),
            ];
            assert_eq!(runs(&result), expected.concat(), "{line}");
            assert_eq!(roots(&result).len(), 1, "all of the builder's blocks lead to one state: {line}");
            let building = &result["building"];
            assert!(building["cost_beside_run"].as_f64().is_some_and(|ratio| ratio > 0.0), "{building}");
            let list = building["artefacts"]["list_bytes_per_tx"].as_f64().expect("a figure");
            let exceptions = building["artefacts"]["exceptions_bytes_per_tx"].as_f64().expect("a figure");
            assert!(list > 32.0 && exceptions > 0.0, "{building}");
            let moved = |name: &str| building["fairness"][name].as_u64().expect("a count");
            assert!(moved("p50_displacement") <= moved("p99_displacement"), "{building}");
            assert!(moved("p99_displacement") <= moved("max_displacement") && moved("max_displacement") < TXS);
            assert!(moved("max_wait_blocks") < 3, "{building}");
            let recovers = result["runs"][1]["stages_ns_per_tx"]["recover"].as_f64().expect("a figure") > 0.0;
            assert_eq!(recovers, flags.contains("signatures on"));
            assert!(result["runs"][1]["stages_ns_per_tx"]["pool"].as_f64().expect("a figure") > 0.0);
        }
    }
}

#[test]
fn predictions_are_compared_with_true_sets() {
    for (workload, source) in [("native", "native"), ("erc20", "erc20"), ("amm", "template")] {
        let line = format!(
            "bench build --workload {workload} --accounts 300 --txs {TXS} --block-txs 200 --signatures off --threads 1 \
             --artefact none --quality --json -"
        );
        let result = run(&line).json();
        let mut predictions = result["building"]["predictions"].as_array().expect("a line per source").clone();
        // The same transactions again, predicted by templates.
        let learned = predictions.pop_if(|line| line["source"] == "(learned)");
        assert_eq!(learned.is_some(), workload == "erc20", "{predictions:?}");
        assert!(learned.is_none_or(|line| line["txs"] == TXS && line["covered"] == TXS), "{predictions:?}");
        let sum = |name: &str| predictions.iter().map(|line| line[name].as_u64().expect("a count")).sum::<u64>();
        assert_eq!(sum("txs"), TXS, "{predictions:?}");
        assert_eq!(sum("covered") + sum("escapes"), TXS, "{predictions:?}");
        let most = predictions.iter().max_by_key(|line| line["txs"].as_u64()).expect("a line");
        assert_eq!(most["source"], source, "{predictions:?}");
        assert_eq!(most["escapes"], 0, "{predictions:?}");
        assert!(most["ns"].as_f64().is_some_and(|ns| ns > 0.0), "{predictions:?}");
    }
}

#[test]
fn only_selected_artefacts_are_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let line = format!(
        "bench build --workload native --accounts 300 --txs {TXS} --signatures off --threads 1 --artefact exceptions \
         --runs 2 --store file:{} --json -",
        dir.path().display()
    );
    let result = run(&line).json();
    let one = ["dag", "build", "given-exceptions", "sequential"].map(|name| (name.to_owned(), 1));
    assert_eq!(runs(&result), [one.clone(), one].concat());
    assert_eq!(result["building"]["artefacts"]["list_bytes_per_tx"], Value::Null);
    assert_eq!(result["scope"]["signatures"], false);
    // The folder holds chains now.
    run(&line).refused(2, "choose a new or empty folder");
}

#[test]
fn a_table_shows_every_figure() {
    let dir = tempfile::tempdir().expect("a folder");
    let report = format!("--report {}", dir.path().display());
    let line = format!("bench build --workload erc20 --accounts 300 --txs {TXS} --signatures off --threads 2 {report}");
    let ended = run(&line);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let page = std::fs::read_to_string(dir.path().join("index.html")).expect("a page");
    for says in ["build-list", "given-exceptions", "In the pool", "÷ bench run", "Access lists, bytes", "in blocks"] {
        assert!(ended.stdout.contains(says), "{says}: {}", ended.stdout);
        assert!(page.contains(says), "{says} is not on the page");
    }
}

#[test]
fn impossible_builds_are_refused() {
    for (flags, says) in [
        ("--threads 0", "--threads must be between 1 and"),
        ("--given-threads 1,0", "--given-threads must be between 1 and"),
        ("--artefact receipts", "none, exceptions, access-list"),
        ("--txs 0", "--txs must be at least 1"),
        ("--runs 0", "--runs must be between 1 and"),
        ("--block-gas 20999", "--block-gas must hold one transaction"),
        ("--order given", "unexpected argument"),
    ] {
        run(&format!("bench build --accounts 100 {flags} --json -")).refused(2, says);
    }
    run("bench schedule --figure fafo-4 --alpha 0.5").refused(2, "cannot be used with");
    run("bench schedule --figure fafo-5").refused(2, "fafo-4");
}

#[test]
fn the_gain_of_framing_grows_with_contention() {
    let line = "bench schedule --figure fafo-4 --workload erc20 --accounts 20000 --txs 20000 --block-txs 5000 --json -";
    let result = run(line).json();
    let rows = result["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 15);
    let of = |row: &Value, order: &str, measure: &str| row[order][measure].as_f64().expect("a figure");
    for row in rows {
        for measure in ["tlp_frames", "tlp_dag"] {
            assert!(of(row, "free", measure) > 0.9 * of(row, "given", measure), "{measure}: {row}");
        }
    }
    let row =
        |alpha: f64, gamma: u64| rows.iter().find(|row| row["alpha"] == alpha && row["gamma"] == gamma).expect("a row");
    // A hundred hot senders bound the parallelism of any order; in the order of arrival they also end most frames.
    let hot = row(0.99, 100);
    assert!(of(hot, "free", "tlp_frames") > 2.0 * of(hot, "given", "tlp_frames"), "{hot}");
    assert!(of(hot, "free", "tlp_frames") < 101.0, "{hot}");
    assert!(of(row(0.0, 100), "given", "tlp_frames") > of(hot, "given", "tlp_frames"));
}
