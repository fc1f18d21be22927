//! The engine's account index of forks.

use crate::{
    model::Error,
    state::{AccountChange, AccountIndexDelta, AccountLayers, State, account},
};
use alloy_primitives::{Address, map::HashMap};
use phalanx_merkle::{BlockId, Fork};

/// Facts about forks that the store does not know.
#[derive(Debug, Default)]
pub(super) struct Forks(HashMap<BlockId, ForkAccounts>);

#[derive(Debug)]
struct ForkAccounts {
    parent: BlockId,
    /// Changes of the block itself.
    own: AccountIndexDelta,
    /// Changes since the committed block, the own ones included.
    above: AccountLayers,
}

impl Forks {
    /// Restores the forks that were staged when the store was closed.
    pub(super) fn restore(state: &State) -> Result<Self, Error> {
        let mut branches = Self::default();
        for Fork { block, parent, .. } in state.store.forks() {
            let mut accounts = AccountIndexDelta::default();
            let below = state.store.snapshot(parent)?;
            let below = below.read()?;
            state.store.changes_of(block, |key, value| {
                let Ok(address) = <[u8; 20]>::try_from(key) else { return Ok::<_, Error>(()) };
                let address = Address::new(address);
                let kept = |value: Option<&[u8]>| {
                    let stored = value.map(|value| account(&address, value)).transpose()?;
                    Ok::<_, Error>(stored.map_or((None, 0), |stored| (stored.code_hash, stored.incarnation)))
                };
                let (code_hash, incarnation) = kept(value)?;
                if (code_hash, incarnation) != kept(below.get(key))? {
                    accounts.changes.push(AccountChange { address, code: code_hash, incarnation });
                }
                Ok(())
            })?;
            branches.add(block, parent, accounts);
        }
        Ok(branches)
    }

    /// Adds a fork. O(its changes).
    pub(super) fn add(&mut self, block: BlockId, parent: BlockId, own: AccountIndexDelta) {
        let below = core::iter::successors(self.0.get(&parent), |fork| self.0.get(&fork.parent));
        let depth = below.count();
        let above = self.accounts(parent).with(depth, &own);
        self.0.insert(block, ForkAccounts { parent, own, above });
    }

    /// True if the block is a fork.
    pub(super) fn has(&self, block: BlockId) -> bool {
        self.0.contains_key(&block)
    }

    /// Parent of a fork.
    pub(super) fn parent(&self, block: BlockId) -> Option<BlockId> {
        self.0.get(&block).map(|fork| fork.parent)
    }

    /// Removes a fork that is committed now; returns the accounts that it changed.
    pub(super) fn take(&mut self, block: BlockId) -> Option<AccountIndexDelta> {
        self.0.remove(&block).map(|fork| fork.own)
    }

    /// Drops forks that the store has dropped.
    pub(super) fn prune(&mut self, state: &State) {
        self.0.retain(|block, _| state.store.is_fork(*block));
    }

    /// Accounts whose code or incarnation at `block` differs from the committed state.
    pub(super) fn accounts(&self, block: BlockId) -> AccountLayers {
        self.0.get(&block).map(|fork| fork.above.clone()).unwrap_or_default()
    }
}
