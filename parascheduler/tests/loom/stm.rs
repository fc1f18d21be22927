//! Block-STM's protocols: slots, chains, the queue and the turn, alone and together.

use crate::{
    apart::{Apart, Wanted},
    chain::{Chain, Found, Reader, Write},
    explore,
    idle::Idle,
    keys::Keys,
    queue::Queue,
    slot::{Lowest, Slot},
    turn::Turn,
    waiters::Line,
};
use loom::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
};
use std::cmp::Reverse;

const ATTEMPTS: u32 = 2;

/// Record of an execution: the value that it read, and whether it has an entry.
#[derive(Debug, Default)]
struct Record {
    seen: u64,
    wrote: bool,
}

/// A run of transactions that each add one to a single key, with the worker's and the commit's steps in their order.
struct Run {
    chain: Mutex<Chain<u64, u64>>,
    slots: Vec<Slot<Record>>,
    queue: Queue,
    turn: Turn,
    idle: Idle,
    /// Final values, in order; locked only with the turn.
    committed: Mutex<Vec<u64>>,
}

const fn no_credits(_: &u64, _: &u64) -> Option<u64> {
    None
}

impl Run {
    fn new(txs: u32) -> Arc<Self> {
        let mut idle = Idle::default();
        idle.reset(1);
        let mut chain = Chain::default();
        chain.settle(0);
        Arc::new(Self {
            chain: Mutex::new(chain),
            slots: (0..txs).map(|_| Slot::default()).collect(),
            queue: Queue::new(txs),
            turn: Turn::default(),
            idle,
            committed: Mutex::new(Vec::new()),
        })
    }

    fn slot(&self, tx: u32) -> &Slot<Record> {
        &self.slots[tx as usize]
    }

    fn work(&self) {
        let mut ready = Vec::new();
        while !self.idle.is_over() {
            let Some(tx) =
                ready.pop().or_else(|| self.queue.take()).or_else(|| self.idle.wait_for(|| self.queue.take()))
            else {
                return;
            };
            self.attempt(tx, &mut ready);
            ready.sort_unstable_by(|a, b| b.cmp(a));
            if ready.len() > 1 {
                let rest = ready.len() - 1;
                self.queue.push(ready.drain(..rest));
                self.idle.wake(rest);
            }
        }
    }

    fn attempt(&self, tx: u32, ready: &mut Vec<u32>) {
        let slot = self.slot(tx);
        let begun = slot.begin();
        assert!(begun.incarnation <= ATTEMPTS + 1);
        let reader = Reader { tx, incarnation: begun.incarnation, is_first: begun.attempt() == 1 };
        let found = self.chain.lock().unwrap().read(reader, no_credits);
        let seen = match found {
            Found::Value(seen) | Found::Again(seen) => seen,
            Found::Blocked(on) => {
                slot.give_up(|_| ());
                if begun.incarnation >= ATTEMPTS {
                    return self.release(tx, 0, ready);
                }
                slot.block();
                if !self.slot(on).list(0, tx) {
                    slot.resume(0, Line::new());
                    ready.push(tx);
                }
                return;
            }
            _ => unreachable!(),
        };
        let mut displaced = Vec::new();
        self.chain.lock().unwrap().put(tx, Write::Value(seen + 1), no_credits, &mut displaced);
        for (reader, incarnation) in displaced {
            if self.slot(reader).invalidate(incarnation) {
                self.abort(reader, ready);
            }
        }
        match slot.finish(|record| *record = Record { seen, wrote: true }) {
            Some(waiters) => {
                for (key, mut line) in waiters.into_lines() {
                    let Reverse(first) = line.pop().unwrap();
                    self.slot(first).resume(key, line);
                    ready.push(first);
                }
                self.ask(ready);
            }
            None => self.abort(tx, ready),
        }
    }

    fn abort(&self, tx: u32, ready: &mut Vec<u32>) {
        self.chain.lock().unwrap().estimate(tx);
        self.release(tx, ATTEMPTS, ready);
    }

    fn release(&self, tx: u32, attempts: u32, ready: &mut Vec<u32>) {
        if self.slot(tx).release(attempts) {
            ready.push(tx);
        } else {
            self.ask(ready);
        }
    }

    fn ask(&self, ready: &mut Vec<u32>) {
        self.turn.ask(|| {
            let mut committed = self.committed.try_lock().expect("one at a time");
            while let Some(slot) = self.slots.get(committed.len()) {
                let tx = committed.len() as u32;
                match slot.take() {
                    Lowest::Busy => return,
                    Lowest::Ready => return ready.push(tx),
                    Lowest::Executed { incarnation, record, .. } => {
                        let mut chain = self.chain.lock().unwrap();
                        assert!(chain.confirm(tx, incarnation), "the reader was not told");
                        chain.fold(tx, no_credits);
                        committed.push(record.seen);
                    }
                }
            }
            self.idle.end();
        });
    }
}

fn check_run(txs: u32, threads: usize, preemptions: Option<usize>) {
    explore(preemptions, move || {
        let run = Run::new(txs);
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let run = run.clone();
                thread::spawn(move || run.work())
            })
            .collect();
        run.work();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(*run.committed.lock().unwrap(), (0..u64::from(txs)).collect::<Vec<_>>());
    });
}

/// Chain, slots, queue, turn and sleep together: all transactions become final, on final reads.
#[test]
fn a_chain_of_transactions_ends_with_all_of_them_final() {
    check_run(2, 2, Some(3));
    check_run(3, 2, Some(3));
}

#[test]
fn a_chain_of_transactions_ends_on_three_workers() {
    check_run(3, 3, Some(2));
}

