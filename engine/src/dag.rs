//! Parallel execution of one block on its DAG.

use crate::{
    Error, Observer, Outcome, Stage,
    cells::{Cells, Changed},
    codes::CodeChanges,
    observer::observe,
    overlay::{Overlay, changed_code},
    plan::Block,
    sequential,
    state::State,
    view::Shared,
    worker::{Ran, Worker},
};
use alloy_primitives::{Address, U256};
use phalanx_access::{Access, AccessSets, KeyId};
use phalanx_merkle::Delta;
use phalanx_paralyze::StateKey;
use phalanx_parascheduler::{Dag, DagBuilder, TxIndex, Verdict, Workers};
use revm::context::{BlockEnv, CfgEnv, TxEnv};
use std::sync::Arc;

/// What execution leaves behind, whichever executor ran.
#[derive(Debug)]
pub(crate) struct Run {
    /// Of the transactions that stayed, in final order.
    pub(crate) order: Vec<u32>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) delta: Delta,
    pub(crate) codes: CodeChanges,
    pub(crate) left: Vec<u32>,
    pub(crate) stats: RunStats,
}

/// Figures of one block's execution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunStats {
    /// Longest chain of the block, in transactions: of the DAG, and all that ran one by one.
    pub critical_path: usize,
    /// Transactions that reached outside their predicted set.
    pub escapes: usize,
    /// Transactions that were executed a second time in the block.
    pub reexecutions: usize,
    /// Whether the block was executed over again in order.
    pub fallback: bool,
}

/// What every execution of a block is given.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'a> {
    pub(crate) state: &'a State,
    pub(crate) workers: &'a Workers,
    pub(crate) cfg: &'a CfgEnv,
    pub(crate) env: &'a BlockEnv,
    pub(crate) txs: &'a [TxEnv],
    pub(crate) observer: &'a dyn Observer,
}

/// The parallel executor: one EVM per worker, and buffers that are reused from block to block.
#[derive(Debug)]
pub(crate) struct DagExecutor {
    locals: Vec<Local>,
    builder: DagBuilder,
    dag: Dag,
    /// Of the last block, for their memory.
    cells: Cells,
}

#[derive(Debug)]
struct Local {
    worker: Worker,
    done: Vec<(TxIndex, Outcome)>,
    rewards: U256,
    failed: Option<(TxIndex, String)>,
}

impl DagExecutor {
    pub(crate) fn new(cfg: &CfgEnv, threads: usize) -> Self {
        let local = || Local { worker: Worker::new(cfg), done: Vec::new(), rewards: U256::ZERO, failed: None };
        let locals = (0..threads).map(|_| local()).collect();
        Self { locals, builder: DagBuilder::new(), dag: Dag::default(), cells: Cells::default() }
    }

    pub(crate) fn execute(&mut self, machine: &Machine<'_>, mut block: Block) -> Result<Run, Error> {
        let shared = observe(machine.observer, Stage::Schedule, || self.schedule(machine, &mut block))?;
        observe(machine.observer, Stage::Execute, || self.run(machine, block, shared))
    }

    /// Loads the current value of every key and builds the DAG.
    fn schedule(&mut self, machine: &Machine<'_>, block: &mut Block) -> Result<Arc<Shared>, Error> {
        let state = machine.state;
        let mut cells = core::mem::take(&mut self.cells);
        let keys = core::mem::take(&mut block.keys);
        machine.workers.install(|| cells.load_all(state, &keys))?;
        let sets = core::mem::take(&mut block.sets);
        // The DAG orders the rewards as well; what a transaction may see is what was predicted, and no more.
        let rewarded = with_rewards(&sets, &keys, &machine.env.beneficiary);
        self.builder.build(rewarded.as_ref().map_or(&sets, |(sets, _)| sets), keys.len(), &mut self.dag);
        let beneficiary = rewarded.map(|(_, id)| id);
        Ok(Arc::new(Shared {
            keys,
            sets,
            cells,
            codes: Arc::clone(&state.codes),
            ancestors: Arc::clone(&state.ancestors),
            beneficiary,
        }))
    }

