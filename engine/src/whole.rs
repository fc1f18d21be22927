//! A whole block of a chain in its given order: what the protocol does before and after the transactions, and the
//! judgement whether they are valid.

use crate::{
    Block, BlockError, Engine, Error, Executed, Executor, Hints, Order, Outcome, Payload, SourceCounts, Stage,
    admission::Admission,
    block::Sealing,
    block_access_list::{Around, Footprint, List, ListExecutor, Listed, Record, compare, excepted, produce, refused},
    cells::Cells,
    chain::{ChainSpec, PreStep},
    config::is_supported,
    dag::{DagExecutor, Machine, Run, RunStats},
    engine::checked,
    fate::AccountRules,
    hints,
    intern::intern,
    observer::observe,
    open::Open,
    overlay::Overlay,
    sequential::Sequential,
    state::State,
    stm::StmExecutor,
    transfer::FastPath,
    txs::Txs,
    width,
};
use alloy_primitives::{Address, Bytes, U256};
use phalanx_access::AccessSets;
use phalanx_paralyze::{Batch, Preimages, StateKey, VmConfig, observed};
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::hardfork::SpecId,
};
use std::sync::Arc;

/// What an invalid transaction does to a block in given order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// It makes the block invalid.
    Refuse,
    /// It is left out: [`Outcome::Skipped`]. Gas beyond the block's limit is not looked for.
    Skip,
}

/// Who executes a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Whoever asks, in order, without hints and with nothing that would need another thread.
    Here {
        /// Not of one that is over before a thread is awake.
        teaches: bool,
    },
    /// A worker, with the others.
    Worker,
}

/// Simulating a transaction costs as much as executing it, learning from it more. Beyond this share of a block's gas the
/// DAG cannot win that back on a given order, and the block goes to Block-STM without predictions. `threads` divide the
/// simulation as they do the execution, but one has nothing to win.
const fn max_simulated(threads: usize) -> f64 {
    0.25 * (1.0 - 1.0 / threads as f64)
}

impl Engine {
    /// Executes a whole block of the engine's chain on the committed state: system calls, transactions in their order,
    /// withdrawals, rewards, requests. Nothing is committed.
    ///
    /// The block is judged as sequential revm judges it. What its header claims of the outcome is for the caller to
    /// compare; headers, bodies and signatures are checked by [`ChainSpec`].
    ///
    /// # Errors
    /// If the block is not valid, with the lowest transaction that is not; or if the engine failed.
    pub fn execute_block(&mut self, payload: &Payload<'_>, hints: Hints<'_>) -> Result<Executed, BlockError> {
        let env = self.follow(payload)?;
        let place = self.place(payload.txs, &hints);
        self.at(place, |engine| engine.execute_whole(payload, &env, hints, place))
    }

