//! Reading and proving state.

use crate::{ExecId, Failure};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::sync::Arc;

/// Which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewAt {
    /// The newest committed block's. Staged blocks are invisible here.
    Committed,
    /// A speculative block's, by name.
    Exec(ExecId),
}

/// An account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountView {
    /// Wei.
    pub balance: U256,
    /// Transactions sent.
    pub nonce: u64,
    /// Hash of its code.
    pub code_hash: B256,
}

/// A state that does not change while it is held.
pub trait StateView: Send + Sync {
    /// Height of its block.
    fn height(&self) -> u64;
    /// Commitment to it.
    fn root(&self) -> B256;
    /// An account, if there is one.
    ///
    /// # Errors
    /// `Fatal` if stored data cannot be read.
    fn account(&self, address: Address) -> Result<Option<AccountView>, Failure>;
    /// A word of storage, zero if it was never written.
    ///
    /// # Errors
    /// `Fatal` if stored data cannot be read.
    fn storage(&self, address: Address, slot: B256) -> Result<B256, Failure>;
}

/// An engine whose state can be read.
pub trait ReadState: Send + Sync {
    /// A state.
    ///
    /// # Errors
    /// `Retry` if the block is not executed.
    fn view(&self, at: ViewAt) -> Result<Arc<dyn StateView>, Failure>;
}

/// What to prove about the committed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofQuery {
    /// An account, or that there is none.
    Account(Address),
    /// A word of storage.
    Slot(Address, B256),
    /// That a transaction is in a block, and how it ended.
    Transaction {
        /// Height of the block.
        height: u64,
        /// Its position.
        index: u32,
    },
}

/// A proof in the engine's own encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// What it leads to: a state root, or a receipts root for a transaction.
    pub root: B256,
    /// The proof.
    pub bytes: Bytes,
}

/// An engine whose committed state can be proved to a client.
pub trait Prove: Send + Sync {
    /// A proof.
    ///
    /// # Errors
    /// `Retry` if that block is not committed or its data is pruned.
    fn prove(&self, query: ProofQuery) -> Result<Proof, Failure>;
}
