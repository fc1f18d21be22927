//! The result file: every field that scripts rely on is present and has its type.

use crate::command::{Ended, all_match, run};
use serde_json::Value;
use std::collections::BTreeSet;

/// Type of a field.
#[derive(Clone, Copy, Debug)]
enum Type {
    Text,
    /// Text, or null if the machine does not tell.
    MaybeText,
    Texts,
    Word(&'static [&'static str]),
    Bool,
    Count,
    /// Finite and not below zero.
    Figure,
    /// A figure, or null if it has no meaning.
    MaybeFigure,
    /// Pairs of figures.
    Pairs,
    /// 32 bytes as hex.
    Root,
}

use Type::{Bool, Count, Figure, MaybeFigure, MaybeText, Pairs, Root, Text, Texts, Word};

/// Fields of a result.
const RESULT: &[(&str, Type)] = &[
    ("/schema", Count),
    ("/tool/version", Text),
    ("/tool/commit", Text),
    ("/tool/rustc", Text),
    ("/tool/features", Texts),
    ("/tool/allocator", Word(&["mimalloc"])),
    ("/tool/profile", Text),
    ("/host/cpu", Text),
    ("/host/cores", Count),
    ("/host/memory_bytes", Count),
    ("/host/kernel", Text),
    ("/host/governor", MaybeText),
    ("/host/thp", MaybeText),
    ("/host/disk", MaybeText),
    ("/scope/signatures", Bool),
    ("/scope/nonces", Bool),
    ("/scope/fees", Bool),
    ("/scope/gas_limit", Bool),
    ("/scope/receipts", Bool),
    ("/scope/root_interval_blocks", Count),
    ("/scope/durability", Word(&["none", "async", "block"])),
    ("/scope/access_source", Word(&["static", "simulate"])),
    ("/scope/order", Word(&["free", "given"])),
    ("/scope/touched_gib", Count),
    ("/scope/disabled_rules", Texts),
    ("/tags", Texts),
    ("/command", Text),
];

/// Fields of each of its runs.
const RUN: &[(&str, Type)] = &[
    ("/executor", Word(&["dag", "block-stm", "sequential"])),
    ("/threads", Count),
    ("/throughput/tps", Figure),
    ("/throughput/succeeded", Count),
    ("/throughput/reverted", Count),
    ("/throughput/invalid", Count),
    ("/throughput/gas_per_s", Figure),
    ("/throughput/seconds", Figure),
    ("/cpu/us_core_per_tx", Figure),
    ("/block_latency_ms/p50", Figure),
    ("/block_latency_ms/p90", Figure),
    ("/block_latency_ms/p99", Figure),
    ("/block_latency_ms/max", Figure),
    ("/stages_ns_per_tx/recover", Figure),
    ("/stages_ns_per_tx/analyse", Figure),
    ("/stages_ns_per_tx/frame", Figure),
    ("/stages_ns_per_tx/schedule", Figure),
    ("/stages_ns_per_tx/execute", Figure),
    ("/stages_ns_per_tx/seal", Figure),
    ("/stages_ns_per_tx/merkle", Figure),
    ("/stages_ns_per_tx/persist", Figure),
    ("/parallelism/tlp_frames", MaybeFigure),
    ("/parallelism/tlp_dag", MaybeFigure),
    ("/parallelism/escapes", Count),
    ("/parallelism/reexecutions", Count),
    ("/parallelism/replayed", Count),
    ("/parallelism/fallback_blocks", Count),
    ("/resources/rss_peak_bytes", Count),
    ("/resources/disk_written_bytes", Count),
    ("/resources/db_bytes", Count),
    ("/integrity/state_root", Root),
    ("/integrity/oracle", Word(&["match", "sampled", "off", "mismatch"])),
    ("/integrity/detail", Text),
    ("/series", Pairs),
    ("/steady/blocks", Count),
];

impl Type {
    fn fits(self, value: &Value) -> bool {
        let figure = |value: &Value| value.as_f64().is_some_and(|figure| figure.is_finite() && figure >= 0.0);
        let all =
            |value: &Value, fits: &dyn Fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(fits));
        match self {
            Self::Text => value.as_str().is_some_and(|text| !text.is_empty()),
            Self::MaybeText => value.is_null() || Self::Text.fits(value),
            Self::Texts => all(value, &|text| Self::Text.fits(text)),
            Self::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Self::Bool => value.is_boolean(),
            Self::Count => value.is_u64(),
            Self::Figure => figure(value),
            Self::MaybeFigure => value.is_null() || figure(value),
            Self::Pairs => all(value, &|pair| all(pair, &figure) && pair.as_array().map(Vec::len) == Some(2)),
            Self::Root => value.as_str().and_then(|root| root.strip_prefix("0x")).is_some_and(|digits| {
                digits.len() == 64 && digits.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
            }),
        }
    }
}

