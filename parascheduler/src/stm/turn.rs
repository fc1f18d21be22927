//! Lets one thread at a time do work that many request, and none of them waits.

use crate::sync::{AtomicUsize, Ordering};
use crossbeam_utils::CachePadded;

/// The right to do work that many threads request.
///
/// The first thread that requests the work does it, and repeats it as long as requests came meanwhile. A request is a
/// read-modify-write of one word. Either it finds zero, and its thread does the work. Or it comes before the word is set back
/// to zero; that then fails because the word has changed, and the work is done once more *after* the request. So the work
/// sees what a thread did before its request, on whichever thread it runs.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    requests: CachePadded<AtomicUsize>,
}

impl Turn {
    /// Requests `work`. It is done here, or by the thread that is doing it already.
    pub(crate) fn ask(&self, mut work: impl FnMut()) {
        // Release publishes what was done before; Acquire sees what the last worker and all requesting threads did.
        if self.requests.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        let mut seen = 1;
        loop {
            work();
            match self.requests.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}
