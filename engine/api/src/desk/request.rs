//! Requests of callers. Each returns as the call of [`crate::ExecutionEngine`] of the same name.

use super::{
    Desk,
    block::{Block, Commit, Phase, Staging, Turn},
};
use crate::block::Candidate;
use crate::engine::Priority;
use crate::event::EngineEvent;
use crate::failure::{Failure, FatalCause, InvalidCause, RetryCause};
use crate::id::{ExecId, Ticket};
use crate::status::CommitMeta;
use std::collections::BTreeSet;

impl<T> Desk<T> {
    /// As [`crate::ExecutionEngine::submit`]. A block whose execution or root failed with `Retry` or `Fatal` is tried again.
    ///
    /// # Errors
    /// Those of [`crate::ExecutionEngine::submit`].
    pub fn submit(&mut self, ticket: Ticket, candidate: Candidate, priority: Priority) -> Result<(), Failure> {
        if self.resting.is_some() {
            return Err(Failure::Retry(RetryCause::Quiesced));
        }
        let (id, height) = (candidate.id(), candidate.env().height);
        if height <= self.height() {
            return Err(Failure::Superseded);
        }
        if let Some(block) = self.blocks.get_mut(&id) {
            block.ticket = ticket;
            block.priority = block.priority.max(priority);
            if block.turn == Turn::Failed {
                block.turn = Turn::Waiting;
            }
            if block.is_executed() {
                self.events.push_back(EngineEvent::Executed { ticket, id });
            }
            if let Some(outcome) = block.outcome() {
                self.events.push_back(EngineEvent::Rooted { ticket, outcome: outcome.clone() });
            }
            if block.staging == Staging::Done {
                self.events.push_back(EngineEvent::Staged { ticket, id });
            }
            return Ok(());
        }
        let parent = candidate.parent();
        let expected = self.height_on(parent).ok_or(Failure::Retry(RetryCause::MissingParent(parent)))?;
        if height != expected {
            return Err(Failure::Invalid(InvalidCause::Height { says: height, expected }));
        }
        self.admit(&candidate, priority)?;
        let block = Block {
            priority,
            ticket,
            arrival: self.next(),
            phase: Phase::Queued,
            turn: Turn::Waiting,
            staging: Staging::No,
            weight: 0,
            candidate,
        };
        self.blocks.insert(id, block);
        Ok(())
    }

    /// Depth bounds all blocks; siblings and bytes bind undecided ones only, so that losers cannot keep out the
    /// winner.
    fn admit(&self, candidate: &Candidate, priority: Priority) -> Result<(), Failure> {
        let height = candidate.env().height;
        let siblings = self.blocks.values().filter(|block| block.height() == height).count();
        let bytes = self.blocks.values().fold(0u64, |sum, block| sum.saturating_add(block.bytes()));
        let full = siblings >= self.limits.siblings as usize
            || bytes.saturating_add(candidate.payload().bytes()) > self.limits.bytes;
        if height > self.height() + u64::from(self.limits.depth) || (full && priority != Priority::Decided) {
            return Err(Failure::Retry(RetryCause::Busy));
        }
        Ok(())
    }

    /// As [`crate::ExecutionEngine::stage`].
    ///
    /// # Errors
    /// Those of [`crate::ExecutionEngine::stage`].
    pub fn stage(&mut self, ticket: Ticket, id: ExecId) -> Result<(), Failure> {
        let Some(block) = self.blocks.get(&id) else {
            self.rows.find(id).ok_or(Failure::Retry(RetryCause::NotReady(id)))?;
            self.events.push_back(EngineEvent::Staged { ticket, id });
            return Ok(());
        };
        if !block.is_rooted() {
            return Err(Failure::Retry(RetryCause::NotReady(id)));
        }
        let parent = block.candidate.parent();
        if self.blocks.get(&parent).is_some_and(|parent| parent.staging == Staging::No) {
            return Err(Failure::Retry(RetryCause::NotReady(parent)));
        }
        let Some(block) = self.blocks.get_mut(&id) else { return Ok(()) };
        match &mut block.staging {
            staging @ Staging::No => *staging = Staging::Queued(ticket),
            Staging::Queued(old) | Staging::Writing(old) => *old = ticket,
            Staging::Done => self.events.push_back(EngineEvent::Staged { ticket, id }),
        }
        Ok(())
    }

