//! `claims`: measures the documents' ratios on this machine.

use super::own::{self, Written};
use crate::{exit, output, ui};
use clap::Args;
use phalanx_lab::{
    claims::{self, Checked, Claim, Verdict},
    error::{Interrupted, Usage},
    ui::Ui,
};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

#[derive(Debug, Args)]
pub(crate) struct ClaimsArgs {
    /// Names of claims [default: all]
    names: Vec<String>,
    /// Seconds for all of them: a claim that takes more than is left is skipped
    #[arg(long, value_name = "S", default_value_t = 300)]
    seconds: u64,
    /// List the claims, what was measured, and their commands; measure nothing
    #[arg(long)]
    list: bool,
    /// Folder with recorded blocks, for the claims on them
    #[arg(long, value_name = "DIR")]
    blocks: Option<PathBuf>,
    /// Write what was found as JSON, to stdout for `-`
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    json: Option<PathBuf>,
}

impl ClaimsArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        output::check_exist(self.blocks.as_slice())?;
        let claims = self.chosen()?;
        if self.list {
            output::print(&claims::list(&claims))?;
            return Ok(exit::OK);
        }
        let ui = ui::measuring();
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let mut checked = Vec::new();
        for claim in claims {
            if ui.stopped() {
                return Ok(exit::INTERRUPTED);
            }
            ui.say(&format!("{}: about {} s", claim.name, claim.seconds));
            let left = end.saturating_duration_since(Instant::now()).as_secs();
            checked.push(self.check(claim, left, &ui)?);
        }
        drop(ui);
        if self.json.as_deref() != Some("-".as_ref()) {
            output::print(&claims::table(&checked))?;
        }
        if let Some(path) = &self.json {
            output::json(path, &claims::value(&checked))?;
        }
        Ok(if claims::all_hold(&checked) { exit::OK } else { exit::EXPECTATION })
    }

    fn chosen(&self) -> Result<Vec<Claim>, Usage> {
        let all = claims::claims();
        if let Some(unknown) = self.names.iter().find(|name| all.iter().all(|claim| claim.name != **name)) {
            return Err(Usage(format!("no claim is called {unknown}: `phalanx claims --list` lists them")));
        }
        let wanted = |claim: &Claim| self.names.is_empty() || self.names.contains(&claim.name);
        Ok(all.into_iter().filter(wanted).collect())
    }

    /// Measures a claim, if it fits the time left.
    fn check(&self, claim: Claim, left: u64, ui: &Ui) -> anyhow::Result<Checked> {
        if let Some(why) = claim.obstacle(left, self.blocks.is_some()) {
            return Ok(claim.without(Verdict::Skipped, why));
        }
        let blocks = self.blocks.as_deref().map_or_else(String::new, |folder| folder.to_string_lossy().into_owned());
        let mut results = Vec::new();
        for words in claim.commands_on(&blocks) {
            match own::written(&words, None, ui)? {
                Written::Values(values) => results.extend(values),
                Written::Failed { why, .. } => return Ok(claim.without(Verdict::Failed, why)),
                Written::Stopped => return Err(Interrupted.into()),
            }
        }
        Ok(claim.judged(&results))
    }
}
