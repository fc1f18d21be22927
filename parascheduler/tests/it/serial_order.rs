//! Runs at every thread count end as a loop in block order does.

use crate::common::{conflict_closure, random_block};
use phalanx_access::{
    Access::{self, Credit, Read, Write},
    AccessSets, KeyId,
};
use phalanx_parascheduler::{Dag, DagBuilder, Job, Lookahead, Report, TxIndex, Verdict, Workers};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

const THREADS: [usize; 4] = [1, 2, 4, 8];

/// Applies each transaction to a toy state with plain loads and stores. Conflicting transactions that overlap, or run in the
/// wrong order, leave a different state or a different observation.
struct Machine<'a> {
    sets: &'a AccessSets<KeyId>,
    state: Vec<AtomicU64>,
    /// Digest of the values that each transaction read.
    seen: Vec<AtomicU64>,
    runs: Vec<AtomicU32>,
    escapes: &'a (dyn Fn(TxIndex) -> bool + Sync),
}

impl<'a> Machine<'a> {
    fn new(sets: &'a AccessSets<KeyId>, n_keys: usize, escapes: &'a (dyn Fn(TxIndex) -> bool + Sync)) -> Self {
        let zeroes = |n| (0..n).map(|_| AtomicU64::new(0)).collect();
        let runs = (0..sets.len()).map(|_| AtomicU32::new(0)).collect();
        Self { sets, state: zeroes(n_keys), seen: zeroes(sets.len()), runs, escapes }
    }

    fn outcome(self) -> (Vec<u64>, Vec<u64>, Vec<u32>) {
        let values = |cells: Vec<AtomicU64>| cells.into_iter().map(AtomicU64::into_inner).collect();
        (values(self.state), values(self.seen), self.runs.into_iter().map(AtomicU32::into_inner).collect())
    }
}

impl Job<u64> for Machine<'_> {
    fn run(&self, count: &mut u64, tx: TxIndex) -> Verdict {
        *count += 1;
        self.runs[tx.index()].fetch_add(1, Relaxed);
        if (self.escapes)(tx) {
            return Verdict::Escaped;
        }
        let mut seen = 0u64;
        for (key, access) in self.sets.get(tx.index()) {
            let cell = &self.state[key.index()];
            match access {
                Read => seen = seen.wrapping_mul(31).wrapping_add(cell.load(Relaxed)),
                Credit => _ = cell.fetch_add(u64::from(tx.0) + 1, Relaxed),
                Write => {
                    let held = cell.load(Relaxed);
                    if tx.0.is_multiple_of(3) {
                        std::thread::yield_now();
                    }
                    cell.store(held.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(tx.0) + 1), Relaxed);
                    seen = seen.wrapping_mul(31).wrapping_add(held);
                }
            }
        }
        self.seen[tx.index()].store(seen, Relaxed);
        Verdict::Done
    }
}

const NEVER: &(dyn Fn(TxIndex) -> bool + Sync) = &|_| false;

/// The oracle: a loop.
fn sequential(sets: &AccessSets<KeyId>, n_keys: usize) -> (Vec<u64>, Vec<u64>, Vec<u32>) {
    let machine = Machine::new(sets, n_keys, NEVER);
    for tx in 0..sets.len() {
        machine.run(&mut 0, TxIndex(tx as u32));
    }
    machine.outcome()
}

fn run_checked(workers: &Workers, dag: &Dag, sets: &AccessSets<KeyId>, n_keys: usize, what: &str) {
    let machine = Machine::new(sets, n_keys, NEVER);
    let mut locals = vec![0u64; workers.threads()];
    let report = workers.run(dag, &mut locals, &machine);
    assert!(report.is_clean(), "{what}");
    assert_eq!(locals.iter().sum::<u64>(), sets.len() as u64, "{what}");
    assert_eq!(machine.outcome(), sequential(sets, n_keys), "{what}");
}

#[test]
fn a_run_equals_the_loop() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        let mut builder = DagBuilder::new();
        let mut dag = Dag::default();
        for seed in 0..300 {
            let (sets, n_keys) = random_block(seed, if seed % 10 == 0 { 3_000 } else { 200 });
            builder.build(&sets, n_keys, &mut dag);
            run_checked(&workers, &dag, &sets, n_keys, &format!("seed {seed}, {threads} threads"));
        }
    }
}

