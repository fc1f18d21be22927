//! Life cycle of a block in an engine: the calls, their order, and what a crash leaves of each.

use crate::block::Candidate;
use crate::event::EngineEvent;
use crate::failure::Failure;
use crate::id::{ExecId, Ticket};
use crate::status::{CommitMeta, CommittedTip, EngineStatus, Pressure};
use core::fmt;
use std::sync::Arc;

/// Urgency of an execution; the highest runs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// This node builds the block.
    Build,
    /// Proposed.
    Speculative,
    /// Ordered: every validator waits for it.
    Decided,
}

/// Callback for waiting events. It must be cheap and must not call the engine.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// Wraps a function.
    #[must_use]
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// Notifies that events are waiting.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// Engine that executes speculative forks, stages them on disk, and commits one of them.
///
/// No call but `rewind` blocks on execution or disk: it is accepted or refused at once, and completes by an [`EngineEvent`].
/// A call that is refused leaves everything as it was. Every call may be repeated; what is already true is reported again
/// under the new ticket.
///
/// | call | needs | afterwards | a crash in the middle |
/// |---|---|---|---|
/// | `submit` | parent committed or submitted; room within [`crate::Limits`] | `Executed`, then `Rooted`, equal to serial execution in payload order | forgotten; submit again |
/// | `stage` | `Rooted`; parent committed, staged or being staged | `Staged`: survives a crash of the process, invisible; the commit makes it durable | absent or whole |
/// | `commit` | `Rooted`, descends from the committed block | all heights up to it visible, `meta` in the same write; what is not staged is staged first; what can no longer win is `Dropped` | each height whole or absent |
/// | `keep_only` | leaves are submitted | everything but the leaves and their ancestors is `Dropped` | staged garbage is reclaimed at reopening |
/// | `finalise` | at most the committed height | no rewind below | safe |
/// | `rewind` | committed, at or above the finalised height; no commit under way | at its return: the committed block is that one; what is above is gone | one or the other |
/// | `quiesce` | nothing | `Quiesced` when no worker can touch state | nothing to lose |
pub trait ExecutionEngine: Send + Sync {
    /// Committed and staged blocks.
    fn status(&self) -> EngineStatus;

    /// The block committed at a height, with its own name in `meta`: as far back as the engine can rewind.
    fn committed_at(&self, height: u64) -> Option<CommittedTip>;

    /// Executes a block as soon as its parent is executed, by priority. A second submission may raise the priority
    /// and never lowers it. A block that was staged before a crash need not be executed again.
    ///
    /// # Errors
    /// `Retry` for a missing parent, no room, or an engine at rest; `Invalid` for what needs no execution to be seen;
    /// `Superseded` at or below the committed height.
    fn submit(&self, ticket: Ticket, candidate: Candidate, priority: Priority) -> Result<(), Failure>;

    /// Writes a block to disk without showing it to readers. Several blocks of one height may be staged.
    ///
    /// # Errors
    /// `Retry` if the block is not rooted, its parent is neither durable nor being staged, or the disk is full;
    /// `Superseded` if the fork has lost.
    fn stage(&self, ticket: Ticket, id: ExecId) -> Result<(), Failure>;

    /// Makes `tip` and its ancestors the state. Blocks at or below its height off the path can no longer win.
    ///
    /// # Errors
    /// `Retry` if something on the path is not rooted; `Fatal` if `tip` does not descend from the committed block.
    fn commit(&self, ticket: Ticket, tip: ExecId, meta: CommitMeta) -> Result<(), Failure>;

    /// Drops all speculative blocks but `leaves` and their ancestors.
    ///
    /// # Errors
    /// `Fatal` if a leaf does not descend from the committed block. Leaves that are not there are ignored.
    fn keep_only(&self, ticket: Ticket, leaves: &[ExecId]) -> Result<(), Failure>;

    /// Promises that no rewind goes below `height`: undo data below it may be pruned.
    ///
    /// # Errors
    /// `Retry` above the committed height.
    fn finalise(&self, ticket: Ticket, height: u64) -> Result<(), Failure>;

    /// Makes an earlier committed block the newest again. The effect is durable when the call returns: the call may
    /// wait for the disk, and no other call takes effect meanwhile. [`EngineEvent::Rewound`] reports it as well.
    ///
    /// # Errors
    /// `Retry` while a commit is under way or if the disk is full; `Fatal` below the finalised height or off the committed
    /// path.
    fn rewind(&self, ticket: Ticket, to: ExecId) -> Result<(), Failure>;

    /// Stops all work: before state sync and shutdown. Speculative blocks are dropped. Submissions are refused until
    /// [`resume`](Self::resume).
    fn quiesce(&self, ticket: Ticket);

    /// Accepts submissions again.
    fn resume(&self);

    /// Backlog of execution.
    fn pressure(&self) -> Pressure;

    /// Appends at most `max` waiting events to `out`, oldest first. Returns their number.
    fn poll(&self, max: usize, out: &mut Vec<EngineEvent>) -> usize;

    /// Sets the callback for waiting events.
    fn set_waker(&self, waker: Waker);
}
