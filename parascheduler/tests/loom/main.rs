//! Explores all interleavings of the hand-made protocols:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p phalanx-parascheduler --test loom`
//!
//! The protocol files are compiled into this test, where `sync.rs` gives them loom's primitives. A queue behind a lock stands
//! in for the work-stealing deques. A lost wakeup or a missed end becomes a deadlock, on which loom fails.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub, reason = "the library uses the rest")]

#[path = "../../src/stm/apart.rs"]
mod apart;
#[path = "../../src/stm/chain.rs"]
mod chain;
#[path = "../../src/countdown.rs"]
mod countdown;
#[path = "../../src/stm/small_deque.rs"]
mod small_deque;
#[path = "../../src/idle.rs"]
mod idle;
#[path = "../../src/stm/keys.rs"]
mod keys;
#[path = "../../src/stm/queue.rs"]
mod queue;
#[path = "../../src/stm/slot.rs"]
mod slot;
#[path = "../../src/sync.rs"]
mod sync;
#[path = "../../src/stm/turn.rs"]
mod turn;
#[path = "../../src/stm/waiters.rs"]
mod waiters;

mod stm;

use countdown::{Countdown, Ready};
use idle::Idle;
use loom::{
    model::Builder,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};
use std::collections::VecDeque;

/// A run over a fixed graph, with the worker's steps in the worker's order.
struct Run {
    succ: &'static [&'static [u32]],
    escapes: &'static [u32],
    queue: Mutex<VecDeque<Ready>>,
    countdown: Countdown,
    idle: Idle,
    /// Number of runs of each node, written without any ordering of its own.
    ran: Vec<AtomicUsize>,
    withdrawn: Vec<AtomicUsize>,
}

impl Run {
    fn new(succ: &'static [&'static [u32]], escapes: &'static [u32]) -> Arc<Self> {
        let mut indegrees = vec![0; succ.len()];
        succ.iter().flat_map(|s| s.iter()).for_each(|next| indegrees[*next as usize] += 1);
        let sources = (0..succ.len() as u32).filter(|node| indegrees[*node as usize] == 0).map(Ready::source);
        let (mut countdown, mut idle) = (Countdown::default(), Idle::default());
        countdown.reset(&indegrees);
        idle.reset(succ.len());
        let zeroes = || succ.iter().map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Self {
            succ,
            escapes,
            queue: Mutex::new(sources.collect()),
            countdown,
            idle,
            ran: zeroes(),
            withdrawn: zeroes(),
        })
    }

    fn pop(&self) -> Option<Ready> {
        self.queue.lock().unwrap().pop_front()
    }

    fn work(&self) {
        let mut done = 0;
        loop {
            let Some(ready) = self.pop().or_else(|| {
                self.idle.retire(std::mem::take(&mut done));
                self.idle.wait_for(|| self.pop())
            }) else {
                return;
            };
            let mut current = Some(ready);
            while let Some(ready) = current.take() {
                let poisoned = self.visit(ready);
                done += 1;
                let mut pushed = 0;
                for next in self.succ[ready.node() as usize] {
                    let Some(ready) = self.countdown.arrive(*next, poisoned) else { continue };
                    if current.is_none() {
                        current = Some(ready);
                    } else {
                        self.queue.lock().unwrap().push_back(ready);
                        pushed += 1;
                    }
                }
                if pushed != 0 {
                    self.idle.wake(pushed);
                }
            }
        }
    }

    /// "Runs" a node: all its predecessors must be visible here. Returns true if its successors are poisoned.
    fn visit(&self, ready: Ready) -> bool {
        let node = ready.node();
        for (earlier, succ) in self.succ.iter().enumerate() {
            if succ.contains(&node) {
                assert_eq!(self.ran[earlier].load(Relaxed) + self.withdrawn[earlier].load(Relaxed), 1);
            }
        }
        let log = if ready.is_poisoned() { &self.withdrawn } else { &self.ran };
        let times = log[node as usize].load(Relaxed);
        log[node as usize].store(times + 1, Relaxed);
        ready.is_poisoned() || self.escapes.contains(&node)
    }

    fn counts(log: &[AtomicUsize]) -> Vec<usize> {
        log.iter().map(|times| times.load(Relaxed)).collect()
    }
}

