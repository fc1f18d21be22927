//! `bench compare`: two results, or variants of `bench run` that are run in turns.

mod variant;

use crate::{
    exit,
    output::{self, Files},
    ui,
};
use clap::{Args, ValueEnum};
use phalanx_lab::{
    compare::{self, CompareConfig, Expectation},
    config::heading,
    error::Usage,
};
use std::path::PathBuf;
use variant::{Plan, Variant};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Two results of `bench run --json`; the second is compared with the first
    #[arg(value_name = "FILE", num_args = 2, conflicts_with_all = ["baseline", "candidate", "variants", "preset", "common", "pairs"])]
    files: Vec<PathBuf>,
    /// Fields in which the two files may differ, by the names in a refusal; also `executor`, `threads` (each file must then
    /// have one of them) and `interrupted`
    #[arg(long, value_name = "FIELD,..", value_delimiter = ',', requires = "files", help_heading = heading::MEASURE)]
    allow: Vec<String>,
    /// Flags of `bench run` to run now, in place of files
    #[arg(long, value_name = "FLAGS", requires = "candidate", conflicts_with_all = ["variants", "preset"], allow_hyphen_values = true, help_heading = heading::LOAD)]
    baseline: Option<String>,
    /// Flags of `bench run` to run beside those of --baseline
    #[arg(long, value_name = "FLAGS", requires = "baseline", allow_hyphen_values = true, help_heading = heading::LOAD)]
    candidate: Option<String>,
    /// Name and flags of a `bench run`; repeatable, the first is the baseline
    #[arg(long = "variant", value_name = "NAME=FLAGS", conflicts_with = "preset", help_heading = heading::LOAD)]
    variants: Vec<Variant>,
    /// Ready-made variants
    #[arg(long, value_enum, help_heading = heading::LOAD)]
    preset: Option<Preset>,
    /// Flags of `bench run` for all variants
    #[arg(long, value_name = "FLAGS", default_value = "", hide_default_value = true, allow_hyphen_values = true, help_heading = heading::LOAD)]
    common: String,
    /// Runs of each variant; every second round is in reverse (ABBA), so that an even drift cancels out over an even number
    #[arg(long, default_value_t = 6, help_heading = heading::MEASURE)]
    pairs: usize,
    /// Share up to which a difference counts as none: ratios from 1 ÷ (1 + floor) to 1 + floor
    #[arg(long, default_value_t = 0.01, help_heading = heading::MEASURE)]
    floor: f64,
    /// Ratio of throughputs that must hold, as in `B/A>=1.6`; repeatable. Two files are A and B, and every pair of their
    /// runs must hold. Exit code 4 if one does not
    #[arg(long, value_name = "X/Y>=N", help_heading = heading::MEASURE)]
    expect: Vec<Expectation>,
    /// Resamplings behind each interval
    #[arg(long, default_value_t = 10_000, help_heading = heading::MEASURE)]
    resamples: usize,
    /// Seed of the resampling
    #[arg(long, default_value_t = 42, help_heading = heading::MEASURE)]
    seed: u64,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    json: Option<PathBuf>,
}

/// Ready-made variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// A: sequential revm over the same store, with root and receipts and without analysis; B: the DAG on one thread;
    /// C: on two
    Abc,
}

impl Preset {
    fn variants(self) -> Vec<Variant> {
        let variant = |name: &str, flags: &str| Variant { name: name.into(), flags: flags.into() };
        match self {
            Self::Abc => vec![
                variant("A", "--executor sequential --threads 1"),
                variant("B", "--executor dag --threads 1"),
                variant("C", "--executor dag --threads 2"),
            ],
        }
    }
}

impl CompareArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let config = CompareConfig {
            floor: self.floor,
            resamples: self.resamples,
            seed: self.seed,
            pairs: self.pairs,
            common: self.common.clone(),
            allow: self.allow.clone(),
            expect: self.expect.clone(),
            command: output::command(),
        };
        config.check()?;
        let (compared, ending) = match &self.files[..] {
            [first, second] => compare::files(&config, &[first.clone(), second.clone()])?,
            _ => {
                let variants = self.variants()?;
                let names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
                let plan = |variant: &Variant| Plan::new(variant, &self.common, self.pairs);
                let plans = variants.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
                let ui = ui::measuring();
                compare::variants(&config, &names, &mut |index, round| plans[index].once(round, &ui), &ui)?
            }
        };
        output::show(&compared, Files { json: self.json.as_deref(), ..Files::default() })?;
        Ok(exit::code_of_ending(ending))
    }

    /// Variants that the flags name, at least two.
    fn variants(&self) -> Result<Vec<Variant>, Usage> {
        let named = |name: &str, flags: &Option<String>| Some(Variant { name: name.into(), flags: flags.clone()? });
        let mut variants = self.variants.clone();
        variants.extend(self.preset.map(Preset::variants).unwrap_or_default());
        variants.extend(named("baseline", &self.baseline));
        variants.extend(named("candidate", &self.candidate));
        if variants.len() < 2 {
            let what = "name two results, or two --variant NAME=FLAGS, or --baseline FLAGS and --candidate FLAGS, or --preset abc";
            return Err(Usage(what.into()));
        }
        for (index, variant) in variants.iter().enumerate() {
            if variants[..index].iter().any(|other| other.name == variant.name) {
                return Err(Usage(format!("two variants are called {}", variant.name)));
            }
        }
        Ok(variants)
    }
}
