//! `bench sweep`: one benchmark over a range of settings.

use crate::{
    args::{Axis, BenchArgs, SweepArgs, SweepFigure},
    bench, exit, host,
    output::{self, command},
    report::{
        svg::{Line, Picture, lines},
        text,
    },
    result::{BenchResult, SCHEMA},
    scale,
    ui::Ui,
};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// FAFO's grid (§5, Figure 4).
const ALPHAS: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 0.99];
const GAMMAS: [u64; 3] = [100, 1_000, 10_000];

/// Throughput is flat if no cell that has the parallelism is further than this below the best.
const FLAT: f64 = 0.1;
/// The parallelism that the paper's Figure 4 asks for: transactions ÷ critical path.
const ENOUGH: f64 = 130.0;

/// A setting and what came of it.
struct Cell {
    /// Name and value of each setting.
    at: Vec<(&'static str, f64)>,
    tps: f64,
    us_core: f64,
    tlp_frames: Option<f64>,
    tlp_dag: Option<f64>,
    escapes: u64,
    oracle: String,
}

/// Runs the sweep and shows it.
pub(crate) fn run(args: &SweepArgs, ui: &Ui) -> anyhow::Result<u8> {
    let bench = &args.bench;
    let (cells, picture, judged, code) = match (&args.figure, &args.axis) {
        (Some(SweepFigure::Fafo3), _) => {
            let scaled = scale::measure(bench, &args.capacity, ui)?;
            return scale::show(bench, &args.capacity, &scaled, args.svg.as_deref());
        }
        (_, Some(axis)) => {
            let (cells, code) = along(bench, axis, ui)?;
            let picture = curve(axis, &cells);
            (cells, picture, None, code)
        }
        (..) => {
            let (cells, code) = grid(bench, ui)?;
            let (picture, judged) = (by_alpha(&cells), judge(&cells));
            (cells, picture, judged, code)
        }
    };
    if let Some(path) = &bench.json {
        output::json(path, &value(bench, &cells, judged.as_ref()))?;
    }
    if bench.json.as_deref() != Some(Path::new("-")) {
        output::print(&table(&cells, judged.as_ref()))?;
    }
    let files = [(&bench.csv, csv(&cells)), (&args.svg, picture.standalone())];
    for (path, content) in files {
        if let Some(path) = path {
            fs::write(path, content).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(code)
}

fn along(args: &BenchArgs, axis: &Axis, ui: &Ui) -> anyhow::Result<(Vec<Cell>, u8)> {
    let name: &'static str = crate::args::AXES.iter().find(|name| **name == axis.name).copied().unwrap_or_default();
    let settings = axis.values.iter().map(|value| {
        let mut bench = args.clone();
        axis.set(&mut bench, *value);
        (vec![(name, *value)], bench)
    });
    measure(settings.collect(), ui)
}

fn grid(args: &BenchArgs, ui: &Ui) -> anyhow::Result<(Vec<Cell>, u8)> {
    let settings = ALPHAS.into_iter().flat_map(|alpha| GAMMAS.map(|gamma| (alpha, gamma))).map(|(alpha, gamma)| {
        let mut bench = args.clone();
        (bench.load.alpha, bench.load.gamma) = (alpha, gamma);
        (vec![("alpha", alpha), ("gamma", gamma as f64)], bench)
    });
    measure(settings.collect(), ui)
}

/// A run per setting, the medians of its repetitions. The store has a folder for each.
fn measure(settings: Vec<(Vec<(&'static str, f64)>, BenchArgs)>, ui: &Ui) -> anyhow::Result<(Vec<Cell>, u8)> {
    for (_, bench) in &settings {
        bench.check()?;
    }
    let mut cells = Vec::new();
    for (index, (at, mut bench)) in settings.into_iter().enumerate() {
        if let Some(path) = bench.store.path() {
            bench.store = bench.store.at(path.join(format!("cell-{}", index + 1)));
        }
        let told: Vec<String> = at.iter().map(|(name, value)| format!("{name} {value}")).collect();
        ui.say(&told.join(", "));
        let result = [bench::run(&bench, ui)?];
        let code = bench::code(&result);
        if code != exit::OK {
            return Ok((cells, code));
        }
        cells.push(cell(at, &result[0]));
    }
    Ok((cells, exit::OK))
}

fn cell(at: Vec<(&'static str, f64)>, result: &BenchResult) -> Cell {
    let rows = crate::report::rows(core::slice::from_ref(result));
    let row = &rows[0];
    Cell {
        at,
        tps: row.tps().unwrap_or(0.0),
        us_core: row.us_core(),
        tlp_frames: row.tlp_frames(),
        tlp_dag: row.tlp_dag(),
        escapes: row.runs.iter().map(|run| run.parallelism.escapes).max().unwrap_or(0),
        oracle: row.oracle().to_owned(),
    }
}

/// Is throughput flat where the workload holds the parallelism?
struct Judged {
    flat: bool,
    /// Cells with the parallelism, and all.
    held: (usize, usize),
    worst: usize,
    best: usize,
}

/// Of the cells whose parallelism is enough; of all, if none is.
fn judge(cells: &[Cell]) -> Option<Judged> {
    let holds = |cell: &Cell| cell.tlp_dag.is_some_and(|tlp| tlp >= ENOUGH);
    let held = cells.iter().filter(|cell| holds(cell)).count();
    let counted = |index: &usize| held == 0 || holds(&cells[*index]);
    let by_tps = |a: &usize, b: &usize| cells[*a].tps.total_cmp(&cells[*b].tps);
    let worst = (0..cells.len()).filter(counted).min_by(by_tps)?;
    let best = (0..cells.len()).filter(counted).max_by(by_tps)?;
    Some(Judged { flat: cells[worst].tps >= (1.0 - FLAT) * cells[best].tps, held: (held, cells.len()), worst, best })
}

fn place(cell: &Cell) -> String {
    cell.at.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

fn table(cells: &[Cell], judged: Option<&Judged>) -> String {
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
            text::count(cell.tps),
            text::figure(cell.us_core),
            text::optional(cell.tlp_frames),
            text::optional(cell.tlp_dag),
            cell.escapes,
            cell.oracle
        ));
    }
    if let Some(Judged { flat, held: (held, all), worst, best }) = judged {
        let (worst, best) = (&cells[*worst], &cells[*best]);
        let below = (1.0 - worst.tps / best.tps) * 100.0;
        out.push_str(&format!(
            "\nThe DAG's parallelism is at least {ENOUGH} in {held} of {all} cells. Of {}, the worst ({}) reaches {} TPS, {below:.0} % \
             below the best ({}). {}\n",
            if *held == 0 { "all" } else { "those" },
            place(worst),
            text::count(worst.tps),
            place(best),
            if *flat { "Throughput is flat within 10 %." } else { "Throughput is NOT flat within 10 %." }
        ));
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
            "{},{:.0},{:.4},{},{},{},{}\n",
            at.join(","),
            cell.tps,
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
    let points = axis.values.iter().copied().zip(cells.iter().map(|cell| cell.tps)).collect();
    let line = Line { label: axis.name.clone(), group: 0, points };
    let title = format!("Throughput by {}", axis.name);
    lines(&title, "transactions per second", &axis.name, &["median of the runs".to_owned()], &[line])
}

/// A line per gamma.
fn by_alpha(cells: &[Cell]) -> Picture {
    let drawn: Vec<Line> = GAMMAS
        .iter()
        .enumerate()
        .map(|(group, gamma)| {
            let own = cells.iter().filter(|cell| cell.at[1].1 == *gamma as f64);
            let points = own.map(|cell| (cell.at[0].1, cell.tps)).collect();
            Line { label: format!("gamma {gamma}"), group, points }
        })
        .collect();
    let groups: Vec<String> =
        GAMMAS.iter().map(|gamma| format!("{} hot accounts", text::count(*gamma as f64))).collect();
    let x = "alpha: probability that the hot side of a transaction is hot";
    lines("Throughput by contention (FAFO, Figure 4)", "transactions per second", x, &groups, &drawn)
}

fn value(args: &BenchArgs, cells: &[Cell], judged: Option<&Judged>) -> Value {
    let cell = |cell: &Cell| {
        let mut value = json!({
            "tps": cell.tps, "us_core_per_tx": cell.us_core, "tlp_frames": cell.tlp_frames, "tlp_dag": cell.tlp_dag,
            "escapes": cell.escapes, "oracle": cell.oracle,
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
        "schema": SCHEMA, "tool": host::tool(), "host": host::host(args.store.path()),
        "config": args.resolved(args.threads.unwrap_or_else(host::cores)),
        "cells": cells.iter().map(cell).collect::<Vec<_>>(), "judged": judged, "command": command(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(alpha: f64, tps: f64, tlp: f64) -> Cell {
        let at = vec![("alpha", alpha), ("gamma", 100.0)];
        let oracle = "match".to_owned();
        Cell { at, tps, us_core: 1.0, tlp_frames: None, tlp_dag: Some(tlp), escapes: 0, oracle }
    }

    #[test]
    fn flatness_is_judged_where_the_workload_is_parallel() {
        let cells = [cell(0.0, 100.0, 5000.0), cell(0.5, 91.0, 200.0), cell(0.9, 20.0, 12.0)];
        let judged = judge(&cells).unwrap();
        assert_eq!((judged.flat, judged.held, judged.worst, judged.best), (true, (2, 3), 1, 0));
        let steep = [cell(0.0, 100.0, 5000.0), cell(0.5, 89.0, 200.0)];
        assert!(!judge(&steep).unwrap().flat && table(&steep, judge(&steep).as_ref()).contains("alpha 0.5, gamma 100"));
        let serial = [cell(0.0, 100.0, 1.0), cell(0.5, 50.0, 1.0)];
        assert_eq!(judge(&serial).unwrap().held, (0, 2));
        assert!(judge(&[]).is_none());
    }

    #[test]
    fn rows_and_lines_have_every_cell() {
        let cells = [cell(0.0, 100.0, 5000.0), cell(0.5, 91.0, 200.0)];
        assert_eq!(csv(&cells).lines().count(), 3);
        assert!(csv(&cells).contains("0.5,100,91,1.0000,,200.000,0,match"), "{}", csv(&cells));
        assert_eq!(by_alpha(&cells).inline().matches("class=\"dot c0\"").count(), 2);
    }
}
