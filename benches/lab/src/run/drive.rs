//! A timed run: transactions in, committed blocks out.

pub use super::setup::{Gate, Purpose, Setup};

use super::{
    arrivals::Arrivals,
    engines::Take,
    genesis,
    place::Place,
    timeline::Timeline,
    trace::{BlockTrace, Ended, TxTrace},
};
use crate::{
    config::{Store, word},
    error::Usage,
    machine::{
        clock::{self, StageClock},
        host,
        pin::{self, Pinned},
    },
    result::{Disturbance, OpenLoop, Quantiles, Stages, WorkerShare},
    ui::{Progress, Ui},
};
use anyhow::Context as _;
use phalanx::{
    Block, BlockAccessList, BlockInfo, Engine, Executor, Observer as _, Stage, Tuning, WriteHandle,
    merkle::{CacheUse, Memory, ReadUse, StoreConfig},
    recover_all,
    revm::{
        context::{CfgEnv, TxEnv},
        primitives::B256,
    },
};
use phalanx_workloads::Workload;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Signatures recovered between two checks for Ctrl-C.
const RECOVER_CHUNK: usize = 8192;

/// Measurement of a run.
pub(crate) struct Timed {
    /// Name in results.
    pub(crate) executor: String,
    pub(crate) threads: usize,
    pub(crate) blocks: Vec<BlockTrace>,
    pub(crate) wall: Duration,
    pub(crate) cpu_ns: u64,
    pub(crate) stages_ns: [u64; Stage::ALL.len()],
    /// Nanoseconds of threads that read ahead.
    pub(crate) read_ahead_ns: u64,
    /// Blocks whose stages were timed, on behalf of all.
    pub(crate) stages_blocks: u64,
    /// Nanoseconds in the pool of transactions, which is no stage of the engine.
    pub(crate) pool_ns: u64,
    /// Latency of each block, in milliseconds.
    pub(crate) latencies: Vec<f64>,
    /// Commit time of each block, in seconds since the start.
    pub(crate) commits: Vec<f64>,
    pub(crate) frames_tlp: Option<f64>,
    pub(crate) critical_path: u64,
    pub(crate) escapes: u64,
    pub(crate) reexecutions: u64,
    pub(crate) parked: u64,
    pub(crate) waits: u64,
    pub(crate) replayed: u64,
    pub(crate) fallback_blocks: u64,
    pub(crate) disk_written: u64,
    /// Reads of a state on disk, and lookups of its cache.
    pub(crate) reads: Option<(ReadUse, CacheUse)>,
    /// Other work of the machine.
    pub(crate) disturbance: Option<Disturbance>,
    /// Core of each worker, if they were pinned.
    pub(crate) pinned: Vec<usize>,
    /// Name and processor time of each worker.
    pub(crate) workers_ns: Vec<(String, u64)>,
    pub(crate) db_bytes: u64,
    pub(crate) interrupted: bool,
    /// True if its time was over before the load was.
    pub(crate) cut: bool,
    /// Figures of an open loop.
    pub(crate) open_loop: Option<OpenLoop>,
    /// Timeline, if one is wanted.
    pub(crate) timeline: Option<Arc<Timeline>>,
    /// Number of transactions to execute.
    pub(crate) input: usize,
    /// First difference of the final state from the ledger's arithmetic.
    pub(crate) check: Result<(), String>,
    /// True if that looked at a sample of the accounts.
    pub(crate) is_sampled: bool,
}

impl Timed {
    /// Number of transactions that ended as `wanted`.
    pub(crate) fn count(&self, wanted: Ended) -> u64 {
        self.blocks.iter().flat_map(|block| &block.results).filter(|result| result.ended == wanted).count() as u64
    }

    pub(crate) fn gas_used(&self) -> u64 {
        self.blocks.iter().map(|block| block.gas_used).sum()
    }

    /// Gas that the senders paid for.
    fn gas_paid(&self) -> u64 {
        self.blocks.iter().flat_map(|block| &block.results).map(|result| result.paid).sum()
    }
}

