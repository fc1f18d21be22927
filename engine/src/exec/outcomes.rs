//! Outcomes of a block, with the threads that made them. Results own memory (logs, topics, returned data). Memory that
//! one thread allocates and another frees costs an atomic exchange and a cache miss: a microsecond per swap on two
//! threads. So the threads that made the outcomes drop them.
//!
//! The threads are known for the outcomes of a block's one clean wave. Other outcomes, and outcomes appended to those,
//! are dropped by the thread that drops the block.

use crate::model::Outcome;
use core::{
    cell::UnsafeCell,
    mem::{self, ManuallyDrop},
    ops::Deref,
};
use phalanx_memory::{prefetch_ahead, prefetch_all};
use phalanx_parascheduler::WeakWorkers;

/// Minimum number of outcomes per thread for which threads are called: a call takes about as long as dropping them.
const WORTH_CALLING: usize = 256;

/// Distance between the stages of prefetching in the loop that drops outcomes: other threads have read all of their
/// memory since they were made.
const DROP_LOOKAHEAD: usize = 8;

/// Outcomes of a block's transactions, in final order.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    list: Vec<Outcome>,
    /// Makers of the first outcomes; every position below their number occurs once.
    made: Vec<Made>,
    threads: WeakWorkers,
}

/// Outcomes that one thread has made.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Index of the thread in its pool, which is that of the workers except in tests; `None` outside of a pool.
    pub(crate) thread: Option<usize>,
    /// Positions in the list.
    at: Vec<u32>,
}

/// True if makers are worth recording in a wave of `txs` transactions on `workers` workers.
pub(crate) const fn worth_noting(txs: usize, workers: usize) -> bool {
    workers > 1 && txs >= workers * WORTH_CALLING
}

impl Made {
    /// Forgets all positions.
    pub(crate) fn clear(&mut self) {
        self.at.clear();
    }

    /// Records that this thread has made the outcome at a position; always the same thread.
    #[inline]
    pub(crate) fn note(&mut self, at: u32) {
        if self.at.is_empty() {
            self.thread = rayon::current_thread_index();
        }
        self.at.push(at);
    }

    /// Takes the recorded positions, if there are any, and reserves room for as many.
    pub(crate) fn take(&mut self) -> Option<Self> {
        let room = Vec::with_capacity(self.at.len());
        let at = mem::replace(&mut self.at, room);
        (!at.is_empty()).then_some(Self { thread: self.thread, at })
    }

    /// Recorded positions, in the order in which their outcomes were made.
    pub(crate) fn positions(&self) -> &[u32] {
        &self.at
    }
}

impl Outcomes {
    /// Outcomes of one wave. If some were not recorded, the records are ignored.
    ///
    /// # Safety
    /// No position occurs in `made` twice.
    #[expect(unsafe_code, reason = "dropped place by place")]
    pub(crate) unsafe fn of_wave(list: Vec<Outcome>, mut made: Vec<Made>, threads: WeakWorkers) -> Self {
        let known: usize = made.iter().map(|made| made.at.len()).sum();
        if known != list.len() {
            made.clear();
        }
        Self { list, made, threads }
    }

