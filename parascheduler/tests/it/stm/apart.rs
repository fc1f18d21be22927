//! A state on disk: no worker waits for it while transactions may still be parked, and every transaction ends.

use super::{
    THREADS, UNBOUNDED, config,
    language::{Block, Op},
    run_checked, seeds,
};
use phalanx_access::Salt;
use phalanx_parascheduler::{
    Execution, Interrupt, Program, StmConfig, StmError, StmStats, TxIndex, View, Workers, Write,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Much longer than any test here takes: what takes longer never ends.
const FOREVER: Duration = Duration::from_secs(600);

/// Runs a test whose fault may be that it never ends.
fn ends(test: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(catch_unwind(AssertUnwindSafe(test))));
    told.recv_timeout(FOREVER).expect("a run that does not end").unwrap_or_else(|panic| resume_unwind(panic));
}

/// Waits for another thread; false if that never comes.
fn comes(is: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is() && begun.elapsed() < FOREVER / 2 {
        thread::yield_now();
    }
    is()
}

/// Every transaction reads keys of its own, all of them on disk.
struct Disk {
    txs: u32,
    keys_each: u32,
    /// Transactions that have executed to their end.
    done: AtomicU32,
    /// Values that a worker read by itself.
    by_workers: AtomicU64,
    /// Batches, and values in them.
    batches: AtomicU64,
    apart: AtomicU64,
    /// Threads that read apart.
    readers: AtomicU32,
}

impl Disk {
    fn new(txs: u32, keys_each: u32) -> Self {
        let [by_workers, batches, apart] = Default::default();
        Self { txs, keys_each, done: AtomicU32::new(0), by_workers, batches, apart, readers: AtomicU32::new(0) }
    }
}

impl Program for Disk {
    type Key = u64;
    type Value = u64;
    type Credit = u64;
    type Output = u64;
    type Error = ();
    type Local = ();

    fn base(&self, key: &u64) -> Result<u64, ()> {
        self.by_workers.fetch_add(1, SeqCst);
        Ok(key * 3)
    }

    fn reads_apart(&self) -> bool {
        true
    }

    fn at_hand(&self, _: &u64) -> Result<Option<u64>, ()> {
        Ok(None)
    }

    fn read_apart(&self, keys: &[u64], found: &mut dyn FnMut(&u64, u64)) {
        assert_eq!(std::thread::current().name(), Some("phalanx-stm-read"));
        self.batches.fetch_add(1, SeqCst);
        self.apart.fetch_add(keys.len() as u64, SeqCst);
        keys.iter().for_each(|key| found(key, key * 3));
    }

    fn reader_begins(&self) {
        self.readers.fetch_add(1, SeqCst);
    }

    fn credited(&self, value: &u64, credit: &u64) -> Option<u64> {
        value.checked_add(*credit)
    }

    fn execute(&self, (): &mut (), tx: TxIndex, view: &mut View<'_, Self>) -> Result<Execution<Self>, Interrupt> {
        let mut sum = 0;
        for key in 0..self.keys_each {
            sum += view.read(&u64::from(tx.0 * self.keys_each + key))?;
        }
        self.done.fetch_add(1, SeqCst);
        let own = (1 << 40) + 2 * u64::from(tx.0);
        Ok(Execution { output: sum, writes: vec![(own, Write::Credit(1)), (own + 1, Write::Credit(2))] })
    }
}

/// Sum of the values that a transaction reads.
fn sum(tx: u64, keys_each: u64) -> u64 {
    (tx * keys_each..(tx + 1) * keys_each).map(|key| key * 3).sum()
}

