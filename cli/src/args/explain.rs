//! Flags of `explain`.

use super::BenchArgs;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The folder of a recorded block, or a result of `bench run --json`, whose load is made again; without it a load is made
    /// as the flags say
    #[arg(value_name = "FILE|DIR")]
    pub(crate) of: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
    /// Which block of a load
    #[arg(long, default_value_t = 1)]
    pub(crate) block: u64,
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
