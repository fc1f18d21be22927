//! A node from its start to its end.

use crate::{
    chain::{Chain, Opened},
    config::{NodeConfig, Production},
    error::NodeError,
    metrics::{Metrics, Stages},
    producer::{Bell, Producer},
    rpc::{Api, Pages, Server, serve_pages},
    store::{Cut, Sizes},
};
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
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
    /// Dropped to end the producer.
    stop: Option<Sender<()>>,
    producer: Option<JoinHandle<()>>,
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
        let metrics = Arc::new(Metrics::new());
        let Opened { chain, cuts } = Chain::open(config, Arc::new(Stages::new(Arc::clone(&metrics))))?;
        let chain = Arc::new(chain);
        metrics.at(chain.height());
        let (stop, stopped) = bounded(0);
        let (producer, bell) = Producer::new(
            Arc::clone(&chain),
            Arc::clone(&metrics),
            config.production,
            config.gas_limit,
            config.beneficiary,
            stopped,
        );
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(READERS + config.rpc.max_calls)
            .thread_name("phalanx-rpc")
            .enable_all()
            .build()
            .map_err(NodeError::Threads)?;
        let healthy = Arc::new(AtomicBool::new(true));
        let (stopping, stops) = watch::channel(false);
        let pages = config.metrics.map(|address| {
            let pages =
                Pages { chain: Arc::clone(&chain), metrics: Arc::clone(&metrics), healthy: Arc::clone(&healthy) };
            runtime.block_on(start_pages(address, Arc::new(pages), stops))
        });
        let pages = pages.transpose()?;
        let api = Arc::new(Api::new(Arc::clone(&chain), config.rpc.clone(), metrics, bell.clone()));
        let server = runtime.block_on(Server::start(api))?;
        let (ended, producer) = run(producer, healthy)?;
        if config.production == Production::Instant {
            // The pool is empty after a start; this is for the day when it is not.
            Bell::ring(&bell);
        }
        Ok(Self {
            address: server.address,
            chain: Some(chain),
            runtime: Some(runtime),
            server: Some(server),
            stopping,
            stop: Some(stop),
            producer: Some(producer),
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
        drop(self.stop.take());
        self.stopping.send_replace(true);
        if let Some(producer) = self.producer.take() {
            // Its panic was logged.
            let _ = producer.join();
        }
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

/// Starts the producer's thread; the receiver gets the reason if it ends by itself.
fn run(producer: Producer, healthy: Arc<AtomicBool>) -> Result<(Receiver<NodeError>, JoinHandle<()>), NodeError> {
    let (tell, ended) = bounded(1);
    let thread = std::thread::Builder::new().name("phalanx-producer".into()).spawn(move || {
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| producer.run()));
        let why = match ran {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => NodeError::Setting("block production panicked: this is a bug; see the log".into()),
        };
        tracing::error!(%why, "block production has ended");
        healthy.store(false, Ordering::Relaxed);
        let _ = tell.send(why);
    });
    Ok((ended, thread.map_err(NodeError::Threads)?))
}