#[track_caller]
fn fields(value: &Value, fields: &[(&str, Type)]) {
    for (path, wanted) in fields {
        let found = value.pointer(path).unwrap_or_else(|| panic!("{path} is missing: {value}"));
        assert!(wanted.fits(found), "{path} is {found}, expected {wanted:?}");
    }
}

/// Checks the fields of a result, and that its figures agree with each other.
#[track_caller]
fn sound(result: &Value) {
    fields(result, RESULT);
    for run in result["runs"].as_array().expect("runs") {
        fields(run, RUN);
        let figure = |path: &str| run.pointer(path).and_then(Value::as_f64).expect("a figure");
        let tps = figure("/throughput/succeeded") / figure("/throughput/seconds");
        assert!((figure("/throughput/tps") / tps - 1.0).abs() < 1e-6, "{run}");
        let latencies = ["p50", "p90", "p99", "max"].map(|q| figure(&format!("/block_latency_ms/{q}")));
        assert!(latencies.is_sorted(), "{latencies:?}");
        let seconds = run["per_second"].as_array().expect("seconds");
        let sum: f64 = seconds.iter().map(|second| second["txs"].as_f64().expect("a figure")).sum();
        assert!((sum / figure("/throughput/succeeded") - 1.0).abs() < 1e-6, "{seconds:?}");
        let workers = run["balance"].as_array().expect("workers");
        // Elsewhere no thread can read another's clock.
        if cfg!(target_os = "linux") {
            let names: Vec<_> = workers.iter().map(|worker| worker["worker"].as_str().expect("a name")).collect();
            let threads = run["threads"].as_u64().expect("a count");
            assert_eq!(names, (0..threads).map(|i| format!("phalanx-worker-{i}")).collect::<Vec<_>>());
        }
        assert!(workers.iter().all(|worker| worker["busy"].as_f64().is_some_and(|busy| busy >= 0.0)), "{workers:?}");
        assert!(figure("/cpu/us_core_per_tx") > 0.0 && figure("/stages_ns_per_tx/execute") > 0.0, "{run}");
    }
}

const SMALL: &str = "bench run --accounts 300 --txs 900 --block-txs 200";

fn small(flags: &str) -> Ended {
    run(&format!("{SMALL} {flags} --json -"))
}

