//! `bench adversary`: hostile lists with the oracle's verdict, factors, and bounds. No figure is judged here: a verdict must
//! follow from the figures beside it.

use crate::command::{Ended, run};
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};

/// Lists of every form, in blocks so small that no figure means anything.
const SMALL: &str = "bench adversary --case swept,offered,gapped,invalid-last,cold-each,counted-account,false --block-gas 3000000 --runs 1";

/// Names of all cases, as the refusal of a wrong name lists them.
fn names() -> BTreeSet<String> {
    let ended = run("bench adversary --case no-such-case");
    ended.refused(2, "no case has \"no-such-case\" in its name");
    let (_, names) = ended.stderr.split_once("there are ").expect("a list");
    names.trim().split(", ").map(str::to_owned).collect()
}

/// Checks that each verdict follows from the figures, and the exit code from the verdicts; returns the rows.
#[track_caller]
fn judged(ended: &Ended) -> Vec<Value> {
    let result = ended.only_json();
    let rows = result["rows"].as_array().expect("rows").clone();
    for row in &rows {
        assert_eq!(row["oracle"], "match", "{row}");
        let figures = &row["figures"];
        let figure = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        for (factor, time, reference) in
            [("cpu_factor", "cpu_s", "reference_cpu_s"), ("wall_factor", "wall_s", "reference_wall_s")]
        {
            assert!(figure(time) > 0.0 && figure(reference) > 0.0, "{row}");
            assert!((figure(factor) * figure(reference) / figure(time) - 1.0).abs() < 1e-6, "{row}");
        }
        let bound = &result["bounds"][row["role"].as_str().expect("a role")];
        assert_eq!(row["bound"], *bound, "{row}");
        assert_eq!(row["holds"], figure("cpu_factor") <= bound.as_f64().expect("a bound"), "{row}");
        assert_eq!(figures["reference"] == "list", row["role"] == "validator", "{row}");
    }
    let holds = rows.iter().all(|row| row["holds"] == true);
    assert_eq!((&result["holds"], ended.code), (&holds.into(), Some(if holds { 0 } else { 3 })));
    rows
}

#[test]
fn every_list_ends_as_on_sequential_revm_and_each_verdict_follows_from_its_figures() {
    let rows = judged(&run(&format!("{SMALL} --threads 1,2 --json -")));
    let variants = |case: &str| {
        let of_case = rows.iter().filter(|row| row["case"] == case);
        let word = |row: &Value, field: &str| row[field].as_str().expect("text").to_owned();
        of_case.map(|row| (word(row, "role"), word(row, "executor"), row["threads"].as_u64())).collect::<BTreeSet<_>>()
    };
    let of = |kinds: &[(&str, &str)]| {
        let both = |(role, executor): &(&str, &str)| {
            [1, 2].map(|threads| ((*role).to_owned(), (*executor).to_owned(), Some(threads)))
        };
        kinds.iter().flat_map(both).collect::<BTreeSet<_>>()
    };
    let validators = [("validator", "dag"), ("validator", "block-stm")];
    let all = [&validators[..], &[("builder", "dag"), ("planner", "dag")]].concat();
    for case in ["swept", "offered", "gapped", "cold-each", "counted-account"] {
        assert_eq!(variants(case), of(&all), "{case}");
    }
    assert_eq!(variants("invalid-last"), of(&validators));
    assert_eq!(variants("false-sets"), of(&validators[..1]));
    assert_eq!(variants("false-list"), of(&[("validator", "access-list")]));
    // An invalid block uses no gas, the others do.
    for row in &rows {
        let none = ["invalid-last", "false-list", "gapped"].iter().any(|case| row["case"] == *case);
        assert_eq!(row["gas"] == 0, none, "{row}");
    }
}

#[test]
fn a_broken_bound_ends_with_3() {
    let line = "bench adversary --case hot-slot --block-gas 3000000 --runs 1 --threads 1 --max-validator 0.000001";
    let broken = |row: &Value| (row["role"].clone(), row["holds"].clone());
    let rows: Vec<_> = judged(&run(&format!("{line} --max-builder 1e9 --json -"))).iter().map(broken).collect();
    let expected = [("validator", false), ("validator", false), ("builder", true), ("planner", true)];
    assert_eq!(rows, expected.map(|(role, holds)| (role.into(), holds.into())));
    let ended = run(&format!("{line} --max-builder 1e9"));
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stdout.contains("broken\n") && ended.stdout.contains("\n2 of 4 bounds hold.\n"), "{ended:?}");
}

#[test]
fn what_describes_no_run_is_refused() {
    for (flags, says) in [
        ("--threads 0", "--threads must be between 1 and 512"),
        ("--runs 0", "--runs must be between 1 and 1000, not 0"),
        ("--block-gas 2999999", "--block-gas must be between"),
        ("--max-validator 0", "must be above zero"),
        ("--max-builder NaN", "must be above zero"),
    ] {
        run(&format!("bench adversary {flags}")).refused(2, says);
    }
}

/// The page of bounds names each case beside the bound that it tries, and states the bounds that the command prints.
#[test]
fn the_reference_has_every_case_and_both_bounds() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/bounds-of-work.md");
    let page = fs::read_to_string(path).expect("the page");
    let (_, section) = page.split_once("\n## Worst cases\n").expect("a section");
    let section = section.split("\n## ").next().expect("its text");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(listed, names());
    let result = run("bench adversary --case transfers --block-gas 3000000 --runs 1 --threads 1 --json -").only_json();
    for (role, bound) in result["bounds"].as_object().expect("bounds") {
        let sentence = format!("{} times", bound.as_f64().expect("a bound"));
        assert!(section.contains(&sentence), "{role}: {sentence}");
    }
}
