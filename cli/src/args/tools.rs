//! Flags of the commands around the engine.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The folder that a store is to be in; a temporary file is written there
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit code 5 if something spoils a measurement
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Writes the pages of all commands into a folder instead
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
