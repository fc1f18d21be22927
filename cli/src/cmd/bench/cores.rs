//! `bench cores`: one core, two, and so on up to all of this machine, within a given time.

use crate::{
    cmd::own::{self, Written},
    exit, output, ui,
};
use clap::{Args, ValueEnum as _};
use phalanx_lab::{
    config::heading,
    cores::{self, Part, Plan, Row, Skipped},
    error::Interrupted,
    machine::host,
    result::BenchResult,
    ui::Ui,
};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Least time of a part, in seconds: with less its processes do not come to their runs.
const LEAST: f64 = 1.0;

#[derive(Debug, Args)]
pub(crate) struct CoresArgs {
    /// Parts to measure [default: all]
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Minutes for all of them: what takes longer is stopped, and named
    #[arg(long, value_name = "N", default_value_t = 8.0, value_parser = minutes)]
    minutes: f64,
    /// Folder with a recorded block, or with folders of such, for the part `blocks`
    #[arg(long, value_name = "DIR")]
    blocks: Option<PathBuf>,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-", default_value = "phalanx-cores.json", help_heading = heading::OUTPUT)]
    json: PathBuf,
}

/// A time from six seconds to a week.
fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse::<f64>().map_err(|error| error.to_string())?;
    let range = 0.1..=7.0 * 24.0 * 60.0;
    if range.contains(&minutes) { Ok(minutes) } else { Err("at least 0.1, and at most a week".into()) }
}

/// The findings so far.
#[derive(Debug, Default)]
struct Found {
    rows: Vec<Row>,
    skipped: Vec<Skipped>,
    /// Exit code of the first command that failed.
    code: Option<u8>,
}

impl CoresArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        output::check_exist(self.blocks.as_slice())?;
        let ui = ui::measuring();
        let end = Instant::now() + Duration::from_secs_f64(60.0 * self.minutes);
        let plan = Plan::new(host::cores(), rate(end, &ui)?, self.blocks.clone());
        let mut left: Vec<Part> = Part::value_variants()
            .iter()
            .copied()
            .filter(|part| self.parts.is_empty() || self.parts.contains(part))
            .collect();
        let mut found = Found::default();
        while let Some(part) = (!left.is_empty()).then(|| left.remove(0)) {
            let weights: u32 = left.iter().map(|part| part.weight()).sum();
            let seconds = end.saturating_duration_since(Instant::now()).as_secs_f64();
            let share = seconds * f64::from(part.weight()) / f64::from(part.weight() + weights);
            self.measure(part, &plan, share, end, &ui, &mut found)?;
        }
        let Found { rows, skipped, code } = found;
        let stdout = self.json == Path::new("-");
        if !stdout {
            output::print(&cores::table(&rows, &skipped))?;
        }
        output::json(&self.json, &cores::value(&output::command(), self.minutes, &rows, &skipped))?;
        if !stdout {
            output::print(&format!("\nResult: {}\n", self.json.display()))?;
        }
        Ok(code.unwrap_or(exit::OK))
    }

    /// Measures a part in about `share` seconds; no command of it ends later than twice as late, or than `end`.
    fn measure(
        &self,
        part: Part,
        plan: &Plan,
        share: f64,
        end: Instant,
        ui: &Ui,
        found: &mut Found,
    ) -> anyhow::Result<()> {
        let mut skip = |cores, why: &str| found.skipped.push(Skipped { part, cores, why: why.to_owned() });
        if part == Part::Node && cfg!(not(feature = "node")) {
            skip(None, "this build has no node");
            return Ok(());
        }
        if share < LEAST {
            skip(None, "no time was left");
            return Ok(());
        }
        let commands = plan.commands(part, share);
        if commands.is_empty() {
            skip(None, "--blocks names no recorded blocks");
            return Ok(());
        }
        ui.say(&format!("{}: about {share:.0} s", part.name()));
        let latest = end.min(Instant::now() + Duration::from_secs_f64(2.0 * share));
        let mut outputs: Vec<(Option<usize>, Vec<Value>)> = Vec::new();
        for (cores, words) in commands {
            match own::written(&words, Some(latest), ui)? {
                Written::Values(values) => outputs.push((cores, values)),
                Written::Failed { why, code } => {
                    let ours = code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code <= exit::FIXTURES);
                    found.code.get_or_insert(ours.unwrap_or(exit::INTERNAL));
                    found.skipped.push(Skipped { part, cores, why });
                }
                Written::Stopped if ui.stopped() => return Err(Interrupted.into()),
                Written::Stopped => {
                    let why = format!("`phalanx {}` did not end in its time", words.join(" "));
                    found.skipped.push(Skipped { part, cores, why });
                }
            }
        }
        match cores::rows(part, &outputs) {
            Ok(rows) => found.rows.extend(rows),
            Err(why) => {
                found.code.get_or_insert(exit::DIVERGENCE);
                found.skipped.push(Skipped { part, cores: None, why });
            }
        }
        Ok(())
    }
}

/// Native transfers per second on one core, from a short run.
fn rate(end: Instant, ui: &Ui) -> anyhow::Result<f64> {
    ui.say("a short run, which sizes the others");
    let values = match own::written(&cores::pilot(), Some(end), ui)? {
        Written::Values(values) => values,
        Written::Failed { why, code } => return Err(exit::Ended { code, why }.into()),
        Written::Stopped if ui.stopped() => return Err(Interrupted.into()),
        Written::Stopped => anyhow::bail!("the short run at the beginning did not end in time"),
    };
    let result: Option<BenchResult> = values.into_iter().next().and_then(|value| serde_json::from_value(value).ok());
    let throughput = result.as_ref().and_then(|result| result.runs.first()?.throughput.as_ref());
    Ok(throughput.ok_or_else(|| anyhow::anyhow!("the short run at the beginning has no throughput"))?.tps)
}
