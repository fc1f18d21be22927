//! A whole block of the engine's chain in its given order: validate, before, transactions, after, seal.

use super::{
    Engine,
    environment::checked_env,
    judge::judge,
    listed::Listed,
    protocol::{after, before},
    run_on::RunOn,
    setting::Setting,
};
use crate::{
    bal::{Footprint, List, Record, hints_beside},
    exec::context::ExecContext,
    model::{BlockError, Error, Hints, Invalid, RecoveredBlock, Stage, Txs, observe},
    seal::{
        Executed, Sealing,
        access_list::{Around, check_own, compare, produce, refused},
    },
    state::State,
};
use alloy_consensus::Header;
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
    pub fn execute_block(&mut self, payload: &RecoveredBlock<'_>, hints: Hints<'_>) -> Result<Executed, BlockError> {
        self.execute_by(payload, hints, Invalid::Refuse, self.own_setting())
    }

    /// Executes like [`Self::execute_block`], for a caller that adds to the changes before they are merkleized, with invalid
    /// transactions refused or skipped. A block with an access list has none.
    pub(crate) fn execute_open_block(
        &mut self,
        payload: &RecoveredBlock<'_>,
        hints: Hints<'_>,
        invalid: Invalid,
    ) -> Result<Executed, BlockError> {
        self.execute_by(payload, hints, invalid, Setting { is_complete: false, ..self.own_setting() })
    }

    fn execute_by(
        &mut self,
        payload: &RecoveredBlock<'_>,
        hints: Hints<'_>,
        invalid: Invalid,
        setting: Setting<'static>,
    ) -> Result<Executed, BlockError> {
        let env = self.follow(payload)?;
        let run_on = self.run_on(payload.txs, &hints);
        self.at(run_on, |engine| engine.execute_whole(payload, &env, hints, run_on, invalid, setting))
    }

    /// Executes like [`Self::execute_block`], on its thread and by the rules of the block's time.
    pub(super) fn execute_whole(
        &mut self,
        payload: &RecoveredBlock<'_>,
        env: &BlockEnv,
        hints: Hints<'_>,
        run_on: RunOn,
        invalid: Invalid,
        setting: Setting<'_>,
    ) -> Result<Executed, BlockError> {
        let list = match self.validate_hints(payload, hints)? {
            Some((rlp, decoded)) => match self.execute_listed(payload, env, rlp, decoded, setting)? {
                Listed::Executed(executed) => return Ok(*executed),
                Listed::Unsuited(decoded) => Some(*decoded),
            },
            None => None,
        };
        // What the block commits to is the best prediction where its values cannot be used.
        let listed = list.as_ref().map(|list| hints_beside(&list.accounts, payload.txs, Some(env.beneficiary)));
        let order = listed.as_ref().map_or(hints, Hints::Sets);
        let block = self.predict(payload.txs, env, order, run_on, setting);
        let (is_predicted, sources) = (block.is_predicted(), block.sources);
        let (resources, executors) = self.split_for(setting);
        let (state, observer) = (resources.state, resources.observer);

        let (base, first) = observe(observer, Stage::Execute, || before(resources, env, payload))?;

        let record = (resources.wants_access_list() || list.is_some()).then(|| Record::new(&block.order));
        let gas_limit = payload.header.gas_limit;
        let txs = Txs::List(payload.txs);
        let gas = (invalid == Invalid::Refuse).then_some(gas_limit);
        let (base, record) = (&base, record.as_ref());
        let ctx = ExecContext { base: Some(base), gas, record, ..ExecContext::new(resources, env, txs) };
        let mut run = executors.execute(resources.executor, &ctx, block)?;
        let stats = run.stats;

        let judged = gas.map_or(Ok(()), |gas_limit| judge(ctx.gas_rules, gas_limit, payload.txs, &run.outcomes));
        let ended = judged.and_then(|()| {
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
                (Some(record), None) if ended.is_ok() => {
                    let (list, _) = produce(state, Some(&around), env, &run, record)?;
                    // Edits cost no gas, which does not bound their items.
                    if resources.edits.is_empty() {
                        check_own(&list, payload, resources.cfg.spec)?;
                    }
                    Some(list)
                }
                _ => None,
            };
            let sealing = Sealing {
                is_whole: true,
                sources,
                requests: ended?,
                access_list,
                ..Sealing::new(state, resources.cfg, env)
            };
            let mut executed = Executed::seal(run, txs, sealing, observer).map_err(BlockError::Engine)?;
            State::put_parent(&mut executed.changes, payload.header);
            Ok::<_, BlockError>(executed)
        })?;
        if matches!(hints, Hints::Predict) && run_on.teaches() {
            self.study(env, payload.txs, executed.block().gas_used(), is_predicted, &stats, setting);
        }
        Ok(executed)
    }

    /// Checks hints as far as possible without execution; returns a block access list as received, and decoded.
    fn validate_hints<'h>(
        &self,
        payload: &RecoveredBlock<'_>,
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
    pub(crate) fn follow(&mut self, payload: &RecoveredBlock<'_>) -> Result<BlockEnv, BlockError> {
        let header = payload.header;
        // On a fork, and after a block that is none of a chain, the caller alone knows the number.
        let committed = self.committed_number.filter(|_| self.position() == self.committed());
        if let Some(number) = committed.filter(|number| number.checked_add(1) != Some(header.number)) {
            let expected = number.saturating_add(1);
            return Err(Error::Number { expected, got: header.number }.into());
        }
        if let Some(parent) = header.number.checked_sub(1) {
            self.state.complete_ancestors(parent, header.parent_hash)?;
        }
        self.enter_whole(header)
    }

    /// Applies the rules of a whole block's time, and returns its environment.
    pub(super) fn enter_whole(&mut self, header: &Header) -> Result<BlockEnv, BlockError> {
        let chain = &self.rules.chain;
        let spec = chain.spec(header);
        let (cfg, env) = (chain.cfg(spec, header.timestamp), chain.env(header));
        self.enter(cfg)?;
        self.state.begin();
        Ok(checked_env(&env, spec)?)
    }
}
