//! `bench recovery`: recovery of signers alone.

use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::Args;
use phalanx_lab::{
    bench::recovery::{self, RecoveryConfig},
    config::heading,
};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RecoveryArgs {
    #[command(flatten)]
    config: RecoveryConfig,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    json: Option<PathBuf>,
}

impl RecoveryArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let Some(measured) = recovery::run(&self.config, &ui::measuring())? else { return Ok(exit::INTERRUPTED) };
        output::show(&measured, Files { json: self.json.as_deref(), ..Files::default() })?;
        Ok(exit::OK)
    }
}
