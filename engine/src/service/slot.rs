//! A block being built, between whoever wants it and the driver.

use parking_lot::{Condvar, Mutex};
use phalanx_engine_api::{BuildRequest, Built};
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
    inner: Mutex<(Phase, Built)>,
    done: Condvar,
    stop: AtomicBool,
}

impl Slot {
    /// A slot with an empty block.
    pub(super) const fn new(request: BuildRequest, empty: Built) -> Self {
        let inner = Mutex::new((Phase::Waiting, empty));
        Self { request, inner, done: Condvar::new(), stop: AtomicBool::new(false) }
    }

    /// Whether the driver should begin: nobody has ended it before.
    pub(super) fn begin(&self) -> bool {
        let (phase, _) = &mut *self.inner.lock();
        let begins = *phase == Phase::Waiting;
        if begins {
            *phase = Phase::Working;
        }
        begins
    }

    pub(super) fn best(&self) -> Built {
        self.inner.lock().1.clone()
    }

    pub(super) fn improve(&self, best: Built) {
        self.inner.lock().1 = best;
    }

    /// Whether it is time to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks the driver to stop.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The driver has stopped, with this if it has anything better.
    pub(super) fn end(&self, built: Option<Built>) {
        let mut inner = self.inner.lock();
        inner.0 = Phase::Done;
        if let Some(built) = built {
            inner.1 = built;
        }
        self.done.notify_all();
    }

    /// Ends the job and gives the best block: at once if the driver has not begun, otherwise when it has stopped.
    pub(super) fn seal(&self) -> Built {
        self.stop();
        let mut inner = self.inner.lock();
        if inner.0 == Phase::Waiting {
            inner.0 = Phase::Done;
        }
        self.done.wait_while(&mut inner, |(phase, _)| *phase == Phase::Working);
        inner.1.clone()
    }
}
