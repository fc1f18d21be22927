//! Variants that are run now, beside each other: fresh processes of this very program, round by round, every second round
//! in reverse. What drifts evenly (temperature, neighbours, the page cache) meets all of them alike.

use super::{Sample, samples::Samples, words};
use crate::{
    args::{BenchArgs, BenchCommand, Cli, Command as Subcommand, Variant},
    exit::Usage,
    result::BenchResult,
    ui::Ui,
};
use anyhow::Context as _;
use clap::Parser as _;
use std::{
    fs,
    process::{Command, Stdio},
};

/// What a variant runs.
struct Plan {
    name: String,
    words: Vec<String>,
    args: BenchArgs,
    /// The flags leave it to us how often the oracle is asked.
    free_oracle: bool,
}

/// What came of it.
pub(super) struct Outcome {
    pub(super) variants: Vec<Samples>,
    pub(super) interrupted: bool,
}

/// Runs every variant `pairs` times.
pub(super) fn run(variants: &[Variant], common: &str, pairs: usize, ui: &Ui) -> anyhow::Result<Outcome> {
    let plans = variants.iter().map(|variant| plan(variant, common)).collect::<Result<Vec<_>, _>>()?;
    let mut variants: Vec<Samples> =
        plans.iter().map(|plan| Samples { name: plan.name.clone(), samples: Vec::with_capacity(pairs) }).collect();
    let bar = ui.bar("comparing", (pairs * plans.len()) as u64);
    let mut interrupted = false;
    'rounds: for round in 0..pairs {
        for position in 0..plans.len() {
            let index = if round.is_multiple_of(2) { position } else { plans.len() - 1 - position };
            bar.set_message(format!("round {} of {pairs}: {}", round + 1, plans[index].name));
            let Some(sample) = once(&plans[index], round, ui)? else {
                interrupted = true;
                break 'rounds;
            };
            ui.say(&format!("round {} {}: {:.0} tx/s", round + 1, plans[index].name, sample.tps));
            let samples = &mut variants[index].samples;
            if let Some(first) = samples.first()
                && first.state_root != sample.state_root
            {
                let (name, root) = (&plans[index].name, &first.state_root);
                anyhow::bail!(Different(format!("{name} ended in {root} first and in {} later", sample.state_root)));
            }
            samples.push(sample);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    // An interrupted round is no pair.
    let complete = variants.iter().map(|variant| variant.samples.len()).min().unwrap_or(0);
    variants.iter_mut().for_each(|variant| variant.samples.truncate(complete));
    Ok(Outcome { variants, interrupted })
}

/// A variant that is not right, or not the same twice.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Different(String);

fn plan(Variant { name, flags }: &Variant, common: &str) -> Result<Plan, Usage> {
    let mut words = words::split(common)?;
    words.extend(words::split(flags)?);
    let line = ["phalanx", "bench", "run"].into_iter().map(str::to_owned).chain(words.iter().cloned());
    let refused = |why: &str| Usage(format!("variant {name}: {why}"));
    let args = match Cli::try_parse_from(line) {
        Ok(Cli { command: Some(Subcommand::Bench(BenchCommand::Run(args))) }) => *args,
        Ok(_) => return Err(refused("its flags are another command")),
        Err(error) => {
            let text = error.to_string();
            return Err(refused(text.lines().next().unwrap_or_default().trim_start_matches("error: ")));
        }
    };
    args.check().map_err(|Usage(why)| refused(&why))?;
    if args.executors.len() != 1 || args.runs != 1 {
        return Err(refused("it must run one executor once; how often it is repeated is for --pairs"));
    }
    if args.json.is_some() || args.csv.is_some() || args.report.is_some() {
        return Err(refused("its output is read here: leave out --json, --csv and --report"));
    }
    let free_oracle = !words::has(&words, "--oracle");
    Ok(Plan { name: name.clone(), words, args, free_oracle })
}

/// One run in a process of its own; `None` if it was interrupted.
fn once(plan: &Plan, round: usize, ui: &Ui) -> anyhow::Result<Option<Sample>> {
    let mut words = plan.words.clone();
    // A store per run, which is gone afterwards: a second run must not find the first one's pages or files.
    let folder = plan.args.store.path().map(|path| path.join(format!("{}-{}", plan.name, round + 1)));
    if let Some(folder) = &folder {
        words::replace(&mut words, "--store", &plan.args.store.at(folder.clone()).to_string());
    }
    if plan.free_oracle && round > 0 {
        // What the first round has proved, the others show by their root.
        words.extend(["--oracle", "off"].map(str::to_owned));
    }
    let program = std::env::current_exe().context("finding this program")?;
    let output = Command::new(program)
        .args(["bench", "run"])
        .args(&words)
        .args(["--json", "-"])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running variant {}", plan.name))?;
    if let Some(folder) = &folder
        && folder.exists()
    {
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    if ui.stopped() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let result: BenchResult = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("variant {} ended with {} and no result: {}", plan.name, output.status, said.trim())
    })?;
    let run = result.runs.first().with_context(|| format!("variant {} has no run", plan.name))?;
    let Some(throughput) = &run.throughput else {
        anyhow::bail!(Different(format!("variant {} differs from the oracle: {}", plan.name, run.integrity.detail)));
    };
    Ok(Some(Sample {
        round: Some(round),
        tps: throughput.tps,
        us_core_per_tx: run.cpu.us_core_per_tx,
        state_root: run.integrity.state_root.clone(),
        oracle: run.integrity.oracle.clone(),
    }))
}
