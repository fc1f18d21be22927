//! Changes of a block that is not committed yet, by account and slot.

use super::{
    State, StateError, account,
    encoding::{decode_slot, decode_slot_key},
};
use crate::model::Error;
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};
use phalanx_merkle::BlockId;
use std::collections::BTreeMap;

/// An account after a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedAccount {
    /// Number of transactions sent, or contracts created.
    pub nonce: u64,
    /// Balance, in wei.
    pub balance: U256,
    /// Hash of the code; the hash of no bytes if there is none.
    pub code_hash: B256,
}

/// Values that a block writes, after the block. Some may equal those before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateDiff {
    /// Written accounts; `None` for deleted ones, all of whose storage is gone with them.
    pub accounts: BTreeMap<Address, Option<ChangedAccount>>,
    /// Written slots; zero for deleted ones.
    pub storage: BTreeMap<(Address, U256), U256>,
    /// Accounts whose earlier storage was emptied as a whole, before the slots of this block were written.
    pub emptied: Vec<Address>,
}

impl State {
    /// Changes of a fork.
    ///
    /// # Errors
    /// The block is gone, or a stored value is not of the engine's format.
    pub(crate) fn diff(&self, block: BlockId, parent: BlockId) -> Result<StateDiff, Error> {
        let mut diff = StateDiff::default();
        let below = self.store.snapshot(parent)?;
        let below = below.read()?;
        self.store.changes_of(block, |key, value| {
            if let Ok(address) = <[u8; 20]>::try_from(key) {
                let address = Address::new(address);
                let stored = value.map(|bytes| account(&address, bytes)).transpose()?;
                let incarnation = |stored: Option<_>| stored.map_or(0, |(_, incarnation)| incarnation);
                let before = below.get(key).map(|bytes| account(&address, bytes)).transpose()?;
                let before = incarnation(before.map(|stored| (stored.exists, stored.incarnation)));
                if incarnation(stored.map(|stored| (stored.exists, stored.incarnation))) != before {
                    diff.emptied.push(address);
                }
                let changed = stored.filter(|stored| stored.exists).map(|stored| ChangedAccount {
                    nonce: stored.nonce,
                    balance: stored.balance,
                    code_hash: stored.code_hash.unwrap_or(KECCAK256_EMPTY),
                });
                diff.accounts.insert(address, changed);
            } else if let Some((address, slot, _)) = decode_slot_key(key) {
                let word = match value {
                    Some(bytes) => decode_slot(bytes).ok_or_else(|| StateError(format!("slot {slot} of {address}")))?,
                    None => U256::ZERO,
                };
                diff.storage.insert((address, slot), word);
            }
            Ok::<_, Error>(())
        })?;
        Ok(diff)
    }
}
