//! The result of executing a block's transactions, whichever executor ran.

use crate::{
    exec::{outcomes::Outcomes, overlay::Overlay},
    model::Error,
    state::Changes,
};

/// Result of executing a block, independent of the executor.
#[derive(Debug)]
pub(crate) struct Run<'s> {
    /// Transactions that stayed, in final order.
    pub(crate) order: Vec<u32>,
    pub(crate) outcomes: Outcomes,
    pub(crate) after: After<'s>,
    pub(crate) left: Vec<u32>,
    pub(crate) stats: RunStats,
}

/// State after the transactions.
#[derive(Debug)]
pub(crate) enum After<'s> {
    /// Changes, ready to be merkleized.
    Changes(Changes),
    /// An overlay that is still worked on.
    Overlay(Overlay<'s>),
}

impl<'s> After<'s> {
    /// Overlay of a block that begins with steps of the protocol, which is always an overlay.
    pub(crate) fn overlay(&mut self) -> &mut Overlay<'s> {
        match self {
            Self::Overlay(overlay) => overlay,
            Self::Changes(_) => unreachable!("a block with a base leaves an overlay"),
        }
    }

    /// # Errors
    /// The store is corrupt.
    pub(crate) fn into_changes(self) -> Result<Changes, Error> {
        match self {
            Self::Changes(changes) => Ok(changes),
            Self::Overlay(overlay) => overlay.into_changes(),
        }
    }
}

/// Figures of a block's execution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunStats {
    /// Longest chain of the block, in transactions: of the DAG, and all that ran serially.
    pub critical_path: usize,
    /// Number of transactions that reached outside their predicted set.
    pub escapes: usize,
    /// Number of re-executions, over all transactions.
    pub reexecutions: usize,
    /// Number of executions on Block-STM that ended at a value on disk: others ran while it was read, then the transaction ran
    /// again. They are no re-executions.
    pub parked: usize,
    /// Number of values on disk for which a worker of Block-STM waited.
    pub waits: usize,
    /// Number of replayed calls, see [`Traces`](crate::Traces).
    pub replayed: usize,
    /// True if the block was taken from the DAG and executed otherwise.
    pub fallback: bool,
}

/// Executions and reads that Block-STM took for some transactions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    /// Number of executions that did not end at a value on disk, and of those that did.
    pub(crate) executions: usize,
    pub(crate) parked: usize,
    /// Number of values on disk for which a worker waited.
    pub(crate) waits: usize,
}

impl Took {
    pub(crate) const fn add(&mut self, other: Self) {
        self.executions += other.executions;
        self.parked += other.parked;
        self.waits += other.waits;
    }
}