#[test]
fn no_worker_waits_for_a_value_on_disk() {
    for threads in [2, 4, 8] {
        let workers = Workers::new(threads).unwrap();
        for keys_each in 1..StmConfig::MAX_PARKS {
            let disk = Disk::new(700, keys_each);
            let mut locals = vec![(); threads];
            let config = StmConfig::new(Salt::new(1));
            let report = workers.run_stm(&disk, 700, &mut locals, &config).unwrap();
            let what = format!("{threads} threads, {keys_each} keys: {:?}", report.stats);
            let expected = (0..700).map(|tx| sum(tx, keys_each.into()));
            assert!(report.outputs.iter().copied().eq(expected), "{what}");
            assert_eq!((report.stats.waits, disk.by_workers.into_inner()), (0, 0), "{what}");
            // One execution per key that is read, one for both that are credited, and the last one; nothing conflicts.
            let parked = 700 * (u64::from(keys_each) + 1);
            assert_eq!((report.stats.parked, report.stats.executions), (parked, parked + 700), "{what}");
            // Every value once, also of keys that are credited.
            let values = 700 * (u64::from(keys_each) + 2);
            assert_eq!((disk.apart.into_inner(), disk.done.into_inner()), (values, 1_400), "{what}");
            assert_eq!(disk.readers.into_inner(), 1, "{what}");
        }
    }
}

/// A transaction with many values on disk parks a bounded number of times, and then its worker reads the others.
#[test]
fn parking_is_bounded() {
    for threads in [1, 2, 8] {
        let workers = Workers::new(threads).unwrap();
        let disk = Disk::new(100, 40);
        let report = workers.run_stm(&disk, 100, &mut vec![(); threads], &StmConfig::new(Salt::new(1))).unwrap();
        let what = format!("{threads} threads: {:?}", report.stats);
        assert!(report.outputs.iter().copied().eq((0..disk.txs.into()).map(|tx| sum(tx, 40))), "{what}");
        let parks = if threads == 1 { 0 } else { StmConfig::MAX_PARKS };
        assert_eq!(report.stats.parked, u64::from(parks * 100), "{what}");
        assert_eq!(report.stats.executions, u64::from(parks * 100 + 100), "{what}");
        // Two more keys are credited.
        let waits = u64::from((42 - parks) * 100);
        assert_eq!((report.stats.waits, disk.by_workers.into_inner()), (waits, waits), "{what}");
    }
}

/// Reads a number of the state.
type Read<'r> = &'r mut dyn FnMut(u64) -> Result<u64, Interrupt>;

/// Executes a transaction.
type Execute<'a> = dyn Fn(u32, Read<'_>) -> Result<u64, Interrupt> + Sync + 'a;

/// Numbers, of which the first so many are on disk.
struct Numbers<'a> {
    cold: u64,
    execute: &'a Execute<'a>,
    /// Runs before so many values are read apart; they cannot be read if it returns false.
    apart: &'a (dyn Fn(usize) -> bool + Sync),
    /// Runs before a worker reads a value by itself; it cannot be read if it returns false.
    base: &'a (dyn Fn(u64) -> bool + Sync),
    readers: AtomicU32,
}

impl Program for Numbers<'_> {
    type Key = u64;
    type Value = u64;
    type Credit = u64;
    type Output = u64;
    type Error = u64;
    type Local = ();

    fn base(&self, key: &u64) -> Result<u64, u64> {
        if (self.base)(*key) { Ok(key * 3) } else { Err(*key) }
    }

    fn reads_apart(&self) -> bool {
        true
    }

    fn at_hand(&self, key: &u64) -> Result<Option<u64>, u64> {
        if *key < self.cold {
            // Long enough for the thread that reads to come between.
            thread::sleep(Duration::from_micros(20));
            return Ok(None);
        }
        Ok(Some(key * 3))
    }

    fn read_apart(&self, keys: &[u64], found: &mut dyn FnMut(&u64, u64)) {
        assert!(keys.iter().all(|key| *key < self.cold));
        if (self.apart)(keys.len()) {
            keys.iter().for_each(|key| found(key, key * 3));
        }
    }

    fn reader_begins(&self) {
        self.readers.fetch_add(1, SeqCst);
    }

    fn credited(&self, value: &u64, credit: &u64) -> Option<u64> {
        value.checked_add(*credit)
    }

    fn execute(&self, (): &mut (), tx: TxIndex, view: &mut View<'_, Self>) -> Result<Execution<Self>, Interrupt> {
        let output = (self.execute)(tx.0, &mut |key| view.read(&key))?;
        Ok(Execution { output, writes: Vec::new() })
    }
}

type Ran = Result<(Vec<u64>, StmStats, u32), StmError<u64>>;

