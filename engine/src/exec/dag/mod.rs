//! Parallel execution of transactions on their DAG: what one wave of worker threads does.
//!
//! The executor is given a wave and returns it, with what each worker has left; the session above it decides what follows.

pub(crate) mod rewards;
pub(crate) mod slots;
pub(crate) mod view;
mod worker;

use crate::{
    exec::{
        cells::{CellMemory, Cells},
        context::{ExecContext, ExecOptions},
        fast_path::FastPath,
        outcomes::{self, Made},
        policy::Width,
    },
    model::{Error, Outcome, Stage, observe_fork},
    plan::graph::{Graph, GraphBuilder},
};
use alloy_primitives::U256;
use phalanx_access::{AccessSets, KeyId};
use phalanx_memory::{BufferPool, prefetch, prefetch_all, prefetch_slice};
use phalanx_paralyze::VmConfig;
use phalanx_parascheduler::{Job, Lookahead, Report, TxIndex, Verdict};
use revm::context::TxEnv;
use slots::{Filled, Slots};
use std::sync::Arc;
use view::{Change, Shared};
use worker::{Ran, Worker};

/// A builder's worker looks whether to stop before its first transaction and before every so many.
const POLLED: usize = 16;

/// How far ahead of a transaction that is announced the next ones' numbers and sets are asked for: some cache lines.
const AHEAD: usize = 32;

/// Keys of one transaction that are asked for ahead. Many may announce one and the same that waits for them all, so that what
/// it costs must not depend on how much that one declares.
const MOST_KEYS: usize = 32;

/// Likewise, bytes of calldata.
const MOST_DATA: usize = 512;

/// The parallel executor: one EVM per worker, and buffers that are reused from block to block.
#[derive(Debug)]
pub(crate) struct DagExecutor {
    locals: Vec<Local>,
    graphs: GraphBuilder,
    /// Memory of the last block's cells.
    cells: BufferPool<CellMemory>,
    /// Of transactions that run in order.
    fast_path: Option<FastPath>,
    options: ExecOptions,
}

#[derive(Debug)]
#[repr(align(128))]
struct Local {
    worker: Worker,
    /// What transactions published, one after the other, and where each ends; in a given order alone.
    log: Vec<Change>,
    ends: Vec<(TxIndex, usize)>,
    /// Transactions whose outcomes it has made.
    made: Made,
    rewards: U256,
    /// Used by the transactions that ran, and at most by those that escaped.
    gas: u64,
    /// Transactions that were not started, because of `gas` or because it is time to stop.
    unstarted: Vec<TxIndex>,
    /// Transactions that came here, and whether it was time to stop when it was last asked.
    seen: usize,
    stopped: bool,
    failed: Option<(TxIndex, String)>,
}

/// What the workers have left when a wave is over.
pub(crate) struct Wave {
    /// Of every transaction but those that escaped or were withdrawn.
    pub(crate) outcomes: Filled<Outcome>,
    /// Who made them, where that is worth knowing.
    pub(crate) made: Vec<Made>,
    /// What each published, if the order is given and not all completed.
    pub(crate) logged: Vec<Vec<Change>>,
    pub(crate) rewards: U256,
    /// `escaped` names those that were not started too.
    pub(crate) report: Report,
    /// Ascending.
    pub(crate) unstarted: Vec<TxIndex>,
    pub(crate) critical_path: usize,
    pub(crate) replayed: usize,
}

impl DagExecutor {
    pub(crate) fn new(cfg: &VmConfig, threads: usize, options: ExecOptions) -> Self {
        let local = || Local {
            worker: Worker::new(cfg, options.fast_path, options.traces),
            log: Vec::new(),
            ends: Vec::new(),
            made: Made::default(),
            rewards: U256::ZERO,
            gas: 0,
            unstarted: Vec::new(),
            seen: 0,
            stopped: false,
            failed: None,
        };
        let locals = (0..threads).map(|_| local()).collect();
        let fast_path = FastPath::new(cfg, options.fast_path);
        Self { locals, graphs: GraphBuilder::default(), cells: BufferPool::new(1), fast_path, options }
    }

