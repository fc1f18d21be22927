//! A block under construction, between its caller and the driver.

use crate::recovery::RecoveredTx;
use parking_lot::{Condvar, Mutex};
use phalanx_engine_api::{BuildRequest, BuiltCandidate, Failure, FatalCause, RetryCause};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Working,
    Done,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) request: BuildRequest,
    /// The forced transactions of the request.
    pub(super) forced: Vec<Arc<RecoveredTx>>,
    inner: Mutex<(Phase, Result<BuiltCandidate, Failure>)>,
    /// Notified when the job has ended, and when the block so far is there.
    done: Condvar,
    stop: AtomicBool,
    /// True while a caller waits for the block so far. It is sealed for such a caller alone: a seal takes time linear in the block.
    is_wanted: AtomicBool,
}

impl Slot {
    /// Creates a slot with an empty block. It is none if there are forced transactions.
    pub(super) fn new(request: BuildRequest, forced: Vec<Arc<RecoveredTx>>, empty: BuiltCandidate) -> Self {
        let best =
            if forced.is_empty() { Ok(empty) } else { Err(Failure::Retry(RetryCause::NotReady(empty.candidate.id()))) };
        let inner = Mutex::new((Phase::Waiting, best));
        let (stop, is_wanted) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { request, forced, inner, done: Condvar::new(), stop, is_wanted }
    }

    /// Starts the job. Returns false if it was ended before.
    pub(super) fn begin(&self) -> bool {
        let (phase, _) = &mut *self.inner.lock();
        let begins = *phase == Phase::Waiting;
        if begins {
            *phase = Phase::Working;
        }
        begins
    }

    /// The best block so far. Waits until the driver has sealed it, if it works on the job.
    pub(super) fn best(&self) -> Result<BuiltCandidate, Failure> {
        let mut inner = self.inner.lock();
        if inner.0 == Phase::Working {
            self.is_wanted.store(true, Ordering::Relaxed);
            let waits = |(phase, _): &mut (Phase, _)| *phase == Phase::Working && self.is_wanted();
            self.done.wait_while(&mut inner, waits);
        }
        inner.1.clone()
    }

    /// True if a caller waits for the block so far.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Gives the block so far to all callers that wait for it; `None` if it is no better than the one before.
    pub(super) fn improve(&self, best: Option<BuiltCandidate>) {
        let mut inner = self.inner.lock();
        if let Some(best) = best {
            inner.1 = Ok(best);
        }
        self.is_wanted.store(false, Ordering::Relaxed);
        self.done.notify_all();
    }

    /// Returns true if the driver must stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Requests that the driver stops.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the job before the driver has begun it.
    pub(super) fn cancel(&self) {
        self.stop();
        let mut inner = self.inner.lock();
        if inner.0 == Phase::Waiting {
            inner.0 = Phase::Done;
        }
    }

    /// Records that the driver has stopped, with its last block. After an error the best block so far is still valid. Without one
    /// the error is the result.
    pub(super) fn end(&self, built: Result<BuiltCandidate, Failure>) {
        let mut inner = self.inner.lock();
        if inner.0 == Phase::Done {
            return;
        }
        inner.0 = Phase::Done;
        if built.is_ok() || inner.1.is_err() {
            inner.1 = built;
        }
        self.done.notify_all();
    }

    /// Waits until the job has ended, or the time is over. Returns true if it has ended.
    pub(super) fn wait(&self, time: core::time::Duration) -> bool {
        let mut inner = self.inner.lock();
        self.done.wait_while_for(&mut inner, |(phase, _)| *phase != Phase::Done, time);
        inner.0 == Phase::Done
    }

    /// Ends the job and returns the best block: at once if the driver has not begun and nothing is forced, otherwise when it
    /// has stopped.
    pub(super) fn finish(&self) -> Result<BuiltCandidate, Failure> {
        self.stop();
        let mut inner = self.inner.lock();
        if inner.0 == Phase::Waiting && self.forced.is_empty() {
            inner.0 = Phase::Done;
        }
        self.done.wait_while(&mut inner, |(phase, _)| *phase != Phase::Done);
        inner.1.clone()
    }
}

/// A job in the queue of the driver. Dropping it ends the job, as its caller waits for that.
pub(super) struct Ordered(pub(super) Arc<Slot>);

impl Drop for Ordered {
    fn drop(&mut self) {
        let why = "the service ended before it built the block";
        self.0.end(Err(Failure::Fatal(FatalCause::Stopped(why.into()))));
    }
}
