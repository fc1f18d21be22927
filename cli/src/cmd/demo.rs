//! `demo`: native and ERC20 transfers through every stage, without configuration, in under a minute.

use crate::{exit, output, ui};
use anyhow::Context as _;
use clap::Args;
use phalanx::{Executor, merkle::Memory};
use phalanx_lab::{
    bench::workload,
    config::{LoadConfig, RunConfig, Store, Word as _, WorkloadKind, memory},
    error::Interrupted,
    machine::temporary::Temporary,
    result::{BenchResult, INTERRUPTED},
    ui::Ui,
};
use std::path::PathBuf;

/// Accounts of each workload.
const ACCOUNTS: u64 = 1 << 18;
/// Transactions of each workload, small enough for two cores to run all executors and the oracle within a minute.
const TXS: [(WorkloadKind, u64); 2] = [(WorkloadKind::Native, 400_000), (WorkloadKind::Erc20, 200_000)];

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Worker threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
    /// Place of the state: mem, file:DIR or rocks:DIR [default: files in a temporary folder]
    #[arg(long, value_parser = Store::parse)]
    store: Option<Store>,
    /// Part of the state in memory: resident, or cached:BYTES (with K, M or G) of values besides an index; for a store on disk
    #[arg(long, value_parser = memory, default_value = "resident")]
    memory: Memory,
    /// Seed of the workloads
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Write the results as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// Folder for the report
    #[arg(long, value_name = "DIR", default_value = "phalanx-report")]
    report: PathBuf,
}

impl DemoArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let results = self.measure(&ui::measuring())?;
        output::results(&results, self.json.as_deref(), &results, None, Some(&self.report))?;
        Ok(exit::code_of_results(&results))
    }

    /// Runs both workloads on the DAG and on sequential revm.
    fn measure(&self, ui: &Ui) -> anyhow::Result<Vec<BenchResult>> {
        let folder = Temporary::new().context("making a temporary folder for the store")?;
        let mut results: Vec<BenchResult> = Vec::new();
        for (workload, txs) in TXS {
            let kind = workload.word();
            let store = match &self.store {
                Some(store) => store.path().map_or(Store::Mem, |path| store.at(path.join(kind))),
                None => Store::File(folder.path().join(kind)),
            };
            let config = RunConfig {
                load: LoadConfig { workload, accounts: ACCOUNTS, txs, seed: self.seed, ..LoadConfig::default() },
                executors: vec![Executor::Dag, Executor::Sequential],
                threads: self.threads,
                store,
                memory: self.memory,
                command: output::command(),
                ..RunConfig::default()
            };
            match (workload::run(&config, ui), results.last_mut()) {
                // The workload before is reported.
                (Err(error), Some(before)) if error.is::<Interrupted>() => {
                    before.tags.push(INTERRUPTED.to_owned());
                    break;
                }
                (result, _) => results.push(result?),
            }
            if ui.stopped() {
                break;
            }
        }
        Ok(results)
    }
}
