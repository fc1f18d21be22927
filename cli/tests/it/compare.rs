//! `bench compare`: comparable and incomparable files, and variants that run in turns.

use crate::command::{end, phalanx, run};
use serde_json::Value;
use std::{fs, path::Path};

const SMALL: &str = "bench run --accounts 200 --txs 400 --block-txs 100 --threads 1";

/// Measures into the file `name` under `dir`.
fn measured(dir: &Path, name: &str, flags: &str) -> String {
    let path = dir.join(name).display().to_string();
    let ended = run(&format!("{SMALL} {flags} --json {path}"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    path
}

#[test]
fn two_comparable_files_have_a_ratio_with_an_interval() {
    let dir = tempfile::tempdir().expect("a folder");
    let [a, b] = ["a", "b"].map(|name| measured(dir.path(), name, "--runs 3 --oracle off"));
    let result = run(&format!("bench compare {a} {b} --seed 5 --resamples 500 --json -")).json();
    let comparisons = result["comparisons"].as_array().expect("comparisons");
    let metrics: Vec<_> = comparisons.iter().map(|c| c["metric"].as_str().expect("text")).collect();
    assert_eq!(metrics, ["tps", "us_core_per_tx"]);
    for comparison in comparisons {
        let figure = |name: &str| comparison[name].as_f64().expect("a figure");
        assert!(0.0 < figure("low") && figure("low") <= figure("ratio") && figure("ratio") <= figure("high"));
        assert_eq!(comparison["runs"], serde_json::json!([3, 3]));
    }
    let again = run(&format!("bench compare {a} {b} --seed 5 --resamples 500 --json -")).json();
    assert_eq!(result["comparisons"], again["comparisons"], "one seed, one interval");
}

#[test]
fn files_with_different_settings_are_refused_by_field() {
    let dir = tempfile::tempdir().expect("a folder");
    let base = measured(dir.path(), "base", "");
    let compare = |other: &str, flags: &str| run(&format!("bench compare {base} {other} {flags}"));
    for (flags, field) in [("--seed 7", "config.seed"), ("--order given", "order"), ("--fast-path off", "fast_path")] {
        compare(&measured(dir.path(), "other", flags), "").refused(2, field);
    }
    let seed = measured(dir.path(), "seed", "--seed 7");
    let allowed = compare(&seed, "--allow seed");
    assert!(allowed.code == Some(0) && allowed.stdout.contains("a single run has no interval"), "{allowed:?}");
    let sequential = measured(dir.path(), "sequential", "--executor sequential");
    compare(&sequential, "").refused(2, "native · dag · 1 thread is in");
    assert_eq!(compare(&sequential, "--allow executor").code, Some(0));
    compare(&sequential, "--allow executr").refused(2, "--allow names executr");
    let both = measured(dir.path(), "both", "--executor dag --executor sequential");
    compare(&both, "").refused(2, "native · sequential · 1 thread is in");
    compare(&both, "--allow executor").refused(2, "by dag on 1 thread and by sequential on 1 thread");
    let text = dir.path().join("text");
    fs::write(&text, "no result").expect("a file");
    compare(&text.display().to_string(), "").refused(2, "no result of `bench run --json`");
    fs::write(&text, "[]").expect("a file");
    run(&format!("bench compare {0} {0}", text.display())).refused(2, "holds no result");
    compare("/nowhere/at/all", "").refused(2, "/nowhere/at/all");
}

#[test]
fn interrupted_and_unsteady_results_are_tagged() {
    let dir = tempfile::tempdir().expect("a folder");
    let base = measured(dir.path(), "base", "--oracle off");
    let changed = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_str(&fs::read_to_string(&base).expect("a result")).expect("JSON");
        change(&mut value);
        let path = dir.path().join(name);
        fs::write(&path, value.to_string()).expect("a file");
        path.display().to_string()
    };
    let cut = changed("cut", &|value| value["tags"] = serde_json::json!(["interrupted"]));
    run(&format!("bench compare {base} {cut}")).refused(2, "was interrupted; --allow interrupted");
    let allowed = run(&format!("bench compare {base} {cut} --allow interrupted --json -")).json();
    assert_eq!(allowed["tags"], serde_json::json!(["interrupted"]));
    let drifting = changed("drifting", &|value| {
        value["runs"][0]["steady"] = serde_json::json!({ "steady": false, "blocks": 50, "drift": -0.2, "z": -4.0 });
    });
    let result = run(&format!("bench compare {base} {drifting} --json -")).json();
    assert_eq!(result["tags"], serde_json::json!(["not-steady"]));
    assert_eq!(result["variants"][1]["samples"][0]["steady"], false, "{result}");
    let told = run(&format!("bench compare {base} {drifting}")).stdout;
    assert!(told.contains("NOT STEADY, the rate still drifted"), "{told}");
    let idle = changed("idle", &|value| value["runs"][0]["throughput"]["tps"] = 0.into());
    run(&format!("bench compare {base} {idle}")).refused(2, "tps is 0");
}

#[test]
fn expectations_of_files_call_them_a_and_b() {
    let dir = tempfile::tempdir().expect("a folder");
    let [a, b] = ["a", "b"].map(|name| measured(dir.path(), name, "--executor dag --executor sequential"));
    let with = |expected: &str| run(&format!("bench compare {a} {b} --expect {expected}"));
    assert_eq!(with("B/A>=0.000001").code, Some(0));
    let missed = with("B/A>=1000000");
    assert_eq!((missed.code, missed.stdout.matches("MISSED: B/A").count()), (Some(4), 2), "{missed:?}");
    with("C/A>=1").refused(2, "--expect names C, and there are A, B");
    with("A/A>=1").refused(2, "beside itself");
}

/// `bench compare` with arguments that have blanks in them.
fn live(arguments: &[&str]) -> crate::command::Ended {
    end(phalanx(["bench", "compare"].iter().chain(arguments)))
}

#[test]
fn variants_run_in_turns_in_their_own_processes() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = format!("--accounts 200 --txs 400 --block-txs 100 --store file:{}", dir.path().join("s").display());
    let ended = live(&["--preset", "abc", "--common", &store, "--pairs", "2", "--resamples", "200", "--json", "-"]);
    let result = ended.json();
    let variants = result["variants"].as_array().expect("variants");
    let names: Vec<_> = variants.iter().map(|v| v["name"].as_str().expect("text")).collect();
    assert_eq!(names, ["A", "B", "C"]);
    let samples = |v: &Value| v["samples"].as_array().expect("samples").clone();
    let words: Vec<_> =
        variants.iter().map(|v| samples(v).iter().map(|s| s["oracle"].clone()).collect::<Vec<_>>()).collect();
    assert!(words.iter().all(|words| words == &["match", "off"]), "proved once, then known by the root: {words:?}");
    let roots: Vec<_> = variants.iter().flat_map(samples).map(|sample| sample["state_root"].clone()).collect();
    assert!(roots.len() == 6 && roots.iter().all(|root| root == &roots[0]), "{roots:?}");
    let what: Vec<_> =
        result["comparisons"].as_array().expect("comparisons").iter().map(|c| c["what"].clone()).collect();
    assert_eq!(what, ["B/A", "B/A", "C/A", "C/A", "C/B", "C/B"]);
    let order: Vec<_> =
        ended.stderr.lines().filter_map(|line| line.strip_prefix("round ")?.split(':').next()).collect();
    assert_eq!(order, ["1 A", "1 B", "1 C", "2 C", "2 B", "2 A"]);
    let left: Vec<_> = fs::read_dir(dir.path().join("s")).map_or(vec![], |entries| entries.flatten().collect());
    assert!(left.is_empty(), "stores are removed: {left:?}");
}

