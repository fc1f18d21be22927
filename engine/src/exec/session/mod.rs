//! A block whose transactions come batch after batch. The value of every touched key stays in its cell for later
//! batches, so that a batch loads only new keys. The block is finished once: the changes of all batches are those of
//! one long block.
//!
//! ```text
//!   ground ──► cells ◄── wave ◄── wave ◄── wave       changes = what the cells hold, or the ground under them
//!     ▲          │
//!     └── fold ◄─┘   before transactions that run one by one, free to touch anything
//! ```
//!
//! The *ground* is the block's base state with the changes of serial transactions. To *fold* is to apply the cells to it.
//!
//! Between two waves no transaction runs, so a wave sees what one DAG of all transactions would show.

mod close;
mod serial;
mod settle;

use crate::{
    exec::{
        block_gas::BlockGas,
        cells::{Cells, LOAD_PIECE, Still},
        context::ExecContext,
        dag::{DagExecutor, Wave, rewards::Rewards, slots::Filled, view::Shared},
        fast_path::FastPath,
        outcomes::Outcomes,
        overlay::Overlay,
        run::RunStats,
    },
    model::{Error, Order, Outcome, Stage, observe, observe_fork},
    plan::{
        Block,
        graph::{Graph, with_shares},
    },
    state::{StateError, StateRef},
};
use alloy_primitives::{Address, U256, map::AddressMap};
use phalanx_access::{AccessSets, KeyId};
use phalanx_memory::Pooled;
use phalanx_paralyze::{ChainRules, Preimages, StateKey};
use phalanx_parascheduler::{Report, TxIndex};
use settle::Settled;
use std::sync::{Arc, atomic::AtomicBool};

/// A block in execution. After an error it must not be used any more.
#[derive(Debug)]
pub(crate) struct BlockSession<'s> {
    state: StateRef<'s>,
    /// State below the cells; `None` for the committed state.
    ground: Option<Overlay<'s>>,
    /// Keys of the cells.
    keys: Pooled<Vec<StateKey>>,
    cells: Cells,
    /// Id of the beneficiary's balance, if some transaction has named it.
    beneficiary: Option<KeyId>,
    /// Recipients of shares, with the ids of their balances, while there are cells.
    payees: Vec<(Address, KeyId)>,
    /// Reward that the beneficiary has earned and was not paid yet. It fits into its balance. `None` if there is
    /// nothing to pay, which differs from a reward of zero before EIP-161.
    owed: Option<U256>,
    /// Transactions that stayed, in final order.
    order: Vec<u32>,
    outcomes: Outcomes,
    /// The changes of the transactions before this one are in the ground, those of the others in the cells.
    since: usize,
    /// Transactions of the last batch that did not stay, in its order.
    left: Vec<Left>,
    stats: RunStats,
}

/// A transaction that did not run, or escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) tx: u32,
    pub(crate) why: Why,
}

/// Reason why a transaction left its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The transaction reached outside its predicted set.
    Escaped,
    /// The transaction may depend on one that left.
    Withdrawn,
    /// A builder had to stop, or had no room.
    Unstarted,
}

/// A given order with useless predictions: [`BlockSession::take_over`] executes the rest of it otherwise.
#[derive(Debug)]
#[must_use = "what is handed over has not been executed"]
pub(crate) struct HandOver {
    /// Transactions of the batch, and the number of settled ones.
    order: Vec<u32>,
    settled: usize,
    /// Transactions that run serially behind them.
    tail: Vec<u32>,
    gas: BlockGas,
    /// Number of executions of the batch so far.
    executions: usize,
}

impl<'s> BlockSession<'s> {
    /// A block without transactions on `ground`; on the committed state, if that is `None`. `cells` are memory.
    pub(crate) fn new(state: StateRef<'s>, ground: Option<Overlay<'s>>, mut cells: Cells) -> Self {
        cells.clear();
        Self {
            state,
            ground,
            keys: Pooled::default(),
            cells,
            beneficiary: None,
            payees: Vec::new(),
            owed: None,
            order: Vec::new(),
            outcomes: Outcomes::default(),
            since: 0,
            left: Vec::new(),
            stats: RunStats::default(),
        }
    }

