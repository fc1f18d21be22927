//! Flags of `bench sweep` and `bench scale`.

use super::BenchArgs;
use crate::exit::Usage;
use clap::{Args, ValueEnum};
use std::{path::PathBuf, str::FromStr};

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
    #[command(flatten)]
    pub(crate) capacity: CapacityArgs,
    /// A figure of FAFO's: fafo-3 is throughput by cores, real ones and the model's, as in bench scale; fafo-4 is --alpha by
    /// --gamma
    #[arg(long, value_enum, required_unless_present = "axis", conflicts_with = "axis")]
    pub(crate) figure: Option<SweepFigure>,
    /// Any flag of `bench run` that takes a number, and its values
    #[arg(long, value_name = "NAME=a,b,c")]
    pub(crate) axis: Option<Axis>,
    /// Writes the picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
    #[command(flatten)]
    pub(crate) capacity: CapacityArgs,
    /// Writes the picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// What the modelled machine has besides cores.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CapacityArgs {
    /// Main memory's bandwidth of the modelled machine, in GB/s
    #[arg(long, default_value_t = 200.0)]
    pub(crate) memory_gbs: f64,
    /// Bytes that a transaction moves from and to main memory [default: 1200 and 900 for each of its keys, an estimate]
    #[arg(long)]
    pub(crate) tx_memory_bytes: Option<f64>,
    /// The disk's bandwidth of the modelled machine, in GB/s
    #[arg(long, default_value_t = 3.0)]
    pub(crate) disk_gbs: f64,
    /// Bytes that a transaction writes to disk [default: as measured with this --store]
    #[arg(long)]
    pub(crate) tx_disk_bytes: Option<f64>,
}

/// A figure of FAFO's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SweepFigure {
    #[value(name = "fafo-3")]
    Fafo3,
    #[value(name = "fafo-4")]
    Fafo4,
}

/// A flag and its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) values: Vec<f64>,
}

/// Flags that a sweep may turn.
pub(crate) const AXES: [&str; 7] = ["accounts", "alpha", "block-txs", "gamma", "seed", "threads", "txs"];

impl FromStr for Axis {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (name, values) = word.split_once('=').ok_or("expected NAME=a,b,c")?;
        let values: Result<Vec<f64>, _> = values.split(',').map(|value| value.trim().parse::<f64>()).collect();
        let values = values.map_err(|error| error.to_string())?;
        let name = name.trim_start_matches("--").replace('_', "-");
        if !AXES.contains(&name.as_str()) {
            return Err(format!("{name} is none of {}", AXES.join(", ")));
        }
        let whole = |value: &f64| name == "alpha" || (*value >= 0.0 && value.fract() == 0.0 && *value <= 2f64.powi(53));
        if !values.iter().all(whole) {
            return Err(format!("{name} takes whole numbers"));
        }
        Ok(Self { name, values })
    }
}

impl Axis {
    /// The same benchmark with this flag at `value`.
    pub(crate) fn set(&self, args: &mut BenchArgs, value: f64) {
        let whole = value as u64;
        match self.name.as_str() {
            "accounts" => args.load.accounts = whole,
            "alpha" => args.load.alpha = value,
            "block-txs" => args.load.block_txs = whole as usize,
            "gamma" => args.load.gamma = whole,
            "seed" => args.load.seed = whole,
            "threads" => args.threads = Some(whole as usize),
            _ => args.load.txs = whole,
        }
    }
}

impl CapacityArgs {
    /// Refuses what no machine has.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        let capacities = [("--memory-gbs", self.memory_gbs), ("--disk-gbs", self.disk_gbs)];
        for (name, value) in capacities {
            if !(value.is_finite() && value > 0.0) {
                return Err(Usage(format!("{name} must be above zero, not {value}")));
            }
        }
        for (name, value) in [("--tx-memory-bytes", self.tx_memory_bytes), ("--tx-disk-bytes", self.tx_disk_bytes)] {
            if value.is_some_and(|value| !(value.is_finite() && value >= 0.0)) {
                return Err(Usage(format!("{name} must be at least zero")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_flags_with_numbers() {
        let axis: Axis = "block_txs=100,2000".parse().unwrap();
        assert_eq!(axis, Axis { name: "block-txs".into(), values: vec![100.0, 2000.0] });
        assert_eq!("--alpha=0,0.5".parse::<Axis>().unwrap().values, [0.0, 0.5]);
        for wrong in ["alpha", "alpha=", "alpha=x", "hasher=1", "txs=1.5", "txs=-1"] {
            assert!(wrong.parse::<Axis>().is_err(), "{wrong}");
        }
    }
}
