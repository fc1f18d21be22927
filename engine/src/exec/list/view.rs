//! View of one transaction of a block with a known access list: the state before the block, and the list's values of
//! the earlier steps. Nothing else is shown.

use crate::state::LocalCodes;
use crate::{bal::Values, model::AccessListFault};
use alloy_primitives::{Address, B256, U256};
use revm::{
    Database,
    database_interface::DBErrorMarker,
    primitives::{StorageKey, StorageValue},
    state::{AccountInfo, Bytecode},
};
use std::sync::Arc;

/// A worker's view of the block.
#[derive(Default)]
pub(super) struct ListView {
    values: Option<Arc<Values>>,
    index: u64,
    /// Account of the last lookup.
    last: Option<(Address, usize)>,
    local: LocalCodes,
}

impl core::fmt::Debug for ListView {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ListView").field("index", &self.index).finish_non_exhaustive()
    }
}

/// Reason why the database refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// A requested item is not in the list.
    #[error(transparent)]
    Unlisted(AccessListFault),
    /// Code was requested by a hash that no account has.
    #[error("no code with hash {0}")]
    UnknownCode(B256),
}

impl DBErrorMarker for Refused {}

const fn unlisted(address: Address, slot: Option<U256>) -> Refused {
    Refused::Unlisted(AccessListFault::Unlisted { address, slot })
}

impl ListView {
    pub(super) fn enter(&mut self, values: Arc<Values>) {
        self.local.enter(&values.codes);
        self.values = Some(values);
    }

    pub(super) fn leave(&mut self) {
        self.values = None;
    }

    /// Shows the step at `index` from now on.
    pub(super) const fn show(&mut self, index: u64) {
        self.index = index;
        self.last = None;
    }

    fn find(&mut self, address: Address) -> Option<usize> {
        if let Some((last, number)) = self.last
            && last == address
        {
            return Some(number);
        }
        let number = self.values.as_ref()?.list.find(&address)?;
        self.last = Some((address, number));
        Some(number)
    }

    fn values(&self) -> &Values {
        self.values.as_ref().expect("a view is shown inside a block")
    }
}

impl Database for ListView {
    type Error = Refused;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Refused> {
        let number = self.find(address).ok_or_else(|| unlisted(address, None))?;
        let value = self.values().account(number, self.index);
        if !value.exists {
            return Ok(None);
        }
        let values = self.values.as_ref().expect("a view is shown inside a block");
        let (code_hash, code) = self.local.get(value.code, &values.codes);
        let (balance, nonce) = (value.number, value.nonce);
        Ok(Some(AccountInfo { balance, nonce, code_hash, code: Some(code), account_id: None }))
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, Refused> {
        // Accounts are shown with their code, so revm has no reason to request it.
        let values = self.values.as_ref().expect("a view is shown inside a block");
        let id = values.codes.find(&code_hash).ok_or(Refused::UnknownCode(code_hash))?;
        Ok(self.local.get(id, &values.codes).1)
    }

    fn storage(&mut self, address: Address, slot: StorageKey) -> Result<StorageValue, Refused> {
        let number = self.find(address).ok_or_else(|| unlisted(address, None))?;
        let values = self.values();
        let place = values.list.find_slot(number, &slot).ok_or_else(|| unlisted(address, Some(slot)))?;
        Ok(values.slot(number, place, self.index))
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Refused> {
        Ok(self.values().hashes.get(number))
    }
}
