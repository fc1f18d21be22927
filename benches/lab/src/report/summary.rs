//! Rows: repetitions of one executor on one number of threads, shown by their medians.

use super::text;
use crate::result::{BenchResult, Disturbance, INTERRUPTED, Quantiles, Run, Stages, Steady};
use serde_json::Value;

/// Settings that do not name a workload: they vary within a result, or name outputs.
const NOT_WORKLOAD: [&str; 7] = ["executor", "threads", "runs", "json", "csv", "report", "profile"];

/// Maximum number of settings in the name of a result.
const MAX_SETTINGS: usize = 3;

/// Minimum time of a run whose disturbance is judged, in seconds: the system counts in hundredths.
const JUDGED_S: f64 = 1.0;
/// Share of the machine's cores that others may keep busy, and share of their time that may be stolen.
const OTHERS: f64 = 0.1;
const STOLEN: f64 = 0.01;

/// Executor that the others are compared with.
pub(crate) const SEQUENTIAL: &str = "sequential";
/// Executor of a builder, the subject of a result with built blocks.
pub(crate) const BUILD: &str = "build";
/// Executor of the planner, which has blocks of its own beside a builder's.
const PLANNER: &str = "dag";

/// List of blocks within a result. Only runs of one list end in one state, and only their rates make a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// The list of the sequential executor.
    Compared,
    /// The planner's list, beside a builder's.
    Planned,
}

/// Verdict on the steadiness of a row. A number is the largest change of the rate over the second half, as a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// No verdict: an older result, or an interrupted one.
    Unjudged,
    /// Too few blocks, or too much noise.
    Undecided,
    Steady(f64),
    Drifts(f64),
}

/// All repetitions of one executor on one number of threads, within one result.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    /// Index of the result among the results.
    pub(crate) result: usize,
    /// Workload, and the settings by which this result differs from others of the same workload.
    pub(crate) workload: String,
    /// Name in the run.
    pub(crate) executor: &'a str,
    /// Name in the run.
    pub(crate) threads: usize,
    /// Cores of the machine.
    pub(crate) cores: usize,
    /// Blocks that all repetitions had.
    pub(crate) blocks: Blocks,
    /// True if the result was interrupted: repetitions may have ended at different blocks.
    pub(crate) interrupted: bool,
    /// Repetitions, at least one.
    pub(crate) runs: Vec<&'a Run>,
}

/// Rows in the order in which their first runs appear.
pub(crate) fn rows(results: &[BenchResult]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for ((result, bench), workload) in results.iter().enumerate().zip(names(results)) {
        for run in &bench.runs {
            let same =
                |row: &&mut Row<'_>| (row.result, row.executor, row.threads) == (result, &*run.executor, run.threads);
            match rows.iter_mut().find(same) {
                Some(row) => row.runs.push(run),
                None => rows.push(Row {
                    result,
                    workload: workload.clone(),
                    executor: &run.executor,
                    threads: run.threads,
                    cores: bench.host.cores,
                    blocks: match run.executor.as_str() {
                        PLANNER if bench.building.is_some() => Blocks::Planned,
                        _ => Blocks::Compared,
                    },
                    interrupted: bench.tags.iter().any(|tag| tag == INTERRUPTED),
                    runs: vec![run],
                }),
            }
        }
    }
    rows
}

/// A distinct name for each result: `native`, or `native alpha=0.5` where several results of one workload differ in `alpha`.
pub(crate) fn names(results: &[BenchResult]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(results.len());
    for result in results {
        let workload = workload(result);
        let mut name = workload.clone();
        let alike = || results.iter().filter(|other| self::workload(other) == workload);
        let differing = result
            .config
            .iter()
            .filter(|(key, _)| !NOT_WORKLOAD.contains(&key.as_str()))
            .filter(|(key, value)| alike().any(|other| other.config.get(*key) != Some(*value)));
        for (key, value) in differing.take(MAX_SETTINGS) {
            name.push_str(&format!(" {key}={}", plain(value)));
        }
        if names.contains(&name) {
            let copies = (2..).map(|n| format!("{name} ({n})"));
            name = copies.into_iter().find(|copy| !names.contains(copy)).unwrap_or_default();
        }
        names.push(name);
    }
    names
}

fn workload(result: &BenchResult) -> String {
    result.config.get("workload").map_or_else(|| "workload".to_owned(), plain)
}

/// A setting without the quotes of JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Null => text::NONE.to_owned(),
        other => other.to_string(),
    }
}

