//! Changes of the store's keys as Ethereum's trie takes them: by account, with hashed keys.

use super::{Before, failure};
use crate::{
    model::Error,
    state::{
        encoding::decode_slot_key,
        stored::{StateError, account, word},
    },
};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, map::AddressMap};
use core::ops::Range;
use phalanx_hash_lanes::keccak256_many;
use phalanx_trie::{Account, Changes, Fate, Wipe};
use rayon::prelude::*;

/// Accounts and slots among some keys of the store, with the hashes of their names.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    accounts: Vec<ChangedAccount>,
    slots: Vec<ChangedSlot>,
}

#[derive(Debug)]
struct ChangedAccount {
    key: B256,
    address: Address,
    fate: Fate,
    incarnation: u32,
}

#[derive(Debug)]
struct ChangedSlot {
    key: B256,
    address: Address,
    slot: B256,
    incarnation: u32,
    value: U256,
}

impl Gathered {
    /// Collects the keys that `each` hands out with their values, `None` for deleted keys, and hashes their names side by side. Keys of
    /// other things than accounts and slots are not in the trie.
    ///
    /// # Errors
    /// A value is not of the engine's format.
    pub(super) fn all(each: impl FnOnce(&mut dyn FnMut(&[u8], Option<&[u8]>))) -> Result<Self, StateError> {
        let (mut gathered, mut bad) = (Self::default(), None);
        each(&mut |key, value| {
            if let Err(error) = gathered.add(key, value) {
                bad.get_or_insert(error);
            }
        });
        bad.map_or(Ok(()), Err)?;
        gathered.hash();
        Ok(gathered)
    }

    fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StateError> {
        let unhashed = B256::ZERO;
        if let Ok(address) = <[u8; 20]>::try_from(key) {
            let address = Address::new(address);
            let stored = value.map(|bytes| account(&address, bytes)).transpose()?;
            let incarnation = stored.as_ref().map_or(0, |stored| stored.incarnation);
            let fate = match stored.filter(|stored| stored.exists) {
                Some(stored) => {
                    let code_hash = stored.code_hash.unwrap_or(KECCAK256_EMPTY);
                    Fate::Set(Account { nonce: stored.nonce, balance: stored.balance, code_hash })
                }
                None => Fate::Removed,
            };
            self.accounts.push(ChangedAccount { key: unhashed, address, fate, incarnation });
        } else if let Some((address, slot, incarnation)) = decode_slot_key(key) {
            let value = value.map_or(Ok(U256::ZERO), |bytes| word(&address, &slot, bytes))?;
            self.slots.push(ChangedSlot { key: unhashed, address, slot: slot.into(), incarnation, value });
        }
        Ok(())
    }

    fn hash(&mut self) {
        let mut keys = Vec::with_capacity(self.accounts.len().max(self.slots.len()));
        keccak256_many(self.accounts.iter().map(|account| account.address.as_slice()), &mut keys);
        self.accounts.iter_mut().zip(keys.drain(..)).for_each(|(account, key)| account.key = key);
        keccak256_many(self.slots.iter().map(|slot| slot.slot.as_slice()), &mut keys);
        self.slots.iter_mut().zip(keys).for_each(|(slot, key)| slot.key = key);
    }
}

/// All of a state as changes of the empty trie. Slots whose account is gone, or was emptied since, are left out.
pub(super) fn of_state(parts: &[Gathered]) -> Changes {
    let mut joined = Joined::new(parts);
    for account in parts.iter().flat_map(|part| &part.accounts) {
        joined.add(account, Wipe::Nothing);
    }
    joined.changes
}

/// Changes of a block on the state `before`.
///
/// # Errors
/// A value cannot be read.
pub(super) fn of_block(parts: &[Gathered], before: &impl Before) -> Result<Changes, Error> {
    let mut joined = Joined::new(parts);
    for account in parts.iter().flat_map(|part| &part.accounts) {
        // The storage of an account is emptied by its next incarnation, and no account goes back to the first.
        let emptied =
            account.incarnation != 0 && before.incarnation(&account.address).map_err(failure)? != account.incarnation;
        joined.add(account, if emptied { Wipe::Storage } else { Wipe::Nothing });
    }
    joined.add_kept();
    Ok(joined.changes)
}

/// Changes that are joined by account.
struct Joined<'p> {
    /// Slots by account.
    slots: Vec<&'p ChangedSlot>,
    /// Slots of accounts that were not added yet.
    owners: AddressMap<Range<usize>>,
    changes: Changes,
}

impl<'p> Joined<'p> {
    fn new(parts: &'p [Gathered]) -> Self {
        let mut slots: Vec<&ChangedSlot> = parts.iter().flat_map(|part| &part.slots).collect();
        slots.par_sort_unstable_by_key(|slot| slot.address);
        let (mut owners, mut start) = (AddressMap::default(), 0);
        for run in slots.chunk_by(|a, b| a.address == b.address) {
            owners.insert(run[0].address, start..start + run.len());
            start += run.len();
        }
        let accounts: usize = parts.iter().map(|part| part.accounts.len()).sum();
        let changes = Changes::with_capacity(accounts + owners.len(), slots.len());
        Self { slots, owners, changes }
    }

    /// Adds an account, with its slots of its incarnation.
    fn add(&mut self, account: &ChangedAccount, wipe: Wipe) {
        let ChangedAccount { key, address, fate, incarnation } = *account;
        self.changes.account(key, address, fate, wipe);
        if !self.owners.is_empty()
            && let Some(slots) = self.owners.remove(&address)
        {
            let slots = self.slots[slots].iter().filter(|slot| slot.incarnation == incarnation);
            slots.for_each(|slot| self.changes.slot(slot.key, slot.slot, slot.value));
        }
    }

    /// Adds the accounts of which only slots change.
    fn add_kept(&mut self) {
        let owners: Vec<_> = self.owners.drain().collect();
        let mut keys = Vec::with_capacity(owners.len());
        keccak256_many(owners.iter().map(|(address, _)| address.as_slice()), &mut keys);
        for ((address, slots), key) in owners.into_iter().zip(keys) {
            self.changes.account(key, address, Fate::Kept, Wipe::Nothing);
            self.slots[slots].iter().for_each(|slot| self.changes.slot(slot.key, slot.slot, slot.value));
        }
    }
}
