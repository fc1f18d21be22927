//! A validated load with its accounts, and the genesis balances that keep every order of its transactions valid.

use alloy_primitives::{Address, U256};
use rayon::prelude::*;

use crate::{
    accounts::Accounts,
    config::{ConfigError, TransferLoad},
    genesis::{GenesisAccount, Wanted},
    skew::Skew,
};

/// Maximum amount of a transfer, in wei or token units; amounts are uniform in `1..=MAX_VALUE`.
///
/// Amounts differ so that a check notices two transfers that were swapped or attributed to the wrong account.
pub(crate) const MAX_VALUE: u64 = 1000;

/// Gas of a transfer to an existing account without code, exact in all hard forks from London to Osaka.
pub(crate) const TRANSFER_GAS: u64 = 21_000;

/// Gas limit of a token transfer. It uses about 34,450; the margin covers the calldata of any amount and address.
pub(crate) const TOKEN_TRANSFER_GAS: u64 = 60_000;

// `funds` counts on gas limits below 2^30 when it multiplies fees.
const _: () = assert!(TRANSFER_GAS < 1 << 30 && TOKEN_TRANSFER_GAS < 1 << 30);

/// A validated load and everything derived from it, for the transfer workloads.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) load: TransferLoad,
    pub(crate) accounts: Accounts,
    pub(crate) skew: Skew,
    /// Balance of each account at genesis, in wei.
    ///
    /// The balance lets one account send every transaction of the load without receiving anything, paying its whole gas
    /// limit at its maximum fee, which nodes demand before execution. So no order of the transactions and no choice of
    /// the senders leaves an account unfunded: only nonces depend on the order. The extra wei keeps every account in
    /// existence.
    pub(crate) funds: u128,
    /// Token balance of each account at genesis, by the same reasoning. The extra unit keeps every balance slot
    /// nonzero, so that every transfer costs the same gas up to its calldata.
    pub(crate) tokens: u128,
}

impl TransferLoad {
    /// Checks the contention of the load, before any account is made.
    ///
    /// # Errors
    /// If α, γ and the number of accounts describe no draw.
    pub fn check_contention(&self) -> Result<(), ConfigError> {
        Skew::new(self).map(drop)
    }
}

impl Base {
    /// The wanted accounts, at genesis.
    pub(crate) fn funded(&self, wanted: &Wanted<'_>) -> Vec<GenesisAccount> {
        let balance = U256::from(self.funds);
        let addresses = self.accounts.par_addresses().filter(|address| wanted(address, None));
        addresses.map(|address| GenesisAccount { address, balance, ..Default::default() }).collect()
    }

    pub(crate) fn new(
        load: TransferLoad,
        bytes_per_account: usize,
        gas_limit: u64,
        contract: Option<Address>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self, ConfigError> {
        load.validate(bytes_per_account as u64)?;
        let skew = Skew::new(&load)?;
        let (funds, tokens) = funds(&load, gas_limit);
        let count = u32::try_from(load.accounts).map_err(|_| ConfigError::Accounts { accounts: load.accounts })?;
        let accounts = if load.signatures {
            Accounts::keyed(load.seed, count, progress)
        } else {
            Accounts::unsigned(load.seed, count)
        };
        if contract == Some(load.coinbase) || accounts.position(&load.coinbase).is_some() {
            return Err(ConfigError::CoinbaseTakesPart { coinbase: load.coinbase });
        }
        Ok(Self { load, accounts, skew, funds, tokens })
    }
}

/// Wei and token units per account. With a gas limit below 2^30, a fee below 2^64 and fewer than 2^32 transactions (see
/// [`TransferLoad::validate`]) the wei stay below 2^127, so that the ledger's signed arithmetic cannot overflow.
fn funds(load: &TransferLoad, gas_limit: u64) -> (u128, u128) {
    let (txs, per_tx) = (u128::from(load.txs), u128::from(gas_limit) * u128::from(load.fees.max_fee));
    (txs * (per_tx + u128::from(MAX_VALUE)) + 1, txs * u128::from(MAX_VALUE) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Fees;

    fn build(load: TransferLoad, contract: Option<Address>) -> Result<Base, ConfigError> {
        Base::new(load, 100, 21_000, contract, &|_| ())
    }

    #[test]
    fn one_account_can_pay_for_everything() {
        let load = TransferLoad { accounts: 3, txs: 7, ..Default::default() };
        let base = build(load.clone(), None).unwrap();
        assert_eq!(base.funds, 7 * (21_000 * u128::from(load.fees.max_fee) + 1_000) + 1);
        assert_eq!(base.tokens, 7_001);
    }

    #[test]
    fn the_dearest_load_overflows_nothing() {
        let fees = Fees { max_fee: u64::MAX, ..Default::default() };
        let load = TransferLoad { accounts: 3, txs: u32::MAX.into(), fees, ..Default::default() };
        assert!(i128::try_from(funds(&load, (1 << 30) - 1).0).is_ok());
    }

    #[test]
    fn a_coinbase_of_the_load_is_refused() {
        let load = TransferLoad { accounts: 3, ..Default::default() };
        let member = build(load.clone(), None).unwrap().accounts.address(1);
        for (coinbase, contract) in [(member, None), (load.coinbase, Some(load.coinbase))] {
            let error = build(TransferLoad { coinbase, ..load.clone() }, contract).unwrap_err();
            assert_eq!(error, ConfigError::CoinbaseTakesPart { coinbase });
        }
    }
}
