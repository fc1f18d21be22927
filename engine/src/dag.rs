//! Parallel execution of transactions on their DAG: what one wave of worker threads does.

use crate::{
    Error, Observer, Outcome, Stage,
    block_access_list::Record,
    cells::{Cells, Spare},
    chain::ChainSpec,
    changes::Changes,
    fate::AccountRules,
    graph::{Graph, GraphBuilder},
    observer::observe_fork,
    open::Open,
    outcomes::{self, Made, Outcomes},
    overlay::Overlay,
    plan::Block,
    slots::{Filled, Slots},
    state::State,
    stm::StmExecutor,
    trace::Traces,
    transfer::FastPath,
    txs::Txs,
    view::{Change, Shared},
    width::{self, Width},
    worker::{Ran, Worker},
};
use alloy_primitives::U256;
use phalanx_access::{AccessSets, KeyId};
use phalanx_memory::{prefetch, prefetch_all, prefetch_slice};
use phalanx_paralyze::{Snapshot as _, VmConfig};
use phalanx_parascheduler::{Job, Lookahead, Report, TxIndex, Verdict, Workers};
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::result::{ExecutionResult, InvalidTransaction},
    primitives::hardfork::SpecId,
};
use std::sync::Arc;

/// What execution leaves behind, whichever executor ran.
#[derive(Debug)]
pub(crate) struct Run<'s> {
    /// Of the transactions that stayed, in final order.
    pub(crate) order: Vec<u32>,
    pub(crate) outcomes: Outcomes,
    pub(crate) after: After<'s>,
    pub(crate) left: Vec<u32>,
    pub(crate) stats: RunStats,
}

/// The state after the transactions.
#[derive(Debug)]
pub(crate) enum After<'s> {
    /// Ready to be merkleized.
    Changes(Changes),
    /// Still to be worked on.
    Overlay(Overlay<'s>),
}

impl<'s> After<'s> {
    /// Of a block that begins with steps of the protocol, which is always an overlay.
    pub(crate) fn overlay(&mut self) -> &mut Overlay<'s> {
        match self {
            Self::Overlay(overlay) => overlay,
            Self::Changes(_) => unreachable!("a block with a base leaves an overlay"),
        }
    }

    /// # Errors
    /// If the store is corrupt.
    pub(crate) fn into_changes(self) -> Result<Changes, Error> {
        match self {
            Self::Changes(changes) => Ok(changes),
            Self::Overlay(overlay) => overlay.into_changes(),
        }
    }
}

/// Figures of one block's execution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunStats {
    /// Longest chain of the block, in transactions: of the DAG, and all that ran one by one.
    pub critical_path: usize,
    /// Transactions that reached outside their predicted set.
    pub escapes: usize,
    /// Executions beyond the first, over all transactions.
    pub reexecutions: usize,
    /// Calls that went a recorded way, see [`Traces`].
    pub replayed: usize,
    /// Whether the block was taken from the DAG and executed otherwise.
    pub fallback: bool,
}

/// A builder's worker looks whether to stop before its first transaction and before every so many.
const POLLED: usize = 16;

/// How far ahead of a transaction that is announced the next ones' numbers and sets are asked for: some cache lines.
const AHEAD: usize = 32;

/// Keys of one transaction that are asked for ahead. Many may announce one and the same that waits for them all, so that what
/// it costs must not depend on how much that one declares.
const MOST_KEYS: usize = 32;

/// Likewise, bytes of calldata.
const MOST_DATA: usize = 512;

/// What every execution of a block is given.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'a> {
    pub(crate) state: &'a State,
    /// The state under changes that the block made before its transactions; then the state after them is an overlay too.
    pub(crate) base: Option<&'a Overlay<'a>>,
    pub(crate) workers: &'a Workers,
    pub(crate) cfg: &'a VmConfig,
    pub(crate) env: &'a BlockEnv,
    pub(crate) txs: Txs<'a>,
    /// The gas limit of a block that is judged: its outcomes end with the first transaction that makes it invalid.
    pub(crate) gas: Option<u64>,
    /// Of a block that is still being made.
    pub(crate) making: Option<Making<'a>>,
    pub(crate) observer: &'a dyn Observer,
    /// Disturbs the schedule, for tests.
    pub(crate) schedule_seed: Option<u64>,
    /// Takes what each transaction does, if somebody wants to know.
    pub(crate) record: Option<&'a Record>,
}

