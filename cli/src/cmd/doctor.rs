//! `doctor`: sources of benchmark noise on this machine.

use crate::{exit, output};
use clap::Args;
use phalanx_lab::doctor;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The folder that a store is to be in; a temporary file is written there
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Exit code 5 if something spoils a measurement
    #[arg(long)]
    strict: bool,
}

impl DoctorArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let health = doctor::examine(&self.dir)?;
        if self.json {
            output::json(Path::new("-"), &health.value())?;
        } else {
            output::print(&health.table())?;
        }
        Ok(if self.strict && !health.is_fit() { exit::UNFIT } else { exit::OK })
    }
}
