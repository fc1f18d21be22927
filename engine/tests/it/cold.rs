//! Values on disk while transactions run: no thread that executes reads them, and a disk that fails is an error.
//!
//! The injected faults see every read on the thread that makes it.

use crate::kit;
use phalanx::{
    Block, BlockLimits, Budget, Builder, CandidateTx, Engine, Error, Executor, Observer, Order, RunStats, Stage,
    Target, Tuning,
    merkle::{
        Backend, Memory, Reading, StoreConfig,
        faults::{Faults, Step, Verdict},
    },
    revm::{context::TxEnv, primitives::B256},
};
use phalanx_workloads::{Erc20, Native, TransferLoad, Workload};
use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

/// A disk that notes which thread reads while transactions run, and fails on demand.
#[derive(Debug, Default)]
struct Disk {
    is_executing: AtomicBool,
    /// Threads of reads while transactions run.
    readers: Mutex<Vec<String>>,
    /// Reads so far while it counts, the first of them that fails, and how many more succeed before each next one.
    reads: AtomicU64,
    fails_from: AtomicU64,
    between: AtomicU64,
    is_armed: AtomicBool,
    /// Time that a read takes more, in microseconds.
    delay: AtomicU64,
}

impl Disk {
    fn new() -> Arc<Self> {
        Arc::new(Self { fails_from: AtomicU64::new(u64::MAX), ..Self::default() })
    }

    fn read(&self) -> Result<(), io::Error> {
        if self.is_executing.load(SeqCst) {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            self.readers.lock().expect("no panic").push(name);
        }
        std::thread::sleep(Duration::from_micros(self.delay.load(SeqCst)));
        if self.is_armed.load(SeqCst) {
            let since = self.reads.fetch_add(1, SeqCst).checked_sub(self.fails_from.load(SeqCst));
            if since.is_some_and(|since| since.is_multiple_of(self.between.load(SeqCst).saturating_add(1))) {
                return Err(io::Error::from_raw_os_error(5));
            }
        }
        Ok(())
    }

    /// Number of reads while transactions ran: by workers, by the caller, and by Block-STM's own thread.
    fn readers(&self) -> [usize; 3] {
        let readers = self.readers.lock().expect("no panic");
        let count = |is: &dyn Fn(&str) -> bool| readers.iter().filter(|name| is(name)).count();
        // Others read ahead; the threads of a batch without a ring are not told apart.
        let caller = std::thread::current().name().unwrap_or_default().to_owned();
        [
            count(&|name| name.starts_with("phalanx-worker")),
            count(&|name| name == caller),
            count(&|name| name == "phalanx-stm-read"),
        ]
    }
}

impl Faults for Disk {
    fn before(&self, step: Step<'_>) -> Verdict {
        match step {
            Step::Read(_) => self.read().map_or_else(Verdict::Fail, |()| Verdict::Go),
            _ => Verdict::Go,
        }
    }

    fn completed(&self, _: &Path, bytes: io::Result<usize>) -> io::Result<usize> {
        self.read().and(bytes)
    }
}

/// Tells the disk when transactions run.
struct Watch(Arc<Disk>);

impl Observer for Watch {
    fn enter(&self, stage: Stage) {
        if stage == Stage::Execute {
            self.0.is_executing.store(true, SeqCst);
        }
    }

    fn leave(&self, stage: Stage) {
        if stage == Stage::Execute {
            self.0.is_executing.store(false, SeqCst);
        }
    }
}

/// A load, with a chain of its genesis in a folder.
struct Chain {
    workload: Box<dyn Workload>,
    txs: Vec<TxEnv>,
    dir: tempfile::TempDir,
}

impl Chain {
    fn new(workload: Box<dyn Workload>) -> Self {
        let (txs, dir) = (workload.transactions().collect(), crate::kit::folder());
        let chain = Self { workload, txs, dir };
        let disk = Disk::new();
        let mut engine = chain.open(1 << 20, Executor::Sequential, 1, &disk, 0);
        engine.genesis(kit::genesis(&*chain.workload)).expect("a genesis");
        chain
    }

    fn loads() -> [Self; 2] {
        let load = TransferLoad { accounts: 3_000, txs: 1_200, alpha: 0.2, gamma: 20, ..Default::default() };
        [
            Self::new(Box::new(Native::new(load.clone()).expect("a load"))),
            Self::new(Box::new(Erc20::new(load).expect("a load"))),
        ]
    }

