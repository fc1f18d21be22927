//! `doctor`: sources of benchmark noise on this machine.

use crate::{exit, output};
use clap::Args;
use phalanx_lab::doctor;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Folder of a future store, which a temporary file is written to
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with code 5 if a finding spoils measurements
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
