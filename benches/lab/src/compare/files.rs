//! Two recorded results: refuses results of different settings, and pairs their runs.

use super::samples::{Compared, Sample, Samples};
use crate::{
    error::Usage,
    report::text,
    result::{self, BenchResult, INTERRUPTED, Unreadable},
};
use serde_json::{Map, Value};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Names of the first and the second file in expectations.
pub(super) const SIDES: [&str; 2] = ["A", "B"];

/// Settings that do not change what is measured.
const BESIDE: [&str; 4] = ["runs", "oracle", "executor", "threads"];

/// Names that may be allowed beside the fields: runs of another kind, and interrupted results.
const GROUPED: [&str; 3] = ["executor", "threads", INTERRUPTED];

/// Comparisons that two files allow.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) compared: Vec<Compared>,
    /// True if a file was interrupted, which is allowed.
    pub(super) partial: bool,
}

/// Pairs the runs of both files. Every workload, executor and number of threads of either file must be in both.
pub(super) fn compare(paths: &[PathBuf; 2], allow: &[String]) -> anyhow::Result<Outcome> {
    let results = [read(&paths[0])?, read(&paths[1])?];
    let names = [0, 1].map(|side| paths[side].display().to_string());
    Ok(pair(&names, &results, allow)?)
}

fn pair(names: &[String; 2], results: &[Vec<BenchResult>; 2], allow: &[String]) -> Result<Outcome, Usage> {
    let [baseline, candidate] = results;
    if baseline.len() != candidate.len() {
        let of = |results: &[BenchResult]| {
            if results.len() == 1 { "1 result".to_owned() } else { format!("{} results", results.len()) }
        };
        let (ours, theirs) = (of(baseline), of(candidate));
        return Err(Usage(format!(
            "{} holds {ours} and {} holds {theirs}: compare files of the same command (`demo --json` writes one per workload)",
            names[0], names[1]
        )));
    }
    check_allowed(results, allow)?;
    let cut = |side: &usize| results[*side].iter().any(|result| result.tags.iter().any(|tag| tag == INTERRUPTED));
    let partial = (0..2).find(cut);
    if let Some(side) = partial.filter(|_| !allow.iter().any(|name| name == INTERRUPTED)) {
        let what = format!("{} was interrupted; --allow {INTERRUPTED} if that does not matter", names[side]);
        return Err(Usage(what));
    }
    let mut compared = Vec::new();
    for (baseline, candidate) in baseline.iter().zip(candidate) {
        if let Some(difference) = difference(baseline, candidate, allow) {
            let what =
                format!("the results differ in what they measure: {difference}. If that is intended, --allow it");
            return Err(Usage(what));
        }
        let sides = [groups(baseline, allow, &names[0])?, groups(candidate, allow, &names[1])?];
        for (side, other) in [(0, 1), (1, 0)] {
            let missing = sides[side].iter().find(|group| sides[other].iter().all(|other| other.what != group.what));
            if let Some(Group { what, .. }) = missing {
                let [here, there] = [&names[side], &names[other]];
                let why =
                    format!("{what} is in {here} and not in {there}; --allow executor or threads if that is intended");
                return Err(Usage(why));
            }
        }
        let [ours, theirs] = sides;
        for Group { what, samples, .. } in ours {
            let theirs = theirs.iter().find(|group| group.what == what).expect("what is in one is in both");
            compared.push(Compared {
                baseline: Samples { name: names[0].clone(), samples },
                candidate: Samples { name: names[1].clone(), samples: theirs.samples.clone() },
                sides: SIDES.map(str::to_owned),
                what,
                paired: false,
            });
        }
    }
    Ok(Outcome { compared, partial: partial.is_some() })
}

/// Runs of one workload, executor and number of threads.
#[derive(Debug)]
struct Group {
    what: String,
    /// Executor of all runs.
    executor: String,
    threads: usize,
    samples: Vec<Sample>,
}

/// Refuses an allowed name that is not compared: it is a typing error.
fn check_allowed(results: &[Vec<BenchResult>; 2], allow: &[String]) -> Result<(), Usage> {
    let fields: Vec<Map<String, Value>> = results.iter().flatten().map(fields).collect();
    let known = |name: &&String| {
        let plain = name.strip_prefix("config.").unwrap_or(name);
        let field = |name: &str| fields.iter().any(|fields| fields.contains_key(name));
        GROUPED.contains(&plain) || field(name) || field(&format!("config.{plain}"))
    };
    allow.iter().find(|name| !known(name)).map_or(Ok(()), |name| {
        Err(Usage(format!("--allow names {name}, which is none of the fields that are compared")))
    })
}

fn read(path: &Path) -> anyhow::Result<Vec<BenchResult>> {
    let text = fs::read_to_string(path).map_err(|error| Usage(format!("{}: {error}", path.display())))?;
    let refused = |error: Unreadable| Usage(format!("{} is no result of `bench run --json`: {error}", path.display()));
    Ok(result::read(&text).map_err(refused)?)
}