/// The work sees what a thread did before its request, on whichever thread it runs, and never runs on two at once.
#[test]
fn a_request_is_never_forgotten() {
    for askers in 2..=3u32 {
        explore(if askers == 2 { None } else { Some(3) }, move || {
            let shared = Arc::new((Turn::default(), AtomicU32::new(0), Mutex::new(0)));
            let ask = |shared: &(Turn, AtomicU32, Mutex<u32>)| {
                let (turn, done, seen) = shared;
                done.fetch_add(1, Relaxed);
                turn.ask(|| *seen.try_lock().expect("one at a time") = done.load(Relaxed));
            };
            let threads: Vec<_> = (1..askers)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || ask(&shared))
                })
                .collect();
            ask(&shared);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(*shared.2.lock().unwrap(), askers);
        });
    }
}

/// A waiting transaction is resumed by the one it waits for, or learns that there is nothing to wait for.
#[test]
fn no_waiter_is_forgotten() {
    explore(None, || {
        let slots = Arc::new([Slot::<Record>::default(), Slot::default()]);
        slots[0].begin();
        let other = {
            let slots = slots.clone();
            thread::spawn(move || {
                slots[1].block();
                !slots[0].list(0, 1)
            })
        };
        let waiters = slots[0].finish(|_| ()).expect("no thread invalidates it");
        let resumed: Vec<u32> = waiters.into_lines().flat_map(|(_, line)| line).map(|Reverse(tx)| tx).collect();
        let goes_on = other.join().unwrap();
        assert_eq!(resumed.len() + usize::from(goes_on), 1);
    });
}

/// A transaction that waits for a value on disk is resumed once it is loaded, by a thread that starts with the first of them and
/// ends.
#[test]
fn no_parked_transaction_is_forgotten() {
    explore(Some(3), || {
        let loaded = [AtomicU32::new(0), AtomicU32::new(0)];
        let slots = [Slot::<Record>::default(), Slot::default()];
        let shared = Arc::new((slots, Apart::default(), Queue::new(0), loaded, {
            let mut idle = Idle::default();
            idle.reset(1);
            idle
        }));
        let mut reader = None;
        let (slots, apart, queue, loaded, idle) = &*shared;
        for (tx, slot) in (0..).zip(slots) {
            slot.begin();
            slot.give_up(|_| ());
            slot.park();
            let start = || {
                let shared = shared.clone();
                reader = Some(thread::spawn(move || {
                    let (slots, apart, queue, loaded, idle) = &*shared;
                    while let Some(wanted) = apart.take() {
                        for Wanted { key, tx } in &wanted {
                            loaded[*key as usize].store(1, Relaxed);
                            slots[tx.unwrap() as usize].resume(*key, Line::new());
                        }
                        queue.push(wanted.iter().filter_map(|wanted| wanted.tx));
                        idle.wake(wanted.len());
                    }
                }));
                true
            };
            assert!(apart.want([Wanted { key: tx, tx: Some(tx) }].into_iter(), start));
        }
        for _ in slots {
            let tx = idle.wait_for(|| queue.take()).expect("the run is not over");
            let begun = slots[tx as usize].begin();
            assert_eq!((begun.incarnation, begun.attempt()), (2, 1), "it costs no attempt");
            assert_eq!(loaded[tx as usize].load(Relaxed), 1);
        }
        apart.end();
        reader.expect("it was started").join().unwrap();
    });
}

/// A reader finishes while a writer invalidates it: exactly one of the two owns the abort.
#[test]
fn an_invalidation_is_never_lost() {
    explore(None, || {
        let slot = Arc::new(Slot::<Record>::default());
        let incarnation = slot.begin().incarnation;
        let other = {
            let slot = slot.clone();
            thread::spawn(move || slot.invalidate(incarnation))
        };
        let finished = slot.finish(|_| ()).is_some();
        assert_eq!(finished, other.join().unwrap());
        // Either way it runs again.
        assert!(slot.release(ATTEMPTS));
        assert_eq!(slot.begin().incarnation, incarnation + 1);
        assert!(!slot.invalidate(incarnation), "an old one");
        assert!(slot.finish(|_| ()).is_some());
    });
}

/// Two keys of one digest, added by several threads while the table grows: all threads get the same number. A thread that
/// finds a number finds the key under it, though the key was written without any ordering of its own.
#[test]
fn a_key_has_one_number() {
    struct Names {
        keys: Keys,
        next: AtomicU32,
        names: Vec<AtomicU32>,
    }

    impl Names {
        fn number(&self, name: u32) -> u32 {
            let add = || {
                let number = self.next.fetch_add(1, Relaxed);
                self.names[number as usize].store(name, Relaxed);
                number
            };
            let is = |number: u32| {
                let held = self.names[number as usize].load(Relaxed);
                assert_ne!(held, 0, "a thread that sees a number sees the key written before");
                held == name
            };
            let number = self.keys.find_or_add(7 << 32, is, add);
            assert!(is(number));
            number
        }
    }

    for (workers, preemptions) in [(2, None), (3, Some(2))] {
        explore(preemptions, move || {
            let names = (0..2 * workers).map(|_| AtomicU32::new(0)).collect();
            let shared = Arc::new(Names { keys: Keys::with_places(1, 2), next: AtomicU32::new(0), names });
            let threads: Vec<_> = (1..workers)
                .map(|worker| {
                    let shared = shared.clone();
                    let order = if worker == 1 { [5, 6] } else { [6, 5] };
                    thread::spawn(move || order.map(|name| (name, shared.number(name))))
                })
                .collect();
            let ours = [5, 6].map(|name| (name, shared.number(name)));
            assert_ne!(ours[0].1, ours[1].1);
            for (name, number) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
                assert_eq!(number, if name == 5 { ours[0].1 } else { ours[1].1 });
            }
        });
    }
}
