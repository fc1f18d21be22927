//! Impossible command lines: exit code 2, nothing on stdout, and a hint on stderr.

use crate::command::{end, phalanx, run};
use std::process::Stdio;

#[test]
fn impossible_loads_are_refused() {
    let bench = "bench run --accounts 100 --txs 10";
    for (flags, says) in [
        ("--alpha 1.5", "alpha must be between 0 and 1, not 1.5"),
        ("--alpha=-0.1", "alpha must be between 0 and 1"),
        ("--alpha NaN", "alpha must be between 0 and 1, not NaN"),
        ("--alpha inf", "alpha must be between 0 and 1"),
        ("--alpha 0.5 --gamma 101", "gamma must be between 1 and the 100 accounts"),
        ("--alpha 0.5 --gamma 0", "gamma must be between 1 and the 100 accounts"),
        ("--alpha 0.5 --gamma 100", "cold accounts"),
        ("--txs 0", "--txs must be at least 1"),
        ("--block-txs 0", "--block-txs must be at least 1"),
        ("--accounts 0", "between 2 and 2^32 - 1"),
        ("--accounts 1", "between 2 and 2^32 - 1"),
        ("--accounts 1000000000000", "lower --accounts or --txs"),
        ("--accounts 1000000000000", "or keep values on disk with --memory cached:SIZE --state DIR, which needs"),
        ("--accounts 18446744073709551615", "lower --accounts or --txs"),
        ("--txs 1000000000000", "lower --accounts or --txs"),
        ("--txs 18446744073709551615", "lower --accounts or --txs"),
        ("--threads 0", "--threads must be between 1 and"),
        ("--threads 100000", "--threads must be between 1 and"),
        ("--runs 0", "--runs must be between 1 and"),
        ("--block-gas 20999", "--block-gas must hold one transaction"),
        ("--workload erc20 --block-gas 21000", "--block-gas must hold one transaction"),
        ("--store s3:bucket", "expected mem, file:DIR or rocks:DIR"),
        ("--store file:", "expected mem, file:DIR or rocks:DIR"),
        ("--store file", "expected mem, file:DIR or rocks:DIR"),
        ("--workload dex", "native, erc20, amm, mixed"),
        ("--workload amm --block-gas 149999", "--block-gas must hold one transaction of 150000 gas"),
        ("--workload mixed --block-gas 799999", "--block-gas must hold one transaction of 800000 gas"),
        ("--workload amm --pools 0", "the number of pools must be between 1 and 65536, not 0"),
        ("--workload mixed --pools 65537", "the number of pools must be between 1 and 65536, not 65537"),
        ("--workload amm --pools -1", "must not be negative"),
        ("--workload amm --hot-pool-share 1.5", "the share of the hot pool must be between 0 and 1, not 1.5"),
        ("--workload mixed --hot-pool-share NaN", "the share of the hot pool must be between 0 and 1, not NaN"),
        ("--workload amm --alpha 0.5 --gamma 5 --hot receiver", "a swap has no receiver to be hot"),
        ("--workload mixed --mix swap", "is not KIND=SHARE with a whole number"),
        ("--workload mixed --mix swap=1,swap=2", "is named twice"),
        ("--workload mixed --mix burn=1", "none of native, erc20, swap, approve, create, revert"),
        ("--workload mixed --mix swap=0", "a mix must have a share above zero"),
        ("--hot none", "none of sender, receiver, both"),
        ("--executor gpu", "dag, block-stm, sequential"),
        ("--durability forever", "none, async, block"),
        ("--evm-spec frontier", "cancun, prague, osaka, amsterdam"),
        ("--txs ten", "invalid digit"),
        ("--txs -1", "must not be negative"),
        ("--touch -1", "must not be negative"),
        ("--txs 1.5", "1.5 is no whole number"),
        ("--txs 2^70", "too large"),
        ("--no-such-flag", "unexpected argument"),
    ] {
        // A repeated flag would be an error of its own.
        let kept = bench.replace(if flags.starts_with("--accounts") { "--accounts 100" } else { "--txs 10" }, "");
        let line = if flags.starts_with("--accounts") || flags.starts_with("--txs") { kept } else { bench.to_owned() };
        run(&format!("{line} {flags} --json -")).refused(2, says);
    }
}

#[test]
fn scheduling_refuses_the_same() {
    for (flags, says) in [
        ("--alpha 2", "alpha must be between 0 and 1"),
        ("--alpha NaN", "alpha must be between 0 and 1"),
        ("--txs 0", "--txs must be at least 1"),
        ("--block-txs 0", "--block-txs must be at least 1"),
        ("--threads 0", "--threads must be between 1 and"),
        ("--runs 0", "--runs must be between 1 and"),
        ("--accounts 1000000000000", "between 2 and 2^32 - 1"),
        ("--workload amm --pools 0", "the number of pools must be between 1 and 65536"),
        // Each fits its counter, but together they exceed any machine.
        ("--accounts 1000 --txs 4000000000", "lower --accounts or --txs"),
    ] {
        run(&format!("bench schedule {flags} --json -")).refused(2, says);
    }
}

#[cfg(not(feature = "rocksdb"))]
#[test]
fn threads_far_beyond_the_cores_are_refused_wherever_they_are_taken() {
    let most = phalanx::parascheduler::max_threads();
    assert!(most >= 256, "small machines may try out a large one's");
    let mut lines = vec![
        "demo",
        "bench run --accounts 100 --txs 10",
        "bench build --accounts 100 --txs 10",
        "bench schedule --accounts 100 --txs 10",
        "bench store --keys 100 --updates 10",
        "bench sweep --axis seed=1 --accounts 100 --txs 10",
        "explain --accounts 100 --txs 10",
        "replay .",
        "test state .",
    ];
    if cfg!(feature = "node") {
        lines.extend(["node --dev", "localnet", "bench node"]);
    }
    for line in lines {
        for threads in [most + 1, 100_000] {
            run(&format!("{line} --threads {threads}")).refused(2, "threads");
        }
    }
    let given = format!("bench build --accounts 100 --txs 10 --given-threads {}", most + 1);
    run(&given).refused(2, "--given-threads must be between 1 and");
}

#[test]
fn missing_rocksdb_is_named_as_a_feature() {
    let dir = tempfile::tempdir().expect("a folder");
    for line in ["bench run --accounts 100 --txs 10 --store", "state info --db"] {
        run(&format!("{line} rocks:{}", dir.path().display())).refused(2, "--features rocksdb");
    }
}

#[test]
fn no_command_prints_help_without_failure() {
    for line in ["", "--help", "help", "bench --help", "bench run --help", "demo --help", "state info --help"] {
        let ended = run(line);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{line}");
        assert!(ended.stdout.contains("Usage: phalanx"), "{line}: {ended:?}");
    }
    assert!(run("").stdout.contains("Try: phalanx demo"));
    // Flags that `demo` promises to scripts; running it takes half a minute.
    let demo = run("demo --help").stdout;
    assert!(["--json", "--report", "--seed", "--threads", "--store"].iter().all(|flag| demo.contains(flag)), "{demo}");
}

#[test]
fn an_incomplete_or_unknown_command_is_refused() {
    for line in ["bench", "state", "nonsense", "bench nonsense", "--nonsense", "state info"] {
        run(line).refused(2, "Usage: phalanx");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    for line in ["version --json", "bench run --accounts 100 --txs 100 --json -", "bench run --accounts 100 --txs 100"]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = phalanx(line.split_whitespace());
        command.stdout(Stdio::from(writer));
        let ended = end(command);
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
    }
}