    /// [`Self::execute_block`] in its place, by the rules of its time.
    fn execute_whole(
        &mut self,
        payload: &Payload<'_>,
        env: &BlockEnv,
        hints: Hints<'_>,
        place: Place,
    ) -> Result<Executed, BlockError> {
        if let Hints::Sets(sets) = hints
            && sets.len() != payload.txs.len()
        {
            return Err(BlockError::Hints { hints: sets.len(), txs: payload.txs.len() });
        }
        let mut list = None;
        if let Hints::AccessList { rlp, hash } = hints {
            let decode = || List::decode(rlp, hash, payload, self.cfg.spec);
            let decoded = observe(&*self.observer, Stage::Schedule, decode).map_err(refused(None))?;
            list = match self.execute_listed(payload, env, rlp, decoded)? {
                Listed::Executed(executed) => return Ok(*executed),
                Listed::Unsuited(decoded) => Some(*decoded),
            };
        }
        let block = self.hinted(payload.txs, env, hints, place);
        let is_predicted = block.alone == 0;
        let Self { state, workers, cfg, observer, dag, stm, executor, chain, schedule_seed, access_lists, .. } = self;
        let (observer, schedule_seed) = (&**observer, *schedule_seed);
        let (sources, gas) = (block.sources, Some(payload.header.gas_limit));
        let (base, first) = observe(observer, Stage::Execute, || before(chain, state, cfg, env, payload))?;
        let record = (*access_lists || list.is_some()).then(|| Record::new(&block.order));
        let machine = Machine {
            state,
            base: Some(&base),
            workers,
            cfg,
            env,
            txs: Txs::List(payload.txs),
            gas,
            making: None,
            observer,
            schedule_seed,
            record: record.as_ref(),
        };
        let mut run = execute(*executor, dag, stm, &machine, block)?;
        let stats = run.stats;
        let ended = judge(payload.header.gas_limit, payload.txs, &run.outcomes).and_then(|()| {
            observe(observer, Stage::Execute, || after(chain, cfg, env, payload, run.after.overlay(), &run.outcomes))
        });
        let executed = observe(observer, Stage::Seal, || {
            let (ended, last) = match ended {
                Ok((requests, last)) => (Ok(requests), last),
                Err(error) => (Err(error), Footprint::default()),
            };
            let around = Around { base: &base, first: &first, last: &last };
            let access_list = match (&record, list) {
                (Some(record), Some(list)) => Some(compare(state, &list, &around, env, &run, record, ended.is_ok())?),
                (Some(record), None) if ended.is_ok() => Some(produce(state, Some(&around), env, &run, record)?.0),
                _ => None,
            };
            let requests = ended?;
            let (parent, env) = (Arc::clone(&state.tip), env.clone());
            let sealing = Sealing { parent, spec: cfg.spec, env, frames: 0, sources, requests, access_list };
            Executed::seal(run, Txs::List(payload.txs), sealing, observer).map_err(BlockError::Engine)
        })?;
        if matches!(hints, Hints::Predict) && place != (Place::Here { teaches: false }) {
            self.study(env, payload.txs, is_predicted, &stats);
        }
        Ok(executed)
    }

    /// Executes transactions in their order as one block of a chain whose blocks are nothing else: no system calls,
    /// withdrawals or requests. Nothing is committed. The block has no access list.
    ///
    /// # Errors
    /// If a transaction is invalid and `invalid` says that the block is then, too: the lowest one; or if the engine failed.
    pub fn execute_given(&mut self, env: &BlockEnv, txs: &[TxEnv], invalid: Invalid) -> Result<Executed, BlockError> {
        let place = self.place(txs, &Hints::Predict);
        self.at(place, |engine| engine.execute_in_order(env, txs, invalid, place))
    }

    /// [`Self::execute_given`], in its place.
    fn execute_in_order(
        &mut self,
        env: &BlockEnv,
        txs: &[TxEnv],
        invalid: Invalid,
        place: Place,
    ) -> Result<Executed, BlockError> {
        let env = &checked(env, self.cfg.spec)?;
        let block = self.hinted(txs, env, Hints::Predict, place);
        let is_predicted = block.alone == 0;
        let Self { state, workers, cfg, observer, dag, stm, executor, schedule_seed, .. } = self;
        let (observer, schedule_seed) = (&**observer, *schedule_seed);
        let sources = block.sources;
        let gas = (invalid == Invalid::Refuse).then_some(env.gas_limit);
        let list = Txs::List(txs);
        let machine = Machine {
            state,
            base: None,
            workers,
            cfg,
            env,
            txs: list,
            gas,
            making: None,
            observer,
            schedule_seed,
            record: None,
        };
        let run = execute(*executor, dag, stm, &machine, block)?;
        let stats = run.stats;
        if let Some(gas_limit) = gas {
            judge(gas_limit, txs, &run.outcomes)?;
        }
        let executed = observe(observer, Stage::Seal, || {
            let (parent, env) = (Arc::clone(&state.tip), env.clone());
            let sealing =
                Sealing { parent, spec: cfg.spec, env, frames: 0, sources, requests: None, access_list: None };
            Executed::seal(run, list, sealing, observer).map_err(BlockError::Engine)
        })?;
        if place != (Place::Here { teaches: false }) {
            self.study(env, txs, is_predicted, &stats);
        }
        Ok(executed)
    }

