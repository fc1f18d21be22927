//! `bench build`: blocks built from signed bytes, and validated with each artefact.

use crate::{exit, output, ui};
use clap::{ArgAction, Args};
use phalanx::{
    RootKind,
    merkle::{Durability, HashFn, Memory},
    revm::primitives::hardfork::SpecId,
};
use phalanx_lab::{
    bench::build,
    config::{Artefact, BuildConfig, LoadConfig, RunConfig, Store, choice, heading, memory},
};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    load: LoadConfig,
    /// Sign the transactions; the builder recovers their senders inside the timer
    #[arg(long, action = ArgAction::Set, value_parser = choice::<bool>(), default_value = "on", help_heading = heading::ENGINE)]
    signatures: bool,
    /// Worker threads of the builder [default: one per core]
    #[arg(long, help_heading = heading::ENGINE)]
    threads: Option<usize>,
    /// Confine each run to as many cores as it has threads, as in `bench run`
    #[arg(long, action = ArgAction::Set, value_parser = choice::<bool>(), default_value = "off", num_args = 0..=1, default_missing_value = "on", help_heading = heading::MEASURE)]
    pin: bool,
    /// Data that validators get beside the blocks; repeatable, or separated by commas [default: all three]
    #[arg(long = "artefact", value_parser = choice::<Artefact>(), value_delimiter = ',', default_values = ["none", "exceptions", "access-list"], hide_default_value = true, help_heading = heading::ENGINE)]
    artefacts: Vec<Artefact>,
    /// Worker threads of the validators; repeatable, or separated by commas [default: 1 and the builder's]
    #[arg(long, value_delimiter = ',', value_name = "N,..", help_heading = heading::ENGINE)]
    given_threads: Vec<usize>,
    /// Place of the state: mem, file:DIR or rocks:DIR, a new or empty folder with a subfolder for each run
    #[arg(long, value_parser = Store::parse, default_value = "mem", help_heading = heading::STORE)]
    store: Store,
    /// Part of the state in memory: resident, or cached:BYTES (with K, M or G) of values besides an index; for a store on disk
    #[arg(long, value_parser = memory, default_value = "resident", help_heading = heading::STORE)]
    memory: Memory,
    /// Folder of a state that is made once, as in `bench run`. In place of --store
    #[arg(long, value_name = "DIR", help_heading = heading::STORE)]
    state: Option<PathBuf>,
    /// Failures that a committed block survives
    #[arg(long, value_parser = choice::<Durability>(), default_value = "async", help_heading = heading::STORE)]
    durability: Durability,
    /// Hash of the state commitment
    #[arg(long, value_parser = choice::<HashFn>(), default_value = "sha256", help_heading = heading::STORE)]
    hasher: HashFn,
    /// Root that blocks report
    #[arg(long, value_parser = choice::<RootKind>(), default_value = "twigs", help_heading = heading::STORE)]
    root: RootKind,
    /// Rules of the EVM
    #[arg(long, value_parser = choice::<SpecId>(), default_value = "osaka", help_heading = heading::ENGINE)]
    evm_spec: SpecId,
    /// Gas limit of a block
    #[arg(long, default_value_t = 30_000_000_000, help_heading = heading::ENGINE)]
    block_gas: u64,
    /// Repetitions of everything
    #[arg(long, default_value_t = 1, help_heading = heading::MEASURE)]
    runs: usize,
    /// Report quality and cost of the predictions by their source
    #[arg(long, help_heading = heading::MEASURE)]
    quality: bool,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    json: Option<PathBuf>,
    /// Write a CSV file with a row per run
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    csv: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    report: Option<PathBuf>,
}

impl BuildArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let run = RunConfig {
            load: self.load.clone(),
            threads: self.threads,
            pin: self.pin,
            signatures: self.signatures,
            overlap: false,
            store: self.store.clone(),
            memory: self.memory,
            state: self.state.clone(),
            durability: self.durability,
            hasher: self.hasher,
            root: self.root,
            evm_spec: self.evm_spec,
            block_gas: self.block_gas,
            runs: self.runs,
            command: output::command(),
            ..RunConfig::default()
        };
        let (artefacts, given_threads) = (self.artefacts.clone(), self.given_threads.clone());
        let config = BuildConfig { run, artefacts, given_threads, quality: self.quality };
        let ui = ui::measuring();
        ui::warn_of_idle(config.run.idle(), &ui);
        let result = [build::run(&config, &ui)?];
        output::results(&result, self.json.as_deref(), &result[0], self.csv.as_deref(), self.report.as_deref())?;
        Ok(exit::code_of_results(&result))
    }
}
