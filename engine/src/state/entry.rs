//! Entries of the state store in words, for tools that read a store without an engine.

use super::encoding::{decode_account, decode_slot, decode_slot_key};
use alloy_primitives::{Address, B256, U256};

/// Entry of the state store, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredEntry {
    /// Account.
    Account {
        /// Address of the account.
        address: Address,
        /// Number of its transactions, or of the contracts that it has created.
        nonce: u64,
        /// Balance, in wei.
        balance: U256,
        /// Keccak-256 of its code. `None` without code.
        code_hash: Option<B256>,
        /// Number of times that its storage was emptied at once, before Cancun.
        incarnation: u32,
    },
    /// Account that is gone; only the number of times that its storage was emptied is kept.
    Gone {
        /// Address of the account.
        address: Address,
        /// Number of times that its storage was emptied at once, before Cancun.
        incarnation: u32,
    },
    /// Slot of a contract.
    Slot {
        /// Address of the contract.
        address: Address,
        /// The slot.
        slot: U256,
        /// Number of times that the contract's storage was emptied before.
        incarnation: u32,
        /// Value, which is not zero.
        value: U256,
    },
}

impl StoredEntry {
    /// Decodes an entry; `None` for keys other than those of accounts and slots, and for values that are no encoding.
    pub fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        match key.len() {
            20 => {
                let address = Address::from_slice(key);
                let account = decode_account(value)?;
                let incarnation = account.incarnation;
                Some(if account.exists {
                    let (nonce, balance, code_hash) = (account.nonce, account.balance, account.code_hash);
                    Self::Account { address, nonce, balance, code_hash, incarnation }
                } else {
                    Self::Gone { address, incarnation }
                })
            }
            52 | 56 => {
                let (address, slot, incarnation) = decode_slot_key(key)?;
                Some(Self::Slot { address, slot, incarnation, value: decode_slot(value)? })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::encoding::{StoredAccount, account_key, encode_account, encode_slot, slot_key};

    #[test]
    fn entries_are_what_was_encoded() {
        let (address, slot, value) = (Address::repeat_byte(3), U256::from(9), U256::from(1u64 << 40));
        let stored = StoredAccount {
            exists: true,
            nonce: 7,
            balance: value,
            code_hash: Some(B256::repeat_byte(5)),
            incarnation: 2,
        };
        let of = |account: &StoredAccount| {
            StoredEntry::decode(account_key(&address).as_slice(), encode_account(account).as_slice())
        };
        let StoredAccount { nonce, balance, code_hash, incarnation, .. } = stored;
        assert_eq!(of(&stored), Some(StoredEntry::Account { address, nonce, balance, code_hash, incarnation }));
        assert_eq!(of(&StoredAccount { exists: false, ..stored }), Some(StoredEntry::Gone { address, incarnation }));
        for incarnation in [0, 4] {
            let found =
                StoredEntry::decode(slot_key(&address, &slot, incarnation).as_slice(), encode_slot(&value).as_slice());
            assert_eq!(found, Some(StoredEntry::Slot { address, slot, incarnation, value }));
        }
        for (key, value) in [(&[1; 20][..], &[0xff][..]), (b"used", &[0; 32]), (b"chain", &[1]), (&[1; 55], &[1])] {
            assert_eq!(StoredEntry::decode(key, value), None, "{key:?}");
        }
    }
}