    fn run(&mut self, machine: &Machine<'_>, block: Block, shared: Arc<Shared>) -> Result<Run, Error> {
        let Machine { state, workers, env, txs, .. } = *machine;
        let predicted = block.order.len() - block.alone;
        for local in &mut self.locals {
            local.worker.enter(Arc::clone(&shared), env);
            local.rewards = U256::ZERO;
            // A panic may have left something here.
            local.done.clear();
            local.failed = None;
        }
        let order = &block.order;
        let report = workers.run(&self.dag, &mut self.locals, &|local: &mut Local, tx: TxIndex| match local
            .worker
            .run(tx.index(), &txs[order[tx.index()] as usize])
        {
            Ran::Final(outcome, reward) => {
                local.done.push((tx, outcome));
                local.rewards += reward;
                Verdict::Done
            }
            Ran::Escaped => Verdict::Escaped,
            Ran::Failed(reason) => {
                local.failed = Some((tx, reason));
                Verdict::Escaped
            }
        });
        let mut outcomes: Vec<Option<Outcome>> = vec![None; predicted];
        let mut rewards = U256::ZERO;
        let mut failed = None;
        for local in &mut self.locals {
            local.worker.leave();
            rewards += local.rewards;
            for (tx, outcome) in local.done.drain(..) {
                outcomes[tx.index()] = Some(outcome);
            }
            failed = failed.or(local.failed.take());
        }
        if let Some((tx, reason)) = failed {
            return Err(Error::Evm { index: tx.index(), reason });
        }
        let stats = RunStats { escapes: report.escaped.len(), ..RunStats::default() };
        let stats = RunStats { critical_path: self.dag.critical_path(), ..stats };
        if !report.is_clean() && block.ordering == crate::Order::Given {
            let stats =
                RunStats { fallback: true, reexecutions: block.order.len(), critical_path: block.order.len(), ..stats };
            return in_order(machine, block.order, stats);
        }
        // Every worker has let go of the block, so it is ours alone again.
        let mut shared = Arc::into_inner(shared).expect("the workers have left the block");
        if shared.beneficiary.is_some() {
            rewards = U256::ZERO;
        }
        let mut run = Run {
            order: Vec::with_capacity(block.order.len()),
            outcomes: Vec::new(),
            delta: Delta::new(),
            codes: Vec::new(),
            left: Vec::new(),
            stats,
        };
        if report.is_clean() {
            run.order.extend_from_slice(&block.order[..predicted]);
            // Same size with and without the option, so this moves nothing.
            run.outcomes =
                outcomes.into_iter().map(|outcome| outcome.expect("a clean run ran every transaction")).collect();
        } else {
            for (tx, outcome) in block.order.iter().zip(outcomes) {
                match outcome {
                    Some(outcome) => {
                        run.order.push(*tx);
                        run.outcomes.push(outcome);
                    }
                    None => run.left.push(*tx),
                }
            }
        }
        if block.alone > 0 {
            finish_alone(machine, &block.order[predicted..], &mut shared, rewards, &mut run)?;
        } else {
            finish(state, env, &mut shared, rewards, &mut run)?;
        }
        self.cells = shared.cells;
        Ok(run)
    }
}

/// If anything in the block observes the beneficiary's balance, every transaction pays its reward at once: a credit that
/// commutes with other rewards and is ordered before whoever looks.
fn with_rewards(
    sets: &AccessSets<KeyId>,
    keys: &[StateKey],
    beneficiary: &Address,
) -> Option<(AccessSets<KeyId>, KeyId)> {
    let id = KeyId(keys.iter().position(|key| *key == StateKey::Basic(*beneficiary))? as u32);
    if !sets.entries().iter().any(|(key, access)| *key == id && *access != Access::Credit) {
        return None;
    }
    let mut rewarded = AccessSets::new();
    for set in sets.iter() {
        for (key, access) in set {
            // Whoever observes the balance is paid as well, which makes it a writer.
            rewarded.add(*key, if *key == id { access.join(Access::Credit) } else { *access });
        }
        if !set.iter().any(|(key, _)| *key == id) {
            rewarded.add(id, Access::Credit);
        }
        rewarded.close();
    }
    Some((rewarded, id))
}

/// Bytes of a typical stored value: nonce and balance of an account.
const EXPECTED_VALUE: usize = 16;

/// Gathers what the cells hold at the end, and pays the rewards that were deferred.
fn finish(state: &State, env: &BlockEnv, shared: &mut Shared, rewards: U256, run: &mut Run) -> Result<(), Error> {
    let mut rewards = rewards;
    run.delta = Delta::with_capacity(shared.keys.len(), shared.keys.len() * EXPECTED_VALUE);
    for Changed { id, mut value, locator: at, recoded } in shared.cells.changed() {
        let key = &shared.keys[id.index()];
        if let StateKey::Basic(address) = key {
            if *address == env.beneficiary {
                // Transfers to the beneficiary credit its cell as well.
                value.number = value.number.saturating_add(core::mem::take(&mut rewards));
            }
            if recoded {
                let before = state.load(key)?.0.code;
                changed_code(state, &mut run.delta, &mut run.codes, *address, before, value.code);
            }
        }
        state.put(&mut run.delta, key, &value, at);
    }
    if !rewards.is_zero() {
        let key = StateKey::Basic(env.beneficiary);
        let (mut value, at) = state.load(&key)?;
        value.number = value.number.saturating_add(rewards);
        value.exists = true;
        state.put(&mut run.delta, &key, &value, at);
    }
    Ok(())
}

/// Runs the transactions that have escaped too often, one after the other and free to touch anything, on what the
/// others left.
fn finish_alone(
    machine: &Machine<'_>,
    loners: &[u32],
    shared: &mut Shared,
    rewards: U256,
    run: &mut Run,
) -> Result<(), Error> {
    let mut overlay = Overlay::new(machine.state);
    for Changed { id, value, .. } in shared.cells.changed() {
        overlay.seed(&shared.keys[id.index()], &value);
    }
    overlay.credit(machine.env.beneficiary, rewards)?;
    let txs = loners.iter().map(|tx| &machine.txs[*tx as usize]);
    run.outcomes.extend(sequential::run(&mut overlay, machine.cfg, machine.env, txs)?);
    run.order.extend_from_slice(loners);
    // They ran one after the other.
    run.stats.critical_path += loners.len();
    (run.delta, run.codes) = overlay.into_delta()?;
    Ok(())
}

/// Executes a whole block in order on stock revm.
pub(crate) fn in_order(machine: &Machine<'_>, order: Vec<u32>, stats: RunStats) -> Result<Run, Error> {
    let mut overlay = Overlay::new(machine.state);
    let txs = order.iter().map(|tx| &machine.txs[*tx as usize]);
    let outcomes = sequential::run(&mut overlay, machine.cfg, machine.env, txs)?;
    let (delta, codes) = overlay.into_delta()?;
    Ok(Run { order, outcomes, delta, codes, left: Vec::new(), stats })
}