    /// What each transaction of a block touches, in a sequential run on the committed state: a perfect hint.
    ///
    /// # Errors
    /// As [`Self::execute_block`].
    pub fn true_sets(&mut self, payload: &Payload<'_>) -> Result<AccessSets<StateKey>, BlockError> {
        let env = self.follow(payload)?;
        let (mut overlay, _) = before(&self.chain, &self.state, &self.cfg, &env, payload)?;
        let mut sequential = Sequential::new(&mut overlay, &self.cfg, &env);
        let mut sets = AccessSets::new();
        let mut outcomes = Vec::with_capacity(payload.txs.len());
        let mut admission = Admission::new(Some(payload.header.gas_limit));
        for (index, tx) in payload.txs.iter().enumerate() {
            if !admission.admits(tx) {
                break;
            }
            // Payments to the beneficiary are no access: as a prediction they would chain all transactions.
            let (outcome, state) = sequential.run_unpaid(index, tx)?;
            let set = observed(&state);
            sets.push(
                set.as_slice().iter().map(|(key, access)| (*key, hints::relaxed(&self.cfg, tx, &state, key, *access))),
            );
            sequential.commit_unpaid(tx, &env, &outcome, &state)?;
            admission.follow(&outcome);
            outcomes.push(outcome);
        }
        judge(payload.header.gas_limit, payload.txs, &outcomes)?;
        Ok(sets)
    }

    /// Takes up the rules of the block's time, and gives its environment.
    pub(crate) fn follow(&mut self, payload: &Payload<'_>) -> Result<BlockEnv, BlockError> {
        let spec = self.chain.spec(payload.header);
        let cfg = self.chain.cfg(spec, payload.header.timestamp);
        if cfg != self.cfg.cfg {
            if !is_supported(&cfg) {
                return Err(Error::UnsupportedSpec { spec }.into());
            }
            let cfg = self.cfg.with_cfg(cfg);
            self.dag = DagExecutor::new(&cfg, self.workers.threads(), self.habits);
            self.stm = StmExecutor::new(&cfg, self.workers.threads(), self.habits.fast_path, self.salt);
            self.listed = ListExecutor::new(&cfg, self.workers.threads(), self.habits.fast_path);
            self.paralyze.set_cfg(cfg.clone());
            self.cfg = cfg;
        }
        Ok(checked(&self.chain.env(payload.header), spec)?)
    }

    /// Where a block is executed.
    fn place(&self, txs: &[TxEnv], hints: &Hints<'_>) -> Place {
        let Self { cfg, state, dag, paralyze, executor, schedule_seed, .. } = self;
        // A block with a list runs on the list's values, on all threads.
        if matches!(hints, Hints::AccessList { .. }) || *executor == Executor::BlockStm || !width::is_short(txs) {
            return Place::Worker;
        }
        if dag.is_brief(cfg, state, *schedule_seed, txs) {
            return Place::Here { teaches: false };
        }
        // What is said of the block, or known, may be worth other threads.
        let is_unknown = || match hints {
            Hints::Predict => txs.iter().any(|tx| !paralyze.is_ruled(state, tx)),
            Hints::None => true,
            _ => false,
        };
        let is_for_one = dag.prefers_caller(cfg, state, *schedule_seed, txs);
        if is_for_one && (*executor == Executor::Sequential || is_unknown()) {
            return Place::Here { teaches: true };
        }
        Place::Worker
    }

    /// Does `op` there. On a worker it is from beginning to end: threads that are woken between stages are left on one core
    /// by some systems.
    fn at<T: Send>(&mut self, place: Place, op: impl FnOnce(&mut Self) -> T + Send) -> T {
        match place {
            Place::Here { .. } => op(self),
            Place::Worker => {
                let workers = Arc::clone(&self.workers);
                workers.install(|| op(self))
            }
        }
    }