impl Row<'_> {
    /// `native · dag · 2 threads`.
    pub(crate) fn name(&self) -> String {
        format!("{} · {} · {}", self.workload, self.executor, text::threads(self.threads))
    }

    /// `×5 median`, or nothing for a single run.
    pub(crate) fn repeats(&self) -> String {
        if self.runs.len() > 1 { format!("×{} median", self.runs.len()) } else { String::new() }
    }

    /// True if any repetition differs from the oracle: the same inputs must give the same results.
    pub(crate) fn differs(&self) -> bool {
        self.runs.iter().any(|run| run.throughput.is_none() || run.integrity.oracle == "mismatch")
    }

    /// True if no repetition executed a transaction, as when the user stopped it before its first block.
    pub(crate) fn is_empty(&self) -> bool {
        let counts = |run: &&Run| run.throughput.as_ref().map_or(1, |t| t.succeeded + t.reverted + t.invalid);
        self.runs.iter().map(counts).sum::<u64>() == 0
    }

    /// Verdict on the steadiness of the repetitions: steady if every one is. An interrupted run has no trend to judge.
    pub(crate) fn pace(&self) -> Pace {
        let judged: Vec<&Steady> = self.runs.iter().filter_map(|run| run.steady.as_ref()).collect();
        let worst = judged.iter().map(|steady| steady.drift).max_by(|a, b| a.abs().total_cmp(&b.abs()));
        match worst {
            Some(_) if self.interrupted || self.is_empty() => Pace::Unjudged,
            None => Pace::Unjudged,
            Some(drift) if judged.iter().any(|steady| steady.steady == Some(false)) => Pace::Drifts(drift),
            Some(_) if judged.len() < self.runs.len() => Pace::Undecided,
            Some(_) if judged.iter().any(|steady| steady.steady.is_none()) => Pace::Undecided,
            Some(drift) => Pace::Steady(drift),
        }
    }

    /// The largest disturbance of a repetition, if it is worth a warning; short runs are not judged.
    pub(crate) fn disturbance(&self) -> Option<Disturbance> {
        let long = |run: &&&Run| run.throughput.as_ref().is_some_and(|t| t.seconds >= JUDGED_S);
        let judged = self.runs.iter().filter(long).filter_map(|run| run.disturbance);
        let worst = judged.reduce(|a, b| Disturbance {
            other_cores: a.other_cores.max(b.other_cores),
            stolen: a.stolen.max(b.stolen),
        })?;
        (worst.other_cores > OTHERS * self.cores as f64 || worst.stolen > STOLEN).then_some(worst)
    }

    /// Throughput as a multiple of the sequential executor's on the same blocks; none without one.
    pub(crate) fn speed_up(&self, rows: &[Self]) -> Option<f64> {
        let list = (self.result, self.blocks);
        let sequential = rows.iter().find(|row| (row.result, row.blocks) == list && row.executor == SEQUENTIAL)?;
        let base = sequential.tps().filter(|base| *base > 0.0)?;
        Some(self.tps()? / base)
    }

    /// Succeeded transactions per second; none when the row [`differs`](Self::differs).
    pub(crate) fn tps(&self) -> Option<f64> {
        self.throughput(|t| t.tps)
    }

    /// The median of a figure of throughput; none when the row [`differs`](Self::differs).
    pub(crate) fn throughput(&self, pick: impl Fn(&crate::result::Throughput) -> f64) -> Option<f64> {
        if self.differs() { None } else { median(self.runs.iter().filter_map(|run| run.throughput.as_ref()).map(pick)) }
    }

    /// Slowest and fastest repetition, in transactions per second; none for a single run.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        let of = || self.runs.iter().filter_map(|run| run.throughput.as_ref()).map(|t| t.tps).filter(|v| v.is_finite());
        (self.runs.len() > 1 && !self.differs()).then_some(())?;
        Some((of().min_by(f64::total_cmp)?, of().max_by(f64::total_cmp)?))
    }

    /// Median of any figure of a run; zero where no run has a finite one.
    pub(crate) fn median(&self, pick: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(|run| pick(run))).unwrap_or(0.0)
    }

    /// Transactions ÷ frames.
    pub(crate) fn tlp_frames(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.parallelism.tlp_frames))
    }

    /// Transactions ÷ critical path.
    pub(crate) fn tlp_dag(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.parallelism.tlp_dag))
    }

    /// Medians of the quantiles, in milliseconds.
    pub(crate) fn latency(&self) -> Quantiles {
        let of = |pick: fn(&Quantiles) -> f64| self.median(|run| pick(&run.block_latency_ms));
        Quantiles { p50: of(|q| q.p50), p90: of(|q| q.p90), p99: of(|q| q.p99), max: of(|q| q.max) }
    }

    /// Medians of the stages, in nanoseconds per transaction.
    pub(crate) fn stages(&self) -> Stages {
        let of = |pick: fn(&Stages) -> f64| self.median(|run| pick(&run.stages_ns_per_tx));
        Stages {
            recover: of(|s| s.recover),
            pool: of(|s| s.pool),
            analyse: of(|s| s.analyse),
            frame: of(|s| s.frame),
            schedule: of(|s| s.schedule),
            execute: of(|s| s.execute),
            seal: of(|s| s.seal),
            merkle: of(|s| s.merkle),
            persist: of(|s| s.persist),
            read: of(|s| s.read),
        }
    }

    /// Microseconds of processor time per transaction, all threads together.
    pub(crate) fn us_core(&self) -> f64 {
        self.median(|run| run.cpu.us_core_per_tx)
    }

    /// Nanoseconds per transaction that the process spent outside all stages.
    pub(crate) fn other(&self) -> f64 {
        let staged: f64 = self.stages().named().iter().map(|(_, ns)| amount(*ns)).sum();
        amount(self.us_core() * 1000.0 - staged)
    }

    /// The weakest verdict among the repetitions.
    pub(crate) fn oracle(&self) -> &str {
        let weakness = |verdict: &str| ["match", "sampled", "off"].iter().position(|v| *v == verdict).unwrap_or(3);
        let weakest = self.runs.iter().map(|run| &*run.integrity.oracle).max_by_key(|verdict| weakness(verdict));
        weakest.unwrap_or("off")
    }

    /// Detail of the oracle's verdict, of a differing repetition first.
    pub(crate) fn detail(&self) -> &str {
        let differs = |run: &&&Run| run.throughput.is_none() || run.integrity.oracle == "mismatch";
        let telling = self.runs.iter().find(differs).or_else(|| self.runs.first());
        telling.map_or("", |run| &run.integrity.detail)
    }

    /// True if repetitions of the same inputs ended in different states.
    pub(crate) fn diverged(&self) -> bool {
        !self.interrupted && self.roots().len() > 1
    }

    /// Distinct state roots.
    pub(crate) fn roots(&self) -> Vec<&str> {
        let mut roots = Vec::new();
        for run in &self.runs {
            if !roots.contains(&run.integrity.state_root.as_str()) {
                roots.push(run.integrity.state_root.as_str());
            }
        }
        roots
    }
}

