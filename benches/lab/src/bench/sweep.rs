//! `bench sweep`: one benchmark over a range of settings.

use super::workload;
use crate::{
    config::{OracleKind, RunConfig},
    error::Usage,
    machine::host,
    report::{
        Output, rows,
        svg::{Line, Picture, lines},
        text,
    },
    result::{BenchResult, Ending, SCHEMA},
    ui::Ui,
};
use serde_json::{Value, json};
use std::str::FromStr;

/// FAFO's grid (§3.2, Figure 4).
const ALPHAS: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 0.99];
const GAMMAS: [u64; 3] = [100, 1_000, 10_000];

/// Throughput is flat if no cell with enough parallelism is below the best by more than this share.
const FLAT: f64 = 0.1;
/// Parallelism that the paper's Figure 4 requires: transactions ÷ critical path.
const ENOUGH: f64 = 130.0;

/// A setting and its result.
#[derive(Debug)]
struct Cell {
    /// Name and value of each setting.
    at: Vec<(&'static str, f64)>,
    /// `None` if the results are wrong.
    tps: Option<f64>,
    us_core: f64,
    tlp_frames: Option<f64>,
    tlp_dag: Option<f64>,
    escapes: u64,
    oracle: String,
    /// Detail of the oracle's verdict.
    detail: String,
    /// Tags of its runs.
    tags: Vec<String>,
}

/// Cells up to and including the first that is wrong or interrupted; all, if that happens after the first round.
#[derive(Debug)]
struct Swept {
    cells: Vec<Cell>,
    ending: Ending,
}

impl Swept {
    /// Flatness of a complete sweep; `None` for a sweep that was cut short.
    fn judged(&self) -> Option<Judged> {
        if self.ending == Ending::Complete { judge(&self.cells) } else { None }
    }

    fn tags(&self) -> Vec<&str> {
        let mut tags: Vec<&str> = self.cells.iter().flat_map(|cell| &cell.tags).map(String::as_str).collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }
}

/// Setting that a sweep varies.
#[derive(Clone, Debug)]
pub enum Over {
    /// A single setting.
    Axis(Axis),
    /// `alpha` by `gamma` (FAFO §3.2, Figure 4).
    Fafo4,
}

/// A setting and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    name: &'static str,
    values: Vec<f64>,
}

/// Settings that a sweep may vary.
const AXES: [&str; 7] = ["accounts", "alpha", "block-txs", "gamma", "seed", "threads", "txs"];

impl FromStr for Axis {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (name, values) = word.split_once('=').ok_or("expected NAME=a,b,c")?;
        let values: Result<Vec<f64>, _> = values.split(',').map(|value| value.trim().parse::<f64>()).collect();
        let values = values.map_err(|error| error.to_string())?;
        let name = name.trim_start_matches("--").replace('_', "-");
        let Some(name) = AXES.into_iter().find(|axis| *axis == name) else {
            return Err(format!("{name} is none of {}", AXES.join(", ")));
        };
        let whole = |value: &f64| name == "alpha" || (*value >= 0.0 && value.fract() == 0.0 && *value <= 2f64.powi(53));
        if !values.iter().all(whole) {
            return Err(format!("{name} takes whole numbers"));
        }
        Ok(Self { name, values })
    }
}

impl Axis {
    /// Sets this setting of `config` to `value`.
    fn set(&self, config: &mut RunConfig, value: f64) {
        let whole = value as u64;
        match self.name {
            "accounts" => config.load.accounts = whole,
            "alpha" => config.load.alpha = value,
            "block-txs" => config.load.block_txs = whole as usize,
            "gamma" => config.load.gamma = whole,
            "seed" => config.load.seed = whole,
            "threads" => config.threads = Some(whole as usize),
            _ => config.load.txs = whole,
        }
    }
}