    /// The block with what the hints say of it.
    fn hinted(&mut self, txs: &[TxEnv], env: &BlockEnv, hints: Hints<'_>, place: Place) -> Block {
        let Self { state, workers, cfg, observer, executor, dag, paralyze, interner, schedule_seed, .. } = self;
        let order: Vec<u32> = (0..txs.len() as u32).collect();
        let mut sources = SourceCounts::default();
        let mut preimages = Preimages::new();
        if let (Hints::Predict, Place::Here { teaches: true }) = (hints, place) {
            paralyze.pass();
        }
        let max_simulated = || match dag.prefers_order(cfg, state, *schedule_seed, txs) {
            // Only the DAG could win it back, and it can do no more than rules will do for nothing.
            true => 0.0,
            false => max_simulated(workers.threads()),
        };
        let excepted = match hints {
            Hints::Exceptions(bytes) if *executor == Executor::Dag && place == Place::Worker => {
                observe(&**observer, Stage::Analyse, || excepted(paralyze, state, env, txs, bytes))
            }
            _ => None,
        };
        let sets = match hints {
            _ if *executor != Executor::Dag || place != Place::Worker => return Block::unpredicted(order),
            Hints::None => return Block::unpredicted(order),
            Hints::Exceptions(_) if let Some(excepted) = &excepted => {
                if excepted.unknown > max_simulated() {
                    return Block::unpredicted(order);
                }
                observe(&**observer, Stage::Analyse, || hints::intern(cfg, &excepted.sets, txs, interner))
            }
            Hints::Sets(sets) => observe(&**observer, Stage::Analyse, || hints::intern(cfg, sets, txs, interner)),
            Hints::Predict | Hints::Exceptions(_) | Hints::AccessList { .. } => {
                let mut batch = Batch::default();
                let is_predicted = observe(&**observer, Stage::Analyse, || {
                    let txs: Vec<_> = txs.iter().collect();
                    paralyze.analyse_within(state, env, &txs, max_simulated(), &mut batch)
                });
                if !is_predicted {
                    return Block::unpredicted(order);
                }
                observe(&**observer, Stage::Analyse, || {
                    let mut sets = AccessSets::new();
                    for index in 0..batch.len() {
                        intern(interner, &batch, index, &mut sets, &mut preimages);
                        sources.count(batch.source(index));
                    }
                    sets
                })
            }
        };
        let mut keys = Vec::new();
        interner.take_keys(&mut keys);
        let (sets, keys, preimages) = (sets.into(), keys.into(), preimages.into());
        Block { order, sets, keys, preimages, graph: None, alone: 0, ordering: Order::Given, frames: 0, sources }
    }
}

/// Runs the transactions of a block. Without predictions there is no DAG: a given order goes to Block-STM instead.
pub(crate) fn execute<'s>(
    executor: Executor,
    dag: &mut DagExecutor,
    stm: &mut StmExecutor,
    machine: &Machine<'s>,
    block: Block,
) -> Result<Run<'s>, Error> {
    let unpredicted = block.alone == block.order.len() && !block.order.is_empty();
    let tx = |index: &u32| &machine.txs[*index as usize];
    let in_order = |order: Vec<u32>, path: Option<&FastPath>, fallback| -> Result<Run<'s>, Error> {
        let mut open = Open::new(machine.state, machine.base.cloned(), Cells::default());
        open.extend_in_order(machine, path, order)?;
        let mut run = open.take(machine)?;
        run.stats.fallback = fallback;
        Ok(run)
    };
    match executor {
        Executor::Dag if !unpredicted => dag.execute(machine, block, stm),
        Executor::Dag
            if dag.prefers_order(machine.cfg, machine.state, machine.schedule_seed, block.order.iter().map(tx)) =>
        {
            in_order(block.order, dag.fast_path(machine), true)
        }
        Executor::Dag | Executor::BlockStm => {
            let stats = RunStats { fallback: executor == Executor::Dag, ..RunStats::default() };
            observe(machine.observer, Stage::Execute, || stm.execute(machine, block.order, stats))
        }
        Executor::Sequential => in_order(block.order, None, false),
    }
}

