//! A node from its start to its end.

use crate::{
    chain::Chain,
    config::{IngressAddress, NodeConfig},
    error::NodeError,
    join::Join,
    joining::{Joiner, SourceSlot},
    opening::{Opening, Slot},
    replica, report,
    source::Source,
    store::{Cut, Sizes},
};
use crossbeam_channel::{Receiver, bounded};
use parking_lot::Mutex;
use phalanx_abci::App;
use phalanx_net::{Replica, Status};
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::{runtime::Runtime, sync::watch};

/// Time that requests in flight get when the node stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of threads that answer requests: those of calls, and as many for reads.
const READERS: usize = 32;

/// Maximum number of threads that read and write sockets.
const SOCKETS: usize = 8;

/// Number of threads that read and write sockets: half of the cores. On two cores a second one mostly wakes and sleeps.
fn socket_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, SOCKETS))
}

/// A running node. [`Self::stop`] ends it; dropping it does the same.
#[derive(Debug)]
pub struct Node {
    serving: Slot,
    runtime: Option<Runtime>,
    stopping: watch::Sender<bool>,
    source: SourceSlot,
    /// The thread that fills the place of the source, if the replica joins.
    joiner: Option<Joiner>,
    ended: Mutex<Receiver<NodeError>>,
    /// Addresses of the settings, until those that serve are known.
    addresses: (SocketAddr, Option<SocketAddr>),
}

impl Node {
    /// Opens the chain, or begins it, and serves it. Blocks are made if the settings say so. A node that is to take a
    /// snapshot first ([`CometConfig::state_sync`](crate::CometConfig::state_sync), or
    /// [`Beginning::Snapshot`](phalanx_net::Beginning::Snapshot)) opens and serves the chain behind it.
    ///
    /// # Errors
    /// [`NodeError`]: nothing is left running.
    pub fn start(config: &NodeConfig) -> Result<Self, NodeError> {
        config.check()?;
        if let Some(replica) = config.replica() {
            replica::check(config, replica)?;
        }
        if config.comet().is_some() {
            report::refuse_divergence(config.store.folder())?;
        }
        let healthy = Arc::new(AtomicBool::new(true));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(socket_threads())
            .max_blocking_threads(READERS + config.rpc.max_calls)
            .thread_name("phalanx-rpc")
            .enable_all()
            .build()
            .map_err(NodeError::Threads)?;
        let (stopping, stops) = watch::channel(false);
        let (tell, ended) = bounded(1);
        let serving = Slot::default();
        let opening = Opening {
            config: config.clone(),
            runtime: runtime.handle().clone(),
            stops,
            healthy: Arc::clone(&healthy),
            slot: Arc::clone(&serving),
        };
        let (slot, mut joiner) = (SourceSlot::default(), None);
        let source = match config.comet() {
            None if Joiner::is_due(config) => {
                joiner = Some(Joiner::start(opening, Arc::clone(&slot), healthy, tell)?);
                None
            }
            Some(comet) if Join::is_due(config)? => {
                let told = tell.clone();
                let open = move || {
                    let validator = opening.open()?.validator(Arc::clone(&healthy), told.clone());
                    validator.ok_or_else(|| NodeError::Setting("CometBFT orders the blocks".into()))
                };
                Some(Source::listen(comet.abci, App::joining(Join::new(config, Box::new(open), tell)?))?)
            }
            _ => Some(opening.open()?.start(healthy, tell)?),
        };
        if source.is_some() {
            *slot.lock() = source;
        }
        let addresses = (config.rpc.address, config.metrics);
        Ok(Self {
            serving,
            runtime: Some(runtime),
            stopping,
            source: slot,
            joiner,
            ended: Mutex::new(ended),
            addresses,
        })
    }

    /// Address of JSON-RPC: that of the settings until the chain is open.
    pub fn address(&self) -> SocketAddr {
        self.serving.lock().as_ref().map_or(self.addresses.0, |serving| serving.address())
    }

    /// Address of the Engine API, if a consensus client drives the node.
    pub fn engine_api_address(&self) -> Option<SocketAddr> {
        self.serving.lock().as_ref().and_then(|serving| serving.engine_api())
    }

    /// Addresses of the binary ingress: none until the chain is open.
    pub fn ingress(&self) -> Vec<IngressAddress> {
        self.serving.lock().as_ref().map(|serving| serving.ingress().to_vec()).unwrap_or_default()
    }

    /// Address of the metrics and the health page: that of the settings until the chain is open.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.serving.lock().as_ref().map_or(self.addresses.1, |serving| serving.metrics)
    }

    /// True once the chain is open: a node that joins by a snapshot serves nothing before.
    pub fn is_open(&self) -> bool {
        self.serving.lock().is_some()
    }

    fn chain(&self) -> Option<Arc<Chain>> {
        self.serving.lock().as_ref().map(|serving| Arc::clone(&serving.chain))
    }

    /// Address that CometBFT connects to, if it orders the blocks.
    pub fn abci_address(&self) -> Option<SocketAddr> {
        self.source.lock().as_ref().and_then(Source::abci_address)
    }

    /// Progress of this node's replica, if replicas order the blocks.
    pub fn replica(&self) -> Option<Status> {
        self.source.lock().as_ref().and_then(Source::replica).map(Replica::status)
    }

    /// Ends of files that belonged to no committed block, and were cut off when the node started.
    pub fn cuts(&self) -> Vec<Cut> {
        self.serving.lock().as_ref().map(|serving| serving.cuts.clone()).unwrap_or_default()
    }

    /// Height of the newest visible block.
    pub fn height(&self) -> u64 {
        self.chain().map_or(0, |chain| chain.height())
    }

    /// Sizes of the block store.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn sizes(&self) -> Result<Sizes, NodeError> {
        self.chain().map_or_else(|| Ok(Sizes::default()), |chain| Ok(chain.store.sizes()?))
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
        drop(self.joiner.take());
        drop(self.source.lock().take());
        let Some(runtime) = self.runtime.take() else { return };
        let serving = self.serving.lock().take();
        let chain = serving.map(|serving| runtime.block_on(serving.stop(PATIENCE)));
        runtime.shutdown_timeout(PATIENCE);
        if let Some(chain) = chain {
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
