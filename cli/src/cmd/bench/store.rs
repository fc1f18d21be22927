//! `bench store`: the state store alone.

use crate::{
    exit,
    flags::{DurabilityKind, Hasher},
    output, ui,
};
use clap::Args;
use phalanx::merkle::Memory;
use phalanx_lab::{
    bench::store::{self, Skew, StoreBench},
    config::Store,
};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Keys in the state
    #[arg(long, default_value_t = 1 << 20)]
    keys: usize,
    /// Updates per block
    #[arg(long, default_value_t = 50_000)]
    updates: usize,
    /// Measured blocks
    #[arg(long, default_value_t = 40)]
    blocks: usize,
    /// Blocks before the measured ones, until compaction is steady [default: as many as update each key twice]
    #[arg(long)]
    warmup: Option<usize>,
    /// Distribution of updates over keys: uniform, or zipf:T with exponent T
    #[arg(long, default_value = "uniform", value_parser = Skew::parse)]
    skew: Skew,
    /// Hash of the commitment
    #[arg(long, value_enum, default_value_t = Hasher::Sha256)]
    hasher: Hasher,
    /// Failures that a committed block survives
    #[arg(long, value_enum, default_value_t = DurabilityKind::Block)]
    durability: DurabilityKind,
    /// Part of the state in memory: resident, or cached:BYTES (with K, M or G) of values besides an index
    #[arg(long, default_value = "resident", value_parser = memory)]
    memory: Memory,
    /// Blocks that can be rolled back
    #[arg(long, default_value_t = 8)]
    history: usize,
    /// Threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
    /// Place of the state: mem, file:DIR or rocks:DIR, a new or empty folder [default: a temporary folder]
    #[arg(long, value_parser = Store::parse)]
    store: Option<Store>,
    /// Seed of the keys
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Write the result as JSON, `-` for stdout. Times are of the measured blocks alone. `rss_peak_bytes` contains the
    /// benchmark's own `bench_bytes`, `dram_bytes_per_key` does not
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

impl StoreArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let config = StoreBench {
            keys: self.keys,
            updates: self.updates,
            blocks: self.blocks,
            warmup: self.warmup,
            skew: self.skew,
            hasher: self.hasher.into(),
            durability: self.durability.into(),
            memory: self.memory,
            history: self.history,
            threads: self.threads,
            store: self.store.clone(),
            seed: self.seed,
        };
        let result = store::run(&config, &ui::open()?)?;
        match &self.json {
            Some(path) => output::json(path, &result)?,
            None => output::print(&format!("{}\n", serde_json::to_string_pretty(&result["runs"][0])?))?,
        }
        Ok(exit::OK)
    }
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
