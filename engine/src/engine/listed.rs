//! A whole block on the values of its access list: all transactions at once, the root beside them.

use super::{
    Engine,
    judge::{judge, judge_prefix},
    protocol::{after, before},
    setting::Setting,
};
use crate::{
    bal::{Check, Footprint, List, Values, build::Builder},
    exec::{
        context::ExecContext,
        list::{Ended, Stop},
        overlay::Overlay,
        run::{After, Run, RunStats},
    },
    model::{AccessListFault, BlockAccessList, BlockError, Error, Executor, RecoveredBlock, Stage, Txs, observe},
    seal::{Executed, Sealing, access_list::refused},
    state::{State, Value},
};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::Address;
use core::mem;
use revm::{context::BlockEnv, primitives::hardfork::SpecId};
use std::sync::Arc;

/// Result of a block that should run on its list.
pub(super) enum Listed {
    Executed(Box<Executed>),
    /// The list cannot express all effects of the block: it must be executed otherwise and compared.
    Unsuited(Box<List>),
}

impl Engine {
    /// Executes a block on the values of its list: all transactions at once, the root beside them. Returns the list if
    /// that is impossible. Runs on a worker.
    ///
    /// # Errors
    /// The errors of [`Self::execute_block`].
    pub(super) fn execute_listed(
        &mut self,
        payload: &RecoveredBlock<'_>,
        env: &BlockEnv,
        rlp: &[u8],
        list: List,
        setting: Setting<'_>,
    ) -> Result<Listed, BlockError> {
        let (resources, executors) = self.split_for(setting);
        let (cfg, observer) = (resources.cfg, resources.observer);
        let (state, own) = (resources.state, resources.state.own());
        // A list cannot express empty accounts that exist, storage without an account, storage that goes with its
        // account, and code that only looks like a delegation. All of them are history. Of a foreign state it is not known that it
        // has none: a transaction that would empty storage stops the run.
        let in_words = cfg.spec.is_enabled_in(SpecId::SPURIOUS_DRAGON)
            && !own.is_some_and(|own| own.bare_storage)
            && (cfg.spec.is_enabled_in(SpecId::CANCUN) || !list.takes_code_away())
            && (cfg.spec.is_enabled_in(SpecId::PRAGUE) || !list.has_delegation());
        // A check of a step knows one payee.
        let has_shares = cfg.rules().is_some();
        if resources.executor != Executor::Dag || !in_words || has_shares {
            return Ok(Listed::Unsuited(Box::new(list)));
        }
        let (base, first) = observe(observer, Stage::Execute, || before(resources, env, payload))?;
        drop(base);
        let mut values = observe(observer, Stage::Schedule, || Values::load(list, state)).map_err(Error::from)?;
        if values.has_empty_existing() {
            return Ok(Listed::Unsuited(Box::new(values.list)));
        }
        // What is cheap is judged first: codes may be a megabyte.
        check_step(&values, 0, &first)?;
        observe(observer, Stage::Schedule, || values.meet_codes());
        let mut changes = values.changes(state).map_err(Error::from)?;
        State::put_parent(&mut changes, payload.header);
        let values = Arc::new(values);
        let (txs, gas_limit) = (Txs::List(payload.txs), payload.header.gas_limit);
        let ctx = ExecContext { gas: Some(gas_limit), ..ExecContext::new(resources, env, txs) };
        let complete = own.filter(|_| setting.is_complete).map(|own| (own, mem::take(&mut changes.delta)));
        let (prepared, ended) = observe(observer, Stage::Execute, || {
            let prepare = || complete.map(|(own, delta)| own.prepare_delta(delta)).transpose();
            rayon::join(prepare, || executors.list.execute(&ctx, &values))
        });
        let Ended { outcomes, stop } = ended?;
        judge_prefix(ctx.gas_rules, gas_limit, payload.txs, &outcomes)?;
        match stop {
            Some(Stop::Fault(what)) => return Err(refused(Some(outcomes.len() + 1))(what)),
            Some(Stop::Emptied) => {
                let values = Arc::into_inner(values).expect("the workers have left the block");
                return Ok(Listed::Unsuited(Box::new(values.list)));
            }
            Some(Stop::Failed(reason)) => return Err(Error::Evm { index: outcomes.len(), reason }.into()),
            None => judge(ctx.gas_rules, gas_limit, payload.txs, &outcomes)?,
        }
        let last = payload.txs.len() as u64 + 1;
        let mut overlay = Overlay::listed(resources.state, ctx.rules(), Arc::clone(&values), last);
        let (requests, footprint) =
            observe(observer, Stage::Execute, || after(resources, env, payload, &mut overlay, &outcomes))?;
        drop(overlay);
        check_step(&values, last, &footprint)?;
        all_accessed(&values)?;
        let prepared = prepared?;
        let list = Arc::into_inner(values).expect("the workers have left the block").list;
        let run = Run {
            order: (0..payload.txs.len() as u32).collect(),
            outcomes: outcomes.into(),
            after: After::Changes(changes),
            left: Vec::new(),
            stats: RunStats { critical_path: payload.txs.len().min(1), ..RunStats::default() },
        };
        let executed = observe(observer, Stage::Seal, || {
            let access_list = Some(BlockAccessList::taken(list.accounts, rlp, list.hash));
            let sealing = Sealing { is_whole: true, requests, access_list, ..Sealing::new(resources.state, cfg, env) };
            Executed::seal(run, txs, sealing, observer)
        })?;
        Ok(Listed::Executed(Box::new(Executed { prepared, ..executed })))
    }
}

/// Compares the protocol's steps before or after the transactions with the list.
fn check_step(values: &Values, index: u64, footprint: &Footprint) -> Result<(), BlockError> {
    // The protocol reads the balances that it pays into.
    let mut builder = Builder::new(|_: &Address| Ok(Value::default()));
    builder.add(index, footprint, &Address::ZERO).map_err(Error::from)?;
    let mut check = Check::new(values, index, None);
    check.add(&builder.finish());
    check.finish().map_err(refused(usize::try_from(index).ok()))
}

/// Checks that every listed item was accessed.
fn all_accessed(values: &Values) -> Result<(), BlockError> {
    let list = &values.list;
    for (number, AccountChanges { address, storage_reads, .. }) in list.accounts.iter().enumerate() {
        let untouched = |slot| refused(None)(AccessListFault::Untouched { address: *address, slot });
        if !values.is_marked(list.key(number)) {
            return Err(untouched(None));
        }
        for (place, slot) in storage_reads.iter().enumerate() {
            if !values.is_marked(list.read_key(number, place)) {
                return Err(untouched(Some(*slot)));
            }
        }
    }
    Ok(())
}
