//! Rules of chains that are not mainnet, as data: recipients of fees, an extra fee, forced transactions.
//!
//! Shares are paid after a transaction and commute, so they cost no parallelism: the executors add them like rewards.

use crate::{forced::ForcedTx, foreign_evm::ForeignEvm};
use alloy_primitives::{Address, U256};
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::Transaction as _,
};
use std::sync::Arc;

/// A whole: shares are counted in parts of it.
pub const WHOLE: u16 = 10_000;

/// Share of a fee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// Account that is paid.
    pub to: Address,
    /// Parts of [`WHOLE`].
    pub parts: u16,
}

/// Fee beside the price of gas. The sender pays it before the execution, and it is not refunded.
///
/// A transaction whose sender cannot pay its maximum cost and the extra fee is invalid.
pub trait ExtraFee: core::fmt::Debug + Send + Sync {
    /// Returns the fee of a transaction, in wei. It must depend on the arguments alone, and not on `gas_limit` of the transaction:
    /// wallets estimate the limit and pay the fee of another one.
    fn fee(&self, tx: &TxEnv, env: &BlockEnv) -> U256;
}

/// Rules of a chain beside those of Ethereum's specs. The default is mainnet's.
///
/// Each payment stands for itself: one of zero does not touch its recipient, one that would pass 2^256 is not made, and one to
/// an account that the transaction destroyed is lost. Payments are made in the order of the fields.
#[derive(Clone, Debug, Default)]
pub struct ChainRules {
    tip: Vec<Share>,
    base_fee: Vec<Share>,
    /// Recipient of the extra fee, and its function.
    extra: Option<(Address, Arc<dyn ExtraFee>)>,
    forced: bool,
    /// True if contracts may send transactions, against EIP-3607.
    contracts_send: bool,
    /// EVM instead of revm's mainnet handler.
    evm: Option<Arc<dyn ForeignEvm>>,
}

/// Reason why rules contradict themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainRulesError {
    /// A foreign EVM charges senders itself, and says which transactions are valid.
    #[error("a foreign EVM and {what} exclude each other: {remedy}")]
    ForeignEvm {
        /// The other rule.
        what: &'static str,
        /// Way out.
        remedy: &'static str,
    },
    /// The shares of one fee are more than the fee.
    #[error("the shares of the {fee} are {parts} parts of 10000: lower them to 10000 at most")]
    Shares {
        /// Name of the fee.
        fee: &'static str,
        /// Sum of the parts.
        parts: u32,
    },
}

/// Payments of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payments {
    /// Payment of the block's beneficiary, the rest of the tip.
    pub reward: U256,
    /// Payments of the others, in order. No payment is zero.
    pub shares: Vec<(Address, U256)>,
}

impl ChainRules {
    /// Creates the rules of mainnet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Pays `parts` of [`WHOLE`] of each tip to an account. The rest of the tip goes to the block's beneficiary.
    #[must_use]
    pub fn with_tip_share(mut self, to: Address, parts: u16) -> Self {
        self.tip.push(Share { to, parts });
        self
    }

    /// Pays `parts` of [`WHOLE`] of the base fee to an account. The rest of the base fee is burned.
    #[must_use]
    pub fn with_base_fee_share(mut self, to: Address, parts: u16) -> Self {
        self.base_fee.push(Share { to, parts });
        self
    }

    /// Charges an extra fee, paid to `to`. Transfers then run on the EVM, and no trace is replayed.
    #[must_use]
    pub fn with_extra_fee(mut self, to: Address, extra: Arc<dyn ExtraFee>) -> Self {
        self.extra = Some((to, extra));
        self
    }

    /// Permits [`ForcedTx`]. Without this they are invalid.
    #[must_use]
    pub const fn with_forced_transactions(mut self) -> Self {
        self.forced = true;
        self
    }

    /// Lets accounts with code send transactions, against EIP-3607: for a chain for development, whose operator acts for any account.
    #[must_use]
    pub const fn with_contracts_as_senders(mut self) -> Self {
        self.contracts_send = true;
        self
    }

    /// Runs transactions on another EVM or handler than revm's mainnet handler. System calls and simulations stay on revm.
    #[must_use]
    pub fn with_evm(mut self, evm: Arc<dyn ForeignEvm>) -> Self {
        self.evm = Some(evm);
        self
    }

    /// Checks that no fee is paid out more than once, and that no rule excludes another.
    ///
    /// # Errors
    /// The shares of a fee are more than a whole, or a foreign EVM does what the other rules do.
    pub fn validate(&self) -> Result<(), ChainRulesError> {
        for (fee, shares) in [("tip", &self.tip), ("base fee", &self.base_fee)] {
            let parts = shares.iter().map(|share| u32::from(share.parts)).sum();
            if parts > u32::from(WHOLE) {
                return Err(ChainRulesError::Shares { fee, parts });
            }
        }
        if let Some(evm) = &self.evm {
            let refuse = |what, remedy| Err(ChainRulesError::ForeignEvm { what, remedy });
            if self.extra.is_some() || self.forced {
                return refuse("extra fees and forced transactions", "let the EVM charge and mint");
            }
            if self.contracts_send {
                return refuse("contracts as senders", "let the EVM say which transactions are valid");
            }
            let has_shares = !self.tip.is_empty() || !self.base_fee.is_empty();
            if has_shares && !evm.defers_payments() {
                return refuse("shares", "let the EVM make all payments, or defer them");
            }
            if evm.runs_as_mainnet() && !evm.defers_payments() {
                return refuse("mainnet's rules without deferred payments", "defer them");
            }
        }
        Ok(())
    }

