//! The state under a block in the making, as simulations see it between two batches.

use crate::{
    cells::{Still, Value},
    overlay::Overlay,
    state::{State, StateError},
};
use alloy_primitives::{Address, B256};
use phalanx_access::Interner;
use phalanx_paralyze::{Snapshot, StateKey};
use revm::{
    DatabaseRef,
    primitives::{StorageKey, StorageValue},
    state::{AccountInfo, Bytecode},
};

/// What the block's transactions have left so far, rewards that were deferred apart. Good for predictions.
#[derive(Debug)]
pub(super) struct Peek<'p> {
    pub(super) state: &'p State,
    pub(super) ground: Option<&'p Overlay<'p>>,
    /// Gives the ids of `cells`; of more, if the cells were put into the ground.
    pub(super) keys: &'p Interner<StateKey>,
    pub(super) cells: Still<'p>,
}

impl Peek<'_> {
    /// The value of a key that the committed state need not have.
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
        let (code_hash, code) = self.state.codes.get(value.code);
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
            Some(value) => (value.exists && !value.code.is_none()).then(|| self.state.codes.hash(value.code)),
            None => self.state.code_hash(address),
        }
    }
}
