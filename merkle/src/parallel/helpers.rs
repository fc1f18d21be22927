//! Fork-join that waits for its helpers only, never for other jobs of the pool.
//!
//! The caller holds the store's write lock. A rayon scope would run other jobs while it waits, and a job that reads the
//! store would wait for the lock of its own thread. So the caller blocks, and helpers must not wait for anything.
//!
//! The lock cannot be downgraded instead: readers would see half-written records. A rayon scope outside the lock cannot
//! lend what the guard borrows, and its end waits inside the lock's lifetime. So the work is lent with a forged
//! lifetime, and `HelpersJoined` is what makes that sound.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// Runs `work` on the caller and on up to `helpers` idle workers of the current rayon pool, once on each.
///
/// `work` divides the load among its callers and must not wait. Late helpers are not awaited.
///
/// # Panics
/// If `work` panics on any thread.
pub(crate) fn fork_join(helpers: usize, work: &(dyn Fn() + Sync)) {
    #[expect(unsafe_code, reason = "jobs that outlive what they work on")]
    // SAFETY: the lifetime of `work` is forged. A helper is counted under the lock when it takes the reference.
    // `HelpersJoined` withdraws the reference and waits until no helper is counted before `work` can end, also on a
    // panic.
    let work_of_all: &'static (dyn Fn() + Sync) = unsafe { core::mem::transmute(work) };
    let shared = Arc::new(ForkJoinState::default());
    shared.state().work = Some(work_of_all);
    let called = HelpersJoined(&shared);
    for _ in 0..helpers {
        let shared = Arc::clone(&shared);
        rayon::spawn(move || shared.help());
    }
    work();
    drop(called);
    let panic = shared.state().panic.take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// Reference to the work, and the helpers that run it.
#[derive(Default)]
struct ForkJoinState {
    state: Mutex<State>,
    /// Notified when the last helper leaves.
    left: Condvar,
}

#[derive(Default)]
struct State {
    /// Work for each helper that joins; `None` once the caller has returned from it.
    work: Option<&'static (dyn Fn() + Sync)>,
    /// Number of helpers that have joined and not left.
    working: usize,
    /// First panic of a helper.
    panic: Option<Box<dyn Any + Send>>,
}

impl ForkJoinState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins in, unless the caller has finished.
    fn help(&self) {
        let mut state = self.state();
        let Some(work) = state.work else { return };
        state.working += 1;
        drop(state);
        let panic = catch_unwind(AssertUnwindSafe(work)).err();
        let mut state = self.state();
        state.working -= 1;
        state.panic = state.panic.take().or(panic);
        if state.working == 0 {
            self.left.notify_all();
        }
    }
}

/// Withdraws the work and waits for all helpers when dropped.
struct HelpersJoined<'c>(&'c ForkJoinState);

impl Drop for HelpersJoined<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.work = None;
        while state.working > 0 {
            state = self.0.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier, RwLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::*;

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool")
    }

    #[test]
    fn all_work_is_done_and_no_helper_stays() {
        let rounds = || {
            for round in 0..3000 {
                let helpers = round % 5;
                // Dropped at the end of the round.
                let (pieces, done, at_work) = (vec![1usize; round % 70], AtomicUsize::new(0), AtomicUsize::new(0));
                let (next, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
                fork_join(helpers, &|| {
                    most.fetch_max(at_work.fetch_add(1, Relaxed) + 1, Relaxed);
                    while let Some(piece) = pieces.get(next.fetch_add(1, Relaxed)) {
                        done.fetch_add(*piece, Relaxed);
                        if round % 7 == 0 {
                            std::thread::yield_now();
                        }
                    }
                    at_work.fetch_sub(1, Relaxed);
                });
                assert_eq!((done.into_inner(), at_work.into_inner()), (round % 70, 0));
                assert!(most.into_inner() <= helpers + 1);
            }
        };
        for threads in [1, 3, 6] {
            pool(threads).install(rounds);
        }
        rounds();
    }

    #[test]
    fn idle_workers_help() {
        let there = Barrier::new(3);
        // Every round needs all three threads.
        pool(3).install(|| (0..50).for_each(|_| fork_join(2, &|| _ = there.wait())));
    }

    #[test]
    fn a_lock_that_another_job_of_the_pool_waits_for_can_be_held() {
        let lock = RwLock::new(0);
        for threads in [1, 2, 4] {
            pool(threads).scope(|scope| {
                for _ in 0..300 {
                    scope.spawn(|_| {
                        let mut held = lock.write().expect("no panic");
                        // A rayon scope would run the next job while it waits.
                        fork_join(3, &std::thread::yield_now);
                        *held += 1;
                    });
                    scope.spawn(|_| drop(lock.read().expect("no panic")));
                }
            });
        }
        assert_eq!(lock.into_inner().expect("no panic"), 900);
    }

    #[test]
    fn a_panic_reaches_the_caller_after_all_helpers_have_left() {
        let there = Barrier::new(3);
        pool(3).install(|| {
            for key_ref in [0..1, 1..2, 2..3, 0..2, 0..3] {
                let (came, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let fork_join = || {
                    fork_join(2, &|| {
                        there.wait();
                        assert!(!key_ref.contains(&came.fetch_add(1, Relaxed)), "as it should");
                        std::thread::sleep(std::time::Duration::from_millis(2));
                        left.fetch_add(1, Relaxed);
                    });
                };
                assert!(catch_unwind(AssertUnwindSafe(fork_join)).is_err());
                assert_eq!(left.into_inner(), 3 - key_ref.len());
            }
            let done = AtomicUsize::new(0);
            fork_join(2, &|| {
                there.wait();
                done.fetch_add(1, Relaxed);
            });
            assert_eq!(done.into_inner(), 3);
        });
    }
}
