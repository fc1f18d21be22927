//! Orders of a consensus client to the thread that carries them out, in the order of their arrival. A payload that waits already is no
//! further order, and a built block is fetched past them.

use super::{
    built::Built,
    fault::Fault,
    proposed::Proposed,
    shelf::Shelf,
    status::{Status, Updated},
    waiting::{Joined, Waiting},
};
use alloy_primitives::{B64, B256};
use alloy_rpc_types_engine::{ForkchoiceState, PayloadAttributes};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Maximum number of orders that wait.
const ORDERS: usize = 64;

/// Time that a payload and a fork choice get. The client gives them six seconds and more, and is answered `SYNCING` before that.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time that the best block of a job gets, before what was the best a while ago does as well: the client waits for a second.
const SOON: Duration = Duration::from_millis(700);

/// Time that a block gets if there is none yet. The client may wait for longer.
const FETCHING: Duration = Duration::from_secs(4);

/// Attributes of a payload to build, or the error that is due once the head is chosen.
pub(super) type Wanted = Option<Result<PayloadAttributes, Fault>>;

/// Sender of an answer.
pub(super) type Reply<T> = Sender<Result<T, Fault>>;

/// An order, with the receiver of its answer. Those of a payload wait with the [`Handle`].
#[derive(Debug)]
pub(super) enum Order {
    Take(Box<Proposed>),
    Choose(ForkchoiceState, Box<Wanted>, Reply<Updated>),
    Fetch(B64, Reply<Arc<Built>>),
}

/// Way to the thread of a consensus client. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    orders: Sender<Order>,
    /// Payloads among the orders, and the one that is judged, with their callers.
    waiting: Arc<Mutex<Waiting<Reply<Status>>>>,
    pub(super) shelf: Arc<Shelf>,
    /// Number of times that transactions were admitted to the pool.
    admitted: Arc<AtomicU64>,
}

impl Handle {
    pub(super) fn new() -> (Self, Receiver<Order>) {
        let (orders, inbox) = bounded(ORDERS);
        (Self { orders, waiting: Arc::default(), shelf: Arc::default(), admitted: Arc::default() }, inbox)
    }

    /// Notes that transactions were admitted: a block that is built may take them. Never blocks.
    pub(crate) fn ring(&self) {
        self.admitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Takes a payload. One that is not judged in time is `SYNCING`, and is judged none the less.
    pub(crate) fn take(&self, block: Box<Proposed>) -> Result<Status, Fault> {
        let full = || Fault::Server("too many payloads wait: send it again".into());
        let (reply, verdict) = bounded(1);
        let hash = block.hash;
        let mut waiting = self.waiting.lock();
        match waiting.join(hash, block.bytes(), reply) {
            Joined::First if self.orders.try_send(Order::Take(block)).is_err() => {
                waiting.leave(&hash);
                return Err(full());
            }
            Joined::First | Joined::Again => {}
            Joined::Full => return Err(full()),
        }
        drop(waiting);
        match verdict.recv_timeout(PATIENCE) {
            Ok(verdict) => verdict,
            Err(RecvTimeoutError::Timeout) => Ok(Status::syncing()),
            Err(RecvTimeoutError::Disconnected) => Err(Fault::Server("the node stops".into())),
        }
    }

    /// Tells the verdict on a payload to all that wait for it.
    pub(super) fn judged(&self, hash: &B256, verdict: &Result<Status, Fault>) {
        for caller in self.waiting.lock().leave(hash) {
            // An error means that the client has stopped waiting.
            let _ = caller.send(verdict.clone());
        }
    }

    /// Ends the waiting for all payloads: the thread has ended.
    pub(super) fn end(&self) {
        *self.waiting.lock() = Waiting::default();
    }

    /// Chooses head, safe and finalised block, and begins to build a block on the head.
    pub(crate) fn choose(&self, state: ForkchoiceState, wanted: Wanted) -> Result<Updated, Fault> {
        let order = |reply| Order::Choose(state, Box::new(wanted), reply);
        self.ask(PATIENCE, order).unwrap_or_else(|| Ok(Updated::of(Status::syncing())))
    }

    /// The best block of a job: of one that goes on, what was the best before the thread began with a long order.
    pub(crate) fn fetch(&self, id: B64) -> Result<Arc<Built>, Fault> {
        if let Some(built) = self.shelf.sealed(id) {
            return Ok(built);
        }
        let begun = Instant::now();
        let (reply, answer) = bounded(1);
        let is_sent = self.orders.send_deadline(Order::Fetch(id, reply), begun + SOON).is_ok();
        let soon = is_sent.then(|| answer.recv_deadline(begun + SOON).ok()).flatten();
        let known = || soon.or_else(|| self.shelf.find(id).map(Ok));
        let late = || Err(Fault::Server("the node is busy: retry".into()));
        known().or_else(|| answer.recv_deadline(begun + FETCHING).ok()).unwrap_or_else(late)
    }

    /// Sends an order, and waits for its answer: `None` once the time is over, or if the thread has ended.
    fn ask<T>(&self, patience: Duration, order: impl FnOnce(Reply<T>) -> Order) -> Option<Result<T, Fault>> {
        let end = Instant::now() + patience;
        let (reply, answer) = bounded(1);
        self.orders.send_deadline(order(reply), end).ok()?;
        answer.recv_deadline(end).ok()
    }
}
