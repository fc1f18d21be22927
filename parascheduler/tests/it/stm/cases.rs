//! Promises that random programs do not aim at, each with its test.

use super::{
    THREADS, UNBOUNDED, config,
    language::{Block, Machine, Name, Value},
    random::random_block,
};
use phalanx_parascheduler::{
    Commit, Execution, Interrupt, Program, StmConfig, StmError, StmMemory, StmReport, TxIndex, View, Workers, Write,
};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

type Writes = Vec<(u64, Write<u64, u64>)>;

/// Transactions as closures over numbers of at most 100; keys from 1000 cannot be loaded.
struct Script<'a> {
    txs: u32,
    run: Box<Run<'a>>,
    end: fn(u32) -> Commit,
    tally: Option<u64>,
}

type Run<'a> = dyn Fn(u32, &mut View<'_, Script<'a>>) -> Result<Writes, Interrupt> + Sync + 'a;

const CAP: u64 = 100;

impl Program for Script<'_> {
    type Key = u64;
    type Value = u64;
    type Credit = u64;
    type Output = u32;
    type Error = u64;
    type Local = ();

    fn base(&self, key: &u64) -> Result<u64, u64> {
        if *key >= 1_000 { Err(*key) } else { Ok(0) }
    }

    fn credited(&self, value: &u64, credit: &u64) -> Option<u64> {
        Some(value + credit).filter(|sum| *sum <= CAP)
    }

    fn tally(&self) -> Option<u64> {
        self.tally
    }

    fn execute(&self, (): &mut (), tx: TxIndex, view: &mut View<'_, Self>) -> Result<Execution<Self>, Interrupt> {
        Ok(Execution { output: tx.0, writes: (self.run)(tx.0, view)? })
    }

    fn commit(&self, tx: TxIndex, _: &u32) -> Commit {
        (self.end)(tx.0)
    }
}

fn script<'a>(
    txs: u32,
    run: impl Fn(u32, &mut View<'_, Script<'a>>) -> Result<Writes, Interrupt> + Sync + 'a,
) -> Script<'a> {
    Script { txs, run: Box::new(run), end: |_| Commit::Continue, tally: None }
}

fn run<'a>(workers: &Workers, script: &Script<'a>) -> Result<StmReport<Script<'a>>, StmError<u64>> {
    let (total, mut locals) = (script.txs as usize, vec![(); workers.threads()]);
    MEMORY.with_borrow_mut(|memory| workers.run_stm_in(memory, script, total, &mut locals, &config(1, Some(7))))
}

thread_local! {
    static MEMORY: RefCell<StmMemory<u64, u64, u64>> = RefCell::default();
}

fn sorted(mut writes: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    writes.sort_unstable();
    writes
}

#[test]
fn a_panic_reaches_the_caller_and_poisons_only_its_run() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        for victim in [0, 1, 250, 499] {
            let faulty = script(500, |tx, view| {
                let held = view.read(&0)?;
                if tx == victim {
                    panic_any(tx);
                }
                Ok(vec![(0, Write::Value(held % CAP + 1))])
            });
            let payload = catch_unwind(AssertUnwindSafe(|| run(&workers, &faulty))).unwrap_err();
            assert_eq!(payload.downcast_ref::<u32>(), Some(&victim), "{threads} threads");
            let sound = script(500, |_, view| Ok(vec![(0, Write::Value((view.read(&0)? + 1) % CAP))]));
            assert_eq!(run(&workers, &sound).unwrap().writes, [(0, 0)], "{threads} threads");
        }
    }
}

#[test]
fn a_reader_of_a_tally_sees_the_final_value_and_invalidates_no_other() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        let credits = script(90, |tx, view| match tx {
            44 | 89 => Ok(vec![(u64::from(tx), Write::Value(view.read(&0)?))]),
            // The last write of a key counts.
            7 => Ok(vec![(0, Write::Value(50)), (0, Write::Credit(1))]),
            _ => Ok(vec![(0, Write::Credit(1))]),
        });
        let report = run(&workers, &Script { tally: Some(0), ..credits }).unwrap();
        assert_eq!(sorted(report.writes), [(0, 88), (44, 44), (89, 88)], "{threads} threads");
        assert_eq!((report.stats.invalidated, report.stats.refused), (0, 0), "{threads} threads");
        assert!(report.stats.executions <= 92, "{threads} threads: an early reader runs once more");
    }
}