/// What a builder wants beyond what a validator does.
#[derive(Clone, Copy)]
pub(crate) struct Making<'a> {
    /// Gas that the block may use.
    pub(crate) gas: u64,
    /// Whether to start no further transaction.
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    /// The chain whose whole block it is.
    pub(crate) chain: Option<&'a ChainSpec>,
}

impl Making<'_> {
    /// Why a transaction with this result cannot be in a block, though revm has nothing against it: a log that claims to
    /// be a deposit and is none makes the whole block invalid (EIP-6110).
    fn refuses(&self, spec: SpecId, result: &ExecutionResult) -> Option<InvalidTransaction> {
        let chain = self.chain.filter(|_| spec.is_enabled_in(SpecId::PRAGUE))?;
        let error = chain.deposit_requests(result.logs()).err()?;
        Some(InvalidTransaction::from(error.to_string()))
    }
}

impl<'a> Machine<'a> {
    pub(crate) fn rules(&self) -> AccountRules {
        AccountRules::new(self.cfg.spec, self.state.bare_storage)
    }

    /// The state before the transactions.
    pub(crate) fn overlay(&self) -> Overlay<'a> {
        self.base.cloned().unwrap_or_else(|| Overlay::new(self.state, self.rules()))
    }

    /// Why a transaction with this result is left out.
    pub(crate) fn refuses(&self, result: &ExecutionResult) -> Option<InvalidTransaction> {
        self.making.and_then(|making| making.refuses(self.cfg.spec, result))
    }

    /// The fast path, where it may be taken: footprints are read from revm's journal.
    pub(crate) fn permitted<'p>(&self, path: &'p Option<FastPath>) -> Option<&'p FastPath> {
        path.as_ref().filter(|_| self.record.is_none())
    }

    /// Whether no further transaction is to be started.
    pub(crate) fn stops(&self) -> bool {
        self.making.is_some_and(|making| (making.stop)())
    }
}

/// The parallel executor: one EVM per worker, and buffers that are reused from block to block.
#[derive(Debug)]
pub(crate) struct DagExecutor {
    locals: Vec<Local>,
    graphs: GraphBuilder,
    /// Memory of the last block's cells.
    spare: Spare,
    /// Of transactions that run in order.
    fast_path: Option<FastPath>,
    habits: Habits,
}

