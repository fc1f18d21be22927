//! Accounts and slots that a state may hold: those of the genesis, and of the access list of every block since.

use super::{
    api::{Api, Until},
    error::RpcError,
};
use ::phalanx::eip7928::AccountChanges;
use alloy_primitives::{Address, U256};
use alloy_rlp::Decodable as _;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of accounts and slots of a call, some 100 MiB.
const MOST: usize = 1 << 20;

/// Slots by account.
pub(super) type Keys = BTreeMap<Address, BTreeSet<U256>>;

/// Keys that are collected until the time is over.
struct Found {
    keys: Keys,
    count: usize,
    /// The only account whose keys are collected; `None` for all.
    only: Option<Address>,
    until: Until,
}

impl Found {
    fn add(&mut self, address: Address, slots: impl IntoIterator<Item = U256>) -> Result<(), RpcError> {
        self.until.check()?;
        if self.only.is_some_and(|only| only != address) {
            return Ok(());
        }
        let is_new = !self.keys.contains_key(&address);
        let known = self.keys.entry(address).or_default();
        let before = known.len();
        known.extend(slots);
        self.count += known.len() - before + usize::from(is_new);
        if self.count > MOST {
            return Err(RpcError::limit(format!("the state has more than {MOST} accounts and slots to list")));
        }
        Ok(())
    }
}

/// Keys of the state after a block, of one account or of all. O(keys, and the access lists of all blocks). On a chain that goes on
/// from a remote one, they are those that this chain has written.
///
/// # Errors
/// Blocks are pruned, there are too many keys, or the time is over.
pub(super) fn keys(api: &Api, height: u64, only: Option<Address>, until: Until) -> Result<Keys, RpcError> {
    let second = api.chain.genesis.number + 1;
    if api.chain.first()? > second {
        return Err(RpcError::server("the keys of a state are in the blocks: leave out --keep-blocks"));
    }
    let mut found = Found { keys: Keys::new(), count: 0, only, until };
    for (address, account) in &*api.alloc {
        found.add(*address, account.storage.iter().flatten().map(|(slot, _)| U256::from_be_bytes(slot.0)))?;
    }
    for height in second..=height {
        until.check()?;
        let head = api.chain.head_at(height)?.ok_or_else(RpcError::pruned)?;
        let list = Vec::<AccountChanges>::decode(&mut &head.access_list[..])
            .map_err(|error| RpcError::internal(format!("the access list of block {height}: {error}")))?;
        for account in list {
            found.add(account.address, account.storage_changes.iter().map(|change| change.slot))?;
        }
    }
    Ok(found.keys)
}