#[test]
fn a_tally_that_is_replaced_or_overflows_ends_as_in_a_loop() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        let replaced = script(60, |tx, _| Ok(vec![(0, if tx == 30 { Write::Value(5) } else { Write::Credit(1) })]));
        let report = run(&workers, &Script { tally: Some(0), ..replaced }).unwrap();
        assert_eq!(report.writes, [(0, 34)], "{threads} threads");
        // 100 fit; each later one finds the overflow itself.
        let full = script(120, |_, view| match view.exact() {
            false => Ok(vec![(0, Write::Credit(3))]),
            true => Ok(vec![(0, Write::Value(view.read(&0)?)), (1, Write::Credit(1))]),
        });
        let report = run(&workers, &Script { tally: Some(0), ..full }).unwrap();
        assert_eq!(sorted(report.writes), [(0, 99), (1, 87)], "{threads} threads");
    }
}

/// A speculative execution follows a pointer that never existed.
#[test]
fn a_read_that_fails_counts_only_at_its_place_in_the_order() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        let strayed = AtomicU32::new(0);
        let pointer = script(20, |tx, view| match tx {
            0 => {
                // Other workers read first, if there are any.
                while threads > 1 && strayed.load(Relaxed) == 0 {
                    std::thread::yield_now();
                }
                Ok(vec![(0, Write::Value(1))])
            }
            _ => {
                let key = if view.read(&0)? == 0 { 1_000 } else { 2 };
                strayed.fetch_add(1, Relaxed);
                Ok(vec![(u64::from(tx) + 10, Write::Value(view.read(&key)?))])
            }
        });
        assert_eq!(run(&workers, &pointer).unwrap().outputs.len(), 20, "{threads} threads");
        let lost = script(20, |tx, view| {
            let key = if tx >= 13 { 1_000 + u64::from(tx) } else { 5 };
            Ok(vec![(5, Write::Value((view.read(&key)? + 1) % CAP))])
        });
        let error = run(&workers, &lost).unwrap_err();
        assert_eq!(error, StmError::Base { index: TxIndex(13), source: 1_013 }, "{threads} threads");
        assert_eq!(error.to_string(), "transaction 13: the state could not be read: 1013");
    }
}

#[test]
fn a_credit_that_overflows_is_executed_again_on_an_exact_view() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        // 150 credits of one, of which 100 fit; then a reader.
        let careful = script(151, |tx, view| {
            if tx == 150 {
                return Ok(vec![(1, Write::Value(view.read(&0)?))]);
            }
            if !view.exact() {
                return Ok(vec![(0, Write::Credit(1))]);
            }
            let held = view.read(&0)?;
            Ok(if held < CAP { vec![(0, Write::Value(held + 1))] } else { vec![(2, Write::Value(u64::from(tx)))] })
        });
        let report = run(&workers, &careful).unwrap();
        assert_eq!(sorted(report.writes), [(0, CAP), (1, CAP), (2, 149)], "{threads} threads");
        assert_eq!(report.stats.refused, 50, "{threads} threads");
        let careless = script(151, |_, _| Ok(vec![(0, Write::Credit(1))]));
        let error = run(&workers, &careless).unwrap_err();
        assert_eq!(error, StmError::CreditOverflow { index: TxIndex(100) }, "{threads} threads");
    }
}

/// Found by a random block: one credit overflows, another one meets a key that cannot be loaded.
#[test]
fn an_error_does_not_depend_on_the_number_of_workers() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        let both = script(3, |tx, _| match tx {
            0 => Ok(vec![(0, Write::Value(CAP))]),
            _ => Ok(vec![(0, Write::Credit(1)), (1_000, Write::Credit(1))]),
        });
        let error = run(&workers, &both).unwrap_err();
        assert_eq!(error, StmError::Base { index: TxIndex(1), source: 1_000 }, "{threads} threads");
    }
}

