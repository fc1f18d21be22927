use crate::sync::{AtomicU32, AtomicUsize, Mutex, MutexGuard, Ordering};
use crossbeam_utils::CachePadded;
use std::{cmp::Reverse, collections::BinaryHeap, sync::PoisonError};

/// Transactions that may run: those to be run again, lowest first, then those never run, in order.
///
/// All writes are followed by the caller's [`Idle::wake`](crate::idle::Idle::wake), whose fence, with that of a worker
/// about to sleep, makes the plain loads here see them.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The next transaction that was never run.
    fresh: CachePadded<AtomicU32>,
    /// Where the window ends.
    open: CachePadded<AtomicU32>,
    /// How many are in `again`, so that the lock is taken only when it is worth it; written under it.
    held: CachePadded<AtomicUsize>,
    again: Mutex<BinaryHeap<Reverse<u32>>>,
    total: u32,
}

/// How far speculation may run ahead of the commit: bounds the memory of versions and the work behind an early end.
/// Enough that one slow transaction does not stop eight workers at once.
pub(crate) const WINDOW: u32 = 2048;

/// The window moves by this much at a time, so that those who wait for it are woken seldom.
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

    /// A transaction to run; the caller owns it.
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

    /// Adds transactions to be run again. The caller wakes that many workers.
    pub(crate) fn push(&self, txs: impl Iterator<Item = u32>) {
        let mut again = self.lock();
        again.extend(txs.map(Reverse));
        self.held.store(again.len(), Ordering::Relaxed);
    }

    /// Moves the window behind `done` final transactions. True if it moved: the caller wakes everybody. Only one thread
    /// at a time may call it.
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