    /// Returns true if these are mainnet's rules.
    pub const fn is_mainnet(&self) -> bool {
        let has_fees = !self.tip.is_empty() || !self.base_fee.is_empty() || self.extra.is_some();
        !has_fees && !self.forced && !self.contracts_send && self.evm.is_none()
    }

    /// Returns true if a transfer or call has mainnet's effects, beside the payments.
    pub fn runs_as_mainnet(&self) -> bool {
        self.extra.is_none() && !self.reads_freely()
    }

    /// Returns true if any transaction may read any account, also the receiver of a transfer.
    pub fn reads_freely(&self) -> bool {
        self.evm.as_ref().is_some_and(|evm| !evm.runs_as_mainnet())
    }

    /// Returns the EVM that runs transactions; `None` if it is revm's.
    pub fn evm(&self) -> Option<&dyn ForeignEvm> {
        self.evm.as_deref()
    }

    /// Returns true if forced transactions are valid.
    pub const fn permits_forced(&self) -> bool {
        self.forced
    }

    /// Returns true if contracts may send transactions.
    pub const fn contracts_send(&self) -> bool {
        self.contracts_send
    }

    /// Accounts that shares go to, each once, ascending.
    pub fn recipients(&self) -> Vec<Address> {
        let shares = self.tip.iter().chain(&self.base_fee).filter(|share| share.parts > 0).map(|share| share.to);
        let mut all: Vec<_> = shares.chain(self.extra.iter().map(|(to, _)| *to)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the extra fee of a transaction, in wei.
    pub fn extra_fee(&self, tx: &TxEnv, env: &BlockEnv) -> U256 {
        match &self.extra {
            Some((_, extra)) if !ForcedTx::is(tx) => extra.fee(tx, env),
            _ => U256::ZERO,
        }
    }

    /// Splits the fees of a transaction that used this much gas, of which mainnet's rules pay `tip` to the beneficiary.
    pub fn split(&self, tx: &TxEnv, env: &BlockEnv, gas_used: u64, tip: U256) -> Payments {
        if self.evm.as_ref().is_some_and(|evm| !evm.defers_payments()) {
            return Payments { reward: U256::ZERO, shares: Vec::new() };
        }
        let part = |of: U256, parts: u16| of.saturating_mul(U256::from(parts)) / U256::from(WHOLE);
        let mut shares = Vec::with_capacity(self.tip.len() + self.base_fee.len() + 1);
        let mut reward = tip;
        for Share { to, parts } in &self.tip {
            let amount = part(tip, *parts);
            reward = reward.saturating_sub(amount);
            shares.push((*to, amount));
        }
        // A forced transaction pays no gas.
        let price = tx.effective_gas_price(u128::from(env.basefee)).min(u128::from(env.basefee));
        let base_fee = U256::from(price) * U256::from(gas_used);
        shares.extend(self.base_fee.iter().map(|Share { to, parts }| (*to, part(base_fee, *parts))));
        if let Some((to, _)) = &self.extra {
            shares.push((*to, self.extra_fee(tx, env)));
        }
        shares.retain(|(_, amount)| !amount.is_zero());
        Payments { reward, shares }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_and_the_rest_is_the_beneficiarys() {
        let to = Address::repeat_byte;
        let rules = ChainRules::new()
            .with_tip_share(to(1), 2_500)
            .with_tip_share(to(2), 1)
            .with_base_fee_share(to(3), 9_999)
            .with_base_fee_share(to(1), 1);
        assert_eq!(rules.validate(), Ok(()));
        assert_eq!(rules.recipients(), [to(1), to(2), to(3)]);
        let env = BlockEnv { basefee: 7, ..BlockEnv::default() };
        let tx = TxEnv { gas_price: 8, ..TxEnv::default() };
        let Payments { reward, shares } = rules.split(&tx, &env, 21_000, U256::from(21_000));
        assert_eq!(shares, [(1, 5_250), (2, 2), (3, 146_985), (1, 14)].map(|(of, wei)| (to(of), U256::from(wei))));
        assert_eq!(reward, U256::from(21_000 - 5_250 - 2));
        let forced = ForcedTx { mint: 5, ..ForcedTx::default() }.env();
        let nothing = Payments { reward: U256::ZERO, shares: Vec::new() };
        assert_eq!(rules.split(&forced, &env, 21_000, U256::ZERO), nothing, "no payment is zero");
    }

    #[test]
    fn more_than_the_whole_is_refused() {
        let to = Address::repeat_byte(1);
        let rules = ChainRules::new().with_base_fee_share(to, WHOLE);
        assert_eq!((rules.validate(), rules.is_mainnet()), (Ok(()), false));
        let wrong = ChainRulesError::Shares { fee: "base fee", parts: 10_001 };
        assert_eq!(rules.with_base_fee_share(to, 1).validate(), Err(wrong));
        assert!(ChainRules::new().is_mainnet());
    }
}
