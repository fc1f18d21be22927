//! Settings of a remote node, and of what is read of it.

use std::{path::PathBuf, time::Duration};

/// Remote node: a chain for development goes on from its chain.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// Address of its JSON-RPC, as `https://node.example/key`.
    pub url: String,
    /// Height of the block; `None` for the newest one.
    pub block: Option<u64>,
    /// Folder of what was read, a file per block.
    pub cache: PathBuf,
    /// Folder of the file of a process that finds the other one in use.
    pub spare: PathBuf,
    /// Time that an answer may take.
    pub timeout: Duration,
    /// Number of further tries behind a failure that may pass.
    pub retries: u32,
    /// Maximum number of requests per second; `None` for no maximum.
    pub per_second: Option<u32>,
    /// Maximum number of requests that go together.
    pub batch: usize,
}

impl RemoteConfig {
    /// The newest block of a node, with usual limits.
    pub fn new(url: impl Into<String>, cache: PathBuf, spare: PathBuf) -> Self {
        let timeout = Duration::from_secs(30);
        Self { url: url.into(), block: None, cache, spare, timeout, retries: 5, per_second: None, batch: 100 }
    }
}
