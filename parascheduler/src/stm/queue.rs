//! Transactions that may run, and how far speculation may be ahead of the commit.

use crate::sync::{AtomicU32, AtomicUsize, Mutex, MutexGuard, Ordering};
use crossbeam_utils::CachePadded;
use std::{cmp::Reverse, collections::BinaryHeap, sync::PoisonError};

/// Transactions that may run: re-executions, lowest first, then first executions, in order.
///
/// The caller follows every write by [`Idle::wake`](crate::idle::Idle::wake). Its fence pairs with the fence of a worker that
/// is about to sleep, so the plain loads here see the write.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The next transaction that never ran.
    fresh: CachePadded<AtomicU32>,
    /// End of the window.
    open: CachePadded<AtomicU32>,
    /// Number of transactions in `again`, so that an empty heap costs no lock; written under the lock.
    held: CachePadded<AtomicUsize>,
    again: Mutex<BinaryHeap<Reverse<u32>>>,
    total: u32,
}

/// Maximum lookahead of speculation over the commit, in transactions. It bounds the memory of versions, and the wasted work
/// behind an early end. Large enough that one slow transaction does not stop eight workers at once.
pub(crate) const WINDOW: u32 = 2048;

/// Step by which the window moves, in transactions: large, so that waiting workers are woken seldom.
const STEP: u32 = WINDOW / 4;

impl Queue {
    pub(crate) fn new(total: u32) -> Self {
        Self {
            fresh: CachePadded::default(),
            open: CachePadded::new(AtomicU32::new(total.min(WINDOW))),
            held: CachePadded::default(),
            again: Mutex::default(),
            total,
        }
    }

    /// Takes a transaction to run. The caller owns it.
    pub(crate) fn take(&self) -> Option<u32> {
        self.take_again().or_else(|| self.take_fresh())
    }

    pub(crate) fn take_again(&self) -> Option<u32> {
        if self.held.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut again = self.lock();
        let taken = again.pop();
        self.held.store(again.len(), Ordering::Relaxed);
        taken.map(|Reverse(tx)| tx)
    }

    pub(crate) fn take_fresh(&self) -> Option<u32> {
        let mut seen = self.fresh.load(Ordering::Relaxed);
        while seen < self.open.load(Ordering::Relaxed) {
            match self.fresh.compare_exchange_weak(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(seen),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Adds transactions for re-execution. The caller wakes as many workers.
    pub(crate) fn push(&self, txs: impl Iterator<Item = u32>) {
        let mut again = self.lock();
        again.extend(txs.map(Reverse));
        self.held.store(again.len(), Ordering::Relaxed);
    }

    /// Moves the window to begin after `done` final transactions. Returns true if it moved: then the caller wakes all workers.
    /// Only one thread at a time may call it.
    pub(crate) fn advance(&self, done: u32) -> bool {
        let open = (done / STEP * STEP).saturating_add(WINDOW).min(self.total);
        let moved = open > self.open.load(Ordering::Relaxed);
        if moved {
            self.open.store(open, Ordering::Relaxed);
        }
        moved
    }

    /// Nothing panics while holding the lock.
    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Reverse<u32>>> {
        self.again.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