    /// Positions by thread, where they were recorded.
    #[cfg(test)]
    pub(crate) fn made(&self) -> &[Made] {
        &self.made
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

    /// Takes the list without its makers.
    pub(crate) fn into_vec(mut self) -> Vec<Outcome> {
        self.made.clear();
        mem::take(&mut self.list)
    }
}

impl From<Vec<Outcome>> for Outcomes {
    fn from(list: Vec<Outcome>) -> Self {
        Self { list, made: Vec::new(), threads: WeakWorkers::default() }
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
        let Self { list, made, threads } = self;
        // One thread may have made all of them, if the others planned meanwhile; then they go back to that one.
        let is_ours = |made: &Made| made.thread == rayon::current_thread_index();
        if made.iter().all(is_ours) {
            return;
        }
        let known: usize = made.iter().map(|made| made.at.len()).sum();
        threads.call_all(|count| {
            let are_ours = made.iter().all(|made| made.thread.is_some_and(|thread| thread < count));
            (are_ours && known >= count * WORTH_CALLING).then(|| {
                list.truncate(known);
                let apart = Apart::new(mem::take(list), mem::take(made));
                #[expect(unsafe_code, reason = "dropped place by place")]
                // SAFETY: `of_wave` was promised that no position occurs twice, and each thread is called once.
                move |thread| unsafe { apart.drop_of(thread, Outcome::prefetch_logs, Outcome::prefetch_drop) }
            })
        });
    }
}

/// A list that several threads drop, each its own outcomes.
struct Apart<T> {
    list: Vec<UnsafeCell<ManuallyDrop<T>>>,
    made: Vec<Made>,
}

#[expect(unsafe_code, reason = "dropped place by place")]
// SAFETY: shared access is through `drop_of` alone, whose callers have disjoint places.
unsafe impl<T: Send> Sync for Apart<T> {}

impl<T> Apart<T> {
    /// Takes a list; elements outside of `made` are never dropped.
    #[expect(
        unsafe_code,
        reason = "a list under another name: one thread would rewrite all of it, and the others wait"
    )]
    fn new(list: Vec<T>, made: Vec<Made>) -> Self {
        let mut list = ManuallyDrop::new(list);
        let (items, len, capacity) = (list.as_mut_ptr(), list.len(), list.capacity());
        // SAFETY: the parts of a vector that is not used any more; both wrappers have the layout of their contents.
        let list = unsafe { Vec::from_raw_parts(items.cast::<UnsafeCell<ManuallyDrop<T>>>(), len, capacity) };
        Self { list, made }
    }

    /// Drops the outcomes of a thread. Each is passed to `far` and later to `near` before.
    ///
    /// # Safety
    /// No position occurs in `made` twice, and this is called once for each thread.
    #[expect(unsafe_code, reason = "dropped place by place")]
    unsafe fn drop_of(&self, thread: usize, far: impl Fn(&T), near: impl Fn(&T)) {
        for made in self.made.iter().filter(|made| made.thread == Some(thread)) {
            for (place, at) in made.at.iter().enumerate() {
                // SAFETY: these places belong to this thread, and their turn to be dropped is yet to come.
                let later = |at: &u32| unsafe { &*self.list[*at as usize].get() };
                prefetch_ahead(&made.at, place, 3 * DROP_LOOKAHEAD, |at| prefetch_all(&self.list[*at as usize]));
                prefetch_ahead(&made.at, place, 2 * DROP_LOOKAHEAD, |at| far(later(at)));
                prefetch_ahead(&made.at, place, DROP_LOOKAHEAD, |at| near(later(at)));
                // SAFETY: this place belongs to this thread, and is not visited again.
                unsafe { ManuallyDrop::drop(&mut *self.list[*at as usize].get()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;
    use phalanx_parascheduler::Workers;
    use revm::context_interface::result::{ExecutionResult, ResultGas};
    use std::{
        sync::mpsc::{Sender, channel},
        time::Duration,
    };

    /// Reports the thread that drops it.
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

    /// Outcomes of which every third was made by the same one of `threads`, and the threads that dropped them after
    /// `end`.
    fn dropped(
        len: u32,
        threads: [Option<usize>; THREADS],
        end: impl FnOnce(Outcomes, &mut Option<Workers>),
    ) -> Vec<(u32, Option<usize>)> {
        let workers = Workers::new(THREADS).unwrap();
        let (to, told) = channel();
        let outcome = |at| {
            let output = Bytes(alloy_primitives::bytes::Bytes::from_owner(Told { at, to: to.clone() }));
            Outcome::Executed(ExecutionResult::Revert { gas: ResultGas::default(), logs: Vec::new(), output })
        };
        let made =
            (0..).zip(threads).map(|(first, thread)| Made { thread, at: (first..len).step_by(THREADS).collect() });
        #[expect(unsafe_code, reason = "a test")]
        // SAFETY: remainders differ.
        let outcomes =
            unsafe { Outcomes::of_wave((0..len).map(outcome).collect(), made.collect(), workers.downgrade()) };
        drop(to);
        let mut workers = Some(workers);
        end(outcomes, &mut workers);
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
        let apart = |threads: [Option<usize>; THREADS]| of(1000, |at| threads[at as usize % THREADS]);
        assert_eq!(dropped(1000, threads, |outcomes, _| drop(outcomes)), apart(threads));
        // One thread may have had the place of two workers.
        let twice = [Some(1), Some(0), Some(1)];
        assert_eq!(dropped(1000, twice, |outcomes, _| drop(outcomes)), apart(twice));
        let one = [Some(1); THREADS];
        assert_eq!(dropped(1000, one, |outcomes, _| drop(outcomes)), apart(one), "of one wave beside a plan");
        let longer = dropped(1000, threads, |mut outcomes, _| outcomes.push(Outcome::Skipped("no reason".into())));
        assert_eq!(longer, apart(threads), "pushed");
    }

    #[test]
    fn where_it_is_not_known_or_not_worth_it_all_are_dropped_at_once() {
        let threads = [Some(2), Some(0), Some(1)];
        let here = |len| of(len, |_| None);
        let few = (THREADS * WORTH_CALLING) as u32 - 1;
        assert_eq!(dropped(few, threads, |outcomes, _| drop(outcomes)), here(few), "few");
        let elsewhere = |threads| dropped(1000, threads, |outcomes, _| drop(outcomes));
        assert_eq!(elsewhere([None, Some(0), Some(1)]), here(1000), "made by no thread");
        assert_eq!(elsewhere([Some(THREADS), Some(0), Some(1)]), here(1000), "made by another pool");
        let ended = dropped(1000, threads, |outcomes, workers| {
            drop(workers.take());
            drop(outcomes);
        });
        assert_eq!(ended, here(1000), "the threads are gone");
        assert_eq!(dropped(1000, threads, |outcomes, _| drop(outcomes.into_vec())), here(1000), "taken out");
        let fill = |outcomes: &mut Outcomes| {
            outcomes.extend((outcomes.len()..1000).map(|_| Outcome::Skipped("no reason".into())));
        };
        let cut = dropped(1000, threads, |mut outcomes, _| {
            outcomes.truncate(900);
            fill(&mut outcomes);
        });
        assert_eq!(cut, here(1000), "cut and filled up");
        let split = dropped(1000, threads, |mut outcomes, _| {
            let tail = outcomes.split_off(10);
            fill(&mut outcomes);
            drop(tail);
        });
        assert_eq!(split, here(1000), "split and filled up");
        let copied = dropped(1000, threads, |outcomes, _| {
            let copy = outcomes.clone();
            drop(outcomes);
            drop(copy);
        });
        assert_eq!(copied.len(), 1000, "copied");
    }
}
