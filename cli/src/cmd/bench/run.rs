//! `bench run`: one workload through the whole engine.

use crate::{
    exit,
    flags::{
        AccessKind, DurabilityKind, ExecutorKind, Hasher, LoadArgs, Oracle, OrderKind, SpecKind, Switch, TracesKind,
    },
    output, ui,
};
use clap::{Args, FromArgMatches as _};
use phalanx_lab::{
    bench::workload,
    config::{RunConfig, Store},
};
use std::{ffi::OsString, path::PathBuf};

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    load: LoadArgs,
    /// Order of the transactions
    #[arg(long, value_enum, default_value_t = OrderKind::Free)]
    order: OrderKind,
    /// Executor; repeatable, all run the same blocks in turns
    #[arg(long = "executor", value_enum, default_values_t = [ExecutorKind::Dag])]
    executors: Vec<ExecutorKind>,
    /// Source of access sets
    #[arg(long, value_enum, default_value_t = AccessKind::Static)]
    access: AccessKind,
    /// Worker threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
    /// Confine each run to as many cores as it has threads, worker i to core i, all other threads to these cores (Linux).
    /// Physical cores come before their siblings, and one NUMA node before the next
    #[arg(long, value_enum, default_value_t = Switch::Off, num_args = 0..=1, default_missing_value = "on")]
    pin: Switch,
    /// Memory, in GiB, to write to before the timer starts, so that the run need not wait for new pages. `phalanx doctor`
    /// measures how long they take
    #[arg(long, value_name = "GIB", default_value_t = 0)]
    touch: u64,
    /// Sign the transactions and recover their senders inside the timer
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    signatures: Switch,
    /// Plan the next block while one is executed, on the state before it (in turns on one thread)
    #[arg(long, value_enum, default_value_t = Switch::On)]
    overlap: Switch,
    /// Execute plain transfers of the DAG without the EVM
    #[arg(long, value_enum, default_value_t = Switch::On)]
    fast_path: Switch,
    /// Replay contract calls of the DAG from recorded traces; `check` interprets them as well and compares
    #[arg(long, value_enum, default_value_t = TracesKind::On)]
    traces: TracesKind,
    /// Place of the state: mem, file:DIR or rocks:DIR, a new or empty folder
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
    /// Gas limit of a block, by the sum of its transactions' limits
    #[arg(long, default_value_t = 30_000_000_000)]
    block_gas: u64,
    /// Repetitions of each executor
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Profile of flags: fafo-paper, or a TOML file; flags of the command line override it
    #[arg(long, value_name = "FILE.toml|fafo-paper")]
    profile: Option<String>,
    /// Share of the blocks that are compared with sequential revm
    #[arg(long, value_enum, default_value_t = Oracle::Full)]
    oracle: Oracle,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a CSV file with a row per run
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

impl RunArgs {
    /// Reads flags of `bench run` outside of a command line.
    pub(crate) fn parse(flags: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let command = Self::augment_args(clap::Command::new("bench run").no_binary_name(true));
        Self::from_arg_matches(&command.try_get_matches_from(flags)?)
    }

    /// The run that these flags describe.
    pub(crate) fn config(&self) -> RunConfig {
        RunConfig {
            load: self.load.config(),
            order: self.order.into(),
            executors: self.executors.iter().map(|executor| (*executor).into()).collect(),
            access: self.access.into(),
            threads: self.threads,
            pin: self.pin.into(),
            touch: self.touch,
            signatures: self.signatures.into(),
            overlap: self.overlap.into(),
            fast_path: self.fast_path.into(),
            traces: self.traces.into(),
            store: self.store.clone(),
            durability: self.durability.into(),
            hasher: self.hasher.into(),
            evm_spec: self.evm_spec.into(),
            block_gas: self.block_gas,
            runs: self.runs,
            profile: self.profile.clone(),
            oracle: self.oracle.into(),
            command: output::command(),
        }
    }

    /// True if the flags name a file for the result.
    pub(crate) const fn has_output(&self) -> bool {
        self.json.is_some() || self.csv.is_some() || self.report.is_some()
    }

    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let result = [workload::run(&self.config(), &ui::open()?)?];
        output::results(&result, self.json.as_deref(), &result[0], self.csv.as_deref(), self.report.as_deref())?;
        Ok(exit::code_of_results(&result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_laboratory_has_the_defaults_of_the_command_line() {
        let config = RunArgs::parse([]).unwrap().config();
        assert_eq!(RunConfig { command: String::new(), ..config }, RunConfig::default());
    }
}
