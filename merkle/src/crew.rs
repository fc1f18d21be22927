//! Threads that help with one piece of work at a time and sleep in between.
//!
//! They are no rayon pool, because whoever waits for rayon's threads takes up other jobs of its own pool meanwhile, and the
//! caller holds a lock. They are not begun anew for each piece, because that takes longer than to wake them, and because what
//! a thread allocates it gets fresh from the system.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, JoinHandle},
};

use crate::ThreadStart;

/// The threads. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Crew {
    start: ThreadStart,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is work to be joined, or none will be any more.
    called: Condvar,
    /// Nobody works any more.
    left: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct State {
    /// To be done by each who joins. Not there once the caller has come back from it.
    work: Option<&'static (dyn Fn() + Sync)>,
    /// How many may still join.
    wanted: usize,
    /// How many have joined and not left.
    working: usize,
    /// What the first of them panicked with.
    panic: Option<Box<dyn Any + Send>>,
    ended: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { wanted, working, ended, .. } = self;
        f.debug_struct("State").field("wanted", wanted).field("working", working).field("ended", ended).finish()
    }
}

impl Crew {
    /// Nobody yet. Each begins with `start`.
    pub(crate) fn new(start: ThreadStart) -> Self {
        Self { start, shared: Arc::default(), threads: Vec::new() }
    }

    /// Has the caller and up to `helpers` others do `work`, each once; what it is about they share among them. Who comes when
    /// the caller is through already is not waited for. Where the system gives no threads there are fewer.
    ///
    /// # Panics
    /// With the panic of one who works.
    pub(crate) fn share(&mut self, helpers: usize, work: &(dyn Fn() + Sync)) {
        while self.threads.len() < helpers {
            let (start, shared) = (self.start.clone(), Arc::clone(&self.shared));
            let thread = Builder::new().name("phalanx-fold".into()).spawn(move || {
                start.call();
                help(&shared);
            });
            let Ok(thread) = thread else { break };
            self.threads.push(thread);
        }
        let helpers = helpers.min(self.threads.len());
        #[expect(unsafe_code, reason = "threads that outlive what they work on")]
        // SAFETY: a reference is only made to look as if it lived longer. Who works with it was counted when it took it, and
        // `Called` leaves, also on a panic, only when it is taken back and nobody is counted.
        let work_of_all: &'static (dyn Fn() + Sync) = unsafe { core::mem::transmute(work) };
        {
            let mut state = self.shared.state();
            // A caller that panicked itself has not taken another one's panic.
            (state.work, state.wanted, state.panic) = (Some(work_of_all), helpers, None);
        }
        (0..helpers).for_each(|_| self.shared.called.notify_one());
        let called = Called(&self.shared);
        work();
        drop(called);
        if let Some(panic) = self.shared.state().panic.take() {
            resume_unwind(panic);
        }
    }
}

/// Work that others may be at.
struct Called<'s>(&'s Shared);

impl Drop for Called<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.work, state.wanted) = (None, 0);
        while state.working > 0 {
            state = self.0.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What a thread does until the crew is dropped.
fn help(shared: &Shared) {
    let mut state = shared.state();
    while !state.ended {
        match state.work.filter(|_| state.wanted > 0) {
            Some(work) => {
                (state.wanted, state.working) = (state.wanted - 1, state.working + 1);
                drop(state);
                let panic = catch_unwind(AssertUnwindSafe(work)).err();
                state = shared.state();
                state.working -= 1;
                state.panic = state.panic.take().or(panic);
                if state.working == 0 {
                    shared.left.notify_all();
                }
            }
            None => state = shared.called.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.called.notify_all();
        for thread in self.threads.drain(..) {
            // Panics of work have reached whoever called it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn all_of_the_work_is_done_by_whoever_comes_and_nobody_is_left_at_it() {
        let mut crew = Crew::new(ThreadStart::default());
        for round in 0..3000 {
            let helpers = round % 5;
            // Gone when the round is over.
            let (pieces, done, at_work) = (vec![1usize; round % 70], AtomicUsize::new(0), AtomicUsize::new(0));
            let (next, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            crew.share(helpers, &|| {
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
    }

    #[test]
    fn helpers_do_come() {
        let mut crew = Crew::new(ThreadStart::default());
        let there = std::sync::Barrier::new(3);
        // Nobody gets past it alone.
        (0..50).for_each(|_| crew.share(2, &|| _ = there.wait()));
    }

    #[test]
    fn a_panic_reaches_the_caller_when_all_have_left_and_the_next_work_is_done() {
        let mut crew = Crew::new(ThreadStart::default());
        let there = std::sync::Barrier::new(3);
        for who in [0..1, 1..2, 2..3, 0..2, 0..3] {
            let (came, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let share = || {
                crew.share(2, &|| {
                    there.wait();
                    assert!(!who.contains(&came.fetch_add(1, Relaxed)), "as it should");
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    left.fetch_add(1, Relaxed);
                });
            };
            assert!(catch_unwind(AssertUnwindSafe(share)).is_err());
            assert_eq!(left.into_inner(), 3 - who.len());
        }
        let done = AtomicUsize::new(0);
        crew.share(2, &|| {
            there.wait();
            done.fetch_add(1, Relaxed);
        });
        assert_eq!(done.into_inner(), 3);
    }
}
