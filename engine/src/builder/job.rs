//! Job: one open block that grows batch by batch.

mod batch;
mod seal;

use super::{Budget, Built, Candidate, Reason, Target, intake::Intake, peek::Peek};
use crate::{
    BlockError, Engine, Error, Executor, Stage, State,
    block_access_list::{Footprint, Record},
    cells::Cells,
    chain::ChainSpec,
    dag::{DagExecutor, Machine, Making},
    observer::{Observer, observe},
    open::Open,
    overlay::Overlay,
    stm::StmExecutor,
    txs::Txs,
    whole,
};
use phalanx_access::Interner;
use phalanx_paralyze::{Batch, ParaLyze, StateKey, VmConfig};
use phalanx_parascheduler::Workers;
use revm::{
    context::BlockEnv,
    primitives::{Address, map::HashMap},
};
use seal::Closed;
use std::collections::VecDeque;

/// Resources that the engine lends to a job.
#[derive(Clone, Copy, Debug)]
struct Lent<'e> {
    state: &'e State,
    workers: &'e Workers,
    cfg: &'e VmConfig,
    chain: &'e ChainSpec,
    observer: &'e (dyn Observer + 'static),
    executor: Executor,
    schedule_seed: Option<u64>,
}

impl Lent<'_> {
    /// Parameters of an execution.
    const fn machine<'m>(
        &'m self,
        env: &'m BlockEnv,
        candidates: &'m [Candidate],
        making: Option<Making<'m>>,
        record: Option<&'m Record>,
    ) -> Machine<'m> {
        let Self { state, workers, cfg, observer, schedule_seed, .. } = *self;
        let txs = Txs::Offered(candidates);
        Machine { state, base: None, workers, cfg, env, txs, gas: None, making, observer, schedule_seed, record }
    }
}

/// Transactions that run again.
#[derive(Debug, Default)]
struct Again {
    departures: u8,
    /// Access sets on the newer state; empty where the first prediction was not wrong.
    seen: Batch,
}

/// Progress of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Use of the block's budget; gas is gas used.
    pub used: Budget,
    /// Number of candidates that wait for a batch: zero, unless the job was stopped.
    pub waiting: usize,
    /// Number of dropped candidates.
    pub dropped: usize,
}

/// A block under construction, which improves until it is stopped: see [`super::Builder`]. It runs on the DAG, also
/// if the engine's executor is Block-STM, because its transactions are framed; serially if that is sequential.
///
/// Dropping a job loses its candidates; [`Self::cancel`] returns them.
#[derive(Debug)]
pub struct BuildJob<'e> {
    lent: Lent<'e>,
    dag: &'e mut DagExecutor,
    stm: &'e mut StmExecutor,
    paralyze: &'e mut ParaLyze,
    target: Target,
    env: BlockEnv,
    open: Open<'e>,
    /// Ids of the cells of `open`.
    interner: Interner<StateKey>,
    /// State before the first transaction, and the changes that led to it.
    base: Option<Overlay<'e>>,
    first: Footprint,
    /// Accesses of each transaction, if the block is to have an access list.
    record: Option<Record>,
    /// The block without transactions.
    empty: Closed,
    /// Limits of the block, and of its builder.
    rules: Budget,
    budget: Budget,
    used: Budget,
    intake: Intake,
    forced: VecDeque<u32>,
    /// Candidates that escaped from their batches, in order; they come before all framed ones.
    returned: VecDeque<u32>,
    again: HashMap<u32, Again>,
    /// Last nonce of each sender that found no room.
    behind: HashMap<Address, u64>,
    dropped: Vec<(u32, Reason)>,
    failed: bool,
}