    /// As [`crate::ExecutionEngine::commit`].
    ///
    /// # Errors
    /// Those of [`crate::ExecutionEngine::commit`], and `Retry` while another commit is under way.
    pub fn commit(&mut self, ticket: Ticket, tip: ExecId, meta: CommitMeta) -> Result<(), Failure> {
        if !self.blocks.contains_key(&tip) && self.rows.find(tip).is_some() {
            let newest = &self.rows.tip().committed;
            let (tip, height) = (newest.exec, newest.height);
            self.events.push_back(EngineEvent::Committed { ticket, tip, height });
            return Ok(());
        }
        let path = self.path(tip)?;
        if let Some(id) = path.iter().find(|id| self.outcome(**id).is_none()) {
            return Err(Failure::Retry(RetryCause::NotReady(*id)));
        }
        if let Some(pending) = &mut self.commit {
            if pending.tip != tip {
                return Err(Failure::Retry(RetryCause::Busy));
            }
            pending.ticket = ticket;
            return Ok(());
        }
        for id in &path {
            if let Some(block) = self.blocks.get_mut(id) {
                block.priority = Priority::Decided;
                if block.staging == Staging::No {
                    block.staging = Staging::Queued(ticket);
                }
            }
        }
        self.commit = Some(Commit { ticket, tip, path, meta, writing: false });
        Ok(())
    }

    /// As [`crate::ExecutionEngine::keep_only`]. The path of the pending commit is always kept.
    ///
    /// # Errors
    /// Those of [`crate::ExecutionEngine::keep_only`].
    pub fn keep_only(&mut self, leaves: &[ExecId]) -> Result<(), Failure> {
        let mut keep: BTreeSet<ExecId> = BTreeSet::new();
        let pending = self.commit.as_ref().map(|commit| commit.tip);
        for leaf in leaves.iter().copied().chain(pending) {
            if self.blocks.contains_key(&leaf) {
                keep.extend(self.path(leaf)?);
            }
        }
        self.retain(|id| keep.contains(id));
        Ok(())
    }

    /// Checks a rewind. Returns the height that the disk must go back to first; `None` if `to` is the tip already.
    /// [`Desk::rewound`] follows in either case.
    ///
    /// # Errors
    /// Those of [`crate::ExecutionEngine::rewind`], and `Retry` while a commit is under way.
    pub fn check_rewind(&self, to: ExecId) -> Result<Option<u64>, Failure> {
        let row = self.rows.find(to).ok_or(Failure::Fatal(FatalCause::Fork { height: self.height() }))?;
        let height = row.committed.height;
        if height < self.finalised {
            return Err(Failure::Fatal(FatalCause::Fork { height }));
        }
        if self.commit.is_some() {
            return Err(Failure::Retry(RetryCause::Busy));
        }
        Ok((height < self.height()).then_some(height))
    }

    /// Completes a rewind: the disk has gone back to `height`, where `to` is, or was there already. Speculative
    /// blocks are dropped in the first case.
    pub fn rewound(&mut self, ticket: Ticket, height: u64, to: ExecId) {
        if height < self.height() {
            self.rows.rewind(height);
            self.retain(|_| false);
        }
        self.events.push_back(EngineEvent::Rewound { ticket, to });
    }

    /// Returns true if [`crate::ExecutionEngine::finalise`] has something to write; [`Desk::finalised`] follows then.
    ///
    /// # Errors
    /// Those of [`crate::ExecutionEngine::finalise`].
    pub const fn check_finalise(&self, height: u64) -> Result<bool, Failure> {
        let tip = &self.rows.tip().committed;
        if height > tip.height {
            return Err(Failure::Retry(RetryCause::NotReady(tip.exec)));
        }
        Ok(height > self.finalised)
    }

    /// Completes a finalisation: the disk records that no rewind goes below `height`.
    pub fn finalised(&mut self, height: u64) {
        self.finalised = self.finalised.max(height);
    }

    /// As [`crate::ExecutionEngine::quiesce`]. The pending commit completes first.
    pub fn quiesce(&mut self, ticket: Ticket) {
        self.resting = Some(ticket);
        self.rest_reported = false;
        let keep: BTreeSet<_> = self.commit.iter().flat_map(|commit| commit.path.iter().copied()).collect();
        self.retain(|id| keep.contains(id));
        self.report_rest();
    }

    /// As [`crate::ExecutionEngine::resume`].
    pub const fn resume(&mut self) {
        self.resting = None;
    }

    /// Reports once that no job runs, if a rest was requested.
    pub(super) fn report_rest(&mut self) {
        let idle = self.running.iter().all(Option::is_none) && self.commit.is_none();
        if let (Some(ticket), true, false) = (self.resting, idle, self.rest_reported) {
            self.rest_reported = true;
            self.retain(|_| false);
            self.events.push_back(EngineEvent::Quiesced { ticket });
        }
    }
}
