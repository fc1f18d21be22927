//! A block's access list (EIP-7928) and what can be wrong with one.

use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

/// The list of a block (EIP-7928), in canonical form.
///
/// Index 0 is what precedes the transactions, *i* the *i*-th of them, and one more what follows the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockAccessList {
    accounts: Vec<AccountChanges>,
    rlp: Bytes,
    hash: B256,
}

impl BlockAccessList {
    /// `accounts` are in canonical order.
    pub(crate) fn new(accounts: Vec<AccountChanges>) -> Self {
        let mut rlp = Vec::new();
        alloy_rlp::encode_list(&accounts, &mut rlp);
        let hash = keccak256(&rlp);
        Self { accounts, rlp: rlp.into(), hash }
    }

    /// A list that was taken in.
    pub(crate) fn taken(accounts: Vec<AccountChanges>, rlp: &[u8], hash: B256) -> Self {
        Self { accounts, rlp: Bytes::copy_from_slice(rlp), hash }
    }

    /// What happened to each account that was accessed, by address.
    pub fn accounts(&self) -> &[AccountChanges] {
        &self.accounts
    }

    /// As it is sent and hashed.
    pub const fn rlp(&self) -> &Bytes {
        &self.rlp
    }

    /// What a header commits to.
    pub const fn hash(&self) -> B256 {
        self.hash
    }
}

/// What is wrong with a block access list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum AccessListFault {
    /// It is not the RLP of a list, or not in canonical form.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// It is not the list that the block commits to.
    #[error("its hash is {actual}, and the block commits to {expected}")]
    Hash {
        /// What the block commits to.
        expected: B256,
        /// The hash of what was handed in.
        actual: B256,
    },
    /// It has more items than the block could pay for.
    #[error("it has {items} items, and the block can touch {most}")]
    TooLong {
        /// Accounts and slots.
        items: u64,
        /// What the block's gas suffices for.
        most: u64,
    },
    /// Something was accessed that it does not have.
    #[error("{} was accessed and is not listed", name(address, slot))]
    Unlisted {
        /// The account.
        address: Address,
        /// The slot, if it is not the account itself.
        slot: Option<U256>,
    },
    /// A value is another than it says, or it has no change where there is one, or one where there is none.
    #[error("{what} of {} is not as listed", name(address, slot))]
    Value {
        /// The account.
        address: Address,
        /// The slot, if it is one.
        slot: Option<U256>,
        /// Which value.
        what: ChangedValue,
    },
    /// It has changes that did not happen.
    #[error("it lists {listed} changes, of which {happened} happened")]
    Extra {
        /// Changes that it lists here.
        listed: u32,
        /// Those of them that were found.
        happened: u32,
    },
    /// It has something that nobody accessed.
    #[error("{} is listed and was not accessed", name(address, slot))]
    Untouched {
        /// The account.
        address: Address,
        /// The slot, if it is not the account itself.
        slot: Option<U256>,
    },
}

/// A value that a list tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangedValue {
    /// Of an account.
    Balance,
    /// Of an account.
    Nonce,
    /// Of an account.
    Code,
    /// Of a slot.
    Storage,
}

impl core::fmt::Display for ChangedValue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Balance => "the balance",
            Self::Nonce => "the nonce",
            Self::Code => "the code",
            Self::Storage => "the value",
        })
    }
}

fn name(address: &Address, slot: &Option<U256>) -> String {
    match slot {
        Some(slot) => format!("slot {slot:#x} of {address}"),
        None => format!("account {address}"),
    }
}
