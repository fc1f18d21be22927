//! A block being built.

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

/// What is lent by the engine.
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
    /// What an execution is given.
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

/// A transaction's second life.
#[derive(Debug, Default)]
struct Again {
    departures: u8,
    /// What it touches on the newer state; empty if its first prediction was not wrong.
    seen: Batch,
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What the block holds; gas is gas used.
    pub used: Budget,
    /// Candidates that wait for their batch: none, unless it was time to stop.
    pub waiting: usize,
    /// Candidates that were left out.
    pub dropped: usize,
}

/// A block being built, which gets better for as long as it is let alone: see [`super::Builder`]. It runs on the DAG, also
/// where the engine's executor is Block-STM, because its transactions are framed; in order, where that is sequential.
///
/// Dropping it loses what it was offered; [`Self::cancel`] gives that back.
#[derive(Debug)]
pub struct BuildJob<'e> {
    lent: Lent<'e>,
    dag: &'e mut DagExecutor,
    stm: &'e mut StmExecutor,
    paralyze: &'e mut ParaLyze,
    target: Target,
    env: BlockEnv,
    open: Open<'e>,
    /// Of the cells of `open`.
    interner: Interner<StateKey>,
    /// The state before the first transaction, and what was done to get there.
    base: Option<Overlay<'e>>,
    first: Footprint,
    /// What each transaction did, if the block is to have an access list.
    record: Option<Record>,
    /// The block without transactions.
    empty: Closed,
    /// Limits of the block, and of what its builder puts into it.
    rules: Budget,
    budget: Budget,
    used: Budget,
    intake: Intake,
    forced: VecDeque<u32>,
    /// Ahead of all that is framed, in order: candidates that left their batches.
    returned: VecDeque<u32>,
    again: HashMap<u32, Again>,
    /// The last nonce of a sender that found no room.
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
        // If this works now, there is a valid block whatever happens.
        let run = job.run_so_far(false).map_err(BlockError::Engine)?;
        job.empty = job.close(run)?;
        Ok(job)
    }

    /// Takes over what was prepared, and what must come first.
    pub(super) fn begin(&mut self, prepared: Intake, forced: impl IntoIterator<Item = Candidate>) {
        self.intake = prepared;
        self.intake.flush();
        self.forced = forced.into_iter().map(|candidate| self.intake.add(candidate)).collect();
    }

    /// The environment that transactions run in.
    pub const fn env(&self) -> &BlockEnv {
        &self.env
    }

    /// How far the job has come.
    pub fn progress(&self) -> Progress {
        let waiting = self.forced.len() + self.returned.len() + self.intake.ready();
        Progress { used: self.used, waiting, dropped: self.dropped.len() }
    }

    /// Offers candidates and executes batch after batch, until nothing waits or it is time to stop.
    ///
    /// `stop` is asked by every worker, before every few transactions; what runs at that moment runs to its end. What has
    /// not run waits, for another call.
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

    /// Analyses and frames candidates on the state that the block has left so far. Nothing is executed.
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

    /// Executes one batch; `false` if there is nothing to do, or it is time to stop. A batch is at most as large as the
    /// block is already, and so never the larger part of what a moment's stop can undo.
    ///
    /// # Errors
    /// As [`Self::extend`].
    pub fn step(&mut self, stop: &(dyn Fn() -> bool + Sync)) -> Result<bool, Error> {
        if self.failed || stop() {
            return Ok(false);
        }
        let (batch, forced) = observe(self.lent.observer, Stage::Frame, || {
            // It may be that none of the forced ones has room.
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

    /// The best block so far, at least the empty one. O(block); the job goes on.
    pub fn best(&mut self) -> Built {
        let run = self.run_so_far(false);
        self.built(run)
    }

    /// The best block so far, and the end of the job.
    pub fn seal(mut self) -> Built {
        let run = self.run_so_far(true);
        self.built(run)
    }

    /// Ends the job for nothing: all candidates, as they were offered.
    pub fn cancel(self) -> Vec<Candidate> {
        self.intake.into_candidates()
    }
}
