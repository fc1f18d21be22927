//! The store's side: current values, which the trie does not keep.

use alloy_primitives::{Address, B256, U256};

/// An account's values, but for its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Number of transactions sent, or contracts created.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code; of nothing for an account without code.
    pub code_hash: B256,
}

/// Values of a state, which the trie asks for when a leaf moves to another depth and when it proves.
///
/// Called from several threads at once.
pub trait Values: Sync {
    /// Fault of the store underneath.
    type Error: Send;

    /// The account at `address`, `None` if there is none.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn account(&self, address: &Address) -> Result<Option<Account>, Self::Error>;

    /// The value of a slot, zero if it is not set.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn slot(&self, address: &Address, slot: &B256) -> Result<U256, Self::Error>;
}
