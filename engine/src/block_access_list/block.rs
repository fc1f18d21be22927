//! A whole block with its access list: executed on it, or judged by what it did.

use super::{
    AccessListFault, BlockAccessList, Builder, Check, Ended, Footprint, List, Record, Stop, Values, first_fault,
};
use crate::{
    BlockError, Engine, Error, Executed, Executor, Payload, Stage,
    block::Sealing,
    cells::Value,
    dag::{After, Machine, Run, RunStats},
    observer::observe,
    overlay::Overlay,
    plan::SourceCounts,
    state::{State, StateError},
    txs::Txs,
    whole::{after, before, judge, judge_prefix},
};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::Address;
use core::mem;
use phalanx_paralyze::StateKey;
use revm::{context::BlockEnv, primitives::hardfork::SpecId};
use std::sync::Arc;

/// What became of a block that was to run on its list.
pub(crate) enum Listed {
    Executed(Box<Executed>),
    /// The list cannot tell all that the block may do: it is to be executed otherwise and compared.
    Unsuited(Box<List>),
}

/// What a whole block does around its transactions.
pub(crate) struct Around<'b> {
    pub(crate) base: &'b Overlay<'b>,
    pub(crate) first: &'b Footprint,
    pub(crate) last: &'b Footprint,
}

/// The error of a step at which the block and its list part.
pub(crate) fn refused(index: Option<usize>) -> impl FnOnce(AccessListFault) -> BlockError {
    move |what| BlockError::AccessList { index, what }
}

impl Engine {
    /// Executes a block on the values of its list: all transactions at once, the root beside them. Gives the list back if
    /// that cannot be done. On a worker.
    ///
    /// # Errors
    /// As [`Self::execute_block`].
    pub(crate) fn execute_listed(
        &mut self,
        payload: &Payload<'_>,
        env: &BlockEnv,
        rlp: &[u8],
        list: List,
    ) -> Result<Listed, BlockError> {
        let Self { state, workers, cfg, observer, listed, executor, chain, schedule_seed, .. } = self;
        let (state, observer) = (&*state, &**observer);
        // Empty accounts that exist, storage without an account, storage that goes with its account, code that only looks
        // like a delegation: nothing that a list has words for. They are history.
        let in_words = cfg.spec.is_enabled_in(SpecId::SPURIOUS_DRAGON)
            && !state.bare_storage
            && (cfg.spec.is_enabled_in(SpecId::CANCUN) || !list.takes_code_away())
            && (cfg.spec.is_enabled_in(SpecId::PRAGUE) || !list.has_delegation());
        if *executor != Executor::Dag || !in_words {
            return Ok(Listed::Unsuited(Box::new(list)));
        }
        let (base, first) = observe(observer, Stage::Execute, || before(chain, state, cfg, env, payload))?;
        drop(base);
        let values = observe(observer, Stage::Schedule, || Values::load(list, state)).map_err(Error::from)?;
        if values.has_hollow() {
            return Ok(Listed::Unsuited(Box::new(values.list)));
        }
        check_step(&values, 0, &first)?;
        let mut changes = values.changes(state).map_err(Error::from)?;
        let values = Arc::new(values);
        let machine = Machine {
            state,
            base: None,
            workers,
            cfg,
            env,
            txs: Txs::List(payload.txs),
            gas: Some(payload.header.gas_limit),
            making: None,
            observer,
            schedule_seed: *schedule_seed,
            record: None,
        };
        let delta = mem::take(&mut changes.delta);
        let (prepared, ended) = observe(observer, Stage::Execute, || {
            let prepare = || state.store.prepare_on(state.position(), delta);
            rayon::join(prepare, || listed.execute(&machine, &values))
        });
        let Ended { outcomes, stop } = ended?;
        let gas_limit = payload.header.gas_limit;
        judge_prefix(gas_limit, payload.txs, &outcomes)?;
        match stop {
            Some(Stop::Fault(what)) => return Err(refused(Some(outcomes.len() + 1))(what)),
            Some(Stop::Emptied) => {
                let values = Arc::into_inner(values).expect("the workers have left the block");
                return Ok(Listed::Unsuited(Box::new(values.list)));
            }
            Some(Stop::Failed(reason)) => return Err(Error::Evm { index: outcomes.len(), reason }.into()),
            None => judge(gas_limit, payload.txs, &outcomes)?,
        }
        let last = payload.txs.len() as u64 + 1;
        let mut overlay = Overlay::listed(state, machine.rules(), Arc::clone(&values), last);
        let (requests, footprint) =
            observe(observer, Stage::Execute, || after(chain, cfg, env, payload, &mut overlay, &outcomes))?;
        drop(overlay);
        check_step(&values, last, &footprint)?;
        all_accessed(&values)?;
        let prepared = prepared.map_err(Error::from)?;
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
            let (parent, env) = (Arc::clone(&state.tip), env.clone());
            let sources = SourceCounts::default();
            let sealing = Sealing { parent, spec: cfg.spec, env, frames: 0, sources, requests, access_list };
            Executed::seal(run, Txs::List(payload.txs), sealing, observer)
        })?;
        Ok(Listed::Executed(Box::new(Executed { prepared: Some(prepared), ..executed })))
    }
}