/// An execution that only a state that never existed could keep running is cancelled.
#[test]
fn runaway_speculation_is_cancelled() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        let astray = AtomicU32::new(0);
        let runaway = script(30, |tx, view| {
            if tx == 0 {
                while threads > 1 && astray.load(Relaxed) == 0 {
                    std::thread::yield_now();
                }
                return Ok(vec![(0, Write::Value(1))]);
            }
            while view.read(&0)? == 0 {
                astray.fetch_add(1, Relaxed);
                while !view.cancelled() {
                    std::thread::yield_now();
                }
                view.check()?;
            }
            Ok(vec![])
        });
        assert_eq!(run(&workers, &runaway).unwrap().outputs.len(), 30, "{threads} threads");
    }
}

/// The same behind an end: the run does not wait for an execution that will not count.
#[test]
fn executions_behind_the_end_are_cancelled() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        for (end, outputs) in [(Commit::StopAfter, 1), (Commit::StopBefore, 0)] {
            let astray = AtomicU32::new(0);
            let mut endless = script(30, |tx, view| {
                if tx == 0 {
                    while threads > 1 && astray.load(Relaxed) == 0 {
                        std::thread::yield_now();
                    }
                    return Ok(vec![(1, Write::Value(1))]);
                }
                astray.fetch_add(1, Relaxed);
                loop {
                    view.check()?;
                    std::thread::yield_now();
                }
            });
            endless.end = if outputs == 1 { |_| Commit::StopAfter } else { |_| Commit::StopBefore };
            let report = run(&workers, &endless).unwrap();
            assert_eq!((report.stopped, report.outputs.len()), (Some(end), outputs), "{threads} threads");
            assert_eq!(report.writes.len(), outputs, "{threads} threads");
        }
    }
}

/// An EVM may turn a failed read into a revert.
#[test]
fn swallowing_an_interrupt_does_no_harm() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        let careless = script(2_000, |tx, view| {
            let held = view.read(&u64::from(tx % 3)).unwrap_or(77);
            Ok(vec![(u64::from(tx % 3), Write::Value((held + 1) % CAP))])
        });
        let report = run(&workers, &careless).unwrap();
        assert_eq!(sorted(report.writes), [(0, 67), (1, 67), (2, 66)], "{threads} threads");
    }
}

/// A run of the rest on a base that holds the writes before it is a start in the middle.
#[test]
fn a_run_can_start_in_the_middle() {
    struct Rest<'a> {
        machine: Machine<'a>,
        before: BTreeMap<Name, Value>,
    }
    impl Program for Rest<'_> {
        type Key = Name;
        type Value = Value;
        type Credit = u64;
        type Output = super::language::Output;
        type Error = super::language::Unreadable;
        type Local = u64;
        fn base(&self, name: &Name) -> Result<Value, Self::Error> {
            self.before.get(name).map_or_else(|| self.machine.base(name), |value| Ok(*value))
        }
        fn credited(&self, value: &Value, credit: &u64) -> Option<Value> {
            self.machine.credited(value, credit)
        }
        fn execute(
            &self,
            executed: &mut u64,
            index: TxIndex,
            view: &mut View<'_, Self>,
        ) -> Result<Execution<Self>, Interrupt> {
            *executed += 1;
            let (output, writes) = self.machine.interpret(index, view.exact(), &mut |name| view.read(name))?;
            Ok(Execution { output, writes })
        }
    }
    for seed in 0..60 {
        let mut whole = random_block(seed, 200);
        whole.txs.iter_mut().for_each(|ops| ops.retain(|op| !op.can_loop()));
        (whole.strict, whole.gas_limit, whole.gas_goal) = (false, UNBOUNDED, UNBOUNDED);
        whole.unreadable.clear();
        let expected = super::sequential(&whole).unwrap();
        let cut = whole.txs.len() / 2;
        let rest = whole.txs.split_off(cut);
        let first = super::sequential(&whole).unwrap();
        let rest = Block { txs: rest, ..whole };
        let program = Rest { machine: Machine::new(&rest), before: first.writes.iter().copied().collect() };
        let workers = Workers::new(4).unwrap();
        let report = workers.run_stm(&program, rest.txs.len(), &mut [0; 4], &config(seed, Some(seed))).unwrap();
        assert_eq!([first.outputs, report.outputs].concat(), expected.outputs, "seed {seed}");
        let mut after = program.before;
        after.extend(report.writes);
        assert_eq!(after.into_iter().collect::<Vec<_>>(), expected.writes, "seed {seed}");
    }
}