#[test]
fn a_shuffled_run_equals_the_loop_and_itself() {
    let workers = Workers::new(1).unwrap();
    let mut orders = 0;
    for seed in 0..300 {
        let (sets, n_keys) = random_block(seed, 200);
        let dag = Dag::build(&sets, n_keys);
        let wants = move |tx: TxIndex| seed % 3 == 0 && (tx.0 + seed as u32).is_multiple_of(17);
        let mut again: Option<Vec<u32>> = None;
        for shuffle in [seed, seed, seed + 1000] {
            let machine = Machine::new(&sets, n_keys, &wants);
            let order = std::sync::Mutex::new(Vec::new());
            let job = |local: &mut u64, tx: TxIndex| {
                order.lock().unwrap().push(tx.0);
                machine.run(local, tx)
            };
            let report = workers.run_shuffled(&dag, &mut [0, 0, 0], &job, shuffle);
            assert_eq!(report, naive_report(&sets, &wants), "seed {seed}");
            let order = order.into_inner().unwrap();
            orders += u32::from(!order.is_sorted());
            if shuffle == seed {
                assert_eq!(*again.get_or_insert_with(|| order.clone()), order, "one seed, one order: {seed}");
            }
            if report.is_clean() {
                assert_eq!(machine.outcome(), sequential(&sets, n_keys), "seed {seed}");
            }
        }
    }
    assert!(orders > 500, "only {orders} orders were not the block's own");
}

#[test]
fn extreme_shapes_equal_the_loop() {
    let chain: Vec<_> = (0..10_000).map(|_| vec![(KeyId(0), Write)]).collect();
    let fan: Vec<_> = (0..10_000u32).map(|i| vec![(KeyId(0), if i % 2_500 == 0 { Write } else { Read })]).collect();
    let flips: Vec<_> = (0..10_000u32)
        .map(|i| vec![(KeyId(0), if i / 100 % 2 == 0 { Read } else { Credit }), (KeyId(i + 1), Write)])
        .collect();
    let lanes: Vec<_> = (0..10_000u32).map(|i| vec![(KeyId(i % 7), Write)]).collect();
    let independent: Vec<_> = (0..10_000u32).map(|i| vec![(KeyId(i), Write)]).collect();
    let shapes = [("chain", chain), ("fan", fan), ("flips", flips), ("lanes", lanes), ("independent", independent)];
    for (name, shape) in shapes {
        let mut sets = AccessSets::new();
        shape.into_iter().for_each(|set| sets.push(set));
        let dag = Dag::build(&sets, 10_001);
        for threads in THREADS {
            run_checked(&Workers::new(threads).unwrap(), &dag, &sets, 10_001, &format!("{name}, {threads} threads"));
        }
    }
}

#[test]
fn escapes_withdraw_exactly_their_dependants() {
    let mut withdrawn = 0;
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        for seed in 0..400 {
            let (sets, n_keys) = random_block(seed, 120);
            let dag = Dag::build(&sets, n_keys);
            let one_in = 1 + seed as u32 % 29;
            let wants =
                move |tx: TxIndex| (tx.0 ^ seed as u32).wrapping_mul(0x9e37_79b9) >> 7 & 0xffff < 0xffff / one_in;
            let expected = naive_report(&sets, &wants);
            let machine = Machine::new(&sets, n_keys, &wants);
            let report = workers.run(&dag, &mut vec![0; threads], &machine);
            assert_eq!(report, expected, "seed {seed}, {threads} threads");
            for (tx, runs) in (0..).zip(&machine.runs) {
                let skipped = report.withdrawn.binary_search(&TxIndex(tx)).is_ok();
                assert_eq!(runs.load(Relaxed), u32::from(!skipped), "seed {seed}, {threads} threads, {tx}");
            }
            withdrawn += report.withdrawn.len();
        }
    }
    assert!(withdrawn > 1_000, "the blocks must exercise withdrawal: {withdrawn}");
}

/// In block order: withdrawn if an escaped transaction reaches it, else its job's verdict.
fn naive_report(sets: &AccessSets<KeyId>, wants: &dyn Fn(TxIndex) -> bool) -> Report {
    let closure = conflict_closure(sets);
    let mut report = Report::default();
    for tx in (0..sets.len()).map(|tx| TxIndex(tx as u32)) {
        if report.escaped.iter().any(|e| closure[e.index()][tx.index()]) {
            report.withdrawn.push(tx);
        } else if wants(tx) {
            report.escaped.push(tx);
        }
    }
    report
}

