//! The node around the application: its engine, pool and stores.

use crate::{error::Halt, header::Header};
use alloy_primitives::Bytes;
use phalanx_engine_api::{BlockEnv, BuildRequest, BuiltCandidate, ExecutionEngine, Failure};

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

    /// Builds a block from the pool, within a bounded time.
    ///
    /// # Errors
    /// The engine cannot build: [`Failure`] says why.
    fn build(&self, request: BuildRequest) -> Result<BuiltCandidate, Failure>;

    /// Offers a transaction to the pool. One that is there already is admitted.
    ///
    /// # Errors
    /// The refusal in words.
    fn admit(&self, tx: &Bytes) -> Result<(), String>;

    /// True if a transaction is still in the pool.
    fn is_waiting(&self, tx: &Bytes) -> bool;

    /// A block is committed: the node shows it. Returns the lowest height whose blocks CometBFT must keep; 0 for all.
    ///
    /// # Errors
    /// If the block cannot be shown: the application halts.
    fn committed(&self, height: u64) -> Result<u64, String>;

    /// Reads the state by CometBFT's query interface.
    ///
    /// # Errors
    /// The refusal in words.
    fn read(&self, path: &str, data: &Bytes, height: u64, prove: bool) -> Result<Read, String>;

    /// The application has halted: the node keeps a report and ends. Calls about blocks wait until this returns, so it must make
    /// none.
    fn halted(&self, why: &Halt);
}
