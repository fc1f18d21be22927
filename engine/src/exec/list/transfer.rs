//! A native transfer on the values of a list, without an EVM.
//!
//! Like on the DAG ([`FastPath`]) it takes only transfers that must succeed; everything else, including lies of the
//! list, goes to revm.

use crate::{
    bal::{Check, Values, effects::Sink as _},
    model::AccessListFault,
};
use crate::{
    exec::fast_path::{FastPath, tell_charge},
    model::{Outcome, reward},
};
use revm::context::{BlockEnv, TxEnv};

/// Runs a transfer that is step `index` of its block, and compares its effects with the list. `None` if it is not a
/// transfer that surely succeeds; then nothing has happened.
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
    let received = path.received(&receiver, tx.value)?;
    let outcome = Outcome::Executed(path.success(tx, &to, gas));
    let mut check = Check::new(values, index, Some(env.beneficiary));
    check.listed_account(&tx.caller, from_number);
    tell_charge(&mut check, &sender, &charged);
    check.listed_account(&to, to_number);
    if received != receiver.number {
        check.balance(receiver.number, received);
    }
    check.pay(reward(tx, env, &outcome));
    Some((outcome, check.finish()))
}
