//! Ethereum's state root by another implementation than the engine's.

use alloy_trie::{
    KECCAK_EMPTY, TrieAccount,
    root::{state_root_unhashed, storage_root_unhashed},
};
use phalanx::revm::primitives::{B256, keccak256};
use phalanx_workloads::fixtures::Alloc;

/// Root of the secure Merkle Patricia trie over the whole state. O(state), some microseconds per account and slot.
pub(super) fn state_root(alloc: &Alloc) -> B256 {
    state_root_unhashed(alloc.iter().map(|(address, account)| {
        let slots = account.storage.iter().map(|(slot, value)| (B256::from(*slot), *value));
        let account = TrieAccount {
            nonce: account.nonce,
            balance: account.balance,
            storage_root: storage_root_unhashed(slots),
            code_hash: if account.code.is_empty() { KECCAK_EMPTY } else { keccak256(&account.code) },
        };
        (*address, account)
    }))
}