/// Runs the benchmark of `config` at every setting.
///
/// # Errors
/// If the settings describe no sweep, or a run fails.
pub fn run(config: &RunConfig, over: &Over, ui: &Ui) -> anyhow::Result<(Output, Ending)> {
    let (swept, picture, judged) = match over {
        Over::Axis(axis) => {
            let swept = along(config, axis, ui)?;
            let picture = curve(axis, &swept.cells);
            (swept, picture, None)
        }
        Over::Fafo4 => {
            let swept = grid(config, ui)?;
            let (picture, judged) = (by_alpha(&swept.cells), swept.judged());
            (swept, picture, judged)
        }
    };
    let output = Output {
        value: value(config, &swept, judged.as_ref()),
        text: table(&swept, judged.as_ref()) + &text::prepared(config.pin, config.touch),
        csv: Some(csv(&swept.cells)),
        svg: Some(picture.standalone()),
    };
    Ok((output, swept.ending))
}

/// Varied settings of one cell, and all settings of its runs.
type Setting = (Vec<(&'static str, f64)>, RunConfig);

fn along(config: &RunConfig, axis: &Axis, ui: &Ui) -> anyhow::Result<Swept> {
    let settings = axis.values.iter().map(|value| {
        let mut bench = config.clone();
        axis.set(&mut bench, *value);
        (vec![(axis.name, *value)], bench)
    });
    measure(settings.collect(), &mut |bench| workload::run(bench, ui), ui)
}

fn grid(config: &RunConfig, ui: &Ui) -> anyhow::Result<Swept> {
    let settings = ALPHAS.into_iter().flat_map(|alpha| GAMMAS.map(|gamma| (alpha, gamma))).map(|(alpha, gamma)| {
        let mut bench = config.clone();
        (bench.load.alpha, bench.load.gamma) = (alpha, gamma);
        (vec![("alpha", alpha), ("gamma", gamma as f64)], bench)
    });
    measure(settings.collect(), &mut |bench| workload::run(bench, ui), ui)
}

/// Runs every setting in rounds, alternately forwards and backwards, so that a drift of the machine meets all alike.
///
/// Each run has its own folder of the store. Later rounds must end in the states of the first.
fn measure(
    settings: Vec<Setting>,
    run: &mut dyn FnMut(&RunConfig) -> anyhow::Result<BenchResult>,
    ui: &Ui,
) -> anyhow::Result<Swept> {
    for (_, bench) in &settings {
        bench.check()?;
        if bench.executors.len() != 1 {
            return Err(Usage("a sweep runs one --executor, and writes --json, --csv and --svg".into()).into());
        }
    }
    let rounds = settings.first().map_or(0, |(_, bench)| bench.runs);
    let (mut results, mut ending) = (Vec::<BenchResult>::with_capacity(settings.len()), Ending::Complete);
    'rounds: for round in 1..=rounds {
        let there = round % 2 == 1;
        for nth in 0..settings.len() {
            let index = if there { nth } else { settings.len() - 1 - nth };
            let (at, bench) = &settings[index];
            ui.say(&format!("{}, round {round} of {rounds}", place(at)));
            let result = run(&once(bench, index, round))?;
            match results.get_mut(index) {
                Some(first) => repeat(first, result),
                None => results.push(result),
            }
            ending = Ending::of(core::slice::from_ref(&results[index]));
            if ending != Ending::Complete {
                break 'rounds;
            }
        }
    }
    let cells = settings.into_iter().zip(&results).map(|((at, _), result)| cell(at, result)).collect();
    Ok(Swept { cells, ending })
}

/// Settings of a single run.
fn once(bench: &RunConfig, index: usize, round: usize) -> RunConfig {
    let (rounds, mut bench) = (bench.runs, RunConfig { runs: 1, ..bench.clone() });
    if let Some(path) = bench.store.path() {
        let of_cell = path.join(format!("cell-{}", index + 1));
        bench.store = bench.store.at(if rounds > 1 { of_cell.join(format!("{round}")) } else { of_cell });
    }
    if round > 1 {
        bench.oracle = OracleKind::Off;
    }
    bench
}

/// Adds a later round to the first; it is wrong unless it ends in the same state. An interrupted round adds nothing.
fn repeat(first: &mut BenchResult, later: BenchResult) {
    let stopped = later.tags.iter().any(|tag| tag == "interrupted");
    for mut run in later.runs.into_iter().filter(|_| !stopped) {
        let seen = &first.runs[0].integrity;
        if run.throughput.is_some() && run.integrity.state_root == seen.state_root {
            run.integrity.oracle.clone_from(&seen.oracle);
            run.integrity.detail = "the state root of the first round".into();
        } else if run.throughput.take().is_some() {
            let (root, expected) = (&run.integrity.state_root, &seen.state_root);
            run.integrity.detail = format!("ends in {root}, and the first round in {expected}");
            run.integrity.oracle = "mismatch".into();
        }
        first.runs.push(run);
    }
    first.tags.extend(later.tags);
    first.tags.sort_unstable();
    first.tags.dedup();
}

fn cell(at: Vec<(&'static str, f64)>, result: &BenchResult) -> Cell {
    let rows = rows(core::slice::from_ref(result));
    let row = &rows[0];
    Cell {
        at,
        tps: row.tps(),
        us_core: row.us_core(),
        tlp_frames: row.tlp_frames(),
        tlp_dag: row.tlp_dag(),
        escapes: row.runs.iter().map(|run| run.parallelism.escapes).max().unwrap_or(0),
        oracle: row.oracle().to_owned(),
        detail: row.detail().to_owned(),
        tags: result.tags.clone(),
    }
}

/// Verdict on the flatness of throughput.
struct Judged {
    flat: bool,
    /// Number of cells with enough parallelism, and of all.
    held: (usize, usize),
    worst: usize,
    best: usize,
}

/// Judges the cells with enough parallelism; all cells, if none has it.
fn judge(cells: &[Cell]) -> Option<Judged> {
    let holds = |cell: &Cell| cell.tlp_dag.is_some_and(|tlp| tlp >= ENOUGH);
    let held = cells.iter().filter(|cell| holds(cell)).count();
    let tps = |index: &usize| cells[*index].tps.unwrap_or(0.0);
    let counted = |index: &usize| held == 0 || holds(&cells[*index]);
    let by_tps = |a: &usize, b: &usize| tps(a).total_cmp(&tps(b));
    let worst = (0..cells.len()).filter(counted).min_by(by_tps)?;
    let best = (0..cells.len()).filter(counted).max_by(by_tps)?;
    Some(Judged { flat: tps(&worst) >= (1.0 - FLAT) * tps(&best), held: (held, cells.len()), worst, best })
}

fn place(at: &[(&'static str, f64)]) -> String {
    at.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

fn table(swept: &Swept, judged: Option<&Judged>) -> String {
    let cells = &swept.cells;
    let mut out = String::new();
    for (name, _) in cells.first().map_or(&[][..], |cell| &cell.at) {
        out.push_str(&format!("{name:>10}"));
    }
    out.push_str(&format!(
        "{:>14}{:>15}{:>12}{:>10}{:>9}  oracle\n",
        "TPS", "µs·core per tx", "TLP frames", "TLP DAG", "escapes"
    ));
    for cell in cells {
        cell.at.iter().for_each(|(_, value)| out.push_str(&format!("{value:>10}")));
        out.push_str(&format!(
            "{:>14}{:>15}{:>12}{:>10}{:>9}  {}\n",
            cell.tps.map_or_else(|| text::NONE.to_owned(), text::count),
            text::figure(cell.us_core),
            text::optional(cell.tlp_frames),
            text::optional(cell.tlp_dag),
            cell.escapes,
            if cell.tps.is_none() { format!("{}: {}", cell.oracle, cell.detail) } else { cell.oracle.clone() }
        ));
    }
    if let Some(Judged { flat, held: (held, all), worst, best }) = judged {
        let (worst, best) = (&cells[*worst], &cells[*best]);
        let tps = |cell: &Cell| cell.tps.unwrap_or(0.0);
        let below = (1.0 - tps(worst) / tps(best).max(f64::MIN_POSITIVE)) * 100.0;
        out.push_str(&format!(
            "\nThe DAG's parallelism is at least {ENOUGH} in {held} of {all} cells. Of {}, the worst ({}) reaches {} TPS, {below:.0} % \
             below the best ({}). {}\n",
            if *held == 0 { "all" } else { "those" },
            place(&worst.at),
            text::count(tps(worst)),
            place(&best.at),
            if *flat { "Throughput is flat within 10 %." } else { "Throughput is NOT flat within 10 %." }
        ));
    }
    for tag in swept.tags() {
        let cells = cells.iter().filter(|cell| cell.tags.iter().any(|own| own == tag));
        let cells: Vec<String> = cells.map(|cell| place(&cell.at)).collect();
        out.push_str(&format!("\n({tag}: {})\n", cells.join("; ")));
    }
    out
}

fn csv(cells: &[Cell]) -> String {
    let names: Vec<&str> = cells.first().map_or(&[][..], |cell| &cell.at).iter().map(|(name, _)| *name).collect();
    let mut out = format!("{},tps,us_core_per_tx,tlp_frames,tlp_dag,escapes,oracle\n", names.join(","));
    let optional = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    for cell in cells {
        let at: Vec<String> = cell.at.iter().map(|(_, value)| value.to_string()).collect();
        out.push_str(&format!(
            "{},{},{:.4},{},{},{},{}\n",
            at.join(","),
            cell.tps.map_or_else(String::new, |tps| format!("{tps:.0}")),
            cell.us_core,
            optional(cell.tlp_frames),
            optional(cell.tlp_dag),
            cell.escapes,
            cell.oracle
        ));
    }
    out
}

fn curve(axis: &Axis, cells: &[Cell]) -> Picture {
    let points = cells.iter().filter_map(|cell| Some((cell.at[0].1, cell.tps?))).collect();
    let line = Line { label: axis.name.to_owned(), group: 0, points };
    let title = format!("Throughput by {}", axis.name);
    lines(&title, "transactions per second", axis.name, &["median of the runs".to_owned()], &[line])
}

/// A line per gamma.
fn by_alpha(cells: &[Cell]) -> Picture {
    let drawn: Vec<Line> = GAMMAS
        .iter()
        .enumerate()
        .map(|(group, gamma)| {
            let own = cells.iter().filter(|cell| cell.at[1].1 == *gamma as f64);
            let points = own.filter_map(|cell| Some((cell.at[0].1, cell.tps?))).collect();
            Line { label: format!("gamma {gamma}"), group, points }
        })
        .collect();
    let groups: Vec<String> =
        GAMMAS.iter().map(|gamma| format!("{} hot accounts", text::count(*gamma as f64))).collect();
    let x = "alpha: probability that the hot side of a transaction is hot";
    lines("Throughput by contention (FAFO, Figure 4)", "transactions per second", x, &groups, &drawn)
}

fn value(config: &RunConfig, swept: &Swept, judged: Option<&Judged>) -> Value {
    let Swept { cells, .. } = swept;
    let cell = |cell: &Cell| {
        let mut value = json!({
            "tps": cell.tps, "us_core_per_tx": cell.us_core, "tlp_frames": cell.tlp_frames, "tlp_dag": cell.tlp_dag,
            "escapes": cell.escapes, "oracle": cell.oracle, "detail": cell.detail, "tags": cell.tags,
        });
        cell.at.iter().for_each(|(name, at)| value[*name] = json!(at));
        value
    };
    let judged = judged.map(|judged| {
        json!({
            "flat": judged.flat, "cells_with_parallelism": judged.held.0, "parallelism": ENOUGH, "floor": FLAT,
            "worst": cell(&cells[judged.worst]), "best": cell(&cells[judged.best]),
        })
    });
    json!({
        "schema": SCHEMA, "tool": host::tool(), "host": host::host(config.store.path()),
        "config": config.resolved(config.threads.unwrap_or_else(host::cores)),
        "cells": cells.iter().map(cell).collect::<Vec<_>>(), "judged": judged, "tags": swept.tags(),
        "command": config.command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::LoadConfig, report::fixture};
    use phalanx::Executor;

    fn cell(alpha: f64, tps: f64, tlp: f64) -> Cell {
        let at = vec![("alpha", alpha), ("gamma", 100.0)];
        let (tps, oracle, detail) = (Some(tps), "match".to_owned(), String::new());
        Cell { at, tps, us_core: 1.0, tlp_frames: None, tlp_dag: Some(tlp), escapes: 0, oracle, detail, tags: vec![] }
    }

    /// Settings of a small sweep of so many rounds.
    fn small(runs: usize) -> RunConfig {
        RunConfig { load: LoadConfig { txs: 100, ..LoadConfig::default() }, runs, ..RunConfig::default() }
    }

    fn swept(cells: impl Into<Vec<Cell>>) -> Swept {
        Swept { cells: cells.into(), ending: Ending::Complete }
    }

    #[test]
    fn flatness_is_judged_where_the_workload_is_parallel() {
        let cells = swept([cell(0.0, 100.0, 5000.0), cell(0.5, 91.0, 200.0), cell(0.9, 20.0, 12.0)]);
        let judged = cells.judged().unwrap();
        assert_eq!((judged.flat, judged.held, judged.worst, judged.best), (true, (2, 3), 1, 0));
        let steep = swept([cell(0.0, 100.0, 5000.0), cell(0.5, 89.0, 200.0)]);
        let judged = steep.judged().unwrap();
        assert!(!judged.flat && table(&steep, Some(&judged)).contains("alpha 0.5, gamma 100"));
        let serial = swept([cell(0.0, 100.0, 1.0), cell(0.5, 50.0, 1.0)]);
        assert_eq!(serial.judged().unwrap().held, (0, 2));
        assert!(swept([]).judged().is_none());
    }

    #[test]
    fn rows_and_lines_have_every_cell() {
        let cells = [cell(0.0, 100.0, 5000.0), cell(0.5, 91.0, 200.0)];
        assert_eq!(csv(&cells).lines().count(), 3);
        assert!(csv(&cells).contains("0.5,100,91,1.0000,,200.000,0,match"), "{}", csv(&cells));
        assert_eq!(by_alpha(&cells).inline().matches("class=\"dot c0\"").count(), 2);
    }

    /// A sweep over three settings, the second of which is spoiled.
    fn broken(spoil: fn(&mut BenchResult)) -> Swept {
        let bench = small(1);
        let settings = [0.0, 0.5, 0.9].map(|alpha| (vec![("alpha", alpha), ("gamma", 100.0)], bench.clone()));
        let mut runs = 0;
        let mut run = |_: &RunConfig| -> anyhow::Result<BenchResult> {
            runs += 1;
            let mut result = fixture::bench("native", &[("dag", 2, 100.0)]);
            if runs == 2 {
                spoil(&mut result);
            }
            Ok(result)
        };
        let swept = measure(settings.into(), &mut run, &Ui::silent()).unwrap();
        assert_eq!((runs, swept.cells.len()), (2, 2), "it ends there");
        swept
    }

    #[test]
    fn a_cell_that_is_wrong_is_shown_and_nothing_is_judged() {
        let swept = broken(|result| fixture::spoil(&mut result.runs[0]));
        assert!(swept.ending == Ending::Wrong && swept.judged().is_none());
        let told = table(&swept, None);
        assert!(told.contains("mismatch: block 3, transaction 41") && !told.contains("flat"), "{told}");
        let value = value(&small(1), &swept, None);
        let wrong = &value["cells"][1];
        assert_eq!(
            (&wrong["tps"], &wrong["oracle"], &value["judged"]),
            (&Value::Null, &"mismatch".into(), &Value::Null)
        );
        assert!(wrong["detail"].as_str().is_some_and(|detail| detail.starts_with("block 3")), "{wrong}");
        assert!(csv(&swept.cells).lines().last().unwrap().starts_with("0.5,100,,"), "{}", csv(&swept.cells));
        assert_eq!(by_alpha(&swept.cells).inline().matches("class=\"dot c0\"").count(), 1);
    }

    #[test]
    fn a_sweep_that_was_stopped_is_tagged_and_nothing_is_judged() {
        let swept = broken(|result| result.tags.push("interrupted".into()));
        assert!(swept.ending == Ending::Interrupted && swept.judged().is_none());
        assert_eq!(value(&small(1), &swept, None)["tags"], json!(["interrupted"]));
        assert!(table(&swept, None).contains("(interrupted: alpha 0.5, gamma 100)"));
        let mut drifting = swept;
        drifting.cells[0].tags.push("not-steady".into());
        assert_eq!(drifting.tags(), ["interrupted", "not-steady"]);
    }

    /// A sweep of three rounds over three settings, and the setting of each run; the fourth run ends in another state if it
    /// `strays`.
    fn in_rounds(strays: bool) -> (Swept, Vec<f64>) {
        let settings = [0.0, 0.5, 0.9].map(|alpha| {
            let mut bench = small(3);
            bench.load.alpha = alpha;
            (vec![("alpha", alpha), ("gamma", 100.0)], bench)
        });
        let mut runs = Vec::new();
        let mut run = |bench: &RunConfig| -> anyhow::Result<BenchResult> {
            runs.push(bench.load.alpha);
            assert_eq!((bench.runs, bench.oracle == OracleKind::Off), (1, runs.len() > 3));
            let mut result = fixture::bench("native", &[("dag", 2, 100.0 * runs.len() as f64)]);
            if bench.oracle == OracleKind::Off {
                result.runs[0].integrity.oracle = "off".into();
            }
            if strays && runs.len() == 4 {
                result.runs[0].integrity.state_root = "0x5717".into();
            }
            Ok(result)
        };
        let swept = measure(settings.into(), &mut run, &Ui::silent()).unwrap();
        (swept, runs)
    }

    #[test]
    fn rounds_alternate_their_direction() {
        let (swept, runs) = in_rounds(false);
        assert_eq!(runs, [0.0, 0.5, 0.9, 0.9, 0.5, 0.0, 0.0, 0.5, 0.9]);
        let medians: Vec<_> = swept.cells.iter().map(|cell| (cell.tps, &*cell.oracle)).collect();
        assert_eq!(medians, [600.0, 500.0, 400.0].map(|tps| (Some(tps), "match")));
        assert_eq!(swept.ending, Ending::Complete);
    }

    #[test]
    fn a_later_round_with_another_root_is_wrong() {
        let (swept, runs) = in_rounds(true);
        assert_eq!((runs.len(), swept.cells.len(), swept.ending), (4, 3, Ending::Wrong));
        let wrong = &swept.cells[2];
        assert!(wrong.tps.is_none() && wrong.detail.starts_with("ends in 0x5717"), "{wrong:?}");
        assert!(swept.judged().is_none());
    }

    #[test]
    fn a_sweep_of_two_executors_is_refused() {
        let mut never = |_: &RunConfig| -> anyhow::Result<BenchResult> { panic!("no run") };
        let config = RunConfig { executors: vec![Executor::Dag, Executor::Sequential], ..RunConfig::default() };
        let refused = measure(vec![(vec![("alpha", 0.0)], config)], &mut never, &Ui::silent()).unwrap_err();
        assert!(refused.to_string().contains("one --executor"), "{refused}");
    }

    #[test]
    fn axes_are_settings_with_numbers() {
        let axis: Axis = "block_txs=100,2000".parse().unwrap();
        assert_eq!(axis, Axis { name: "block-txs", values: vec![100.0, 2000.0] });
        assert_eq!("--alpha=0,0.5".parse::<Axis>().unwrap().values, [0.0, 0.5]);
        for wrong in ["alpha", "alpha=", "alpha=x", "hasher=1", "txs=1.5", "txs=-1"] {
            assert!(wrong.parse::<Axis>().is_err(), "{wrong}");
        }
    }
}
