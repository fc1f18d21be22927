//! The result of executing a block's transactions, whichever executor ran.

use crate::{
    exec::{outcomes::Outcomes, overlay::Overlay},
    model::Error,
    state::Changes,
};

/// What execution leaves behind, whichever executor ran.
#[derive(Debug)]
pub(crate) struct Run<'s> {
    /// Of the transactions that stayed, in final order.
    pub(crate) order: Vec<u32>,
    pub(crate) outcomes: Outcomes,
    pub(crate) after: After<'s>,
    pub(crate) left: Vec<u32>,
    pub(crate) stats: RunStats,
}

/// The state after the transactions.
#[derive(Debug)]
pub(crate) enum After<'s> {
    /// Ready to be merkleized.
    Changes(Changes),
    /// Still to be worked on.
    Overlay(Overlay<'s>),
}

impl<'s> After<'s> {
    /// Of a block that begins with steps of the protocol, which is always an overlay.
    pub(crate) fn overlay(&mut self) -> &mut Overlay<'s> {
        match self {
            Self::Overlay(overlay) => overlay,
            Self::Changes(_) => unreachable!("a block with a base leaves an overlay"),
        }
    }

    /// # Errors
    /// If the store is corrupt.
    pub(crate) fn into_changes(self) -> Result<Changes, Error> {
        match self {
            Self::Changes(changes) => Ok(changes),
            Self::Overlay(overlay) => overlay.into_changes(),
        }
    }
}

/// Figures of one block's execution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunStats {
    /// Longest chain of the block, in transactions: of the DAG, and all that ran one by one.
    pub critical_path: usize,
    /// Transactions that reached outside their predicted set.
    pub escapes: usize,
    /// Executions beyond the first, over all transactions.
    pub reexecutions: usize,
    /// Calls that went a recorded way, see [`Traces`].
    pub replayed: usize,
    /// Whether the block was taken from the DAG and executed otherwise.
    pub fallback: bool,
}
