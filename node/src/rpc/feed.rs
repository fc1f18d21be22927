//! Events for subscribers: new blocks and admitted transactions, each encoded once for all of them.
//!
//! The newest events stay in a ring that bytes bound. Every connection reads it at its own speed; one that falls out of it is too
//! slow, and is closed.

use super::{api::stopped, convert, pool};
use crate::{
    chain::{Chain, Shown},
    store::Block,
};
use ::phalanx::pool::PooledTx;
use alloy_rpc_types_eth::Log;
use parking_lot::Mutex;
use serde::Serialize;
use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{broadcast::error::RecvError, watch};

/// Maximum number of bytes of the events that a subscriber may be behind; the newest event always stays.
const MAX_BYTES: usize = 64 << 20;

/// Maximum number of events that a subscriber may be behind.
const MAX_EVENTS: usize = 4_096;

/// Memory of an event beside its parts, in bytes.
const EVENT_BYTES: usize = 1_024;

/// An event.
#[derive(Debug)]
pub(super) enum Event {
    Block(Fresh),
    Removed(Removed),
    Admitted(Waiting),
}

/// A log, and its JSON.
type Encoded = (Log, Arc<str>);

/// A block that has become visible.
#[derive(Debug)]
pub(super) struct Fresh {
    block: Arc<Block>,
    head: OnceLock<Arc<str>>,
    logs: Vec<Encoded>,
}

/// Logs of blocks that are on the chain no more.
#[derive(Debug)]
pub(super) struct Removed {
    logs: Vec<Encoded>,
}

/// A transaction that the pool has admitted.
#[derive(Debug)]
pub(super) struct Waiting {
    tx: Arc<PooledTx>,
    hash: Arc<str>,
    full: OnceLock<Arc<str>>,
}

impl Fresh {
    /// The head, as `newHeads` has it.
    pub(super) fn head(&self) -> &Arc<str> {
        self.head.get_or_init(|| encode(&convert::header(&self.block.head)))
    }
}

impl Event {
    /// Change of the visible blocks, with all logs encoded.
    fn of(shown: Shown) -> Self {
        let encoded = |log: Log| {
            let json = encode(&log);
            (log, json)
        };
        match shown {
            Shown::Added(block) => {
                let logs = convert::all_logs(&block).map(encoded).collect();
                Self::Block(Fresh { block, head: OnceLock::new(), logs })
            }
            Shown::Removed(blocks) => {
                let logs = blocks.iter().flat_map(|block| convert::removed_logs(block));
                Self::Removed(Removed { logs: logs.map(encoded).collect() })
            }
        }
    }

    /// Logs that come or go with it, in order.
    pub(super) fn logs(&self) -> &[Encoded] {
        match self {
            Self::Block(block) => &block.logs,
            Self::Removed(removed) => &removed.logs,
            Self::Admitted(_) => &[],
        }
    }

    fn bytes(&self) -> usize {
        // A decoded log is smaller than its JSON.
        let logs = |logs: &[Encoded]| logs.iter().map(|(_, json)| 2 * json.len()).sum::<usize>();
        EVENT_BYTES
            + match self {
                Self::Block(Fresh { block, logs: all, .. }) => {
                    logs(all) + block.entries.iter().map(|entry| entry.bytes.len()).sum::<usize>()
                }
                Self::Removed(removed) => logs(&removed.logs),
                Self::Admitted(waiting) => waiting.tx.bytes().len(),
            }
    }
}

impl Waiting {
    pub(super) const fn hash(&self) -> &Arc<str> {
        &self.hash
    }

    /// The whole transaction; its hash if it cannot be decoded.
    pub(super) fn full(&self) -> &Arc<str> {
        self.full.get_or_init(|| pool::transaction(&self.tx).map_or_else(|_| Arc::clone(&self.hash), |tx| encode(&tx)))
    }
}

/// The types of JSON-RPC have no keys that JSON cannot hold.
fn encode(value: &impl Serialize) -> Arc<str> {
    serde_json::to_string(value).map_or_else(|_| "null".into(), Into::into)
}

/// An event is not there any more: the subscriber is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed;

#[derive(Debug, Default)]
struct Ring<T> {
    /// Number of the event at the front.
    first: u64,
    events: VecDeque<(Arc<T>, usize)>,
    bytes: usize,
}

impl<T> Ring<T> {
    fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn push(&mut self, event: Arc<T>, bytes: usize) {
        self.events.push_back((event, bytes));
        self.bytes += bytes;
        while self.events.len() > 1 && (self.bytes > MAX_BYTES || self.events.len() > MAX_EVENTS) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some((_, bytes)) = self.events.pop_front() {
            self.first += 1;
            self.bytes -= bytes;
        }
    }