#[test]
fn a_panic_reaches_the_caller_and_the_workers_live_on() {
    let (sets, n_keys) = (0..).map(|seed| random_block(seed, 2_000)).find(|(sets, _)| sets.len() > 1_000).unwrap();
    let dag = Dag::build(&sets, n_keys);
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        for victim in [0, 1, sets.len() as u32 / 2, sets.len() as u32 - 1] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                workers.run(&dag, &mut vec![(); threads], &|_: &mut (), tx: TxIndex| {
                    if tx.0 == victim {
                        std::panic::panic_any(victim);
                    }
                    Verdict::Done
                })
            }));
            let payload = caught.unwrap_err();
            assert_eq!(payload.downcast_ref::<u32>(), Some(&victim), "{threads} threads");
            run_checked(&workers, &dag, &sets, n_keys, &format!("after a panic, {threads} threads"));
        }
    }
}

#[test]
fn an_empty_block_needs_no_local() {
    let workers = Workers::new(2).unwrap();
    let never = |_: &mut (), _: TxIndex| -> Verdict { panic!("there is no transaction") };
    assert_eq!(workers.run(&Dag::default(), &mut [], &never), Report::default());
    assert_eq!(workers.run(&Dag::build(&AccessSets::new(), 5), &mut [(), ()], &never), Report::default());
}

/// Most of each run is begin, sleep, wakeup and end.
#[test]
fn many_small_runs_all_end() {
    for threads in [2, 4] {
        let workers = Workers::new(threads).unwrap();
        let mut builder = DagBuilder::new();
        let mut dag = Dag::default();
        for seed in 0..10_000 {
            let (sets, n_keys) = random_block(seed, 12);
            builder.build(&sets, n_keys, &mut dag);
            let mut locals = vec![0u64; threads];
            let machine = Machine::new(&sets, n_keys, NEVER);
            workers.run(&dag, &mut locals, &machine);
            assert_eq!(locals.iter().sum::<u64>(), sets.len() as u64, "seed {seed}, {threads} threads");
        }
    }
}

#[test]
fn locals_set_the_number_of_workers_and_runs_may_nest_and_overlap() {
    let (sets, n_keys) = random_block(30, 3_000);
    let dag = Dag::build(&sets, n_keys);
    let workers = Workers::new(4).unwrap();
    for locals in 1..=6 {
        let machine = Machine::new(&sets, n_keys, NEVER);
        workers.run(&dag, &mut vec![0; locals], &machine);
        assert_eq!(machine.outcome(), sequential(&sets, n_keys), "{locals} locals");
    }
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..50).for_each(|_| run_checked(&workers, &dag, &sets, n_keys, "overlapping runs")));
        }
    });
    let nested = workers.run(&dag, &mut [(); 4], &|_: &mut (), tx: TxIndex| {
        if tx.0.is_multiple_of(100) {
            run_checked(&workers, &dag, &sets, n_keys, "a run inside a job");
        }
        Verdict::Done
    });
    assert!(nested.is_clean());
    assert_eq!(workers.install(|| rayon::join(|| 1, || 2)), (1, 2));
}

#[test]
fn locals_that_no_thread_may_send_are_made_where_they_are_used() {
    // An `Rc` with the thread that made it.
    type Local = (std::rc::Rc<std::cell::Cell<u32>>, std::thread::ThreadId);
    let here = || -> Local { (Default::default(), std::thread::current().id()) };
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        for seed in 0..50 {
            let (sets, n_keys) = random_block(seed, 60);
            let dag = Dag::build(&sets, n_keys);
            let machine = Machine::new(&sets, n_keys, NEVER);
            let made = AtomicU32::new(0);
            let local = || (made.fetch_add(1, Relaxed), here()).1;
            let report = workers.run_with(&dag, local, &|(count, of): &mut Local, tx: TxIndex| {
                assert_eq!(std::thread::current().id(), *of);
                count.set(count.get() + 1);
                machine.run(&mut 0, tx)
            });
            assert!(report.is_clean());
            assert_eq!(machine.outcome(), sequential(&sets, n_keys), "seed {seed}, {threads} threads");
            assert!(made.into_inner() as usize <= threads);
        }
    }
}

