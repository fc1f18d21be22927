//! The changes of a block, by hashed key.

use core::ops::Range;

use alloy_primitives::{Address, B256, U256};

use super::values::Account;

/// Accounts of a part at most.
const PART: usize = 1 << 16;

/// Parts above which a part is appended to the last one.
const MANY: usize = 1 << 12;

/// Changes of a block: one per account, each with its slots, in any order.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Accounts in parts, none of them empty: threads that prepare them hand them over without a copy.
    accounts: Vec<Vec<AccountChange>>,
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

/// Change of an account, without slots until [`Changes::slot`] adds some.
#[derive(Clone, Debug)]
pub struct AccountChange {
    /// Keccak-256 of the address.
    pub key: B256,
    /// The account.
    pub address: Address,
    /// Fate of the account.
    pub fate: Fate,
    /// Fate of the storage before.
    pub wipe: Wipe,
    /// Indices of its slots' changes.
    slots: Range<u32>,
}

/// Change of a slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotChange {
    /// Keccak-256 of the slot.
    pub key: B256,
    /// The slot.
    pub slot: B256,
    /// Value, zero to remove it.
    pub value: U256,
}

impl Changes {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a list of slots whose accounts are added later.
    pub const fn of_slots(slots: Vec<SlotChange>) -> Self {
        Self { accounts: Vec::new(), slots }
    }

    /// Adds an account; `key` is the Keccak-256 of `address`. Slots that follow are its own.
    pub fn account(&mut self, key: B256, address: Address, fate: Fate, wipe: Wipe) {
        self.own(AccountChange::new(key, address, fate, wipe), 0..0);
    }

    /// Adds an account, with slots of [`Self::of_slots`]; indices past their end are left out.
    pub fn own(&mut self, mut account: AccountChange, slots: Range<usize>) {
        let most = self.slots.len();
        account.slots = slots.start.min(most) as u32..slots.end.min(most) as u32;
        match self.accounts.last_mut() {
            Some(last) if last.len() < PART => last.push(account),
            _ => self.accounts.push(vec![account]),
        }
    }

    /// Adds accounts without slots.
    pub fn append(&mut self, mut accounts: Vec<AccountChange>) {
        accounts.iter_mut().for_each(|account| account.slots = 0..0);
        if accounts.len() <= PART && self.accounts.len() < MANY {
            self.accounts.extend(Some(accounts).filter(|accounts| !accounts.is_empty()));
        } else {
            accounts.into_iter().for_each(|account| self.own(account, 0..0));
        }
    }

    /// Adds a slot of the account that was added last; `key` is the Keccak-256 of `slot`. Zero removes it.
    ///
    /// A slot before the first account has no owner and is not added, and one of a removed account is not read.
    pub fn slot(&mut self, key: B256, slot: B256, value: U256) {
        if let Some(account) = self.accounts.last_mut().and_then(|part| part.last_mut()) {
            let at = self.slots.len() as u32;
            if account.slots.is_empty() {
                account.slots.start = at;
            }
            self.slots.push(SlotChange { key, slot, value });
            account.slots.end = at + 1;
        }
    }

    /// Changed accounts, as they were added.
    pub fn accounts(&self) -> impl Iterator<Item = &AccountChange> {
        self.accounts.iter().flatten()
    }

    /// Parts of the accounts; an account's number follows from its part and place, by [`Self::number`].
    pub(crate) fn parts(&self) -> &[Vec<AccountChange>] {
        &self.accounts
    }

    /// Number of an account, which is below that of any account behind it.
    pub(crate) const fn number(part: usize, at: usize) -> u32 {
        (part * PART + at) as u32
    }

    /// Part and place of an account.
    pub(crate) const fn place(number: u32) -> (usize, usize) {
        (number as usize / PART, number as usize % PART)
    }

    /// The account with a number, which exists.
    pub(crate) fn at(&self, number: u32) -> &AccountChange {
        let (part, at) = Self::place(number);
        &self.accounts[part][at]
    }

    /// The account with a number, if there is one.
    pub(crate) fn get(&self, number: u32) -> Option<&AccountChange> {
        let (part, at) = Self::place(number);
        self.accounts.get(part)?.get(at)
    }

    /// Changed slots of all accounts, as they were added.
    pub fn slots(&self) -> &[SlotChange] {
        &self.slots
    }
}

impl AccountChange {
    /// Creates a change; `key` is the Keccak-256 of `address`.
    pub const fn new(key: B256, address: Address, fate: Fate, wipe: Wipe) -> Self {
        Self { key, address, fate, wipe, slots: 0..0 }
    }

    /// True if the change may alter the account's storage.
    pub(crate) fn touches_storage(&self) -> bool {
        !self.slots.is_empty() || self.wipe == Wipe::Storage || self.fate == Fate::Removed
    }

    /// Indices of its slots' changes.
    pub(crate) const fn slots(&self) -> Range<usize> {
        self.slots.start as usize..self.slots.end as usize
    }
}
