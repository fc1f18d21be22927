//! A whole block of the engine's chain in its given order: validate, before, transactions, after, seal.

use super::{
    Engine,
    environment::checked_env,
    judge::judge,
    listed::Listed,
    protocol::{after, before},
    run_on::RunOn,
};
use crate::{
    bal::{Footprint, List, Record},
    exec::{context::ExecContext, dispatch::Executors},
    model::{BlockError, Error, Hints, Payload, Stage, Txs, is_supported, observe},
    seal::{
        Executed, Sealing,
        access_list::{Around, compare, produce, refused},
    },
    state::CodeRule,
};
use revm::context::BlockEnv;

impl Engine {
    /// Executes a whole block of the engine's chain on the committed state: system calls, transactions in their order,
    /// withdrawals, rewards, requests. Nothing is committed.
    ///
    /// The block is judged like by sequential revm. The caller compares the header's statements about the outcome;
    /// headers, bodies and signatures are checked by [`ChainSpec`](crate::chain::ChainSpec).
    ///
    /// # Errors
    /// The block is invalid, with its lowest invalid transaction; or the engine failed.
    pub fn execute_block(&mut self, payload: &Payload<'_>, hints: Hints<'_>) -> Result<Executed, BlockError> {
        let env = self.follow(payload)?;
        let run_on = self.run_on(payload.txs, &hints);
        self.at(run_on, |engine| engine.execute_whole(payload, &env, hints, run_on))
    }

    /// Executes like [`Self::execute_block`], on its thread and by the rules of the block's time.
    fn execute_whole(
        &mut self,
        payload: &Payload<'_>,
        env: &BlockEnv,
        hints: Hints<'_>,
        run_on: RunOn,
    ) -> Result<Executed, BlockError> {
        let list = match self.validate_hints(payload, hints)? {
            Some((rlp, decoded)) => match self.execute_listed(payload, env, rlp, decoded)? {
                Listed::Executed(executed) => return Ok(*executed),
                Listed::Unsuited(decoded) => Some(*decoded),
            },
            None => None,
        };
        let block = self.predict(payload.txs, env, hints, run_on);
        let (is_predicted, sources) = (block.is_predicted(), block.sources);
        let (resources, executors) = self.split();
        let (state, observer) = (resources.state, resources.observer);

        let (base, first) = observe(observer, Stage::Execute, || before(resources, env, payload))?;

        let record = (resources.access_lists || list.is_some()).then(|| Record::new(&block.order));
        let gas_limit = payload.header.gas_limit;
        let txs = Txs::List(payload.txs);
        let (base, gas, record) = (&base, Some(gas_limit), record.as_ref());
        let ctx = ExecContext { base: Some(base), gas, record, ..ExecContext::new(resources, env, txs) };
        let mut run = executors.execute(resources.executor, &ctx, block)?;
        let stats = run.stats;

        let ended = judge(gas_limit, payload.txs, &run.outcomes).and_then(|()| {
            let after = || after(resources, env, payload, run.after.overlay(), &run.outcomes);
            observe(observer, Stage::Execute, after)
        });

        let executed = observe(observer, Stage::Seal, || {
            let (ended, last) = match ended {
                Ok((requests, last)) => (Ok(requests), last),
                Err(error) => (Err(error), Footprint::default()),
            };
            let around = Around { base, first: &first, last: &last };
            let access_list = match (record, list) {
                (Some(record), Some(list)) => Some(compare(state, &list, &around, env, &run, record, ended.is_ok())?),
                (Some(record), None) if ended.is_ok() => Some(produce(state, Some(&around), env, &run, record)?.0),
                _ => None,
            };
            let spec = resources.cfg.spec;
            let sealing = Sealing { sources, requests: ended?, access_list, ..Sealing::new(state, spec, env) };
            Executed::seal(run, txs, sealing, observer).map_err(BlockError::Engine)
        })?;
        if matches!(hints, Hints::Predict) && run_on.teaches() {
            self.study(env, payload.txs, executed.block().gas_used(), is_predicted, &stats);
        }
        Ok(executed)
    }

    /// Checks hints as far as possible without execution; returns a block access list as received, and decoded.
    fn validate_hints<'h>(
        &self,
        payload: &Payload<'_>,
        hints: Hints<'h>,
    ) -> Result<Option<(&'h [u8], List)>, BlockError> {
        match hints {
            Hints::Sets(sets) if sets.len() != payload.txs.len() => {
                Err(BlockError::Hints { hints: sets.len(), txs: payload.txs.len() })
            }
            Hints::AccessList { rlp, hash } => {
                let decode = || List::decode(rlp, hash, payload, self.cfg.spec);
                let list = observe(&*self.observer, Stage::Schedule, decode).map_err(refused(None))?;
                Ok(Some((rlp, list)))
            }
            _ => Ok(None),
        }
    }

    /// Applies the rules of the block's time, and returns its environment.
    pub(crate) fn follow(&mut self, payload: &Payload<'_>) -> Result<BlockEnv, BlockError> {
        let spec = self.chain.spec(payload.header);
        let cfg = self.chain.cfg(spec, payload.header.timestamp);
        if cfg != self.cfg.cfg {
            if !is_supported(&cfg) {
                return Err(Error::UnsupportedSpec { spec }.into());
            }
            let cfg = self.cfg.with_cfg(cfg);
            self.executors = Executors::new(&cfg, self.workers.threads(), self.options, self.salt);
            self.paralyze.set_cfg(cfg.clone());
            self.state.follow(CodeRule::of(cfg.spec));
            self.cfg = cfg;
        }
        self.state.begin();
        Ok(checked_env(&self.chain.env(payload.header), spec)?)
    }
}
