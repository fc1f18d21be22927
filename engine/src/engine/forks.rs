//! The engine's account index of forks.

use crate::{
    model::Error,
    state::{AccountChange, AccountIndexDelta, State, account},
};
use alloy_primitives::{Address, map::HashMap};
use phalanx_merkle::{BlockId, Fork};

/// Facts about forks that the store does not know.
#[derive(Debug, Default)]
pub(super) struct Forks(pub(super) HashMap<BlockId, ForkAccounts>);

#[derive(Debug)]
pub(super) struct ForkAccounts {
    pub(super) parent: BlockId,
    pub(super) accounts: AccountIndexDelta,
}

impl Forks {
    /// Restores the forks that were staged when the store was closed.
    pub(super) fn restore(state: &State) -> Result<Self, Error> {
        let mut branches = Self::default();
        for Fork { block, parent, .. } in state.store.forks() {
            let mut accounts = AccountIndexDelta::default();
            let below = state.store.snapshot(parent)?;
            let below = below.read()?;
            state.store.fork_changes(block, |key, value| {
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
            branches.0.insert(block, ForkAccounts { parent, accounts });
        }
        Ok(branches)
    }

    /// Drops forks that the store has dropped.
    pub(super) fn prune(&mut self, state: &State) {
        self.0.retain(|block, _| state.store.is_fork(*block));
    }

    /// Accounts whose code or incarnation at `block` differs from the committed state.
    pub(super) fn accounts(&self, block: BlockId) -> HashMap<Address, AccountChange> {
        let mut accounts = HashMap::default();
        let mut at = block;
        while let Some(fork) = self.0.get(&at) {
            for change in &fork.accounts.changes {
                // The latest change counts.
                accounts.entry(change.address).or_insert(*change);
            }
            at = fork.parent;
        }
        accounts
    }
}
