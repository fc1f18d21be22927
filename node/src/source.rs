//! Source of blocks of a running node: a producer of its own, or CometBFT.

use crate::{
    chain::Chain,
    config::{NodeConfig, Production},
    error::NodeError,
    exit::Exit,
    metrics::Metrics,
    producer::{Bell, Producer},
    relay::Relay,
    validator::Validator,
};
use crossbeam_channel::{Receiver, Sender, bounded};
use phalanx_abci::{App, Server};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use tokio::runtime::Runtime;

/// A source that is not running yet.
#[derive(Debug)]
pub(crate) enum Ready {
    /// Producer, the sender whose end stops it, and a bell if a transaction may wait.
    Producer(Box<Producer>, Sender<()>, Option<Bell>),
    /// CometBFT at an address.
    Comet { address: SocketAddr, chain: Arc<Chain>, metrics: Arc<Metrics>, folder: PathBuf, keep: Option<u64> },
}

/// A running source. Dropping it ends it, and the block in the making is finished.
#[derive(Debug)]
pub(crate) enum Source {
    Producer { stop: Option<Sender<()>>, thread: Option<JoinHandle<()>> },
    Comet(Server<Validator>),
}

impl Ready {
    /// Creates the source that the settings name, and the way of transactions to it.
    pub(crate) fn new(
        config: &NodeConfig,
        chain: &Arc<Chain>,
        metrics: &Arc<Metrics>,
        runtime: &Runtime,
    ) -> (Self, Exit) {
        let (chain, metrics) = (Arc::clone(chain), Arc::clone(metrics));
        if let Some(comet) = config.comet {
            let (address, folder, keep) = (comet.abci, config.store.folder().to_owned(), config.keep_blocks);
            return (
                Self::Comet { address, chain, metrics, folder, keep },
                Exit::Mempool(Relay::start(runtime, comet.rpc)),
            );
        }
        let (stop, stopped) = bounded(0);
        let (producer, bell) =
            Producer::new(chain, metrics, config.production, config.gas_limit, config.beneficiary, stopped);
        // The pool is empty after a start; this is for the day when it is not.
        let first = (config.production == Production::Instant).then(|| bell.clone());
        (Self::Producer(Box::new(producer), stop, first), Exit::Producer(bell))
    }

    /// Starts the source; the receiver gets the reason if it ends by itself.
    pub(crate) fn start(self, healthy: Arc<AtomicBool>) -> Result<(Source, Receiver<NodeError>), NodeError> {
        let (tell, ended) = bounded(1);
        match self {
            Self::Producer(producer, stop, first) => {
                let thread = run(*producer, healthy, tell)?;
                if let Some(bell) = first {
                    bell.ring();
                }
                Ok((Source::Producer { stop: Some(stop), thread: Some(thread) }, ended))
            }
            Self::Comet { address, chain, metrics, folder, keep } => {
                let app = App::new(Validator::new(chain, metrics, folder, keep, healthy, tell));
                let server = Server::start(address, app).map_err(|source| NodeError::Listen { address, source })?;
                Ok((Source::Comet(server), ended))
            }
        }
    }
}

impl Source {
    /// Address that CometBFT connects to.
    pub(crate) const fn abci_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Producer { .. } => None,
            Self::Comet(server) => Some(server.address()),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Self::Producer { stop, thread } = self {
            drop(stop.take());
            if let Some(thread) = thread.take() {
                // Its panic was logged.
                let _ = thread.join();
            }
        }
    }
}

/// Starts the producer's thread.
fn run(producer: Producer, healthy: Arc<AtomicBool>, tell: Sender<NodeError>) -> Result<JoinHandle<()>, NodeError> {
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
    thread.map_err(NodeError::Threads)
}
