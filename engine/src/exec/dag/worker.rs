//! A worker's EVM: built once, used for every transaction that the worker runs.

use crate::{
    bal::Footprint,
    exec::{
        dag::view::{Change, Refused, Shared, View},
        fast_path::FastPath,
        journal::clear,
        trace::{Function, Plan, Recorder, Rehearsal, Tracer},
    },
    model::{Outcome, Traces, payments, reward},
};
use alloy_primitives::{Address, U256};
use phalanx_paralyze::{ChainRules, DeferredReward, Payments, StateKey, Vm, VmConfig, run_unpaid};
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::result::{EVMError, ExecutionResult, InvalidTransaction},
    state::{Account, TransactionId},
};
use std::sync::Arc;

/// Result of a run on the worker.
#[derive(Debug)]
pub(crate) enum Ran {
    /// Final, with the reward that is owed to the beneficiary.
    Final(Outcome, U256),
    /// The transaction reached for this key outside its predicted set and published nothing.
    Escaped(StateKey),
    /// The EVM failed for a reason that is neither the transaction's nor the prediction's.
    Failed(String),
}

/// Lesson to be learned from a transaction that revm runs.
enum Lesson {
    Record(Function),
    Compare(Rehearsal),
}

/// An EVM with its view of the block.
#[derive(Debug)]
pub(crate) struct Worker {
    evm: Vm<View, Recorder>,
    /// `None` if it is switched off, or the rules do not permit it.
    fast_path: Option<FastPath>,
    tracer: Option<Tracer>,
    /// Rules of the chain's own.
    rules: Option<Arc<ChainRules>>,
    /// Footprint of the last transaction, if footprints are wanted.
    footprint: Option<Footprint>,
    takes_footprints: bool,
    /// Number of replayed calls of the block.
    replayed: usize,
}

#[expect(unsafe_code, reason = "revm counts references to its memory buffer without atomics")]
// SAFETY: what keeps revm's `Evm` on a thread are `Rc`s of one memory buffer and pointers into bytecode. All clones of the
// `Rc` live in the context and the frame stack of the same `Evm`, the bytecode is kept alive by an `Arc` beside the
// pointer, and neither ever leaves the worker; so moving the worker as a whole moves every reference at once.
unsafe impl Send for Worker {}

impl Worker {
    pub(crate) fn new(cfg: &VmConfig, fast_path: bool, traces: Traces) -> Self {
        let fast_path = FastPath::new(cfg, fast_path);
        let evm = cfg.build_with_known_slots(View::default()).with_inspector(Recorder::default());
        let (tracer, rules) = (Tracer::new(cfg, traces), cfg.shared_rules());
        Self { evm, fast_path, tracer, rules, footprint: None, takes_footprints: false, replayed: 0 }
    }

    /// Drops the recorded traces.
    pub(crate) fn forget(&mut self) {
        if let Some(tracer) = &mut self.tracer {
            tracer.forget();
        }
    }

    /// Enters a block.
    pub(crate) fn enter(&mut self, block: Arc<Shared>, env: &BlockEnv, takes_footprints: bool) {
        self.takes_footprints = takes_footprints;
        self.evm.ctx.block = env.clone();
        if self.evm.ctx.journaled_state.database.enter(block) {
            // Traces name code by id.
            self.forget();
        }
        // The journal is empty between transactions, so every account is cold whatever the id; starting over keeps the
        // 32-bit counter from running out in a long-lived worker.
        self.evm.ctx.journaled_state.inner.transaction_id = TransactionId::ZERO;
    }

    /// Leaves the block. Returns the number of its replayed calls.
    pub(crate) fn leave(&mut self) -> usize {
        self.evm.ctx.journaled_state.database.leave();
        core::mem::take(&mut self.replayed)
    }

    /// Changes that the last transaction published.
    pub(crate) fn published(&self) -> &[Change] {
        self.evm.ctx.journaled_state.database.published()
    }

    /// Takes the footprint of the last transaction, if footprints are wanted and it ran.
    pub(crate) const fn take_footprint(&mut self) -> Option<Footprint> {
        self.footprint.take()
    }

