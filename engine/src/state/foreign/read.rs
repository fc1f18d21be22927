//! A database of the caller behind one type, whose failures are errors.

use alloy_primitives::{Address, B256, U256};
use core::{error::Error, fmt};
use revm::{
    DatabaseRef,
    state::{AccountInfo, Bytecode},
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Error of a read.
pub(super) type Fault = Box<dyn Error + Send + Sync>;

/// Reads of a [`DatabaseRef`] of any type.
pub(super) trait Read: Sync {
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, Fault>;
    fn code(&self, hash: B256) -> Result<Bytecode, Fault>;
    fn slot(&self, address: Address, slot: U256) -> Result<U256, Fault>;
    fn block_hash(&self, number: u64) -> Result<B256, Fault>;
}

impl<D: DatabaseRef + Sync> Read for D {
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, Fault> {
        guarded(|| self.basic_ref(address))
    }

    fn code(&self, hash: B256) -> Result<Bytecode, Fault> {
        guarded(|| self.code_by_hash_ref(hash))
    }

    fn slot(&self, address: Address, slot: U256) -> Result<U256, Fault> {
        guarded(|| self.storage_ref(address, slot))
    }

    fn block_hash(&self, number: u64) -> Result<B256, Fault> {
        guarded(|| self.block_hash_ref(number))
    }
}

/// A database panicked.
#[derive(Debug)]
struct Panicked(String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database panicked: {}", self.0)
    }
}

impl Error for Panicked {}

/// Calls `read`; a panic of it is an error. A database that panics is in a state of its own making, so nothing here
/// relies on it.
fn guarded<T, E: Error + Send + Sync + 'static>(read: impl FnOnce() -> Result<T, E>) -> Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(Into::into),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(Panicked(text.unwrap_or_else(|| "without a message".into())).into())
        }
    }
}
