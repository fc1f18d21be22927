//! `bench plan`: memory, disk and time of a run, before it starts.

use crate::{exit, output, ui};
use clap::Args;
use phalanx_lab::{bench::plan, config::RunConfig};

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    config: RunConfig,
}

impl PlanArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let ui = ui::measuring();
        ui::warn_of_idle(self.config.idle(), &ui);
        output::print(&plan::run(&self.config, &ui)?)?;
        Ok(exit::OK)
    }
}
