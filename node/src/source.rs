//! Source of blocks of a running node: a producer of its own, another node, a consensus client, CometBFT, or a replica.

use crate::{
    chain::Chain,
    config::{BlockSource, CometConfig, NodeConfig, Production, ReplicaConfig},
    decided::Decided,
    engine_api::{Client, Shape},
    error::NodeError,
    exit::Exit,
    follower::Follower,
    http,
    metrics::Metrics,
    next::Next,
    producer::{Bell, Producer},
    relay::Relay,
    replica,
    requests::Requests,
    taken::Taken,
    upstream::Upstream,
    validator::Validator,
};
use crossbeam_channel::{Sender, bounded};
use phalanx_abci::{App, Server};
use phalanx_net::Replica;
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use tokio::{runtime::Handle, sync::watch};

/// A source that is not running yet.
#[derive(Debug)]
pub(crate) enum Ready {
    /// Producer, the sender whose end stops it, and a bell if a transaction may wait.
    Producer(Box<Producer>, Sender<()>, Option<Bell>),
    /// Follower of another node, and the sender whose end stops it.
    Follower(Box<Follower>, Sender<()>),
    /// Receiver of a consensus client's orders, and the sender whose end stops it.
    Client(Box<Client>, Sender<()>),
    /// CometBFT at an address.
    Comet { address: SocketAddr, decided: Decided, relay: Relay, settings: Box<Ordered> },
    /// Replica of a paper's protocol.
    Replica { settings: Box<ReplicaConfig>, decided: Decided, requests: Requests },
}

/// Settings of a chain that CometBFT orders.
#[derive(Debug)]
pub(crate) struct Ordered {
    comet: CometConfig,
    folder: PathBuf,
    keep: Option<u64>,
    history: usize,
}

/// A running source. Dropping it ends it, and the block in the making is finished.
#[derive(Debug)]
pub(crate) enum Source {
    /// A producer, a follower, or the receiver of a consensus client's orders.
    Thread {
        stop: Option<Sender<()>>,
        thread: Option<JoinHandle<()>>,
    },
    Comet(Server<Validator>),
    Replica(Replica),
}

impl Ready {
    /// Creates the source that the settings name, and the way of transactions to it.
    ///
    /// # Errors
    /// The marks that an earlier run has left of a consensus client cannot be read.
    pub(crate) fn new(
        config: &NodeConfig,
        chain: &Arc<Chain>,
        metrics: &Arc<Metrics>,
        (runtime, stops): (&Handle, &watch::Receiver<bool>),
    ) -> Result<(Self, Exit), NodeError> {
        let (chain, metrics) = (Arc::clone(chain), Arc::clone(metrics));
        let (stop, stopped) = bounded(0);
        match &config.source {
            BlockSource::Own => {}
            BlockSource::Replica(settings) => {
                let (settings, requests) = (settings.clone(), Requests::new(Arc::clone(&chain)));
                let ready = Self::Replica { settings, decided: Decided { chain, metrics }, requests: requests.clone() };
                return Ok((ready, Exit::Replica(requests)));
            }
            BlockSource::Comet(comet) => {
                let (folder, keep, history) = (config.store.folder().to_owned(), config.keep_blocks, config.history);
                let settings = Box::new(Ordered { comet: *comet, folder, keep, history });
                let relay = Relay::start(runtime, comet.rpc);
                let decided = Decided { chain, metrics };
                let ready = Self::Comet { address: comet.abci, decided, relay: relay.clone(), settings };
                return Ok((ready, Exit::Mempool(relay)));
            }
            BlockSource::Followed(url) => {
                let client = http::Client::new(url).map_err(NodeError::Setting)?;
                let upstream = Upstream::new(runtime.clone(), client, stops.clone());
                let follower = Follower::new(chain, metrics, upstream.clone(), stopped);
                return Ok((Self::Follower(Box::new(follower), stop), Exit::Upstream(upstream)));
            }
            BlockSource::Client(api) => {
                let folder = config.store.folder().to_owned();
                let shape = Shape::new(config.gas_limit, api.extra_data.clone())?;
                let (client, handle) = Client::new(chain, metrics, shape, folder, stopped)?;
                return Ok((Self::Client(Box::new(client), stop), Exit::Client(handle)));
            }
        }
        let is_development = chain.spec.parameters().development;
        let next = Arc::new(Next::new(config.gas_limit, config.beneficiary, is_development));
        let (producer, bell) = Producer::new(chain, metrics, config.production, next, stopped);
        // The pool is empty after a start; this is for the day when it is not.
        let first = (config.production == Production::Instant).then(|| bell.clone());
        Ok((Self::Producer(Box::new(producer), stop, first), Exit::Producer(bell)))
    }