#[test]
fn stdout_is_one_object_with_every_field() {
    let ended = small("--executor dag --executor sequential --runs 2 --threads 2");
    let result = ended.json();
    sound(&result);
    assert_eq!(result["schema"], 1);
    assert_eq!(result["host"]["disk"], Value::Null, "a store in memory is on no disk");
    assert_eq!(
        result["command"],
        format!("phalanx {SMALL} --executor dag --executor sequential --runs 2 --threads 2 --json -")
    );
    let roots: BTreeSet<_> = all_match(&result, 900).into_iter().collect();
    assert_eq!(roots.len(), 1, "all executors and repetitions lead to one state");
    let runs: Vec<_> =
        result["runs"].as_array().expect("runs").iter().map(|run| (&run["executor"], &run["threads"])).collect();
    let (dag, sequential) = ((&"dag".into(), &2.into()), (&"sequential".into(), &1.into()));
    assert_eq!(runs, [dag, sequential, dag, sequential], "interleaved, in sequence on one thread");
    // Progress goes to stderr, not to the reader of the result.
    assert!(ended.stderr.contains("dag on 2 threads"), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn touched_memory_is_reported() {
    let said = "1 GiB of memory was written to before the timer started.";
    for (flags, gib) in [("", 0), ("--touch 1", 1)] {
        let result = small(flags).json();
        assert_eq!(result["scope"]["touched_gib"], gib);
        let peak = result["runs"][0]["resources"]["rss_peak_bytes"].as_u64().expect("bytes");
        assert_eq!(peak >> 30, gib, "{peak} bytes");
        assert_eq!(run(&format!("{SMALL} {flags}")).stdout.contains(said), gib == 1);
    }
    run(&format!("{SMALL} --touch 1000000")).refused(2, "--touch 1000000 GiB is more than the");
    run(&format!("{SMALL} --touch {}", u64::MAX)).refused(2, "is more than the");
    // Memory touched by a cell stays with the process.
    let swept = run("bench sweep --axis alpha=0,0.5 --gamma 10 --accounts 300 --txs 900 --block-txs 200 --touch 1");
    assert!(swept.code == Some(0) && swept.stdout.contains(said), "{swept:?}");
}

#[test]
fn the_configuration_holds_every_flag() {
    // The help lists all flags, so that a new flag cannot be forgotten. Flags of the output are excluded.
    let help = run("bench run --help").stdout;
    let flags: BTreeSet<String> = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("--")?.split_whitespace().next())
        .map(|flag| flag.replace('-', "_"))
        .filter(|flag| !["json", "csv", "report", "trace"].contains(&&**flag))
        .collect();
    assert!(flags.len() >= 20, "{flags:?}");
    let config = small("").json()["config"].clone();
    let keys: BTreeSet<String> = config.as_object().expect("a configuration").keys().cloned().collect();
    assert_eq!(keys, flags);

    let given = [
        ("workload", "erc20"),
        ("accounts", "250"),
        ("txs", "300"),
        ("block-txs", "70"),
        ("alpha", "0.25"),
        ("gamma", "7"),
        ("hot", "both"),
        ("order", "given"),
        ("executor", "sequential"),
        ("access", "simulate"),
        ("threads", "3"),
        ("pin", "off"),
        ("signatures", "on"),
        ("store", "mem"),
        ("durability", "block"),
        ("hasher", "blake3"),
        ("root", "ethereum"),
        ("fast-path", "off"),
        ("traces", "check"),
        ("evm-spec", "prague"),
        ("block-gas", "5000000"),
        ("seed", "9"),
        ("pools", "7"),
        ("hot-pool-share", "0.5"),
        ("mix", "native=1,erc20=2,swap=3,approve=4,create=5,revert=6"),
        ("runs", "2"),
        ("oracle", "sampled"),
        ("duration", "1000.0"),
    ];
    let line: String = given.iter().map(|(flag, value)| format!(" --{flag} {value}")).collect();
    let result = run(&format!("bench run{line} --json -")).json();
    sound(&result);
    for (flag, value) in given {
        let found = &result["config"][flag.replace('-', "_")];
        let found = if let [only] = found.as_array().map_or(&[][..], |list| list) { only } else { found };
        assert_eq!(found.as_str().map_or_else(|| found.to_string(), str::to_owned), value, "{flag}");
    }
}

#[test]
fn the_scope_describes_the_run() {
    let scope = |flags: &str| small(flags).json()["scope"].clone();
    let plain = scope("");
    assert_eq!((&plain["signatures"], &plain["durability"]), (&false.into(), &"none".into()), "memory is not durable");
    assert!(plain["disabled_rules"].as_array().expect("rules").contains(&"signatures".into()));
    let signed = scope("--signatures on --order given --access simulate");
    assert_eq!((&signed["signatures"], &signed["order"]), (&true.into(), &"given".into()));
    assert_eq!(signed["access_source"], "simulate");
    assert!(!signed["disabled_rules"].as_array().expect("rules").contains(&"signatures".into()));
}

#[test]
fn the_oracle_reports_its_share() {
    for (flags, word) in [("full", "match"), ("sampled", "sampled"), ("off", "off")] {
        let result = small(&format!("--oracle {flags}")).json();
        assert_eq!(result["runs"][0]["integrity"]["oracle"], word);
    }
    let detail = small("--oracle sampled").json()["runs"][0]["integrity"]["detail"].clone();
    assert!(detail.as_str().expect("text").starts_with("blocks 1 to 1 of 5"), "it says which blocks: {detail}");
}

#[test]
fn a_version_names_its_build() {
    let tool = run("version --json").json();
    for field in ["version", "commit", "rustc", "allocator", "profile"] {
        assert!(Text.fits(&tool[field]), "{field}: {tool}");
    }
    let built = [("node", cfg!(feature = "node")), ("rocksdb", cfg!(feature = "rocksdb"))];
    let features: Vec<&str> = built.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    assert_eq!(tool["features"], serde_json::json!(features));
    assert!(run("version").stdout.starts_with("phalanx "));
}

#[test]
fn scheduling_reports_rates_and_both_tlps() {
    for workload in ["native", "erc20", "amm", "mixed"] {
        let line = format!(
            "bench schedule --workload {workload} --accounts 2000 --txs 4000 --block-txs 1000 --runs 2 --json -"
        );
        let result = run(&line).json();
        let rates = ["/txs_per_s/frame", "/txs_per_s/intern", "/txs_per_s/dag", "/txs_per_s/dispatch"];
        fields(&result, &rates.map(|rate| (rate, Figure)));
        fields(&result, &[("/tlp_frames", Figure), ("/tlp_dag", Figure), ("/schema", Count), ("/blocks", Count)]);
        assert_eq!((&result["blocks"], &result["config"]["workload"]), (&4.into(), &workload.into()));
    }
}
