//! Reads and proofs of state.

use crate::failure::Failure;
use crate::id::ExecId;
use alloy_primitives::{Address, B256, Bytes, U256};
use std::sync::Arc;

/// State to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewAt {
    /// State of the newest committed block. Staged blocks are invisible here.
    Committed,
    /// State of a block by name: speculative, or committed and within the history.
    Exec(ExecId),
    /// State of the committed block at a height, within the history.
    Height(u64),
}

/// An account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountView {
    /// Balance, in wei.
    pub balance: U256,
    /// Number of transactions sent.
    pub nonce: u64,
    /// Hash of the code.
    pub code_hash: B256,
}

/// Snapshot of a state: it does not change while it is held.
pub trait StateView: Send + Sync {
    /// Height of the snapshot's block.
    fn height(&self) -> u64;
    /// Root of the state.
    fn root(&self) -> B256;
    /// Reads an account; `None` if there is none.
    ///
    /// # Errors
    /// `Pruned` if the block has left the history, `Superseded` if it was dropped, `Retry` while it is being written,
    /// `Fatal` if stored data cannot be read.
    fn account(&self, address: Address) -> Result<Option<AccountView>, Failure>;
    /// Reads a word of storage; zero if it was never written.
    ///
    /// # Errors
    /// `Pruned` if the block has left the history, `Superseded` if it was dropped, `Retry` while it is being written,
    /// `Fatal` if stored data cannot be read.
    fn storage(&self, address: Address, slot: B256) -> Result<B256, Failure>;
    /// Reads code by its hash; `None` if no contract has it.
    ///
    /// # Errors
    /// `Pruned` if the block has left the history, `Superseded` if it was dropped, `Retry` while it is being written,
    /// `Fatal` if stored data cannot be read.
    fn code(&self, hash: B256) -> Result<Option<Bytes>, Failure>;
}

/// Engine whose state can be read.
pub trait ReadState: Send + Sync {
    /// Takes a snapshot.
    ///
    /// # Errors
    /// `Retry` if the block is not executed, `Pruned` if its height has left the history.
    fn view(&self, at: ViewAt) -> Result<Arc<dyn StateView>, Failure>;
}

/// Statement about the committed state to prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofQuery {
    /// An account, or its absence.
    Account(Address),
    /// A word of storage.
    Slot(Address, B256),
    /// Result of a transaction, under the receipts root of its block.
    Transaction {
        /// Height of the block.
        height: u64,
        /// Position of the transaction.
        index: u32,
    },
    /// Status and place of a transaction, skipped or not, under the digest of its block's outcome: the whole answer to a
    /// client who trusts a certificate of that.
    Fate {
        /// Height of the block.
        height: u64,
        /// Position of the transaction.
        index: u32,
    },
    /// A transaction that was not skipped, under the transactions root of its block's header.
    Inclusion {
        /// Height of the block.
        height: u64,
        /// Position of the transaction.
        index: u32,
    },
}

/// Proof in the engine's own encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Root that the proof leads to: of the state, or of a block's receipts or transactions, or the digest of its outcome.
    pub root: B256,
    /// Encoded proof.
    pub bytes: Bytes,
}

/// Engine whose committed state can be proved to a client.
pub trait Prove: Send + Sync {
    /// Proves a statement.
    ///
    /// # Errors
    /// `Retry` if that block is not committed or its data is not kept, `Pruned` if it has left the history.
    fn prove(&self, query: ProofQuery) -> Result<Proof, Failure>;
}
