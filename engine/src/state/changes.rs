//! Changes of a block: the store's delta, and the changes to the index of accounts beside the store.

use super::Value;
use crate::model::Fault;
use alloy_primitives::{Address, B256, map::AddressMap};
use phalanx_memory::Strata;
use phalanx_merkle::Delta;
use phalanx_paralyze::StateKey;
use revm::primitives::hardfork::SpecId;

/// Sum of a block's changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) delta: Delta,
    pub(crate) accounts: AccountIndexDelta,
    /// Final values on a foreign state, in order; those on the own state are in `delta`.
    pub(crate) values: Vec<(StateKey, Value)>,
}

impl Changes {
    /// Appends later changes. O(operations).
    pub(crate) fn append(&mut self, later: Self) {
        let Self { delta, accounts, values } = later;
        self.values.extend(values);
        self.delta.append(delta);
        self.accounts.changes.extend(accounts.changes);
        self.accounts.bare_storage |= accounts.bare_storage;
    }

    /// Records that accounts which a block before EIP-161 leaves empty may hold storage.
    pub(crate) const fn follow(&mut self, spec: SpecId) {
        self.accounts.bare_storage = !spec.is_enabled_in(SpecId::SPURIOUS_DRAGON);
    }
}

/// Changes of the state's index of contracts and incarnations.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccountIndexDelta {
    pub(crate) changes: Vec<AccountChange>,
    /// True if accounts without code and nonce may hold storage from now on.
    pub(crate) bare_storage: bool,
}

/// An account whose code or incarnation the block changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccountChange {
    pub(crate) address: Address,
    /// Hash of the code; `None` without code.
    pub(crate) code: Option<B256>,
    /// New incarnation.
    pub(crate) incarnation: u32,
}

/// Account changes of uncommitted blocks on top of each other. Its lowest blocks may be committed by now.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccountLayers(Strata<AddressMap<AccountChange>>);

impl AccountLayers {
    /// Layers with a block on top, on the newest `depth` of these. O(the block's changes).
    pub(crate) fn with(&self, depth: usize, block: &AccountIndexDelta) -> Self {
        let mut layers = self.0.clone();
        layers.trim(depth);
        let known = block.changes.iter().filter(|_| !Fault::ForkIndex.is_seeded());
        let own: AddressMap<AccountChange> = known.map(|change| (change.address, *change)).collect();
        let weight = own.len();
        layers.push(own, weight, |older, newer| older.extend(newer));
        Self(layers)
    }

    /// Latest change of an account.
    #[inline]
    pub(crate) fn get(&self, address: &Address) -> Option<&AccountChange> {
        self.0.newest_first().find_map(|layer| layer.get(address))
    }
}
