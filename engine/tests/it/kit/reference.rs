//! The reference access list (EIP-7928), by brute force: compares the whole state before and after each step. Accesses
//! come from stock revm's journal.

use alloy_rlp::Encodable as _;
use phalanx::{
    eip7928::{AccountChanges, BalanceChange, BlockAccessIndex, CodeChange, NonceChange, SlotChanges, StorageChange},
    revm::{
        handler::SYSTEM_ADDRESS,
        primitives::{Address, AddressMap, Bytes, U256},
        state::{Account, AccountInfo},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// All accounts with their slots.
pub(super) type Accounts = BTreeMap<Address, (AccountInfo, BTreeMap<U256, U256>)>;

/// A list under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Reference {
    index: u64,
    before: Accounts,
    list: BTreeMap<Address, AccountChanges>,
    /// Slots that the step accessed.
    accessed: BTreeMap<Address, BTreeSet<U256>>,
}

impl Reference {
    /// Begins a step on the given state.
    pub(super) fn begin(&mut self, index: u64, state: &Accounts) {
        (self.index, self.before) = (index, state.clone());
        self.accessed.clear();
    }

    /// Records an access to an account.
    pub(super) fn access(&mut self, address: Address) {
        self.accessed.entry(address).or_default();
    }

    /// Records the accesses of the step's journal, except those to the system caller.
    pub(super) fn access_all(&mut self, changes: &AddressMap<Account>) {
        for (address, account) in changes.iter().filter(|(address, _)| **address != SYSTEM_ADDRESS) {
            self.accessed.entry(*address).or_default().extend(account.storage.keys().copied());
        }
    }

    /// Ends a step on the given state. `complete` asserts that nothing changed without an access.
    pub(super) fn end(&mut self, state: &Accounts, complete: bool) {
        let at = BlockAccessIndex::new(self.index);
        let nothing = (AccountInfo::default(), BTreeMap::new());
        // The system address is listed if a called contract pays it.
        let has = |accounts: &Accounts| {
            accounts.get(&SYSTEM_ADDRESS).map(|(info, _)| (info.balance, info.nonce)).unwrap_or_default()
        };
        if has(&self.before) != has(state) {
            self.access(SYSTEM_ADDRESS);
        }
        for (address, slots) in &self.accessed {
            let list = self.list.entry(*address).or_insert_with(|| AccountChanges::new(*address));
            let (before, old) = self.before.get(address).unwrap_or(&nothing);
            let (after, new) = state.get(address).unwrap_or(&nothing);
            if before.balance != after.balance {
                list.balance_changes.push(BalanceChange::new(at, after.balance));
            }
            if before.nonce != after.nonce {
                list.nonce_changes.push(NonceChange::new(at, after.nonce));
            }
            if before.code_hash != after.code_hash {
                let code = after.code.as_ref().map(|code| code.original_bytes()).unwrap_or_default();
                list.code_changes.push(CodeChange::new(at, code));
            }
            for slot in slots {
                let value = |slots: &BTreeMap<U256, U256>| slots.get(slot).copied().unwrap_or_default();
                if value(old) == value(new) {
                    list.storage_reads.push(*slot);
                    continue;
                }
                let change = StorageChange::new(at, value(new));
                match list.storage_changes.iter_mut().find(|changes| changes.slot == *slot) {
                    Some(changes) => changes.changes.push(change),
                    None => list.storage_changes.push(SlotChanges::new(*slot, vec![change])),
                }
            }
        }
        if complete {
            for address in self.before.keys().chain(state.keys()) {
                let (before, after) = (self.before.get(address), state.get(address));
                let hollow = |account: Option<&(AccountInfo, BTreeMap<U256, U256>)>| {
                    account.is_none_or(|(info, slots)| info.is_empty() && slots.is_empty())
                };
                let same = before == after || (hollow(before) && hollow(after));
                assert!(same || self.accessed.contains_key(address), "{address} changed unseen");
                let slots = |account: Option<&(AccountInfo, BTreeMap<U256, U256>)>| {
                    account.map(|(_, slots)| slots.clone()).unwrap_or_default()
                };
                let (old, new) = (slots(before), slots(after));
                for slot in old.keys().chain(new.keys()).filter(|slot| old.get(*slot) != new.get(*slot)) {
                    assert!(self.accessed[address].contains(slot), "slot {slot} of {address} changed unseen");
                }
            }
        }
    }

    /// Encodes the list.
    pub(super) fn finish(&mut self) -> Bytes {
        let list = core::mem::take(&mut self.list).into_values().map(|mut account| {
            account.storage_changes.sort_by_key(|changes| changes.slot);
            let changed: BTreeSet<_> = account.storage_changes.iter().map(|changes| changes.slot).collect();
            let reads: BTreeSet<_> = account.storage_reads.iter().filter(|slot| !changed.contains(*slot)).collect();
            account.storage_reads = reads.into_iter().copied().collect();
            account
        });
        let mut out = Vec::new();
        list.collect::<Vec<AccountChanges>>().encode(&mut out);
        out.into()
    }
}
