//! Flags of `bench compare`.

use crate::exit::Usage;
use clap::{Args, ValueEnum};
use std::{path::PathBuf, str::FromStr};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Two results of `bench run --json`: the second is compared with the first
    #[arg(value_name = "FILE", num_args = 2, conflicts_with_all = ["baseline", "candidate", "variants", "preset", "common", "pairs"])]
    pub(crate) files: Vec<PathBuf>,
    /// Of files: differences that are the point of the comparison, by the names that a refusal gives; `executor` and
    /// `threads`, of which each file must then have one; `interrupted`
    #[arg(long, value_name = "FIELD,..", value_delimiter = ',', requires = "files")]
    pub(crate) allow: Vec<String>,
    /// Instead of files: flags of `bench run` that are run now
    #[arg(long, value_name = "FLAGS", requires = "candidate", conflicts_with_all = ["variants", "preset"], allow_hyphen_values = true)]
    pub(crate) baseline: Option<String>,
    /// Flags of `bench run` that are run beside those of --baseline
    #[arg(long, value_name = "FLAGS", requires = "baseline", allow_hyphen_values = true)]
    pub(crate) candidate: Option<String>,
    /// A name and flags of `bench run`; repeatable, the first is the baseline
    #[arg(long = "variant", value_name = "NAME=FLAGS", conflicts_with = "preset")]
    pub(crate) variants: Vec<Variant>,
    /// Ready-made variants
    #[arg(long, value_enum)]
    pub(crate) preset: Option<Preset>,
    /// Flags of `bench run` for all variants
    #[arg(long, value_name = "FLAGS", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub(crate) common: String,
    /// Runs of each variant; each round runs all of them, every second one in reverse (ABBA), so that with an even number
    /// what drifts evenly cancels out
    #[arg(long, default_value_t = 6)]
    pub(crate) pairs: usize,
    /// Differences smaller than this share are no difference: ratios from 1 ÷ (1 + this) to 1 + this
    #[arg(long, default_value_t = 0.01)]
    pub(crate) floor: f64,
    /// What must hold of throughputs, as in `B/A>=1.6`; repeatable. Of two files A is the first and B the second, and it
    /// must hold of all that they have. Exit code 4 if it does not
    #[arg(long, value_name = "X/Y>=N")]
    pub(crate) expect: Vec<Expectation>,
    /// Resamplings behind each interval
    #[arg(long, default_value_t = 10_000)]
    pub(crate) resamples: usize,
    /// Seed of the resampling
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Writes the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
}

/// Variants that somebody has asked for before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// A: sequential revm over the same store, with root and receipts and without analysis; B: the DAG on one thread;
    /// C: on two
    Abc,
}

impl Preset {
    pub(crate) fn variants(self) -> Vec<Variant> {
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

/// What is compared, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) name: String,
    /// Of `bench run`.
    pub(crate) flags: String,
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

/// A throughput that is to be so many times another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expectation {
    pub(crate) candidate: String,
    pub(crate) baseline: String,
    pub(crate) at_least: f64,
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let parts = word.split_once(">=").and_then(|(ratio, least)| Some((ratio.split_once('/')?, least)));
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|least| least.is_finite() && *least > 0.0);
        match parts.and_then(|(names, least)| Some((names, number(least)?))) {
            Some(((candidate, baseline), at_least)) => {
                Ok(Self { candidate: candidate.trim().into(), baseline: baseline.trim().into(), at_least })
            }
            None => Err("expected X/Y>=N, as in C/A>=1.6".into()),
        }
    }
}

impl CompareArgs {
    /// Refuses what no comparison could carry out.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        if !(0.0..1.0).contains(&self.floor) {
            return Err(Usage(format!("--floor must be at least 0 and below 1, not {}", self.floor)));
        }
        if !(100..=1_000_000).contains(&self.resamples) {
            return Err(Usage(format!("--resamples must be between 100 and 1000000, not {}", self.resamples)));
        }
        if !(1..=1000).contains(&self.pairs) {
            return Err(Usage(format!("--pairs must be between 1 and 1000, not {}", self.pairs)));
        }
        Ok(())
    }

    /// What is run now.
    pub(crate) fn live(&self) -> Result<Vec<Variant>, Usage> {
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
