//! Progress of one speculative block: phase, turn, staging.

use crate::block::{Candidate, ExecOutcome};
use crate::engine::Priority;
use crate::id::{ExecId, Ticket};
use crate::status::CommitMeta;

/// Progress towards a root.
#[derive(Debug)]
pub(super) enum Phase<T> {
    Queued,
    Executed(T),
    Rooted(T, ExecOutcome),
}

/// Holder of the next step towards [`Phase::Rooted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A resource that is free.
    Waiting,
    /// The job that runs.
    Working,
    /// The caller, which was notified of a failure: the step is tried again when the block is submitted again.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Staging {
    No,
    Queued(Ticket),
    Writing(Ticket),
    Done,
}

#[derive(Debug)]
pub(super) struct Block<T> {
    pub(super) candidate: Candidate,
    pub(super) priority: Priority,
    pub(super) ticket: Ticket,
    pub(super) arrival: u64,
    pub(super) phase: Phase<T>,
    pub(super) turn: Turn,
    pub(super) staging: Staging,
    /// Memory of the executed block, in bytes, as the engine reports it.
    pub(super) weight: u64,
}

impl<T> Block<T> {
    /// Bytes that count against [`crate::Limits::bytes`].
    pub(super) fn bytes(&self) -> u64 {
        self.candidate.payload().bytes().saturating_add(self.weight)
    }

    pub(super) const fn height(&self) -> u64 {
        self.candidate.env().height
    }

    pub(super) const fn value(&self) -> Option<&T> {
        match &self.phase {
            Phase::Queued => None,
            Phase::Executed(value) | Phase::Rooted(value, _) => Some(value),
        }
    }

    pub(super) const fn outcome(&self) -> Option<&ExecOutcome> {
        if let Phase::Rooted(_, outcome) = &self.phase { Some(outcome) } else { None }
    }

    pub(super) const fn is_executed(&self) -> bool {
        !matches!(self.phase, Phase::Queued)
    }

    pub(super) const fn is_rooted(&self) -> bool {
        matches!(self.phase, Phase::Rooted(..))
    }
}

/// A commit that waits for its path to be staged, or is being written.
#[derive(Debug)]
pub struct Commit {
    pub(super) ticket: Ticket,
    pub(super) tip: ExecId,
    pub(super) path: Vec<ExecId>,
    pub(super) meta: CommitMeta,
    pub(super) writing: bool,
}

impl Commit {
    /// The blocks that become committed, oldest first. The last one is the tip.
    #[must_use]
    pub fn path(&self) -> &[ExecId] {
        &self.path
    }

    /// Metadata of the request.
    #[must_use]
    pub const fn meta(&self) -> &CommitMeta {
        &self.meta
    }

    /// Metadata that the block at `place` of the path is stored with: [`own_meta`].
    #[must_use]
    pub fn own_meta(&self, place: usize) -> CommitMeta {
        own_meta(&self.meta, place, self.path.len())
    }
}

/// Metadata that the block at `place` of a committed path of `length` blocks is stored with: the tip's proofs, its
/// own name and cursor.
#[must_use]
pub fn own_meta(meta: &CommitMeta, place: usize, length: usize) -> CommitMeta {
    let below = length.saturating_sub(1).saturating_sub(place) as u64;
    let block = meta.ancestors.get(place).copied().unwrap_or(meta.block);
    CommitMeta { block, ancestors: Vec::new(), cursor: meta.cursor.saturating_sub(below), ..meta.clone() }
}