/// Runs the workload through the engine. `blocks` fixes order and boundaries; without it the engine plans.
pub(crate) fn run(
    setup: &Setup<'_>,
    executor: Executor,
    threads: usize,
    store: &Store,
    blocks: Option<&[Vec<u32>]>,
    ui: &Ui,
) -> anyhow::Result<Timed> {
    let clock = StageClock::new();
    let place = Place::of(setup.config, store)?;
    let store_config = setup.config.store_config(&place.store)?;
    let pinned = pin::confine(setup.config.pin, threads)?;
    let timeline = setup.config.trace.as_ref().filter(|_| setup.purpose == Purpose::Measure);
    let timeline = timeline.map(|_| Timeline::new(Arc::clone(&clock)));
    let observer = match &timeline {
        Some(timeline) => Arc::clone(timeline) as Arc<dyn phalanx::Observer>,
        None => Arc::clone(&clock) as _,
    };
    let mut engine = open(setup, executor, (threads, Take::AsFast), store_config, observer, &pinned)?;
    if !place.is_made {
        genesis::load(&mut engine, setup.workload, setup.config, ui)?;
    }
    clock.watch_threads([&**engine.workers()]);
    clock.reset();

    let bar = ui.bar(&setup.purpose.name(executor, threads), setup.txs.len() as u64);
    let mut timed = Timed::new(word(executor), threads);
    timed.input = blocks.map_or(setup.txs.len(), |blocks| blocks.iter().map(Vec::len).sum());
    let mut writes: Vec<WriteHandle> = Vec::new();
    if let Some(gate) = setup.gate {
        gate.pass();
    }
    if setup.purpose == Purpose::Measure {
        ui.prepared();
    }
    let timer = Timer::start(&clock, &engine);

    let pace = setup.pace();
    let mut arrivals = pace.rate.map(Arrivals::new);
    let watch = timeline.as_ref().map(Timeline::watch).transpose().context("starting the timeline")?;
    let overlaps = setup.config.overlap && blocks.is_none() && arrivals.is_none();
    let recovered = recover(setup, &engine, &clock, &bar, ui)?;
    let txs = recovered.as_deref().unwrap_or(setup.txs);
    let mut source = match blocks {
        Some(blocks) => Source::Fixed(blocks.iter()),
        None => Source::Planned(engine.plan(txs, setup.config.order, setup.config.limits())),
    };
    if let Source::Planned(planner) = &mut source {
        planner.use_layers(setup.config.access);
    }
    clock.overlap(overlaps);
    let environment = |number: u64| {
        let mut env = setup.workload.block_env(number);
        env.gas_limit = setup.config.block_gas;
        env
    };
    let workers = Arc::clone(engine.workers());
    let mut drive = || -> anyhow::Result<()> {
        // The block planned beside the one before, and its start.
        let mut ahead: Option<(Option<Block>, Duration)> = None;
        for number in 1.. {
            if ui.stopped() {
                timed.interrupted = true;
                return Ok(());
            }
            let now = timer.elapsed();
            if pace.is_over(now, timed.blocks.len()) {
                timed.cut();
                return Ok(());
            }
            let env = environment(number);
            let (block, began) = match (ahead.take(), &mut source) {
                (Some(ahead), _) => ahead,
                (None, Source::Fixed(blocks)) => (blocks.next().map(|order| Block::unpredicted(order.clone())), now),
                (None, Source::Planned(planner)) => (planner.next_block(&engine, &env), now),
            };
            let Some(block) = block else { return Ok(()) };
            let began = match &arrivals {
                Some(arrivals) => {
                    let planned = timer.elapsed().saturating_sub(now);
                    arrivals.wait(block.order(), planned, &|| timer.elapsed(), &|| ui.stopped())
                }
                None => began,
            };
            let stocked = match &source {
                Source::Planned(planner) => planner.is_stocked(),
                Source::Fixed(_) => true,
            };
            clock.begin_block(block.order().len(), stocked);
            let merkleized = match &mut source {
                Source::Planned(planner) if overlaps => {
                    let next = environment(number + 1);
                    let (merkleized, planned) = engine.execute_and_plan(&env, txs, block, planner, &next)?;
                    ahead = Some((planned, now));
                    merkleized
                }
                _ => {
                    let executed = engine.execute(&env, txs, block)?;
                    engine.merkleize(executed)?
                }
            };
            let committed = engine.commit(merkleized)?;
            writes.push(committed.write);
            if let Source::Planned(planner) = &mut source
                && !committed.block.left().is_empty()
            {
                // Transactions of the planned block may be successors of the escaped ones.
                if let Some((Some(planned), _)) = ahead.take() {
                    planner.unplan(planned);
                }
                planner.requeue_escaped(committed.block.left());
            }
            let ended = timer.elapsed();
            timed.latencies.push((ended - began).as_secs_f64() * 1e3);
            timed.commits.push(ended.as_secs_f64());
            if let Some(arrivals) = &mut arrivals {
                arrivals.committed(committed.block.order(), ended);
            }
            bar.inc(committed.block.order().len() as u64);
            if let Some((stage, share)) = clock.bottleneck() {
                let tps = bar.position() as f64 / ended.as_secs_f64();
                bar.set_message(format!("{:.0} k tx/s, busiest stage: {stage} ({:.0} %)", tps / 1e3, share * 100.0));
            }
            timed.keep(&engine, committed.block, committed.state_root);
        }
        Ok(())
    };
    // On a worker, so that no stage has to wake one to begin.
    let driven = workers.install(&mut drive);
    // A failed write is the cause of later failures, so it is reported first.
    writes.into_iter().try_for_each(WriteHandle::wait).context("writing blocks")?;
    driven?;
    // Waits until the workers have dropped the last blocks' results.
    workers.install(|| rayon::broadcast(|_| ()));

    timer.stop(&mut timed, &engine);
    drop(watch);
    timed.timeline = timeline;
    timed.open_loop = arrivals.as_ref().map(Arrivals::figures);
    timed.pinned = pinned.confirm(&workers)?;
    bar.finish_and_clear();
    if let Source::Planned(planner) = &source {
        timed.frames_tlp = (setup.config.order == phalanx::Order::Free).then(|| planner.tlp());
        if !planner.rejected().is_empty() {
            let n = planner.rejected().len();
            return Err(Usage(format!("{n} transactions have a higher gas limit than --block-gas")).into());
        }
    }
    timed.is_sampled = setup.config.memory != Memory::Resident;
    timed.check = check(setup.workload, setup.config.memory, &engine, txs, &timed);
    drop(source);
    drop(engine);
    timed.db_bytes = place.store.path().map_or(0, host::size_of);
    Ok(timed)
}

