//! A small state as a whole, in order.

use super::{
    GenesisAccount, State,
    encoding::{StoredAccount, decode_slot_key},
    remote::remote_account,
    stored::{account, word},
};
use crate::model::Error;
use alloy_primitives::Address;
use std::collections::{BTreeMap, btree_map::Entry};

impl State {
    /// Every account of the committed state with its code and storage, in order: for small states. Of a chain above a
    /// [`RemoteState`](crate::RemoteState) those that it has changed, with the slots that it has changed. O(state).
    ///
    /// # Errors
    /// A stored value is not of the engine's format.
    pub fn dump(&self) -> Result<BTreeMap<Address, GenesisAccount>, Error> {
        let (mut stored, mut slots, mut bad) = (BTreeMap::new(), Vec::new(), None);
        self.store.read().each_committed(|key, value| {
            slots.extend(decode_slot_key(key).map(|name| (name, value.to_vec())));
            let Ok(address) = <[u8; 20]>::try_from(key) else { return };
            let address = Address::new(address);
            match account(&address, value) {
                Ok(account) => _ = stored.insert(address, account),
                Err(error) => _ = bad.get_or_insert(error),
            }
        })?;
        bad.map_or(Ok(()), Err)?;
        for ((address, ..), _) in slots.iter().filter(|_| self.remote.is_some()) {
            // A remote account whose slots alone have changed.
            if let (Entry::Vacant(place), Some(remote)) = (stored.entry(*address), &self.remote)
                && let Some(account) = remote.ask(|remote| remote_account(remote, address))?
            {
                place.insert(account.stored());
            }
        }
        let mut accounts = BTreeMap::new();
        for (address, StoredAccount { balance, nonce, code_hash, .. }) in stored.into_iter().filter(|(_, of)| of.exists)
        {
            let code = code_hash.map(|hash| self.code(&hash)).transpose()?;
            let code = code.map(|code| code.original_bytes()).filter(|code| !code.is_empty());
            accounts.insert(address, GenesisAccount { address, balance, nonce, code, storage: Vec::new() });
        }
        for ((address, slot, incarnation), value) in slots {
            if let Some(account) =
                accounts.get_mut(&address).filter(|_| incarnation == self.index.incarnation(&address))
            {
                let word = word(&address, &slot, &value)?;
                // Above a remote state a slot that became zero is stored.
                account.storage.extend((!word.is_zero()).then_some((slot, word)));
            }
        }
        for account in accounts.values_mut() {
            account.storage.sort_unstable();
        }
        Ok(accounts)
    }
}
