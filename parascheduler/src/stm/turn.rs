use crate::sync::{AtomicUsize, Ordering};
use crossbeam_utils::CachePadded;

/// Lets one thread at a time do what many ask for, without anybody waiting.
///
/// Whoever asks first does it, and does it again as long as others have asked meanwhile. A request is a
/// read-modify-write of one word: either it finds zero, and its thread does the work; or it comes before the word is
/// taken back to zero, which then fails because the word has changed, and the work is done once more *after* the request.
/// So what a thread did before asking is seen by the work, whoever does it.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    asked: CachePadded<AtomicUsize>,
}

impl Turn {
    /// Has `work` done, here or by the thread that is at it.
    pub(crate) fn ask(&self, mut work: impl FnMut()) {
        // Release publishes what was done before; Acquire sees what the last worker and all who asked it did.
        if self.asked.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        let mut seen = 1;
        loop {
            work();
            match self.asked.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}
