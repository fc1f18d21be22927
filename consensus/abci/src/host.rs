//! The node around the application: its engine, pool and stores.

use crate::{
    error::{CallError, Halt},
    header::Header,
};
use alloy_primitives::Bytes;
use phalanx_engine_api::{BlockEnv, BuildRequest, BuiltCandidate, Candidate, ExecutionEngine, Failure, Offer};
use std::time::Duration;

/// Answer to a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Height of the state. Its root is the app hash in the header of the next height.
    pub height: u64,
    /// Value that was read.
    pub value: Bytes,
    /// Proof under the state root, if one was asked for.
    pub proof: Option<Bytes>,
}

/// Reason for which a pool does not admit a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The pool never will: the bytes are no transaction of this chain, or none that can still come.
    #[error("{0}")]
    Final(String),
    /// The pool may later: the pool is full, or accounts and fees do not allow it now.
    #[error("{0}")]
    Passing(String),
}

/// Node that runs an ABCI application. Every method may be called from several threads.
pub trait Host: Send + Sync + 'static {
    /// The engine. The application takes all its events.
    fn engine(&self) -> &dyn ExecutionEngine;

    /// Environment of the child of the newest visible block: a function of that block and the header alone, so that every
    /// node derives the same.
    ///
    /// # Errors
    /// If the chain has no block with this header.
    fn env(&self, header: &Header) -> Result<BlockEnv, String>;

    /// Checks that the bytes of a proposal are transactions of its chain, each with a signer. The answer is a function of the
    /// candidate alone, so that every node finds the same. What does not decode pays no gas, and would stay on every disk.
    ///
    /// # Errors
    /// Place of the first bytes that are none, and the reason.
    fn check(&self, _candidate: &Candidate) -> Result<(), (usize, String)> {
        Ok(())
    }

    /// Builds a block from the pool, within a bounded time.
    ///
    /// # Errors
    /// The engine cannot build: [`Failure`] says why.
    fn build(&self, request: BuildRequest) -> Result<BuiltCandidate, Failure>;

    /// Offers transactions to the pool that have arrived together, in order, and returns a result for each: the refusal is in words.
    /// One that is there already is admitted.
    fn admit(&self, txs: &[Bytes]) -> Vec<Result<(), Refused>>;

    /// Offers transactions of other validators to the pool, as [`Self::admit`] does. Only a CometBFT with the application's mempool
    /// calls this. It offers a transaction again only if the refusal is passing.
    fn insert(&self, txs: &[Bytes]) -> Vec<Result<(), Refused>> {
        self.admit(txs)
    }

    /// Takes transactions for the pools of other validators, of at most so many bytes or fewer: those that no earlier call has taken.
    /// Only a CometBFT with the application's mempool calls this, regularly; it takes the rest by the next calls.
    fn reap(&self, _max_bytes: u64) -> Vec<Bytes> {
        Vec::new()
    }

    /// True if a transaction is still in the pool.
    fn is_waiting(&self, tx: &Bytes) -> bool;

    /// A block is committed: the node shows it. Returns the lowest height whose blocks CometBFT must keep; 0 for all.
    ///
    /// # Errors
    /// If the block cannot be shown: the application halts.
    fn committed(&self, height: u64) -> Result<u64, String>;

    /// Snapshots that other nodes may take from this one.
    fn snapshots(&self) -> Vec<Offer>;

    /// A chunk of one of them; `None` if there is none any more.
    fn chunk(&self, height: u64, format: u32, number: u32) -> Option<Bytes>;

    /// Reads the state by CometBFT's query interface.
    ///
    /// # Errors
    /// The refusal in words.
    fn read(&self, path: &str, data: &Bytes, height: u64, prove: bool) -> Result<Read, String>;

    /// A call of CometBFT was answered, or refused, after this time. For counters; it must not wait.
    fn called(&self, _call: &'static str, _refused: bool, _took: Duration) {}

    /// A proposal was rejected. For counters; it must not wait.
    fn rejected(&self, _why: &CallError) {}

    /// The application has halted: the node keeps a report and ends. Calls about blocks wait until this returns, so it must make
    /// none.
    fn halted(&self, why: &Halt);
}
