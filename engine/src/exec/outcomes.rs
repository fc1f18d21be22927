//! The outcomes of a block, which know the threads that made them. Results own memory (logs, topics, what was returned), and
//! memory that one thread allocates and another frees costs the one an atomic exchange and the other a cache miss: of a swap
//! on two threads a microsecond. So a block that is dropped is taken apart by those who made it.
//!
//! That is known of the outcomes of a block's one clean wave. Others, and what was pushed behind those, are dropped by
//! whoever drops the block.

use crate::model::Outcome;
use core::{
    cell::UnsafeCell,
    mem::{self, ManuallyDrop},
    ops::Deref,
};
use phalanx_memory::prefetch_all;
use phalanx_parascheduler::WeakWorkers;

/// Fewer outcomes per thread than these are dropped where they are: to call a thread takes about as long.
const WORTH_CALLING: usize = 256;

/// Outcomes whose memory is asked for ahead, when they are dropped: others have looked at all of it since it was made.
const AHEAD: usize = 8;

/// What became of a block's transactions, in final order.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    list: Vec<Outcome>,
    /// Who made the first of them; every position up to their number is there once.
    made: Vec<Made>,
    threads: WeakWorkers,
}

/// What one thread has made.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Its number in its pool, which is that of the workers but for tests; `None` if it is in none.
    pub(crate) thread: Option<usize>,
    /// Positions in the list.
    at: Vec<u32>,
}

/// Whether to remember who has made what in a wave of so many transactions for so many workers.
pub(crate) const fn worth_noting(txs: usize, workers: usize) -> bool {
    workers > 1 && txs >= workers * WORTH_CALLING
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

    /// Positions that were noted, in the order in which they were made.
    pub(crate) fn positions(&self) -> &[u32] {
        &self.at
    }
}

impl Outcomes {
    /// Outcomes of one wave. If not all were noted, it is as if none was.
    ///
    /// # Safety
    /// No position is in `made` twice.
    #[expect(unsafe_code, reason = "dropped place by place")]
    pub(crate) unsafe fn of_wave(list: Vec<Outcome>, mut made: Vec<Made>, threads: WeakWorkers) -> Self {
        let known: usize = made.iter().map(|made| made.at.len()).sum();
        if known != list.len() {
            made.clear();
        }
        Self { list, made, threads }
    }

    /// What each thread has made, where that was noted.
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

    /// The bare list.
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
        // One may have made all of them, if the others planned meanwhile; then they go back to that one.
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
                // SAFETY: `of_wave` was promised that no position is there twice, and each thread is called once.
                move |thread| unsafe { apart.drop_of(thread, Outcome::prefetch_logs, Outcome::prefetch_drop) }
            })
        });
    }
}

/// A list that several threads drop, each what it made.
struct Apart<T> {
    list: Vec<UnsafeCell<ManuallyDrop<T>>>,
    made: Vec<Made>,
}

#[expect(unsafe_code, reason = "dropped place by place")]
// SAFETY: what is shared is reached through `drop_of` alone, whose callers have different places.
unsafe impl<T: Send> Sync for Apart<T> {}

impl<T> Apart<T> {
    /// What is not in `made` is never dropped.
    #[expect(
        unsafe_code,
        reason = "a list under another name: one thread would rewrite all of it, and the others wait"
    )]
    fn new(list: Vec<T>, made: Vec<Made>) -> Self {
        let mut list = ManuallyDrop::new(list);
        let (items, len, capacity) = (list.as_mut_ptr(), list.len(), list.capacity());
        // SAFETY: the parts of a vector that is not used any more, and both wrappers have the layout of what is in them.
        let list = unsafe { Vec::from_raw_parts(items.cast::<UnsafeCell<ManuallyDrop<T>>>(), len, capacity) };
        Self { list, made }
    }

    /// Drops what the thread has made. Each is shown to `far` and later to `near` before.
    ///
    /// # Safety
    /// No position is in `made` twice, and this is called once for each thread.
    #[expect(unsafe_code, reason = "dropped place by place")]
    unsafe fn drop_of(&self, thread: usize, far: impl Fn(&T), near: impl Fn(&T)) {
        for made in self.made.iter().filter(|made| made.thread == Some(thread)) {
            for (place, at) in made.at.iter().enumerate() {
                let later = |ahead: usize| made.at.get(place + ahead).map(|at| self.list[*at as usize].get());
                if let Some(at) = made.at.get(place + 3 * AHEAD) {
                    prefetch_all(&self.list[*at as usize]);
                }
                // SAFETY: nobody else has these places, and their turn to be dropped is yet to come.
                unsafe {
                    later(2 * AHEAD).into_iter().for_each(|item| far(&*item));
                    later(AHEAD).into_iter().for_each(|item| near(&*item));
                }
                // SAFETY: nobody else has this place, and nobody comes back to it.
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
