//! Learning from whole blocks, within a bound on its cost.

use super::setting::Setting;
use crate::{
    engine::Engine,
    exec::run::RunStats,
    model::{BlockError, Executor, RecoveredBlock, Stage, observe},
    state::StateRef,
};
use phalanx_paralyze::ParaLyze;
use revm::context::{BlockEnv, TxEnv};

/// Divisor of the gas of badly predicted blocks that may be studied. Studying costs up to five times the execution of
/// that gas, so a twentieth of the blocks' sequential execution: learning must not cost what it may never gain.
const STUDIED_SHARE: u64 = 100;

/// Ratio of the gas limits of a block to the gas that it used up to which they count: honest limits are a few times the use.
const USED_TIMES: u64 = 16;

/// Minimum gas that is studied at once: about one transaction.
const MIN_STUDIED_GAS: u64 = 100_000;

impl Engine {
    /// Teaches ParaLyze the accesses of a block's transactions, on the state before it. Wrong templates are corrected
    /// and trusted less; functions without a template get one. No result changes; later blocks become faster.
    ///
    /// Costs a sequential execution of the block, and several of each transaction that teaches something. A validator
    /// has that time between blocks.
    ///
    /// # Errors
    /// The errors of [`Self::execute_block`].
    pub fn learn(&mut self, payload: &RecoveredBlock<'_>) -> Result<(), BlockError> {
        let env = self.follow(payload)?;
        let sets = self.true_sets(payload)?;
        let Self { state, workers, paralyze, .. } = self;
        let truth: Vec<_> = payload.txs.iter().zip(sets.iter()).collect();
        workers.install(|| paralyze.learn(&StateRef::Own(state), &env, &truth));
        Ok(())
    }

    /// Learns from a badly predicted block that ran on the engine's present state and used this much gas: it had no
    /// predictions, or transactions escaped. What pays is the gas used: a limit costs nothing, so it counts within bounds. Costs nothing where predictions were right.
    pub(super) fn study(
        &mut self,
        env: &BlockEnv,
        txs: &[TxEnv],
        used: u64,
        is_predicted: bool,
        stats: &RunStats,
        setting: Setting<'_>,
    ) {
        if !self.learning
            || setting.executor != Executor::Dag
            || (is_predicted && stats.escapes == 0 && !stats.fallback)
        {
            return;
        }
        let limits = txs.iter().fold(0u64, |gas, tx| gas.saturating_add(tx.gas_limit)).min(env.gas_limit);
        self.unstudied = self.unstudied.saturating_add(limits.min(used.saturating_mul(USED_TIMES)) / STUDIED_SHARE);
        if self.unstudied < MIN_STUDIED_GAS {
            return;
        }
        let gas = core::mem::take(&mut self.unstudied);
        let Self { state, workers, paralyze, observer, .. } = self;
        observe(&**observer, Stage::Analyse, || {
            workers.install(|| paralyze.study(&setting.state(state), env, txs, gas))
        });
    }

    /// Forgets what earlier blocks taught the engine itself: the predictor of whole blocks, and the calls that workers
    /// recorded. A [`Planner`](crate::plan::Planner) and a builder have predictions of their own. No result depends on
    /// it; it serves measurements that begin anew with the same block.
    pub fn forget(&mut self) {
        self.unstudied = 0;
        self.paralyze.forget();
        self.executors.dag.forget();
    }

    /// Predictor of blocks in a given order, with its templates.
    pub const fn paralyze(&mut self) -> &mut ParaLyze {
        &mut self.paralyze
    }
}
