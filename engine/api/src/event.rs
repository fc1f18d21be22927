//! Completions of requests.

use crate::block::ExecOutcome;
use crate::failure::Failure;
use crate::id::{ExecId, Ticket};
use alloy_primitives::Bytes;

/// Request that a failure belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// [`crate::ExecutionEngine::submit`]
    Submit,
    /// [`crate::ExecutionEngine::stage`]
    Stage,
    /// [`crate::ExecutionEngine::commit`]
    Commit,
    /// [`crate::ExecutionEngine::keep_only`]
    KeepOnly,
    /// [`crate::ExecutionEngine::finalise`]
    Finalise,
    /// [`crate::ExecutionEngine::rewind`]
    Rewind,
}

/// Completion of a request. Along one fork parents complete first; the events of one block follow the order of this
/// list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// All writes are known: children may start before the root is computed.
    Executed {
        /// Ticket of the submission.
        ticket: Ticket,
        /// Executed block.
        id: ExecId,
    },
    /// State and receipts are merkleized.
    Rooted {
        /// Ticket of the submission.
        ticket: Ticket,
        /// Result of the block.
        outcome: ExecOutcome,
    },
    /// On disk, and invisible to readers. Survives a crash of the process; a power cut may lose it, since its commit makes it
    /// durable.
    Staged {
        /// Ticket of the request.
        ticket: Ticket,
        /// Staged block.
        id: ExecId,
    },
    /// Visible, with all ancestors.
    Committed {
        /// Ticket of the request.
        ticket: Ticket,
        /// The newest committed block.
        tip: ExecId,
        /// Height of `tip`.
        height: u64,
    },
    /// Speculative blocks are gone, after `keep_only`, `commit` or `rewind`.
    Dropped {
        /// Dropped blocks.
        ids: Vec<ExecId>,
        /// Transactions of the dropped blocks: they may go back to the pool.
        txs: Vec<Bytes>,
    },
    /// The committed tip is the requested block.
    Rewound {
        /// Ticket of the request.
        ticket: Ticket,
        /// The committed tip.
        to: ExecId,
    },
    /// No worker touches state until the next `submit`.
    Quiesced {
        /// Ticket of the request.
        ticket: Ticket,
    },
    /// A request failed.
    Failed {
        /// Ticket of the request.
        ticket: Ticket,
        /// Block that the request named.
        id: ExecId,
        /// Kind of the request.
        operation: Operation,
        /// Reason of the failure.
        why: Failure,
    },
}
