//! States as Ethereum's trie takes them: all of one, the changes of a block, and values.

use super::{
    SnapshotError, State, StateDiff, StateError, StateSnapshot, account,
    encoding::{decode_slot, decode_slot_key},
};
use crate::model::Error;
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, map::AddressMap};
use phalanx_hash_lanes::keccak256_many;
use phalanx_trie::{Account, Changes, Fate, Values, Wipe};
use revm::state::AccountInfo;
use std::collections::BTreeMap;

impl Values for StateSnapshot {
    type Error = SnapshotError;

    fn account(&self, address: &Address) -> Result<Option<Account>, Self::Error> {
        let found = Self::account(self, address)?;
        Ok(found.map(|AccountInfo { nonce, balance, code_hash, .. }| Account { nonce, balance, code_hash }))
    }

    fn slot(&self, address: &Address, slot: &B256) -> Result<U256, Self::Error> {
        self.storage(address, &U256::from_be_bytes(slot.0))
    }
}

/// Change of an account and of its slots, before keys are hashed.
struct Touched {
    fate: Fate,
    wipe: Wipe,
    slots: Vec<(U256, U256)>,
}

impl Touched {
    const fn new(fate: Fate) -> Self {
        Self { fate, wipe: Wipe::Nothing, slots: Vec::new() }
    }
}

impl StateDiff {
    /// The changes as Ethereum's trie takes them. O(changes).
    pub(crate) fn trie_changes(&self) -> Changes {
        let mut touched = BTreeMap::new();
        for (address, changed) in &self.accounts {
            let set = |account: super::ChangedAccount| {
                let super::ChangedAccount { nonce, balance, code_hash } = account;
                Fate::Set(Account { nonce, balance, code_hash })
            };
            touched.insert(*address, Touched::new(changed.map_or(Fate::Removed, set)));
        }
        for ((address, slot), value) in &self.storage {
            touched.entry(*address).or_insert_with(|| Touched::new(Fate::Kept)).slots.push((*slot, *value));
        }
        for address in &self.emptied {
            touched.entry(*address).or_insert_with(|| Touched::new(Fate::Kept)).wipe = Wipe::Storage;
        }
        hashed(touched.into_iter())
    }
}

impl State {
    /// The whole committed state as changes of an empty trie. O(state), also in memory.
    ///
    /// # Errors
    /// A stored value is not of the engine's format, or cannot be read.
    pub(crate) fn trie_contents(&self) -> Result<Changes, Error> {
        let mut accounts = AddressMap::<(Touched, u32)>::default();
        let (mut slots, mut bad) = (Vec::new(), None);
        let mut visit = |key: &[u8], value: &[u8]| {
            if let Ok(address) = <[u8; 20]>::try_from(key) {
                let address = Address::new(address);
                let stored = account(&address, value)?;
                if stored.exists {
                    let code_hash = stored.code_hash.unwrap_or(KECCAK256_EMPTY);
                    let set = Account { nonce: stored.nonce, balance: stored.balance, code_hash };
                    accounts.insert(address, (Touched::new(Fate::Set(set)), stored.incarnation));
                }
            } else if let Some((address, slot, incarnation)) = decode_slot_key(key) {
                let word = decode_slot(value).ok_or_else(|| StateError(format!("slot {slot} of {address}")))?;
                slots.push((address, incarnation, slot, word));
            }
            Ok::<_, StateError>(())
        };
        self.store.read().each_committed(|key, value| {
            if let Err(error) = visit(key, value) {
                bad.get_or_insert(error);
            }
        })?;
        if let Some(error) = bad {
            return Err(error.into());
        }
        for (address, incarnation, slot, word) in slots {
            if let Some((touched, current)) = accounts.get_mut(&address)
                && *current == incarnation
            {
                touched.slots.push((slot, word));
            }
        }
        Ok(hashed(accounts.into_iter().map(|(address, (touched, _))| (address, touched))))
    }
}

/// Hashes all keys, side by side.
fn hashed(touched: impl Iterator<Item = (Address, Touched)>) -> Changes {
    let touched: Vec<_> = touched.collect();
    let mut account_keys = Vec::new();
    keccak256_many(touched.iter().map(|(address, _)| address.as_slice()), &mut account_keys);
    let slots: Vec<B256> =
        touched.iter().flat_map(|(_, touched)| touched.slots.iter().map(|(slot, _)| B256::from(*slot))).collect();
    let mut slot_keys = Vec::new();
    keccak256_many(slots.iter().map(B256::as_slice), &mut slot_keys);
    let mut changes = Changes::with_capacity(touched.len(), slots.len());
    let mut slots = slots.into_iter().zip(slot_keys);
    for ((address, Touched { fate, wipe, slots: values }), key) in touched.into_iter().zip(account_keys) {
        changes.account(key, address, fate, wipe);
        for ((_, value), (slot, key)) in values.into_iter().zip(&mut slots) {
            changes.slot(key, slot, value);
        }
    }
    changes
}
