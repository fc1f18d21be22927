//! `post_state_digest`: hash of a block's state changes, without a trie.

use phalanx::revm::primitives::{B256, KECCAK_EMPTY, U256, keccak256};
use phalanx_workloads::fixtures::{Account, Alloc};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// SHA-256 over every account that differs between the two states, in ascending order of addresses: address, existence,
/// nonce, balance, code hash, number of changed slots, and these in ascending order with their values; numbers big-endian,
/// all of an absent account zero. With `clears_empty`, from Spurious Dragon on, an account without balance, nonce and code
/// is absent.
pub(crate) fn post_state_digest(before: &Alloc, after: &Alloc, clears_empty: bool) -> B256 {
    let exists = |account: &&Account| {
        !(clears_empty && account.nonce == 0 && account.balance.is_zero() && account.code.is_empty())
    };
    let mut hash = Sha256::new();
    let addresses: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for address in addresses {
        let (old, new) = (before.get(address).filter(exists), after.get(address).filter(exists));
        if old == new {
            continue;
        }
        hash.update(address);
        hash.update([u8::from(new.is_some())]);
        let code_hash = new.map_or(B256::ZERO, code_hash);
        let (nonce, balance) = new.map_or((0, U256::ZERO), |account| (account.nonce, account.balance));
        hash.update(nonce.to_be_bytes());
        hash.update(balance.to_be_bytes::<32>());
        hash.update(code_hash);
        let slots = new.map_or_else(Vec::new, |new| changed_slots(old, new));
        hash.update((slots.len() as u32).to_be_bytes());
        for (slot, value) in slots {
            hash.update(slot.to_be_bytes::<32>());
            hash.update(value.to_be_bytes::<32>());
        }
    }
    B256::from_slice(&hash.finalize())
}

fn code_hash(account: &Account) -> B256 {
    if account.code.is_empty() { KECCAK_EMPTY } else { keccak256(&account.code) }
}

fn changed_slots(old: Option<&Account>, new: &Account) -> Vec<(U256, U256)> {
    let old = old.map(|account| &account.storage);
    let before = |slot: &U256| old.and_then(|storage| storage.get(slot)).copied().unwrap_or_default();
    let now = |slot: &U256| new.storage.get(slot).copied().unwrap_or_default();
    let slots: BTreeSet<U256> = old.into_iter().flatten().chain(&new.storage).map(|(slot, _)| *slot).collect();
    slots.into_iter().map(|slot| (slot, now(&slot))).filter(|(slot, value)| before(slot) != *value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::revm::primitives::{Address, Bytes};

    fn account(balance: u64, nonce: u64, code: &'static [u8], storage: &[(u64, u64)]) -> Account {
        let storage = storage.iter().map(|(slot, value)| (U256::from(*slot), U256::from(*value))).collect();
        Account { balance: U256::from(balance), nonce, code: Bytes::from_static(code), storage }
    }

    #[test]
    fn the_digest_is_the_hash_of_these_bytes() {
        let address = Address::with_last_byte;
        let before = Alloc::from([
            (address(1), account(1, 0, &[], &[])),
            (address(2), account(5, 1, &[0xfe], &[(1, 7), (2, 8), (3, 9)])),
            (address(3), account(9, 9, &[], &[])),
        ]);
        let after = Alloc::from([
            (address(1), account(1, 0, &[], &[])),
            (address(2), account(5, 1, &[0xfe], &[(2, 8), (3, 10), (4, 1)])),
            (address(4), account(0, 0, &[], &[])),
        ]);
        let word = |n: u64| U256::from(n).to_be_bytes::<32>();
        let mut bytes = Vec::new();
        // The contract: slot 1 is cleared, 3 changed, 4 new.
        bytes.extend(
            [address(2).as_slice(), &[1], &1u64.to_be_bytes(), &word(5), keccak256([0xfe]).as_slice()].concat(),
        );
        bytes.extend([&3u32.to_be_bytes()[..], &word(1), &word(0), &word(3), &word(10), &word(4), &word(1)].concat());
        // The deleted account.
        bytes.extend([address(3).as_slice(), &[0], &[0; 8], &word(0), &[0; 32], &[0; 4]].concat());
        let from_dragon = post_state_digest(&before, &after, true);
        assert_eq!(from_dragon, B256::from_slice(&Sha256::digest(&bytes)));
        // The empty account, which exists before Spurious Dragon.
        bytes.extend([address(4).as_slice(), &[1], &[0; 8], &word(0), KECCAK_EMPTY.as_slice(), &[0; 4]].concat());
        assert_eq!(post_state_digest(&before, &after, false), B256::from_slice(&Sha256::digest(&bytes)));
    }

    #[test]
    fn no_change_is_the_hash_of_the_empty_string() {
        let state = Alloc::from([(Address::ZERO, account(1, 1, &[1], &[(1, 1)]))]);
        assert_eq!(post_state_digest(&state, &state, true), B256::from_slice(&Sha256::digest([])));
    }
}
