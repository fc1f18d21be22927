//! The state that a load begins with.

use alloy_primitives::{Address, Bytes, U256};

/// Part of a genesis: says of an account (without a slot), and of a slot of it, whether it is in the part.
pub type Wanted<'w> = dyn Fn(&Address, Option<&U256>) -> bool + Sync + 'w;

/// The state before the first transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Genesis {
    /// Accounts, each address once. The coinbase is not among them: its first fee creates it.
    pub accounts: Vec<GenesisAccount>,
}

/// An account of a [`Genesis`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenesisAccount {
    /// Address of the account.
    pub address: Address,
    /// Balance in wei.
    pub balance: U256,
    /// Transactions sent, or one for a contract.
    pub nonce: u64,
    /// Runtime bytecode of a contract.
    pub code: Option<Bytes>,
    /// Slots and their values, each slot once, no value zero.
    pub storage: Vec<(U256, U256)>,
}
