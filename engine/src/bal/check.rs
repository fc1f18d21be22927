//! Checks that a step did exactly what the list says.

use crate::model::paid;
use crate::{
    bal::{
        List, Values,
        effects::Sink,
        list::{Slot, before},
    },
    model::{AccessListFault, ChangedValue},
};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, B256, Bytes, U256};

/// Compares one step with the list. Every change must be listed with its value, every access must be listed, and as
/// many changes must be listed as happened: so every listed change happened.
#[derive(Debug)]
pub(crate) struct Check<'v> {
    values: &'v Values,
    index: u64,
    /// Account of the next events: its address, and its number if it is listed.
    current: (Address, Option<usize>),
    found: u32,
    /// Least fault so far, independent of the order in which faults are found.
    fault: Option<AccessListFault>,
    /// Account that is paid at the end, with its balance before the step and up to then.
    payee: Option<Payee>,
}

#[derive(Clone, Copy, Debug)]
struct Payee {
    address: Address,
    balance: Option<(U256, U256)>,
}

impl<'v> Check<'v> {
    /// Creates the check of a step. `payee` is the account that will be paid at the end ([`Self::pay`]).
    pub(crate) const fn new(values: &'v Values, index: u64, payee: Option<Address>) -> Self {
        let payee = match payee {
            Some(address) => Some(Payee { address, balance: None }),
            None => None,
        };
        Self { values, index, current: (Address::ZERO, None), found: 0, fault: None, payee }
    }

    /// Records an access to account `number` of the list; further events concern it.
    pub(crate) fn listed_account(&mut self, address: &Address, number: usize) {
        self.current = (*address, Some(number));
        self.values.mark(self.list().key(number));
    }

    const fn list(&self) -> &'v List {
        &self.values.list
    }

    fn blame(&mut self, fault: AccessListFault) {
        self.fault = Some(match self.fault.take() {
            Some(held) => held.min(fault),
            None => fault,
        });
    }

    fn account_of(&self) -> Option<&'v AccountChanges> {
        self.current.1.map(|number| &self.list().accounts[number])
    }

    /// Entry of the list at this step, among changes with known places.
    fn listed<T>(
        &self,
        changes: &'v [T],
        at: impl Fn(&T) -> alloy_eips::eip7928::BlockAccessIndex,
    ) -> Option<(usize, &'v T)> {
        let place = before(changes, self.index, &at);
        changes.get(place).filter(|change| at(change).get() == self.index).map(|change| (place, change))
    }

    fn judge(&mut self, right: bool, slot: Option<U256>, what: ChangedValue) {
        if right {
            self.found += 1;
        } else if self.current.1.is_some() {
            let address = self.current.0;
            self.blame(AccessListFault::Value { address, slot, what });
        }
    }

    fn balance_becomes(&mut self, after: U256) {
        let right = self.account_of().is_some_and(|account| {
            let listed = self.listed(&account.balance_changes, |change| change.block_access_index);
            listed.is_some_and(|(_, change)| change.post_balance == after)
        });
        self.judge(right, None, ChangedValue::Balance);
    }

    /// Pays the payee.
    pub(crate) fn pay(&mut self, reward: U256) {
        let Some(Payee { address, balance }) = self.payee.take() else { return };
        self.account(&address);
        let Some(number) = self.current.1 else { return };
        let (before, now) = balance.unwrap_or_else(|| {
            let balance = self.values.account(number, self.index).number;
            (balance, balance)
        });
        let after = paid(now, reward);
        if after != before {
            self.balance_becomes(after);
        }
    }

    /// Adds the events of a list of this step alone.
    pub(crate) fn add(&mut self, accounts: &[AccountChanges]) {
        let nothing = U256::ZERO;
        for account in accounts {
            self.account(&account.address);
            account.balance_changes.iter().for_each(|change| self.balance(nothing, change.post_balance));
            account.nonce_changes.iter().for_each(|change| self.nonce(0, change.new_nonce));
            for change in &account.code_changes {
                self.code(B256::ZERO, B256::ZERO, change.new_code.clone());
            }
            account.storage_reads.iter().for_each(|slot| self.read(*slot));
            for slot in &account.storage_changes {
                slot.changes.iter().for_each(|change| self.write(slot.slot, nothing, change.new_value));
            }
        }
    }

    /// Verdict on the step.
    ///
    /// # Errors
    /// The least fault.
    pub(crate) fn finish(mut self) -> Result<(), AccessListFault> {
        if let Some(Payee { address, balance: Some((_, after)) }) = self.payee.take() {
            // No payment happened after all.
            self.account(&address);
            self.balance_becomes(after);
        }
        let listed = self.list().listed(self.index);
        match self.fault {
            Some(fault) => Err(fault),
            None if self.found != listed => Err(AccessListFault::Extra { listed, happened: self.found }),
            None => Ok(()),
        }
    }
}

impl Sink for Check<'_> {
    fn account(&mut self, address: &Address) {
        match self.list().find(address) {
            Some(number) => self.listed_account(address, number),
            None => {
                self.current = (*address, None);
                self.blame(AccessListFault::Unlisted { address: *address, slot: None });
            }
        }
    }

    fn balance(&mut self, before: U256, after: U256) {
        match &mut self.payee {
            Some(payee) if payee.address == self.current.0 => payee.balance = Some((before, after)),
            _ => self.balance_becomes(after),
        }
    }

    /// The view shows every account, so no credit is blind.
    fn credit(&mut self, _: U256) {
        self.judge(false, None, ChangedValue::Balance);
    }

    fn nonce(&mut self, _: u64, after: u64) {
        let right = self.account_of().is_some_and(|account| {
            let listed = self.listed(&account.nonce_changes, |change| change.block_access_index);
            listed.is_some_and(|(_, change)| change.new_nonce == after)
        });
        self.judge(right, None, ChangedValue::Nonce);
    }

    fn code(&mut self, _: B256, _: B256, after: Bytes) {
        let right = self.current.1.is_some_and(|number| {
            let changes = &self.list().accounts[number].code_changes;
            let listed = self.listed(changes, |change| change.block_access_index);
            listed.is_some_and(|(_, change)| change.new_code == after)
        });
        self.judge(right, None, ChangedValue::Code);
    }

    fn read(&mut self, slot: U256) {
        let Some(number) = self.current.1 else { return };
        match self.list().find_slot(number, &slot) {
            Some(Slot::Changed(_)) => {}
            Some(place) => self.values.mark(self.list().slot_key(number, place)),
            None => {
                let address = self.current.0;
                self.blame(AccessListFault::Unlisted { address, slot: Some(slot) });
            }
        }
    }

    fn write(&mut self, slot: U256, _: U256, after: U256) {
        let Some(number) = self.current.1 else { return };
        let right = match self.list().find_slot(number, &slot) {
            Some(Slot::Changed(place)) => {
                let changes = &self.list().accounts[number].storage_changes[place].changes;
                let listed = self.listed(changes, |change| change.block_access_index);
                listed.is_some_and(|(_, change)| change.new_value == after)
            }
            _ => false,
        };
        self.judge(right, Some(slot), ChangedValue::Storage);
    }
}
