//! A node whose replica joins by a snapshot: a thread fetches it from other replicas, opens the chain behind it, and starts the source.

use crate::{
    config::{BlockSource, NodeConfig, ReplicaConfig},
    error::NodeError,
    opening::Opening,
    snapshot_taker::SnapshotTaker,
    source::Source,
};
use crossbeam_channel::Sender;
use parking_lot::Mutex;
use phalanx::{
    alloy::primitives::{B256, Bytes},
    api::{Applied, Offer, Offered},
};
use phalanx_net::{Anchor, Beginning, Joining, Restorer};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

/// Place of a node's source, which is empty while the node joins.
pub(crate) type SourceSlot = Arc<Mutex<Option<Source>>>;

impl Restorer for SnapshotTaker {
    fn offer(&mut self, offer: &Offer, anchor: &Anchor) -> Result<Offered, String> {
        let root = B256::new(anchor.result().state_root);
        Self::offer(self, offer, root, anchor.meta()).map_err(|error| error.to_string())
    }

    fn wants(&self, number: u32) -> bool {
        Self::wants(self, number)
    }

    fn apply(&mut self, number: u32, chunk: &Bytes) -> Result<Applied, String> {
        Self::apply(self, number, chunk).map_err(|error| error.to_string())
    }

    fn finish(&mut self) -> Result<Applied, String> {
        Self::finish(self).map_err(|error| error.to_string())
    }

    fn settle(&mut self) -> Result<(), String> {
        Self::settle(self).map_err(|error| error.to_string())
    }
}

/// The thread of a node that joins. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Joiner {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Joiner {
    /// True if the replica of a node has to join, or is asked to.
    pub(crate) fn is_due(config: &NodeConfig) -> bool {
        config
            .replica()
            .is_some_and(|replica| replica.beginning == Beginning::Snapshot || phalanx_net::is_joining(&replica.folder))
    }

    /// Starts to join. The source gets its place once the chain is open; `ended` gets the reason if that fails.
    pub(crate) fn start(
        opening: Opening,
        slot: SourceSlot,
        healthy: Arc<AtomicBool>,
        ended: Sender<NodeError>,
    ) -> Result<Self, NodeError> {
        let stopped = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stopped);
        let run = move || {
            let source = join(opening, &stops, (&healthy, &ended));
            match source {
                Ok(source) => *slot.lock() = source,
                Err(why) => {
                    tracing::error!(%why, "the node cannot join");
                    healthy.store(false, Relaxed);
                    // An error means that an earlier reason waits.
                    let _ = ended.try_send(why);
                }
            }
        };
        let thread = std::thread::Builder::new().name("phalanx-join".into()).spawn(run);
        Ok(Self { stopped, thread: Some(thread.map_err(NodeError::Threads)?) })
    }
}

impl Drop for Joiner {
    fn drop(&mut self) {
        self.stopped.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic was logged.
            let _ = thread.join();
        }
    }
}

/// Joins, and starts the source; `None` if it is stopped before.
fn join(
    mut opening: Opening,
    stopped: &AtomicBool,
    (healthy, ended): (&Arc<AtomicBool>, &Sender<NodeError>),
) -> Result<Option<Source>, NodeError> {
    let mut taker = SnapshotTaker::new(&opening.config)?;
    let BlockSource::Replica(replica) = &mut opening.config.source else { return Ok(None) };
    let mut known = None;
    let mut watch = |step: Joining| {
        match step {
            Joining::Lied { peer, height, chunk } => {
                tracing::warn!(peer = peer.0, height, chunk, "a replica sends a wrong snapshot: others are asked");
            }
            Joining::Fetching { height, chunks, .. } if known.replace(height) != Some(height) => {
                tracing::info!(height, chunks, "a snapshot of others is fetched");
            }
            Joining::Unserved => {
                tracing::warn!("no replica offers a snapshot that can be joined by: all are asked again")
            }
            Joining::Joined { height } => tracing::info!(height, "the replica goes on from a snapshot, silently"),
            _ => {}
        }
        !stopped.load(Relaxed)
    };
    let ReplicaConfig { network, keys, folder, beginning } = &mut **replica;
    let joined = phalanx_net::join(network, keys, folder, &mut taker, &mut watch)?;
    *beginning = Beginning::Usual;
    drop(taker);
    match joined {
        Some(_) => opening.open()?.start(Arc::clone(healthy), ended.clone()).map(Some),
        None => Ok(None),
    }
}