#[test]
fn a_starving_worker_gets_part_of_a_claimed_chunk() {
    const CHUNK: u32 = 64;
    const TXS: u32 = 1_000;
    let mut sets = AccessSets::new();
    (0..TXS).for_each(|key| sets.push([(KeyId(key), Write)]));
    let dag = Dag::build(&sets, TXS as usize);
    let workers = Workers::new(2).unwrap();
    // The system decides whether the starving worker sleeps before the other one looks, so a few runs may be needed.
    let shared = (0..100).any(|_| {
        let beyond = AtomicU32::new(0);
        let mut locals = [vec![], vec![]];
        workers.run(&dag, &mut locals, &|ran: &mut Vec<u32>, tx: TxIndex| {
            ran.push(tx.0);
            match tx.0 {
                // The first chunk stays with its worker until the other has run all the rest.
                0 => {
                    while beyond.load(Relaxed) < TXS - CHUNK {
                        std::thread::yield_now();
                    }
                }
                1..CHUNK => std::thread::sleep(std::time::Duration::from_micros(100)),
                _ => _ = beyond.fetch_add(1, Relaxed),
            }
            Verdict::Done
        });
        let mut all = locals.concat();
        all.sort_unstable();
        assert_eq!(all, (0..TXS).collect::<Vec<_>>());
        let other = locals.iter().find(|ran| !ran.contains(&0)).unwrap();
        other.iter().any(|tx| *tx < CHUNK)
    });
    assert!(shared, "the worker that sleeps must get some of the first chunk");
}

#[test]
fn a_heavy_source_delays_no_other() {
    const TXS: u32 = 64;
    let mut sets = AccessSets::new();
    (0..TXS).for_each(|key| sets.push([(KeyId(key), Write)]));
    let mut dag = Dag::build(&sets, TXS as usize);
    dag.begin_with_heaviest(&dag.tails(|tx| u64::from(TXS - tx.0)));
    let patience = Instant::now() + Duration::from_secs(600);
    let others = AtomicU32::new(0);
    let report = Workers::new(2).unwrap().run(&dag, &mut [(); 2], &|_: &mut (), tx: TxIndex| {
        if tx.0 == 0 {
            // The heaviest takes as long as all the rest.
            while others.load(Relaxed) < TXS - 1 {
                assert!(Instant::now() < patience, "the others cannot be claimed");
                std::thread::yield_now();
            }
        } else {
            others.fetch_add(1, Relaxed);
        }
        Verdict::Done
    });
    assert!(report.is_clean());
}

#[test]
fn every_thread_is_called_once_even_at_the_end() {
    let (send, calls) = std::sync::mpsc::channel();
    let workers = Workers::new(4).unwrap();
    let weak = workers.downgrade();
    weak.call_all(|count| {
        assert_eq!(count, 4);
        Some(move |thread| send.send((thread, rayon::current_thread_index())).unwrap())
    });
    drop(workers);
    weak.call_all(|_| -> Option<fn(usize)> { panic!("the threads have ended") });
    let mut calls: Vec<_> = calls.iter().collect();
    calls.sort_unstable();
    assert_eq!(calls, [0, 1, 2, 3].map(|thread| (thread, Some(thread))));
}

#[test]
fn dropping_the_workers_joins_them() {
    static LEFT: AtomicU32 = AtomicU32::new(0);
    struct Leaves;
    impl Drop for Leaves {
        fn drop(&mut self) {
            std::thread::sleep(std::time::Duration::from_millis(5));
            LEFT.fetch_add(1, Relaxed);
        }
    }
    thread_local!(static LEAVES: Leaves = const { Leaves });
    let workers = Workers::new(4).unwrap();
    workers.install(|| rayon::broadcast(|_| LEAVES.with(|_| ())));
    assert_eq!(LEFT.load(Relaxed), 0);
    drop(workers);
    assert_eq!(LEFT.load(Relaxed), 4);
}

/// Counts the prefetches of each transaction, by lookahead.
struct Announced(Vec<[AtomicU32; 4]>);

const LOOKAHEADS: [Lookahead; 4] = [Lookahead::Distant, Lookahead::Following, Lookahead::Far, Lookahead::Near];

