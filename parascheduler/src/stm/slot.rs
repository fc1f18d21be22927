//! State of one transaction in a run: the protocol that decides which thread may run it or abort it, and what waits for it.
//!
//! ```text
//!                ┌──────────────────────────────── resume ─────────────────────────────────┐
//!                ▼                                                                         │
//!   (queue) ── Ready ── begin ──► Executing ── finish ──► Executed ── take ──► Final    Blocked
//!                ▲  │                │  │ │                  │                             ▲
//!                │  └──── block ─────┼──┼─┴──── block ───────┼─────────────────────────────┘
//!                │                   │  └─ stale ─┐          │ invalidate
//!                │                   │            ▼          ▼
//!                ├───── release ─────┼──────── Aborting ◄────┘   the thread that owns the abort marks estimates, then releases
//!                │                   ▼            │
//!                └──── as lowest ── Last ◄────────┘ release, when its attempts are used up
//! ```
//!
//! A transaction that waits for a value on disk is `Blocked` too; the thread that reads resumes it.
//!
//! In every state but `Ready`, `Blocked`, `Last` and the two ends exactly one thread owns the next step. A `Ready` transaction is
//! in one queue or with one worker. So no transaction runs twice at a time. All changes are made under the lock
//! of the one slot, and no other lock is taken under it.

use super::waiters::{Line, Waiters};
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use std::sync::PoisonError;

/// A transaction. `T` is the record that its executions leave.
#[derive(Debug, Default)]
pub(crate) struct Slot<T> {
    /// True if the running incarnation has read a value that has changed. To be polled; written under the lock.
    stale: AtomicBool,
    task: Mutex<Task<T>>,
}

#[derive(Debug, Default)]
struct Task<T> {
    status: Status,
    /// Number of executions begun.
    incarnation: u32,
    /// Number of those that ended at a value on disk.
    parks: u32,
    /// True if it must not credit, because a credit did not fit.
    exact: bool,
    /// Empty once the transaction is executed.
    waiters: Waiters,
    record: T,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Status {
    /// May run; in the queue or with a worker.
    #[default]
    Ready,
    Executing,
    /// Has published. Values that it has read may still change.
    Executed,
    /// A thread marks its entries as estimates.
    Aborting,
    /// Waits for another transaction, which lists it, or for a value on disk.
    Blocked,
    /// Waits until all lower transactions are final.
    Last,
    Final,
}

/// An execution that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) incarnation: u32,
    /// Number of earlier executions that ended at a value on disk.
    pub(crate) parks: u32,
    pub(crate) exact: bool,
}

impl Begun {
    /// Number of executions so far that count as attempts, with this one.
    pub(crate) const fn attempt(&self) -> u32 {
        self.incarnation - self.parks
    }
}

/// Result of [`Slot::take`].
#[derive(Debug)]
pub(crate) enum Lowest<T> {
    /// Executed, and final now unless it is put back.
    Executed { incarnation: u32, exact: bool, record: T },
    /// Was waiting to be the lowest. The caller runs or queues it.
    Ready,
    /// Another thread owns its next step, or it is in the queue.
    Busy,
}

impl<T: Default> Slot<T> {
    /// Nothing panics while holding the lock.
    fn lock(&self) -> MutexGuard<'_, Task<T>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an execution. The caller owns the transaction, which is ready.
    pub(crate) fn begin(&self) -> Begun {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Ready);
        task.status = Status::Executing;
        task.incarnation += 1;
        // A thread that would set it for an earlier incarnation compares numbers under the lock, and is too late now.
        self.stale.store(false, Ordering::Relaxed);
        Begun { incarnation: task.incarnation, parks: task.parks, exact: task.exact }
    }

    /// Flag to poll: true if the running execution cannot count any more. A hint; [`Self::finish`] decides.
    pub(crate) const fn stale(&self) -> &AtomicBool {
        &self.stale
    }

    /// Changes the record, for the thread that owns the transaction's next step.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.lock().record)
    }

    /// Ends an execution that has published, and returns the waiting transactions. [`None`] if it was stale: then the caller
    /// owns the abort.
    pub(crate) fn finish(&self, leave: impl FnOnce(&mut T)) -> Option<Waiters> {
        let mut task = self.lock();
        leave(&mut task.record);
        if self.stale.load(Ordering::Relaxed) {
            task.status = Status::Aborting;
            return None;
        }
        task.status = Status::Executed;
        Some(core::mem::take(&mut task.waiters))
    }

    /// Ends an execution that has not published. The caller owns the abort.
    pub(crate) fn give_up(&self, leave: impl FnOnce(&mut T)) {
        let mut task = self.lock();
        leave(&mut task.record);
        task.status = Status::Aborting;
    }

    /// Invalidates `incarnation`, which has read a value that has changed. Returns true if the caller now owns its abort. A
    /// running incarnation learns it from [`Self::stale`]; an earlier one no longer counts.
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

    /// Ends an abort. Returns true if the transaction is ready: then the caller must run or queue it. Otherwise it waits to be
    /// the lowest, and the caller must ask for a commit.
    pub(crate) fn release(&self, attempts: u32) -> bool {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Aborting);
        let ready = task.incarnation - task.parks < attempts;
        task.status = if ready { Status::Ready } else { Status::Last };
        ready
    }

    /// Blocks the transaction until another one resumes it. The caller then calls [`Self::list`] on the other one's slot, and
    /// [`Self::resume`] here if that returned false.
    pub(crate) fn block(&self) {
        let mut task = self.lock();
        debug_assert!(matches!(task.status, Status::Ready | Status::Aborting));
        task.status = Status::Blocked;
    }

    /// Blocks the transaction, whose abort the caller owns, until a value on disk has been read. The caller then lists it for the
    /// thread that reads, which calls [`Self::resume`].
    pub(crate) fn park(&self) {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Aborting);
        task.status = Status::Blocked;
        task.parks += 1;
    }

    /// Lists `tx`, which found an estimate of this transaction for `key`. Returns false if there is nothing to wait for.
    pub(crate) fn list(&self, key: u32, tx: u32) -> bool {
        let mut task = self.lock();
        let waits = !matches!(task.status, Status::Executed | Status::Final);
        if waits {
            task.waiters.push(key, tx);
        }
        waits
    }

    /// Unblocks the transaction. The caller runs or queues it. `behind`, all higher, wait for this one from now on.
    pub(crate) fn resume(&self, key: u32, behind: Line) {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Blocked);
        task.status = Status::Ready;
        if !behind.is_empty() {
            task.waiters.join(key, behind);
        }
    }

    /// Takes the lowest transaction that is not final, if it is executed.
    pub(crate) fn take(&self) -> Lowest<T> {
        let mut task = self.lock();
        match task.status {
            Status::Executed => {
                task.status = Status::Final;
                let record = core::mem::take(&mut task.record);
                Lowest::Executed { incarnation: task.incarnation, exact: task.exact, record }
            }
            Status::Last => {
                task.status = Status::Ready;
                Lowest::Ready
            }
            _ => Lowest::Busy,
        }
    }

    /// Puts back a record whose outcome does not stand. The caller owns the abort, which ends with [`Self::retry`].
    pub(crate) fn put_back(&self, record: T, exact: bool) {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Final);
        task.status = Status::Aborting;
        task.record = record;
        task.exact |= exact;
    }

    /// Ends the abort of the lowest transaction, which may always run again.
    pub(crate) fn retry(&self) {
        let mut task = self.lock();
        debug_assert_eq!(task.status, Status::Aborting);
        task.status = Status::Ready;
    }
}