    /// Keys with a cell. The next batch's [`Block::keys`] are those that follow them.
    pub(crate) fn keys(&self) -> &[StateKey] {
        &self.keys
    }

    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    pub(crate) fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Transactions of the last batch that did not stay.
    pub(crate) fn left(&self) -> &[Left] {
        &self.left
    }

    /// Present parts of the block's state, without the deferred rewards.
    pub(crate) const fn look(&mut self) -> (Option<&Overlay<'s>>, Still<'_>) {
        (self.ground.as_ref(), self.cells.still())
    }

    /// Removes invalid transactions, which had no effect, from position `from` on.
    pub(crate) fn drop_skipped(&mut self, from: usize, mut dropped: impl FnMut(u32, Outcome)) {
        if self.outcomes[from..].iter().all(|outcome| outcome.result().is_some()) {
            return;
        }
        let tail = self.order.split_off(from).into_iter().zip(self.outcomes.split_off(from));
        for (tx, outcome) in tail {
            if outcome.result().is_some() {
                self.order.push(tx);
                self.outcomes.push(outcome);
            } else {
                dropped(tx, outcome);
            }
        }
        self.since = self.since.min(self.order.len());
    }

    /// Runs another batch on the DAG, of transactions that are predicted in terms of [`Self::keys`] and the keys that
    /// it brings; the serial tail one by one. Returns the position from which on order and outcomes are new: earlier
    /// than the batch only if the block had to run again serially. A given order of which too much escapes is handed
    /// over.
    ///
    /// # Errors
    /// The store is corrupt or the EVM fails.
    pub(crate) fn extend(
        &mut self,
        dag: &mut DagExecutor,
        ctx: &ExecContext<'_>,
        block: Block,
    ) -> Result<(usize, Option<HandOver>), Error> {
        self.left.clear();
        let given = block.ordering == Order::Given;
        if given && self.since < self.order.len() {
            // Settling begins with the state before the batch.
            self.fold(ctx)?;
        }
        let from = self.order.len();
        if self.keys.is_empty() && self.beneficiary_is_empty_existing(ctx)? {
            self.stats.fallback = true;
            observe(ctx.observer, Stage::Execute, || self.run_serial(ctx, dag.fast_path(), block.order))?;
            return Ok((from, None));
        }
        let Block { mut order, sets, keys, preimages, graph, serial_tail, .. } = block;
        let tail = order.split_off(order.len() - serial_tail);
        // A planner knows no shares.
        let graph = graph.filter(|_| ctx.cfg.rules().is_none());
        let graph = graph.and_then(|ahead| ahead.into_graph(ctx.env.beneficiary));
        let (shared, graph) =
            observe(ctx.observer, Stage::Schedule, || self.schedule(dag, ctx, sets, keys, preimages, graph))?;
        observe(ctx.observer, Stage::Execute, || {
            let (wave, shared) = dag.wave(ctx, &order, given, shared, graph)?;
            let path = dag.fast_path();
            let from = match self.follow(ctx, path, order, given, wave, shared)? {
                Followed::Done { from } => from,
                Followed::HandOver(rest) => return Ok((from, Some(HandOver { tail, ..rest }))),
            };
            self.run_tail(ctx, path, tail)?;
            Ok((from, None))
        })
    }

    /// True if a zero reward would delete the beneficiary (EIP-161), which is no credit. Only a genesis or times before
    /// Spurious Dragon leave such an account; no transaction makes one any more.
    fn beneficiary_is_empty_existing(&self, ctx: &ExecContext<'_>) -> Result<bool, Error> {
        let key = StateKey::Basic(ctx.env.beneficiary);
        let value = match &self.ground {
            Some(ground) => ground.get(&key)?,
            None => self.state.load(&key)?.0,
        };
        Ok(ctx.rules().clears_empty && value.is_empty_existing())
    }