    /// A copy of the genesis, whose values are on disk.
    fn copy(&self) -> tempfile::TempDir {
        let copy = crate::kit::folder();
        for file in std::fs::read_dir(self.dir.path()).expect("a store") {
            let file = file.expect("a file");
            std::fs::copy(file.path(), copy.path().join(file.file_name())).expect("a copy");
        }
        copy
    }

    fn open(&self, bytes: usize, executor: Executor, threads: usize, disk: &Arc<Disk>, read_ahead: usize) -> Engine {
        open(self.dir.path(), bytes, executor, threads, disk, read_ahead)
    }
}

fn open(dir: &Path, bytes: usize, executor: Executor, threads: usize, disk: &Arc<Disk>, read_ahead: usize) -> Engine {
    let store = StoreConfig::new(Backend::File(dir.into())).with_memory(Memory::Cached { bytes });
    let store = store.with_reading(Reading::Direct).with_faults(Arc::<Disk>::clone(disk));
    let builder = kit::builder().with_store(store).with_threads(threads).with_executor(executor);
    let builder = builder.with_tuning(Tuning::new().with_read_ahead(read_ahead));
    builder.with_observer(Arc::new(Watch(Arc::clone(disk)))).build().expect("an engine")
}

const LIMITS: BlockLimits = BlockLimits { max_txs: 400, max_gas: u64::MAX };

/// Runs a load block by block; returns roots and the sum of the figures.
fn run(engine: &mut Engine, chain: &Chain, order: Order, predicted: bool) -> Result<(Vec<B256>, RunStats), Error> {
    let mut planner = engine.plan(&chain.txs, order, LIMITS);
    let (mut roots, mut all) = (Vec::new(), RunStats::default());
    for number in 1.. {
        let env = chain.workload.block_env(number);
        let Some(block) = planner.next_block(engine, &env) else { break };
        let block = if predicted { block } else { Block::unpredicted(block.order().to_vec()) };
        let executed = engine.execute(&env, &chain.txs, block)?;
        let merkleized = engine.merkleize(executed)?;
        let committed = engine.commit(merkleized)?;
        committed.write.wait()?;
        planner.requeue_escaped(committed.block.left());
        let run = committed.block.stats().run;
        all.parked += run.parked;
        all.waits += run.waits;
        all.escapes += run.escapes;
        roots.push(committed.state_root);
    }
    Ok((roots, all))
}

#[test]
fn no_worker_of_the_dag_reads_the_disk() {
    for chain in Chain::loads() {
        for (order, threads) in [(Order::Given, 2), (Order::Free, 2), (Order::Given, 1), (Order::Free, 4)] {
            for read_ahead in [0, 1 << 20] {
                let (copy, disk) = (chain.copy(), Disk::new());
                let mut engine = open(copy.path(), 1 << 17, Executor::Dag, threads, &disk, read_ahead);
                let (roots, stats) = run(&mut engine, &chain, order, true).expect("blocks");
                let what = format!("{}, {order:?}, {threads} threads", chain.workload.name());
                assert_eq!(stats.escapes, 0, "{what}: predictions are complete");
                let (misses, reads) = engine.state().reads().map(|(r, c)| (c.misses, r.extents)).expect("a disk");
                assert!(misses > 0 && reads > 0, "{what}: the values were on disk");
                let [workers, caller, _] = disk.readers();
                // The session reads the beneficiary, which no transaction does.
                assert!(workers == 0 && caller <= 3 * roots.len(), "{what}: {:?}", disk.readers.lock());
            }
        }
    }
}