/// A measured amount to draw or add up: finite and not below zero.
pub(crate) const fn amount(value: f64) -> f64 {
    if value.is_finite() && value > 0.0 { value } else { 0.0 }
}

/// Median of the finite values, the mean of the middle two where their number is even.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(values[values.len() / 2 - 1], upper))
}

#[cfg(test)]
mod tests {
    use super::{super::fixture, *};

    #[test]
    fn median_is_in_the_middle() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([3.0, f64::NAN, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0].into_iter()), Some(2.5));
    }

    #[test]
    fn repetitions_make_one_row_and_one_bad_one_spoils_it() {
        let mut bench = fixture::bench("native", &[("dag", 2, 100.0), ("sequential", 1, 60.0), ("dag", 2, 300.0)]);
        bench.runs.push(fixture::run("dag", 2, 200.0));
        let results = [bench.clone()];
        let rows = rows(&results);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].runs.len(), rows[0].tps(), rows[0].spread()), (3, Some(200.0), Some((100.0, 300.0))));
        assert_eq!(rows[0].repeats(), "×3 median");
        assert_eq!((rows[1].repeats().as_str(), rows[1].spread()), ("", None));

        bench.runs[2].throughput = None;
        bench.runs[2].integrity.oracle = "mismatch".into();
        bench.runs[2].integrity.detail = "block 7".into();
        let results = [bench];
        let rows = super::rows(&results);
        assert_eq!((rows[0].tps(), rows[0].oracle(), rows[0].detail()), (None, "mismatch", "block 7"));
        assert!(rows[1].tps().is_some());
    }

    #[test]
    fn a_claimed_figure_beside_a_mismatch_is_not_believed() {
        let mut bench = fixture::bench("native", &[("dag", 2, 100.0)]);
        bench.runs[0].integrity.oracle = "mismatch".into();
        assert_eq!(rows(&[bench])[0].tps(), None);
    }

    #[test]
    fn results_of_one_workload_are_told_apart_by_what_differs() {
        let mut results =
            vec![fixture::bench("native", &[]), fixture::bench("erc20", &[]), fixture::bench("native", &[])];
        assert_eq!(names(&results), ["native", "erc20", "native (2)"]);
        results[2].config.insert("alpha".into(), 0.5.into());
        results[2].config.insert("json".into(), "elsewhere".into());
        assert_eq!(names(&results), ["native alpha=0.0", "erc20", "native alpha=0.5"]);
    }

    #[test]
    fn other_is_what_the_stages_leave() {
        let bench = fixture::bench("native", &[("dag", 2, 100.0)]);
        let rows = [bench];
        let row = &self::rows(&rows)[0];
        let staged: f64 = row.stages().named().iter().map(|(_, ns)| ns).sum();
        assert!((row.other() + staged - row.us_core() * 1000.0).abs() < 1e-6);
    }
}
