//! `bench schedule`: framing and DAG alone, without execution.

use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::{Args, ValueEnum};
use phalanx_lab::{
    bench::schedule::{self, ScheduleConfig},
    config::heading,
};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    #[command(flatten)]
    config: ScheduleConfig,
    /// Print the parallelism of the order of arrival beside the framer's over a grid of --alpha and --gamma, in place of
    /// times
    #[arg(long, value_enum, conflicts_with_all = ["alpha", "gamma", "runs", "threads"], help_heading = heading::LOAD)]
    figure: Option<FigureKind>,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    json: Option<PathBuf>,
}

/// A grid that a paper measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FigureKind {
    /// FAFO's Figure 4: alpha of 0 to 0.99, gamma of 100 to 10,000
    #[value(name = "fafo-4")]
    Fafo4,
}

impl ScheduleArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let ui = ui::measuring();
        if self.figure.is_none() {
            ui::warn_of_idle(self.config.load.idle(), &ui);
        }
        let measured = match self.figure {
            Some(FigureKind::Fafo4) => schedule::figure(&self.config.load, &ui)?,
            None => schedule::run(&self.config, &ui)?,
        };
        let Some(measured) = measured else { return Ok(exit::INTERRUPTED) };
        output::show(&measured, Files { json: self.json.as_deref(), ..Files::default() })?;
        Ok(exit::OK)
    }
}
