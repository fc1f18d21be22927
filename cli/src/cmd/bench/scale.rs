//! `bench scale`: a model of more cores than this machine has.

use super::run::RunArgs;
use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::Args;
use phalanx_lab::{
    config::heading,
    model::{self, Capacity},
};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    bench: RunArgs,
    #[command(flatten)]
    capacity: Capacity,
    /// Write the picture as SVG
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    svg: Option<PathBuf>,
}

impl ScaleArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        scale(&self.bench, &self.capacity, self.svg.as_deref())
    }
}

/// Models the load of `bench` and shows the curve.
pub(super) fn scale(bench: &RunArgs, capacity: &Capacity, svg: Option<&Path>) -> anyhow::Result<u8> {
    let (config, ui) = (bench.config(), ui::measuring());
    ui::warn_of_idle(config.idle(), &ui);
    let modelled = model::run(&config, capacity, &ui)?;
    output::show(&modelled, Files { svg, ..bench.files() })?;
    Ok(exit::OK)
}
