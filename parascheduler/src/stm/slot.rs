//! The state of one transaction in a run: the protocol that decides who may run it, abort it or wait for it.
//!
//! ```text
//!                ┌──────────────────────────────── resume ─────────────────────────────────┐
//!                ▼                                                                         │
//!   (queue) ── Ready ── begin ──► Executing ── finish ──► Executed ── take ──► Final    Blocked
//!                ▲  │                │  │ │                  │                             ▲
//!                │  └──── block ─────┼──┼─┴──── block ───────┼─────────────────────────────┘
//!                │                   │  └─ stale ─┐          │ invalidate
//!                │                   │            ▼          ▼
//!                ├───── release ─────┼──────── Aborting ◄────┘   whoever got it here marks its estimates, then releases
//!                │                   ▼            │
//!                └──── as lowest ── Last ◄────────┘ release, when its attempts are used up
//! ```
//!
//! Every state but `Ready`, `Blocked`, `Last` and the two ends has exactly one thread that owns the next step, and
//! `Ready` is in one queue or one worker's hand; so nothing is run twice at a time. All changes are made under the lock
//! of the one slot, and no other lock is taken under it.

use super::waiters::{Line, Waiters};
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use std::sync::PoisonError;

/// One transaction; `T` is what its executions leave.
#[derive(Debug, Default)]
pub(crate) struct Slot<T> {
    /// The running incarnation has read what is no longer there: a copy for polling, written under the lock.
    stale: AtomicBool,
    task: Mutex<Task<T>>,
}

#[derive(Debug, Default)]
struct Task<T> {
    status: Status,
    /// Executions begun.
    incarnation: u32,
    /// It must not credit: a credit did not fit.
    exact: bool,
    /// Nobody waits for one that is executed or final.
    waiters: Waiters,
    left: T,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Status {
    /// May run; in the queue or in a worker's hand.
    #[default]
    Ready,
    Executing,
    /// Has published; whoever it has read from may still change.
    Executed,
    /// One thread marks its estimates.
    Aborting,
    /// Waits for another transaction, which lists it.
    Blocked,
    /// Waits for all lower ones to be final.
    Last,
    Final,
}

/// One execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) incarnation: u32,
    pub(crate) exact: bool,
}

/// What [`Slot::take`] finds.
#[derive(Debug)]
pub(crate) enum Lowest<T> {
    /// Executed, now final unless it is put back.
    Executed { incarnation: u32, exact: bool, left: T },
    /// Was waiting to be lowest; the caller runs or queues it.
    Ready,
    /// Somebody is at it, or it is in the queue.
    Busy,
}

impl<T: Default> Slot<T> {
    /// Nothing panics while holding the lock.
    fn lock(&self) -> MutexGuard<'_, Task<T>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller, which got the transaction as ready, runs it.
    pub(crate) fn begin(&self) -> Begun {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Ready);
        task.status = Status::Executing;
        task.incarnation += 1;
        // Who would set it for an earlier incarnation compares numbers under the lock, and is too late now.
        self.stale.store(false, Ordering::Relaxed);
        Begun { incarnation: task.incarnation, exact: task.exact }
    }

    /// Whether the running execution cannot count any more, for polling: a hint, [`Self::finish`] decides.
    pub(crate) const fn stale(&self) -> &AtomicBool {
        &self.stale
    }

    /// For the thread that owns the transaction's next step.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.lock().left)
    }

    /// The execution has published. Those who waited are returned; or nothing when it was stale: then the caller owns
    /// the abort.
    pub(crate) fn finish(&self, leave: impl FnOnce(&mut T)) -> Option<Waiters> {
        let mut task = self.lock();
        leave(&mut task.left);
        if self.stale.load(Ordering::Relaxed) {
            task.status = Status::Aborting;
            return None;
        }
        task.status = Status::Executed;
        Some(core::mem::take(&mut task.waiters))
    }

    /// The execution ended without publishing; the caller owns the abort.
    pub(crate) fn give_up(&self, leave: impl FnOnce(&mut T)) {
        let mut task = self.lock();
        leave(&mut task.left);
        task.status = Status::Aborting;
    }

    /// `incarnation` has read what is no longer there. True if the caller owns its abort now; a running one learns it
    /// from [`Self::stale`], and others are past.
    pub(crate) fn invalidate(&self, incarnation: u32) -> bool {
        let mut task = self.lock();
        if task.incarnation != incarnation {
            return false;
        }
        match task.status {
            Status::Executing => self.stale.store(true, Ordering::Relaxed),
            Status::Executed => {
                task.status = Status::Aborting;
                return true;
            }
            _ => {}
        }
        false
    }

    /// Ends an abort. True if the transaction is ready and the caller must run or queue it; otherwise it waits to be
    /// lowest, and the caller must have the commit look at it.
    pub(crate) fn release(&self, attempts: u32) -> bool {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Aborting);
        let ready = task.incarnation < attempts;
        task.status = if ready { Status::Ready } else { Status::Last };
        ready
    }

    /// The transaction will wait for another one, if that one lists it: first this, then [`Self::list`] there, then
    /// [`Self::resume`] if it did not.
    pub(crate) fn block(&self) {
        let mut task = self.lock();
        debug_assert!(matches!(task.status, Status::Ready | Status::Aborting));
        task.status = Status::Blocked;
    }

    /// Lists `tx`, which found an estimate of this transaction for `key`. False if there is nothing to wait for.
    pub(crate) fn list(&self, key: u32, tx: u32) -> bool {
        let mut task = self.lock();
        let waits = !matches!(task.status, Status::Executed | Status::Final);
        if waits {
            task.waiters.push(key, tx);
        }
        waits
    }

    /// What the transaction waited for is there; the caller runs or queues it. `behind`, all higher, wait for this one.
    pub(crate) fn resume(&self, key: u32, behind: Line) {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Blocked);
        task.status = Status::Ready;
        if !behind.is_empty() {
            task.waiters.join(key, behind);
        }
    }

    /// All lower transactions are final: takes this one if it is executed.
    pub(crate) fn take(&self) -> Lowest<T> {
        let mut task = self.lock();
        match task.status {
            Status::Executed => {
                task.status = Status::Final;
                let left = core::mem::take(&mut task.left);
                Lowest::Executed { incarnation: task.incarnation, exact: task.exact, left }
            }
            Status::Last => {
                task.status = Status::Ready;
                Lowest::Ready
            }
            _ => Lowest::Busy,
        }
    }

    /// The outcome that was taken does not stand. The caller owns the abort, which ends with [`Self::retry`].
    pub(crate) fn put_back(&self, left: T, exact: bool) {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Final);
        task.status = Status::Aborting;
        task.left = left;
        task.exact |= exact;
    }

    /// Ends the abort of the lowest transaction, which may always run.
    pub(crate) fn retry(&self) {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Aborting);
        task.status = Status::Ready;
    }
}
