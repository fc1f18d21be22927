//! Payments of a transaction: the beneficiary's reward, and the shares of a chain's rules.

use super::outcome::Outcome;
use alloy_primitives::U256;
use phalanx_paralyze::{ChainRules, Payments};
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::Transaction as _,
};

/// Reward of the beneficiary: the gas used at the price above the base fee (EIP-1559).
pub(crate) fn reward(tx: &TxEnv, env: &BlockEnv, outcome: &Outcome) -> U256 {
    let basefee = u128::from(env.basefee);
    let tip = tx.effective_gas_price(basefee).saturating_sub(basefee);
    // revm multiplies in 128 bits, and so must this.
    U256::from(tip.wrapping_mul(u128::from(outcome.gas_used())))
}

/// Payments of an executed transaction by the chain's own rules: its share of `reward`, and the shares of others.
pub(crate) fn payments(rules: &ChainRules, tx: &TxEnv, env: &BlockEnv, outcome: &Outcome, reward: U256) -> Payments {
    if outcome.result().is_none() {
        return Payments { reward, shares: Vec::new() };
    }
    rules.split(tx, env, outcome.gas_used(), reward)
}

/// Balance after a payment of `amount`: revm pays nothing at all where the sum would pass 2^256.
pub(crate) const fn paid(balance: U256, amount: U256) -> U256 {
    match balance.checked_add(amount) {
        Some(sum) => sum,
        None => balance,
    }
}
