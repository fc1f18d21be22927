//! Building of this node's own blocks.

use crate::block::{Candidate, ExecOutcome};
use crate::env::BlockEnv;
use crate::failure::Failure;
use crate::id::ExecId;
use crate::status::BlockBudget;
use alloy_primitives::Bytes;

/// Block to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRequest {
    /// Parent: an executed block, or the committed one.
    pub parent: ExecId,
    /// The new block's environment.
    pub env: BlockEnv,
    /// Bounds of the block.
    pub budget: BlockBudget,
    /// Transactions that come first, in this order, beyond the budget if need be.
    pub forced: Vec<Bytes>,
    /// Attributes of the block: see [`Payload::with_attributes`](crate::Payload::with_attributes).
    pub attributes: Bytes,
}

/// A built block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltCandidate {
    /// The block. Submitting it costs nothing if `outcome` is set.
    pub candidate: Candidate,
    /// Result of the block, if building executed it.
    pub outcome: Option<ExecOutcome>,
    /// Transactions that were tried and left out.
    pub dropped: Vec<Bytes>,
}

/// Block under construction. The best block improves until the job ends.
pub trait BuildHandle: Send {
    /// The best block so far: at least one with the forced transactions alone. May wait until it is sealed, in time linear in
    /// the block; the job goes on.
    ///
    /// # Errors
    /// Only with forced transactions: `Retry` until they have run, and the cause if no block can hold them.
    fn best(&self) -> Result<BuiltCandidate, Failure>;
    /// Waits until the block improves no more, or the time is over. Returns true in the first case.
    fn wait(&self, time: core::time::Duration) -> bool;
    /// Ends the job and returns the best block. Waits until the forced transactions have run.
    ///
    /// # Errors
    /// Only with forced transactions: the cause for which no block holds them.
    fn finish(self: Box<Self>) -> Result<BuiltCandidate, Failure>;
    /// Ends the job without a block.
    fn cancel(self: Box<Self>);
}

/// Engine with a pool of transactions.
pub trait Build: Send + Sync {
    /// Begins a block. Transactions of uncommitted ancestors are left out.
    ///
    /// # Errors
    /// `Retry` if the parent is not executed; `Invalid` if a forced transaction cannot be in a block.
    fn build(&self, request: BuildRequest) -> Result<Box<dyn BuildHandle>, Failure>;
}
