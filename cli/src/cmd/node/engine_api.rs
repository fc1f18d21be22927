//! Flags of a node whose head a consensus client chooses over the Engine API.

use clap::Args;
use phalanx_lab::config::heading;
use phalanx_node::EngineApiConfig;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// File of the secret in the node's folder.
const JWT: &str = "jwt.hex";

#[derive(Debug, Args)]
pub(super) struct EngineApiArgs {
    /// Address of the Engine API, HTTP and WebSocket. With --consensus engine
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8551", help_heading = heading::BLOCKS)]
    authrpc: SocketAddr,
    /// File of the secret that consensus client and node share, which is made if it is not there [default: jwt.hex in --datadir]
    #[arg(long, value_name = "FILE", help_heading = heading::BLOCKS)]
    jwt: Option<PathBuf>,
}

impl EngineApiArgs {
    /// Settings of a node with this folder.
    pub(super) fn config(&self, folder: &Path) -> EngineApiConfig {
        EngineApiConfig { address: self.authrpc, jwt: self.jwt.clone().unwrap_or_else(|| folder.join(JWT)) }
    }
}
