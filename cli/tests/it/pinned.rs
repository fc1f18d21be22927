//! `--pin`: a result holds the cores of a run, as many as its threads, as the system confirmed them.

use crate::command::{all_match, disk_stores, end, run};
use serde_json::{Value, json};
use std::{collections::BTreeSet, process::Command};

const SMALL: &str = "bench run --accounts 300 --txs 900 --block-txs 300";

/// Cores that the binary uses by default.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Cores that the binary may use: more than the default where a quota limits its time.
fn offered() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a field");
    let number = |core: &str| core.trim().parse::<usize>().expect("a number");
    list.split(',').map(|range| range.split_once('-').map_or(1, |(from, to)| number(to) - number(from) + 1)).sum()
}

/// The cores of each run, all different within one.
#[track_caller]
fn pinned(result: &Value) -> Vec<Vec<u64>> {
    let of = |run: &Value| -> Vec<u64> {
        let cores = run["pinned"].as_array().unwrap_or_else(|| panic!("no cores: {run}"));
        cores.iter().map(|core| core.as_u64().expect("a number")).collect()
    };
    let cores: Vec<Vec<u64>> = result["runs"].as_array().expect("runs").iter().map(of).collect();
    for (cores, run) in cores.iter().zip(result["runs"].as_array().expect("runs")) {
        assert_eq!(cores.iter().collect::<BTreeSet<_>>().len() as u64, run["threads"].as_u64().expect("a count"));
    }
    cores
}

#[test]
fn each_run_has_as_many_cores_as_threads_on_every_store() {
    let threads = cores().min(2);
    let dir = tempfile::tempdir().expect("a folder");
    let mut stores = vec!["mem".to_owned()];
    stores.extend(disk_stores().iter().map(|kind| format!("{kind}:{}", dir.path().join(kind).display())));
    for store in stores {
        let flags = format!("--pin --threads {threads} --executor dag --executor sequential --runs 2 --store {store}");
        let result = run(&format!("{SMALL} {flags} --json -")).json();
        all_match(&result, 900);
        assert_eq!(result["config"]["pin"], "on");
        assert_eq!(result["host"]["cores"], cores(), "the machine is as large as it is");
        let pinned = pinned(&result);
        assert!(pinned[0].len() == threads && pinned[1] == pinned[0][..1], "{pinned:?}");
        assert_eq!(pinned[..2], pinned[2..], "each time the same");
    }
    let free = run(&format!("{SMALL} --threads 1 --json -")).json();
    assert!(free["config"]["pin"] == "off" && free["runs"][0].get("pinned").is_none(), "{free}");
    assert!(run(&format!("{SMALL} --pin on --threads 1")).stdout.contains("; pinned to core "));
}

#[test]
fn builders_and_validators_are_pinned() {
    let threads = cores().min(2);
    let line = format!(
        "bench build --accounts 300 --txs 600 --block-txs 300 --threads {threads} --given-threads 1 --pin \
         --artefact none --json -"
    );
    let pinned = pinned(&run(&line).json());
    let counts: Vec<usize> = pinned.iter().map(Vec::len).collect();
    assert_eq!(counts, [threads, threads, 1, 1], "dag, build, given-none, sequential");
}

#[test]
fn more_threads_than_cores_are_refused() {
    let many = offered() + 1;
    let says = format!("--pin needs a core for each of {many} threads");
    run(&format!("{SMALL} --pin --threads {many}")).refused(2, &says);
    run(&format!("bench build --pin --threads 1 --given-threads {many}")).refused(2, &says);
    run(&format!("bench sweep --axis threads=1,{many} --pin")).refused(2, &says);
    let variants = format!("--variant A=--threads=1 --variant B=--threads={many}");
    run(&format!("bench compare {variants} --common --pin")).refused(2, &says);
}

#[test]
fn only_available_cores_are_taken() {
    let all = pinned(&run(&format!("{SMALL} --pin --json -")).json());
    for core in &all[0] {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string(), env!("CARGO_BIN_EXE_phalanx")]);
        command.args(SMALL.split_whitespace()).args(["--pin", "--json", "-"]);
        if command.output().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            // This machine cannot restrict the cores further.
            return;
        }
        let result = end(command).json();
        assert_eq!((&result["runs"][0]["pinned"], &result["config"]["threads"]), (&json!([core]), &1.into()));
    }
}

#[test]
fn pinned_and_free_runs_are_not_compared() {
    let dir = tempfile::tempdir().expect("a folder");
    let [pinned, free] = ["--pin", ""].map(|flag| {
        let path = dir.path().join(format!("{flag}.json"));
        let ended = run(&format!("{SMALL} --threads 1 {flag} --oracle off --json {}", path.display()));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        path.display().to_string()
    });
    run(&format!("bench compare {free} {pinned}")).refused(2, "config.pin is \"off\" in the first and \"on\"");
    let both = run(&format!("bench compare {free} {pinned} --allow pin"));
    assert!(both.code == Some(0) && both.stdout.contains("pinned to core "), "{both:?}");

    let mut command = crate::command::phalanx(["bench", "compare", "--pairs", "2", "--json", "-"]);
    let common = format!("{} --threads 1", SMALL.trim_start_matches("bench run "));
    command.args(["--common", &common, "--variant", "free=--pin=off", "--variant", "pinned=--pin"]);
    let result = end(command).json();
    let samples = |at: usize| result["variants"][at]["samples"].as_array().expect("samples").clone();
    assert!(samples(0).iter().all(|sample| sample.get("pinned").is_none()), "{result}");
    assert!(samples(1).iter().all(|sample| sample["pinned"].as_array().map(Vec::len) == Some(1)), "{result}");
}
