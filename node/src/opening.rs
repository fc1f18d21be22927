//! Opening of a chain with the servers on it: at the start of a node, or once a node has joined the chain.

use crate::{
    chain::{Chain, Opened},
    config::{IngressAddress, NodeConfig, RpcConfig},
    edge::Places,
    engine_api::Secret,
    error::NodeError,
    ingress::Ingress,
    intake::Intake,
    metrics::Metrics,
    rpc::{Api, Pages, Server, serve_pages},
    source::Ready,
    store::Cut,
};
use parking_lot::Mutex;
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::{net::TcpListener, runtime::Handle, sync::watch};

/// An open chain and its servers.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) chain: Arc<Chain>,
    server: Server,
    ingress: Option<Ingress>,
    /// The Engine API, if a consensus client drives the node.
    engine_api: Option<Server>,
    pub(crate) metrics: Option<SocketAddr>,
    /// Ends of files that belonged to no committed block.
    pub(crate) cuts: Vec<Cut>,
}

impl Serving {
    /// Address of JSON-RPC.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Address of the Engine API.
    pub(crate) fn engine_api(&self) -> Option<SocketAddr> {
        self.engine_api.as_ref().map(|server| server.address)
    }

    /// Addresses of the binary ingress.
    pub(crate) fn ingress(&self) -> &[IngressAddress] {
        self.ingress.as_ref().map_or(&[], |ingress| &ingress.addresses)
    }

    /// Refuses new requests, and waits for those in flight.
    pub(crate) async fn stop(self, patience: Duration) -> Arc<Chain> {
        let ingress = async {
            if let Some(ingress) = self.ingress {
                ingress.stop(patience).await;
            }
        };
        let engine_api = async {
            if let Some(server) = self.engine_api {
                server.stop(patience).await;
            }
        };
        // A request may wait for a receipt for longer.
        self.chain.end_waits();
        tokio::join!(self.server.stop(patience), engine_api, ingress);
        self.chain
    }
}

/// Place of what serves, which is empty until the chain is open.
pub(crate) type Slot = Arc<Mutex<Option<Serving>>>;

/// Everything that an opening needs.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) config: NodeConfig,
    pub(crate) runtime: Handle,
    pub(crate) stops: watch::Receiver<bool>,
    pub(crate) healthy: Arc<AtomicBool>,
    pub(crate) slot: Slot,
}

impl Opening {
    /// Opens the chain, starts its servers, and gives its source. The caller's thread is none of the runtime.
    pub(crate) fn open(&self) -> Result<Ready, NodeError> {
        let Self { config, runtime, stops, healthy, slot } = self;
        let metrics = Arc::new(Metrics::new());
        let Opened { chain, cuts } = Chain::open(config, Arc::clone(&metrics.stages) as _)?;
        let chain = Arc::new(chain);
        metrics.at(chain.height());
        let pages = config.metrics.map(|address| {
            let pages =
                Pages { chain: Arc::clone(&chain), metrics: Arc::clone(&metrics), healthy: Arc::clone(healthy) };
            runtime.block_on(start_pages(address, Arc::new(pages), stops.clone()))
        });
        let pages = pages.transpose()?;
        let (ready, exit) = Ready::new(config, &chain, &metrics, (runtime, stops))?;
        let intake = Arc::new(Intake::start(Arc::clone(&chain), exit.clone())?);
        // Each way in has an equal part of the files that connections may take.
        let parts = 1 + u64::from(!config.ingress.is_empty()) + u64::from(config.engine_api().is_some());
        let places = || Places::new(config.rpc.max_connections as usize, parts);
        let start = || async { Ingress::start(&config.ingress, &config.rpc, &intake, &metrics, places()) };
        let ingress = (!config.ingress.is_empty()).then(|| runtime.block_on(start())).transpose()?;
        let api = |limits: RpcConfig| {
            let (intake, exit) = (Arc::clone(&intake), exit.clone());
            Arc::new(Api::new(Arc::clone(&chain), limits, Arc::clone(&metrics), (intake, exit), config))
        };
        let server = runtime.block_on(Server::start(api(config.rpc.clone()), places(), None))?;
        let engine_api = config.engine_api().map(|of| {
            let secret = Secret::open(&of.jwt)?;
            runtime.block_on(Server::start(api(of.limits(&config.rpc)), places(), Some(secret)))
        });
        let engine_api = engine_api.transpose()?;
        *slot.lock() = Some(Serving { chain, server, ingress, engine_api, metrics: pages, cuts });
        Ok(ready)
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
