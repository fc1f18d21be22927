//! Values and names of leaves: from the changes, or from the store where a leaf only moved.

use alloy_primitives::{Address, B256, U256};

use phalanx_memory::{prefetch, prefetch_all};

use super::{EMPTY_ROOT, storages::Storages, tasks::Task};
use crate::{
    grow::{NONE, Names},
    hash::{LeafValues, account_value, slot_value},
    nodes::{Leaf, Name, Shard},
    types::{Account, Changes, Error, Fate, Values},
};

/// Slots of all storages.
pub(super) struct SlotValues<'a, V> {
    pub(super) changes: &'a Changes,
    pub(super) values: &'a V,
    pub(super) tasks: &'a [Task],
}

/// Names of slots.
pub(super) struct SlotNames<'a>(pub(super) &'a Changes);

/// Accounts.
pub(super) struct AccountValues<'a, V> {
    pub(super) changes: &'a Changes,
    pub(super) values: &'a V,
}

/// Names of accounts, with the storages that the update made, by change.
pub(super) struct AccountNames<'a> {
    pub(super) changes: &'a Changes,
    pub(super) storages: &'a Storages,
}

impl Names for SlotNames<'_> {
    fn name(&self, change: u32) -> Name {
        Name::of_slot(self.0.slots()[change as usize].slot)
    }
}

impl Names for AccountNames<'_> {
    fn name(&self, change: u32) -> Name {
        Name::of_account(&self.changes.at(change).address, self.storages.get(change).unwrap_or(0))
    }
}

impl<V: Values> SlotValues<'_, V> {
    /// Writes the value of a slot.
    pub(super) fn write_of(
        &self,
        account: u32,
        leaf: &Leaf,
        change: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), Error<V::Error>> {
        let value = match change {
            NONE => slot(self.values, &self.changes.at(account).address, leaf)?,
            change => self.changes.slots()[change as usize].value,
        };
        slot_value(&value, out);
        Ok(())
    }
}

impl<V: Values> LeafValues for SlotValues<'_, V> {
    type Error = Error<V::Error>;

    fn prefetch(&self, change: u32) {
        self.changes.slots().get(change as usize).into_iter().for_each(prefetch);
    }

    fn write(&self, _: &Shard, leaf: &Leaf, task: u32, change: u32, out: &mut Vec<u8>) -> Result<(), Self::Error> {
        self.write_of(self.tasks[task as usize].account, leaf, change, out)
    }
}

impl<V: Values> LeafValues for AccountValues<'_, V> {
    type Error = Error<V::Error>;

    fn prefetch(&self, change: u32) {
        self.changes.get(change).into_iter().for_each(prefetch_all);
    }

    fn write(&self, shard: &Shard, leaf: &Leaf, _: u32, change: u32, out: &mut Vec<u8>) -> Result<(), Self::Error> {
        let read;
        let account = match self.changes.get(change).map(|change| &change.fate) {
            Some(Fate::Set(account)) => account,
            _ => {
                read = account(self.values, leaf)?;
                &read
            }
        };
        account_value(account, &storage_root(shard, leaf), out);
        Ok(())
    }
}

/// Root of the storage of an account's leaf.
#[inline]
pub(crate) fn storage_root(shard: &Shard, leaf: &Leaf) -> B256 {
    match leaf.name.storage() {
        0 => EMPTY_ROOT,
        storage => shard.storages.get(storage).root,
    }
}

/// The store's account for a leaf.
pub(crate) fn account<V: Values>(values: &V, leaf: &Leaf) -> Result<Account, Error<V::Error>> {
    let address = leaf.name.address();
    values.account(&address).map_err(Error::Values)?.ok_or(Error::Missing { address, slot: None })
}

/// The store's value for a leaf of a storage.
pub(crate) fn slot<V: Values>(values: &V, address: &Address, leaf: &Leaf) -> Result<U256, Error<V::Error>> {
    let slot = leaf.name.slot();
    let value = values.slot(address, &slot).map_err(Error::Values)?;
    if value.is_zero() { Err(Error::Missing { address: *address, slot: Some(slot) }) } else { Ok(value) }
}
