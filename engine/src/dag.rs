//! Parallel execution of one block on its DAG.

use crate::{
    Error, Observer, Order, Outcome, Stage,
    admission::Admission,
    cells::{Cells, Changed},
    changes::Changes,
    fate::AccountRules,
    observer::observe,
    overlay::Overlay,
    plan::Block,
    sequential,
    settle::{Settled, Settlement},
    state::State,
    stm::StmExecutor,
    view::{Change, Shared},
    worker::{Ran, Worker},
};
use alloy_primitives::{Address, U256};
use phalanx_access::{Access, AccessSets, KeyId};
use phalanx_merkle::Delta;
use phalanx_paralyze::{StateKey, VmConfig};
use phalanx_parascheduler::{Dag, DagBuilder, TxIndex, Verdict, Workers};
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::map::HashMap,
};
use std::sync::{Arc, atomic::AtomicBool};

/// What execution leaves behind, whichever executor ran.
#[derive(Debug)]
pub(crate) struct Run<'s> {
    /// Of the transactions that stayed, in final order.
    pub(crate) order: Vec<u32>,
    pub(crate) outcomes: Vec<Outcome>,
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

impl After<'_> {
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
    /// Whether the block was taken from the DAG and executed otherwise.
    pub fallback: bool,
}

/// So many transactions that did not complete are settled one after the other; more, if they are also a quarter of the
/// block, go to Block-STM with all that follows them.
const MAX_SETTLED: usize = 32;

/// What every execution of a block is given.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'a> {
    pub(crate) state: &'a State,
    /// The state under changes that the block made before its transactions; then the state after them is an overlay too.
    pub(crate) base: Option<&'a Overlay<'a>>,
    pub(crate) workers: &'a Workers,
    pub(crate) cfg: &'a VmConfig,
    pub(crate) env: &'a BlockEnv,
    pub(crate) txs: &'a [TxEnv],
    /// The gas limit of a block that is judged: its outcomes end with the first transaction that makes it invalid.
    pub(crate) gas: Option<u64>,
    pub(crate) observer: &'a dyn Observer,
    /// Disturbs the schedule, for tests.
    pub(crate) schedule_seed: Option<u64>,
}

impl<'a> Machine<'a> {
    pub(crate) fn rules(&self) -> AccountRules {
        AccountRules::new(self.cfg.spec, self.state.bare_storage)
    }

    /// Whether a reward of nothing would delete the beneficiary (EIP-161), which is no credit. Such an account is left by
    /// a genesis or by times before Spurious Dragon; no transaction makes one any more.
    fn beneficiary_is_hollow(&self) -> Result<bool, Error> {
        let key = StateKey::Basic(self.env.beneficiary);
        let value = match self.base {
            Some(base) => base.get(&key)?,
            None => self.state.load(&key)?.0,
        };
        Ok(self.rules().clears_empty && value.is_hollow())
    }

    /// The state before the transactions.
    pub(crate) fn overlay(&self) -> Overlay<'a> {
        self.base.cloned().unwrap_or_else(|| Overlay::new(self.state, self.rules()))
    }
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
    /// What the transactions of `done` published, one after the other, and where each ends; in a given order alone.
    log: Vec<Change>,
    ends: Vec<usize>,
    rewards: U256,
    /// Used by the transactions of `done`, and at most by those that escaped.
    gas: u64,
    /// Transactions that were left to others, because of `gas`.
    unstarted: usize,
    failed: Option<(TxIndex, String)>,
}

/// What the workers have left when a wave is over.
struct Wave {
    /// Of the predicted transactions, `None` where one escaped or was withdrawn.
    outcomes: Vec<Option<Outcome>>,
    logged: Vec<Vec<Change>>,
    rewards: U256,
    failed: Option<(TxIndex, String)>,
}

impl DagExecutor {
    pub(crate) fn new(cfg: &VmConfig, threads: usize, fast_path: bool) -> Self {
        let local = || Local {
            worker: Worker::new(cfg, fast_path),
            done: Vec::new(),
            log: Vec::new(),
            ends: Vec::new(),
            rewards: U256::ZERO,
            gas: 0,
            unstarted: 0,
            failed: None,
        };
        let locals = (0..threads).map(|_| local()).collect();
        Self { locals, builder: DagBuilder::new(), dag: Dag::default(), cells: Cells::default() }
    }

