//! `bench build`: blocks built from signed bytes, and validated with each artefact.

use crate::{
    exit,
    flags::{ArtefactKind, DurabilityKind, Hasher, LoadArgs, SpecKind, Switch},
    output, ui,
};
use clap::Args;
use phalanx_lab::{
    bench::build,
    config::{BuildConfig, RunConfig, Store},
};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    load: LoadArgs,
    /// Sign the transactions; the builder recovers their senders inside the timer
    #[arg(long, value_enum, default_value_t = Switch::On)]
    signatures: Switch,
    /// Worker threads of the builder [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
    /// Confine each run to as many cores as it has threads, as in `bench run`
    #[arg(long, value_enum, default_value_t = Switch::Off, num_args = 0..=1, default_missing_value = "on")]
    pin: Switch,
    /// Data that validators get beside the blocks; repeatable, or separated by commas [default: all three]
    #[arg(long = "artefact", value_enum, value_delimiter = ',', default_values_t = ArtefactKind::ALL, hide_default_value = true)]
    artefacts: Vec<ArtefactKind>,
    /// Worker threads of the validators; repeatable, or separated by commas [default: 1 and the builder's]
    #[arg(long, value_delimiter = ',', value_name = "N,..")]
    given_threads: Vec<usize>,
    /// Place of the state: mem, file:DIR or rocks:DIR, a new or empty folder with a subfolder for each run
    #[arg(long, value_parser = Store::parse, default_value = "mem")]
    store: Store,
    /// Failures that a committed block survives
    #[arg(long, value_enum, default_value_t = DurabilityKind::Async)]
    durability: DurabilityKind,
    /// Hash of the state commitment
    #[arg(long, value_enum, default_value_t = Hasher::Sha256)]
    hasher: Hasher,
    /// Rules of the EVM
    #[arg(long, value_enum, default_value_t = SpecKind::Osaka)]
    evm_spec: SpecKind,
    /// Gas limit of a block
    #[arg(long, default_value_t = 30_000_000_000)]
    block_gas: u64,
    /// Repetitions of everything
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Report quality and cost of the predictions by their source
    #[arg(long)]
    quality: bool,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// Write a CSV file with a row per run
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

impl BuildArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let run = RunConfig {
            load: self.load.config(),
            threads: self.threads,
            pin: self.pin.into(),
            signatures: self.signatures.into(),
            overlap: false,
            store: self.store.clone(),
            durability: self.durability.into(),
            hasher: self.hasher.into(),
            evm_spec: self.evm_spec.into(),
            block_gas: self.block_gas,
            runs: self.runs,
            command: output::command(),
            ..RunConfig::default()
        };
        let artefacts = self.artefacts.iter().map(|artefact| (*artefact).into()).collect();
        let config = BuildConfig { run, artefacts, given_threads: self.given_threads.clone(), quality: self.quality };
        let result = [build::run(&config, &ui::open()?)?];
        output::results(&result, self.json.as_deref(), &result[0], self.csv.as_deref(), self.report.as_deref())?;
        Ok(exit::code_of_results(&result))
    }
}
