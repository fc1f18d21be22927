//! `bench compare`: files that may be compared and files that may not, and variants that are run in turns.

use crate::command::{end, phalanx, run};
use serde_json::Value;
use std::{fs, path::Path};

const SMALL: &str = "bench run --accounts 200 --txs 400 --block-txs 100 --threads 1";

/// Measures into `name` under `dir`.
fn measured(dir: &Path, name: &str, flags: &str) -> String {
    let path = dir.join(name).display().to_string();
    let ended = run(&format!("{SMALL} {flags} --json {path}"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    path
}

#[test]
fn two_files_of_one_thing_have_a_ratio_with_an_interval() {
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
fn files_of_different_things_are_refused_by_the_field_that_differs() {
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
    compare(&sequential, "").refused(2, "nothing ran in both");
    assert_eq!(compare(&sequential, "--allow executor").code, Some(0));
    let text = dir.path().join("text");
    fs::write(&text, "no result").expect("a file");
    compare(&text.display().to_string(), "").refused(2, "no result of `bench run --json`");
    fs::write(&text, "[]").expect("a file");
    run(&format!("bench compare {0} {0}", text.display())).refused(2, "holds no result");
    compare("/nowhere/at/all", "").refused(2, "/nowhere/at/all");
}

/// `bench compare` with arguments that have blanks in them.
fn live(arguments: &[&str]) -> crate::command::Ended {
    end(phalanx(["bench", "compare"].iter().chain(arguments)))
}

#[test]
fn variants_take_turns_in_processes_of_their_own() {
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
fn an_expectation_that_does_not_hold_is_code_four() {
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
fn comparisons_that_cannot_be_made_are_refused() {
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
        (&["--preset", "abc", "--pairs", "0"], "--pairs must be between 1 and"),
        (&["--preset", "abc", "--floor", "1"], "--floor must be at least 0"),
        (&["--preset", "abc", "--resamples", "1"], "--resamples must be between"),
        (&["--preset", "abc", "--expect", "C/A"], "expected X/Y>=N"),
    ] {
        live(arguments).refused(2, says);
    }
}