/// How transactions are run, which no result depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Habits {
    /// Plain transfers without the EVM.
    pub(crate) fast_path: bool,
    /// Calls of contracts that go a known way, likewise.
    pub(crate) traces: Traces,
    /// All workers take part in every wave.
    pub(crate) shares_all: bool,
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
    pub(crate) fn new(cfg: &VmConfig, threads: usize, habits: Habits) -> Self {
        let local = || Local {
            worker: Worker::new(cfg, habits.fast_path, habits.traces),
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
        let fast_path = FastPath::new(cfg, habits.fast_path);
        Self { locals, graphs: GraphBuilder::default(), spare: Spare::default(), fast_path, habits }
    }

    /// Drops what workers recorded of calls.
    pub(crate) fn forget(&mut self) {
        self.locals.iter_mut().for_each(|local| local.worker.forget());
    }

    /// Runs a block, all in one batch; `stm` takes over if the predictions of a given order are of no use.
    pub(crate) fn execute<'s>(
        &mut self,
        machine: &Machine<'s>,
        block: Block,
        stm: &mut StmExecutor,
    ) -> Result<Run<'s>, Error> {
        let mut open = Open::new(machine.state, machine.base.cloned(), self.lend_cells());
        open.extend(self, stm, machine, block)?;
        open.take(machine)
    }

    /// No cells, in the memory of the last block's.
    pub(crate) fn lend_cells(&self) -> Cells {
        self.spare.lend()
    }

    /// Builds the graph of a wave that comes without one.
    pub(crate) fn order(&mut self, sets: &AccessSets<KeyId>, n_keys: usize, beneficiary: Option<KeyId>) -> Graph {
        self.graphs.build(sets, n_keys, beneficiary)
    }

    /// For transactions that run in order.
    pub(crate) fn fast_path(&self, machine: &Machine<'_>) -> Option<&FastPath> {
        machine.permitted(&self.fast_path)
    }

    /// Whether transactions of which nothing is predicted had better run in order than ahead of each other.
    pub(crate) fn prefers_order<'t>(
        &self,
        cfg: &VmConfig,
        state: &State,
        schedule_seed: Option<u64>,
        txs: impl IntoIterator<Item = &'t TxEnv, IntoIter: ExactSizeIterator>,
    ) -> bool {
        // Unless a test wants to see what happens ahead.
        schedule_seed.is_none()
            && (self.locals.len() == 1
                || !self.habits.shares_all && Width::of_senders(txs, |tx| runs_code(cfg, state, tx)) == Width::One)
    }

    /// [`Self::prefers_order`], and nobody wants to see workers at it.
    pub(crate) fn prefers_caller(
        &self,
        cfg: &VmConfig,
        state: &State,
        schedule_seed: Option<u64>,
        txs: &[TxEnv],
    ) -> bool {
        !self.habits.shares_all && self.prefers_order(cfg, state, schedule_seed, txs)
    }

    /// Whether a whole block is so short that no worker is to be woken for it. Then [`Self::prefers_order`], too.
    pub(crate) fn is_brief(&self, cfg: &VmConfig, state: &State, schedule_seed: Option<u64>, txs: &[TxEnv]) -> bool {
        schedule_seed.is_none() && !self.habits.shares_all && width::is_brief(txs, |tx| runs_code(cfg, state, tx))
    }

    /// Runs the transactions of `graph`, `order` their names. What they changed is in the cells of `shared`, which is given
    /// back.
    pub(crate) fn wave(
        &mut self,
        machine: &Machine<'_>,
        order: &[u32],
        given: bool,
        shared: Shared,
        graph: Graph,
    ) -> Result<(Wave, Shared), Error> {
        let Machine { workers, env, .. } = *machine;
        let Graph { mut dag, critical_path, .. } = graph;
        let shared = Arc::new(shared);
        for local in &mut self.locals {
            local.worker.enter(Arc::clone(&shared), env, machine.record.is_some());
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
            && Width::of(&mut dag, critical_path, |tx| &machine.txs[order[tx.index()] as usize]) == Width::One;
        let seats = if one && !self.habits.shares_all { 1 } else { self.locals.len() };
        let job = WaveJob { machine, order, given, shared: &shared, outcomes: &outcomes };
        let report = observe_fork(machine.observer, Stage::Execute, order.len(), || match machine.schedule_seed {
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

/// Whether a transaction is more than a transfer.
fn runs_code(cfg: &VmConfig, state: &State, tx: &TxEnv) -> bool {
    cfg.plain_receiver(tx).is_none_or(|to| state.code_hash(&to).is_some())
}

/// What the workers do in a wave.
struct WaveJob<'w> {
    machine: &'w Machine<'w>,
    order: &'w [u32],
    given: bool,
    shared: &'w Shared,
    outcomes: &'w Slots<Outcome>,
}

impl<'w> WaveJob<'w> {
    fn tx(&self, tx: TxIndex) -> &'w TxEnv {
        &self.machine.txs[self.order[tx.index()] as usize]
    }
}

impl Job<Local> for WaveJob<'_> {
    #[expect(unsafe_code, reason = "each transaction has a place of its own")]
    fn run(&self, local: &mut Local, tx: TxIndex) -> Verdict {
        let Self { machine, order, given, .. } = *self;
        // More than the block may use means that it is invalid, or the wave is wrong. What is left runs in order.
        if machine.gas.is_some_and(|limit| local.gas > limit) || local.stops(machine) {
            local.unstarted.push(tx);
            return Verdict::Escaped;
        }
        let run = self.tx(tx);
        match local.worker.run(tx.index(), run, |result| machine.refuses(result)) {
            Ran::Final(outcome, reward) => {
                if let Some((record, footprint)) = machine.record.zip(local.worker.take_footprint()) {
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
    fn stops(&mut self, machine: &Machine<'_>) -> bool {
        if machine.making.is_none() {
            return false;
        }
        self.stopped = self.stopped || (self.seen.is_multiple_of(POLLED) && machine.stops());
        self.seen += 1;
        self.stopped
    }
}
