//! Sweeps, the scaling model, a block's graph, profiles.

use crate::command::run;
use serde_json::Value;
use std::fs;

const SMALL: &str = "--accounts 20100 --txs 400 --block-txs 200 --threads 1";

/// Cores that the binary may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn a_figure_is_a_grid_with_a_verdict_a_table_and_a_picture() {
    let dir = tempfile::tempdir().expect("a folder");
    let [csv, svg] = ["grid.csv", "grid.svg"].map(|name| dir.path().join(name));
    let files = format!("--csv {} --svg {}", csv.display(), svg.display());
    let result = run(&format!("bench sweep --figure fafo-4 {SMALL} {files} --oracle off --json -")).json();
    let cells = result["cells"].as_array().expect("cells");
    assert_eq!((cells.len(), &result["tags"]), (15, &serde_json::json!([])), "so few blocks are not judged");
    assert!(cells.iter().all(|cell| cell["tps"].as_f64().is_some_and(|tps| tps > 0.0)), "{result}");
    let judged = &result["judged"];
    let [worst, best] = ["worst", "best"].map(|cell| judged[cell]["tps"].as_f64().expect("a figure"));
    assert!(worst <= best && judged["flat"].as_bool() == Some(worst >= 0.9 * best), "{judged}");
    assert_eq!(fs::read_to_string(csv).expect("rows").lines().count(), 16);
    assert!(fs::read_to_string(svg).expect("a picture").contains("10,000 hot accounts"));
}

#[test]
fn an_axis_varies_one_flag() {
    let line = format!("bench sweep --axis block-txs=50,100,200 {} --json -", SMALL.replace("--block-txs 200", ""));
    let cells = run(&line).json()["cells"].clone();
    let at: Vec<_> = cells.as_array().expect("cells").iter().map(|cell| cell["block-txs"].as_f64()).collect();
    assert_eq!(at, [Some(50.0), Some(100.0), Some(200.0)]);
    assert!(cells.as_array().expect("cells").iter().all(|cell| cell["oracle"] == "match"), "{cells}");
    run("bench sweep --axis hasher=1").refused(2, "is none of accounts, alpha");
    run("bench sweep --axis pools=1,2").refused(2, "--axis pools without effect: only amm and mixed have pools");
    run("bench sweep").refused(2, "name what to vary: --axis NAME=a,b,c");
    run("bench sweep --axis txs=0 --json -").refused(2, "--txs must be at least 1");
    let two = "--executor dag --executor sequential";
    run(&format!("bench sweep --axis txs=10,20 {two}")).refused(2, "a sweep runs one --executor");
}

#[test]
fn the_model_reports_its_inputs_and_its_validation() {
    let threads = cores().min(2);
    for (command, oracle) in [("bench scale", "match"), ("bench sweep --figure fafo-3 --oracle off", "off")] {
        let load = SMALL.replace("--threads 1", &format!("--threads {threads}"));
        let result = run(&format!("{command} {load} --memory-gbs 100 --json -")).json();
        assert_eq!((&result["integrity"]["oracle"], &result["config"]["threads"]), (&oracle.into(), &threads.into()));
        assert!(result["us_core_per_tx"].as_f64().is_some_and(|us| us > 0.0), "{result}");
        let curve = result["curve"].as_array().expect("a curve");
        let tps: Vec<f64> = curve.iter().map(|point| point["tps"].as_f64().expect("a figure")).collect();
        assert_eq!((curve[0]["cores"].as_u64(), curve.last().expect("points")["cores"].as_u64()), (Some(1), Some(256)));
        // 100 GB/s ÷ the traffic of a transaction is a ceiling.
        assert!(tps.iter().all(|tps| *tps > 0.0 && *tps < 1e8), "{tps:?}");
        assert!(result["knee"].is_null() || curve.iter().any(|point| point["cores"] == result["knee"]), "{result}");
        let real = result["real"].as_array().expect("runs");
        let workers: Vec<_> = real.iter().map(|run| run["workers"].as_u64()).collect();
        assert_eq!(workers, [Some(1), Some(2)][..threads]);
        let within = threads > 1
            && real.iter().all(|run| {
                let [real, model] = ["real_tps", "model_tps"].map(|name| run[name].as_f64().expect("a figure"));
                (model / real - 1.0).abs() <= 0.05
            });
        assert_eq!(result["validated"], within, "{result}");
        assert_eq!(result["tags"].as_array().expect("tags").is_empty(), within);
        let parts = result["parts_ns_per_tx"].as_array().expect("parts");
        let of = |name: &str| parts.iter().find(|part| part["part"] == name).and_then(|part| part["figure"].as_f64());
        for part in [
            "analysis",
            "framing (one thread)",
            "execution",
            "receipts",
            "root",
            "commit in memory",
            "commit in memory (one thread)",
        ] {
            assert!(of(part).is_some_and(|ns| ns >= 0.0), "{part}: {parts:?}");
        }
        // In so small a load a part may be too short to measure, but not execution.
        assert!(of("execution").is_some_and(|ns| ns > 0.0), "{parts:?}");
    }
    run("bench scale --executor sequential").refused(2, "the model is of --executor dag");
    run("bench scale --memory-gbs 0").refused(2, "--memory-gbs must be above zero");
    run(&format!("bench scale --threads {}", cores() + 1)).refused(2, "is compared with real cores");
}

