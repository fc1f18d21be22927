//! State that the threads of a replica share.

use super::status::Status;
use crate::{client::Clients, peer::Output, queue::Bell, wire::Refusals};
use parking_lot::Mutex;
use phalanx_bft::Index;
use phalanx_host::Boundary;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// State that the worker, the other threads and the handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) me: Index,
    pub(crate) bell: Arc<Bell>,
    pub(crate) stopped: AtomicBool,
    pub(crate) outputs: BTreeMap<Index, Arc<Output>>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) status: Mutex<Status>,
    /// Proof of another replica that this epoch is over.
    pub(crate) passed: Mutex<Option<Boundary>>,
}

impl Shared {
    /// Progress of the replica, and what it refused.
    pub(super) fn status(&self) -> Status {
        let mut status = self.status.lock().clone();
        status.refused = self.refusals.counts();
        status.dropped = self.outputs.values().map(|output| output.queue.dropped()).sum();
        status.refused_txs = self.clients.refused_txs.load(Relaxed);
        status
    }
}
