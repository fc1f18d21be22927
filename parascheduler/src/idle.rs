use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence};
use crossbeam_utils::CachePadded;
use std::sync::PoisonError;

/// Lets workers sleep while there is nothing to do, and knows when there will never be anything to do again.
///
/// A worker that found nothing *announces* itself, looks once more, and only then sleeps; a worker that has made work
/// stealable looks for announced workers afterwards. Each side writes, passes a SeqCst fence, and reads what the other
/// wrote, so at least one of them notices the other. See the crate's README for the whole argument.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Transactions not yet retired. Every worker counts on its own and subtracts when it runs out of work.
    remaining: CachePadded<AtomicUsize>,
    /// Copy of `Beds::waiting` that can be read without the lock; written under it.
    waiting: CachePadded<AtomicUsize>,
    over: AtomicBool,
    beds: Mutex<Beds>,
    bell: Condvar,
}

/// # Invariants
/// `waiting + permits` is the number of workers that have announced themselves and not yet left: a permit is a wakeup
/// on its way to one of them, no matter which.
#[derive(Debug, Default)]
struct Beds {
    waiting: usize,
    permits: usize,
    over: bool,
}

impl Idle {
    /// Starts a run of `transactions`. The caller publishes this to the workers.
    pub(crate) fn reset(&mut self, transactions: usize) {
        self.remaining.store(transactions, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
        self.over.store(transactions == 0, Ordering::Relaxed);
        *self.lock() = Beds { waiting: 0, permits: 0, over: transactions == 0 };
    }

    /// Whether the run has ended: all transactions retired, or a worker panicked.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether some worker has announced itself; a hint.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Takes `done` transactions off the count. The worker that takes the last ends the run.
    pub(crate) fn retire(&self, done: usize) {
        if done != 0 && self.remaining.fetch_sub(done, Ordering::AcqRel) == done {
            self.end();
        }
    }

    /// Ends the run and wakes everybody.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.lock().over = true;
        self.bell.notify_all();
    }

    /// Wakes up to `work` workers; called after that much work was made stealable.
    #[inline]
    pub(crate) fn wake(&self, work: usize) {
        // Pairs with the fence in `announce`: if the load below misses an announcement, that worker's last look comes
        // after this fence and finds the work.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.ring(work);
        }
    }

    #[cold]
    fn ring(&self, work: usize) {
        let mut beds = self.lock();
        let woken = work.min(beds.waiting);
        beds.permits += woken;
        self.set_waiting(&mut beds, |waiting| waiting - woken);
        drop(beds);
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

    /// From here on every [`Self::wake`] counts this worker. False when the run is over.
    fn announce(&self) -> bool {
        let mut beds = self.lock();
        if beds.over {
            return false;
        }
        self.set_waiting(&mut beds, |waiting| waiting + 1);
        drop(beds);
        fence(Ordering::SeqCst);
        true
    }

    /// Takes an announcement back. If every announced worker has a permit, one of the permits is ours.
    fn withdraw(&self) {
        let mut beds = self.lock();
        if beds.waiting != 0 {
            self.set_waiting(&mut beds, |waiting| waiting - 1);
        } else {
            // Once the run is over the count no longer matters; before, the invariant leaves a permit here.
            beds.permits = beds.permits.saturating_sub(1);
        }
    }

    /// Sleeps until there is a permit and takes it. False when the run is over.
    fn sleep(&self) -> bool {
        let mut beds = self.lock();
        while !beds.over && beds.permits == 0 {
            beds = self.bell.wait(beds).unwrap_or_else(PoisonError::into_inner);
        }
        if beds.over {
            return false;
        }
        beds.permits -= 1;
        true
    }

    /// How many workers are announced or have a permit on its way: none, once all have returned from a run that goes on.
    #[cfg(all(loom, test))]
    #[allow(dead_code, reason = "the library's own tests do not ask")]
    pub(crate) fn announced(&self) -> usize {
        let beds = self.lock();
        beds.waiting + beds.permits
    }

    fn set_waiting(&self, beds: &mut Beds, change: impl FnOnce(usize) -> usize) {
        beds.waiting = change(beds.waiting);
        self.waiting.store(beds.waiting, Ordering::Relaxed);
    }

    /// Nothing panics while holding the lock, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, Beds> {
        self.beds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the run when its worker unwinds, so that no other waits for work that will never come.
#[derive(Debug)]
pub(crate) struct EndOnPanic<'a>(pub(crate) &'a Idle);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}
