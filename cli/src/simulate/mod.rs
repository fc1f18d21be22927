//! `simulate zaptos`: how long clients wait for the pipeline, in virtual time. Two runs of one seed print the same bytes,
//! unless the real engine's work is measured.

mod figures;
mod real;
mod table;
#[cfg(test)]
mod tests;

use crate::{
    args::{Store, word},
    exit::{self, Usage},
    output,
    result::SCHEMA,
    ui::Ui,
};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use figures::Figure;
use phalanx_pipeline::Mode;
use phalanx_sim::{
    RTT_SOURCE, Topology,
    zaptos::{Experiment, ExperimentError, Report},
};
use real::Plant;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Which pipelines are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Modes {
    /// Stages one after the other (Algorithm 1)
    Baseline,
    /// As early as is safe (Algorithm 2)
    Optimistic,
    /// Both, on the same load
    Both,
}

/// Which engine nodes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineKind {
    /// A model whose work takes what the flags say
    Model,
    /// The real one, whose work takes what it takes here; with --ideal, what the flags say
    Real,
}

/// How the work of real engines is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClockKind {
    /// Time that passes, waiting for the disk included
    Wall,
    /// Processor time of this process, for machines that have other things to do
    Cpu,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ZaptosArgs {
    /// Validators
    #[arg(long, default_value_t = Experiment::paper().validators)]
    pub(crate) validators: u32,
    /// Fullnodes, where clients measure [default: 30, or one per validator (but the leader, if ideal) where there are fewer]
    #[arg(long)]
    pub(crate) fullnodes: Option<u32>,
    /// Distances: uniform:VV,CF,FV (validators, client to fullnode, fullnode to validator; ms one way) or aptos10
    #[arg(long, default_value_t = Topology::Aptos10)]
    pub(crate) topology: Topology,
    /// Transactions per second
    #[arg(long, default_value_t = Experiment::paper().tps)]
    pub(crate) tps: u64,
    /// Time between blocks, ms
    #[arg(long, default_value_t = Experiment::paper().block_us / 1000)]
    pub(crate) block_ms: u64,
    /// Transactions in a block at most
    #[arg(long, default_value_t = Experiment::paper().block_txs)]
    pub(crate) block_txs: u64,
    /// Execution of a transaction, µs
    #[arg(long, default_value_t = 45.0)]
    pub(crate) exec_us_per_tx: f64,
    /// State root, per transaction, µs; beside the next block's execution (not with --ideal)
    #[arg(long, default_value_t = 20.0)]
    pub(crate) root_us_per_tx: f64,
    /// Writing a block, ms
    #[arg(long, default_value_t = 13.0)]
    pub(crate) commit_ms: f64,
    /// Writing, per transaction, µs (not with --ideal)
    #[arg(long, default_value_t = 3.0)]
    pub(crate) commit_us_per_tx: f64,
    /// Validators that as leaders propose another block to everybody
    #[arg(long, default_value_t = 0)]
    pub(crate) equivocating: u32,
    /// Which pipelines
    #[arg(long, value_enum, default_value_t = Modes::Both)]
    pub(crate) mode: Modes,
    /// The assumptions of the paper's formulas: nothing queues, cryptography and marker flips are free
    #[arg(long)]
    pub(crate) ideal: bool,
    /// Which engine nodes run. The real one executes signed transfers in all nodes (at most 16 with fullnodes), one after the
    /// other in this process; the flags of costs then count with --ideal only
    #[arg(long, value_enum, default_value_t = EngineKind::Model)]
    pub(crate) engine: EngineKind,
    /// Where the real engines' states live: mem, file:DIR or rocks:DIR, an empty place, synced at every block [default: mem]
    #[arg(long, value_parser = Store::parse)]
    pub(crate) store: Option<Store>,
    /// How the real engines' work is measured (not with --ideal)
    #[arg(long, value_enum, default_value_t = ClockKind::Wall)]
    pub(crate) clock: ClockKind,
    /// Virtual seconds that are measured (not with --ideal)
    #[arg(long, default_value_t = 20)]
    pub(crate) seconds: u64,
    /// Seed
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Sweeps a figure of the paper instead, at its own validators, loads and costs; repeatable
    #[arg(long = "figure", value_enum)]
    pub(crate) figures: Vec<Figure>,
    /// Writes the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Folder for plots and a CSV of what they show
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

/// A point: an experiment and what it showed in each mode.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) label: String,
    pub(crate) experiment: Experiment,
    pub(crate) reports: Vec<Report>,
}

