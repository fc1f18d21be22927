//! What a block changes: the store's delta, and what the state knows of accounts beside the store.

use crate::codes::CodeId;
use alloy_primitives::{Address, B256};
use phalanx_merkle::Delta;
use revm::primitives::hardfork::SpecId;

/// The sum of a block's changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) delta: Delta,
    pub(crate) beside: Beside,
}

impl Changes {
    /// Adds what comes later. O(operations).
    pub(crate) fn append(&mut self, later: Self) {
        let Self { delta, beside } = later;
        self.delta.append(delta);
        self.beside.accounts.extend(beside.accounts);
        self.beside.bare_storage |= beside.bare_storage;
    }

    /// Accounts that a block before EIP-161 creates and leaves empty may hold storage.
    pub(crate) const fn follow(&mut self, spec: SpecId) {
        self.beside.bare_storage = !spec.is_enabled_in(SpecId::SPURIOUS_DRAGON);
    }
}

/// What the state has to remember.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    pub(crate) accounts: Vec<AccountChange>,
    /// Whether accounts without code and nonce may hold storage from now on.
    pub(crate) bare_storage: bool,
}

/// An account whose code or incarnation is another after the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccountChange {
    pub(crate) address: Address,
    /// Its code from now on.
    pub(crate) code: Option<(CodeId, B256)>,
    /// Its incarnation from now on.
    pub(crate) incarnation: u32,
}
