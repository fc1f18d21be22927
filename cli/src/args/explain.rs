//! Flags of `explain`.

use super::BenchArgs;
use clap::Args;
use std::path::PathBuf;

/// Flags of [`BenchArgs`] that describe a load and how it is run, all of which a file or folder says itself.
const LOAD: [&str; 29] = [
    "workload",
    "accounts",
    "txs",
    "block_txs",
    "alpha",
    "gamma",
    "hot",
    "pools",
    "hot_pool_share",
    "mix",
    "seed",
    "order",
    "executors",
    "access",
    "threads",
    "pin",
    "touch",
    "signatures",
    "overlap",
    "fast_path",
    "traces",
    "store",
    "durability",
    "hasher",
    "evm_spec",
    "block_gas",
    "runs",
    "profile",
    "oracle",
];

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The folder of a recorded block, or a result of `bench run --json`, whose load is made again; without it a load is made
    /// as the flags say
    #[arg(value_name = "FILE|DIR", conflicts_with_all = LOAD)]
    pub(crate) of: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
    /// Which block of a load [default: 1]
    #[arg(long)]
    pub(crate) block: Option<u64>,
    /// How many of the hottest keys to list
    #[arg(long, default_value_t = 10)]
    pub(crate) keys: usize,
    /// Writes the picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Writes the graph for Graphviz
    #[arg(long, value_name = "FILE")]
    pub(crate) dot: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::{CommandFactory as _, Parser as _, error::ErrorKind};

    #[test]
    fn a_file_says_all_of_its_load_itself() {
        // Where the result goes, what of it is shown, and flags that are refused anyhow.
        let beside = ["json", "svg", "dot", "keys", "block", "csv", "report", "help"];
        let mut command = Cli::command();
        command.build();
        let explain = command.find_subcommand("explain").expect("a command");
        let load = explain.get_arguments().filter(|arg| arg.get_long().is_some_and(|long| !beside.contains(&long)));
        let mut tried = 0;
        for arg in load {
            let long = arg.get_long().expect("a flag");
            let default = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
            let value = default.unwrap_or_else(|| "1".to_owned());
            let line = ["phalanx", "explain", "result.json", &format!("--{long}={value}")].map(str::to_owned);
            let kind = Cli::try_parse_from(&line).map_or_else(|error| Some(error.kind()), |_| None);
            assert_eq!(kind, Some(ErrorKind::ArgumentConflict), "{line:?}");
            tried += 1;
        }
        assert!(tried > 20, "{tried}");
        assert!(Cli::try_parse_from(["phalanx", "explain", "result.json", "--block", "2", "--json", "-"]).is_ok());
    }
}
