//! Accounts as a pool reads them from a state.

use crate::state::{State, StateError, Value};
use alloy_primitives::{Address, U256};
use phalanx_paralyze::StateKey;
use revm::{DatabaseRef as _, context::TxEnv, state::Bytecode};

/// An account as a pool sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Nonce of the next transaction.
    pub nonce: u64,
    /// Balance, in wei.
    pub balance: U256,
    /// True if the account has code that is no delegation, and so sends no transactions (EIP-3607).
    pub is_contract: bool,
    /// True if the account delegates (EIP-7702): code moves its balance without a transaction of its own.
    pub is_delegated: bool,
}

impl Account {
    /// An account; `delegates` tells of its code, if it has any, that it is a delegation.
    pub(crate) const fn new(nonce: u64, balance: U256, delegates: Option<bool>) -> Self {
        let (is_contract, is_delegated) = (matches!(delegates, Some(false)), matches!(delegates, Some(true)));
        Self { nonce, balance, is_contract, is_delegated }
    }
}

/// A state that a pool admits against. The engine's [`State`] is one.
pub trait Accounts {
    /// Error of a failed read.
    type Error;

    /// Reads the account at `address`; the default if there is none.
    ///
    /// # Errors
    /// If the state cannot be read.
    fn account(&self, address: &Address) -> Result<Account, Self::Error>;

    /// Reads the accounts at `addresses`, in order; for states where that is cheaper than single reads.
    ///
    /// # Errors
    /// If the state cannot be read.
    fn accounts(&self, addresses: &[Address]) -> Result<Vec<Account>, Self::Error> {
        addresses.iter().map(|address| self.account(address)).collect()
    }

    /// Hears of transactions that were admitted together, which may be executed soon. Does nothing by default; a state on disk reads what
    /// they name meanwhile.
    fn announce<'t>(&self, _: impl Iterator<Item = &'t TxEnv>) {}
}

impl Accounts for State {
    type Error = StateError;

    fn account(&self, address: &Address) -> Result<Account, StateError> {
        Ok(self.basic_ref(*address)?.map_or_else(Account::default, |info| {
            let code = info.code.as_ref().filter(|code| !code.is_empty());
            Account::new(info.nonce, info.balance, code.map(Bytecode::is_eip7702))
        }))
    }

    fn accounts(&self, addresses: &[Address]) -> Result<Vec<Account>, StateError> {
        let keys: Vec<StateKey> = addresses.iter().map(|address| StateKey::Basic(*address)).collect();
        let mut accounts = Vec::with_capacity(addresses.len());
        self.load_many(&keys, |value, _| {
            let Value { number: balance, nonce, code, exists, .. } = value;
            let delegates = (!code.is_none()).then(|| self.codes.get(code).1.is_eip7702());
            accounts.push(if exists { Account::new(nonce, balance, delegates) } else { Account::default() });
        })?;
        Ok(accounts)
    }

    fn announce<'t>(&self, txs: impl Iterator<Item = &'t TxEnv>) {
        self.announce_named(txs);
    }
}
