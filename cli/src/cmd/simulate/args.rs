//! Flags of `simulate zaptos`.

use super::figures::Figure;
use clap::{Args, ValueEnum};
use phalanx_lab::{
    config::{Store, heading},
    error::Usage,
};
use phalanx_pipeline::Mode;
use phalanx_sim::{Topology, zaptos::Experiment};
use std::path::PathBuf;

/// Simulated pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Modes {
    /// Stages one after the other (Algorithm 1)
    Baseline,
    /// As early as is safe (Algorithm 2)
    Optimistic,
    /// Both, on the same load
    Both,
}

/// Engine of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineKind {
    /// A model, with the costs of the flags
    Model,
    /// The real engine, with measured costs; with --ideal, the costs of the flags
    Real,
}

/// Clock that measures the work of real engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClockKind {
    /// Wall time, waiting for the disk included
    Wall,
    /// Processor time of this process, for busy machines
    Cpu,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CostArgs {
    /// Execution time of a transaction, in µs
    #[arg(long, default_value_t = 45.0, help_heading = heading::ENGINE)]
    pub(crate) exec_us_per_tx: f64,
    /// Root time per transaction, in µs, beside the next block's execution (not with --ideal)
    #[arg(long, default_value_t = 20.0, help_heading = heading::ENGINE)]
    pub(crate) root_us_per_tx: f64,
    /// Write time of a block, in ms
    #[arg(long, default_value_t = 13.0, help_heading = heading::ENGINE)]
    pub(crate) commit_ms: f64,
    /// Write time per transaction, in µs (not with --ideal)
    #[arg(long, default_value_t = 3.0, help_heading = heading::ENGINE)]
    pub(crate) commit_us_per_tx: f64,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ZaptosArgs {
    /// Number of validators
    #[arg(long, default_value_t = Experiment::paper().validators, help_heading = heading::NETWORK)]
    pub(crate) validators: u32,
    /// Number of fullnodes, where clients measure [default: 30, or one per validator (but the leader, if ideal) where there are fewer]
    #[arg(long, help_heading = heading::NETWORK)]
    pub(crate) fullnodes: Option<u32>,
    /// Distances: uniform:VV,CF,FV (validators, client to fullnode, fullnode to validator; ms one way) or aptos10
    #[arg(long, default_value_t = Topology::Aptos10, help_heading = heading::NETWORK)]
    pub(crate) topology: Topology,
    /// Transactions per second
    #[arg(long, default_value_t = Experiment::paper().tps, help_heading = heading::LOAD)]
    pub(crate) tps: u64,
    /// Time between blocks, in ms
    #[arg(long, default_value_t = Experiment::paper().block_us / 1000, help_heading = heading::LOAD)]
    pub(crate) block_ms: u64,
    /// Maximum number of transactions of a block
    #[arg(long, default_value_t = Experiment::paper().block_txs, help_heading = heading::LOAD)]
    pub(crate) block_txs: u64,
    #[command(flatten)]
    pub(crate) costs: CostArgs,
    /// Number of validators that equivocate as leaders
    #[arg(long, default_value_t = 0, help_heading = heading::NETWORK)]
    pub(crate) equivocating: u32,
    /// Pipelines to simulate
    #[arg(long, value_enum, default_value_t = Modes::Both, help_heading = heading::ENGINE)]
    pub(crate) mode: Modes,
    /// Assume what the paper's formulas assume: no queues, free cryptography and marker flips
    #[arg(long, help_heading = heading::ENGINE)]
    pub(crate) ideal: bool,
    /// Engine of the nodes. The real one executes signed transfers in all nodes (at most 16 with fullnodes), in sequence in this
    /// process; cost flags then apply with --ideal only
    #[arg(long, value_enum, default_value_t = EngineKind::Model, help_heading = heading::ENGINE)]
    pub(crate) engine: EngineKind,
    /// Place of the real engines' states: mem, file:DIR or rocks:DIR, a new or empty folder, synced at every block [default: mem]
    #[arg(long, value_parser = Store::parse, help_heading = heading::ENGINE)]
    pub(crate) store: Option<Store>,
    /// Clock that measures the real engines' work (not with --ideal)
    #[arg(long, value_enum, default_value_t = ClockKind::Wall, help_heading = heading::ENGINE)]
    pub(crate) clock: ClockKind,
    /// Measured time, in virtual seconds (not with --ideal)
    #[arg(long, default_value_t = 20, help_heading = heading::MEASURE)]
    pub(crate) seconds: u64,
    /// Seed of the simulation
    #[arg(long, default_value_t = 1, help_heading = heading::MEASURE)]
    pub(crate) seed: u64,
    /// Sweep a figure of the paper, at its own validators, loads and costs; repeatable
    #[arg(long = "figure", value_enum, help_heading = heading::LOAD)]
    pub(crate) figures: Vec<Figure>,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    pub(crate) json: Option<PathBuf>,
    /// Folder for plots and a CSV file of their points
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    pub(crate) report: Option<PathBuf>,
}

impl ZaptosArgs {
    pub(super) const fn modes(&self) -> &'static [Mode] {
        match self.mode {
            Modes::Baseline => &[Mode::Baseline],
            Modes::Optimistic => &[Mode::Optimistic],
            Modes::Both => &[Mode::Baseline, Mode::Optimistic],
        }
    }

    pub(super) fn store(&self) -> Store {
        self.store.clone().unwrap_or(Store::Mem)
    }

    pub(super) fn experiment(&self) -> Result<Experiment, Usage> {
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
            execute_ns_per_tx: thousandths("--exec-us-per-tx", self.costs.exec_us_per_tx)?,
            root_ns_per_tx: thousandths("--root-us-per-tx", self.costs.root_us_per_tx)?,
            commit_us: thousandths("--commit-ms", self.costs.commit_ms)?,
            commit_ns_per_tx: thousandths("--commit-us-per-tx", self.costs.commit_us_per_tx)?,
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
