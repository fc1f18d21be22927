//! A native transfer on what a list says, without an EVM.
//!
//! As on the DAG ([`FastPath`]) it takes only what must succeed; everything else, a lie of the list among it, goes to revm.

use crate::{
    bal::{Check, Values, effects::Sink as _},
    model::AccessListFault,
};
use crate::{
    exec::fast_path::FastPath,
    model::{Outcome, reward},
};
use revm::context::{BlockEnv, TxEnv};

/// Runs a transfer that is step `index` of its block, and compares what it does with the list. `None` if it is not one, or
/// not for certain one that succeeds; then nothing has happened.
pub(super) fn run(
    path: &FastPath,
    values: &Values,
    index: u64,
    tx: &TxEnv,
    env: &BlockEnv,
) -> Option<(Outcome, Result<(), AccessListFault>)> {
    let (to, gas) = path.quote(tx, env)?;
    let (from_number, to_number) = (values.list.find(&tx.caller)?, values.list.find(&to)?);
    let (sender, receiver) = (values.account(from_number, index), values.account(to_number, index));
    let charged = path.charge(tx, env, &gas, &sender)?;
    // The view of revm shows accounts without code to be such; one with code runs it.
    let received = receiver.number.checked_add(tx.value).filter(|_| receiver.code.is_none())?;
    let outcome = Outcome::Executed(FastPath::success(gas));
    let mut check = Check::new(values, index, Some(env.beneficiary));
    check.listed_account(&tx.caller, from_number);
    if charged.number != sender.number {
        check.balance(sender.number, charged.number);
    }
    check.nonce(sender.nonce, charged.nonce);
    check.listed_account(&to, to_number);
    if received != receiver.number {
        check.balance(receiver.number, received);
    }
    check.pay(reward(tx, env, &outcome));
    Some((outcome, check.finish()))
}
