//! Compares a received list with a block's true list: for blocks that do not run on a list's values.

use crate::{
    bal::{Footprint, List, list::Slot, record::Event},
    model::{AccessListFault, ChangedValue},
};
use alloy_eips::eip7928::{AccountChanges, BlockAccessIndex};
use alloy_primitives::{Address, U256};

/// First step that differs from `list`, and the fault; the step is `None` if no step differs but the list has surplus
/// entries. `true_list` holds the effects of `steps`, each with its index.
pub(crate) fn first_fault<'f>(
    list: &List,
    true_list: &[AccountChanges],
    steps: impl IntoIterator<Item = (u64, &'f Footprint)>,
    beneficiary: &Address,
) -> Option<(Option<usize>, AccessListFault)> {
    if list.accounts == true_list {
        return None;
    }
    let mut first = First(None);
    for account in true_list {
        let listed = list.find(&account.address).map(|number| &list.accounts[number]);
        changed(&mut first, account, listed);
    }
    for account in list.accounts.iter().filter(|account| !contains(true_list, &account.address)) {
        changed(&mut first, &AccountChanges::new(account.address), Some(account));
    }
    for (index, footprint) in steps {
        unlisted(&mut first, list, index, footprint, beneficiary);
    }
    let ended = first.0.map(|(index, fault)| (usize::try_from(index).ok(), fault));
    Some(ended.unwrap_or_else(|| (None, untouched(list, true_list))))
}

/// Least index and, at that index, the least fault.
struct First(Option<(u64, AccessListFault)>);

impl First {
    fn add(&mut self, index: u64, fault: AccessListFault) {
        let found = (index, fault);
        self.0 = Some(match self.0.take() {
            Some(held) => held.min(found),
            None => found,
        });
    }
}

fn contains(accounts: &[AccountChanges], address: &Address) -> bool {
    accounts.binary_search_by_key(address, |account| account.address).is_ok()
}

/// Compares all changes of an account.
fn changed(first: &mut First, truth: &AccountChanges, listed: Option<&AccountChanges>) {
    let address = truth.address;
    let nothing = AccountChanges::new(address);
    let listed = listed.unwrap_or(&nothing);
    let mut differ = |index: Option<u64>, slot, what| {
        if let Some(index) = index {
            first.add(index, AccessListFault::Value { address, slot, what });
        }
    };
    let (a, b) = (&truth.balance_changes, &listed.balance_changes);
    differ(parting(a, b, |change| change.block_access_index), None, ChangedValue::Balance);
    let (a, b) = (&truth.nonce_changes, &listed.nonce_changes);
    differ(parting(a, b, |change| change.block_access_index), None, ChangedValue::Nonce);
    let (a, b) = (&truth.code_changes, &listed.code_changes);
    differ(parting(a, b, |change| change.block_access_index), None, ChangedValue::Code);
    let slots = truth.storage_changes.iter().chain(&listed.storage_changes).map(|changes| changes.slot);
    for slot in slots {
        let of = |account: &AccountChanges| {
            let place = account.storage_changes.binary_search_by_key(&slot, |changes| changes.slot);
            place.map(|place| account.storage_changes[place].changes.clone()).unwrap_or_default()
        };
        let (a, b) = (of(truth), of(listed));
        differ(parting(&a, &b, |change| change.block_access_index), Some(slot), ChangedValue::Storage);
    }
}

/// First index at which two lists of changes differ.
fn parting<T: PartialEq>(a: &[T], b: &[T], at: impl Fn(&T) -> BlockAccessIndex) -> Option<u64> {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let rest = [a.get(same), b.get(same)];
    rest.into_iter().flatten().map(|change| at(change).get()).min()
}

/// Records the accounts and slots that the step at `index` accessed and that are not listed.
fn unlisted(first: &mut First, list: &List, index: u64, footprint: &Footprint, beneficiary: &Address) {
    let mut account = |address: &Address| {
        let number = list.find(address);
        if number.is_none() {
            first.add(index, AccessListFault::Unlisted { address: *address, slot: None });
        }
        number
    };
    if footprint.reward.is_some() {
        account(beneficiary);
    }
    for (to, _) in &footprint.shares {
        account(to);
    }
    let (mut named, mut missing) = ((Address::ZERO, None), Vec::new());
    for event in &footprint.events {
        match event {
            Event::Account(address) => named = (*address, account(address)),
            Event::Read(slot) | Event::Write { slot, .. } => {
                let (address, number) = named;
                if number.is_some_and(|number| list.find_slot(number, slot).is_none()) {
                    missing.push(AccessListFault::Unlisted { address, slot: Some(*slot) });
                }
            }
            _ => {}
        }
    }
    missing.into_iter().for_each(|fault| first.add(index, fault));
}

/// First surplus entry of a list that holds all true entries.
fn untouched(list: &List, true_list: &[AccountChanges]) -> AccessListFault {
    for (number, account) in list.accounts.iter().enumerate() {
        let address = account.address;
        let Ok(place) = true_list.binary_search_by_key(&address, |account| account.address) else {
            return AccessListFault::Untouched { address, slot: None };
        };
        let has = |slot: &U256| {
            let AccountChanges { storage_changes, storage_reads, .. } = &true_list[place];
            storage_reads.binary_search(slot).is_ok()
                || storage_changes.binary_search_by_key(slot, |changes| changes.slot).is_ok()
        };
        let extra = account.storage_reads.iter().find(|slot| !has(slot));
        if let Some(slot) = extra.filter(|slot| matches!(list.find_slot(number, slot), Some(Slot::Read(_)))) {
            return AccessListFault::Untouched { address, slot: Some(*slot) };
        }
    }
    AccessListFault::Malformed("it says the same in other words".into())
}
