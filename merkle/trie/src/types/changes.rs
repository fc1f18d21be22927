//! The changes of a block, by hashed key.

use core::ops::Range;

use alloy_primitives::{Address, B256, U256};

use super::values::Account;

/// Changes of a block: one per account, each with its slots, in any order.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    accounts: Vec<AccountChange>,
    slots: Vec<SlotChange>,
}

/// Fate of an account's nonce, balance and code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They stay; the account exists.
    Kept,
    /// They become these, and the account exists.
    Set(Account),
    /// The account ceases to exist, and its storage with it.
    Removed,
}

/// Fate of the storage that an account had before the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wipe {
    /// Slots keep their values, but for those that change.
    Nothing,
    /// All slots become zero, before those of the change are set.
    Storage,
}

/// Change of an account.
#[derive(Clone, Debug)]
pub struct AccountChange {
    pub(crate) key: B256,
    pub(crate) address: Address,
    pub(crate) fate: Fate,
    pub(crate) wipe: Wipe,
    /// Indices of its slots' changes.
    pub(crate) slots: Range<u32>,
}

/// Change of a slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotChange {
    pub(crate) key: B256,
    pub(crate) slot: B256,
    pub(crate) value: U256,
}

impl Changes {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty list with room for so many accounts and slots.
    pub fn with_capacity(accounts: usize, slots: usize) -> Self {
        Self { accounts: Vec::with_capacity(accounts), slots: Vec::with_capacity(slots) }
    }

    /// Adds an account; `key` is the Keccak-256 of `address`. Slots that follow are its own.
    pub fn account(&mut self, key: B256, address: Address, fate: Fate, wipe: Wipe) {
        let at = self.slots.len() as u32;
        self.accounts.push(AccountChange { key, address, fate, wipe, slots: at..at });
    }

    /// Adds a slot of the account that was added last; `key` is the Keccak-256 of `slot`. Zero removes it.
    ///
    /// A slot before the first account has no owner and is not added, and one of a removed account is not read.
    pub fn slot(&mut self, key: B256, slot: B256, value: U256) {
        if let Some(account) = self.accounts.last_mut() {
            self.slots.push(SlotChange { key, slot, value });
            account.slots.end = self.slots.len() as u32;
        }
    }

    /// Changed accounts, as they were added.
    pub fn accounts(&self) -> &[AccountChange] {
        &self.accounts
    }

    /// Changed slots of all accounts, as they were added.
    pub fn slots(&self) -> &[SlotChange] {
        &self.slots
    }
}

impl AccountChange {
    /// True if the change may alter the account's storage.
    pub(crate) fn touches_storage(&self) -> bool {
        !self.slots.is_empty() || self.wipe == Wipe::Storage || self.fate == Fate::Removed
    }

    pub(crate) const fn slots(&self) -> Range<usize> {
        self.slots.start as usize..self.slots.end as usize
    }
}
