//! The state that a load begins with.

use alloy_primitives::{Address, Bytes, U256};

/// A state to begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Genesis {
    /// The accounts, each address once. The coinbase is not among them: its first fee creates it.
    pub accounts: Vec<GenesisAccount>,
}

/// One account of a [`Genesis`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenesisAccount {
    /// Where it lives.
    pub address: Address,
    /// In wei.
    pub balance: U256,
    /// Transactions sent, or one for a contract.
    pub nonce: u64,
    /// Runtime bytecode, if it is a contract.
    pub code: Option<Bytes>,
    /// Slots and their values, each slot once, no value zero.
    pub storage: Vec<(U256, U256)>,
}