/// Figures of reads since earlier ones.
const fn since(
    ((reads, cache), (reads_before, cache_before)): ((ReadUse, CacheUse), (ReadUse, CacheUse)),
) -> (ReadUse, CacheUse) {
    (reads.since(&reads_before), cache.since(&cache_before))
}

/// Wall time, processor time and written bytes of a run.
pub(crate) struct Timer<'c> {
    clock: &'c StageClock,
    reads: Option<(ReadUse, CacheUse)>,
    disk: u64,
    watched: u64,
    read_ahead: u64,
    workers: Vec<(String, u64)>,
    ticks: Option<host::Ticks>,
    cpu: u64,
    start: Instant,
}

impl<'c> Timer<'c> {
    /// Starts now; `clock` watches the threads that work, on `engine`.
    pub(crate) fn start(clock: &'c StageClock, engine: &Engine) -> Self {
        let (reads, disk) = (engine.state().reads(), host::disk_written());
        let (watched, workers) = (clock.watched(), clock.workers());
        let (read_ahead, ticks) = (clock::read_ahead(), host::Ticks::now());
        Self { clock, reads, disk, watched, read_ahead, workers, ticks, cpu: clock::process(), start: Instant::now() }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records the measurement in `timed`. Time of threads that are neither watched nor read ahead counts as writing.
    pub(crate) fn stop(self, timed: &mut Timed, engine: &Engine) {
        timed.wall = self.start.elapsed();
        timed.reads = engine.state().reads().zip(self.reads).map(since);
        timed.cpu_ns = clock::process() - self.cpu;
        let (wall, own) = (timed.wall.as_secs_f64(), timed.cpu_ns as f64 / 1e9);
        let since = |(now, before): (host::Ticks, host::Ticks)| now.since(before, own, wall, host::cores());
        timed.disturbance = host::Ticks::now().zip(self.ticks).and_then(since);
        timed.stages_ns = self.clock.spent();
        timed.stages_blocks = self.clock.timed_blocks();
        // Watched threads of other engines may have ended meanwhile.
        let watched = self.clock.watched().saturating_sub(self.watched);
        timed.read_ahead_ns = clock::read_ahead().saturating_sub(self.read_ahead);
        timed.stages_ns[Stage::Persist as usize] = timed.cpu_ns.saturating_sub(watched + timed.read_ahead_ns);
        let workers = self.clock.workers().into_iter().zip(&self.workers);
        timed.workers_ns = workers.map(|((name, after), (_, before))| (name, after.saturating_sub(*before))).collect();
        timed.disk_written = host::disk_written().saturating_sub(self.disk);
    }
}

/// Source of the next block.
#[expect(clippy::large_enum_variant, reason = "there is one, on the stack")]
enum Source<'a, 't> {
    Fixed(core::slice::Iter<'a, Vec<u32>>),
    Planned(phalanx::Planner<'t>),
}

/// Opens an engine for `setup` on a store.
///
/// # Errors
/// If the store cannot be opened.
pub fn open(
    setup: &Setup<'_>,
    executor: Executor,
    (threads, take): (usize, Take),
    store: StoreConfig,
    observer: Arc<dyn phalanx::Observer>,
    pinned: &Pinned,
) -> anyhow::Result<Engine> {
    let mut cfg = CfgEnv::new_with_spec(setup.config.evm_spec);
    cfg.chain_id = setup.workload.load().chain_id;
    let builder = Engine::builder().with_store(store).with_cfg(cfg).with_threads(threads).with_executor(executor);
    let tuning = Tuning::new().with_fast_path(setup.config.fast_path).with_traces(setup.config.traces);
    let builder = builder.with_tuning(tuning).with_root(setup.config.root);
    let builder = builder.with_force_parallel(take == Take::All);
    pinned.place(builder.with_observer(observer)).build().context("opening the store")
}

/// Transactions with recovered senders; `None` if the run has no signatures.
fn recover(
    setup: &Setup<'_>,
    engine: &Engine,
    clock: &StageClock,
    bar: &Progress,
    ui: &Ui,
) -> anyhow::Result<Option<Vec<TxEnv>>> {
    if setup.signed.is_empty() {
        return Ok(None);
    }
    let mut txs = Vec::with_capacity(setup.signed.len());
    for chunk in setup.signed.chunks(RECOVER_CHUNK) {
        if ui.stopped() {
            break;
        }
        clock.enter(Stage::Recover);
        let recovered = engine.workers().install(|| recover_all(chunk));
        clock.leave(Stage::Recover);
        for tx in recovered {
            txs.push(tx.context("recovering a sender")?);
        }
        bar.set_message(format!("{} senders recovered", txs.len()));
    }
    Ok(Some(txs))
}

/// Accounts that are looked at in the end where each is a read of the disk or two.
const SAMPLED: usize = 1 << 14;

/// Compares the end of each transaction and the final state with the ledger's arithmetic.
pub(crate) fn check(
    workload: &dyn Workload,
    memory: Memory,
    engine: &Engine,
    txs: &[TxEnv],
    timed: &Timed,
) -> Result<(), String> {
    let ledger = workload.ledger();
    let mut ledger = if memory == Memory::Resident { ledger } else { ledger.with_sample(SAMPLED) };
    for block in &timed.blocks {
        for (tx, result) in block.order.iter().zip(&block.results) {
            let tx = &txs[*tx as usize];
            let noted = match result.ended {
                Ended::Succeeded => ledger.record(tx),
                Ended::Failed => ledger.record_failed(tx),
                Ended::Skipped => Ok(()),
            };
            noted.map_err(|error| error.to_string())?;
        }
    }
    workload.check(&ledger, timed.gas_paid(), engine.state()).map_err(|error| error.to_string())
}

impl Timed {
    /// A run that has not begun.
    pub(crate) const fn new(executor: String, threads: usize) -> Self {
        Self {
            executor,
            threads,
            blocks: Vec::new(),
            wall: Duration::ZERO,
            cpu_ns: 0,
            stages_ns: [0; Stage::ALL.len()],
            read_ahead_ns: 0,
            stages_blocks: 0,
            pool_ns: 0,
            latencies: Vec::new(),
            commits: Vec::new(),
            frames_tlp: None,
            critical_path: 0,
            escapes: 0,
            reexecutions: 0,
            parked: 0,
            waits: 0,
            replayed: 0,
            fallback_blocks: 0,
            disk_written: 0,
            reads: None,
            disturbance: None,
            pinned: Vec::new(),
            workers_ns: Vec::new(),
            db_bytes: 0,
            interrupted: false,
            cut: false,
            open_loop: None,
            timeline: None,
            input: 0,
            check: Ok(()),
            is_sampled: false,
        }
    }

    /// Keeps the trace and the statistics of a block.
    pub(crate) fn keep(&mut self, engine: &Engine, block: BlockInfo, state_root: B256) {
        let run = block.stats().run;
        self.critical_path += run.critical_path as u64;
        self.escapes += run.escapes as u64;
        self.reexecutions += run.reexecutions as u64;
        self.parked += run.parked as u64;
        self.waits += run.waits as u64;
        self.replayed += run.replayed as u64;
        self.fallback_blocks += u64::from(run.fallback);
        let (receipts_root, gas_used) = (block.receipts_root(), block.gas_used());
        let access_list = block.access_list().map(BlockAccessList::hash);
        let order = block.order().to_vec();
        let results = engine.workers().install(|| TxTrace::all(block.outcomes()));
        self.blocks.push(BlockTrace { order, results, receipts_root, state_root, gas_used, access_list });
    }

    /// Replaces the last block's order by indexes in the load, where it was executed under other numbers.
    pub(crate) fn name_last(&mut self, order: &[u32]) {
        if let Some(block) = self.blocks.last_mut() {
            block.order = order.to_vec();
        }
    }

    /// Transactions ÷ critical path over all blocks.
    pub(crate) fn dag_tlp(&self) -> Option<f64> {
        let txs: usize = self.blocks.iter().map(|block| block.order.len()).sum();
        (self.critical_path > 0).then(|| txs as f64 / self.critical_path as f64)
    }

    /// Ends a run before its load: what was executed is what was to be executed.
    fn cut(&mut self) {
        let executed: usize = self.blocks.iter().map(|block| block.order.len()).sum();
        (self.cut, self.input) = (executed < self.input, executed);
    }

    /// Quantiles of the block latencies.
    pub(crate) fn latency(&self) -> Quantiles {
        Quantiles::of(&self.latencies)
    }

    /// Nanoseconds per succeeded transaction and stage.
    pub(crate) fn stages(&self, succeeded: u64) -> Stages {
        let per_tx = |stage: Stage| self.stages_ns[stage as usize] as f64 / succeeded.max(1) as f64;
        Stages {
            recover: per_tx(Stage::Recover),
            pool: self.pool_ns as f64 / succeeded.max(1) as f64,
            analyse: per_tx(Stage::Analyse) + per_tx(Stage::Intern),
            frame: per_tx(Stage::Frame),
            schedule: per_tx(Stage::Graph) + per_tx(Stage::Schedule),
            execute: per_tx(Stage::Execute),
            seal: per_tx(Stage::Seal),
            merkle: per_tx(Stage::Merkle),
            persist: per_tx(Stage::Persist),
            read: self.read_ahead_ns as f64 / succeeded.max(1) as f64,
        }
    }

    /// Succeeded transactions of each block.
    pub(crate) fn succeeded(&self) -> Vec<u64> {
        let succeeded =
            |block: &BlockTrace| block.results.iter().filter(|result| result.ended == Ended::Succeeded).count() as u64;
        self.blocks.iter().map(succeeded).collect()
    }

    /// Share of the wall time that each worker was busy.
    pub(crate) fn balance(&self) -> Vec<WorkerShare> {
        let share = |(worker, ns): &(String, u64)| {
            let cpu_seconds = *ns as f64 / 1e9;
            WorkerShare { worker: worker.clone(), cpu_seconds, busy: cpu_seconds / self.wall.as_secs_f64().max(1e-9) }
        };
        self.workers_ns.iter().map(share).collect()
    }

    /// Succeeded transactions per second over time, in at most `points` intervals.
    pub(crate) fn series(&self, points: usize) -> Vec<(f64, f64)> {
        let per_point = self.blocks.len().div_ceil(points.max(1)).max(1);
        let mut series = Vec::new();
        let mut before = 0.0;
        for (blocks, commits) in self.blocks.chunks(per_point).zip(self.commits.chunks(per_point)) {
            let results = blocks.iter().flat_map(|block| &block.results);
            let succeeded = results.filter(|result| result.ended == Ended::Succeeded).count();
            let end = commits.last().copied().unwrap_or(before);
            if end > before {
                series.push((end, succeeded as f64 / (end - before)));
                before = end;
            }
        }
        series
    }
}