    /// The node as the ABCI application sees it; `None` without CometBFT. `tell` gets the reason if it ends by itself.
    pub(crate) fn validator(self, healthy: Arc<AtomicBool>, tell: Sender<NodeError>) -> Option<Validator> {
        let Self::Comet { decided, relay, settings, .. } = self else { return None };
        let Ordered { comet, folder, keep, history } = *settings;
        let taken = Taken::new(&decided.chain, comet.snapshot_every, comet.snapshots, history);
        Some(Validator::new(decided, (taken, relay), folder, keep, (healthy, tell)))
    }

    /// Starts the source; `tell` gets the reason if it ends by itself.
    pub(crate) fn start(self, healthy: Arc<AtomicBool>, tell: Sender<NodeError>) -> Result<Source, NodeError> {
        match self {
            Self::Producer(producer, stop, first) => {
                let thread = run("phalanx-producer", move || producer.run(), healthy, tell)?;
                if let Some(bell) = first {
                    bell.ring();
                }
                Ok(Source::Thread { stop: Some(stop), thread: Some(thread) })
            }
            Self::Follower(follower, stop) => {
                let thread = run("phalanx-follower", move || follower.run(), healthy, tell)?;
                Ok(Source::Thread { stop: Some(stop), thread: Some(thread) })
            }
            Self::Client(client, stop) => {
                let thread = run("phalanx-client", move || client.run(), healthy, tell)?;
                Ok(Source::Thread { stop: Some(stop), thread: Some(thread) })
            }
            Self::Comet { address, .. } => match self.validator(healthy, tell) {
                Some(validator) => Source::listen(address, App::new(validator)),
                None => unreachable!("CometBFT is the source"),
            },
            Self::Replica { settings, decided, requests } => {
                replica::start(*settings, decided, requests, (healthy, tell)).map(Source::Replica)
            }
        }
    }
}

impl Source {
    /// Listens for CometBFT.
    pub(crate) fn listen(address: SocketAddr, app: App<Validator>) -> Result<Self, NodeError> {
        Server::start(address, app).map(Self::Comet).map_err(|source| NodeError::Listen { address, source })
    }

    /// Replica of this node.
    pub(crate) const fn replica(&self) -> Option<&Replica> {
        match self {
            Self::Replica(replica) => Some(replica),
            Self::Thread { .. } | Self::Comet(_) => None,
        }
    }

    /// Address that CometBFT connects to.
    pub(crate) const fn abci_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Thread { .. } | Self::Replica(_) => None,
            Self::Comet(server) => Some(server.address()),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Self::Thread { stop, thread } = self {
            drop(stop.take());
            if let Some(thread) = thread.take() {
                // Its panic was logged.
                let _ = thread.join();
            }
        }
    }
}

/// Starts a thread that makes or takes blocks.
fn run(
    name: &str,
    act: impl FnOnce() -> Result<(), NodeError> + Send + 'static,
    healthy: Arc<AtomicBool>,
    tell: Sender<NodeError>,
) -> Result<JoinHandle<()>, NodeError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        let why = match ran {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => NodeError::Setting("block production panicked: this is a bug; see the log".into()),
        };
        tracing::error!(%why, "there are no more blocks");
        healthy.store(false, Ordering::Relaxed);
        let _ = tell.send(why);
    });
    thread.map_err(NodeError::Threads)
}