/// Runs transactions; returns outputs, figures, and the number of threads that read.
fn run(
    (threads, txs, cold): (usize, usize, u64),
    execute: &Execute<'_>,
    apart: &(dyn Fn(usize) -> bool + Sync),
    base: &(dyn Fn(u64) -> bool + Sync),
) -> Ran {
    let numbers = Numbers { cold, execute, apart, base, readers: AtomicU32::new(0) };
    let workers = Workers::new(threads).expect("workers");
    let report = workers.run_stm(&numbers, txs, &mut vec![(); threads], &StmConfig::new(Salt::new(1)))?;
    Ok((report.outputs, report.stats, numbers.readers.into_inner()))
}

/// Others run to their end while a value is being read, and what they miss meanwhile is the next batch.
#[test]
fn others_run_while_a_value_is_read() {
    ends(|| {
        let (done, missed, [batches, most]) = (AtomicU32::new(0), AtomicU32::new(0), [const { AtomicU64::new(0) }; 2]);
        let execute = |tx: u32, read: Read<'_>| {
            missed.fetch_add(u32::from(tx < 8), SeqCst);
            let seen = read(u64::from(tx))?;
            done.fetch_add(1, SeqCst);
            Ok(seen)
        };
        // The first eight transactions are on disk, and there are two workers.
        let apart = |count: usize| {
            batches.fetch_add(1, SeqCst);
            most.fetch_max(count as u64, SeqCst);
            comes(|| done.load(SeqCst) >= 992 && missed.load(SeqCst) >= 8)
        };
        let (outputs, stats, readers) = run((2, 1_000, 8), &execute, &apart, &|_| true).unwrap();
        assert!(outputs.into_iter().eq((0..1_000).map(|key| key * 3)));
        assert_eq!((stats.parked, stats.waits, stats.executions, readers), (8, 0, 1_008, 1));
        // A worker that has missed a value may not have listed it yet.
        assert!(batches.into_inner() <= 4 && most.into_inner() >= 3);
    });
}

/// One value on disk that all transactions need, between many that are at hand: it is read once, no transaction is resumed before
/// it is there, and none waits.
#[test]
fn a_contended_value_is_read_once() {
    ends(|| {
        for (threads, cold) in [(2, 1), (4, 1), (8, 1), (2, 3), (4, 3), (8, 3)] {
            for _ in 0..20 {
                let values = AtomicU64::new(0);
                let execute = |tx: u32, read: Read<'_>| {
                    let (cold, warm) = (read(u64::from(tx) % cold)?, read(10 + u64::from(tx) % 5)?);
                    Ok(cold + warm)
                };
                let apart = |count: usize| {
                    values.fetch_add(count as u64, SeqCst);
                    thread::sleep(Duration::from_micros(200));
                    true
                };
                let (outputs, stats, _) = run((threads, 300, cold), &execute, &apart, &|_| false).unwrap();
                assert!(outputs.into_iter().eq((0..300).map(|tx| (tx % cold + 10 + tx % 5) * 3)));
                assert_eq!((stats.waits, values.into_inner()), (0, cold), "{threads} threads: {stats:?}");
                assert!(stats.parked >= cold && stats.max_incarnation <= 2, "{threads} threads: {stats:?}");
            }
        }
    });
}

/// A value that a worker reads by itself is not read apart, and a transaction that parks for it is not resumed before it is there.
#[test]
fn a_value_that_a_worker_reads_is_awaited() {
    ends(|| {
        for _ in 0..20 {
            let (begun, is_loading) = (AtomicU32::new(0), AtomicBool::new(false));
            let execute = |tx: u32, read: Read<'_>| {
                if tx == 0 {
                    // More than it may park for.
                    (0..=u64::from(StmConfig::MAX_PARKS)).map(read).sum()
                } else {
                    assert!(comes(|| is_loading.load(SeqCst)), "transaction 0 comes to its last key");
                    begun.fetch_add(1, SeqCst);
                    read(u64::from(StmConfig::MAX_PARKS))
                }
            };
            let base = |_: u64| {
                is_loading.store(true, SeqCst);
                let others = comes(|| begun.load(SeqCst) > 0);
                thread::sleep(Duration::from_millis(3));
                others
            };
            let (outputs, stats, _) = run((2, 2, 100), &execute, &|_| true, &base).unwrap();
            assert_eq!(outputs, [30, 12]);
            assert_eq!((stats.waits, begun.into_inner()), (1, 2), "{stats:?}");
        }
    });
}

