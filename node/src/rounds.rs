//! Rounds of a producer that makes a block as soon as a transaction waits: which calls have come, and which are done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::watch;

/// Number of calls for a block.
pub(crate) type Call = u64;

/// Calls for blocks, whether one wakes the producer, and the calls behind which nothing waits any more.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// True while a block is made for every transaction: there is nothing to wait for otherwise.
    is_instant: AtomicBool,
    calls: AtomicU64,
    /// True while the producer sleeps, and no call has woken it.
    listens: AtomicBool,
    /// The newest call whose round has taken all that could run.
    taken: watch::Sender<Call>,
}

impl Default for Rounds {
    fn default() -> Self {
        let (is_instant, listens) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { is_instant, calls: AtomicU64::new(0), listens, taken: watch::Sender::new(0) }
    }
}

impl Rounds {
    /// Sets whether a block is made for every transaction. No caller waits for one that the clock makes.
    pub(crate) fn set_instant(&self, is_instant: bool) {
        self.is_instant.store(is_instant, Ordering::Release);
        if !is_instant {
            self.end(self.newest());
        }
    }

    pub(crate) fn are_instant(&self) -> bool {
        self.is_instant.load(Ordering::Acquire)
    }

    /// Notes a call. Returns true if the producer sleeps, and this call is the one that wakes it.
    pub(crate) fn call(&self) -> bool {
        // The lock of the pool has ordered the transaction before the call, and the builder takes that lock behind it. Calls and
        // listening are in one order for all: the caller finds that the producer listens, or the producer finds the call.
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.listens.load(Ordering::SeqCst) && self.listens.swap(false, Ordering::SeqCst)
    }

    /// From now on a call wakes the producer. Returns false if one has come behind `seen` already, without waking it perhaps.
    pub(crate) fn listen(&self, seen: Call) -> bool {
        self.listens.store(true, Ordering::SeqCst);
        self.calls.load(Ordering::SeqCst) == seen
    }

    /// The newest call: a round that begins now takes what was admitted before it.
    pub(crate) fn newest(&self) -> Call {
        self.calls.load(Ordering::SeqCst)
    }

    /// Notes that nothing of a call can run now: the blocks with what could are visible.
    pub(crate) fn end(&self, taken: Call) {
        self.taken.send_if_modified(|newest| core::mem::replace(newest, taken.max(*newest)) < taken);
    }

    /// Waits until nothing of the calls so far can run.
    pub(crate) async fn follow(&self) {
        let (mut ended, call) = (self.taken.subscribe(), self.newest());
        // An error means that the producer has gone.
        let _ = ended.wait_for(|taken| *taken >= call).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::Future as _,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    #[test]
    fn a_call_wakes_a_producer_that_listens_and_is_never_missed() {
        let rounds = Rounds::default();
        assert!(!rounds.call(), "it works: it finds the call before it sleeps");
        assert!(!rounds.listen(0), "a call has come");
        assert!(rounds.listen(rounds.newest()), "it may sleep");
        assert_eq!([rounds.call(), rounds.call()], [true, false], "the first one wakes it");
        for _ in 0..1_000 {
            let (rounds, seen) = (Rounds::default(), 0);
            let (woken, sleeps) = std::thread::scope(|scope| {
                let caller = scope.spawn(|| rounds.call());
                let sleeps = rounds.listen(seen);
                (caller.join().expect("no panic"), sleeps)
            });
            assert!(woken || !sleeps, "a call that wakes no producer is found");
        }
    }

    #[test]
    fn a_caller_waits_for_a_round_that_leaves_nothing_of_its_call() {
        let rounds = Rounds::default();
        let context = &mut Context::from_waker(Waker::noop());
        rounds.call();
        let newest = rounds.newest();
        let mut queued = pin!(rounds.follow());
        assert_eq!(queued.as_mut().poll(context), Poll::Pending);
        rounds.call();
        rounds.end(newest);
        assert_eq!(queued.as_mut().poll(context), Poll::Ready(()));
        let mut late = pin!(rounds.follow());
        assert_eq!(late.as_mut().poll(context), Poll::Pending, "its call has come behind that round");
        rounds.end(newest - 1);
        assert_eq!(late.as_mut().poll(context), Poll::Pending, "an older round ends nothing");
        rounds.end(rounds.newest());
        assert_eq!(late.as_mut().poll(context), Poll::Ready(()));
    }
}
