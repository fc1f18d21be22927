//! Flags of a chain for development that goes on from another node's.

use super::service::server;
use clap::Args;
use phalanx_lab::{config::heading, error::Usage};
use phalanx_node::{Remote, RemoteConfig};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// File of a chain for development in its folder: its genesis, for a restart and for nodes that follow.
pub(super) const DEV_GENESIS: &str = "genesis.json";

#[derive(Debug, Args)]
pub(super) struct RemoteArgs {
    /// Go on from the chain of the node with this JSON-RPC: what the chain for development lacks is read there
    #[arg(long, value_name = "URL", value_parser = server, help_heading = heading::DEVELOPMENT)]
    fork_url: Option<String>,
    /// Height of the block to go on from [default: the newest]
    #[arg(long, value_name = "N", requires = "fork_url", help_heading = heading::DEVELOPMENT)]
    fork_block: Option<u64>,
    /// Folder of what was read of the other chain, for later starts [default: phalanx/forks in the user's folder for caches]
    #[arg(long, value_name = "DIR", requires = "fork_url", help_heading = heading::DEVELOPMENT)]
    fork_cache: Option<PathBuf>,
    /// Seconds that an answer of the other node may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30, requires = "fork_url", help_heading = heading::DEVELOPMENT)]
    fork_timeout: u64,
    /// Number of further tries behind a failure of the other node that may pass
    #[arg(long, value_name = "N", default_value_t = 5, requires = "fork_url", help_heading = heading::DEVELOPMENT)]
    fork_retries: u32,
    /// Maximum number of requests to the other node per second [default: none]
    #[arg(long, value_name = "N", requires = "fork_url", help_heading = heading::DEVELOPMENT)]
    fork_rate: Option<u32>,
    /// Maximum number of requests to the other node that go together: 1 for a node without batches
    #[arg(long, value_name = "N", default_value_t = 100, requires = "fork_url", help_heading = heading::DEVELOPMENT)]
    fork_batch: usize,
}

impl RemoteArgs {
    /// Finds the block at the other node, if there is to be one. A chain that `folder` holds goes on from its own block.
    pub(super) fn open(&self, is_development: bool, folder: &Path) -> anyhow::Result<Option<Remote>> {
        let Some(url) = &self.fork_url else { return Ok(None) };
        if !is_development {
            return Err(Usage("--fork-url goes with --dev, of a node that makes the blocks itself".into()).into());
        }
        let caches = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = self.fork_cache.clone().or_else(|| Some(caches().or_else(home)?.join("phalanx/forks")));
        let held = fs::read_to_string(folder.join(DEV_GENESIS)).ok();
        let held = held.and_then(|text| serde_json::from_str::<phalanx::alloy::genesis::Genesis>(&text).ok());
        Ok(Some(Remote::open(&RemoteConfig {
            block: self.fork_block.or_else(|| held?.number),
            timeout: Duration::from_secs(self.fork_timeout),
            retries: self.fork_retries,
            per_second: self.fork_rate,
            batch: self.fork_batch,
            ..RemoteConfig::new(url, cache.unwrap_or_else(|| folder.to_owned()), folder.to_owned())
        })?))
    }
}
