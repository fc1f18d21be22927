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
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, TrySendError, bounded};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Maximum number of orders that wait.
const ORDERS: usize = 64;

/// Maximum number of callers that wait with a payload or a fork choice. Each has a thread: a quarter of those that read stays free, so
/// that a built block can be fetched past them.
const CALLERS: usize = 24;

/// Time that a payload and a fork choice get. The client gives them six seconds and more, and is answered `SYNCING` before that.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

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
    /// Number of callers that wait with a payload or a fork choice.
    callers: Arc<AtomicUsize>,
}

/// Place of a caller that waits, until it is dropped.
#[derive(Debug)]
struct Place<'h>(&'h AtomicUsize);

impl<'h> Place<'h> {
    fn take(callers: &'h AtomicUsize) -> Result<Self, Fault> {
        let before = callers.fetch_add(1, Ordering::Relaxed);
        let place = Self(callers);
        if before < CALLERS { Ok(place) } else { Err(full()) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn full() -> Fault {
    Fault::Server("too many orders wait: send it again".into())
}

fn stopped() -> Fault {
    Fault::Server("the node stops".into())
}

impl Handle {
    pub(super) fn new() -> (Self, Receiver<Order>) {
        let (orders, inbox) = bounded(ORDERS);
        let (waiting, shelf) = (Arc::default(), Arc::default());
        (Self { orders, waiting, shelf, admitted: Arc::default(), callers: Arc::default() }, inbox)
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
        let _place = Place::take(&self.callers)?;
        let (reply, verdict) = bounded(1);
        let hash = block.hash;
        let mut waiting = self.waiting.lock();
        let joined = waiting.join(hash, block.bytes(), reply);
        let refused = match joined {
            Joined::First => self.orders.try_send(Order::Take(block)).err().map(|unsent| match unsent {
                TrySendError::Full(_) => full(),
                TrySendError::Disconnected(_) => stopped(),
            }),
            Joined::Again => None,
            Joined::Full => return Err(full()),
        };
        if let Some(fault) = refused {
            waiting.leave(&hash);
            return Err(fault);
        }
        drop(waiting);
        match verdict.recv_timeout(PATIENCE) {
            Ok(verdict) => verdict,
            Err(RecvTimeoutError::Timeout) => Ok(Status::syncing()),
            Err(RecvTimeoutError::Disconnected) => Err(stopped()),
        }
    }

    /// Notifies all that wait for a payload of its verdict.
    pub(super) fn judged(&self, hash: &B256, verdict: &Result<Status, Fault>) {
        for caller in self.waiting.lock().leave(hash) {
            // An error means that the client has stopped waiting.
            let _ = caller.send(verdict.clone());
        }
    }

    /// Ends the waiting for all payloads: the thread has ended, and nothing receives orders any more.
    pub(super) fn end(&self) {
        *self.waiting.lock() = Waiting::default();
    }

    /// Chooses head, safe and finalised block, and begins to build a block on the head. A choice that is not made in time is `SYNCING`,
    /// and is made none the less.
    ///
    /// # Errors
    /// Also if it finds no place in the line in time: then it is not made.
    pub(crate) fn choose(&self, state: ForkchoiceState, wanted: Wanted) -> Result<Updated, Fault> {
        let _place = Place::take(&self.callers)?;
        let end = Instant::now() + PATIENCE;
        let (reply, answer) = bounded(1);
        self.orders.send_deadline(Order::Choose(state, Box::new(wanted), reply), end).map_err(
            |unsent| match unsent {
                SendTimeoutError::Timeout(_) => full(),
                SendTimeoutError::Disconnected(_) => stopped(),
            },
        )?;
        match answer.recv_deadline(end) {
            Ok(updated) => updated,
            Err(RecvTimeoutError::Timeout) => Ok(Updated::of(Status::syncing())),
            Err(RecvTimeoutError::Disconnected) => Err(stopped()),
        }
    }

    /// The best block of a job: of one that goes on, what was the best before the thread began with a long order.
    pub(crate) fn fetch(&self, id: B64) -> Result<Arc<Built>, Fault> {
        if let Some(built) = self.shelf.sealed(id) {
            return Ok(built);
        }
        let begun = Instant::now();
        let (reply, answer) = bounded(1);
        let mut unsent = Some(Order::Fetch(id, reply));
        for end in [SOON, FETCHING].map(|time| begun + time) {
            if let Some(order) = unsent.take() {
                match self.orders.send_deadline(order, end) {
                    Ok(()) => {}
                    Err(SendTimeoutError::Timeout(order)) => unsent = Some(order),
                    Err(SendTimeoutError::Disconnected(_)) => return Err(stopped()),
                }
            }
            if unsent.is_none() {
                match answer.recv_deadline(end) {
                    Ok(fetched) => return fetched,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Err(stopped()),
                }
            }
            if let Some(built) = self.shelf.find(id) {
                return Ok(built);
            }
        }
        Err(Fault::Server("the node is busy: retry".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: u8) -> Box<Proposed> {
        let header = alloy_consensus::Header::default();
        Proposed::new(B256::with_last_byte(name), &header, Vec::new(), Vec::new()).into()
    }

    #[test]
    fn an_ended_thread_is_told_from_a_full_line() {
        let (handle, orders) = Handle::new();
        for _ in 0..ORDERS {
            let (reply, _) = bounded(1);
            handle.orders.try_send(Order::Fetch(B64::ZERO, reply)).expect("room");
        }
        assert_eq!(handle.take(block(1)), Err(full()));
        drop(orders);
        assert_eq!(handle.take(block(1)), Err(stopped()));
        assert_eq!(handle.choose(ForkchoiceState::default(), None), Err(stopped()));
        assert_eq!(handle.fetch(B64::ZERO).map(drop), Err(stopped()));
    }

    #[test]
    fn callers_that_wait_are_bounded_and_end_with_the_thread() {
        let (handle, orders) = Handle::new();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..CALLERS).map(|_| scope.spawn(|| handle.take(block(1)))).collect();
            while handle.callers.load(Ordering::Relaxed) < CALLERS {
                std::thread::yield_now();
            }
            assert_eq!(handle.take(block(2)), Err(full()));
            drop(orders);
            handle.end();
            // One that comes late finds the line closed.
            waiting.into_iter().for_each(|caller| assert_eq!(caller.join().expect("no panic"), Err(stopped())));
        });
        assert_eq!(handle.callers.load(Ordering::Relaxed), 0);
    }
}
