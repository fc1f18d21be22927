//! State of an open block, as simulations see it between two batches.

use crate::{
    exec::{cells::Still, overlay::Overlay},
    state::{StateError, StateRef, Value},
};
use alloy_primitives::{Address, B256};
use phalanx_access::Interner;
use phalanx_paralyze::{Snapshot, StateKey};
use revm::{
    DatabaseRef,
    primitives::{StorageKey, StorageValue},
    state::{AccountInfo, Bytecode},
};

/// Changes of the block's transactions so far, without deferred rewards. Good enough for predictions.
#[derive(Debug)]
pub(super) struct Peek<'p> {
    pub(super) state: StateRef<'p>,
    pub(super) ground: Option<&'p Overlay<'p>>,
    /// Ids of `cells`; it has further ids if the cells were folded into the base state.
    pub(super) keys: &'p Interner<StateKey>,
    pub(super) cells: Still<'p>,
}

impl Peek<'_> {
    /// Value of a key that the committed state may lack.
    fn changed(&self, key: &StateKey) -> Option<Value> {
        let id = self.keys.find(key).filter(|id| id.index() < self.cells.len());
        match id {
            Some(id) => Some(self.cells.get(id)),
            None => self.ground.and_then(|ground| ground.replaced(key)),
        }
    }
}

impl DatabaseRef for Peek<'_> {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        let Some(value) = self.changed(&StateKey::Basic(address)) else { return self.state.basic_ref(address) };
        if !value.exists {
            return Ok(None);
        }
        let (code_hash, code) = self.state.codes().get(value.code);
        let Value { number: balance, nonce, .. } = value;
        Ok(Some(AccountInfo { balance, nonce, code_hash, code: Some(code), account_id: None }))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, StateError> {
        self.state.code_by_hash_ref(code_hash)
    }

    fn storage_ref(&self, address: Address, slot: StorageKey) -> Result<StorageValue, StateError> {
        match self.changed(&StateKey::Slot(address, slot)) {
            Some(value) => Ok(value.number),
            None => self.state.storage_ref(address, slot),
        }
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        self.state.block_hash_ref(number)
    }
}

impl Snapshot for Peek<'_> {
    fn code_hash(&self, address: &Address) -> Option<B256> {
        match self.changed(&StateKey::Basic(*address)) {
            Some(value) => (value.exists && !value.code.is_none()).then(|| self.state.codes().hash(value.code)),
            None => self.state.code_hash(address),
        }
    }
}
