use crate::{State, StateError};
use alloy_primitives::{Address, U256};
use revm::DatabaseRef as _;

/// What a pool wants to know of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The nonce of its next transaction.
    pub nonce: u64,
    /// Wei.
    pub balance: U256,
    /// Whether it has code that is no delegation, and so sends no transactions (EIP-3607).
    pub is_contract: bool,
}

/// A state that a pool admits against. The engine's [`State`] is one.
pub trait Accounts {
    /// Why reading can fail.
    type Error;

    /// The account at `address`; the default if there is none.
    ///
    /// # Errors
    /// If the state cannot be read.
    fn account(&self, address: &Address) -> Result<Account, Self::Error>;
}

impl Accounts for State {
    type Error = StateError;

    fn account(&self, address: &Address) -> Result<Account, StateError> {
        Ok(self.basic_ref(*address)?.map_or_else(Account::default, |info| {
            let is_contract = info.code.is_some_and(|code| !code.is_empty() && !code.is_eip7702());
            Account { nonce: info.nonce, balance: info.balance, is_contract }
        }))
    }
}
