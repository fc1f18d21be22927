//! `bench run`: one workload through the whole engine.

use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::Args;
use phalanx_lab::{
    bench::workload,
    config::{Pace, RunConfig, heading},
};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    config: RunConfig,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    pub(crate) json: Option<PathBuf>,
    /// Write a CSV file with a row per run
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    pub(crate) csv: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    pub(crate) report: Option<PathBuf>,
}

/// `bench run`: the flags of a run, and those that no other command has.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunCommand {
    #[command(flatten)]
    args: RunArgs,
    #[command(flatten)]
    pace: Pace,
    /// Write a timeline of stages and workers in Chrome's trace format, for ui.perfetto.dev. It costs time inside the timer
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    trace: Option<PathBuf>,
}

impl RunCommand {
    /// The run's load and engine, without its pace.
    pub(crate) fn config(&self) -> RunConfig {
        self.args.config()
    }

    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let ui = ui::measuring();
        let RunArgs { config, json, csv, report } = &self.args;
        ui::warn_of_idle(config.idle(), &ui);
        let config = RunConfig { pace: self.pace.clone(), trace: self.trace.clone(), ..self.args.config() };
        let result = [workload::run(&config, &ui)?];
        output::results(&result, json.as_deref(), &result[0], csv.as_deref(), report.as_deref())?;
        Ok(exit::code_of_results(&result))
    }
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
}
