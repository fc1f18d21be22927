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
use phalanx_merkle::Prepared;
use phalanx_trie::{Account, AccountChange, Changes, Fate, SlotChange, Wipe};
use rayon::prelude::*;

/// Parts of a block that one thread collects together.
const PARTS: usize = 4;

/// Accounts and slots among some keys of the store, with the hashes of their names.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    accounts: Vec<AccountChange>,
    /// Incarnations that are not zero, by the account's index.
    incarnations: Vec<(usize, u32)>,
    slots: Vec<ChangedSlot>,
}

#[derive(Debug)]
struct ChangedSlot {
    change: SlotChange,
    address: Address,
    incarnation: u32,
}

impl ChangedSlot {
    const fn owner(&self) -> (Address, u32) {
        (self.address, self.incarnation)
    }
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

    /// Collects what a block changes, in parts, on the threads of the current rayon pool; `before` is the state before it.
    ///
    /// # Errors
    /// A value is not of the engine's format, or cannot be read.
    pub(super) fn of_block(block: &Prepared, before: &impl Before) -> Result<Vec<Self>, Error> {
        let parts: Vec<usize> = (0..block.parts()).collect();
        let gather = |parts: &[usize]| {
            let mut gathered = Self::all(|visit| {
                parts.iter().for_each(|part| block.changes_of(*part, &mut *visit));
            })?;
            gathered.empty(before)?;
            Ok(gathered)
        };
        parts.par_chunks(PARTS).map(gather).collect()
    }

    fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StateError> {
        let unhashed = B256::ZERO;
        if let Ok(address) = <[u8; 20]>::try_from(key) {
            let address = Address::new(address);
            let stored = value.map(|bytes| account(&address, bytes)).transpose()?;
            let incarnation = stored.as_ref().map_or(0, |stored| stored.incarnation);
            if incarnation != 0 {
                self.incarnations.push((self.accounts.len(), incarnation));
            }
            let fate = match stored.filter(|stored| stored.exists) {
                Some(stored) => {
                    let code_hash = stored.code_hash.unwrap_or(KECCAK256_EMPTY);
                    Fate::Set(Account { nonce: stored.nonce, balance: stored.balance, code_hash })
                }
                None => Fate::Removed,
            };
            self.accounts.push(AccountChange::new(unhashed, address, fate, Wipe::Nothing));
        } else if let Some((address, slot, incarnation)) = decode_slot_key(key) {
            let value = value.map_or(Ok(U256::ZERO), |bytes| word(&address, &slot, bytes))?;
            let change = SlotChange { key: unhashed, slot: slot.into(), value };
            self.slots.push(ChangedSlot { change, address, incarnation });
        }
        Ok(())
    }

    fn hash(&mut self) {
        let mut keys = Vec::with_capacity(self.accounts.len().max(self.slots.len()));
        keccak256_many(self.accounts.iter().map(|account| account.address.as_slice()), &mut keys);
        self.accounts.iter_mut().zip(keys.drain(..)).for_each(|(account, key)| account.key = key);
        keccak256_many(self.slots.iter().map(|slot| slot.change.slot.as_slice()), &mut keys);
        self.slots.iter_mut().zip(keys).for_each(|(slot, key)| slot.change.key = key);
    }

    /// Notes which storages a block on the state `before` has emptied.
    ///
    /// # Errors
    /// A value cannot be read.
    pub(super) fn empty(&mut self, before: &impl Before) -> Result<(), Error> {
        for (at, incarnation) in &self.incarnations {
            let account = &mut self.accounts[*at];
            // The storage of an account is emptied by its next incarnation, and no account goes back to the first.
            if before.incarnation(&account.address).map_err(failure)? != *incarnation {
                account.wipe = Wipe::Storage;
            }
        }
        Ok(())
    }

    /// Takes out the accounts that own some of the slots, with their incarnations.
    fn owners(&mut self, owners: &AddressMap<Range<usize>>) -> Vec<(AccountChange, u32)> {
        let (mut at, mut incarnations) = (0, self.incarnations.iter().peekable());
        let mut taken = Vec::new();
        self.accounts.retain(|account| {
            let incarnation =
                incarnations.next_if(|(owner, _)| *owner == at).map_or(0, |(_, incarnation)| *incarnation);
            at += 1;
            let is_owner = owners.contains_key(&account.address);
            if is_owner {
                taken.push((account.clone(), incarnation));
            }
            !is_owner
        });
        taken
    }
}

/// All of a state as changes of the empty trie. Slots whose account is gone, or was emptied since, are left out.
pub(super) fn of_state(parts: Vec<Gathered>) -> Changes {
    join(parts).0
}

/// Changes of a block whose parts know which storages it has emptied.
pub(super) fn of_block(parts: Vec<Gathered>) -> Changes {
    let (mut changes, owners) = join(parts);
    // Accounts of which only slots change.
    let owners: Vec<_> = owners.into_iter().collect();
    let mut keys = Vec::with_capacity(owners.len());
    keccak256_many(owners.iter().map(|(address, _)| address.as_slice()), &mut keys);
    for ((address, slots), key) in owners.into_iter().zip(keys) {
        changes.own(AccountChange::new(key, address, Fate::Kept, Wipe::Nothing), slots);
    }
    changes
}

/// Joins slots with the accounts that are there, of which the slots have the incarnation; the other slots are returned by owner.
fn join(mut parts: Vec<Gathered>) -> (Changes, AddressMap<Range<usize>>) {
    let mut slots: Vec<&ChangedSlot> = parts.iter().flat_map(|part| &part.slots).collect();
    slots.par_sort_unstable_by_key(|slot| slot.owner());
    let (mut owners, mut start) = (AddressMap::default(), 0);
    for run in slots.chunk_by(|a, b| a.address == b.address) {
        owners.insert(run[0].address, start..start + run.len());
        start += run.len();
    }
    let incarnations: Vec<u32> = slots.iter().map(|slot| slot.incarnation).collect();
    let mut changes = Changes::of_slots(slots.into_par_iter().map(|slot| slot.change).collect());
    let taken: Vec<_> = match owners.is_empty() {
        true => Vec::new(),
        false => parts.par_iter_mut().map(|part| part.owners(&owners)).collect(),
    };
    parts.into_iter().for_each(|part| changes.append(part.accounts));
    for (account, incarnation) in taken.into_iter().flatten() {
        let Some(Range { start, end }) = owners.remove(&account.address) else { continue };
        let of_all = &incarnations[start..end];
        let first = of_all.partition_point(|other| *other < incarnation);
        let len = of_all[first..].partition_point(|other| *other == incarnation);
        changes.own(account, start + first..start + first + len);
    }
    (changes, owners)
}
