//! A load leads to the same state on every executor, number of threads and repetition.

use crate::command::{all_match, run};
use std::collections::BTreeSet;

/// Flags for every kind of contention.
fn contention() -> impl Iterator<Item = String> {
    ["0", "0.5", "0.99"].into_iter().flat_map(|alpha| {
        ["10", "100"].into_iter().flat_map(move |gamma| {
            ["sender", "receiver", "both"]
                .into_iter()
                .map(move |hot| format!("--alpha {alpha} --gamma {gamma} --hot {hot}"))
        })
    })
}

fn one_root_whatever_the_threads(workload: &str, txs: u64) {
    let mut states = BTreeSet::new();
    for load in contention() {
        let roots: Vec<_> = [1, 2, 4, 8, 2]
            .into_iter()
            .flat_map(|threads| {
                let line = format!(
                    "bench run --workload {workload} --accounts 400 --txs {txs} --block-txs 300 {load} \
                     --threads {threads} --oracle full --json -"
                );
                all_match(&run(&line).json(), txs)
            })
            .collect();
        assert_eq!(roots.len(), 5);
        assert!(roots.iter().all(|root| *root == roots[0]), "{workload} {load}: {roots:?}");
        states.insert(roots[0].clone());
    }
    // Without contention neither hot side nor hot accounts matter, and every other load has its own state.
    assert_eq!(states.len(), 1 + 12, "the flags reach the load");
}

#[test]
fn native_transfers() {
    one_root_whatever_the_threads("native", 1_200);
}

#[test]
fn erc20_transfers() {
    one_root_whatever_the_threads("erc20", 900);
}

#[test]
fn every_setting_of_a_run_is_right() {
    for workload in ["native", "erc20"] {
        for flags in [
            "",
            "--order given",
            "--access simulate",
            "--order given --access simulate",
            "--hasher keccak256",
            "--hasher blake3",
            "--signatures on",
            "--evm-spec cancun",
            "--evm-spec prague",
            "--evm-spec osaka",
            "--evm-spec amsterdam",
            "--executor sequential",
            "--executor sequential --order given",
            "--block-gas 3000000",
            "--block-txs 1",
            "--block-txs 18446744073709551615 --block-gas 18446744073709551615",
            "--seed 18446744073709551615",
        ] {
            let line =
                format!("bench run --workload {workload} --accounts 200 --txs 400 --alpha 0.5 --gamma 10 --hot both");
            for threads in [1, 3] {
                let result = run(&format!("{line} --threads {threads} {flags} --json -")).json();
                all_match(&result, 400);
            }
        }
    }
}

#[test]
fn settings_that_must_not_change_the_state_do_not() {
    let root = |flags: &str| {
        let line = format!("bench run --accounts 200 --txs 400 --alpha 0.5 --gamma 10 {flags} --json -");
        let roots = all_match(&run(&line).json(), 400);
        assert!(roots.iter().all(|root| *root == roots[0]), "{flags}: {roots:?}");
        roots[0].clone()
    };
    let plain = root("");
    for same in ["--executor sequential", "--executor sequential --executor dag --runs 2"] {
        assert_eq!(root(same), plain, "{same}");
    }
    for other in ["--hasher blake3", "--hasher keccak256", "--seed 43", "--signatures on"] {
        assert_ne!(root(other), plain, "{other}");
    }
    assert_eq!(root("--signatures on"), root("--signatures on --executor sequential"));
}

#[test]
fn small_limits_split_blocks() {
    let blocks = |flags: &str| {
        let result = run(&format!("bench run --accounts 200 --txs 400 {flags} --json -")).json();
        all_match(&result, 400);
        let detail = result["runs"][0]["integrity"]["detail"].as_str().expect("text").to_owned();
        if detail.starts_with("the only block: ") {
            return 1;
        }
        detail.split_whitespace().nth(1).and_then(|count| count.parse::<u64>().ok()).expect("all N blocks: ..")
    };
    assert_eq!(blocks("--block-txs 50"), 8);
    assert_eq!(blocks("--block-gas 2100000"), 4, "100 transfers of 21,000 gas each");
    assert_eq!(blocks("--block-txs 400"), 1);
}
