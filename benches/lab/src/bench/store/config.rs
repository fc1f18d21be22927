//! Settings of `bench store`.

use crate::config::{Store, Word, Words, choice, heading, memory};
use clap::Args;
use phalanx::merkle::{Durability, HashFn, Memory, Reading};

/// Settings of a run of the state store alone.
#[derive(Clone, Debug, Args)]
pub struct StoreBench {
    /// Keys in the state
    #[arg(long, default_value_t = 1 << 20, help_heading = heading::LOAD)]
    pub keys: usize,
    /// Updates per block
    #[arg(long, default_value_t = 50_000, help_heading = heading::LOAD)]
    pub updates: usize,
    /// Measured blocks
    #[arg(long, default_value_t = 40, help_heading = heading::MEASURE)]
    pub blocks: usize,
    /// Blocks before the measured ones, until compaction is steady [default: as many as update each key twice]
    #[arg(long, help_heading = heading::MEASURE)]
    pub warmup: Option<usize>,
    /// Distribution of updates over keys: uniform, or zipf:T with exponent T
    #[arg(long, default_value = "uniform", value_parser = Skew::parse, help_heading = heading::LOAD)]
    pub skew: Skew,
    /// Hash of the commitment
    #[arg(long, value_parser = choice::<HashFn>(), default_value = "sha256", help_heading = heading::STORE)]
    pub hasher: HashFn,
    /// Failures that a committed block survives
    #[arg(long, value_parser = choice::<Durability>(), default_value = "block", help_heading = heading::STORE)]
    pub durability: Durability,
    /// Part of the state in memory: resident, or cached:BYTES (with K, M or G) of values besides an index
    #[arg(long, default_value = "resident", value_parser = memory, help_heading = heading::STORE)]
    pub memory: Memory,
    /// Way to read values from disk; cached memory in files only
    #[arg(long, value_parser = choice::<Reading>(), default_value = Reading::default().word(), help_heading = heading::STORE)]
    pub reading: Reading,
    /// Blocks whose keys are announced before they run, so that their values are read meanwhile; cached memory only
    #[arg(long, default_value_t = 1, help_heading = heading::LOAD)]
    pub ahead: usize,
    /// Changes that the measured blocks make
    #[arg(long, value_parser = choice::<Work>(), default_value = "update", help_heading = heading::LOAD)]
    pub work: Work,
    /// Blocks that can be rolled back
    #[arg(long, default_value_t = 8, help_heading = heading::STORE)]
    pub history: usize,
    /// Threads [default: one per core]
    #[arg(long, help_heading = heading::MEASURE)]
    pub threads: Option<usize>,
    /// Place of the state: mem, file:DIR or rocks:DIR, a new or empty folder [default: a temporary folder]
    #[arg(long, value_parser = Store::parse, help_heading = heading::STORE)]
    pub store: Option<Store>,
    /// Seed of the keys
    #[arg(long, default_value_t = 42, help_heading = heading::LOAD)]
    pub seed: u64,
}

/// Changes that measured blocks make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// New values of keys that exist.
    Update,
    /// Keys that do not exist.
    Create,
    /// Ends of keys that exist.
    Delete,
}

impl Word for Work {
    const WORDS: Words<Self> = &[
        (Self::Update, "update", "New values of keys that exist"),
        (Self::Create, "create", "Keys that do not exist"),
        (Self::Delete, "delete", "Deletes keys that exist, each once"),
    ];
}

/// Distribution of updates over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Skew {
    /// Every key alike.
    Uniform,
    /// Zipf with this exponent.
    Zipf(f64),
}

impl Skew {
    /// Reads `uniform` or `zipf:T`.
    ///
    /// # Errors
    /// If `word` is neither, or the exponent is out of range.
    pub fn parse(word: &str) -> Result<Self, String> {
        match word.split_once(':') {
            None if word == "uniform" => Ok(Self::Uniform),
            Some(("zipf", exponent)) => match exponent.parse::<f64>() {
                Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(Self::Zipf(exponent)),
                _ => Err("the exponent must be above 0 and at most 10".into()),
            },
            _ => Err("expected uniform or zipf:T".into()),
        }
    }
}
