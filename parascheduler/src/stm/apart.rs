//! Values on disk that transactions wait for: workers list them here and run others, and one thread reads them, many at a time.
//!
//! A transaction that waits is blocked and listed here, in this order. The thread takes a batch of the list, and resumes every listed
//! transaction when its value is loaded or could not be read. It is started for the first value.

use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use std::sync::PoisonError;

/// Maximum number of executions of a transaction that end at a value to be read apart; then its worker reads by itself. Each
/// repeats what the one before did, so a transaction that names its keys late must not repeat it without an end. Enough for
/// sender, receiver, and two slots.
pub(crate) const MAX_PARKS: u32 = 4;

/// Maximum number of keys that are read together: enough to keep a disk busy. The lowest transaction may wait for a batch that began
/// before it listed its key.
const BATCH: usize = 256;

/// Key to read, and the transaction that waits for it, if any does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) key: u32,
    pub(crate) tx: Option<u32>,
}

/// Keys that wait to be read.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// True once no more transactions may wait: a value could not be read, or no thread could be started.
    is_closed: AtomicBool,
    list: Mutex<List>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct List {
    wanted: Vec<Wanted>,
    /// True once there is a thread that reads.
    is_served: bool,
    is_over: bool,
}

impl Apart {
    /// True if a transaction may wait here.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed)
    }

    /// Lets no more transactions wait. Those that are listed are resumed all the same.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Lists keys to read. The transactions that wait for them are blocked. The first call starts the thread that reads, with
    /// `start`. Returns false if that fails: then nothing is listed, and the caller resumes the transactions.
    pub(crate) fn want(&self, wanted: impl Iterator<Item = Wanted>, start: impl FnOnce() -> bool) -> bool {
        let mut list = self.lock();
        if !list.is_served {
            list.is_served = start();
            if !list.is_served {
                self.close();
                return false;
            }
        }
        let was_empty = list.wanted.is_empty();
        list.wanted.extend(wanted);
        drop(list);
        // The call that listed the first key rings, and the thread takes batches until the list is empty.
        if was_empty {
            self.bell.notify_one();
        }
        true
    }

    /// Takes the next batch, and waits for one. [`None`] once the run is over.
    pub(crate) fn take(&self) -> Option<Vec<Wanted>> {
        let mut list = self.lock();
        while !list.is_over {
            if !list.wanted.is_empty() {
                let end = list.wanted.len().min(BATCH);
                return Some(list.wanted.drain(..end).collect());
            }
            list = self.bell.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Ends the thread that reads, after the workers have ended.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.bell.notify_one();
    }

    /// Nothing panics while holding the lock.
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn without_a_thread_nothing_is_listed() {
        let apart = Apart::default();
        let wanted = |key| [Wanted { key, tx: Some(key) }].into_iter();
        assert!(apart.is_open() && !apart.want(wanted(1), || false) && !apart.is_open());
        // A worker that found it open before.
        assert!(apart.want(wanted(2), || true));
        assert!(apart.want(wanted(3), || panic!("there is a thread")));
        assert_eq!(apart.take(), Some(wanted(2).chain(wanted(3)).collect()));
        let many = || (0..2 * BATCH as u32 + 7).map(|key| Wanted { key, tx: None });
        assert!(apart.want(many(), || panic!("there is a thread")));
        let batches: Vec<_> = (0..3).filter_map(|_| apart.take()).collect();
        assert!(batches.iter().all(|batch| batch.len() <= BATCH), "{batches:?}");
        assert!(batches.concat().into_iter().eq(many()));
        apart.end();
        assert_eq!(apart.take(), None);
    }
}