    /// An event by its number; `None` if it has not come yet.
    fn get(&self, number: u64) -> Result<Option<Arc<T>>, Missed> {
        let place = number.checked_sub(self.first).ok_or(Missed)?;
        Ok(usize::try_from(place).ok().and_then(|place| self.events.get(place)).map(|(event, _)| Arc::clone(event)))
    }
}

/// The newest events.
#[derive(Debug)]
pub(super) struct Feed {
    ring: Mutex<Ring<Event>>,
    next: watch::Sender<u64>,
    /// Number of subscriptions: without one, nothing is kept.
    pub(super) subscribers: Arc<AtomicUsize>,
    /// Number of those of transactions: without one, an admitted transaction is no event.
    pub(super) of_txs: Arc<AtomicUsize>,
}

impl Feed {
    pub(super) fn new() -> Arc<Self> {
        let ring = Ring { first: 0, events: VecDeque::new(), bytes: 0 };
        let (subscribers, of_txs) = (Arc::default(), Arc::default());
        Arc::new(Self { ring: Mutex::new(ring), next: watch::Sender::new(0), subscribers, of_txs })
    }

    /// Number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.ring.lock().next()
    }

    pub(super) fn get(&self, number: u64) -> Result<Option<Arc<Event>>, Missed> {
        self.ring.lock().get(number)
    }

    /// Changes with every event.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }

    fn push(&self, event: Option<Event>) {
        let mut ring = self.ring.lock();
        match event {
            Some(event) => {
                let bytes = event.bytes();
                ring.push(Arc::new(event), bytes);
            }
            // Nothing that was missed may look as if it had come.
            None => {
                (ring.first, ring.bytes) = (ring.next() + 1, 0);
                ring.events.clear();
            }
        }
        let next = ring.next();
        drop(ring);
        self.next.send_replace(next);
    }

    fn is_wanted(&self) -> bool {
        let is_wanted = self.subscribers.load(Ordering::Relaxed) > 0;
        if !is_wanted {
            let mut ring = self.ring.lock();
            while !ring.events.is_empty() {
                ring.pop();
            }
        }
        is_wanted
    }

    /// Takes events from the chain until that ends, or the server stops.
    pub(super) async fn run(self: Arc<Self>, chain: Arc<Chain>, mut stops: watch::Receiver<bool>) {
        let (mut shown, mut admitted) = (chain.subscribe(), chain.subscribe_admitted());
        drop(chain);
        loop {
            let came = tokio::select! {
                shown = shown.recv() => shown.map(Came::Shown),
                tx = admitted.recv() => {
                    // Where none subscribes to them, they push no block out of the ring, and none is missed.
                    if self.of_txs.load(Ordering::Relaxed) == 0 && !matches!(tx, Err(RecvError::Closed)) {
                        continue;
                    }
                    tx.map(Came::Admitted)
                }
                () = stopped(&mut stops) => return,
            };
            if let Err(RecvError::Closed) = came {
                return;
            }
            if !self.is_wanted() {
                continue;
            }
            let event = match came {
                // Logs may be many: no thread of connections encodes them.
                Ok(Came::Shown(shown)) => tokio::task::spawn_blocking(|| Event::of(shown)).await.ok(),
                Ok(Came::Admitted(tx)) => {
                    let hash = encode(tx.hash());
                    Some(Event::Admitted(Waiting { tx, hash, full: OnceLock::new() }))
                }
                Err(error) => {
                    tracing::warn!(%error, "events are lost: subscribers are closed");
                    None
                }
            };
            self.push(event);
        }
    }
}

/// Announcement of the chain.
enum Came {
    Shown(Shown),
    Admitted(Arc<PooledTx>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Ring<u64> {
        Ring { first: 0, events: VecDeque::new(), bytes: 0 }
    }

    #[test]
    fn events_are_bounded_in_bytes() {
        let mut ring = ring();
        for number in 0..4 {
            ring.push(Arc::new(number), MAX_BYTES / 4);
        }
        assert_eq!(ring.get(0).map(|event| event.map(|event| *event)), Ok(Some(0)), "exactly full");
        ring.push(Arc::new(4), 1);
        assert_eq!(ring.get(0), Err(Missed));
        assert_eq!(ring.get(1).map(|event| event.map(|event| *event)), Ok(Some(1)));
        assert_eq!(ring.get(5), Ok(None), "it has not come yet");
        ring.push(Arc::new(5), 10 * MAX_BYTES);
        assert_eq!((ring.get(4), ring.events.len(), ring.bytes), (Err(Missed), 1, 10 * MAX_BYTES), "the newest stays");
    }

    #[test]
    fn events_are_bounded_in_number() {
        let mut ring = ring();
        for number in 0..=MAX_EVENTS as u64 {
            ring.push(Arc::new(number), 0);
        }
        assert_eq!((ring.get(0), ring.next()), (Err(Missed), MAX_EVENTS as u64 + 1));
        assert_eq!(ring.get(1).map(|event| event.map(|event| *event)), Ok(Some(1)));
    }
}