/// First setting, rule or part of the machine in which two results differ, in words.
fn difference(baseline: &BenchResult, candidate: &BenchResult, allow: &[String]) -> Option<String> {
    let [ours, theirs] = [baseline, candidate].map(fields);
    let names = ours.keys().chain(theirs.keys().filter(|name| !ours.contains_key(*name)));
    let mut names = names.filter(|name| {
        !allow.contains(name) && !name.strip_prefix("config.").is_some_and(|n| allow.iter().any(|a| a == n))
    });
    let differs = names.find(|name| ours.get(*name) != theirs.get(*name))?;
    let told = |fields: &Map<String, Value>| fields.get(differs).map_or_else(|| "absent".to_owned(), Value::to_string);
    Some(format!("{differs} is {} in the first and {} in the second", told(&ours), told(&theirs)))
}

/// Fields that must be equal, by name.
fn fields(result: &BenchResult) -> Map<String, Value> {
    let mut fields = Map::new();
    let config = result.config.iter().filter(|(name, _)| !BESIDE.contains(&name.as_str()));
    for (name, value) in config {
        // The folder of a store does not matter; its kind and its disk do.
        let value = match value.as_str().filter(|_| name == "store") {
            Some(store) => store.split(':').next().unwrap_or_default().into(),
            None => value.clone(),
        };
        fields.insert(format!("config.{name}"), value);
    }
    // Results older than these flags were neither pinned nor touched memory, and had no pace.
    fields.entry("config.pin").or_insert_with(|| "off".into());
    fields.entry("config.touch").or_insert_with(|| 0.into());
    fields.entry("config.duration").or_insert(Value::Null);
    fields.entry("config.rate").or_insert(Value::Null);
    if let Ok(Value::Object(mut scope)) = serde_json::to_value(&result.scope) {
        // The settings say it, and older results do not have it.
        scope.remove("inside_timer");
        fields.extend(scope.into_iter().map(|(name, value)| (format!("scope.{name}"), value)));
    }
    fields.insert("host.cpu".into(), result.host.cpu.clone().into());
    fields.insert("host.cores".into(), result.host.cores.into());
    fields.insert("host.disk".into(), result.host.disk.clone().into());
    fields.insert("tool.profile".into(), result.tool.profile.clone().into());
    fields
}