/// Runs the simulation and shows it.
pub(crate) fn run(args: &ZaptosArgs, ui: &Ui) -> anyhow::Result<u8> {
    let experiment = args.experiment()?;
    let modes = args.modes();
    let plant = args.plant(&experiment)?;
    if args.figures.is_empty() {
        let Some(point) = simulate(String::new(), experiment, modes, plant.as_ref(), ui)? else {
            return Ok(exit::INTERRUPTED);
        };
        show(args, &table::one(&point), &point_json(args, &point))?;
        return write_plots(
            args,
            &[("stages".into(), figures::breakdown(&point.label, core::slice::from_ref(&point)))],
            core::slice::from_ref(&point),
        );
    }
    let mut points = Vec::new();
    let mut plots = Vec::new();
    for figure in &args.figures {
        let mut swept = Vec::new();
        for (label, experiment) in figure.experiments(args.seed, args.seconds * 1_000_000) {
            let Some(point) = simulate(label, experiment, modes, None, ui)? else { return Ok(exit::INTERRUPTED) };
            swept.push(point);
        }
        plots.push((figure.file(), figure.plot(&swept)));
        points.extend(swept);
    }
    let swept: Vec<Value> = points.iter().map(|point| point_json(args, point)).collect();
    let value = json!({ "schema": SCHEMA, "seed": args.seed, "points": swept });
    show(args, &table::many(&points), &value)?;
    write_plots(args, &plots, &points)
}

/// Runs an experiment in all modes, unless the user has had enough.
fn simulate(
    label: String,
    experiment: Experiment,
    modes: &[Mode],
    plant: Option<&Plant>,
    ui: &Ui,
) -> anyhow::Result<Option<Point>> {
    let mut reports = Vec::new();
    for mode in modes {
        if ui.stopped() {
            return Ok(None);
        }
        ui.say(format!("simulating {label} {}", name(*mode)).replace("  ", " ").as_str());
        let report = match plant {
            None => experiment.run(*mode),
            Some(plant) => plant.run(&experiment, *mode),
        };
        let sep = if label.is_empty() { "" } else { ": " };
        reports.push(report.map_err(|error| match error {
            // Neither is the caller's fault.
            error @ (ExperimentError::Machine(_) | ExperimentError::Broken(_)) => anyhow::Error::from(error),
            error => Usage(format!("{label}{sep}{error}")).into(),
        })?);
    }
    Ok(Some(Point { label, experiment, reports }))
}

fn show(args: &ZaptosArgs, text: &str, value: &Value) -> anyhow::Result<()> {
    let stdout = Path::new("-");
    match &args.json {
        Some(path) if path == stdout => output::json(stdout, value),
        path => {
            output::print(text)?;
            path.as_ref().map_or(Ok(()), |path| output::json(path, value))
        }
    }
}

fn write_plots(
    args: &ZaptosArgs,
    plots: &[(String, crate::report::svg::Picture)],
    points: &[Point],
) -> anyhow::Result<u8> {
    if let Some(dir) = &args.report {
        std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        let files = plots.iter().map(|(name, plot)| (format!("{name}.svg"), plot.standalone()));
        for (name, content) in files.chain([("points.csv".to_owned(), table::csv(points))]) {
            let path = dir.join(name);
            std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(exit::OK)
}

/// The word for a mode.
pub(crate) const fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Baseline => "baseline",
        Mode::Optimistic => "optimistic",
    }
}

/// Microseconds as milliseconds.
pub(crate) fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