    /// Loads the current value of every new key, and builds the graph unless it was built ahead.
    fn schedule(
        &mut self,
        dag: &mut DagExecutor,
        ctx: &ExecContext<'_>,
        sets: Pooled<AccessSets<KeyId>>,
        mut keys: Pooled<Vec<StateKey>>,
        preimages: Pooled<Preimages<KeyId>>,
        ahead: Option<Graph>,
    ) -> Result<(Shared, Graph), Error> {
        let state = self.state;
        let start = self.keys.len();
        if let Some(rules) = ctx.cfg.rules() {
            self.find_payees(rules, &mut keys);
        }
        if !keys.is_empty() {
            observe_fork(ctx.observer, Stage::Schedule, keys.len().div_ceil(LOAD_PIECE), || {
                ctx.workers.install(|| self.cells.load_more(state, &keys))
            })?;
        }
        if let Some(ground) = &self.ground {
            for (index, key) in (start..).zip(keys.iter()) {
                if let Some(value) = ground.replaced(key) {
                    self.cells.preset(KeyId(index as u32), value);
                }
            }
        }
        // A graph built ahead knows no keys but the block's own.
        let ahead = ahead.filter(|_| start == 0);
        if let Some(graph) = &ahead {
            self.beneficiary = graph.beneficiary;
        } else if self.beneficiary.is_none() {
            let beneficiary = StateKey::Basic(ctx.env.beneficiary);
            let position = keys.iter().position(|key| *key == beneficiary);
            self.beneficiary = position.map(|position| KeyId((start + position) as u32));
        }
        if start == 0 {
            self.keys = keys;
        } else {
            self.keys.extend_from_slice(&keys);
        }
        let graph = ahead.unwrap_or_else(|| {
            if self.payees.is_empty() {
                return dag.order(&sets, self.keys.len(), self.beneficiary);
            }
            let payees: Vec<KeyId> = self.payees.iter().map(|(_, id)| *id).collect();
            dag.order(&with_shares(&sets, &payees), self.keys.len(), self.beneficiary)
        });
        let rewards = self.beneficiary.filter(|_| graph.observed).map(|id| {
            self.pay(ctx, id);
            Rewards::new(id, sets.len())
        });
        let shared = Shared {
            keys: core::mem::take(&mut self.keys),
            sets,
            preimages,
            cells: core::mem::take(&mut self.cells),
            codes: Arc::clone(state.codes()),
            hashes: state.hashes(),
            rules: ctx.rules(),
            rewards,
            payees: self.payees.clone(),
            overflowed: AtomicBool::new(false),
        };
        Ok((shared, graph))
    }

    /// Finds the ids of the recipients of shares, and appends the missing ones to the new `keys`. O(keys), the first time.
    fn find_payees(&mut self, rules: &ChainRules, keys: &mut Vec<StateKey>) {
        let recipients = rules.recipients();
        if self.payees.len() == recipients.len() {
            return;
        }
        let mut ids: AddressMap<KeyId> = AddressMap::default();
        for (id, key) in (0..).zip(self.keys.iter().chain(keys.iter())) {
            if let StateKey::Basic(address) = key
                && recipients.binary_search(address).is_ok()
            {
                ids.insert(*address, KeyId(id));
            }
        }
        let known = self.keys.len();
        self.payees = recipients
            .into_iter()
            .map(|to| {
                let id = *ids.entry(to).or_insert_with(|| {
                    keys.push(StateKey::Basic(to));
                    KeyId((known + keys.len() - 1) as u32)
                });
                (to, id)
            })
            .collect();
    }

    /// Pays the owed reward into the beneficiary's cell, before a transaction reads it.
    fn pay(&mut self, ctx: &ExecContext<'_>, id: KeyId) {
        let Some(owed) = self.owed.take() else { return };
        // Before EIP-161 a zero reward makes the account exist; where it exists already, nothing is written.
        let creates = !ctx.rules().clears_empty && !self.cells.still().get(id).exists;
        if !owed.is_zero() || creates {
            let fits = self.cells.pay(id, owed);
            debug_assert!(fits, "what is owed fits");
        }
    }

