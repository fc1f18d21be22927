//! `bench run`: one workload through the whole engine.

use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::Args;
use phalanx_lab::{bench::workload, config::RunConfig};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    config: RunConfig,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a CSV file with a row per run
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

impl RunArgs {
    /// The run that these flags describe.
    pub(crate) fn config(&self) -> RunConfig {
        RunConfig { command: output::command(), ..self.config.clone() }
    }

    /// Files that the flags name.
    pub(super) fn files(&self) -> Files<'_> {
        let (json, csv, report) = (self.json.as_deref(), self.csv.as_deref(), self.report.as_deref());
        Files { json, csv, svg: None, report }
    }

    /// True if the flags name a file for the result.
    pub(crate) const fn has_output(&self) -> bool {
        self.json.is_some() || self.csv.is_some() || self.report.is_some()
    }

    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let ui = ui::open();
        ui::warn_of_idle(&self.config.load, &ui);
        let result = [workload::run(&self.config(), &ui)?];
        output::results(&result, self.json.as_deref(), &result[0], self.csv.as_deref(), self.report.as_deref())?;
        Ok(exit::code_of_results(&result))
    }
}
