//! A variant, run in fresh processes of this program.

use crate::{
    cmd::bench::run::RunArgs,
    exit::{self, Ended},
    flags::{profile, words},
};
use anyhow::Context as _;
use phalanx_lab::{
    compare::Sample,
    config::{RunConfig, parse},
    error::{Different, Usage},
    result,
    ui::Ui,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    str::FromStr,
};

/// Flags of `bench run` under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) name: String,
    /// Flags of `bench run`.
    pub(super) flags: String,
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let plain = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
        match word.split_once('=') {
            Some((name, flags)) if plain(name) => Ok(Self { name: name.into(), flags: flags.into() }),
            _ => Err("expected NAME=FLAGS, the name of letters, digits, '-', '_' and '.'".into()),
        }
    }
}

/// Planned runs of a variant.
pub(super) struct Plan {
    name: String,
    words: Vec<String>,
    config: RunConfig,
    /// True if the flags do not set the oracle.
    free_oracle: bool,
}

impl Plan {
    /// Folder of a round's store, if it is on disk.
    fn folder(&self, round: usize) -> Option<PathBuf> {
        self.config.store.path().map(|path| path.join(format!("{}-{}", self.name, round + 1)))
    }

    /// Reads the flags of a variant, for `pairs` runs.
    ///
    /// # Errors
    /// If the flags describe no single run, or a folder of a round's store exists.
    pub(super) fn new(Variant { name, flags }: &Variant, common: &str, pairs: usize) -> Result<Self, Usage> {
        let refused = |why: &str| Usage(format!("variant {name}: {why}"));
        let line = ["phalanx", "bench", "run"].into_iter().map(str::to_owned);
        let line = line.chain(words::split(common)?).chain(words::split(flags)?).map(Into::into).collect();
        // A profile's flags are expanded first, so that flags that are appended later override them.
        let line = profile::expand(line).map_err(|Usage(why)| refused(&why))?.words;
        let words = line.iter().skip(3).map(|word| word.to_string_lossy().into_owned()).collect();
        let words = words::without(words, "--profile");
        let args = parse::<RunArgs>(line.into_iter().skip(3)).map_err(|error| {
            let text = error.to_string();
            refused(text.lines().next().unwrap_or_default().trim_start_matches("error: "))
        })?;
        let config = args.config();
        config.check().map_err(|Usage(why)| refused(&why))?;
        if config.executors.len() != 1 || config.runs != 1 {
            return Err(refused("it must run one executor once; how often it is repeated is for --pairs"));
        }
        if args.has_output() {
            return Err(refused("its output is read here: leave out --json, --csv and --report"));
        }
        let free_oracle = !words::has(&words, "--oracle");
        let plan = Self { name: name.clone(), words, config, free_oracle };
        (0..pairs).filter_map(|round| plan.folder(round)).try_for_each(|folder| check_new(&folder))?;
        Ok(plan)
    }

    /// Runs once in a process of its own; `None` if the user stopped it.
    pub(super) fn once(&self, round: usize, ui: &Ui) -> anyhow::Result<Option<Sample>> {
        let mut words = self.words.clone();
        // Each run has its own store, removed afterwards: a run must not find another's pages or files.
        let folder = self.folder(round);
        if let Some(folder) = &folder {
            check_new(folder)?;
            words::replace(&mut words, "--store", &self.config.store.at(folder.clone()).to_string());
        }
        if self.free_oracle && round > 0 {
            // The first round is compared with the oracle; later rounds must end in the same root.
            words.extend(["--oracle", "off"].map(str::to_owned));
        }
        let program = std::env::current_exe().context("finding this program")?;
        let output = Command::new(program)
            .args(["bench", "run"])
            .args(&words)
            .args(["--json", "-"])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("running variant {}", self.name))?;
        if let Some(folder) = &folder
            && folder.exists()
        {
            fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        if ui.stopped() || output.status.code() == Some(exit::INTERRUPTED.into()) {
            return Ok(None);
        }
        sample(&self.name, round, &output).map(Some)
    }
}

/// Refuses an existing folder: it would be removed after the run with all its files.
fn check_new(folder: &Path) -> Result<(), Usage> {
    match fs::symlink_metadata(folder) {
        Ok(_) => Err(Usage(format!("{} is there already: choose a new or empty folder", folder.display()))),
        Err(_) => Ok(()),
    }
}

/// Sample from the output of a process.
fn sample(name: &str, round: usize, output: &Output) -> anyhow::Result<Sample> {
    let failed = |why: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = format!("variant {name} ended with {} and {why}: {}", output.status, said.trim());
        Ended { code: output.status.code(), why }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let result =
        result::read(&text).ok().and_then(|results| results.into_iter().next()).ok_or_else(|| failed("no result"))?;
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
    use phalanx::Order;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn a_process_without_a_result_passes_its_exit_code_on() {
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
        // A foreign exit code is an internal failure.
        assert_eq!(ended(99, "").0, exit::INTERNAL);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/results/2026-11-26-zen5-native-1-thread.json");
        let mut result: result::BenchResult = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let text = |result: &result::BenchResult| serde_json::to_string(result).unwrap();
        assert_eq!(ended(1, &text(&result)).0, exit::INTERNAL, "a result of a run that went wrong");
        result.runs[0].throughput.as_mut().unwrap().tps = 0.0;
        assert_eq!(ended(0, &text(&result)).0, exit::USAGE, "nothing to compare");
        result.runs[0].throughput = None;
        assert_eq!(ended(3, &text(&result)).0, exit::DIVERGENCE);
    }

    #[test]
    fn a_variants_flags_override_its_profile() {
        let plan = |common: &str, flags: &str| {
            let variant = Variant { name: "A".into(), flags: flags.into() };
            Plan::new(&variant, common, 2).map(|plan| (plan.words, plan.config))
        };
        let (words, config) = plan("--profile=fafo-paper --order given", "--txs 7").unwrap();
        let given = "--order given --txs 7 --executor=dag --signatures=off --overlap=on --fast-path=on --hasher=sha256";
        assert_eq!(words.join(" "), given);
        assert_eq!((config.order, config.load.txs), (Order::Given, 7));
        assert!(plan("--profile paper", "").unwrap_err().to_string().starts_with("variant A: --profile must be"));
    }
}
