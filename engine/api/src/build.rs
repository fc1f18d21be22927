//! Building a block of one's own.

use crate::{BlockEnv, Budget, Candidate, ExecId, Failure, Outcome};
use alloy_primitives::Bytes;

/// What to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRequest {
    /// An executed block, or the committed one.
    pub parent: ExecId,
    /// The new block's environment.
    pub env: BlockEnv,
    /// What it may hold.
    pub budget: Budget,
    /// Transactions that come first, in this order, whatever the budget.
    pub forced: Vec<Bytes>,
}

/// A built block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The block. Submitting it costs nothing if `outcome` is there.
    pub candidate: Candidate,
    /// Its result, if building executed it.
    pub outcome: Option<Outcome>,
    /// Transactions that were tried and left out.
    pub dropped: Vec<Bytes>,
}

/// A block being built, which gets better while it is let alone.
pub trait BuildJob: Send {
    /// The best block so far: at least an empty one, never an error.
    fn best(&self) -> Built;
    /// The best block, and the end of the job.
    fn seal(self: Box<Self>) -> Built;
    /// Ends the job for nothing.
    fn cancel(self: Box<Self>);
}

/// An engine with a pool of transactions.
pub trait Build: Send + Sync {
    /// Begins a block. Transactions of uncommitted ancestors are left out.
    ///
    /// # Errors
    /// `Retry` if the parent is not executed.
    fn build(&self, request: BuildRequest) -> Result<Box<dyn BuildJob>, Failure>;
}
