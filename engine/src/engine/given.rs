//! A block in a given order that consists of its transactions alone.

use super::{Engine, environment::checked_env, judge::judge, run_on::RunOn};
use crate::{
    exec::context::ExecContext,
    model::{BlockError, Hints, Invalid, Stage, Txs, observe},
    seal::{Executed, Sealing},
};
use revm::context::{BlockEnv, TxEnv};

impl Engine {
    /// Executes transactions in their order as one block of a chain whose blocks are nothing else: no system calls,
    /// withdrawals or requests. Nothing is committed. The block has no access list.
    ///
    /// # Errors
    /// If a transaction is invalid and `invalid` says that the block is then, too: the lowest one; or if the engine failed.
    pub fn execute_given(&mut self, env: &BlockEnv, txs: &[TxEnv], invalid: Invalid) -> Result<Executed, BlockError> {
        self.enter_plain(env)?;
        let run_on = self.run_on(txs, &Hints::Predict);
        self.at(run_on, |engine| engine.execute_in_order(env, txs, invalid, run_on))
    }

    /// [`Self::execute_given`] on its thread.
    fn execute_in_order(
        &mut self,
        env: &BlockEnv,
        txs: &[TxEnv],
        invalid: Invalid,
        run_on: RunOn,
    ) -> Result<Executed, BlockError> {
        let env = &checked_env(env, self.cfg.spec)?;
        let block = {
            let setting = self.own_setting();
            self.predict(txs, env, Hints::Predict, run_on, setting)
        };
        let (is_predicted, sources) = (block.is_predicted(), block.sources);
        let (resources, executors) = self.split();
        let gas = (invalid == Invalid::Refuse).then_some(env.gas_limit);
        let list = Txs::List(txs);
        let ctx = ExecContext { gas, ..ExecContext::new(resources, env, list) };
        let run = executors.execute(resources.executor, &ctx, block)?;
        let stats = run.stats;
        if let Some(gas_limit) = gas {
            judge(ctx.gas_rules, gas_limit, txs, &run.outcomes)?;
        }
        let observer = resources.observer;
        let executed = observe(observer, Stage::Seal, || {
            let sealing = Sealing { sources, ..Sealing::new(resources.state, resources.cfg, env) };
            Executed::seal(run, list, sealing, observer)
        })?;
        if run_on.teaches() {
            self.study(env, txs, executed.block().gas_used(), is_predicted, &stats, self.own_setting());
        }
        Ok(executed)
    }
}
