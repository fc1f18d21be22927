//! The outcomes of a block, which know the threads that made them. Results own memory (logs, topics, what was returned), and
//! memory that one thread allocates and another frees costs the one an atomic exchange and the other a cache miss: of a swap
//! on two threads more than a microsecond. So a block that is dropped is taken apart by those who made it.

use crate::Outcome;
use core::{
    cell::UnsafeCell,
    mem::{self, ManuallyDrop, MaybeUninit},
    ops::Deref,
};
use phalanx_parascheduler::Workers;
use std::sync::{Arc, Weak};

/// Fewer outcomes than these are dropped where they are: to call the threads takes about as long.
const WORTH_CALLING: usize = 512;

/// What became of a block's transactions, in final order.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    list: Vec<Outcome>,
    /// Who made them, if that is known of all.
    made: Vec<Made>,
    workers: Weak<Workers>,
}

/// What one thread of the workers has made.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Its number in the pool; `None` if it is none of them.
    thread: Option<usize>,
    /// Positions in the list.
    at: Vec<u32>,
}

impl Made {
    /// Nothing.
    pub(crate) fn clear(&mut self) {
        self.at.clear();
    }

    /// That this thread has made what is at a position; the same thread from the first to the last.
    #[inline]
    pub(crate) fn note(&mut self, at: u32) {
        if self.at.is_empty() {
            self.thread = rayon::current_thread_index();
        }
        self.at.push(at);
    }

    /// What was noted, if anything was. Expects as much again.
    pub(crate) fn take(&mut self) -> Option<Self> {
        let room = Vec::with_capacity(self.at.len());
        let at = mem::replace(&mut self.at, room);
        (!at.is_empty()).then_some(Self { thread: self.thread, at })
    }
}

impl Outcomes {
    /// Outcomes of one wave.
    ///
    /// # Safety
    /// Every position in `made` is there once, and within `list`.
    #[expect(unsafe_code, reason = "dropped place by place")]
    pub(crate) unsafe fn of_wave(list: Vec<Outcome>, made: Vec<Made>, workers: &Arc<Workers>) -> Self {
        Self { list, made, workers: Arc::downgrade(workers) }
    }

    pub(crate) fn reserve(&mut self, more: usize) {
        self.list.reserve(more);
    }

    pub(crate) fn push(&mut self, outcome: Outcome) {
        self.list.push(outcome);
    }

    pub(crate) fn extend(&mut self, outcomes: impl IntoIterator<Item = Outcome>) {
        self.list.extend(outcomes);
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.made.clear();
        self.list.truncate(len);
    }

    pub(crate) fn split_off(&mut self, at: usize) -> Vec<Outcome> {
        self.made.clear();
        self.list.split_off(at)
    }

    /// The bare list.
    pub(crate) fn into_vec(mut self) -> Vec<Outcome> {
        mem::take(&mut self.list)
    }
}

impl From<Vec<Outcome>> for Outcomes {
    fn from(list: Vec<Outcome>) -> Self {
        Self { list, made: Vec::new(), workers: Weak::new() }
    }
}

impl Deref for Outcomes {
    type Target = [Outcome];

    fn deref(&self) -> &[Outcome] {
        &self.list
    }
}

impl Clone for Outcomes {
    fn clone(&self) -> Self {
        self.list.clone().into()
    }
}

impl Drop for Outcomes {
    fn drop(&mut self) {
        let known: usize = self.made.iter().map(|made| made.at.len()).sum();
        if known != self.list.len() || known < WORTH_CALLING || self.made.len() < 2 {
            return;
        }
        let Some(workers) = self.workers.upgrade() else { return };
        // A test may have run them elsewhere, and nobody else would drop what those made.
        if !self.made.iter().all(|made| made.thread.is_some_and(|thread| thread < workers.threads())) {
            return;
        }
        #[expect(unsafe_code, reason = "dropped place by place")]
        // SAFETY: `of_wave` was promised that no position is there twice; they are as many as there are places, and pushing
        // is all that has happened since to the list, which would have made it longer.
        let apart = unsafe { Apart::new(mem::take(&mut self.list), mem::take(&mut self.made)) };
        #[expect(unsafe_code, reason = "dropped place by place")]
        // SAFETY: each thread is called once.
        workers.call_all(move |thread| unsafe { apart.drop_of(thread) });
    }
}

/// A list that several threads drop, each what it made.
struct Apart<T> {
    list: UnsafeCell<Vec<MaybeUninit<T>>>,
    made: Vec<Made>,
}

#[expect(unsafe_code, reason = "dropped place by place")]
// SAFETY: what is shared is reached through `drop_of` alone, whose callers have different places.
unsafe impl<T: Send> Sync for Apart<T> {}

