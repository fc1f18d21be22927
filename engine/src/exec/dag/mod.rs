//! Parallel execution of transactions on their DAG: the work of one wave.
//!
//! The executor receives a wave and returns it with the results of each worker; the session above it decides the next
//! step.

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
use phalanx_memory::{BufferPool, prefetch, prefetch_ahead, prefetch_all, prefetch_slice};
use phalanx_paralyze::VmConfig;
use phalanx_parascheduler::{Job, Lookahead, Report, TxIndex, Verdict};
use revm::context::TxEnv;
use slots::{Filled, Slots};
use std::sync::Arc;
use view::{Change, Shared};
use worker::{Ran, Worker};

/// Number of transactions between two polls of a builder's stop condition; a worker also polls before its first.
const POLLED: usize = 16;

/// Distance at which a worker that runs its sources in order prefetches their numbers and sets, in transactions: some
/// cache lines of either.
const SOURCE_LOOKAHEAD: usize = 32;

/// Maximum number of keys of one transaction that are prefetched. Many transactions may announce one that depends on
/// all of them, so the cost must not depend on how much it declares.
const MOST_KEYS: usize = 32;

/// Maximum number of bytes of calldata that are prefetched, for the same reason.
const MOST_DATA: usize = 512;

/// The parallel executor: one EVM per worker, and buffers that are reused from block to block.
#[derive(Debug)]
pub(crate) struct DagExecutor {
    locals: Vec<Local>,
    graphs: GraphBuilder,
    /// Memory of the last block's cells.
    cells: BufferPool<CellMemory>,
    /// Fast path of serial transactions.
    fast_path: Option<FastPath>,
    options: ExecOptions,
}

#[derive(Debug)]
#[repr(align(128))]
struct Local {
    worker: Worker,
    /// Changes that transactions published, one after the other, with the end of each; in a given order alone.
    log: Vec<Change>,
    ends: Vec<(TxIndex, usize)>,
    /// Transactions whose outcomes this worker has made.
    made: Made,
    rewards: U256,
    /// Gas used by the executed transactions, at most by the escaped ones.
    gas: u64,
    /// Transactions that were not started, because of `gas` or of the stop condition.
    unstarted: Vec<TxIndex>,
    /// Number of transactions that came to this worker, and the last result of the stop condition.
    seen: usize,
    stopped: bool,
    failed: Option<(TxIndex, String)>,
}

/// Results of the workers after a wave.
pub(crate) struct Wave {
    /// Outcomes of all transactions but escaped and withdrawn ones.
    pub(crate) outcomes: Filled<Outcome>,
    /// Makers of the outcomes, where they are worth recording.
    pub(crate) made: Vec<Made>,
    /// Changes of each transaction, if the order is given and not all completed.
    pub(crate) logged: Vec<Vec<Change>>,
    pub(crate) rewards: U256,
    /// Report of the scheduler. `escaped` includes transactions that were not started.
    pub(crate) report: Report,
    /// Transactions that were not started, ascending.
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

    /// Drops the traces of all workers.
    pub(crate) fn forget(&mut self) {
        self.locals.iter_mut().for_each(|local| local.worker.forget());
    }

    /// Takes empty cells in the memory of the last block's.
    pub(crate) fn take_cells(&self) -> Cells {
        self.cells.take().into()
    }

    /// Builds the graph of a wave without one.
    pub(crate) fn order(&mut self, sets: &AccessSets<KeyId>, n_keys: usize, beneficiary: Option<KeyId>) -> Graph {
        self.graphs.build(sets, n_keys, beneficiary)
    }

    /// Fast path for serial transactions.
    pub(crate) const fn fast_path(&self) -> Option<&FastPath> {
        self.fast_path.as_ref()
    }

    /// Runs the transactions of `graph`; `order` holds their numbers. Their changes are in the cells of `shared`, which
    /// is returned.
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
            // A panic may have left changes here.
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
        // Every worker has left the block, so it is unshared again.
        Ok((wave, Arc::into_inner(shared).expect("the workers have left the block")))
    }

    /// Collects the results of the workers, and makes them leave the block.
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
        #[expect(unsafe_code, reason = "places that the workers fill")]
        // SAFETY: each worker records the places that it fills, and no transaction has run twice.
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

/// Work of a worker in a wave.
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
        // More gas than the block may use means that it is invalid, or the wave is wrong. The rest runs serially.
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
                local.gas = local.gas.saturating_add(ctx.gas_rules.used(&outcome).execution);
                local.rewards += reward;
                // SAFETY: a wave runs every transaction at most once, so its place belongs to this worker.
                unsafe { self.outcomes.put(tx.index(), outcome) };
                local.made.note(tx.0);
                Verdict::Done
            }
            Ran::Escaped(key) => {
                // A disk reads it before the transaction runs again.
                ctx.state.announce(&key);
                local.gas = local.gas.saturating_add(run.gas_limit);
                Verdict::Escaped
            }
            Ran::Failed(reason) => {
                local.failed = Some((tx, reason));
                Verdict::Escaped
            }
        }
    }

    /// Framing has scattered transactions and keys, so that nearly each of their cache lines is a miss.
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
                // Another core made the numbers of transactions and keys: all that is read here would be a miss.
                prefetch_ahead(self.order, tx.index(), SOURCE_LOOKAHEAD, prefetch);
                sets.prefetch_ahead(tx.index(), SOURCE_LOOKAHEAD);
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
    /// True if this worker must start no further transaction of a builder's block.
    fn stops(&mut self, ctx: &ExecContext<'_>) -> bool {
        if ctx.limits.is_none() {
            return false;
        }
        self.stopped = self.stopped || (self.seen.is_multiple_of(POLLED) && ctx.stops());
        self.seen += 1;
        self.stopped
    }
}
