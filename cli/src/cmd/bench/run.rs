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
    /// Who orders the transactions
    #[arg(long, value_enum, default_value_t = OrderKind::Free)]
    order: OrderKind,
    /// Who executes; repeatable: the same blocks, interleaved
    #[arg(long = "executor", value_enum, default_values_t = [ExecutorKind::Dag])]
    executors: Vec<ExecutorKind>,
    /// Where access sets come from
    #[arg(long, value_enum, default_value_t = AccessKind::Static)]
    access: AccessKind,
    /// Worker threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
    /// Confine each run to as many cores as it has threads, worker i to core i and all else, the writer too, to these cores.
    /// Taken are physical cores before their siblings and one NUMA node before the next, of those that the process may use
    /// (Linux)
    #[arg(long, value_enum, default_value_t = Switch::Off, num_args = 0..=1, default_missing_value = "on")]
    pin: Switch,
    /// Memory, in GiB, to write to before the timer starts and to keep for the run, which then need not wait for the system
    /// to find and clear it. `phalanx doctor` says whether that takes long
    #[arg(long, value_name = "GIB", default_value_t = 0)]
    touch: u64,
    /// Sign the transactions and recover their senders inside the timer
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    signatures: Switch,
    /// Plan the next block beside the execution of one, from the state before it (with one thread they take turns)
    #[arg(long, value_enum, default_value_t = Switch::On)]
    overlap: Switch,
    /// Do plain transfers of the DAG without the EVM
    #[arg(long, value_enum, default_value_t = Switch::On)]
    fast_path: Switch,
    /// Replay calls of contracts on the DAG that go a way which was recorded; `check` interprets them as well and compares
    #[arg(long, value_enum, default_value_t = TracesKind::On)]
    traces: TracesKind,
    /// Where the state lives: mem, file:DIR or rocks:DIR, the folder new or empty
    #[arg(long, value_parser = Store::parse, default_value = "mem")]
    store: Store,
    /// What a committed block survives
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
    /// Flags by a name, fafo-paper, or from a file of TOML; what the command line says itself counts more
    #[arg(long, value_name = "FILE.toml|fafo-paper")]
    profile: Option<String>,
    /// How results are compared with sequential revm
    #[arg(long, value_enum, default_value_t = Oracle::Full)]
    oracle: Oracle,
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

impl RunArgs {
    /// Reads flags of `bench run` that stand for themselves.
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
