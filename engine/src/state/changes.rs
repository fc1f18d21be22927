//! Changes of a block: the store's delta, and the changes to the index of accounts beside the store.

use alloy_primitives::{Address, B256};
use phalanx_merkle::Delta;
use revm::primitives::hardfork::SpecId;

/// Sum of a block's changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) delta: Delta,
    pub(crate) accounts: AccountIndexDelta,
}

impl Changes {
    /// Appends later changes. O(operations).
    pub(crate) fn append(&mut self, later: Self) {
        let Self { delta, accounts } = later;
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
