//! `bench store`: the state store alone.

use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::Args;
use phalanx_lab::{
    bench::store::{self, StoreBench},
    config::heading,
};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    config: StoreBench,
    /// Write the result as JSON, `-` for stdout. Times are of the measured blocks alone. `rss_peak_bytes` contains the
    /// benchmark's own `bench_bytes`, `dram_bytes_per_key` does not
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    json: Option<PathBuf>,
}

impl StoreArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let result = store::run(&self.config, &ui::measuring())?;
        output::show(&result, Files { json: self.json.as_deref(), ..Files::default() })?;
        Ok(exit::OK)
    }
}
