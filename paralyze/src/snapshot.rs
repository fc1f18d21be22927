use alloy_primitives::{Address, B256};
use revm::{
    DatabaseRef,
    database::{CacheDB, EmptyDB},
};

/// The committed state that predictions are made from.
///
/// Besides what revm reads, the rules ask one thing of every callee: which code it has. An implementation answers it
/// without loading the account where it can; it is asked once per transaction.
pub trait Snapshot: DatabaseRef + Sync {
    /// The hash of the account's code; `None` when it has none.
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