/// Groups the runs of the file `name` by workload, executor and threads.
fn groups(result: &BenchResult, allow: &[String], name: &str) -> Result<Vec<Group>, Usage> {
    let allowed = |name: &str| allow.iter().any(|a| a == name || a.strip_prefix("config.") == Some(name));
    let workload = result.config.get("workload").and_then(Value::as_str).unwrap_or("workload");
    let mut groups: Vec<Group> = Vec::new();
    for run in &result.runs {
        let Some(throughput) = &run.throughput else {
            let what = format!("a run of {} in {name} differs from the oracle and has no throughput", run.executor);
            return Err(Usage(what));
        };
        let mut what = workload.to_owned();
        if !allowed("executor") {
            what.push_str(&format!(" · {}", run.executor));
        }
        if !allowed("threads") {
            what.push_str(&format!(" · {}", text::threads(run.threads)));
        }
        let sample = Sample::new(run, throughput, None);
        sample.check(&format!("{what} in {name}"))?;
        match groups.iter_mut().find(|group| group.what == what) {
            // An executor or thread count that may differ between files must be the same within a file: a mean over two is no figure.
            Some(group) if (&group.executor, group.threads) != (&run.executor, run.threads) => {
                let told = |executor: &str, threads| format!("{executor} on {}", text::threads(threads));
                return Err(Usage(format!(
                    "{name} has runs of {what} by {} and by {}: an executor or a number of threads that is allowed to \
                     differ between files must not differ within one",
                    told(&group.executor, group.threads),
                    told(&run.executor, run.threads)
                )));
            }
            Some(group) => group.samples.push(sample),
            None => {
                let (executor, threads) = (run.executor.clone(), run.threads);
                groups.push(Group { what, executor, threads, samples: vec![sample] });
            }
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn the_first_difference_is_named_and_may_be_allowed() {
        let base = fixture::bench("native", &[("dag", 2, 10.0)]);
        let differs = |change: fn(&mut BenchResult), allow: &[&str]| {
            let mut other = base.clone();
            change(&mut other);
            difference(&base, &other, &allow.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(differs(|_| {}, &[]), None);
        let seed = differs(|r| _ = r.config.insert("seed".into(), 7.into()), &[]).unwrap();
        assert!(seed.contains("config.seed is 42 in the first and 7 in the second"), "{seed}");
        assert_eq!(differs(|r| _ = r.config.insert("seed".into(), 7.into()), &["seed"]), None);
        assert_eq!(differs(|r| _ = r.config.insert("runs".into(), 7.into()), &[]), None);
        assert_eq!(differs(|r| _ = r.config.insert("store".into(), "rocks:/elsewhere".into()), &[]), None);
        assert!(differs(|r| _ = r.config.insert("store".into(), "mem".into()), &[]).unwrap().contains("config.store"));
        assert!(differs(|r| _ = r.config.remove("alpha"), &[]).unwrap().contains("absent in the second"));
        let pinned = |word: &str| {
            let mut other = base.clone();
            other.config.insert("pin".into(), word.into());
            difference(&base, &other, &[])
        };
        assert_eq!(pinned("off"), None);
        assert!(pinned("on").unwrap().contains("config.pin is \"off\" in the first and \"on\" in the second"));
        assert_eq!(differs(|r| _ = r.config.insert("touch".into(), 0.into()), &[]), None);
        let touched = differs(|r| _ = r.config.insert("touch".into(), 4.into()), &[]);
        assert!(touched.unwrap().contains("config.touch is 0 in the first and 4 in the second"));
        assert!(differs(|r| r.scope.receipts = false, &[]).unwrap().contains("scope.receipts"));
        assert!(differs(|r| r.host.cores = 96, &[]).unwrap().contains("host.cores"));
        assert_eq!(differs(|r| r.host.cores = 96, &["host.cores"]), None);
        assert!(differs(|r| r.host.disk = Some("/dev/sdb (xfs)".into()), &[]).unwrap().contains("host.disk"));
    }

    /// Pairs two results.
    fn paired(first: &BenchResult, second: &BenchResult, allow: &[&str]) -> Result<Outcome, Usage> {
        let allow: Vec<_> = allow.iter().map(|name| (*name).to_owned()).collect();
        pair(&["1.json", "2.json"].map(str::to_owned), &[vec![first.clone()], vec![second.clone()]], &allow)
    }

    #[track_caller]
    fn refused(outcome: Result<Outcome, Usage>, says: &str) {
        let why = outcome.map(|outcome| outcome.compared.len()).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    }

    #[test]
    fn runs_of_one_file_alone_are_named() {
        let both = fixture::bench("native", &[("dag", 2, 10.0), ("sequential", 1, 5.0)]);
        let one = fixture::bench("native", &[("dag", 2, 10.0)]);
        assert_eq!(paired(&both, &both, &[]).unwrap().compared.len(), 2);
        let missing = "native · sequential · 1 thread is in";
        refused(paired(&both, &one, &[]), &format!("{missing} 1.json and not in 2.json"));
        refused(paired(&one, &both, &[]), &format!("{missing} 2.json and not in 1.json"));
    }

    #[test]
    fn unknown_names_are_not_allowed() {
        let one = fixture::bench("native", &[("dag", 2, 10.0)]);
        for known in ["seed", "config.seed", "scope.receipts", "host.disk", "executor", "threads", "interrupted"] {
            assert!(paired(&one, &one, &[known]).is_ok(), "{known}");
        }
        refused(paired(&one, &one, &["sede"]), "--allow names sede");
    }

    #[test]
    fn an_interrupted_result_must_be_allowed() {
        let whole = fixture::bench("native", &[("dag", 2, 10.0)]);
        let mut cut = whole.clone();
        cut.tags.push("interrupted".into());
        refused(paired(&whole, &cut, &[]), "2.json was interrupted");
        assert!(paired(&whole, &cut, &["interrupted"]).unwrap().partial);
        assert!(!paired(&whole, &whole, &[]).unwrap().partial);
    }

    #[test]
    fn figures_without_a_ratio_are_refused_by_name() {
        let one = fixture::bench("native", &[("dag", 2, 10.0)]);
        let mut idle = one.clone();
        idle.runs[0].cpu.us_core_per_tx = 0.0;
        refused(paired(&one, &idle, &[]), "native · dag · 2 threads in 2.json: us_core_per_tx is 0");
    }

    #[test]
    fn runs_are_grouped_by_executor_and_threads() {
        let result = fixture::bench("native", &[("dag", 2, 10.0), ("sequential", 1, 5.0), ("dag", 2, 11.0)]);
        let keys = |allow: &[&str]| -> Vec<(String, usize)> {
            let allow: Vec<_> = allow.iter().map(|name| (*name).to_owned()).collect();
            match groups(&result, &allow, "1.json") {
                Ok(groups) => groups.into_iter().map(|group| (group.what, group.samples.len())).collect(),
                Err(Usage(why)) => vec![(why, 0)],
            }
        };
        assert_eq!(keys(&[]), [("native · dag · 2 threads".into(), 2), ("native · sequential · 1 thread".into(), 1)]);
        // The other field still tells them apart.
        assert_eq!(keys(&["executor"]), [("native · 2 threads".into(), 2), ("native · 1 thread".into(), 1)]);
        let mixed = &keys(&["executor", "threads"])[0].0;
        assert!(
            mixed.contains("1.json has runs of native by dag on 2 threads and by sequential on 1 thread"),
            "{mixed}"
        );
        let mut wrong = result.clone();
        fixture::spoil(&mut wrong.runs[0]);
        assert!(groups(&wrong, &[], "1.json").is_err());
    }
}
