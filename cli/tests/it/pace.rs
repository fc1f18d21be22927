//! `bench run` by time, by arrivals, and with a timeline.

use crate::command::{all_match, run};
use serde_json::Value;

const LOAD: &str = "bench run --accounts 300 --block-txs 100 --threads 2";

fn blocks(result: &Value, at: usize) -> u64 {
    result["runs"][at]["throughput"]["succeeded"].as_u64().expect("transactions")
}

#[test]
fn a_run_ends_after_its_time_and_others_execute_its_blocks() {
    // A millisecond is over after the first block, on any machine.
    let executors = "--executor dag --executor block-stm --executor sequential --runs 2";
    let result = run(&format!("{LOAD} --txs 20000 --duration 0.001 {executors} --json -")).json();
    let first = blocks(&result, 0);
    assert!(first > 0 && first < 20_000 && first.is_multiple_of(100), "{result}");
    all_match(&result, first);
    assert_eq!(result["runs"].as_array().map(Vec::len), Some(6));
    assert_eq!((&result["tags"][0], &result["config"]["duration"]), (&"cut".into(), &0.001.into()));
    // Without the DAG, blocks are planned beforehand.
    let alone =
        run(&format!("{LOAD} --txs 20000 --duration 0.001 --executor sequential --executor block-stm --json -")).json();
    all_match(&alone, blocks(&alone, 0));
    assert!(blocks(&alone, 0) < 20_000);
    // A load that is too small is told.
    let whole = run(&format!("{LOAD} --txs 300 --duration 1000 --json -"));
    assert!(whole.stderr.contains("the load ended before --duration 1000"), "{whole:?}");
    assert_eq!(whole.json()["tags"], serde_json::json!([]));
}

#[test]
fn latencies_of_an_open_loop_count_from_arrivals() {
    // 600 arrivals take 0.3 s. A block waits for its last one, so the first of each waits at least 99 arrivals, 49 ms.
    let ended =
        run(&format!("{LOAD} --txs 600 --rate 2000 --order given --executor dag --executor sequential --json -"));
    let result = ended.json();
    all_match(&result, 600);
    for run in result["runs"].as_array().expect("runs") {
        let figure = |path: &str| run.pointer(path).and_then(Value::as_f64).expect("a figure");
        assert_eq!(run["open_loop"]["rate"], 2000);
        assert!(figure("/open_loop/latency_ms/max") >= 49.0, "{run}");
        assert!(figure("/open_loop/latency_ms/p50") >= 24.0, "{run}");
        assert!(figure("/throughput/seconds") >= 0.299, "nothing is executed before it arrives: {run}");
        assert!(figure("/throughput/tps") <= 2_010.0, "{run}");
    }
    let inside: Vec<&str> =
        (result["scope"]["inside_timer"].as_array().expect("parts").iter()).filter_map(Value::as_str).collect();
    assert!(inside.contains(&"waiting for arrivals") && inside.contains(&"planning"), "{inside:?}");
    let table = run(&format!("{LOAD} --txs 200 --rate 1e6")).stdout;
    assert!(table.contains("Open loop, dag: 1,000,000 arrivals per second; from arrival to root p50"), "{table}");
    // A rate beyond the engine's shows as a growing distance.
    let flood = run(&format!("{LOAD} --txs 20000 --rate 1e9 --executor sequential --json -")).json();
    let behind = flood["runs"][0]["open_loop"]["behind_ms"].as_f64().expect("a figure");
    let seconds = flood["runs"][0]["throughput"]["seconds"].as_f64().expect("a figure");
    assert!(behind > 900.0 * seconds, "nearly the whole run: {behind} ms of {seconds} s");
}

#[test]
fn a_pace_that_no_run_could_have_is_refused() {
    for (flags, says) in [
        ("--duration 0", "--duration must be above 0"),
        ("--duration -1", "--duration"),
        ("--duration x", "--duration"),
        ("--rate 0", "--rate must be between 1"),
        ("--rate 2e9", "--rate must be between 1"),
        ("--rate 5 --signatures on", "do not go together"),
        ("--trace /nowhere/at/all.json", "/nowhere/at/all.json"),
    ] {
        let ended = run(&format!("{LOAD} --txs 200 {flags}"));
        assert!(matches!(ended.code, Some(1 | 2)) && ended.stdout.is_empty(), "{flags}: {ended:?}");
        assert!(ended.stderr.contains(says), "{flags}: {ended:?}");
    }
    run("bench sweep --axis alpha=0 --rate 5").refused(2, "--rate");
}

#[test]
fn a_timeline_has_the_stages_of_every_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let line = format!("{LOAD} --txs 2000 --executor dag --executor sequential --trace {} --json -", path.display());
    let result = run(&line).json();
    // A busy machine adds a tag of its own.
    assert!(result["tags"].as_array().is_some_and(|tags| tags.contains(&"traced".into())), "{}", result["tags"]);
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&path).expect("a file")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    assert!(trace["otherData"]["command"].as_str().is_some_and(|command| command.contains("--trace")), "{trace}");
    for run in [1, 2] {
        let of = |phase: &str, name: &str| {
            let is = |event: &&Value| event["pid"] == run && event["ph"] == phase && event["name"] == name;
            events.iter().filter(is).count()
        };
        assert_eq!(of("M", "process_name"), 1);
        for stage in ["execute", "seal", "merkle"] {
            assert!(of("X", stage) >= 20, "20 blocks of run {run}: {stage}");
        }
        assert!(of("M", "thread_name") >= 1);
    }
    for event in events.iter().filter(|event| event["ph"] == "X") {
        assert!(event["ts"].as_f64() >= Some(0.0) && event["dur"].as_f64() >= Some(0.0), "{event}");
    }
}
