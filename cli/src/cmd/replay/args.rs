//! Flags of `replay`.

use crate::output;
use clap::{ArgAction, Args};
use phalanx::{Executor, Traces, merkle::Memory, paralyze::Layers};
use phalanx_lab::{
    config::{Artefact, choice, heading, memory, threads},
    error::Usage,
    machine::pin,
};
use std::{fmt, path::PathBuf, str::FromStr};

#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Folders with a block each, or folders of such folders
    #[arg(required = true, value_name = "DIR")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Executor; repeatable, all run the same blocks in turns
    #[arg(long = "executor", value_parser = choice::<Executor>(), default_values = ["dag"], help_heading = heading::ENGINE)]
    pub(crate) executors: Vec<Executor>,
    /// Worker threads, of which sequential revm has one [default: one per core]
    #[arg(long, help_heading = heading::ENGINE)]
    pub(crate) threads: Option<usize>,
    /// Confine the process to as many cores as it has threads, worker i to core i, as in `bench run` (Linux). Otherwise the
    /// system may leave both threads of a short block on one core
    #[arg(long, action = ArgAction::Set, value_parser = choice::<bool>(), default_value = "off", num_args = 0..=1, default_missing_value = "on", help_heading = heading::MEASURE)]
    pub(crate) pin: bool,
    /// Source of access sets
    #[arg(long, value_parser = choice::<Layers>(), default_value = "static", help_heading = heading::ENGINE)]
    pub(crate) access: Layers,
    /// Learn templates from each block after it ran, and keep them from block to block; otherwise every execution begins
    /// without templates
    #[arg(long, help_heading = heading::ENGINE)]
    pub(crate) learn: bool,
    /// Report quality and cost of the predictions by their source
    #[arg(long, help_heading = heading::MEASURE)]
    pub(crate) quality: bool,
    /// Hints made from a sequential run, in place of --access: true access sets (perfect), false ones (wrong:P or adversarial), none,
    /// or the block access list, which the block runs on as if its header named it (list)
    #[arg(long, help_heading = heading::ENGINE)]
    pub(crate) hints: Option<HintsKind>,
    /// Data that a validator gets beside the block, in place of --access; repeatable, the block runs with each
    #[arg(long = "artefact", value_parser = choice::<Artefact>(), conflicts_with = "hints", help_heading = heading::ENGINE)]
    pub(crate) artefacts: Vec<Artefact>,
    /// Seed of wrong hints
    #[arg(long, default_value_t = 42, help_heading = heading::ENGINE)]
    pub(crate) seed: u64,
    /// Seed of one interleaving of the threads
    #[arg(long, value_name = "N", help_heading = heading::ENGINE)]
    pub(crate) schedule_seed: Option<u64>,
    /// Replay contract calls of the DAG from recorded traces; `check` interprets them as well and compares
    #[arg(long, value_parser = choice::<Traces>(), default_value = "on", help_heading = heading::ENGINE)]
    pub(crate) traces: Traces,
    /// Part of the state in memory: resident, or cached:BYTES (with K, M or G) of values besides an index, and the others in a
    /// temporary folder. Later executions of a block find what the first has read
    #[arg(long, value_parser = memory, default_value = "resident", help_heading = heading::ENGINE)]
    pub(crate) memory: Memory,
    /// Executions of each block, all compared; times are medians, and the first execution meets cold threads and memory
    /// [default: 3, and 1 with --learn, where each would learn from the one before]
    #[arg(long, help_heading = heading::MEASURE)]
    pub(crate) repeat: Option<usize>,
    /// Write a JSON line per block and executor, `-` for stdout
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    pub(crate) json: Option<PathBuf>,
    /// Folder for the evidence of a difference
    #[arg(long, value_name = "DIR", default_value = "phalanx-divergence", help_heading = heading::OUTPUT)]
    pub(crate) bundle: PathBuf,
}

impl ReplayArgs {
    /// Refuses flags that no run could carry out.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        let repeat = self.repeat();
        if repeat == 0 || repeat > 100_000 {
            return Err(Usage(format!("--repeat must be between 1 and 100000, not {repeat}")));
        }
        pin::check(self.pin, threads(self.threads)?)?;
        output::check_exist(&self.dirs)
    }

    /// Number of executions of each block.
    pub(crate) fn repeat(&self) -> usize {
        self.repeat.unwrap_or(if self.learn { 1 } else { 3 })
    }
}

/// Access sets that the executor is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HintsKind {
    /// Access sets of a sequential run.
    Perfect,
    /// No access sets.
    None,
    /// True sets, each key replaced by a foreign one with this probability.
    Wrong(f64),
    /// Sets aimed at the executor.
    Adversarial,
    /// The block access list (EIP-7928).
    List,
}

impl FromStr for HintsKind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "perfect" => Ok(Self::Perfect),
            "none" => Ok(Self::None),
            "adversarial" => Ok(Self::Adversarial),
            "list" => Ok(Self::List),
            _ => {
                let share = word.strip_prefix("wrong:").and_then(|share| share.parse().ok());
                let share = share.filter(|share| (0.0..=1.0).contains(share));
                share.map(Self::Wrong).ok_or_else(|| {
                    "expected perfect, none, adversarial, list, or wrong:P with P between 0 and 1".to_owned()
                })
            }
        }
    }
}

impl fmt::Display for HintsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Perfect => f.write_str("perfect"),
            Self::None => f.write_str("none"),
            Self::Wrong(share) => write!(f, "wrong:{share}"),
            Self::Adversarial => f.write_str("adversarial"),
            Self::List => f.write_str("list"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_parsed_as_they_are_printed() {
        let sets = [HintsKind::Perfect, HintsKind::Wrong(0.1), HintsKind::Wrong(1.0), HintsKind::Adversarial];
        for kind in sets.into_iter().chain([HintsKind::None, HintsKind::List]) {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for word in ["", "wrong", "wrong:", "wrong:2", "wrong:-0.1", "wrong:NaN", "right", "Perfect"] {
            assert!(word.parse::<HintsKind>().is_err(), "{word}");
        }
    }
}
