//! `simulate zaptos`: latency of the pipeline for clients, in virtual time. Two runs of one seed print the same bytes, unless
//! the real engine's work is measured.

#[cfg(test)]
mod tests;

use super::{
    args::{EngineKind, ZaptosArgs},
    claim::{Beside, agreement, gains, virtual_time},
    evaluation::print,
    figures, parallel,
    point::{Point, ms, name},
    real::Plant,
    table,
    written::{Latency, OfMode, Points, ZaptosPoint, trace},
};
use crate::{exit, flags::word, output};
use phalanx_lab::{
    doctor,
    error::Usage,
    report::{Gallery, svg::Picture},
    result::SCHEMA,
    ui::Ui,
    written::value,
};
use phalanx_pipeline::Mode;
use phalanx_sim::{
    RTT_SOURCE, Topology,
    zaptos::{Experiment, ExperimentError, Report},
};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Runs the simulation and shows it.
pub(super) fn run(args: &ZaptosArgs, ui: &Ui) -> anyhow::Result<u8> {
    let experiment = args.experiment()?;
    let modes = args.modes();
    let plant = plant(args, &experiment)?;
    if args.figures.is_empty() {
        let point = match plant {
            None => simulate(&[(String::new(), experiment)], modes, ui)?.remove(0),
            Some(plant) => with_engines(experiment, modes, &plant, ui)?,
        };
        let points = core::slice::from_ref(&point);
        let measured = args.engine == EngineKind::Real && !point.experiment.ideal;
        let text = table::one(&point) + &table::setting(points, measured);
        print(&text, || value(&point_json(args, &point)), args.json.as_deref())?;
        let picture = figures::breakdown(&point.label, "", points);
        return write_plots(args, &text, vec![("stages".into(), picture)], points, Vec::new());
    }
    let mut points = Vec::new();
    let (mut plots, mut compared) = (Vec::new(), Vec::new());
    for figure in &args.figures {
        let swept = simulate(&figure.experiments(args.seed, args.seconds * 1_000_000), modes, ui)?;
        plots.push((figure.file(), figure.plot(&swept)));
        compared.extend(figure.beside(&swept));
        points.extend(swept);
    }
    let swept = points.iter().map(|point| point_json(args, point)).collect();
    let points_json = Points { schema: SCHEMA, seed: args.seed, points: swept };
    let text = table::many(&points) + &table::setting(&points, false);
    print(&text, || value(&points_json), args.json.as_deref())?;
    write_plots(args, &text, plots, &points, compared)
}

/// Runs experiments in all modes, side by side.
fn simulate(experiments: &[(String, Experiment)], modes: &[Mode], ui: &Ui) -> anyhow::Result<Vec<Point>> {
    let runs: Vec<_> = experiments.iter().flat_map(|of| modes.iter().map(move |mode| (of, *mode))).collect();
    let title =
        |((label, _), mode): &(&(String, Experiment), Mode)| format!("{label} {}", name(*mode)).trim().to_owned();
    let mut reports = parallel::all(ui, &runs, title, |((label, experiment), mode)| {
        experiment.run(*mode).map_err(|error| refused(label, error))
    })?
    .into_iter();
    let point = |(label, experiment): &(String, Experiment)| Point {
        label: label.clone(),
        experiment: experiment.clone(),
        reports: reports.by_ref().take(modes.len()).collect(),
    };
    Ok(experiments.iter().map(point).collect())
}

/// Runs an experiment on real engines in all modes, in turns: their work is measured.
fn with_engines(experiment: Experiment, modes: &[Mode], plant: &Plant, ui: &Ui) -> anyhow::Result<Point> {
    let mut reports = Vec::new();
    for mode in modes {
        ui.say(&format!("running {}", name(*mode)));
        reports.push(plant.run(&experiment, *mode).map_err(|error| refused("", error))?);
    }
    Ok(Point { label: String::new(), experiment, reports })
}

/// Error of an experiment, by its kind.
fn refused(label: &str, error: ExperimentError) -> anyhow::Error {
    let sep = if label.is_empty() { "" } else { ": " };
    match error {
        // Neither is a usage error.
        error @ (ExperimentError::Machine(_) | ExperimentError::Broken(_)) => error.into(),
        error => Usage(format!("{label}{sep}{error}")).into(),
    }
}