    /// Drops what workers recorded of calls.
    pub(crate) fn forget(&mut self) {
        self.locals.iter_mut().for_each(|local| local.worker.forget());
    }

    /// Takes cells without keys, in the memory of the last block's.
    pub(crate) fn take_cells(&self) -> Cells {
        self.cells.take().into()
    }

    /// Builds the graph of a wave that comes without one.
    pub(crate) fn order(&mut self, sets: &AccessSets<KeyId>, n_keys: usize, beneficiary: Option<KeyId>) -> Graph {
        self.graphs.build(sets, n_keys, beneficiary)
    }

    /// For transactions that run in order.
    pub(crate) fn fast_path(&self, ctx: &ExecContext<'_>) -> Option<&FastPath> {
        ctx.permitted(&self.fast_path)
    }

    /// Runs the transactions of `graph`, `order` their names. What they changed is in the cells of `shared`, which is given
    /// back.
    pub(crate) fn wave(
        &mut self,
        ctx: &ExecContext<'_>,
        order: &[u32],
        given: bool,
        shared: Shared,
        graph: Graph,
    ) -> Result<(Wave, Shared), Error> {
        let ExecContext { workers, env, .. } = *ctx;
        let Graph { mut dag, critical_path, .. } = graph;
        let shared = Arc::new(shared);
        for local in &mut self.locals {
            local.worker.enter(Arc::clone(&shared), env, ctx.record.is_some());
            local.rewards = U256::ZERO;
            (local.gas, local.seen, local.stopped) = (0, 0, false);
            // A panic may have left something here.
            local.log.clear();
            local.ends.clear();
            local.made.clear();
            local.unstarted.clear();
            local.failed = None;
        }
        let outcomes = Slots::empty(order.len());
        let one = workers.threads() > 1
            && Width::of(&mut dag, critical_path, |tx| &ctx.txs[order[tx.index()] as usize]) == Width::One;
        let seats = if one && !self.options.force_parallel { 1 } else { self.locals.len() };
        let job = WaveJob { ctx, order, given, shared: &shared, outcomes: &outcomes };
        let report = observe_fork(ctx.observer, Stage::Execute, order.len(), || match self.options.schedule_seed {
            Some(seed) => workers.run_shuffled(&dag, &mut self.locals, &job, seed),
            None => workers.run(&dag, &mut self.locals[..seats], &job),
        });
        let mut wave = self.gather(outcomes, order.len(), given, critical_path, report)?;
        if !outcomes::worth_noting(order.len(), seats) {
            wave.made.clear();
        }
        // Every worker has let go of the block, so it is ours alone again.
        Ok((wave, Arc::into_inner(shared).expect("the workers have left the block")))
    }

    /// Collects what the workers have, and makes them leave the block.
    fn gather(
        &mut self,
        outcomes: Slots<Outcome>,
        txs: usize,
        given: bool,
        critical_path: usize,
        report: Report,
    ) -> Result<Wave, Error> {
        let keep_log = given && !report.is_clean();
        let made: Vec<Made> = self.locals.iter_mut().filter_map(|local| local.made.take()).collect();
        #[expect(unsafe_code, reason = "places that are filled by whoever runs a transaction")]
        // SAFETY: each worker notes the places that it fills, and no transaction has run twice.
        let outcomes = unsafe { outcomes.take(made.iter().map(Made::positions)) };
        let mut wave = Wave {
            outcomes,
            made,
            logged: vec![Vec::new(); if keep_log { txs } else { 0 }],
            rewards: U256::ZERO,
            report,
            unstarted: Vec::new(),
            critical_path,
            replayed: 0,
        };
        let mut failed = None;
        for local in &mut self.locals {
            wave.replayed += local.worker.leave();
            wave.rewards += local.rewards;
            wave.unstarted.append(&mut local.unstarted);
            if keep_log {
                let mut start = 0;
                for (tx, end) in &local.ends {
                    wave.logged[tx.index()] = local.log[start..*end].to_vec();
                    start = *end;
                }
            }
            failed = failed.or(local.failed.take());
        }
        wave.unstarted.sort_unstable();
        match failed {
            Some((tx, reason)) => Err(Error::Evm { index: tx.index(), reason }),
            None => Ok(wave),
        }
    }
}

