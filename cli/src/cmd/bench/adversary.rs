//! `bench adversary`: costs of hostile transactions, with the bounds that the documentation states.

use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::Args;
use phalanx_lab::bench::adversary::{self, AdversaryConfig};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct AdversaryArgs {
    #[command(flatten)]
    config: AdversaryConfig,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

impl AdversaryArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let measured = adversary::measure(&self.config, &output::command(), &ui::measuring())?;
        output::show(&measured.output, Files { json: self.json.as_deref(), ..Files::default() })?;
        Ok(if measured.holds { exit::OK } else { exit::DIVERGENCE })
    }
}
