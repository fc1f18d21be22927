//! The state that predictions are made from.

use alloy_primitives::{Address, B256};
use revm::{
    DatabaseRef,
    database::{CacheDB, EmptyDB},
};

/// The committed state that predictions are made from.
///
/// Besides revm's reads, the rules need the code hash of every callee, once per transaction. An implementation should find it
/// without loading the account.
pub trait Snapshot: DatabaseRef + Sync {
    /// Returns the hash of the account's code, or [`None`] if it has none.
    fn code_hash(&self, address: &Address) -> Option<B256>;
}

impl Snapshot for EmptyDB {
    fn code_hash(&self, _: &Address) -> Option<B256> {
        None
    }
}

impl<D: Snapshot> Snapshot for CacheDB<D> {
    fn code_hash(&self, address: &Address) -> Option<B256> {
        match self.cache.accounts.get(address) {
            Some(account) => account.info().map(|i| i.code_hash).filter(|h| *h != revm::primitives::KECCAK_EMPTY),
            None => self.db.code_hash(address),
        }
    }
}