/// What the workers do in a wave.
struct WaveJob<'w> {
    ctx: &'w ExecContext<'w>,
    order: &'w [u32],
    given: bool,
    shared: &'w Shared,
    outcomes: &'w Slots<Outcome>,
}

impl<'w> WaveJob<'w> {
    fn tx(&self, tx: TxIndex) -> &'w TxEnv {
        &self.ctx.txs[self.order[tx.index()] as usize]
    }
}

impl Job<Local> for WaveJob<'_> {
    #[expect(unsafe_code, reason = "each transaction has a place of its own")]
    fn run(&self, local: &mut Local, tx: TxIndex) -> Verdict {
        let Self { ctx, order, given, .. } = *self;
        // More than the block may use means that it is invalid, or the wave is wrong. What is left runs in order.
        if ctx.gas.is_some_and(|limit| local.gas > limit) || local.stops(ctx) {
            local.unstarted.push(tx);
            return Verdict::Escaped;
        }
        let run = self.tx(tx);
        match local.worker.run(tx.index(), run, |result| ctx.refuses(result)) {
            Ran::Final(outcome, reward) => {
                if let Some((record, footprint)) = ctx.record.zip(local.worker.take_footprint()) {
                    record.put(order[tx.index()], footprint);
                }
                if given {
                    if outcome.result().is_some() {
                        local.log.extend_from_slice(local.worker.published());
                    }
                    local.ends.push((tx, local.log.len()));
                }
                local.gas = local.gas.saturating_add(outcome.gas_used());
                local.rewards += reward;
                // SAFETY: a wave runs every transaction once at most, so that nobody else has its place.
                unsafe { self.outcomes.put(tx.index(), outcome) };
                local.made.note(tx.0);
                Verdict::Done
            }
            Ran::Escaped => {
                local.gas = local.gas.saturating_add(run.gas_limit);
                Verdict::Escaped
            }
            Ran::Failed(reason) => {
                local.failed = Some((tx, reason));
                Verdict::Escaped
            }
        }
    }

    /// Framing has shuffled transactions and keys, so that nearly each of their cache lines is a miss.
    #[inline]
    fn prefetch(&self, _: &mut Local, tx: TxIndex, lookahead: Lookahead) {
        let Shared { sets, preimages, .. } = self.shared;
        let set = || {
            let set = sets.get(tx.index());
            &set[..set.len().min(MOST_KEYS)]
        };
        match lookahead {
            Lookahead::Distant => {
                prefetch(&self.order[tx.index()]);
                sets.prefetch_end(tx.index());
                preimages.prefetch_end(tx.index());
            }
            Lookahead::Following => {
                prefetch_all(self.tx(tx));
                prefetch_slice(set());
            }
            Lookahead::Far => {
                // What names transactions and keys was made by another core: all that is read here would be waited for.
                self.order.get(tx.index() + AHEAD).into_iter().for_each(prefetch);
                sets.prefetch_ahead(tx.index(), AHEAD);
                prefetch_all(self.tx(tx));
                self.outcomes.prefetch(tx.index());
                for (id, access) in set() {
                    prefetch(&self.shared.keys[id.index()]);
                    self.shared.cells.prefetch(*id, *access);
                }
            }
            Lookahead::Near => {
                let data = &self.tx(tx).data;
                prefetch_slice(&data[..data.len().min(MOST_DATA)]);
                preimages.prefetch(tx.index());
            }
        }
    }
}

impl Local {
    /// Whether this worker is to start no further transaction of a block in the making.
    fn stops(&mut self, ctx: &ExecContext<'_>) -> bool {
        if ctx.limits.is_none() {
            return false;
        }
        self.stopped = self.stopped || (self.seen.is_multiple_of(POLLED) && ctx.stops());
        self.seen += 1;
        self.stopped
    }
}