#[test]
fn a_model_beside_one_worker_is_not_validated() {
    let result = run(&format!("bench scale {SMALL} --oracle off --json -")).json();
    assert_eq!((&result["validated"], &result["tags"]), (&false.into(), &serde_json::json!(["not-validated"])));
    assert_eq!(result["real"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_single_hot_pool_is_a_chain_and_its_key_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let [svg, dot] = ["block.svg", "block.dot"].map(|name| dir.path().join(name));
    let load = "--workload amm --accounts 200 --txs 60 --block-txs 30 --pools 4 --hot-pool-share 1 --order given";
    let explained = run(&format!("explain {load} --svg {} --dot {} --json -", svg.display(), dot.display())).json();
    assert_eq!((&explained["txs"], &explained["longest_chain"]), (&30.into(), &30.into()), "{explained}");
    let path = explained["critical_path"]["txs"].as_array().expect("a path");
    assert!(path.len() == 30 && path[1]["because_of"].as_str().is_some_and(|key| key.contains("slot")), "{explained}");
    assert_eq!((&explained["hottest"][0]["chain"], &explained["hottest"][0]["share"]), (&30.into(), &1.0.into()));
    assert!(fs::read_to_string(svg).expect("a picture").contains("critical path"));
    let dot = fs::read_to_string(dot).expect("a graph");
    assert!(dot.starts_with("digraph") && dot.contains("  0 -> 1;"), "{dot}");
    let text = run(&format!("explain {load}")).stdout;
    assert!(text.contains("longest chain 30 transactions") && text.contains("hottest keys"), "{text}");
    assert!(text.contains(" of pool 0 (0x"), "keys have names: {text}");
    run("explain --txs 100 --block-txs 100 --accounts 200 --block 2")
        .refused(2, "the load has 1 block, and --block 2 is none of them");
    run("explain /nowhere").refused(2, "/nowhere");
    run("explain --csv x").refused(2, "unexpected argument");
    let ended = run("explain --runs 3");
    ended.refused(2, "unexpected argument");
    assert!(!ended.stderr.contains("as a value"), "a tip that leads nowhere: {ended:?}");
    assert_eq!(explained["edges_total"].as_u64(), explained["edges"].as_array().map(|edges| edges.len() as u64));
    assert!(text.contains("by gas about"), "{text}");
    let block = dir.path().display();
    run(&format!("explain {block} --txs 100")).refused(2, "cannot be used with");
    run(&format!("explain {block} --block 2")).refused(2, "is one block");
}

#[test]
fn a_result_is_explained_by_generating_its_load_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("result.json");
    let load = "--accounts 300 --txs 300 --block-txs 100 --alpha 0.9 --gamma 3 --seed 5";
    assert_eq!(run(&format!("bench run {load} --json {}", path.display())).code, Some(0));
    let what = |line: &str| {
        let mut value: Value = run(line).json();
        ["command", "critical_path", "sequential_ns"].iter().for_each(|timed| value[timed] = Value::Null);
        value
    };
    assert_eq!(what(&format!("explain {} --json -", path.display())), what(&format!("explain {load} --json -")));
}

#[test]
fn a_profile_is_recorded_and_the_command_line_overrides_it() {
    let load = "--accounts 200 --txs 200 --block-txs 100";
    let result = run(&format!("bench run {load} --profile fafo-paper --order given --json -")).json();
    assert_eq!((&result["config"]["profile"], &result["config"]["order"]), (&"fafo-paper".into(), &"given".into()));
    let words = |name: &str| result["scope"][name].as_array().expect("rules").clone();
    assert!(words("disabled_rules").contains(&"signatures".into()) && words("kept_rules").contains(&"nonces".into()));
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("mine.toml");
    fs::write(&file, "accounts = 200\ntxs = 300\nblock-txs = 100\nsignatures = true\n").expect("a file");
    let result = run(&format!("bench run --profile {} --txs 200 --json -", file.display())).json();
    assert_eq!((&result["config"]["txs"], &result["scope"]["signatures"]), (&200.into(), &true.into()));
    assert!(result["scope"].get("kept_rules").is_none(), "{result}");
    fs::write(&file, "no-such-flag = 1").expect("a file");
    run(&format!("bench run --profile {}", file.display())).refused(2, "--no-such-flag");
    run("bench run --profile paper").refused(2, "--profile must be fafo-paper or a file");
}

#[test]
fn cores_are_measured_within_a_time_and_what_did_not_fit_is_named() {
    let result = run("bench cores native --minutes 0.5 --json -").json();
    let of = |field: &str| result[field].as_array().expect("a list").clone();
    let (rows, skipped) = (of("rows"), of("skipped"));
    assert!(!rows.is_empty() || !skipped.is_empty(), "{result}");
    assert!(rows.iter().chain(&skipped).all(|entry| entry["part"] == "native"), "{result}");
    assert!(rows.iter().all(|row| row["tps"].as_f64().is_some_and(|tps| tps > 0.0)), "{result}");
    assert!(
        skipped.iter().all(|entry| entry["why"]
            .as_str()
            .is_some_and(|why| why.contains("did not end") || why == "no time was left")),
        "{result}"
    );
    run("bench cores nothing").refused(2, "possible values: native, erc20");
    run("bench cores blocks --blocks nowhere").refused(2, "nowhere does not exist");
}

#[test]
fn a_claim_is_measured_or_skipped_with_a_reason() {
    let claim = |arguments: &str| run(&format!("claims {arguments} --json -")).json()["claims"][0].clone();
    // A figure in virtual time is the same on every machine.
    let measured = claim("autobahn");
    assert_eq!((&measured["verdict"], &measured["why"]), (&"holds".into(), &Value::Null), "{measured}");
    let (found, documented) = (&measured["found"], &measured["measured"]);
    assert!((found.as_f64().expect("a ratio") - documented.as_f64().expect("a ratio")).abs() < 0.005, "{measured}");
    let skipped = |arguments: &str, why: &str| {
        let claim = claim(arguments);
        assert_eq!((&claim["verdict"], &claim["found"]), (&"skipped".into(), &Value::Null), "{claim}");
        assert!(claim["why"].as_str().is_some_and(|reason| reason.contains(why)), "{claim}");
    };
    skipped("native --seconds 1", "s are left");
    skipped("blocks", "--blocks DIR");
    run("claims nothing").refused(2, "no claim is called nothing");
    run("claims blocks --blocks nowhere").refused(2, "nowhere does not exist");
}

#[test]
fn recovery_is_measured_beside_libsecp256k1() {
    let result = run("bench recovery --instructions none --batch 1,3 --runs 1 --json -").json();
    let batches = result["batches"].as_array().expect("a list");
    assert_eq!(batches.iter().map(|batch| &batch["signatures"]).collect::<Vec<_>>(), [1, 3]);
    assert!(batches.iter().all(|batch| batch["gain"].as_f64().is_some_and(|gain| gain > 0.0)), "{result}");
    run("bench recovery --batch 0").refused(2, "--batch must be between 1 and 65536");
}
