//! Loads of tokens and pools: every executor, order and number of threads equals sequential revm, and exactly the intended
//! number of transactions reverts.

use crate::command::run;
use phalanx_workloads::{Mix, Mixed, Pools, TransferLoad, Workload as _};
use serde_json::Value;
use std::collections::BTreeSet;

const TXS: u64 = 600;

/// Checks that every run equals the oracle with these counts; returns the roots.
#[track_caller]
fn match_with(result: &Value, reverted: u64) -> Vec<String> {
    let runs = result["runs"].as_array().expect("runs");
    assert!(!runs.is_empty(), "{result}");
    runs.iter()
        .map(|run| {
            assert_eq!(run["integrity"]["oracle"], "match", "{run}");
            let counts = ["succeeded", "reverted", "invalid"].map(|count| run["throughput"][count].as_u64());
            assert_eq!(counts, [Some(TXS - reverted), Some(reverted), Some(0)], "{run}");
            run["integrity"]["state_root"].as_str().expect("a root").to_owned()
        })
        .collect()
}

/// Number of transactions of the default mix that revert.
fn reverts(alpha: f64, pools: Pools) -> u64 {
    let load = TransferLoad { accounts: 300, txs: TXS, alpha, gamma: 10, ..TransferLoad::default() };
    Mixed::new(load, pools, Mix::default()).expect("a load").full_ledger().reverted()
}

fn every_way(workload: &str, reverted: impl Fn(f64, Pools) -> u64) {
    for (count, hot_share, alpha) in [(100, 0.0, 0.0), (5, 0.5, 0.0), (1, 1.0, 0.5)] {
        let reverted = reverted(alpha, Pools { count, hot_share });
        let load = format!(
            "--workload {workload} --accounts 300 --txs {TXS} --block-txs 250 --pools {count} \
             --hot-pool-share {hot_share} --alpha {alpha} --gamma 10"
        );
        for order in ["free", "given"] {
            for threads in [1, 2, 4] {
                let line = format!(
                    "bench run {load} --order {order} --threads {threads} --oracle full --json - \
                     --executor dag --executor block-stm --executor sequential"
                );
                let roots: BTreeSet<_> = match_with(&run(&line).json(), reverted).into_iter().collect();
                assert_eq!(roots.len(), 1, "all executors lead to one state: {line}");
            }
        }
    }
}

#[test]
fn swaps() {
    every_way("amm", |_, _| 0);
}

#[test]
fn a_bit_of_everything() {
    every_way("mixed", |alpha, pools| {
        let reverted = reverts(alpha, pools);
        assert!(reverted > 5, "{reverted}");
        reverted
    });
}

#[test]
fn signatures_hashes_stores_and_forks() {
    for (workload, reverted) in [("amm", 0), ("mixed", reverts(0.0, Pools::default()))] {
        let dir = tempfile::tempdir().expect("a folder");
        let store = format!("--store file:{}", dir.path().display());
        // Signatures change the addresses, but not the senders' transactions.
        let forks = ["--evm-spec cancun", "--evm-spec amsterdam"];
        for flags in forks.into_iter().chain(["--hasher blake3", "--access simulate", "--signatures on", &store]) {
            let line = format!("bench run --workload {workload} --accounts 300 --txs {TXS} {flags} --json -");
            match_with(&run(&line).json(), reverted);
        }
    }
}

#[test]
fn the_flags_reach_the_load() {
    let mut roots = BTreeSet::new();
    let flags = ["", "--pools 3", "--hot-pool-share 0.5", "--mix swap=1", "--mix erc20=1,revert=1", "--seed 7"];
    for flags in flags {
        let line = format!("bench run --workload mixed --accounts 300 --txs {TXS} {flags} --json -");
        let result = run(&line).json();
        let reverted = result["runs"][0]["throughput"]["reverted"].as_u64().expect("a count");
        roots.extend(match_with(&result, reverted));
        match flags {
            "--mix swap=1" => assert_eq!(reverted, 0),
            // Half of them, to five standard deviations.
            "--mix erc20=1,revert=1" => assert!(reverted.abs_diff(TXS / 2) < 62, "{reverted}"),
            _ => {}
        }
    }
    assert_eq!(roots.len(), flags.len(), "each is a load of its own");
}
