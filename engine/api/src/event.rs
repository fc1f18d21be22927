//! Completions.

use crate::{ExecId, Failure, Outcome, Ticket};
use alloy_primitives::Bytes;

/// Which request a failure belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// [`crate::Engine::submit`]
    Submit,
    /// [`crate::Engine::stage`]
    Stage,
    /// [`crate::Engine::commit`]
    Commit,
    /// [`crate::Engine::keep_only`]
    KeepOnly,
    /// [`crate::Engine::finalise`]
    Finalise,
    /// [`crate::Engine::rewind`]
    Rewind,
}

/// What has happened. Along one branch events come parents first; a block's own come in the order of this list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// All writes are known: children may start, before the root is there.
    Executed {
        /// Of the submission.
        ticket: Ticket,
        /// Which block.
        id: ExecId,
    },
    /// State and receipts are committed to.
    Rooted {
        /// Of the submission.
        ticket: Ticket,
        /// The result.
        outcome: Outcome,
    },
    /// Durable, and invisible to readers.
    Staged {
        /// Of the request.
        ticket: Ticket,
        /// Which block.
        id: ExecId,
    },
    /// Visible, with all its ancestors.
    Committed {
        /// Of the request.
        ticket: Ticket,
        /// The newest committed block.
        tip: ExecId,
        /// Its height.
        height: u64,
    },
    /// Speculative blocks are gone, after `keep_only`, `commit` or `rewind`.
    Dropped {
        /// Which blocks.
        ids: Vec<ExecId>,
        /// Their transactions: they may go back to the pool.
        txs: Vec<Bytes>,
    },
    /// The committed tip is what was asked for.
    Rewound {
        /// Of the request.
        ticket: Ticket,
        /// The committed tip.
        to: ExecId,
    },
    /// No worker touches state until the next `submit`.
    Quiesced {
        /// Of the request.
        ticket: Ticket,
    },
    /// A request came to nothing.
    Failed {
        /// Of the request.
        ticket: Ticket,
        /// Which block it named.
        id: ExecId,
        /// Which request it was.
        operation: Operation,
        /// Why.
        why: Failure,
    },
}
