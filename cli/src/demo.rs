//! `demo`: the main job on real input, without configuration, in under a minute.

use crate::{
    args::{BenchArgs, BenchCommand, Cli, Command, DemoArgs, Store, WorkloadKind},
    bench,
    result::BenchResult,
    ui::Ui,
};
use anyhow::Context as _;
use clap::Parser as _;

/// Accounts of each workload.
const ACCOUNTS: u64 = 1 << 18;
/// Transactions of each workload, small enough for two cores to run all executors and the oracle within a minute.
const TXS: [(WorkloadKind, u64); 2] = [(WorkloadKind::Native, 400_000), (WorkloadKind::Erc20, 200_000)];

/// Runs both workloads on the DAG and in sequence.
pub(crate) fn run(args: &DemoArgs, ui: &Ui) -> anyhow::Result<Vec<BenchResult>> {
    let folder = tempfile::tempdir().context("making a temporary folder for the store")?;
    let mut results = Vec::new();
    for (workload, txs) in TXS {
        let mut bench = defaults()?;
        bench.load.workload = workload;
        bench.load.accounts = ACCOUNTS;
        bench.load.txs = txs;
        bench.load.seed = args.seed;
        bench.threads = args.threads;
        bench.executors = vec![crate::args::ExecutorKind::Dag, crate::args::ExecutorKind::Sequential];
        let kind = crate::args::word(workload);
        bench.store = match &args.store {
            Some(store) => store.path().map_or(Store::Mem, |path| store.at(path.join(&kind))),
            None if cfg!(feature = "rocksdb") => Store::Rocks(folder.path().join(&kind)),
            None => Store::File(folder.path().join(&kind)),
        };
        results.push(bench::run(&bench, ui)?);
        if ui.stopped() {
            break;
        }
    }
    Ok(results)
}

/// The stated defaults of `bench run`.
fn defaults() -> anyhow::Result<BenchArgs> {
    match Cli::try_parse_from(["phalanx", "bench", "run"])?.command {
        Some(Command::Bench(BenchCommand::Run(args))) => Ok(*args),
        _ => anyhow::bail!("`bench run` parses to something else"),
    }
}
