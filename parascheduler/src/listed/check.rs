//! Checks that a step did exactly what the list says.

use crate::listed::{
    Departure, How, Listed, Place,
    left::Left,
    list::{Entry, Value},
};
use alloy_eip7928::BlockAccessIndex;
use alloy_primitives::Address;
use revm_state::EvmState;

impl Listed<'_> {
    /// Compares what the step at `index` did with what the list says of it. Every change must be listed with its value, and
    /// every listed change must happen. O(changes · log changes).
    ///
    /// `state` is what revm's `transact` returns. Accesses without a change are not compared: they leave no value.
    ///
    /// # Errors
    /// The least [`Departure`].
    pub fn check(&self, index: BlockAccessIndex, state: &EvmState) -> Result<(), Departure> {
        let entries = self.entries(index);
        let (mut changes, mut right, mut is_lost) = (0, 0, false);
        for (address, account) in state {
            let Some(left) = Left::of(account) else { continue };
            changes += left.places().count();
            right += of(entries, address).filter(|entry| self.compare(entry, Some(&left)).is_none()).count();
            is_lost |= left.is_lost();
        }
        // Each entry has its change, and there are as many changes: so each change has its entry.
        if right == entries.len() && changes == right && !is_lost {
            return Ok(());
        }
        self.least(entries, state).map_or(Ok(()), Err)
    }

    /// Difference between an entry and what is left of its account.
    fn compare(&self, entry: &Entry<'_>, left: Option<&Left<'_>>) -> Option<How> {
        let Some(left) = left else { return Some(How::DidNotHappen) };
        match entry.value {
            Value::Balance(balance) => differ(balance, left.balance()),
            Value::Nonce(nonce) => differ(&nonce, left.nonce()),
            Value::Code(number) => match self.code(number) {
                Some((hash, _)) => differ(hash, left.code()),
                None => Some(How::OtherValue),
            },
            Value::Slot(slot, value) => differ(value, left.slot(slot)),
        }
    }

    /// Least difference.
    fn least(&self, entries: &[Entry<'_>], state: &EvmState) -> Option<Departure> {
        let wrong = entries.iter().filter_map(|entry| {
            let left = state.get(entry.address).and_then(Left::of);
            let how = self.compare(entry, left.as_ref())?;
            Some(Departure { address: *entry.address, place: place(entry), how })
        });
        let lefts = state.iter().filter_map(|(address, account)| Some((*address, Left::of(account)?)));
        let unlisted = lefts.filter_map(|(address, left)| {
            if left.is_lost() {
                return Some(Departure { address, place: Place::Account, how: How::Destroyed });
            }
            // In order, as the entries of an account are.
            let listed: Vec<_> = of(entries, &address).map(place).collect();
            let place = left.places().filter(|place| listed.binary_search(place).is_err()).min()?;
            Some(Departure { address, place, how: How::NotListed })
        });
        wrong.chain(unlisted).min()
    }
}

fn differ<T: PartialEq>(listed: &T, happened: Option<T>) -> Option<How> {
    match happened {
        Some(value) if value == *listed => None,
        Some(_) => Some(How::OtherValue),
        None => Some(How::DidNotHappen),
    }
}

/// Entries of an account, among those of a step, which are in the order of addresses.
fn of<'e, 'l>(entries: &'e [Entry<'l>], address: &Address) -> impl Iterator<Item = &'e Entry<'l>> {
    let first = entries.partition_point(|entry| entry.address < address);
    entries.iter().skip(first).take_while(move |entry| entry.address == address)
}

const fn place(entry: &Entry<'_>) -> Place {
    match entry.value {
        Value::Balance(_) => Place::Balance,
        Value::Nonce(_) => Place::Nonce,
        Value::Code(_) => Place::Code,
        Value::Slot(slot, _) => Place::Slot(*slot),
    }
}