impl<'e> BuildJob<'e> {
    pub(super) fn new(
        engine: &'e mut Engine,
        paralyze: &'e mut ParaLyze,
        target: Target,
        env: BlockEnv,
        budget: Budget,
    ) -> Result<Self, BlockError> {
        let rules = target.limits(engine, &env);
        let salt = engine.salt;
        let Engine { state, workers, cfg, observer, dag, stm, executor, chain, schedule_seed, access_lists, .. } =
            engine;
        let (state, observer): (&'e State, &'e (dyn Observer + 'static)) = (state, &**observer);
        let (executor, schedule_seed) = (*executor, *schedule_seed);
        let record = access_lists.then(Record::default);
        let (base, first) = match &target {
            Target::Plain(_) => (None, Footprint::default()),
            Target::Whole(template) => {
                let before = || whole::before(chain, state, cfg, &env, &template.payload());
                let (base, first) = observe(observer, Stage::Execute, before)?;
                (Some(base), first)
            }
        };
        let lent = Lent { state, workers, cfg, chain, observer, executor, schedule_seed };
        let open = Open::new(state, base.clone(), dag.lend_cells());
        let mut job = Self {
            lent,
            dag,
            stm,
            paralyze,
            target,
            env,
            open,
            interner: Interner::new(salt),
            base,
            first,
            record,
            empty: Closed::default(),
            rules,
            budget: rules.min(budget),
            used: Budget::NOTHING,
            intake: Intake::new(salt),
            forced: VecDeque::new(),
            returned: VecDeque::new(),
            again: HashMap::default(),
            behind: HashMap::default(),
            dropped: Vec::new(),
            failed: false,
        };
        // If this succeeds, there is a valid block in any case.
        let run = job.run_so_far(false).map_err(BlockError::Engine)?;
        job.empty = job.close(run)?;
        Ok(job)
    }

    /// Takes the prepared and the forced candidates.
    pub(super) fn begin(&mut self, prepared: Intake, forced: impl IntoIterator<Item = Candidate>) {
        self.intake = prepared;
        self.intake.flush();
        self.forced = forced.into_iter().map(|candidate| self.intake.add(candidate)).collect();
    }

    /// Environment that transactions run in.
    pub const fn env(&self) -> &BlockEnv {
        &self.env
    }

    /// Progress of the job.
    pub fn progress(&self) -> Progress {
        let waiting = self.forced.len() + self.returned.len() + self.intake.ready();
        Progress { used: self.used, waiting, dropped: self.dropped.len() }
    }

    /// Offers candidates and executes batch after batch, until none is left or `stop` returns true.
    ///
    /// Every worker calls `stop` before every few transactions; a running transaction finishes. Transactions that did
    /// not run wait for another call.
    ///
    /// # Errors
    /// If the engine failed. Then the block is the empty one, and nothing more is executed.
    pub fn extend(
        &mut self,
        candidates: impl IntoIterator<Item = Candidate>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Progress, Error> {
        self.offer(candidates);
        while self.step(stop)? {}
        Ok(self.progress())
    }

    /// Analyses and frames candidates on the block's current state. Nothing is executed.
    pub fn offer(&mut self, candidates: impl IntoIterator<Item = Candidate>) {
        let candidates = candidates.into_iter().collect();
        let Self { lent, paralyze, env, open, interner, intake, .. } = self;
        observe(lent.observer, Stage::Analyse, || {
            let untouched = open.order().is_empty();
            let (ground, cells) = open.look();
            let peek = Peek { state: lent.state, ground, keys: interner, cells };
            lent.workers.install(|| {
                if untouched {
                    intake.analyse(paralyze, lent.state, env, candidates);
                } else {
                    intake.analyse(paralyze, &peek, env, candidates);
                }
            });
        });
        observe(lent.observer, Stage::Frame, || {
            intake.frame();
            intake.flush();
        });
    }

    /// Executes one batch. Returns false if no candidate is left, or the job was stopped. A batch is at most as large
    /// as the block already is: a stop undoes at most the smaller part of it.
    ///
    /// # Errors
    /// As [`Self::extend`].
    pub fn step(&mut self, stop: &(dyn Fn() -> bool + Sync)) -> Result<bool, Error> {
        if self.failed || stop() {
            return Ok(false);
        }
        let (batch, forced) = observe(self.lent.observer, Stage::Frame, || {
            // Possibly no forced candidate has room.
            let forced = if self.forced.is_empty() { Vec::new() } else { self.cut(true) };
            if forced.is_empty() { (self.cut(false), false) } else { (forced, true) }
        });
        if batch.is_empty() {
            return Ok(false);
        }
        let ran = self.run(batch, forced, stop);
        if ran.is_err() {
            self.failed = true;
            self.open = Open::new(self.lent.state, self.base.clone(), Cells::default());
            self.used = Budget::NOTHING;
        }
        ran.map(|()| true)
    }

    /// The best block so far, at least the empty one. O(block); the job continues.
    pub fn best(&mut self) -> Built {
        let run = self.run_so_far(false);
        self.built(run)
    }

    /// Ends the job and returns the best block.
    pub fn seal(mut self) -> Built {
        let run = self.run_so_far(true);
        self.built(run)
    }

    /// Ends the job without a block. Returns all candidates, as they were offered.
    pub fn cancel(self) -> Vec<Candidate> {
        self.intake.into_candidates()
    }
}