    /// Runs a block; `stm` takes over if the predictions of a given order are of no use.
    pub(crate) fn execute<'s>(
        &mut self,
        machine: &Machine<'s>,
        mut block: Block,
        stm: &mut StmExecutor,
    ) -> Result<Run<'s>, Error> {
        if machine.beneficiary_is_hollow()? {
            let run = || in_order(machine, block.order, RunStats { fallback: true, ..RunStats::default() });
            return observe(machine.observer, Stage::Execute, run);
        }
        let shared = observe(machine.observer, Stage::Schedule, || self.schedule(machine, &mut block))?;
        observe(machine.observer, Stage::Execute, || self.run(machine, block, shared, stm))
    }

    /// Loads the current value of every key and builds the DAG.
    fn schedule(&mut self, machine: &Machine<'_>, block: &mut Block) -> Result<Arc<Shared>, Error> {
        let state = machine.state;
        let mut cells = core::mem::take(&mut self.cells);
        let keys = core::mem::take(&mut block.keys);
        machine.workers.install(|| cells.load_all(state, &keys))?;
        if let Some(base) = machine.base {
            let written: HashMap<_, _> = base.written().collect();
            for (index, key) in keys.iter().enumerate() {
                if let Some(value) = written.get(key) {
                    cells.preset(KeyId(index as u32), *value);
                }
            }
        }
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
            rules: machine.rules(),
            beneficiary,
            overflowed: AtomicBool::new(false),
        }))
    }

    fn run<'s>(
        &mut self,
        machine: &Machine<'s>,
        block: Block,
        shared: Arc<Shared>,
        stm: &mut StmExecutor,
    ) -> Result<Run<'s>, Error> {
        let Machine { state, workers, env, txs, .. } = *machine;
        let predicted = block.order.len() - block.alone;
        for local in &mut self.locals {
            local.worker.enter(Arc::clone(&shared), env);
            local.rewards = U256::ZERO;
            (local.gas, local.unstarted) = (0, 0);
            // A panic may have left something here.
            local.done.clear();
            local.log.clear();
            local.ends.clear();
            local.failed = None;
        }
        let order = &block.order;
        let given = block.ordering == Order::Given;
        let job = |local: &mut Local, tx: TxIndex| {
            if machine.gas.is_some_and(|limit| local.gas > limit) {
                // More than the block may use: it is invalid, or the wave is wrong. What is left runs in order.
                local.unstarted += 1;
                return Verdict::Escaped;
            }
            let run = &txs[order[tx.index()] as usize];
            match local.worker.run(tx.index(), run) {
                Ran::Final(outcome, reward) => {
                    if given {
                        if outcome.result().is_some() {
                            local.log.extend_from_slice(local.worker.published());
                        }
                        local.ends.push(local.log.len());
                    }
                    local.gas = local.gas.saturating_add(outcome.gas_used());
                    local.done.push((tx, outcome));
                    local.rewards += reward;
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
        };
        let report = match machine.schedule_seed {
            Some(seed) => workers.run_shuffled(&self.dag, &mut self.locals, &job, seed),
            None => workers.run(&self.dag, &mut self.locals, &job),
        };
        let keep_log = given && !report.is_clean();
        let unstarted = self.locals.iter().map(|local| local.unstarted).sum::<usize>();
        let Wave { outcomes, logged, rewards, failed } = self.gather(predicted, keep_log);
        if let Some((tx, reason)) = failed {
            return Err(Error::Evm { index: tx.index(), reason });
        }
        // Every worker has let go of the block, so it is ours alone again.
        let mut shared = Arc::into_inner(shared).expect("the workers have left the block");
        let stats = RunStats { escapes: report.escaped.len() - unstarted, ..RunStats::default() };
        let stats = RunStats { critical_path: self.dag.critical_path(), ..stats };
        if *shared.overflowed.get_mut() {
            let executed = predicted - report.withdrawn.len();
            return in_order(machine, block.order, RunStats { fallback: true, reexecutions: executed, ..stats });
        }
        if !report.is_clean() && given {
            let late = report.escaped.len() + report.withdrawn.len();
            let settled = outcomes.into_iter().zip(logged);
            let settled = settled.map(|(outcome, changes)| Some(Settled { outcome: outcome?, changes }));
            let rest = (late > MAX_SETTLED.max(predicted / 4) && workers.threads() > 1).then_some(stm);
            let run = settle(machine, block, &shared, settled, stats, rest);
            self.cells = shared.cells;
            return run;
        }
        let mut run = Run {
            order: Vec::with_capacity(block.order.len()),
            outcomes: Vec::new(),
            after: After::Changes(Changes::default()),
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
        // Where somebody looks at the beneficiary, everybody has paid at once.
        let paid = shared.beneficiary.is_some() || run.outcomes.iter().all(|outcome| outcome.result().is_none());
        let rewards = (!paid).then_some(rewards);
        let after = if block.alone > 0 || machine.base.is_some() {
            fold(machine, &mut shared, rewards)?.map(After::Overlay)
        } else {
            finish(state, env, &mut shared, rewards)?.map(After::Changes)
        };
        self.cells = shared.cells;
        let Some(after) = after else {
            return in_order(machine, block.order, RunStats { fallback: true, reexecutions: predicted, ..stats });
        };
        run.after = after;
        if block.alone > 0 {
            finish_alone(machine, &block.order[predicted..], &mut run)?;
        }
        Ok(run)
    }

    /// Collects what the workers have, and makes them leave the block.
    fn gather(&mut self, predicted: usize, keep_log: bool) -> Wave {
        let mut wave = Wave {
            outcomes: vec![None; predicted],
            logged: vec![Vec::new(); if keep_log { predicted } else { 0 }],
            rewards: U256::ZERO,
            failed: None,
        };
        for local in &mut self.locals {
            local.worker.leave();
            wave.rewards += local.rewards;
            if keep_log {
                let mut start = 0;
                for ((tx, _), end) in local.done.iter().zip(&local.ends) {
                    wave.logged[tx.index()] = local.log[start..*end].to_vec();
                    start = *end;
                }
            }
            for (tx, outcome) in local.done.drain(..) {
                wave.outcomes[tx.index()] = Some(outcome);
            }
            wave.failed = wave.failed.or(local.failed.take());
        }
        wave
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

/// Gathers what the cells hold at the end, and pays the rewards that were deferred: a sum, if any transaction ran. `None`
/// if that passes 2^256, which no sum can express.
fn finish(state: &State, env: &BlockEnv, shared: &mut Shared, rewards: Option<U256>) -> Result<Option<Changes>, Error> {
    let beneficiary = StateKey::Basic(env.beneficiary);
    if rewards == Some(U256::ZERO) {
        // Before EIP-161 touching the beneficiary creates an empty account.
        if !shared.rules.clears_empty && !state.load(&beneficiary)?.0.exists {
            let overlay = fold_onto(Overlay::new(state, shared.rules), env, shared, rewards)?;
            return overlay.map(Overlay::into_changes).transpose();
        }
    }
    let mut rewards = rewards.filter(|rewards| !rewards.is_zero());
    let mut changes = Changes {
        delta: Delta::with_capacity(shared.keys.len(), shared.keys.len() * EXPECTED_VALUE),
        ..Changes::default()
    };
    for Changed { id, mut value, locator: at, recoded } in shared.cells.changed() {
        let key = &shared.keys[id.index()];
        value.incarnation = state.incarnation(key.address());
        if let StateKey::Basic(address) = key {
            if *address == env.beneficiary
                && let Some(rewards) = rewards.take()
            {
                // Transfers to the beneficiary credit its cell as well.
                let Some(sum) = value.number.checked_add(rewards) else { return Ok(None) };
                (value.number, value.exists) = (sum, true);
            }
            if recoded {
                state.note(&mut changes, *address, &state.load(key)?.0, &value);
            }
        }
        state.put(&mut changes.delta, key, &value, at);
    }
    if let Some(rewards) = rewards {
        let (mut value, at) = state.load(&beneficiary)?;
        let Some(sum) = value.number.checked_add(rewards) else { return Ok(None) };
        (value.number, value.exists) = (sum, true);
        state.put(&mut changes.delta, &beneficiary, &value, at);
    }
    Ok(Some(changes))
}

/// The state that the cells hold at the end, the rewards paid.
fn fold<'s>(machine: &Machine<'s>, shared: &mut Shared, rewards: Option<U256>) -> Result<Option<Overlay<'s>>, Error> {
    fold_onto(machine.overlay(), machine.env, shared, rewards)
}

fn fold_onto<'s>(
    mut overlay: Overlay<'s>,
    env: &BlockEnv,
    shared: &mut Shared,
    rewards: Option<U256>,
) -> Result<Option<Overlay<'s>>, Error> {
    for Changed { id, mut value, .. } in shared.cells.changed() {
        let key = &shared.keys[id.index()];
        value.incarnation = overlay.incarnation(key.address());
        overlay.set(key, &value);
    }
    if let Some(rewards) = rewards {
        let value = overlay.get(&StateKey::Basic(env.beneficiary))?;
        if value.number.checked_add(rewards).is_none() {
            return Ok(None);
        }
        overlay.credit(env.beneficiary, rewards)?;
    }
    Ok(Some(overlay))
}

