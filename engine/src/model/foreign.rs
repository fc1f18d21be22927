//! Failures of a database that is not the engine's.

use alloy_primitives::{Address, B256, U256};
use core::fmt;

/// Item that was read from a foreign database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ForeignItem {
    /// An account.
    Account(Address),
    /// Code, by its hash.
    Code(B256),
    /// A slot of an account.
    Slot(Address, U256),
    /// Hash of the block with this number.
    BlockHash(u64),
}

impl fmt::Display for ForeignItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(address) => write!(f, "account {address}"),
            Self::Code(hash) => write!(f, "the code with hash {hash}"),
            Self::Slot(address, slot) => write!(f, "slot {slot} of {address}"),
            Self::BlockHash(number) => write!(f, "the hash of block {number}"),
        }
    }
}

/// A foreign database has no answer to a read that the block needs, or one that cannot be.
#[derive(Debug, thiserror::Error)]
#[error("the database cannot give {item}: {source}")]
pub struct ForeignError {
    /// Item that was read.
    pub item: ForeignItem,
    /// Error of the database.
    pub source: Box<dyn core::error::Error + Send + Sync>,
}