    /// Runs transaction `index` of the block, which the DAG has released, and publishes its changes, unless `refuses`
    /// gives a reason against it.
    pub(crate) fn run(
        &mut self,
        index: usize,
        tx: &TxEnv,
        refuses: impl Fn(&ExecutionResult) -> Option<InvalidTransaction>,
    ) -> Ran {
        self.footprint = None;
        let (view, env) = (&mut self.evm.ctx.journaled_state.database, &self.evm.ctx.block);
        view.show(index);
        let mut footprint = self.takes_footprints.then(Footprint::default);
        let plan = match self.fast_path.as_ref().and_then(|path| path.run(view, tx, env, footprint.as_mut())) {
            Some(result) => Plan::Replayed(result),
            None => {
                let tracer = self.tracer.as_mut();
                let plan = tracer.map_or(Plan::Run, |tracer| tracer.plan(view, tx, env, footprint.as_mut()));
                self.replayed += usize::from(matches!(plan, Plan::Replayed(_) | Plan::Compare(_)));
                plan
            }
        };
        match plan {
            Plan::Replayed(result) => {
                if let Some(reason) = refuses(&result) {
                    return Ran::Final(Outcome::Skipped(reason), U256::ZERO);
                }
                let outcome = Outcome::Executed(result);
                let mut reward = reward(tx, env, &outcome);
                let mut shares = Vec::new();
                if let Some(rules) = self.rules.as_deref() {
                    Payments { reward, shares } = payments(rules, tx, env, &outcome, reward);
                    view.share(shares.iter().copied());
                }
                view.publish_prepared(reward, |_| false);
                if let Some(footprint) = &mut footprint {
                    footprint.owe(reward, shares);
                }
                self.footprint = footprint;
                Ran::Final(outcome, reward)
            }
            Plan::Run => self.interpret(tx, None, refuses),
            Plan::Compare(rehearsal) => self.interpret(tx, Some(Lesson::Compare(rehearsal)), refuses),
            Plan::Record(function) => self.interpret(tx, Some(Lesson::Record(function)), refuses),
        }
    }

    /// Runs a transaction on revm.
    fn interpret(
        &mut self,
        tx: &TxEnv,
        lesson: Option<Lesson>,
        refuses: impl Fn(&ExecutionResult) -> Option<InvalidTransaction>,
    ) -> Ran {
        self.evm.ctx.tx.clone_from(tx);
        let result = match &lesson {
            Some(Lesson::Record(function)) => {
                Tracer::watch(function, &mut self.evm.inspector);
                DeferredReward::inspect(&mut self.evm)
            }
            _ => run_unpaid(self.rules.as_deref(), &mut self.evm),
        };
        let ran = match result {
            Ok(result) => self.finish(tx, result, lesson, refuses),
            Err(EVMError::Transaction(reason)) => Ran::Final(Outcome::Skipped(reason), U256::ZERO),
            Err(EVMError::Database(refused)) => Self::refused(refused),
            Err(other) => Ran::Failed(other.to_string()),
        };
        clear(&mut self.evm.ctx.journaled_state.inner.state);
        ran
    }

    /// Publishes the changes of revm.
    fn finish(
        &mut self,
        tx: &TxEnv,
        result: ExecutionResult,
        lesson: Option<Lesson>,
        refuses: impl Fn(&ExecutionResult) -> Option<InvalidTransaction>,
    ) -> Ran {
        let env = &self.evm.ctx.block;
        let journal = &mut self.evm.ctx.journaled_state;
        let (view, state) = (&mut journal.database, &journal.inner.state);
        let rehearsal = match (lesson, &mut self.tracer) {
            (Some(Lesson::Compare(rehearsal)), _) => Some(rehearsal),
            (Some(Lesson::Record(function)), Some(tracer)) => {
                tracer.learn(function, &mut self.evm.inspector, view, tx, env)
            }
            _ => None,
        };
        if let Err(refused) = view.collect(state) {
            return Self::refused(refused);
        }
        if let Some((tracer, rehearsal)) = self.tracer.as_mut().zip(rehearsal)
            && !tracer.judge(rehearsal, &result, view.published())
            && tracer.is_checked()
        {
            return Ran::Failed(format!("a trace of {:?} differs from revm, which says {result:?}", tx.kind));
        }
        if let Some(reason) = refuses(&result) {
            return Ran::Final(Outcome::Skipped(reason), U256::ZERO);
        }
        let outcome = Outcome::Executed(result);
        let mut reward = reward(tx, env, &outcome);
        let mut shares = Vec::new();
        if let Some(rules) = self.rules.as_deref() {
            Payments { reward, shares } = payments(rules, tx, env, &outcome, reward);
            // A payment of an account that the transaction has destroyed goes with it.
            shares.retain(|(to, _)| !state.get(to).is_some_and(Account::is_selfdestructed));
            view.share(shares.iter().copied());
        }
        view.publish(state, reward);
        if self.takes_footprints {
            let is_blind = |address: &Address| view.credits(address);
            let footprint = Footprint::unpaid(state, view.rules(), is_blind, &env.beneficiary, reward);
            self.footprint = Some(footprint.with_shares(shares));
        }
        Ran::Final(outcome, reward)
    }

    fn refused(refused: Refused) -> Ran {
        match refused {
            Refused::Escape(key) => Ran::Escaped(key),
            Refused::UnknownCode(_) => Ran::Failed(refused.to_string()),
        }
    }
}
