//! Learning from whole blocks, when there is time.

use crate::{
    engine::Engine,
    exec::run::RunStats,
    model::{BlockError, Executor, Payload, Stage, observe},
};
use phalanx_paralyze::ParaLyze;
use revm::context::{BlockEnv, TxEnv};

/// How much of their gas may be looked at again of blocks for which predictions were missing or wrong. It costs up to five
/// times that, so a twentieth of their sequential execution: learning must not cost what it may never bring in.
const STUDIED_SHARE: u64 = 100;

/// What is saved up before there is enough to study with: about one transaction.
const MIN_STUDIED_GAS: u64 = 100_000;

impl Engine {
    /// Teaches ParaLyze what the transactions of a block touch, on the state before it: templates that were wrong are
    /// corrected and trusted less, functions without one get theirs. Nothing is executed for its result, and no result
    /// changes; what is learned makes later blocks faster.
    ///
    /// Costs a sequential execution of the block, and several of each transaction that teaches something. A validator has
    /// that time between blocks.
    ///
    /// # Errors
    /// As [`Self::execute_block`].
    pub fn learn(&mut self, payload: &Payload<'_>) -> Result<(), BlockError> {
        let env = self.follow(payload)?;
        let sets = self.true_sets(payload)?;
        let Self { state, workers, paralyze, .. } = self;
        let truth: Vec<_> = payload.txs.iter().zip(sets.iter()).collect();
        workers.install(|| paralyze.learn(state, &env, &truth));
        Ok(())
    }

    /// Learns from a block that was predicted and ran on the state that the engine still stands on, if that went wrong:
    /// the block had no predictions, or transactions escaped. Where all goes well it costs nothing.
    pub(crate) fn study(&mut self, env: &BlockEnv, txs: &[TxEnv], is_predicted: bool, stats: &RunStats) {
        if !self.learning || self.executor != Executor::Dag || (is_predicted && stats.escapes == 0 && !stats.fallback) {
            return;
        }
        let gas = txs.iter().fold(0u64, |gas, tx| gas.saturating_add(tx.gas_limit)) / STUDIED_SHARE;
        self.unstudied = self.unstudied.saturating_add(gas);
        if self.unstudied < MIN_STUDIED_GAS {
            return;
        }
        let gas = core::mem::take(&mut self.unstudied);
        let Self { state, workers, paralyze, observer, .. } = self;
        observe(&**observer, Stage::Analyse, || workers.install(|| paralyze.study(state, env, txs, gas)));
    }

    /// Forgets what earlier blocks taught the engine itself: what predicts for whole blocks, and the calls that workers
    /// recorded. A [`Planner`](crate::plan::Planner) and a builder have predictions of their own. No result depends on it; it is
    /// for measurements that begin anew with the same block.
    pub fn forget(&mut self) {
        self.unstudied = 0;
        self.paralyze.forget();
        self.executors.dag.forget();
    }

    /// What predicts for blocks in a given order, and what it has learned.
    pub const fn paralyze(&mut self) -> &mut ParaLyze {
        &mut self.paralyze
    }
}