fn write_plots(
    args: &ZaptosArgs,
    table: &str,
    pictures: Vec<(String, Picture)>,
    points: &[Point],
    compared: Vec<Beside>,
) -> anyhow::Result<u8> {
    if let Some(dir) = &args.report {
        let rows = Some(("points.csv", table::csv(points)));
        let command = output::command();
        let mut claim = virtual_time(&gains(points), &pictures);
        let mut doubts = Vec::new();
        if !compared.is_empty() {
            let (agrees, outside) = agreement("Medians within 10 %", compared);
            claim.sure = format!("{} {agrees}; costs are fitted to its baseline.", claim.sure);
            doubts = outside;
        }
        if args.engine == EngineKind::Real {
            claim.sure = "Consensus in virtual time; blocks are executed on this machine, and their times vary.".into();
            doubts = doctor::spoils();
        }
        let gallery = Gallery {
            title: "Zaptos's pipeline, simulated",
            claim: Some(claim),
            doubts,
            table,
            pictures,
            rows,
            command: &command,
        };
        output::gallery(dir, &gallery, args.json.as_deref() == Some(Path::new("-")))?;
    }
    Ok(exit::OK)
}

fn point_json(args: &ZaptosArgs, point: &Point) -> ZaptosPoint {
    let mode = |report: &Report| OfMode {
        mode: name(report.mode),
        tps: report.tps,
        latency_ms: Latency {
            p25: ms(report.latency.p25),
            p50: ms(report.latency.p50),
            p75: ms(report.latency.p75),
            p99: ms(report.latency.p99),
        },
        consensus_ms: ms(report.consensus_us),
        rest_ms: ms(report.rest_us),
        stages_ms: report.stages.iter().map(|stage| (stage.name.to_owned(), stage.into())).collect(),
        shadowed_share: report.shadowed,
        wasted_execution_share: report.wasted,
        messages_per_block: report.messages_per_block,
        formula_ms: (point.experiment.ideal).then(|| ms(point.experiment.formula(report.mode, report.consensus_us))),
        trace_hash: trace(report.trace),
    };
    let traces = point.reports.iter().fold(0u64, |all, report| all.rotate_left(1) ^ report.trace);
    let mut config = resolved(&point.experiment);
    config.insert("mode".into(), json!(word(args.mode)));
    config.insert("engine".into(), json!(word(args.engine)));
    if args.engine == EngineKind::Real {
        let measured = !point.experiment.ideal;
        config.insert("store".into(), json!(args.store().to_string()));
        config.insert("costs".into(), json!(if measured { "measured" } else { "given" }));
        config.insert("clock".into(), if measured { json!(word(args.clock)) } else { Value::Null });
        if measured {
            for flag in ["exec_us_per_tx", "root_us_per_tx", "commit_ms", "commit_us_per_tx"] {
                config.insert(flag.into(), Value::Null);
            }
        }
    }
    if !point.label.is_empty() {
        config.insert("label".into(), json!(point.label));
    }
    let (seed, trace_hash) = (point.experiment.seed, trace(traces));
    let modes = point.reports.iter().map(mode).collect();
    ZaptosPoint { schema: SCHEMA, config, seed, trace_hash, modes }
}

/// Every flag as resolved.
fn resolved(experiment: &Experiment) -> Map<String, Value> {
    let Experiment { validators, fullnodes, topology, tps, block_us, block_txs, .. } = experiment;
    let source = (*topology == Topology::Aptos10).then_some(RTT_SOURCE);
    let value = json!({
        "validators": validators, "fullnodes": fullnodes, "topology": topology.to_string(), "topology_source": source,
        "tps": tps, "block_ms": ms(*block_us), "block_txs": block_txs,
        "exec_us_per_tx": ms(experiment.execute_ns_per_tx), "root_us_per_tx": ms(experiment.root_ns_per_tx),
        "commit_ms": ms(experiment.commit_us), "commit_us_per_tx": ms(experiment.commit_ns_per_tx),
        "equivocating": experiment.equivocating, "ideal": experiment.ideal,
        "seconds": experiment.measured_us / 1_000_000,
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Real engines of the experiment, if the flags select them.
fn plant(args: &ZaptosArgs, experiment: &Experiment) -> Result<Option<Plant>, Usage> {
    match (args.engine, &args.store) {
        (EngineKind::Model, None) => Ok(None),
        (EngineKind::Model, Some(_)) => Err(Usage("--store needs --engine real: a model has no store".into())),
        (EngineKind::Real, _) if !args.figures.is_empty() => {
            Err(Usage("--figure needs --engine model: its points have a hundred validators".into()))
        }
        (EngineKind::Real, _) => Plant::new(args.store(), args.clock, experiment).map(Some),
    }
}
