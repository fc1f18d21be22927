//! The state as revm and ParaLyze read it.

use super::{State, StateError, remote::remote_account};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY};
use phalanx_paralyze::Snapshot;
use revm::{
    DatabaseRef,
    primitives::{StorageKey, StorageValue},
    state::{AccountInfo, Bytecode},
};

impl DatabaseRef for State {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        self.info(&address)
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, StateError> {
        if code_hash == KECCAK256_EMPTY { Ok(Bytecode::default()) } else { self.code(&code_hash) }
    }

    fn storage_ref(&self, address: Address, slot: StorageKey) -> Result<StorageValue, StateError> {
        self.slot(&address, &slot, self.incarnation(&address))
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        let remote = || self.remote.as_ref().map_or(B256::ZERO, |remote| remote.hash(number));
        Ok(self.ancestors.get(&number).copied().unwrap_or_else(remote))
    }
}

impl Snapshot for State {
    fn code_hash(&self, address: &Address) -> Option<B256> {
        match self.changed(address) {
            Some(change) => change.code,
            None => self.index.code_hash(address).or_else(|| {
                // A prediction, not a result, depends on it.
                self.remote.as_ref()?.ask(|remote| remote_account(remote, address)).ok()??.code_hash
            }),
        }
    }
}