fn point_json(args: &ZaptosArgs, point: &Point) -> Value {
    let modes: Vec<Value> = point
        .reports
        .iter()
        .map(|report| {
            let stages: Map<String, Value> = report
                .stages
                .iter()
                .map(|stage| (stage.name.to_owned(), json!({ "wait": ms(stage.wait_us), "work": ms(stage.work_us) })))
                .collect();
            let q = report.latency;
            json!({
                "mode": name(report.mode), "tps": report.tps,
                "latency_ms": { "p25": ms(q.p25), "p50": ms(q.p50), "p75": ms(q.p75), "p99": ms(q.p99) },
                "consensus_ms": ms(report.consensus_us), "rest_ms": ms(report.rest_us),
                "stages_ms": stages, "shadowed_share": report.shadowed, "wasted_execution_share": report.wasted,
                "messages_per_block": report.messages_per_block,
                "formula_ms": point.experiment.ideal.then(|| ms(point.experiment.formula(report.mode, report.consensus_us))),
                "trace_hash": format!("0x{:016x}", report.trace),
            })
        })
        .collect();
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
    json!({
        "schema": SCHEMA, "config": config, "seed": point.experiment.seed,
        "trace_hash": format!("0x{traces:016x}"), "modes": modes,
    })
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

impl ZaptosArgs {
    const fn modes(&self) -> &'static [Mode] {
        match self.mode {
            Modes::Baseline => &[Mode::Baseline],
            Modes::Optimistic => &[Mode::Optimistic],
            Modes::Both => &[Mode::Baseline, Mode::Optimistic],
        }
    }

    fn store(&self) -> Store {
        self.store.clone().unwrap_or(Store::Mem)
    }

    /// What the real engines need, if they are asked for.
    fn plant(&self, experiment: &Experiment) -> Result<Option<Plant>, Usage> {
        match (self.engine, &self.store) {
            (EngineKind::Model, None) => Ok(None),
            (EngineKind::Model, Some(_)) => Err(Usage("--store needs --engine real: a model has no store".into())),
            (EngineKind::Real, _) if !self.figures.is_empty() => {
                Err(Usage("--figure needs --engine model: its points have a hundred validators".into()))
            }
            (EngineKind::Real, _) => Plant::new(self.store(), self.clock, experiment).map(Some),
        }
    }

    fn experiment(&self) -> Result<Experiment, Usage> {
        let others = self.validators.saturating_sub(u32::from(self.ideal));
        let times = |what: &'static str, value: u64, by: u64| {
            value.checked_mul(by).ok_or_else(|| Usage(format!("{what} is out of range")))
        };
        let experiment = Experiment {
            validators: self.validators,
            fullnodes: self.fullnodes.unwrap_or_else(|| others.min(30)),
            topology: self.topology,
            tps: self.tps,
            block_us: times("--block-ms", self.block_ms, 1000)?,
            block_txs: self.block_txs,
            execute_ns_per_tx: thousandths("--exec-us-per-tx", self.exec_us_per_tx)?,
            root_ns_per_tx: thousandths("--root-us-per-tx", self.root_us_per_tx)?,
            commit_us: thousandths("--commit-ms", self.commit_ms)?,
            commit_ns_per_tx: thousandths("--commit-us-per-tx", self.commit_us_per_tx)?,
            equivocating: self.equivocating,
            ideal: self.ideal,
            measured_us: times("--seconds", self.seconds, 1_000_000)?,
            seed: self.seed,
        };
        experiment.check().map_err(|error| Usage(error.to_string()))?;
        Ok(experiment)
    }
}

/// A flag's value in thousandths of its unit, at most 10^9 of them.
fn thousandths(flag: &str, value: f64) -> Result<u64, Usage> {
    let scaled = (value * 1000.0).round();
    if (0.0..=1e9).contains(&scaled) {
        Ok(scaled as u64)
    } else {
        Err(Usage(format!("{flag} must be between 0 and a million, not {value}")))
    }
}