/// The state that the first transaction meets, and what was done to get there.
pub(crate) fn before<'s>(
    chain: &ChainSpec,
    state: &'s State,
    cfg: &VmConfig,
    env: &BlockEnv,
    payload: &Payload<'_>,
) -> Result<(Overlay<'s>, Footprint), BlockError> {
    let mut footprint = Footprint::default();
    let mut overlay = Overlay::new(state, AccountRules::new(cfg.spec, state.bare_storage));
    for step in chain.pre_steps(payload.header, cfg.spec) {
        match step {
            PreStep::Drain { accounts, refund } => {
                for account in accounts {
                    let balance = overlay.drain(*account).map_err(Error::from)?;
                    footprint.add_payment(*account, balance, U256::ZERO);
                    pay(&mut overlay, refund, balance, &mut footprint)?;
                }
            }
            // Where there is no contract yet the call does nothing, and a failure is the contract's affair.
            PreStep::SystemCall { to, data } => {
                _ = Sequential::new(&mut overlay, cfg, env).system_call(to, data.into(), &mut footprint)?;
            }
        }
    }
    Ok((overlay, footprint))
}

/// A payment by the protocol.
fn pay(overlay: &mut Overlay<'_>, address: Address, amount: U256, footprint: &mut Footprint) -> Result<(), BlockError> {
    let key = StateKey::Basic(address);
    let before = overlay.get(&key).map_err(Error::from)?.number;
    overlay.credit(address, amount).map_err(Error::from)?;
    let after = overlay.get(&key).map_err(Error::from)?.number;
    footprint.add_payment(address, before, after);
    Ok(())
}

/// The verdict on the transactions: that of the first one which is not valid, where the outcomes end.
pub(crate) fn judge(gas_limit: u64, txs: &[TxEnv], outcomes: &[Outcome]) -> Result<(), BlockError> {
    judge_prefix(gas_limit, txs, outcomes)?;
    if outcomes.len() < txs.len() {
        return Err(Error::Evm { index: outcomes.len(), reason: "it was not executed".into() }.into());
    }
    Ok(())
}

/// The verdict on the transactions that have an outcome, and on the gas that the next one wants.
pub(crate) fn judge_prefix(gas_limit: u64, txs: &[TxEnv], outcomes: &[Outcome]) -> Result<(), BlockError> {
    let mut left = gas_limit;
    for (index, tx) in txs.iter().enumerate() {
        if tx.gas_limit > left {
            return Err(BlockError::GasLimit { index, gas_limit: tx.gas_limit, left });
        }
        match outcomes.get(index) {
            Some(Outcome::Skipped(reason)) => {
                return Err(BlockError::InvalidTransaction { index, reason: reason.clone() });
            }
            Some(outcome) => left = left.saturating_sub(outcome.gas_used()),
            None => break,
        }
    }
    Ok(())
}

/// What the protocol does when the transactions are through: the requests that it makes of consensus (EIP-7685), and what
/// it did to the state.
pub(crate) fn after(
    chain: &ChainSpec,
    cfg: &VmConfig,
    env: &BlockEnv,
    payload: &Payload<'_>,
    overlay: &mut Overlay<'_>,
    outcomes: &[Outcome],
) -> Result<(Option<Vec<Bytes>>, Footprint), BlockError> {
    let mut footprint = Footprint::default();
    for (address, amount) in chain.post_credits(payload.header, payload.ommers, payload.withdrawals) {
        pay(overlay, address, amount, &mut footprint)?;
    }
    if !cfg.spec.is_enabled_in(SpecId::PRAGUE) {
        return Ok((None, footprint));
    }
    let logs = outcomes.iter().filter_map(Outcome::result).flat_map(|result| result.logs());
    let deposits = chain.deposit_requests(logs).map_err(|error| BlockError::Deposit { what: error.to_string() })?;
    let mut requests = Vec::from_iter(deposits);
    for (kind, address) in chain.request_calls(cfg.spec) {
        let address = *address;
        let code = overlay.get(&StateKey::Basic(address)).map_err(Error::from)?.code;
        if code.is_none() {
            return Err(BlockError::SystemContract { address, what: "has no code" });
        }
        let result = Sequential::new(overlay, cfg, env).system_call(address, Bytes::new(), &mut footprint)?;
        if !result.is_success() {
            return Err(BlockError::SystemContract { address, what: "failed" });
        }
        if let Some(output) = result.output().filter(|output| !output.is_empty()) {
            requests.push(Bytes::from_iter([*kind].iter().chain(output).copied()));
        }
    }
    Ok((Some(requests), footprint))
}
