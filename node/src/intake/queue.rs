//! The queue: what waits, within bounds, and the order in which it is admitted.

use super::fate::{Fate, NoFate};
use alloy_primitives::Bytes;
use parking_lot::{Condvar, Mutex};
use phalanx::alloy::consensus::TxType;
use std::collections::VecDeque;
use tokio::sync::{Notify, oneshot};

/// Maximum number of transactions that are admitted at once.
pub(super) const BATCH: usize = 4_096;

/// Maximum number of their bytes.
pub(super) const FEW_BYTES: usize = 64 << 10;

/// Number of waiting transactions that is worth a further worker.
pub(super) const MANY: usize = 512;

/// Maximum number of transactions and of their bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) txs: usize,
    pub(super) bytes: usize,
}

/// Transactions of one request, which share its answer.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) txs: Vec<Bytes>,
    pub(super) reply: oneshot::Sender<Vec<Fate>>,
}

impl Offer {
    fn bytes(&self) -> usize {
        self.txs.iter().map(|tx| tx.len()).sum()
    }
}

/// Offers that wait, and the order in which they are admitted.
#[derive(Debug)]
pub(super) struct Queue {
    bounds: Bounds,
    /// Maximum number of transactions that the thread of a connection admits.
    few: usize,
    pub(super) waiting: Mutex<Waiting>,
    /// Notified when something waits, or the queue ends: for the first worker.
    bell: Condvar,
    /// Notified when many wait, or the queue ends: for the further workers, which a lone transaction does not wake.
    many: Condvar,
    /// Number of the batch that is admitted next.
    turn: Mutex<u64>,
    turned: Condvar,
    /// Notified when there is more room.
    pub(super) freed: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    offers: VecDeque<Offer>,
    /// Number of transactions in `offers`.
    txs: usize,
    /// Transactions and bytes that wait or are being admitted.
    pub(super) held: (usize, usize),
    /// Number of batches that were taken.
    pub(super) taken: u64,
    has_ended: bool,
}

impl Waiting {
    /// True if no transaction that waits has blobs, whose proofs take milliseconds, and none is long.
    fn is_quick(&self) -> bool {
        let blobs = |tx: &Bytes| tx.first() == Some(&(TxType::Eip4844 as u8));
        let bytes: usize = self.offers.iter().map(Offer::bytes).sum();
        bytes <= FEW_BYTES && !self.offers.iter().flat_map(|offer| &offer.txs).any(blobs)
    }
}

impl Queue {
    pub(super) fn new(bounds: Bounds, few: usize) -> Self {
        Self {
            bounds,
            few,
            waiting: Mutex::default(),
            bell: Condvar::new(),
            many: Condvar::new(),
            turn: Mutex::default(),
            turned: Condvar::new(),
            freed: Notify::new(),
        }
    }

    /// Adds an offer if this share of the queue has room for it. The workers that it needs are woken once the result is dropped.
    pub(super) fn push(&self, offer: Offer, share: usize) -> Result<Woken<'_>, NoFate> {
        self.try_push(offer, share).map_err(|_| NoFate::Full)
    }

    /// Does [`Self::push`], or gives the offer back.
    pub(super) fn try_push(&self, offer: Offer, share: usize) -> Result<Woken<'_>, Offer> {
        if offer.txs.is_empty() {
            // An error means that the client has gone.
            let _ = offer.reply.send(Vec::new());
            return Ok(Woken { queue: self, first: false, further: false });
        }
        let mut waiting = self.waiting.lock();
        let held = (waiting.held.0 + offer.txs.len(), waiting.held.1 + offer.bytes());
        if held.0 > self.bounds.txs / share || held.1 > self.bounds.bytes / share {
            return Err(offer);
        }
        waiting.held = held;
        let before = waiting.txs;
        waiting.txs += offer.txs.len();
        waiting.offers.push_back(offer);
        let (first, further) = (before == 0, before < MANY && waiting.txs >= MANY);
        // A worker that wakes finds the lock free.
        drop(waiting);
        Ok(Woken { queue: self, first, further })
    }

    /// Lets the workers end once nothing is left.
    pub(super) fn end(&self) {
        self.waiting.lock().has_ended = true;
        self.bell.notify_all();
        self.many.notify_all();
    }

    /// Takes all that waits if it is little and no worker is about to admit.
    pub(super) fn take_few(&self) -> Waits<'_> {
        let waiting = &mut *self.waiting.lock();
        if waiting.txs == 0 {
            Waits::Nothing
        } else if waiting.txs > self.few || !waiting.is_quick() || *self.turn.lock() != waiting.taken {
            Waits::Many
        } else {
            let (offers, turn) = self.take_batch(waiting);
            Waits::Few(offers, turn)
        }
    }

    /// Takes the offers that wait, up to a batch.
    pub(super) fn take(&self, least: usize) -> Option<(Vec<Offer>, Turn<'_>)> {
        let waiting = &mut self.waiting.lock();
        let bell = if least > 1 { &self.many } else { &self.bell };
        bell.wait_while(waiting, |waiting| !waiting.has_ended && waiting.txs < least);
        (waiting.txs >= least).then(|| self.take_batch(waiting))
    }

    fn take_batch(&self, waiting: &mut Waiting) -> (Vec<Offer>, Turn<'_>) {
        let (mut offers, mut txs, mut bytes) = (Vec::new(), 0, 0);
        while let Some(offer) = waiting.offers.pop_front_if(|offer| txs == 0 || txs + offer.txs.len() <= BATCH) {
            txs += offer.txs.len();
            bytes += offer.bytes();
            offers.push(offer);
        }
        waiting.txs -= txs;
        let number = waiting.taken;
        waiting.taken += 1;
        (offers, Turn { queue: self, number, held: (txs, bytes) })
    }
}

/// Transactions that wait, as a connection finds them.
pub(super) enum Waits<'q> {
    Nothing,
    /// These alone, and their turn has come.
    Few(Vec<Offer>, Turn<'q>),
    /// Work for a worker.
    Many,
}

/// Workers that an offer needs. They are woken when this is dropped, whatever has become of the client meanwhile.
#[must_use = "the workers are woken when it is dropped"]
pub(super) struct Woken<'q> {
    queue: &'q Queue,
    pub(super) first: bool,
    further: bool,
}

impl Woken<'_> {
    /// True if a worker may sleep, and has to be woken. Without it the worker comes by itself.
    pub(super) const fn is_needed(&self) -> bool {
        self.first || self.further
    }
}

impl Drop for Woken<'_> {
    fn drop(&mut self) {
        if self.first {
            self.queue.bell.notify_one();
        }
        if self.further {
            self.queue.many.notify_all();
        }
    }
}

/// Place of a batch in the order of admission, and its room in the queue. The next one follows once it is dropped.
pub(super) struct Turn<'q> {
    queue: &'q Queue,
    number: u64,
    held: (usize, usize),
}

impl Turn<'_> {
    /// Waits until all earlier batches are admitted.
    pub(super) fn come(&self) {
        let mut turn = self.queue.turn.lock();
        self.queue.turned.wait_while(&mut turn, |turn| *turn != self.number);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Also where the recovery has panicked.
        self.come();
        *self.queue.turn.lock() += 1;
        self.queue.turned.notify_all();
        let waiting = &mut *self.queue.waiting.lock();
        waiting.held = (waiting.held.0 - self.held.0, waiting.held.1 - self.held.1);
        self.queue.freed.notify_waiters();
    }
}
