//! Offers, and the threads that admit them.

use super::{
    door::{Door, Pool},
    fate::{Fate, NoFate},
    queue::{Bounds, MANY, Offer, Queue, Turn, Waits},
};
use crate::{chain::Chain, error::NodeError, exit::Exit};
use alloy_primitives::Bytes;
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
};
use tokio::sync::oneshot;

/// Maximum number of transactions that the thread of a connection admits by itself: two groups of lanes, which take it less than a
/// tenth of a millisecond.
pub(super) const FEW: usize = 16;

/// Maximum number of workers.
const WORKERS: usize = 8;

/// Bounds of the transactions that wait, or are being admitted.
pub(super) const BOUNDS: Bounds = Bounds { txs: 1 << 16, bytes: 64 << 20 };

/// The queue and its workers, which end when it is dropped.
pub(crate) struct Intake {
    pub(super) queue: Arc<Queue>,
    /// Admits a batch on the caller's thread.
    admit: Box<AdmitFew>,
    workers: Vec<JoinHandle<()>>,
}

type AdmitFew = dyn Fn(Vec<Offer>, Turn<'_>) + Send + Sync;

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intake").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Intake {
    /// Starts the workers of a pool.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(chain: Arc<Chain>, exit: Exit) -> Result<Self, NodeError> {
        if let Some(upstream) = exit.upstream() {
            return Self::of(&Arc::new(upstream.clone()), 1, BOUNDS);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::of(&Arc::new(Door { chain, exit }), cores.min(WORKERS), BOUNDS)
    }

    pub(super) fn of<P: Pool>(pool: &Arc<P>, workers: usize, bounds: Bounds) -> Result<Self, NodeError> {
        let queue = Arc::new(Queue::new(bounds, if pool.waits() { 0 } else { FEW }));
        let own = Arc::clone(pool);
        let few = move |offers, turn: Turn<'_>| guarded(|| admit(&*own, offers, turn, On::Connection));
        let mut intake = Self { queue: Arc::clone(&queue), admit: Box::new(few), workers: Vec::new() };
        for number in 0..workers {
            let (queue, pool) = (Arc::clone(&queue), Arc::clone(pool));
            let least = if number == 0 { 1 } else { MANY };
            let thread = std::thread::Builder::new().name("phalanx-admit".into());
            intake.workers.push(thread.spawn(move || work(&queue, &*pool, least)).map_err(NodeError::Threads)?);
        }
        Ok(intake)
    }

    /// Offers transactions at once; their fates follow, in order. Nothing is offered that has no room. A worker is woken behind the other
    /// connections that can be read now, so that it takes theirs as well.
    ///
    /// # Errors
    /// [`NoFate::Full`], for all of them.
    pub(crate) async fn offer(&self, txs: Vec<Bytes>) -> Result<Fates, NoFate> {
        let (reply, fates) = oneshot::channel();
        let mut woken = self.queue.push(Offer { txs, reply }, 1)?;
        if woken.is_needed() {
            // The runtime comes back once it has run all tasks that can run. To look for more a second time brings nothing.
            tokio::task::yield_now().await;
        }
        if woken.first {
            match self.queue.take_few() {
                Waits::Nothing => woken.first = false,
                Waits::Few(offers, turn) => {
                    woken.first = false;
                    (self.admit)(offers, turn);
                }
                Waits::Many => {}
            }
        }
        drop(woken);
        Ok(Fates(fates))
    }

    /// Offers transactions once half of the queue has room for them: many that come together leave room for single ones.
    pub(crate) async fn offer_in_turn(&self, txs: Vec<Bytes>) -> Fates {
        let (reply, fates) = oneshot::channel();
        let mut offer = Offer { txs, reply };
        loop {
            let freed = self.queue.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            match self.queue.try_push(offer, 2) {
                Ok(_) => return Fates(fates),
                Err(refused) => offer = refused,
            }
            freed.await;
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.queue.end();
        for worker in self.workers.drain(..) {
            // A panic was caught and logged.
            let _ = worker.join();
        }
    }
}

/// Fates of the transactions of an offer, once they are there.
#[derive(Debug)]
pub(crate) struct Fates(oneshot::Receiver<Vec<Fate>>);

impl Fates {
    /// The fates, if they are there.
    pub(crate) fn ready(&mut self) -> Option<Result<Vec<Fate>, NoFate>> {
        match self.0.try_recv() {
            Ok(fates) => Some(Ok(fates)),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(NoFate::Panicked)),
        }
    }

    /// # Errors
    /// [`NoFate::Panicked`], for all of them.
    pub(crate) async fn all(self) -> Result<Vec<Fate>, NoFate> {
        self.0.await.map_err(|_| NoFate::Panicked)
    }
}

/// Thread that admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Worker,
    /// Thread of the runtime, which has other connections to read.
    Connection,
}

/// Admits what waits, if there are at least so many, until the queue ends. One worker takes any number.
fn work<P: Pool>(queue: &Queue, pool: &P, least: usize) {
    while let Some((offers, turn)) = queue.take(least) {
        guarded(|| admit(pool, offers, turn, On::Worker));
    }
}

/// Ends a panic, which is a bug of the node: the clients get an error, and the node goes on.
fn guarded(act: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(act));
}

fn admit<P: Pool>(pool: &P, offers: Vec<Offer>, turn: Turn<'_>, on: On) {
    let txs: Vec<&Bytes> = offers.iter().flat_map(|offer| &offer.txs).collect();
    let recovered = pool.recover(&txs);
    turn.come();
    let fates = match on {
        On::Worker => pool.admit(&txs, recovered),
        // While this thread waits, another one reads its connections.
        On::Connection => pool
            .try_admit(&txs, recovered)
            .unwrap_or_else(|recovered| tokio::task::block_in_place(|| pool.admit(&txs, recovered))),
    };
    let mut fates = fates.into_iter();
    drop(turn);
    for Offer { txs, reply } in offers {
        // An error means that the client has gone.
        let _ = reply.send(fates.by_ref().take(txs.len()).collect());
    }
}
