//! `bench scale`: a model of more cores than this machine has.

use super::run::RunArgs;
use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::Args;
use phalanx_lab::{
    error::Usage,
    model::{self, Capacity},
};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    bench: RunArgs,
    #[command(flatten)]
    capacity: CapacityArgs,
    /// Write the picture as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Capacities of the modelled machine besides its cores.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct CapacityArgs {
    /// Memory bandwidth of the modelled machine, in GB/s
    #[arg(long, default_value_t = 200.0)]
    memory_gbs: f64,
    /// Memory traffic of a transaction, in bytes [default: 1200 and 900 for each of its keys, an estimate]
    #[arg(long)]
    tx_memory_bytes: Option<f64>,
    /// Disk bandwidth of the modelled machine, in GB/s
    #[arg(long, default_value_t = 3.0)]
    disk_gbs: f64,
    /// Disk traffic of a transaction, in bytes [default: as measured with this --store]
    #[arg(long)]
    tx_disk_bytes: Option<f64>,
}

impl ScaleArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        scale(&self.bench, &self.capacity, self.svg.as_deref())
    }
}

/// Models the load of `bench` and shows the curve.
pub(super) fn scale(bench: &RunArgs, capacity: &CapacityArgs, svg: Option<&Path>) -> anyhow::Result<u8> {
    if bench.report.is_some() {
        return Err(Usage("the model writes --json, --csv and --svg, and no --report".into()).into());
    }
    let CapacityArgs { memory_gbs, tx_memory_bytes, disk_gbs, tx_disk_bytes } = *capacity;
    let capacity = Capacity { memory_gbs, tx_memory_bytes, disk_gbs, tx_disk_bytes };
    let modelled = model::run(&bench.config(), &capacity, &ui::open()?)?;
    output::show(&modelled, Files { json: bench.json.as_deref(), csv: bench.csv.as_deref(), svg })?;
    Ok(exit::OK)
}
