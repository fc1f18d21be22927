//! Flags of `bench build`.

use super::{
    AccessKind, ArtefactKind, BenchArgs, DurabilityKind, ExecutorKind, Hasher, LoadArgs, OracleKind, OrderKind,
    SpecKind, Store, Switch, TracesKind, threads, word,
};
use crate::{exit::Usage, pin};
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Sign the transactions: the builder gets bytes, and recovers their senders inside the timer
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub(crate) signatures: Switch,
    /// Worker threads of the builder [default: one per core]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Confine each run to as many cores as it has threads, as in `bench run`
    #[arg(long, value_enum, default_value_t = Switch::Off, num_args = 0..=1, default_missing_value = "on")]
    pub(crate) pin: Switch,
    /// What validators get beside the blocks; repeatable, or separated by commas [default: all three]
    #[arg(long = "artefact", value_enum, value_delimiter = ',', default_values_t = ArtefactKind::ALL, hide_default_value = true)]
    pub(crate) artefacts: Vec<ArtefactKind>,
    /// Worker threads of the validators; repeatable, or separated by commas [default: 1 and the builder's]
    #[arg(long, value_delimiter = ',', value_name = "N,..")]
    pub(crate) given_threads: Vec<usize>,
    /// Where the state lives: mem, file:DIR or rocks:DIR, the folder new or empty; a subfolder for each run
    #[arg(long, value_parser = Store::parse, default_value = "mem")]
    pub(crate) store: Store,
    /// What a committed block survives
    #[arg(long, value_enum, default_value_t = DurabilityKind::Async)]
    pub(crate) durability: DurabilityKind,
    /// Hash of the state commitment
    #[arg(long, value_enum, default_value_t = Hasher::Sha256)]
    pub(crate) hasher: Hasher,
    /// Rules of the EVM
    #[arg(long, value_enum, default_value_t = SpecKind::Osaka)]
    pub(crate) evm_spec: SpecKind,
    /// Gas limit of a block
    #[arg(long, default_value_t = 30_000_000_000)]
    pub(crate) block_gas: u64,
    /// Repetitions of everything
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: usize,
    /// Reports how good the predictions of the blocks' transactions are, by their source, and what they cost
    #[arg(long)]
    pub(crate) quality: bool,
    /// Writes the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Writes a row per run
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Writes a page with plots
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

impl BuildArgs {
    /// The `bench run` beside which the builder is measured: the same load, in blocks of the same size, without signatures.
    pub(crate) fn beside(&self) -> BenchArgs {
        BenchArgs {
            load: self.load.clone(),
            order: OrderKind::Free,
            executors: vec![ExecutorKind::Dag],
            access: AccessKind::Static,
            threads: self.threads,
            pin: self.pin,
            touch: 0,
            // What decides the accounts' addresses; the bytes are not handed on.
            signatures: self.signatures,
            // A builder plans the block that it executes.
            overlap: Switch::Off,
            fast_path: Switch::On,
            traces: TracesKind::On,
            store: self.store.clone(),
            durability: self.durability,
            hasher: self.hasher,
            evm_spec: self.evm_spec,
            block_gas: self.block_gas,
            runs: self.runs,
            profile: None,
            oracle: OracleKind::Full,
            json: None,
            csv: None,
            report: None,
        }
    }

    /// On how many threads validators run.
    pub(crate) fn validators(&self) -> Result<Vec<usize>, Usage> {
        let builder = threads(self.threads)?;
        let usual = [1, builder];
        let mut counts = Vec::new();
        for count in if self.given_threads.is_empty() { &usual } else { &self.given_threads[..] } {
            let count =
                threads(Some(*count)).map_err(|Usage(what)| Usage(what.replace("--threads", "--given-threads")))?;
            pin::check(self.pin, count)?;
            if !counts.contains(&count) {
                counts.push(count);
            }
        }
        Ok(counts)
    }

    /// Every flag as resolved.
    pub(crate) fn resolved(&self, threads: usize, validators: &[usize]) -> Map<String, Value> {
        let artefacts: Vec<_> = self.artefacts.iter().map(|kind| word(*kind)).collect();
        let mut map = self.beside().resolved(threads);
        map.insert("artefact".into(), json!(artefacts));
        map.insert("given_threads".into(), json!(validators));
        map.insert("quality".into(), json!(self.quality));
        map
    }
}