impl Announced {
    fn all_times(&self, tx: TxIndex) -> [u32; 4] {
        [0, 1, 2, 3].map(|lookahead| self.0[tx.index()][lookahead].load(Relaxed))
    }

    /// Number of prefetches as far, and as near.
    fn times(&self, tx: TxIndex) -> [u32; 2] {
        let [.., far, near] = self.all_times(tx);
        [far, near]
    }
}

impl Job<()> for Announced {
    fn run(&self, _: &mut (), _: TxIndex) -> Verdict {
        Verdict::Done
    }

    fn prefetch(&self, _: &mut (), tx: TxIndex, lookahead: Lookahead) {
        assert!(lookahead != Lookahead::Near || self.times(tx)[0] == 1, "{tx:?}");
        assert!(lookahead != Lookahead::Following || self.all_times(tx)[0] > 0, "{tx:?}");
        let index = LOOKAHEADS.iter().position(|kind| *kind == lookahead).expect("one of them");
        self.0[tx.index()][index].fetch_add(1, Relaxed);
    }
}

/// Writes so many keys in turn, so that each transaction waits for one at most. Returns each transaction's prefetches.
fn announced(keys: u32, threads: usize) -> Vec<[u32; 4]> {
    const TXS: u32 = 5_000;
    let mut sets = AccessSets::new();
    (0..TXS).for_each(|tx| sets.push([(KeyId(tx % keys), Access::Write)]));
    let dag = Dag::build(&sets, keys as usize);
    let job = Announced((0..TXS).map(|_| Default::default()).collect());
    Workers::new(threads).expect("threads").run(&dag, &mut vec![(); threads], &job);
    (0..TXS).map(|tx| job.all_times(TxIndex(tx))).collect()
}

#[test]
fn sources_are_prefetched_twice() {
    for threads in THREADS {
        let announced = announced(5_000, threads);
        assert!(
            announced.iter().all(|[distant, following, far, near]| {
                *far <= 1 && near <= far && [distant, following] == [&0, &0]
            })
        );
        // A starving worker takes claimed sources; the first eight of each chunk are prefetched by then.
        let twice = announced.iter().filter(|times| times[2..] == [1, 1]).count();
        assert!(if threads == 1 { twice == 5_000 } else { twice > 500 }, "{twice} on {threads} threads");
    }
}

#[test]
fn a_chain_is_prefetched_link_by_link() {
    for threads in THREADS {
        for (tx, times) in announced(7, threads).into_iter().enumerate() {
            match (threads, tx) {
                (1, _) => assert_eq!(times, [0, 0, 1, 1]),
                // Sources, which begin the chains.
                (_, 0..7) => assert!(times[2] <= 1 && times[3] <= times[2] && times[..2] == [0, 0], "{times:?}"),
                _ => assert_eq!(times, [1, 1, 1, 1], "{tx} on {threads} threads"),
            }
        }
    }
}

#[test]
fn the_successor_of_a_source_is_prefetched_with_it() {
    for threads in THREADS {
        // Pairs.
        let announced = announced(2_500, threads);
        let (sources, behind) = announced.split_at(2_500);
        assert!(sources.iter().all(|times| times[..2] == [0, 0]));
        if threads == 1 {
            assert!(behind.iter().all(|times| *times == [0, 0, 1, 1]));
            continue;
        }
        // All four, except behind sources that another worker took.
        assert!(behind.iter().all(|[distant, following, far, near]| following <= distant && *far == 1 && near <= far));
        let all = behind.iter().filter(|times| **times == [1; 4]).count();
        assert!(all > 500, "{all} on {threads} threads");
    }
}

#[test]
fn a_transaction_with_many_predecessors_is_prefetched_by_the_last_alone() {
    // Readers of a key, and their writer.
    const READERS: u32 = 500;
    let mut sets = AccessSets::new();
    (0..=READERS).for_each(|tx| sets.push([(KeyId(0), if tx < READERS { Access::Read } else { Access::Write })]));
    let dag = Dag::build(&sets, 1);
    assert_eq!(dag.joins(), 0);
    for threads in THREADS {
        let job = Announced((0..=READERS).map(|_| Default::default()).collect());
        Workers::new(threads).expect("threads").run(&dag, &mut vec![(); threads], &job);
        assert!(job.times(TxIndex(READERS))[0] <= 1, "{threads} threads");
    }
}
