//! Variants that are run now, beside each other: fresh processes of this very program, round by round, every second round
//! in reverse. What drifts evenly (temperature, neighbours, the page cache) meets all of them alike.

use super::{
    samples::{Sample, Samples},
    words,
};
use crate::{
    args::{BenchArgs, BenchCommand, Cli, Command as Subcommand, Variant},
    exit::{self, Different, Ended, Usage},
    profile,
    result::BenchResult,
    ui::Ui,
};
use anyhow::Context as _;
use clap::Parser as _;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
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
    let plans = variants.iter().map(|variant| plan(variant, common, pairs)).collect::<Result<Vec<_>, _>>()?;
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

impl Plan {
    /// Where a round's store is, if it is on disk.
    fn folder(&self, round: usize) -> Option<PathBuf> {
        self.args.store.path().map(|path| path.join(format!("{}-{}", self.name, round + 1)))
    }
}

/// Refuses a folder that is there: it would be removed after the run, with what somebody else has put into it.
fn check_new(folder: &Path) -> Result<(), Usage> {
    match fs::symlink_metadata(folder) {
        Ok(_) => Err(Usage(format!("{} is there already: choose a new or empty folder", folder.display()))),
        Err(_) => Ok(()),
    }
}

fn plan(Variant { name, flags }: &Variant, common: &str, pairs: usize) -> Result<Plan, Usage> {
    let refused = |why: &str| Usage(format!("variant {name}: {why}"));
    let line = ["phalanx", "bench", "run"].into_iter().map(str::to_owned);
    let line = line.chain(words::split(common)?).chain(words::split(flags)?).map(Into::into).collect();
    // A profile's flags are among the words from here on, so that what is added to them counts more.
    let line = profile::expand(line).map_err(|Usage(why)| refused(&why))?;
    let words = line.iter().skip(3).map(|word| word.to_string_lossy().into_owned()).collect();
    let words = words::without(words, "--profile");
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
    let plan = Plan { name: name.clone(), words, args, free_oracle };
    (0..pairs).filter_map(|round| plan.folder(round)).try_for_each(|folder| check_new(&folder))?;
    Ok(plan)
}

/// One run in a process of its own; `None` if it was interrupted.
fn once(plan: &Plan, round: usize, ui: &Ui) -> anyhow::Result<Option<Sample>> {
    let mut words = plan.words.clone();
    // A store per run, which is gone afterwards: a second run must not find the first one's pages or files.
    let folder = plan.folder(round);
    if let Some(folder) = &folder {
        check_new(folder)?;
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
    if ui.stopped() || output.status.code() == Some(exit::INTERRUPTED.into()) {
        return Ok(None);
    }
    sample(&plan.name, round, &output).map(Some)
}

/// What a process has measured.
fn sample(name: &str, round: usize, output: &Output) -> anyhow::Result<Sample> {
    let failed = |why: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = format!("variant {name} ended with {} and {why}: {}", output.status, said.trim());
        Ended { code: output.status.code(), why }
    };
    let result: BenchResult = serde_json::from_slice(&output.stdout).map_err(|_| failed("no result"))?;
    let run = result.runs.first().ok_or_else(|| failed("no run"))?;
    let Some(throughput) = &run.throughput else {
        anyhow::bail!(Different(format!("variant {name} differs from the oracle: {}", run.integrity.detail)));
    };
    if !output.status.success() {
        anyhow::bail!(failed("a result"));
    }
    let sample = Sample::new(run, throughput, Some(round));
    sample.check(name)?;
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{exit, report::fixture};
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn a_process_without_a_result_passes_its_code_on() {
        let ended = |code: i32, stdout: &str| {
            let status = std::process::ExitStatus::from_raw(code << 8);
            let output = Output { status, stdout: stdout.into(), stderr: b"phalanx: why".into() };
            let error = sample("A", 0, &output).unwrap_err();
            (exit::code_of(&error), error.to_string())
        };
        for code in [exit::USAGE, exit::STORE, exit::INTERNAL] {
            let (passed, said) = ended(code.into(), "");
            assert!(passed == code && said.contains("variant A ended with") && said.ends_with("why"), "{said}");
        }
        // What is no code of ours is a failure of its own.
        assert_eq!(ended(99, "").0, exit::INTERNAL);
        let mut result = fixture::bench("native", &[("dag", 2, 10.0)]);
        let text = |result: &BenchResult| serde_json::to_string(result).unwrap();
        assert_eq!(ended(1, &text(&result)).0, exit::INTERNAL, "a result of a run that went wrong");
        result.runs[0].throughput.as_mut().unwrap().tps = 0.0;
        assert_eq!(ended(0, &text(&result)).0, exit::USAGE, "nothing to compare");
        fixture::spoil(&mut result.runs[0]);
        assert_eq!(ended(3, &text(&result)).0, exit::DIVERGENCE);
    }

    #[test]
    fn a_profile_is_part_of_a_variant_and_its_own_flags_count_more() {
        let plan = |common: &str, flags: &str| {
            plan(&Variant { name: "A".into(), flags: flags.into() }, common, 2).map(|plan| (plan.words, plan.args))
        };
        let (words, args) = plan("--profile=fafo-paper --order given", "--txs 7").unwrap();
        let given = "--order given --txs 7 --executor=dag --signatures=off --overlap=on --fast-path=on --hasher=sha256";
        assert_eq!(words.join(" "), given);
        assert_eq!((args.order, args.load.txs), (crate::args::OrderKind::Given, 7));
        assert!(plan("--profile paper", "").unwrap_err().to_string().starts_with("variant A: --profile must be"));
    }
}
