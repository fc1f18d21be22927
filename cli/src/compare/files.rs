//! Two results that were measured some time: are they of the same thing, and what is their ratio?

use super::{Compared, Sample, samples::Samples};
use crate::{exit::Usage, result::BenchResult};
use serde_json::{Map, Value};
use std::{fs, path::Path};

/// Settings that say how often and where, and not what was measured.
const BESIDE: [&str; 4] = ["runs", "oracle", "executor", "threads"];

/// Compares what both files have: every workload, executor and number of threads that is in either must be in both.
pub(super) fn compare(paths: &[std::path::PathBuf], allow: &[String]) -> anyhow::Result<Vec<Compared>> {
    let (baseline, candidate) = (read(&paths[0])?, read(&paths[1])?);
    let names = || paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    if baseline.len() != candidate.len() {
        let count = |results: &[BenchResult]| results.len();
        let what = format!("{} results beside {} in {}", count(&baseline), count(&candidate), names().join(" and "));
        return Err(Usage(what).into());
    }
    let mut compared = Vec::new();
    for (baseline, candidate) in baseline.iter().zip(&candidate) {
        if let Some(difference) = difference(baseline, candidate, allow) {
            let what =
                format!("these are not results of the same thing: {difference}. If that is the point, --allow it");
            return Err(Usage(what).into());
        }
        let (ours, theirs) = (groups(baseline, allow)?, groups(candidate, allow)?);
        let both = ours.iter().filter_map(|(key, ours)| Some((key, ours, &theirs.iter().find(|(k, _)| k == key)?.1)));
        let before = compared.len();
        compared.extend(both.map(|(key, baseline, candidate)| Compared {
            what: key.clone(),
            baseline: Samples { name: names()[0].clone(), samples: baseline.clone() },
            candidate: Samples { name: names()[1].clone(), samples: candidate.clone() },
            paired: false,
        }));
        if compared.len() == before {
            let list = |groups: &Groups| groups.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(", ");
            let what = format!(
                "nothing ran in both: {} and {}; --allow executor or threads if that is the point",
                list(&ours),
                list(&theirs)
            );
            return Err(Usage(what).into());
        }
    }
    Ok(compared)
}

type Groups = Vec<(String, Vec<Sample>)>;

fn read(path: &Path) -> anyhow::Result<Vec<BenchResult>> {
    let text = fs::read_to_string(path).map_err(|error| Usage(format!("{}: {error}", path.display())))?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| Usage(format!("{} is no result of `bench run --json`: {error}", path.display())))?;
    let list = if value.is_array() { value } else { Value::Array(vec![value]) };
    let results: Vec<BenchResult> = serde_json::from_value(list)
        .map_err(|error| Usage(format!("{} is no result of `bench run --json`: {error}", path.display())))?;
    if results.is_empty() {
        return Err(Usage(format!("{} holds no result", path.display())).into());
    }
    Ok(results)
}

/// The first setting, rule or part of the machine in which they differ, in words.
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

/// What must be equal, by its name.
fn fields(result: &BenchResult) -> Map<String, Value> {
    let mut fields = Map::new();
    let config = result.config.iter().filter(|(name, _)| !BESIDE.contains(&name.as_str()));
    for (name, value) in config {
        // Where a store is does not matter, but its kind does.
        let value = match value.as_str().filter(|_| name == "store") {
            Some(store) => store.split(':').next().unwrap_or_default().into(),
            None => value.clone(),
        };
        fields.insert(format!("config.{name}"), value);
    }
    if let Ok(Value::Object(scope)) = serde_json::to_value(&result.scope) {
        fields.extend(scope.into_iter().map(|(name, value)| (format!("scope.{name}"), value)));
    }
    fields.insert("host.cpu".into(), result.host.cpu.clone().into());
    fields.insert("host.cores".into(), result.host.cores.into());
    fields.insert("tool.profile".into(), result.tool.profile.clone().into());
    fields
}

/// Runs by what they are runs of.
fn groups(result: &BenchResult, allow: &[String]) -> Result<Groups, Usage> {
    let allowed = |name: &str| allow.iter().any(|a| a == name || a.strip_prefix("config.") == Some(name));
    let workload = result.config.get("workload").and_then(Value::as_str).unwrap_or("workload");
    let mut groups: Groups = Vec::new();
    for run in &result.runs {
        let Some(throughput) = &run.throughput else {
            return Err(Usage(format!("a run of {} differs from the oracle and has no throughput", run.executor)));
        };
        let mut key = workload.to_owned();
        if !allowed("executor") {
            key.push_str(&format!(" · {}", run.executor));
        }
        if !allowed("threads") {
            key.push_str(&format!(" · {}", crate::report::text::threads(run.threads)));
        }
        let sample = Sample {
            round: None,
            tps: throughput.tps,
            us_core_per_tx: run.cpu.us_core_per_tx,
            state_root: run.integrity.state_root.clone(),
            oracle: run.integrity.oracle.clone(),
        };
        match groups.iter_mut().find(|(name, _)| *name == key) {
            Some((_, samples)) => samples.push(sample),
            None => groups.push((key, vec![sample])),
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
        assert!(differs(|r| r.scope.receipts = false, &[]).unwrap().contains("scope.receipts"));
        assert!(differs(|r| r.host.cores = 96, &[]).unwrap().contains("host.cores"));
        assert_eq!(differs(|r| r.host.cores = 96, &["host.cores"]), None);
    }

    #[test]
    fn runs_are_grouped_by_what_they_are_runs_of() {
        let result = fixture::bench("native", &[("dag", 2, 10.0), ("sequential", 1, 5.0), ("dag", 2, 11.0)]);
        let keys = |allow: &[&str]| {
            let allow: Vec<_> = allow.iter().map(|name| (*name).to_owned()).collect();
            let groups = groups(&result, &allow).unwrap();
            groups.into_iter().map(|(key, samples)| (key, samples.len())).collect::<Vec<_>>()
        };
        assert_eq!(keys(&[]), [("native · dag · 2 threads".into(), 2), ("native · sequential · 1 thread".into(), 1)]);
        assert_eq!(keys(&["executor", "threads"]), [("native".into(), 3)]);
        let mut wrong = result.clone();
        fixture::spoil(&mut wrong.runs[0]);
        assert!(groups(&wrong, &[]).is_err());
    }
}
