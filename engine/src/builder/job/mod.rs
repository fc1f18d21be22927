//! Job: one open block that grows batch by batch.

mod batch;
mod seal;

use super::{
    Budget, Built, Reason, Target,
    budget::GasCounts,
    intake::{Intake, Room},
    peek::Peek,
};
use crate::{
    bal::{Footprint, Record},
    engine::{Engine, protocol},
    exec::{
        cells::Cells,
        context::{BuildLimits, ExecContext, ExecResources},
        dag::DagExecutor,
        overlay::Overlay,
        session::BlockSession,
    },
    model::{BlockError, CandidateTx, Error, GasRules, Stage, Txs, observe},
    plan::requeue::Requeue,
};
use batch::MIN_BATCH;
use phalanx_access::Interner;
use phalanx_paralyze::{ParaLyze, StateKey};
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::{Address, map::HashMap},
};
use seal::Closed;
use std::collections::VecDeque;

/// The context of a batch, or of what has run so far.
fn context<'m>(
    resources: ExecResources<'m>,
    env: &'m BlockEnv,
    candidates: &'m [CandidateTx],
    limits: Option<BuildLimits<'m>>,
    record: Option<&'m Record>,
) -> ExecContext<'m> {
    ExecContext { limits, record, ..ExecContext::new(resources, env, Txs::Offered(candidates)) }
}

/// Progress of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    resources: ExecResources<'e>,
    dag: &'e mut DagExecutor,
    paralyze: &'e mut ParaLyze,
    target: Target,
    env: BlockEnv,
    session: BlockSession<'e>,
    /// Ids of the cells of `session`.
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
    gas_counts: GasCounts,
    gas_rules: GasRules,
    used: Budget,
    /// Gas that dry runs may still use for transactions that do not come into the block in the end.
    dry_gas: u64,
    intake: Intake,
    forced: VecDeque<u32>,
    /// Candidates that escaped from their batches, in order; they come before all framed ones.
    requeue: Requeue,
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
        (budget, gas_counts): (Budget, GasCounts),
    ) -> Result<Self, BlockError> {
        let rules = target.limits(engine, &env);
        let salt = engine.salt;
        let (resources, executors) = engine.split();
        let is_wanted = match &target {
            Target::Plain(_) => resources.access_lists,
            Target::Whole(_) => resources.wants_access_list(),
        };
        let record = is_wanted.then(Record::default);
        let (base, first) = match &target {
            Target::Plain(_) => (None, Footprint::default()),
            Target::Whole(template) => {
                let before = || protocol::before(resources, &env, &template.payload());
                let (base, first) = observe(resources.observer, Stage::Execute, before)?;
                (Some(base), first)
            }
        };
        let dag = &mut executors.dag;
        let session = BlockSession::new(resources.state, base.clone(), dag.take_cells());
        let mut job = Self {
            resources,
            dag,
            paralyze,
            target,
            env,
            session,
            interner: Interner::new(salt),
            base,
            first,
            record,
            empty: Closed::default(),
            rules,
            budget: rules.min(budget),
            gas_counts,
            gas_rules: GasRules::of(resources.cfg),
            used: Budget::NOTHING,
            dry_gas: rules.min(budget).gas,
            intake: Intake::new(salt),
            forced: VecDeque::new(),
            requeue: Requeue::default(),
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
    pub(super) fn begin(&mut self, prepared: Intake, forced: impl IntoIterator<Item = CandidateTx>) {
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
        let waiting =
            self.forced.len() + self.requeue.waiting.len() + self.intake.ready() + self.intake.offered().len();
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
        candidates: impl IntoIterator<Item = CandidateTx>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Progress, Error> {
        self.offer(candidates);
        while self.step(stop)? {}
        Ok(self.progress())
    }

    /// Takes candidates for later batches. They are analysed and framed, on the block's state at that time, when and as far
    /// as the block has room for them: work for a candidate begins when its gas limit fits.
    pub fn offer(&mut self, candidates: impl IntoIterator<Item = CandidateTx>) {
        self.intake.offer(candidates);
        if self.intake.ready() == 0 {
            self.read();
        }
    }

    /// Analyses and frames offered candidates as far as they fit; drops those that never will. Their dry runs use at most the
    /// gas that is left, and over the whole job as much again for transactions that do not stay.
    fn read(&mut self) {
        let room = self.budget.minus(self.used);
        while let Some(first) = self.intake.offered().front()
            && let Some(reason) = room.lacks(Budget::of(self.gas_rules, &*first.tx))
            && let Some(index) = self.intake.turn_away()
        {
            let TxEnv { caller, nonce, .. } = self.intake.tx(index);
            self.behind.insert(*caller, *nonce);
            self.dropped.push((index, reason));
        }
        if self.intake.fitting(room.gas) == 0 {
            return;
        }
        let Self { resources, paralyze, env, session, interner, intake, requeue, dry_gas, .. } = self;
        let room = Room { gas: room.gas, dry_gas: room.gas.min(*dry_gas), requeued: &requeue.waiting };
        let ran = observe(resources.observer, Stage::Analyse, || {
            let untouched = session.order().is_empty();
            let (ground, cells) = session.look();
            let peek = Peek { state: resources.state, ground, keys: interner, cells };
            resources.workers.install(|| {
                if untouched {
                    intake.analyse(paralyze, &resources.state, env, room)
                } else {
                    intake.analyse(paralyze, &peek, env, room)
                }
            })
        });
        *dry_gas = dry_gas.saturating_sub(ran);
        observe(resources.observer, Stage::Frame, || {
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
        let (batch, forced) = loop {
            if self.intake.ready() + self.requeue.waiting.len() < MIN_BATCH {
                self.read();
            }
            let observer = self.resources.observer;
            let (batch, forced) = observe(observer, Stage::Frame, || {
                // Possibly no forced candidate has room.
                let forced = if self.forced.is_empty() { Vec::new() } else { self.cut(true) };
                if forced.is_empty() { (self.cut(false), false) } else { (forced, true) }
            });
            if !batch.is_empty() {
                break (batch, forced);
            }
            if self.intake.offered().is_empty() {
                return Ok(false);
            }
            // All that was ready was dropped: there is room to look at others.
        };
        let ran = self.run(batch, forced, stop);
        if ran.is_err() {
            self.failed = true;
            self.session = BlockSession::new(self.resources.state, self.base.clone(), Cells::default());
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
    pub fn finish(mut self) -> Built {
        let run = self.run_so_far(true);
        self.built(run)
    }

    /// Ends the job without a block. Returns all candidates, as they were offered.
    pub fn cancel(self) -> Vec<CandidateTx> {
        self.intake.into_candidates()
    }
}
