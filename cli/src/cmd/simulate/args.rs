//! Flags of `simulate zaptos`.

use super::figures::Figure;
use clap::{Args, ValueEnum};
use phalanx_lab::{config::Store, error::Usage};
use phalanx_pipeline::Mode;
use phalanx_sim::{Topology, zaptos::Experiment};
use std::path::PathBuf;

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
