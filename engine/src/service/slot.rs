//! A block under construction, between its caller and the driver.

use parking_lot::{Condvar, Mutex};
use phalanx_engine_api::{BuildRequest, BuiltCandidate};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Working,
    Done,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) request: BuildRequest,
    inner: Mutex<(Phase, BuiltCandidate)>,
    done: Condvar,
    stop: AtomicBool,
}

impl Slot {
    /// Creates a slot with an empty block.
    pub(super) const fn new(request: BuildRequest, empty: BuiltCandidate) -> Self {
        let inner = Mutex::new((Phase::Waiting, empty));
        Self { request, inner, done: Condvar::new(), stop: AtomicBool::new(false) }
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

    pub(super) fn best(&self) -> BuiltCandidate {
        self.inner.lock().1.clone()
    }

    pub(super) fn improve(&self, best: BuiltCandidate) {
        self.inner.lock().1 = best;
    }

    /// Returns true if the driver must stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Requests that the driver stops.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Records that the driver has stopped, with its block if that is better.
    pub(super) fn end(&self, built: Option<BuiltCandidate>) {
        let mut inner = self.inner.lock();
        inner.0 = Phase::Done;
        if let Some(built) = built {
            inner.1 = built;
        }
        self.done.notify_all();
    }

    /// Waits until the job has ended, or the time is over.
    pub(super) fn wait(&self, time: core::time::Duration) {
        let mut inner = self.inner.lock();
        self.done.wait_while_for(&mut inner, |(phase, _)| *phase != Phase::Done, time);
    }

    /// Ends the job and returns the best block: at once if the driver has not begun, otherwise when it has stopped.
    pub(super) fn finish(&self) -> BuiltCandidate {
        self.stop();
        let mut inner = self.inner.lock();
        if inner.0 == Phase::Waiting {
            inner.0 = Phase::Done;
        }
        self.done.wait_while(&mut inner, |(phase, _)| *phase == Phase::Working);
        inner.1.clone()
    }
}