#[expect(unsafe_code, reason = "dropped place by place")]
impl<T> Apart<T> {
    /// What is not in `made` is never dropped.
    ///
    /// # Safety
    /// Every position in `made` is there once, and within `list`.
    unsafe fn new(list: Vec<T>, made: Vec<Made>) -> Self {
        let mut list = ManuallyDrop::new(list);
        // SAFETY: the same memory, of which nobody else knows; values may become values that nobody drops.
        let list = unsafe { Vec::from_raw_parts(list.as_mut_ptr().cast(), list.len(), list.capacity()) };
        Self { list: UnsafeCell::new(list), made }
    }

    /// Drops what the thread has made.
    ///
    /// # Safety
    /// Called once for each thread.
    unsafe fn drop_of(&self, thread: usize) {
        for made in self.made.iter().filter(|made| made.thread == Some(thread)) {
            for at in &made.at {
                // SAFETY: a position is there once and this is the only call for it; the list is no longer changed, so that
                // its memory stays where it is.
                unsafe {
                    let place = (*self.list.get()).as_ptr().add(*at as usize);
                    place.cast::<T>().cast_mut().drop_in_place();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;
    use revm::context_interface::result::{ExecutionResult, ResultGas};
    use std::{
        sync::mpsc::{Sender, channel},
        time::Duration,
    };

    /// Tells who dropped it.
    struct Told {
        at: u32,
        to: Sender<(u32, Option<usize>)>,
    }

    impl AsRef<[u8]> for Told {
        fn as_ref(&self) -> &[u8] {
            &[1]
        }
    }

    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.to.send((self.at, rayon::current_thread_index()));
        }
    }

    const THREADS: usize = 3;

    /// Outcomes of which every third was made by the same one of `threads`, and who drops them once `end` is through.
    fn dropped(len: u32, threads: [Option<usize>; THREADS], end: impl FnOnce(Outcomes)) -> Vec<(u32, Option<usize>)> {
        let workers = Arc::new(Workers::new(THREADS).unwrap());
        let (to, told) = channel();
        let outcome = |at| {
            let output = Bytes(alloy_primitives::bytes::Bytes::from_owner(Told { at, to: to.clone() }));
            Outcome::Executed(ExecutionResult::Revert { gas: ResultGas::default(), logs: Vec::new(), output })
        };
        let made =
            (0..).zip(threads).map(|(first, thread)| Made { thread, at: (first..len).step_by(THREADS).collect() });
        #[expect(unsafe_code, reason = "a test")]
        // SAFETY: remainders differ.
        let outcomes = unsafe { Outcomes::of_wave((0..len).map(outcome).collect(), made.collect(), &workers) };
        drop(to);
        end(outcomes);
        // Ends once the last is dropped.
        let mut all: Vec<_> = core::iter::from_fn(|| told.recv_timeout(Duration::from_secs(60)).ok()).collect();
        all.sort_unstable();
        all
    }

    fn of(len: u32, thread: impl Fn(u32) -> Option<usize>) -> Vec<(u32, Option<usize>)> {
        (0..len).map(|at| (at, thread(at))).collect()
    }

    #[test]
    fn each_is_dropped_once_by_the_thread_that_made_it() {
        let threads = [Some(2), Some(0), Some(1)];
        assert_eq!(dropped(1000, threads, drop), of(1000, |at| threads[at as usize % THREADS]));
        // One thread may have had the place of two workers.
        let threads = [Some(1), Some(0), Some(1)];
        assert_eq!(dropped(1000, threads, drop), of(1000, |at| threads[at as usize % THREADS]));
    }

    #[test]
    fn where_it_is_not_known_or_not_worth_it_all_are_dropped_at_once() {
        let threads = [Some(2), Some(0), Some(1)];
        let here = |len| of(len, |_| None);
        assert_eq!(dropped(WORTH_CALLING as u32 - 1, threads, drop), here(WORTH_CALLING as u32 - 1), "few");
        assert_eq!(dropped(1000, [None, Some(0), Some(1)], drop), here(1000), "made by no thread");
        assert_eq!(dropped(1000, [Some(THREADS), Some(0), Some(1)], drop), here(1000), "made by another pool");
        let taken = dropped(1000, threads, |outcomes| drop(outcomes.into_vec()));
        assert_eq!(taken, here(1000), "taken out");
        let cut = dropped(1000, threads, |mut outcomes| {
            outcomes.truncate(900);
            outcomes.extend((0..100).map(|_| Outcome::Skipped("no reason".into())));
        });
        assert_eq!(cut.len(), 1000, "cut and filled up");
        assert!(cut.iter().all(|(_, thread)| thread.is_none()));
        let split = dropped(1000, threads, |mut outcomes| drop(outcomes.split_off(10)));
        assert_eq!(split, here(1000), "split");
        let longer = dropped(1000, threads, |mut outcomes| outcomes.push(Outcome::Skipped("no reason".into())));
        assert_eq!(longer, here(1000), "pushed");
        let copied = dropped(1000, threads, |outcomes| {
            let copy = outcomes.clone();
            drop(outcomes);
            drop(copy);
        });
        assert_eq!(copied.len(), 1000, "copied");
    }
}
