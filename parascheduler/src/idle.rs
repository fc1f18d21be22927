//! Sleep and wakeup of workers, and the exact end of a run. Correctness lives here: no wakeup is lost.

use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence};
use crossbeam_utils::CachePadded;
use std::sync::PoisonError;

/// Lets workers sleep while there is no work, and ends the run when there will be no more.
///
/// A worker that found nothing *announces* itself, looks once more, and only then sleeps. A worker that has made work
/// stealable looks for announced workers afterwards. Each side writes, passes a SeqCst fence, and reads what the other side
/// wrote, so at least one of the two notices the other. The crate's README has the whole argument.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Transactions not yet retired. Every worker counts its own and subtracts the count when it runs out of work.
    remaining: CachePadded<AtomicUsize>,
    /// Copy of `Sleepers::waiting` to be read without the lock; written under it.
    waiting: CachePadded<AtomicUsize>,
    over: AtomicBool,
    sleepers: Mutex<Sleepers>,
    bell: Condvar,
}

/// # Invariants
/// `waiting + permits` is the number of workers that have announced themselves and not yet left. A permit is a wakeup in
/// flight to any of them.
#[derive(Debug, Default)]
struct Sleepers {
    waiting: usize,
    permits: usize,
    over: bool,
}

impl Idle {
    /// Begins a run of so many transactions. The caller publishes this to the workers.
    pub(crate) fn reset(&mut self, transactions: usize) {
        self.remaining.store(transactions, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
        self.over.store(transactions == 0, Ordering::Relaxed);
        *self.lock() = Sleepers { waiting: 0, permits: 0, over: transactions == 0 };
    }

    /// Returns true if the run has ended: all transactions are retired, or a worker panicked.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Returns true if a worker has announced itself; a hint.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Subtracts `done` transactions from the count. The worker that subtracts the last one ends the run.
    pub(crate) fn retire(&self, done: usize) {
        if done != 0 && self.remaining.fetch_sub(done, Ordering::AcqRel) == done {
            self.end();
        }
    }

    /// Ends the run and wakes all workers.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.lock().over = true;
        self.bell.notify_all();
    }

    /// Wakes up to `work` workers. Called after so many transactions were made stealable.
    #[inline]
    pub(crate) fn wake(&self, work: usize) {
        // Pairs with the fence in `announce`: if the load below misses an announcement, the last look of that worker comes
        // after this fence and finds the work.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.ring(work);
        }
    }

    #[cold]
    fn ring(&self, work: usize) {
        let mut sleepers = self.lock();
        let woken = work.min(sleepers.waiting);
        sleepers.permits += woken;
        self.set_waiting(&mut sleepers, |waiting| waiting - woken);
        drop(sleepers);
        for _ in 0..woken {
            self.bell.notify_one();
        }
    }

    /// Sleeps until `look` finds something, or returns nothing when the run is over.
    pub(crate) fn wait_for<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        while self.announce() {
            if let Some(found) = look() {
                self.withdraw();
                return Some(found);
            }
            if !self.sleep() {
                break;
            }
            if let Some(found) = look() {
                return Some(found);
            }
        }
        None
    }

    /// Announces this worker: from now on every [`Self::wake`] counts it. Returns false if the run is over.
    fn announce(&self) -> bool {
        let mut sleepers = self.lock();
        if sleepers.over {
            return false;
        }
        self.set_waiting(&mut sleepers, |waiting| waiting + 1);
        drop(sleepers);
        fence(Ordering::SeqCst);
        true
    }

    /// Withdraws the announcement. If every announced worker has a permit, one of the permits is ours.
    fn withdraw(&self) {
        let mut sleepers = self.lock();
        if sleepers.waiting != 0 {
            self.set_waiting(&mut sleepers, |waiting| waiting - 1);
        } else {
            // Once the run is over the count no longer matters; before, the invariant leaves a permit here.
            sleepers.permits = sleepers.permits.saturating_sub(1);
        }
    }

    /// Sleeps until there is a permit, and takes it. Returns false if the run is over.
    fn sleep(&self) -> bool {
        let mut sleepers = self.lock();
        while !sleepers.over && sleepers.permits == 0 {
            sleepers = self.bell.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
        }
        if sleepers.over {
            return false;
        }
        sleepers.permits -= 1;
        true
    }

    /// Number of workers that are announced or have a permit in flight: zero once all have returned from a run that continues.
    #[cfg(all(loom, test))]
    #[allow(dead_code, reason = "only the model checker calls it")]
    pub(crate) fn announced(&self) -> usize {
        let sleepers = self.lock();
        sleepers.waiting + sleepers.permits
    }

    fn set_waiting(&self, sleepers: &mut Sleepers, change: impl FnOnce(usize) -> usize) {
        sleepers.waiting = change(sleepers.waiting);
        self.waiting.store(sleepers.waiting, Ordering::Relaxed);
    }

    /// Nothing panics while holding the lock, so a poisoned lock is intact.
    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the run when its worker unwinds, so that no other worker waits for work that will never come.
#[derive(Debug)]
pub(crate) struct EndOnPanic<'a>(pub(crate) &'a Idle);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}
