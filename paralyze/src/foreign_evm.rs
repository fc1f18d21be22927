//! An EVM or handler that is not this crate's, behind one object: it runs a transaction on any of the executors' databases.

use alloy_primitives::{Address, B256, U256};
use core::fmt;
use revm::{
    Database,
    context::{BlockEnv, CfgEnv, TxEnv},
    context_interface::result::{ExecutionResult, InvalidTransaction},
    database_interface::DBErrorMarker,
    primitives::{StorageKey, StorageValue},
    state::{AccountInfo, Bytecode, EvmState},
};

/// Runs the transactions of a chain instead of revm's mainnet handler: another handler, other instructions, another EVM.
///
/// Every executor calls it, from many threads, so a run must depend on its arguments alone. Call traces are off, and so are
/// ways around the EVM, unless [`Self::runs_as_mainnet`].
pub trait ForeignEvm: fmt::Debug + Send + Sync {
    /// Runs `tx` on `db`, and returns its result with its changes. An error of `db` ends the run: it must be returned, as any
    /// failure, and is never the transaction's fault.
    ///
    /// # Errors
    /// The transaction is invalid, or the EVM failed.
    fn run(
        &self,
        db: ForeignDb<'_>,
        cfg: &CfgEnv,
        env: &BlockEnv,
        tx: &TxEnv,
    ) -> Result<(ExecutionResult, EvmState), ForeignFailure>;

    /// Returns true if [`Self::run`] leaves out the payment of the beneficiary. The engine then makes it, with all shares of
    /// the rules, and payments cost no parallelism. Otherwise each transaction writes the beneficiary's account, so that none
    /// runs beside another.
    fn defers_payments(&self) -> bool {
        false
    }

    /// Returns true if transactions have mainnet's effects, and [`Self::defers_payments`]. Then transfers may run without an
    /// EVM, and recorded calls are replayed.
    fn runs_as_mainnet(&self) -> bool {
        false
    }
}

/// Reason why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignFailure {
    /// The transaction is invalid.
    #[error("the transaction is invalid: {0}")]
    Invalid(InvalidTransaction),
    /// The EVM failed for a reason that is not the transaction's.
    #[error("the EVM failed: {0}")]
    Failed(String),
}

/// State that a foreign EVM runs on.
pub struct ForeignDb<'a>(&'a mut dyn Database<Error = Stopped>);

impl fmt::Debug for ForeignDb<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignDb").finish_non_exhaustive()
    }
}

/// The state cannot be read, or not by this transaction at this time. The executor knows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state refused a read, so the run must end")]
pub struct Stopped;

impl DBErrorMarker for Stopped {}

impl Database for ForeignDb<'_> {
    type Error = Stopped;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Stopped> {
        self.0.basic(address)
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, Stopped> {
        self.0.code_by_hash(hash)
    }

    fn storage(&mut self, address: Address, slot: StorageKey) -> Result<StorageValue, Stopped> {
        self.0.storage(address, slot)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Stopped> {
        self.0.block_hash(number)
    }
}

/// A database whose first error is kept: a foreign EVM sees only that there was one.
pub(crate) struct Kept<'d, D: Database> {
    db: &'d mut D,
    failed: Option<D::Error>,
}

impl<'d, D: Database> Kept<'d, D> {
    pub(crate) const fn new(db: &'d mut D) -> Self {
        Self { db, failed: None }
    }

    /// Lends the database out.
    pub(crate) fn lend(&mut self) -> ForeignDb<'_> {
        ForeignDb(self)
    }

    /// Takes the first error.
    pub(crate) const fn take_error(&mut self) -> Option<D::Error> {
        self.failed.take()
    }

    /// Answers a read, unless an earlier one failed.
    fn read<T>(&mut self, read: impl FnOnce(&mut D) -> Result<T, D::Error>) -> Result<T, Stopped> {
        if self.failed.is_some() {
            return Err(Stopped);
        }
        read(self.db).map_err(|error| {
            self.failed = Some(error);
            Stopped
        })
    }
}

impl<D: Database> Database for Kept<'_, D> {
    type Error = Stopped;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Stopped> {
        self.read(|db| db.basic(address))
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, Stopped> {
        self.read(|db| db.code_by_hash(hash))
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, Stopped> {
        self.read(|db| db.storage(address, slot))
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Stopped> {
        self.read(|db| db.block_hash(number))
    }
}
