//! The access list of a block (EIP-7928), and the faults of one.

use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

/// The list of a block (EIP-7928), in canonical form.
///
/// Index 0 is before the transactions, *i* is the *i*-th transaction, and one more is behind the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockAccessList {
    accounts: Vec<AccountChanges>,
    rlp: Bytes,
    hash: B256,
}

impl BlockAccessList {
    /// Creates a list from `accounts` in canonical order.
    pub(crate) fn new(accounts: Vec<AccountChanges>) -> Self {
        let mut rlp = Vec::new();
        alloy_rlp::encode_list(&accounts, &mut rlp);
        let hash = keccak256(&rlp);
        Self { accounts, rlp: rlp.into(), hash }
    }

    /// Creates a list from a received encoding.
    pub(crate) fn taken(accounts: Vec<AccountChanges>, rlp: &[u8], hash: B256) -> Self {
        Self { accounts, rlp: Bytes::copy_from_slice(rlp), hash }
    }

    /// Changes and reads of each accessed account, by address.
    pub fn accounts(&self) -> &[AccountChanges] {
        &self.accounts
    }

    /// Encoded list, which is sent and hashed.
    pub const fn rlp(&self) -> &Bytes {
        &self.rlp
    }

    /// Commitment of a header to the list.
    pub const fn hash(&self) -> B256 {
        self.hash
    }
}

/// Fault of a block access list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum AccessListFault {
    /// The bytes are not the RLP of a list, or not in canonical form.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// The list is not the one that the block commits to.
    #[error("its hash is {actual}, and the block commits to {expected}")]
    Hash {
        /// Hash that the block commits to.
        expected: B256,
        /// Hash of the received list.
        actual: B256,
    },
    /// The list has more items than the block could pay for.
    #[error("it has {items} items, and the block can touch {most}")]
    TooLong {
        /// Number of accounts and slots.
        items: u64,
        /// Maximum number that the block's gas covers.
        most: u64,
    },
    /// An accessed item is not listed.
    #[error("{} was accessed and is not listed", name(address, slot))]
    Unlisted {
        /// Address of the account.
        address: Address,
        /// Slot; `None` for the account itself.
        slot: Option<U256>,
    },
    /// A listed value is wrong, a change is missing, or a change is listed where there is none.
    #[error("{what} of {} is not as listed", name(address, slot))]
    Value {
        /// Address of the account.
        address: Address,
        /// Slot, for a storage value.
        slot: Option<U256>,
        /// Kind of the value.
        what: ChangedValue,
    },
    /// The list has changes that did not happen.
    #[error("it lists {listed} changes, of which {happened} happened")]
    Extra {
        /// Number of changes that are listed at this step.
        listed: u32,
        /// Number of them that happened.
        happened: u32,
    },
    /// A listed item was not accessed.
    #[error("{} is listed and was not accessed", name(address, slot))]
    Untouched {
        /// Address of the account.
        address: Address,
        /// Slot; `None` for the account itself.
        slot: Option<U256>,
    },
}

/// Kind of a listed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ChangedValue {
    /// Balance of an account.
    Balance,
    /// Nonce of an account.
    Nonce,
    /// Code of an account.
    Code,
    /// Value of a slot.
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
