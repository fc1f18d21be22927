//! A node from its start to its end.

use crate::{
    chain::{Chain, Opened},
    config::NodeConfig,
    error::NodeError,
    metrics::{Metrics, Stages},
    report,
    rpc::{Api, Pages, Server, serve_pages},
    source::{Ready, Source},
    store::{Cut, Sizes},
};
use crossbeam_channel::Receiver;
use parking_lot::Mutex;
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::{net::TcpListener, runtime::Runtime, sync::watch};

/// Time that requests in flight get when the node stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of threads that answer requests: those of calls, and as many for reads.
const READERS: usize = 32;

/// A running node. [`Self::stop`] ends it; dropping it does the same.
#[derive(Debug)]
pub struct Node {
    chain: Option<Arc<Chain>>,
    runtime: Option<Runtime>,
    server: Option<Server>,
    stopping: watch::Sender<bool>,
    source: Option<Source>,
    ended: Mutex<Receiver<NodeError>>,
    cuts: Vec<Cut>,
    address: SocketAddr,
    metrics: Option<SocketAddr>,
}

impl Node {
    /// Opens the chain, or begins it, and serves it. Blocks are made if the settings say so.
    ///
    /// # Errors
    /// [`NodeError`]: nothing is left running.
    pub fn start(config: &NodeConfig) -> Result<Self, NodeError> {
        config.check()?;
        if config.comet.is_some() {
            report::refuse_divergence(config.store.folder())?;
        }
        let metrics = Arc::new(Metrics::new());
        let Opened { chain, cuts } = Chain::open(config, Arc::new(Stages::new(Arc::clone(&metrics))))?;
        let chain = Arc::new(chain);
        metrics.at(chain.height());
        let healthy = Arc::new(AtomicBool::new(true));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(READERS + config.rpc.max_calls)
            .thread_name("phalanx-rpc")
            .enable_all()
            .build()
            .map_err(NodeError::Threads)?;
        let (stopping, stops) = watch::channel(false);
        let pages = config.metrics.map(|address| {
            let pages =
                Pages { chain: Arc::clone(&chain), metrics: Arc::clone(&metrics), healthy: Arc::clone(&healthy) };
            runtime.block_on(start_pages(address, Arc::new(pages), stops))
        });
        let pages = pages.transpose()?;
        let (ready, exit) = Ready::new(config, &chain, &metrics, &runtime);
        let api = Arc::new(Api::new(Arc::clone(&chain), config.rpc.clone(), metrics, exit));
        let server = runtime.block_on(Server::start(api))?;
        let (source, ended) = ready.start(healthy)?;
        Ok(Self {
            address: server.address,
            chain: Some(chain),
            runtime: Some(runtime),
            server: Some(server),
            stopping,
            source: Some(source),
            ended: Mutex::new(ended),
            cuts,
            metrics: pages,
        })
    }

    /// Address of JSON-RPC.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of the metrics and the health page.
    pub const fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Address that CometBFT connects to, if it orders the blocks.
    pub fn abci_address(&self) -> Option<SocketAddr> {
        self.source.as_ref().and_then(Source::abci_address)
    }

    /// Ends of files that belonged to no committed block, and were cut off when the node started.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// Height of the newest visible block.
    pub fn height(&self) -> u64 {
        self.chain.as_ref().map_or(0, |chain| chain.height())
    }

    /// Sizes of the block store.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn sizes(&self) -> Result<Sizes, NodeError> {
        self.chain.as_ref().map_or_else(|| Ok(Sizes::default()), |chain| Ok(chain.store.sizes()?))
    }

    /// Waits until the node ends by itself, or the time is over.
    ///
    /// # Errors
    /// The reason for which block production has ended.
    pub fn wait(&self, time: Duration) -> Result<(), NodeError> {
        self.ended.lock().recv_timeout(time).map_or(Ok(()), Err)
    }

    /// Ends the node: requests in flight are answered, the block in the making is finished, and everything is written.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stopping.send_replace(true);
        drop(self.source.take());
        if let (Some(runtime), server) = (self.runtime.take(), self.server.take()) {
            if let Some(server) = server {
                runtime.block_on(server.stop(PATIENCE));
            }
            runtime.shutdown_timeout(PATIENCE);
        }
        if let Some(chain) = self.chain.take() {
            if let Err(error) = chain.store.flush() {
                tracing::warn!(%error, "the index of blocks is not flushed");
            }
            drop(chain);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

async fn start_pages(
    address: SocketAddr,
    pages: Arc<Pages>,
    stops: watch::Receiver<bool>,
) -> Result<SocketAddr, NodeError> {
    let listen = |source| NodeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    tokio::spawn(serve_pages(listener, pages, stops));
    Ok(address)
}
