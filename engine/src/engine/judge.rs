//! The verdict on a whole block's transactions: the first invalid one makes the block invalid.

use crate::model::{BlockError, Error, GasRoom, GasRules, Outcome};
use revm::context::TxEnv;

/// Verdict on the transactions: the reason of the first invalid one, where the outcomes end.
pub(crate) fn judge(rules: GasRules, gas_limit: u64, txs: &[TxEnv], outcomes: &[Outcome]) -> Result<(), BlockError> {
    judge_prefix(rules, gas_limit, txs, outcomes)?;
    if outcomes.len() < txs.len() {
        return Err(Error::Evm { index: outcomes.len(), reason: "it was not executed".into() }.into());
    }
    Ok(())
}

/// Verdict on the transactions that have an outcome, and on the gas limit of the next one.
pub(crate) fn judge_prefix(
    rules: GasRules,
    gas_limit: u64,
    txs: &[TxEnv],
    outcomes: &[Outcome],
) -> Result<(), BlockError> {
    let mut room = GasRoom::new(gas_limit);
    for (index, tx) in txs.iter().enumerate() {
        if let Some(left) = room.lacks(rules.most(tx)) {
            return Err(BlockError::GasLimit { index, gas_limit: tx.gas_limit, left });
        }
        match outcomes.get(index) {
            Some(Outcome::Skipped(reason)) => {
                return Err(BlockError::InvalidTransaction { index, reason: reason.clone() });
            }
            Some(outcome) => room = room.minus(rules.used(outcome)),
            None => break,
        }
    }
    Ok(())
}
