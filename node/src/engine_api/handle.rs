//! Orders of a consensus client to the thread that carries them out, in the order of their arrival.

use super::{
    built::Built,
    fault::Fault,
    proposed::Proposed,
    status::{Status, Updated},
};
use alloy_primitives::B64;
use alloy_rpc_types_engine::{ForkchoiceState, PayloadAttributes};
use crossbeam_channel::{Receiver, Sender, bounded};
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

/// Time that a built payload gets. The client waits for a second, and may wait for longer.
const FETCHING: Duration = Duration::from_secs(4);

/// Attributes of a payload to build, or the error that is due once the head is chosen.
pub(super) type Wanted = Option<Result<PayloadAttributes, Fault>>;

/// Sender of an answer.
pub(super) type Reply<T> = Sender<Result<T, Fault>>;

/// An order, with the receiver of its answer.
#[derive(Debug)]
pub(super) enum Order {
    Take(Box<Proposed>, Reply<Status>),
    Choose(ForkchoiceState, Box<Wanted>, Reply<Updated>),
    Fetch(B64, Reply<Arc<Built>>),
}

/// Way to the thread of a consensus client. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    orders: Sender<Order>,
    /// Number of times that transactions were admitted to the pool.
    admitted: Arc<AtomicU64>,
}

impl Handle {
    pub(super) fn new() -> (Self, Receiver<Order>) {
        let (orders, inbox) = bounded(ORDERS);
        (Self { orders, admitted: Arc::default() }, inbox)
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
        self.ask(PATIENCE, |reply| Order::Take(block, reply)).unwrap_or_else(|| Ok(Status::syncing()))
    }

    /// Chooses head, safe and finalised block, and begins to build a block on the head.
    pub(crate) fn choose(&self, state: ForkchoiceState, wanted: Wanted) -> Result<Updated, Fault> {
        let order = |reply| Order::Choose(state, Box::new(wanted), reply);
        self.ask(PATIENCE, order).unwrap_or_else(|| Ok(Updated::of(Status::syncing())))
    }

    /// The best block of a job.
    pub(crate) fn fetch(&self, id: B64) -> Result<Arc<Built>, Fault> {
        let late = || Err(Fault::Server("the node is busy: retry".into()));
        self.ask(FETCHING, |reply| Order::Fetch(id, reply)).unwrap_or_else(late)
    }

    /// Sends an order, and waits for its answer: `None` once the time is over, or if the thread has ended.
    fn ask<T>(&self, patience: Duration, order: impl FnOnce(Reply<T>) -> Order) -> Option<Result<T, Fault>> {
        let end = Instant::now() + patience;
        let (reply, answer) = bounded(1);
        self.orders.send_deadline(order(reply), end).ok()?;
        answer.recv_deadline(end).ok()
    }
}
