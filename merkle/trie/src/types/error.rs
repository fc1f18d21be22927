//! The error of updates and proofs.

use alloy_primitives::{Address, B256};

/// Fault of an update or a proof; the trie is as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The store underneath failed.
    #[error("the store cannot be read")]
    Values(#[source] E),
    /// The trie has a leaf that the store has no value for.
    #[error("the trie has account {address} (slot {slot:?}) and the store has not: rebuild the trie")]
    Missing {
        /// The account, or the owner of the slot.
        address: Address,
        /// The slot; `None` if the account itself is missing.
        slot: Option<B256>,
    },
    /// A change keeps an account that does not exist, yet sets its storage.
    #[error("account {address} does not exist: set it before its slots")]
    NoAccount {
        /// The account.
        address: Address,
    },
    /// Two changes have the same key.
    #[error("key {key} changes twice in one block: join the changes")]
    Twice {
        /// The hashed key.
        key: B256,
    },
    /// There is no such version.
    #[error("version {version} does not exist: it was discarded, or is below the oldest one kept")]
    Unknown {
        /// The version's number.
        version: u64,
    },
    /// The version is not a child of the oldest one.
    #[error("version {version} does not follow the oldest one: advance one block at a time")]
    NotNext {
        /// The version's number.
        version: u64,
    },
}
