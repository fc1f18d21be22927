//! Predictions of a block in a given order, from hints or by ParaLyze; and its true access sets.

use super::{Engine, exceptions::excepted, judge::judge, protocol::before, run_on::RunOn, setting::Setting};
use crate::{
    exec::{block_gas::BlockGas, serial::Sequential},
    model::{BlockError, Executor, GasRoom, GasRules, Hints, Order, RecoveredBlock, Stage, observe},
    plan::{Block, SourceCounts, hints, intern::intern},
};
use phalanx_access::AccessSets;
use phalanx_paralyze::{Batch, DryRuns, Preimages, StateKey, observed};
use revm::context::{BlockEnv, TxEnv};

/// Maximum share of a block's gas that is simulated. Simulating a transaction costs as much as executing it, learning from it
/// more. Beyond this share the DAG cannot win that back on a given order, and the block goes to Block-STM without predictions.
/// `threads` divide the simulation as they do the execution, but one has nothing to win.
const fn max_simulated(threads: usize) -> f64 {
    0.25 * (1.0 - 1.0 / threads as f64)
}

impl Engine {
    /// Predicts the block in its given order, as far as that pays.
    pub(super) fn predict(
        &mut self,
        txs: &[TxEnv],
        env: &BlockEnv,
        hints: Hints<'_>,
        run_on: RunOn,
        setting: Setting<'_>,
    ) -> Block {
        let order: Vec<u32> = (0..txs.len() as u32).collect();
        if let (Hints::Predict, RunOn::Caller { teaches: true }) = (hints, run_on) {
            self.paralyze.pass();
        }
        let Self { state, workers, cfg, observer, options, paralyze, interner, .. } = self;
        let state = setting.state(state);
        let policy = options.policy(cfg, state, workers);
        let max_simulated = || match policy.prefers_serial(txs) {
            // Only the DAG could win it back, and it gains no more than the free rules give.
            true => 0.0,
            false => max_simulated(workers.threads()),
        };
        let is_on_dag = setting.executor == Executor::Dag && run_on == RunOn::Worker;
        if !is_on_dag || matches!(hints, Hints::None) {
            return Block::unpredicted(order);
        }
        let mut sources = SourceCounts::default();
        let mut preimages = Preimages::new();
        let excepted = match hints {
            Hints::Exceptions(bytes) => {
                observe(&**observer, Stage::Analyse, || excepted(paralyze, &state, env, txs, bytes))
            }
            _ => None,
        };
        let sets = match (hints, &excepted) {
            (_, Some(excepted)) => {
                if excepted.unknown > max_simulated() {
                    return Block::unpredicted(order);
                }
                observe(&**observer, Stage::Analyse, || hints::intern(cfg, &excepted.sets, txs, interner))
            }
            (Hints::Sets(sets), _) => observe(&**observer, Stage::Analyse, || hints::intern(cfg, sets, txs, interner)),
            _ => {
                let mut batch = Batch::default();
                let is_predicted = observe(&**observer, Stage::Analyse, || {
                    let txs: Vec<_> = txs.iter().collect();
                    let max_share = max_simulated();
                    // Gas limits may exceed the block's many times; what the block can use may not.
                    let max_gas = (env.gas_limit as f64 * max_share.min(1.0)) as u64;
                    let dry = DryRuns { max_share, max_gas, earlier: &|_| Vec::new(), is_free: false };
                    paralyze.analyse_bounded(&state, env, &txs, &dry, &mut batch)
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
        Block { sets, keys, preimages, serial_tail: 0, ordering: Order::Given, sources, ..Block::unpredicted(order) }
    }

    /// Returns the accesses of each transaction in a sequential run on the committed state: a perfect hint.
    ///
    /// # Errors
    /// The errors of [`Self::execute_block`].
    pub fn true_sets(&mut self, payload: &RecoveredBlock<'_>) -> Result<AccessSets<StateKey>, BlockError> {
        let env = self.follow(payload)?;
        let (mut overlay, _) = before(self.resources(), &env, payload)?;
        let mut sequential = Sequential::new(&mut overlay, &self.cfg, &env);
        let mut sets = AccessSets::new();
        let mut outcomes = Vec::with_capacity(payload.txs.len());
        let rules = GasRules::of(&self.cfg);
        let mut gas = BlockGas::new(rules, Some(GasRoom::new(payload.header.gas_limit)));
        for (index, tx) in payload.txs.iter().enumerate() {
            if !gas.admits(tx) {
                break;
            }
            // Payments to the beneficiary are left out: as predictions they would chain all transactions.
            let (outcome, state) = sequential.run_unpaid(index, tx)?;
            let set = observed(&state);
            sets.push(
                set.as_slice().iter().map(|(key, access)| (*key, hints::relaxed(&self.cfg, tx, &state, key, *access))),
            );
            sequential.commit_unpaid(tx, &env, &outcome, &state)?;
            gas.follow(&outcome);
            outcomes.push(outcome);
        }
        judge(rules, payload.header.gas_limit, payload.txs, &outcomes)?;
        Ok(sets)
    }
}