#[test]
fn an_existing_folder_is_neither_used_nor_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    for taken in ["A-1", "C-2"] {
        let own = dir.path().join(taken).join("own");
        fs::create_dir_all(own.parent().expect("a folder")).expect("a folder");
        fs::write(&own, "mine").expect("a file");
        let store = format!("--accounts 200 --txs 400 --block-txs 100 --store file:{}", dir.path().display());
        let ended = live(&["--preset", "abc", "--common", &store, "--pairs", "2"]);
        ended.refused(2, "is there already");
        assert!(!ended.stderr.contains("round 1"), "nothing is run: {ended:?}");
        assert_eq!(fs::read_to_string(&own).expect("it is still there"), "mine");
        fs::remove_dir_all(dir.path().join(taken)).expect("a folder");
    }
}

#[test]
fn a_common_profile_applies_to_all_variants() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("mine.toml");
    fs::write(&file, "accounts = 200\ntxs = 300\nblock-txs = 100\norder = \"given\"\n").expect("a file");
    let common = format!("--common=--profile={} --txs 200", file.display());
    let result = live(&["--preset", "abc", &common, "--pairs", "1", "--json", "-"]).json();
    let variants = result["variants"].as_array().expect("variants");
    assert!(variants.len() == 3 && variants.iter().all(|v| v["samples"][0]["oracle"] == "match"), "{result}");
    live(&["--preset", "abc", "--common", "--profile=paper"]).refused(2, "variant A: --profile must be");
}

#[test]
fn a_missed_expectation_is_code_four() {
    let flags = "--accounts 200 --txs 400 --block-txs 100 --oracle off";
    let with = |expectation: &str| {
        live(&[
            "--baseline",
            "--threads 1",
            "--candidate",
            "--threads 2",
            "--common",
            flags,
            "--pairs",
            "1",
            "--expect",
            expectation,
        ])
    };
    assert_eq!(with("candidate/baseline>=0.000001").code, Some(0));
    let missed = with("candidate/baseline>=1000000");
    assert!(missed.code == Some(4) && missed.stdout.contains("MISSED: candidate/baseline"), "{missed:?}");
    with("C/A>=1").refused(2, "--expect names C");
}

#[test]
fn impossible_comparisons_are_refused() {
    for (arguments, says) in [
        (&[][..], "--variant NAME=FLAGS"),
        (&["one.json"], "2 values required"),
        (&["--variant", "a=--threads 1"], "name two results"),
        (&["--variant", "a=", "--variant", "a="], "two variants are called a"),
        (&["--variant", "nameless"], "expected NAME=FLAGS"),
        (&["--preset", "abc", "--common", "--no-such-flag"], "variant A: unexpected argument"),
        (&["--preset", "abc", "--common", "--threads 3"], "variant A: "),
        (&["--preset", "abc", "--common", "--runs 2"], "--pairs"),
        (&["--preset", "abc", "--common", "--json x"], "leave out --json"),
        (&["--preset", "abc", "--common", "--txs 0"], "variant A: --txs must be at least 1"),
        (&["--preset", "abc", "--common", "'--txs 0"], "is never closed"),
        // Only the child finds this out.
        (&["--preset", "abc", "--common", "--accounts 1 --txs 10"], "between 2 and 2^32 - 1"),
        (&["--preset", "abc", "--expect", "B/B>=1"], "beside itself"),
        (&["--preset", "abc", "--pairs", "0"], "--pairs must be between 1 and"),
        (&["--preset", "abc", "--floor", "1"], "--floor must be at least 0"),
        (&["--preset", "abc", "--resamples", "1"], "--resamples must be between"),
        (&["--preset", "abc", "--expect", "C/A"], "expected X/Y>=N"),
    ] {
        live(arguments).refused(2, says);
    }
}