#[test]
fn locals_set_the_number_of_workers_and_runs_may_nest_and_overlap() {
    let workers = Workers::new(4).unwrap();
    let count =
        script(300, |tx, view| Ok(vec![(u64::from(tx % 7), Write::Value((view.read(&u64::from(tx % 7))? + 1) % 50))]));
    let check = |locals: usize| {
        let report = workers.run_stm(&count, 300, &mut vec![(); locals], &config(2, None)).unwrap();
        assert_eq!(sorted(report.writes), (0..7).map(|key| (key, if key < 6 { 43 } else { 42 })).collect::<Vec<_>>());
    };
    (1..=6).for_each(check);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..50).for_each(|_| check(4)));
        }
    });
    let outer = script(40, |_, view| {
        check(4);
        Ok(vec![(0, Write::Value((view.read(&0)? + 1) % CAP))])
    });
    assert_eq!(run(&workers, &outer).unwrap().writes, [(0, 40)]);
}

/// Calling threads of the pool are workers of their runs, beside other work of the pool, and survive a panic.
#[test]
fn runs_start_from_threads_of_the_pool_beside_other_work() {
    let workers = Workers::new(4).unwrap();
    let count =
        script(300, |tx, view| Ok(vec![(u64::from(tx % 3), Write::Value((view.read(&u64::from(tx % 3))? + 1) % CAP))]));
    let broken = script(
        50,
        |tx, view| if tx == 30 { panic!("on purpose") } else { Ok(vec![(view.read(&0)?, Write::Credit(1))]) },
    );
    let check = |locals: usize| {
        let report = workers.run_stm(&count, 300, &mut vec![(); locals], &config(2, None)).unwrap();
        assert_eq!(sorted(report.writes), [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(report.outputs.len(), 300);
    };
    let others = || assert_eq!((0..50_000u64).into_par_iter().sum::<u64>(), 1_249_975_000);
    for _ in 0..30 {
        workers.install(|| {
            rayon::join(|| rayon::join(|| check(4), others), || rayon::join(others, || check(3)));
            let panics = || workers.run_stm(&broken, 50, &mut [(); 4], &config(2, None));
            rayon::join(|| assert!(catch_unwind(AssertUnwindSafe(panics)).is_err()), || check(2));
        });
    }
}

/// A caller of the pool does not run alone: two transactions meet, each of which waits for the other to have begun.
#[test]
fn a_run_from_a_thread_of_the_pool_has_several_workers() {
    let workers = Workers::new(2).unwrap();
    let begun = AtomicU32::new(0);
    let meeting = script(2, |tx, _| {
        begun.fetch_add(1, Relaxed);
        let end = Instant::now() + Duration::from_secs(600);
        while begun.load(Relaxed) < 2 {
            assert!(Instant::now() < end, "transaction {tx} waits alone");
            std::thread::yield_now();
        }
        Ok(vec![(u64::from(tx), Write::Value(1))])
    });
    let report = workers.install(|| workers.run_stm(&meeting, 2, &mut [(); 2], &config(2, None))).unwrap();
    assert_eq!(sorted(report.writes), [(0, 1), (1, 1)]);
}

#[test]
fn an_empty_block_needs_no_local() {
    let never = script(0, |_, _| panic!("there is no transaction"));
    let workers = Workers::new(2).unwrap();
    let report = workers.run_stm(&never, 0, &mut [], &StmConfig::new(phalanx_access::Salt::new(0))).unwrap();
    assert!(report.outputs.is_empty() && report.writes.is_empty() && report.stopped.is_none());
}