    /// Takes the results of a wave over. Transactions that escaped or were withdrawn leave the batch in a free order; a given
    /// order is settled.
    ///
    /// A given order is handed over if more than [`serial::MAX_SETTLED`] transactions are late, and more than a quarter of the
    /// block. Where serial execution is as fast, it is settled all the same.
    fn follow(
        &mut self,
        ctx: &ExecContext<'_>,
        path: Option<&FastPath>,
        order: Vec<u32>,
        given: bool,
        wave: Wave,
        mut shared: Shared,
    ) -> Result<Followed, Error> {
        let from = self.order.len();
        let Wave { outcomes, made, logged, rewards, report, unstarted, critical_path, replayed } = wave;
        self.stats.replayed += replayed;
        let overflowed = *shared.overflowed.get_mut();
        let escapes = report.escaped.len() - unstarted.len();
        self.stats.escapes += escapes;
        if !report.is_clean() && given && !overflowed {
            let late = report.escaped.len() + report.withdrawn.len();
            let settled = outcomes.into_options().into_iter().zip(logged);
            let settled = settled.map(|(outcome, changes)| Some(Settled { outcome: outcome?, changes }));
            let tx = |tx: &u32| &ctx.txs[*tx as usize];
            let hands_over = late > serial::MAX_SETTLED.max(order.len() / 4)
                && ctx.workers.threads() > 1
                && !ctx.policy().prefers_serial(order.iter().map(tx));
            self.stats.critical_path += order.len();
            let rest = if hands_over {
                Some(self.settle_prefix(ctx, order, &shared, settled, escapes)?)
            } else {
                self.settle(ctx, order, &shared, settled, escapes)?;
                None
            };
            self.cells = shared.cells;
            self.forget_cells();
            return Ok(rest.map_or(Followed::Done { from }, Followed::HandOver));
        }
        let noted = shared.rewards;
        (self.keys, self.cells) = (shared.keys, shared.cells);
        if overflowed {
            // The effect of a credit past 2^256 depends on the order of credits.
            self.stats.reexecutions += order.len() - report.withdrawn.len();
            return self.run_again(ctx, path, order);
        }
        self.stats.critical_path += critical_path;
        match outcomes {
            Filled::All(outcomes) if self.order.is_empty() => {
                self.order = order;
                #[expect(unsafe_code, reason = "each was made by one thread")]
                // SAFETY: a wave runs every transaction at most once, and each worker records its own.
                let outcomes = unsafe { Outcomes::of_wave(outcomes, made, ctx.workers.downgrade()) };
                self.outcomes = outcomes;
            }
            outcomes => {
                for (index, (tx, outcome)) in (0..).zip(order.into_iter().zip(outcomes.into_options())) {
                    match outcome {
                        Some(outcome) => {
                            self.order.push(tx);
                            self.outcomes.push(outcome);
                        }
                        None => self.left.push(Left { tx, why: why(TxIndex(index), &unstarted, &report) }),
                    }
                }
            }
        }
        let earned = match &noted {
            // Rewards before the last read are paid.
            Some(noted) => noted.take_rest(),
            None => self.outcomes[from..].iter().any(|outcome| outcome.result().is_some()).then_some(rewards),
        };
        if let Some(earned) = earned {
            self.owed = Some(self.owed.unwrap_or_default().saturating_add(earned));
        }
        if let Some(owed) = self.owed
            && self.balance(ctx)?.checked_add(owed).is_none()
        {
            // No sum can express the beneficiary's balance.
            self.stats.reexecutions += self.order.len() - self.since;
            return self.run_again(ctx, path, Vec::new());
        }
        Ok(Followed::Done { from })
    }

    /// The beneficiary's balance without the owed reward.
    fn balance(&mut self, ctx: &ExecContext<'_>) -> Result<U256, StateError> {
        let key = StateKey::Basic(ctx.env.beneficiary);
        Ok(match (self.beneficiary, &self.ground) {
            (Some(id), _) => self.cells.still().get(id),
            (None, Some(ground)) => ground.get(&key)?,
            (None, None) => self.state.load(&key)?.0,
        }
        .number)
    }

    /// Drops the cells, their keys and the owed reward.
    fn forget_cells(&mut self) {
        self.keys.clear();
        self.cells.clear();
        (self.beneficiary, self.owed) = (None, None);
        self.payees.clear();
        self.since = self.order.len();
    }
}

/// Result of a wave for the session.
enum Followed {
    /// Order and outcomes are new from this position on.
    Done { from: usize },
    /// A part of the wave is settled, the rest is not executed.
    HandOver(HandOver),
}

/// Reason why a transaction of a wave has no outcome.
fn why(tx: TxIndex, unstarted: &[TxIndex], report: &Report) -> Why {
    if unstarted.binary_search(&tx).is_ok() {
        Why::Unstarted
    } else if report.escaped.binary_search(&tx).is_ok() {
        Why::Escaped
    } else {
        Why::Withdrawn
    }
}