#[test]
fn no_worker_of_a_builder_reads_the_disk() {
    for chain in Chain::loads() {
        for threads in [1, 2, 4] {
            let (copy, disk) = (chain.copy(), Disk::new());
            let mut engine = open(copy.path(), 1 << 17, Executor::Dag, threads, &disk, 1 << 20);
            let candidates: Vec<CandidateTx> =
                (0..).zip(&chain.txs).map(|(rank, tx)| CandidateTx::new(tx.clone(), rank)).collect();
            let mut builder = Builder::new(&engine);
            let target = Target::Plain(Box::new(chain.workload.block_env(1)));
            builder.prepare(&engine, &target, candidates[..500].iter().cloned());
            let mut job = builder.open(&mut engine, target, Budget::default(), []).expect("a block");
            for group in candidates[500..].chunks(300) {
                job.extend(group.iter().cloned(), &|| false).expect("execution");
            }
            let built = job.finish();
            let what = format!("{}, {threads} threads", chain.workload.name());
            assert_eq!(built.executed.block().stats().run.escapes, 0, "{what}");
            assert_eq!(built.txs.len(), chain.txs.len(), "{what}");
            drop(built);
            assert!(engine.state().reads().is_some_and(|(_, cache)| cache.misses > 0), "{what}: values were on disk");
            let [workers, caller, _] = disk.readers();
            assert!(workers == 0 && caller <= 12, "{what}: {:?}", disk.readers.lock());
        }
    }
}

#[test]
fn no_worker_of_block_stm_reads_the_disk() {
    for chain in Chain::loads() {
        let truth = {
            let (copy, disk) = (chain.copy(), Disk::new());
            let mut engine = open(copy.path(), 1 << 20, Executor::Sequential, 1, &disk, 0);
            run(&mut engine, &chain, Order::Given, false).expect("blocks").0
        };
        for threads in [2, 4, 8] {
            for (bytes, read_ahead, delay) in [(0, 0, 0), (1 << 15, 0, 100), (1 << 17, 1 << 16, 0), (1 << 20, 0, 20)] {
                let (copy, disk) = (chain.copy(), Disk::new());
                let mut engine = open(copy.path(), bytes, Executor::BlockStm, threads, &disk, read_ahead);
                disk.delay.store(delay, SeqCst);
                let (roots, stats) = run(&mut engine, &chain, Order::Given, false).expect("blocks");
                let what = format!("{}, {threads} threads, {bytes} bytes: {stats:?}", chain.workload.name());
                assert_eq!(roots, truth, "{what}");
                assert_eq!(stats.waits, 0, "{what}");
                // Behind the transactions a worker finds the values that they replace, in one batch: so only `waits` tells.
                let [.., apart] = disk.readers();
                assert!(stats.parked > 0 && apart > 0, "{what}: {apart} reads");
            }
        }
    }
}

/// A disk that fails at any read fails the block, or has no effect on it.
#[test]
fn a_disk_that_fails_is_an_error_and_no_wrong_result() {
    let chains = Chain::loads();
    let (mut failed, mut passed) = (0, 0);
    for (chain, seed) in chains.iter().zip(1..) {
        let truth = {
            let (copy, disk) = (chain.copy(), Disk::new());
            let mut engine = open(copy.path(), 1 << 20, Executor::Sequential, 1, &disk, 0);
            run(&mut engine, chain, Order::Given, false).expect("blocks").0
        };
        for (threads, executor) in [1, 2, 4, 8].into_iter().flat_map(|threads| {
            [Executor::BlockStm, Executor::Dag, Executor::Sequential].map(|executor| (threads, executor))
        }) {
            if executor == Executor::Sequential && threads > 1 {
                continue;
            }
            // From a read on all of them, that one alone, and every k-th.
            let kth = [2, 5, 30, 200].map(|k| (k - 1, k - 1));
            let modes = [0, 1, 20, 150, 600, 100_000 + seed].into_iter().flat_map(|at| [(at, 0), (at, u64::MAX - 1)]);
            for (at, between) in modes.chain(kth) {
                let (copy, disk) = (chain.copy(), Disk::new());
                let mut engine = open(copy.path(), 1 << 14, executor, threads, &disk, 0);
                disk.fails_from.store(at, SeqCst);
                disk.between.store(between, SeqCst);
                disk.is_armed.store(true, SeqCst);
                let what = format!(
                    "{}, {executor:?}, {threads} threads, read {at} fails, {between} later ones do not",
                    chain.workload.name()
                );
                match run(&mut engine, chain, Order::Given, executor == Executor::Dag) {
                    Ok((roots, _)) => {
                        assert_eq!(roots, truth, "{what}");
                        passed += 1;
                    }
                    Err(Error::Corrupt { .. } | Error::Store(_)) => {
                        assert!(disk.reads.load(SeqCst) > at, "{what}");
                        failed += 1;
                    }
                    Err(other) => panic!("{what}: {other:?}"),
                }
            }
        }
    }
    assert!(failed > 60 && passed >= 8, "{failed} failed, {passed} passed");
}