/// Runs the transactions that have escaped too often, one after the other and free to touch anything, on what the
/// others left.
fn finish_alone(machine: &Machine<'_>, loners: &[u32], run: &mut Run<'_>) -> Result<(), Error> {
    let After::Overlay(overlay) = &mut run.after else { return Ok(()) };
    let txs = loners.iter().map(|tx| &machine.txs[*tx as usize]);
    // Only a builder's block has any, which is not judged.
    run.outcomes.extend(sequential::run(overlay, machine.cfg, machine.env, Admission::new(None), txs)?);
    run.order.extend_from_slice(loners);
    // They ran one after the other.
    run.stats.critical_path += loners.len();
    Ok(())
}

/// Makes a given order's wave with escapes right. `rest`, if given, runs all that follows the first escape.
fn settle<'s>(
    machine: &Machine<'s>,
    block: Block,
    shared: &Shared,
    wave: impl Iterator<Item = Option<Settled>>,
    stats: RunStats,
    rest: Option<&mut StmExecutor>,
) -> Result<Run<'s>, Error> {
    let mut overlay = machine.overlay();
    let predicted = block.order.len() - block.alone;
    let mut admission = Admission::new(machine.gas);
    let mut settlement = Settlement::new(machine, &block.order, shared);
    let mut stats = RunStats { critical_path: block.order.len(), ..stats };
    let outcomes = match rest {
        None => {
            let outcomes = settlement.settle(&mut overlay, &mut admission, wave)?;
            stats.reexecutions = settlement.reexecutions + stats.escapes;
            outcomes
        }
        Some(stm) => {
            let mut ran = 0;
            let mut wave = wave.inspect(|settled| ran += usize::from(settled.is_some()));
            let prefix: Vec<_> = wave.by_ref().map_while(|settled| settled.map(Some)).collect();
            let mut outcomes = settlement.settle(&mut overlay, &mut admission, prefix)?;
            wave.for_each(drop);
            let start = outcomes.len();
            let rest = if admission.has_ended() { &[] } else { &block.order[start..predicted] };
            let (rest, executions) = stm.extend(machine, rest, admission, &mut overlay, 1)?;
            outcomes.extend(rest);
            stats.fallback = true;
            stats.reexecutions = (ran + stats.escapes + executions).saturating_sub(predicted);
            outcomes
        }
    };
    let after = After::Overlay(overlay);
    let mut run = Run { order: block.order, outcomes, after, left: Vec::new(), stats };
    let loners = run.order.split_off(predicted);
    finish_alone(machine, &loners, &mut run)?;
    Ok(run)
}

/// Executes a whole block in order on stock revm.
pub(crate) fn in_order<'s>(machine: &Machine<'s>, order: Vec<u32>, stats: RunStats) -> Result<Run<'s>, Error> {
    let mut overlay = machine.overlay();
    let txs = order.iter().map(|tx| &machine.txs[*tx as usize]);
    let admission = Admission::new(machine.gas);
    let outcomes = sequential::run(&mut overlay, machine.cfg, machine.env, admission, txs)?;
    let stats = RunStats { critical_path: order.len(), ..stats };
    Ok(Run { order, outcomes, after: After::Overlay(overlay), left: Vec::new(), stats })
}
