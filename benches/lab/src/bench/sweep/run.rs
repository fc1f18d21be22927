//! A sweep as it runs: every setting in rounds.

use super::{
    axis::Axis,
    cell::{ALPHAS, Cell, GAMMAS, Swept, place},
    show::{by_alpha, claim, csv, curve, table, value},
};
use crate::{
    bench::workload,
    config::{LoadConfig, OracleKind, RunConfig},
    error::{Interrupted, Usage},
    report::{Output, text},
    result::{BenchResult, Ending},
    ui::Ui,
};

/// Setting that a sweep varies.
#[derive(Clone, Debug)]
pub enum Over {
    /// A single setting.
    Axis(Axis),
    /// `alpha` by `gamma` (FAFO §3.2, Figure 4).
    Fafo4,
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
        claim: Some(claim(&swept, picture.title())),
        text: table(&swept, judged.as_ref()) + &text::prepared(config.pin, config.touch),
        csv: Some(csv(&swept.cells)),
        picture: Some(picture.warned(&swept.warnings())),
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
    let settings: Vec<Setting> = settings.collect();
    // All cells would be the same run.
    let flag = format!("--{}", axis.name);
    let idle = settings.iter().flat_map(|(_, bench)| bench.load.without_effect()).find(|(idle, _)| *idle == flag);
    if let Some((_, reason)) = idle {
        return Err(Usage(format!("--axis {} without effect: {reason}", axis.name)).into());
    }
    measure(settings, &mut |bench| workload::run(bench, ui), ui)
}

fn grid(config: &RunConfig, ui: &Ui) -> anyhow::Result<Swept> {
    let settings = ALPHAS.into_iter().flat_map(|alpha| GAMMAS.map(|gamma| (alpha, gamma))).map(|(alpha, gamma)| {
        let mut bench = config.clone();
        (bench.load.alpha, bench.load.gamma, bench.load.zipf) = (alpha, gamma, None);
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
            return Err(Usage("a sweep runs one --executor".into()).into());
        }
    }
    if let Some(idle) = LoadConfig::idle_in_all(settings.iter().map(|(_, bench)| &bench.load)) {
        ui.warn(&idle);
    }
    let rounds = settings.first().map_or(0, |(_, bench)| bench.runs);
    let (mut results, mut ending) = (Vec::<BenchResult>::with_capacity(settings.len()), Ending::Complete);
    'rounds: for round in 1..=rounds {
        let there = round % 2 == 1;
        for nth in 0..settings.len() {
            let index = if there { nth } else { settings.len() - 1 - nth };
            let (at, bench) = &settings[index];
            ui.say(&format!("{}, round {round} of {rounds}", place(at)));
            let result = match run(&once(bench, index, round)) {
                // The cells before are shown.
                Err(error) if error.is::<Interrupted>() && !results.is_empty() => {
                    ending = Ending::Interrupted;
                    break 'rounds;
                }
                result => result?,
            };
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
    let cells = settings.into_iter().zip(&results).map(|((at, _), result)| Cell::new(at, result)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::LoadConfig,
        report::{Claim, fixture},
    };
    use phalanx::Executor;
    use serde_json::{Value, json};

    fn cell(alpha: f64, tps: f64, tlp: f64) -> Cell {
        let at = vec![("alpha", alpha), ("gamma", 100.0)];
        let (tps, oracle, detail) = (Some(tps), "match".to_owned(), String::new());
        Cell {
            at,
            tps,
            tps_spread: None,
            us_core_per_tx: 1.0,
            tlp_frames: None,
            tlp_dag: Some(tlp),
            escapes: 0,
            oracle,
            detail,
            tags: vec![],
        }
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
        let warned = by_alpha(&drifting.cells).warned(&drifting.warnings()).inline();
        assert!(
            warned.contains("NOT-STEADY: alpha 0, gamma 100") && warned.contains("INTERRUPTED: alpha 0.5"),
            "{warned}"
        );
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
        // What the median hides is in every form of the output, and the page says how many runs there were.
        assert_eq!(swept.cells[1].tps_spread, Some([200.0, 800.0]));
        let told = table(&swept, None);
        assert!(told.contains("lowest") && told.lines().nth(2).unwrap().contains(" 200 "), "{told}");
        assert!(csv(&swept.cells).lines().nth(2).unwrap().ends_with(",match,200,800"), "{}", csv(&swept.cells));
        assert_eq!(value(&small(3), &swept, None)["cells"][1]["tps_spread"], json!([200.0, 800.0]));
        let axis = "alpha=0,0.5,0.9".parse().unwrap();
        let picture = curve(&axis, &swept.cells).inline();
        assert!(picture.contains("lowest run") && picture.contains("highest run"), "{picture}");
        let Claim { what, sure } = claim(&swept, "By alpha");
        assert_eq!(what, "By alpha: 400 to 600 transactions per second");
        assert!(sure.starts_with("Medians of several runs") && sure.contains("all equal"), "{sure}");
    }

    #[test]
    fn an_axis_without_effect_is_refused() {
        let axis = "pools=1,2".parse().unwrap();
        let refused = along(&small(1), &axis, &Ui::silent()).unwrap_err().to_string();
        assert_eq!(refused, "--axis pools without effect: only amm and mixed have pools");
    }

    #[test]
    fn a_claim_of_single_runs_says_so() {
        let swept = swept([cell(0.0, 100.0, 5000.0), Cell { oracle: "off".into(), ..cell(0.5, 91.0, 200.0) }]);
        let Claim { what, sure } = claim(&swept, "By alpha");
        assert_eq!(what, "By alpha: 91 to 100 transactions per second");
        assert!(sure.contains("--runs 5") && sure.contains("not compared"), "{sure}");
        assert!(!table(&swept, None).contains("lowest"));
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
}
