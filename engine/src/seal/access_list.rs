//! The access list of a block that ran with a record, and its comparison with one that the block came with.

use crate::{
    bal::{List, Record, build::Builder, compare::first_fault, list::check_length, record::Footprint},
    exec::{overlay::Overlay, run::Run},
    model::{AccessListFault, BlockAccessList, BlockError, Error, RecoveredBlock},
    state::{StateError, StateRef, Value},
};
use alloy_primitives::Address;
use phalanx_paralyze::StateKey;
use revm::{context::BlockEnv, primitives::hardfork::SpecId};
use std::sync::Arc;

/// Effects of the protocol's steps around the transactions of a whole block.
pub(crate) struct Around<'b> {
    pub(crate) base: &'b Overlay<'b>,
    pub(crate) first: &'b Footprint,
    pub(crate) last: &'b Footprint,
}

/// Maps a fault to the error of the step at which the block and its list differ.
pub(crate) fn refused(index: Option<usize>) -> impl FnOnce(AccessListFault) -> BlockError {
    move |what| BlockError::AccessList { index, what }
}

/// Checks that a whole block's own list is no longer than its gas limit permits: from Amsterdam on (EIP-7928).
///
/// # Errors
/// The list is longer.
pub(crate) fn check_own(list: &BlockAccessList, payload: &RecoveredBlock<'_>, spec: SpecId) -> Result<(), BlockError> {
    match spec.is_enabled_in(SpecId::AMSTERDAM) {
        true => check_length(list.accounts(), payload, spec).map_err(refused(None)),
        false => Ok(()),
    }
}

/// Derives the list of a block that ran with a record.
///
/// # Errors
/// The store is corrupt.
pub(crate) fn produce(
    state: StateRef<'_>,
    around: Option<&Around<'_>>,
    env: &BlockEnv,
    run: &Run<'_>,
    record: &Record,
) -> Result<(BlockAccessList, Vec<Arc<Footprint>>), Error> {
    // Footprints of the executed transactions, in order: an invalid one is not in the block.
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

/// Compares the list that a block came with to the block's accesses, and returns the true one. Of a block that has not
/// `ended`, because it is invalid, only the steps up to there are known.
///
/// # Errors
/// The first step at which they differ.
pub(crate) fn compare(
    state: StateRef<'_>,
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