/// Compares what the protocol did before or after the transactions with the list.
fn check_step(values: &Values, index: u64, footprint: &Footprint) -> Result<(), BlockError> {
    // The protocol sees what it pays into.
    let mut builder = Builder::new(|_: &Address| Ok(Value::default()));
    builder.add(index, footprint, &Address::ZERO).map_err(Error::from)?;
    let mut check = Check::new(values, index, None);
    check.add(&builder.finish());
    check.finish().map_err(refused(usize::try_from(index).ok()))
}

/// Everything listed was accessed.
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

/// The list of a block that ran with a record.
///
/// # Errors
/// If the store is corrupt.
pub(crate) fn produce(
    state: &State,
    around: Option<&Around<'_>>,
    env: &BlockEnv,
    run: &Run<'_>,
    record: &Record,
) -> Result<(BlockAccessList, Vec<Arc<Footprint>>), Error> {
    // What each transaction did that ran, in order: an invalid one is not in the block.
    let ran = run.order.iter().zip(&*run.outcomes).filter(|(_, outcome)| outcome.result().is_some());
    let steps: Vec<_> = ran.map(|(tx, _)| record.read(*tx)).collect();
    let before = |address: &Address| -> Result<Value, StateError> {
        let key = StateKey::Basic(*address);
        match around {
            Some(around) => around.base.get(&key),
            None => Ok(state.load(&key)?.0),
        }
    };
    let mut builder = Builder::new(before);
    let (first, last) = (around.map(|around| around.first), around.map(|around| around.last));
    if let Some(first) = first {
        builder.add(0, first, &env.beneficiary)?;
    }
    for (index, step) in (1..).zip(&steps) {
        builder.add(index, step, &env.beneficiary)?;
    }
    if let Some(last) = last {
        builder.add(steps.len() as u64 + 1, last, &env.beneficiary)?;
    }
    Ok((BlockAccessList::new(builder.finish()), steps))
}

/// Compares a list that the block came with to what it did, and gives the true one. Of a block that has not `ended`, because
/// it is not valid, only the steps up to there are known.
///
/// # Errors
/// Where they part first.
pub(crate) fn compare(
    state: &State,
    list: &List,
    around: &Around<'_>,
    env: &BlockEnv,
    run: &Run<'_>,
    record: &Record,
    has_ended: bool,
) -> Result<BlockAccessList, BlockError> {
    let (truth, ran) = produce(state, Some(around), env, run, record)?;
    let end = ran.len() + 1;
    let steps = ran.iter().map(|step| &**step);
    let steps = [(0, around.first)].into_iter().chain((1..).zip(steps)).chain([(end as u64, around.last)]);
    match first_fault(list, truth.accounts(), steps, &env.beneficiary) {
        Some((index, what)) if has_ended || index.is_some_and(|index| index < end) => Err(refused(index)(what)),
        _ => Ok(truth),
    }
}
