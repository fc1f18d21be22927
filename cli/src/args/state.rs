//! Flags of the commands on a state store.

use super::{DurabilityKind, Hasher, Store};
use clap::{Args, Subcommand};
use phalanx::merkle::Memory;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Height and root of a store
    Info {
        #[command(flatten)]
        db: Db,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// The value of a key
    Get {
        #[command(flatten)]
        db: Db,
        /// 20 bytes of address, or 52 of address and slot, in hex
        key: Hex,
    },
    /// A proof of a key's value, or that it has none, as JSON
    Prove {
        #[command(flatten)]
        db: Db,
        /// 20 bytes of address, or 52 of address and slot, in hex
        key: Hex,
    },
    /// Checks a proof without a store
    Verify {
        /// What `state prove` printed, `-` for stdin
        #[arg(value_name = "FILE|-")]
        proof: PathBuf,
        /// The root to trust
        #[arg(long)]
        root: Hex,
        /// Hash of the commitment
        #[arg(long, value_enum, default_value_t = Hasher::Sha256)]
        hasher: Hasher,
    },
    /// Reads everything and compares it with the root
    Check {
        #[command(flatten)]
        db: Db,
    },
    /// Drops the beginning of the log, which the state no longer needs
    Prune {
        #[command(flatten)]
        db: Db,
    },
    /// Copies a store to an empty place
    Backup {
        #[command(flatten)]
        db: Db,
        /// Where to: file:DIR or rocks:DIR
        #[arg(long, value_parser = Store::parse)]
        to: Store,
    },
    /// Writes a store as one stream
    Export {
        #[command(flatten)]
        db: Db,
        /// Where to, `-` for stdout
        #[arg(value_name = "FILE|-")]
        to: PathBuf,
    },
    /// Makes a store in an empty place of such a stream
    Import {
        #[command(flatten)]
        db: Db,
        /// Where from, `-` for stdin
        #[arg(value_name = "FILE|-")]
        from: PathBuf,
        /// Refuses another root than this
        #[arg(long)]
        root: Option<Hex>,
    },
}

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct Db {
    /// Where it is: file:DIR or rocks:DIR
    #[arg(long, value_parser = Store::parse)]
    pub(crate) db: Store,
    /// Hash of its commitment
    #[arg(long, value_enum, default_value_t = Hasher::Sha256)]
    pub(crate) hasher: Hasher,
}

/// Bytes on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Hex(pub(crate) Vec<u8>);

impl core::str::FromStr for Hex {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let bytes = phalanx::revm::primitives::hex::decode(word);
        bytes.map(Self).map_err(|_| "expected an even number of hex digits")
    }
}

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Keys in the state
    #[arg(long, default_value_t = 1 << 20)]
    pub(crate) keys: usize,
    /// Updates per block
    #[arg(long, default_value_t = 50_000)]
    pub(crate) updates: usize,
    /// Measured blocks
    #[arg(long, default_value_t = 40)]
    pub(crate) blocks: usize,
    /// Blocks before them, until old entries move up as they always will [default: as many as update each key twice]
    #[arg(long)]
    pub(crate) warmup: Option<usize>,
    /// Which keys are updated: uniform, or zipf:T with exponent T
    #[arg(long, default_value = "uniform", value_parser = Skew::parse)]
    pub(crate) skew: Skew,
    /// Hash of the commitment
    #[arg(long, value_enum, default_value_t = Hasher::Sha256)]
    pub(crate) hasher: Hasher,
    /// What a committed block survives
    #[arg(long, value_enum, default_value_t = DurabilityKind::Block)]
    pub(crate) durability: DurabilityKind,
    /// What of the state is in memory: resident, or cached:BYTES (with K, M or G) of values besides an index
    #[arg(long, default_value = "resident", value_parser = memory)]
    pub(crate) memory: Memory,
    /// Blocks that could be taken back
    #[arg(long, default_value_t = 8)]
    pub(crate) history: usize,
    /// Threads [default: one per core]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Where the state lives: mem, file:DIR or rocks:DIR; an empty place
    #[arg(long, value_parser = Store::parse)]
    pub(crate) store: Option<Store>,
    /// Seed
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Writes the result as JSON, `-` for stdout. Times and processor time are of the measured blocks alone; `rss_peak_bytes`
    /// contains `bench_bytes`, which the benchmark holds itself, and `dram_bytes_per_key` does not
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
}

fn memory(word: &str) -> Result<Memory, String> {
    let refused = || "expected resident or cached:BYTES".to_owned();
    match word.split_once(':') {
        None if word == "resident" => Ok(Memory::Resident),
        Some(("cached", number)) => {
            let digits = number.trim_end_matches(['K', 'M', 'G']);
            let unit = match &number[digits.len()..] {
                "" => 0,
                "K" => 10,
                "M" => 20,
                "G" => 30,
                _ => return Err(refused()),
            };
            let bytes = digits.parse::<usize>().ok().and_then(|count| count.checked_mul(1 << unit));
            bytes.map(|bytes| Memory::Cached { bytes }).ok_or_else(refused)
        }
        _ => Err(refused()),
    }
}

/// How updates are spread over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Skew {
    Uniform,
    Zipf(f64),
}

impl Skew {
    fn parse(word: &str) -> Result<Self, String> {
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
