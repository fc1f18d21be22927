//! `version`: version, commit, compiler and features.

use crate::{exit, output};
use clap::Args;
use phalanx_lab::machine::host;
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl VersionArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let tool = host::tool();
        if self.json {
            output::json(Path::new("-"), &tool)?;
        } else {
            let features = if tool.features.is_empty() { "none".to_owned() } else { tool.features.join(", ") };
            let commit = format!("commit {}, {}, features: {features}", tool.commit, tool.rustc);
            output::print(&format!("phalanx {} ({commit})\n", tool.version))?;
        }
        Ok(exit::OK)
    }
}
