//! Results made up for tests.

use crate::result::*;
use serde_json::{Map, Value, json};

/// A result of `workload` with a run per `(executor, threads, tps)`.
pub(crate) fn bench(workload: &str, runs: &[(&str, usize, f64)]) -> BenchResult {
    let config = json!({
        "workload": workload, "accounts": 1_048_576, "txs": 2_000_000, "block_txs": 20_000, "alpha": 0.0, "gamma": 1,
        "hot": "receiver", "order": "free", "executor": ["dag", "sequential"], "access": "static", "threads": 2,
        "signatures": "off", "store": "rocks:/data/phalanx", "durability": "async", "hasher": "sha256", "fast_path": "on", "traces": "on",
        "evm_spec": "prague", "seed": 42, "runs": 1, "oracle": "full"
    });
    let Value::Object(config) = config else { unreachable!() };
    BenchResult {
        schema: SCHEMA,
        tool: Tool {
            version: "0.1.0".into(),
            commit: "3f9c2ab41d07".into(),
            rustc: "rustc 1.95.0".into(),
            features: vec!["rocksdb".into()],
            allocator: "mimalloc".into(),
            profile: "release".into(),
        },
        host: Host {
            cpu: "Some Processor 9000 @ 2.60GHz".into(),
            cores: 2,
            memory_bytes: 8 << 30,
            kernel: "6.1.0".into(),
            governor: None,
            thp: Some("madvise".into()),
            disk: Some("/dev/vda1 (ext4)".into()),
            findings: vec![],
        },
        config: config.into_iter().collect::<Map<_, _>>(),
        scope: Scope {
            signatures: false,
            nonces: true,
            fees: true,
            gas_limit: true,
            receipts: true,
            root_interval_blocks: 1,
            durability: "async".into(),
            access_source: "static".into(),
            order: "free".into(),
            touched_gib: 0,
            inside_timer: vec!["planning".into(), "execution".into(), "state root of every block".into()],
            disabled_rules: vec![],
            kept_rules: vec![],
        },
        runs: runs.iter().map(|(executor, threads, tps)| run(executor, *threads, *tps)).collect(),
        building: None,
        tags: vec![],
        command: format!("phalanx bench run --workload {workload} --accounts 1048576 --txs 2000000 --seed 42"),
    }
}

/// A right run, whose series swings around `tps`.
pub(crate) fn run(executor: &str, threads: usize, tps: f64) -> Run {
    let dag = executor == "dag";
    // Few digits, which every reader of JSON takes back exactly.
    let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
    let seconds = rounded(2_000_000.0 / tps);
    let wave = |i: u32| 1.0 + 0.08 * (f64::from(i) * 1.3).sin() - if i == 11 { 0.25 } else { 0.0 };
    Run {
        executor: executor.into(),
        threads,
        pinned: vec![],
        throughput: Some(Throughput {
            tps,
            succeeded: 2_000_000,
            reverted: 0,
            invalid: 0,
            gas_per_s: tps * 21_000.0,
            seconds,
        }),
        cpu: Cpu { us_core_per_tx: 2.41 },
        block_latency_ms: Quantiles { p50: 12.1, p90: 15.6, p99: 18.3, max: 31.0 },
        stages_ns_per_tx: Stages {
            recover: 0.0,
            pool: 0.0,
            analyse: if dag { 82.0 } else { 0.0 },
            frame: if dag { 31.0 } else { 0.0 },
            schedule: if dag { 74.0 } else { 0.0 },
            execute: 812.0,
            seal: 151.0,
            merkle: 726.0,
            persist: 354.0,
            read: 0.0,
        },
        stages_blocks: None,
        parallelism: Parallelism {
            tlp_frames: dag.then_some(187.2),
            tlp_dag: dag.then_some(1204.0),
            ..Parallelism::default()
        },
        resources: Resources {
            rss_peak_bytes: 1_400_000_000,
            disk_written_bytes: 1_720_000_000,
            db_bytes: 900_000_000,
        },
        reads: None,
        integrity: Integrity {
            state_root: format!("0x8d1f0c77{}77ab90e1", "5a".repeat(24)),
            oracle: "match".into(),
            detail: "100 blocks: results, receipts, post-state".into(),
        },
        series: (1..=20).map(|i| (rounded(f64::from(i) * seconds / 20.0), rounded(tps * wave(i)))).collect(),
        per_second: vec![],
        steady: None,
        balance: vec![],
        open_loop: None,
        disturbance: None,
    }
}

/// Results like those of `phalanx demo`: two workloads, two executors.
pub(crate) fn demo() -> Vec<BenchResult> {
    let mut results = vec![
        bench("native", &[("dag", 2, 812_345.0), ("sequential", 1, 431_020.0)]),
        bench("erc20", &[("dag", 2, 301_877.0), ("sequential", 1, 188_430.0)]),
    ];
    results[0].runs[1].cpu.us_core_per_tx = 2.22;
    for run in &mut results[1].runs {
        run.cpu.us_core_per_tx = 5.35;
        run.stages_ns_per_tx.execute = 2890.0;
        run.stages_ns_per_tx.merkle = 1100.0;
        run.block_latency_ms = Quantiles { p50: 48.0, p90: 55.1, p99: 71.9, max: 120.0 };
    }
    results
}

/// Makes `run` differ from the oracle.
pub(crate) fn spoil(run: &mut Run) {
    run.throughput = None;
    run.integrity.oracle = "mismatch".into();
    run.integrity.detail = "block 3, transaction 41: gas used 21000, sequential revm has 43100".into();
}