fn explore(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// Runs the graph on `threads` workers, and checks which nodes ran and which were withdrawn.
fn check_run(
    threads: usize,
    preemptions: Option<usize>,
    succ: &'static [&'static [u32]],
    escapes: &'static [u32],
    withdrawn: &'static [usize],
) {
    explore(preemptions, move || {
        let run = Run::new(succ, escapes);
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let run = run.clone();
                thread::spawn(move || run.work())
            })
            .collect();
        run.work();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(run.idle.is_over());
        assert_eq!(Run::counts(&run.withdrawn), withdrawn);
        let ran: Vec<_> = withdrawn.iter().map(|w| 1 - w).collect();
        assert_eq!(Run::counts(&run.ran), ran);
    });
}

/// A source, two nodes that become ready at once (one kept, one pushed), and a node that waits for both.
const DIAMOND: &[&[u32]] = &[&[1, 2], &[3], &[3], &[]];

/// Two sources that count the same node down at the same time.
const MEET: &[&[u32]] = &[&[2], &[2], &[]];

#[test]
fn two_workers_finish_and_end_together() {
    check_run(2, None, MEET, &[], &[0, 0, 0]);
    check_run(2, Some(3), DIAMOND, &[], &[0, 0, 0, 0]);
}

#[test]
fn three_workers_finish_and_end_together() {
    check_run(3, Some(2), MEET, &[], &[0, 0, 0]);
    check_run(3, Some(2), DIAMOND, &[], &[0, 0, 0, 0]);
}

#[test]
fn poison_arrives_with_the_last_count_on_either_thread() {
    check_run(2, None, MEET, &[0], &[0, 0, 1]);
    check_run(2, None, MEET, &[1], &[0, 0, 1]);
    check_run(2, Some(3), DIAMOND, &[1], &[0, 0, 0, 1]);
    check_run(2, Some(3), DIAMOND, &[0], &[0, 1, 1, 1]);
}

/// The pushing worker leaves at once, so only a wakeup can bring its work to another one.
#[test]
fn no_wakeup_is_lost() {
    for sleepers in 1..=2usize {
        explore(Some(3), move || {
            let mut idle = Idle::default();
            idle.reset(1);
            let shared = Arc::new((idle, Mutex::new(VecDeque::new())));
            let threads: Vec<_> = (0..sleepers)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        let (idle, queue) = &*shared;
                        let found = idle.wait_for(|| queue.lock().unwrap().pop_front());
                        assert!(found.is_some());
                    })
                })
                .collect();
            let (idle, queue) = &*shared;
            for item in 0..sleepers {
                queue.lock().unwrap().push_back(item);
                idle.wake(1);
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(queue.lock().unwrap().is_empty());
            assert_eq!(idle.announced(), 0, "a wakeup is left over");
        });
    }
}

/// The same with a queue that orders nothing by itself: the fences alone must suffice.
#[test]
fn no_wakeup_is_lost_without_a_lock_on_the_queue() {
    explore(None, || {
        let mut idle = Idle::default();
        idle.reset(1);
        let shared = Arc::new((idle, AtomicUsize::new(0)));
        let sleeper = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (idle, flag) = &*shared;
                let found = idle.wait_for(|| (flag.load(Relaxed) == 1).then_some(()));
                assert!(found.is_some());
            })
        };
        let (idle, flag) = &*shared;
        flag.store(1, Relaxed);
        idle.wake(1);
        sleeper.join().unwrap();
    });
}

/// A panic that ends a run early leaves no worker asleep.
#[test]
fn the_end_wakes_all_workers() {
    explore(Some(3), || {
        let mut idle = Idle::default();
        idle.reset(3);
        let idle = Arc::new(idle);
        let sleepers: Vec<_> = (0..2)
            .map(|_| {
                let idle = idle.clone();
                thread::spawn(move || assert!(idle.wait_for(|| None::<()>).is_none()))
            })
            .collect();
        idle.end();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}