/// Where all values are at hand, no thread is started and no transaction parks.
#[test]
fn what_is_at_hand_starts_no_thread() {
    ends(|| {
        for threads in [1, 2, 8] {
            let execute = |tx: u32, read: Read<'_>| read(u64::from(tx));
            let (outputs, stats, readers) = run((threads, 500, 0), &execute, &|_| false, &|_| false).unwrap();
            assert!(outputs.into_iter().eq((0..500).map(|key| key * 3)));
            assert_eq!((stats.parked, stats.waits, stats.executions, readers), (0, 0, 500, 0));
        }
    });
}

/// A batch that cannot be read ends parking; a worker that cannot read either has the error of the lowest transaction.
#[test]
fn a_failed_read_is_the_error_of_the_lowest_transaction() {
    ends(|| {
        for threads in [1, 2, 8] {
            for (fails_at, is_mended) in (0..6).flat_map(|at| [(at, true), (at, false)]) {
                let batches = AtomicU32::new(0);
                let execute = |tx: u32, read: Read<'_>| read(u64::from(tx));
                let apart = |_: usize| batches.fetch_add(1, SeqCst) < fails_at;
                let ran = run((threads, 300, 300), &execute, &apart, &|key| is_mended || key < 40);
                match ran {
                    Ok((outputs, stats, _)) => {
                        assert!(is_mended || batches.into_inner() <= fails_at);
                        assert!(outputs.into_iter().eq((0..300).map(|key| key * 3)));
                        assert!(stats.max_incarnation <= 2, "a failed read is not repeated apart: {stats:?}");
                    }
                    Err(StmError::Base { index, source }) => {
                        assert!(!is_mended && u64::from(index.0) == source && source >= 40, "{index:?}, {source}");
                        assert!(threads == 1 || batches.into_inner() > fails_at);
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    });
}

#[test]
fn a_panic_of_the_thread_that_reads_reaches_the_caller() {
    struct Faulty;

    impl Program for Faulty {
        type Key = u64;
        type Value = u64;
        type Credit = u64;
        type Output = ();
        type Error = ();
        type Local = ();

        fn base(&self, _: &u64) -> Result<u64, ()> {
            Ok(0)
        }

        fn reads_apart(&self) -> bool {
            true
        }

        fn at_hand(&self, _: &u64) -> Result<Option<u64>, ()> {
            Ok(None)
        }

        fn read_apart(&self, _: &[u64], _: &mut dyn FnMut(&u64, u64)) {
            panic!("a disk");
        }

        fn credited(&self, value: &u64, _: &u64) -> Option<u64> {
            Some(*value)
        }

        fn execute(&self, (): &mut (), tx: TxIndex, view: &mut View<'_, Self>) -> Result<Execution<Self>, Interrupt> {
            view.read(&u64::from(tx.0))?;
            Ok(Execution { output: (), writes: Vec::new() })
        }
    }

    let workers = Workers::new(2).unwrap();
    for _ in 0..20 {
        let run = || workers.run_stm(&Faulty, 50, &mut [(), ()], &StmConfig::new(Salt::new(1))).map(|_| ());
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).expect_err("it panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"a disk"));
    }
}

/// Chains of writers whose first reads are on disk, under disturbed schedules.
#[test]
fn hot_keys_on_disk_equal_the_loop() {
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        for seed in seeds(12) {
            let txs = (0..400).map(|tx| vec![Op::Add(1_000 + tx, 1), Op::Add(tx % 3, 1), Op::CreditAt(900, 1)]);
            let (cap, gas_limit, gas_goal) = (UNBOUNDED, UNBOUNDED, UNBOUNDED);
            let block = Block { txs: txs.collect(), cap, gas_limit, gas_goal, disk: Some(seed), ..Block::default() };
            for schedule in [None, Some(seed)] {
                let what = format!("seed {seed}, schedule {schedule:?}, {threads} threads");
                run_checked(&workers, &block, &config(seed, schedule), &what);
            }
        }
    }
}
