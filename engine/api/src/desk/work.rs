//! Jobs of the four resources: which may begin, and the effect of their completion.

use super::{
    Desk, Row,
    block::{Block, Phase, Staging, Turn},
};
use crate::block::ExecOutcome;
use crate::event::{EngineEvent, Operation};
use crate::failure::{Failure, InvalidCause};
use crate::id::{ExecId, Ticket};
use crate::status::CommittedTip;
use core::cmp::Reverse;

/// Resource that a job occupies. Each does one job at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// The executor: a block on its parent's state.
    Execute,
    /// The hasher: the roots of an executed block.
    Root,
    /// The disk: a rooted block, invisible to readers.
    Stage,
    /// The marker: a small write of its own, which does not queue behind blocks. It makes a staged path the state.
    Commit,
}

/// A job that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job {
    /// Kind of the job.
    pub kind: JobKind,
    /// Block of the job; the tip of a commit.
    pub id: ExecId,
    /// Distinguishes two jobs that are otherwise equal.
    pub serial: u64,
}

/// A running job, and its block's parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    job: Job,
    parent: ExecId,
}

impl<T> Desk<T> {
    /// Begins at most one job of each kind. Order: by priority, then the lower height, then the older submission.
    #[must_use = "a resource is taken until its job is completed"]
    pub fn start(&mut self) -> Vec<Job> {
        let mut started = Vec::new();
        for kind in [JobKind::Execute, JobKind::Root, JobKind::Commit, JobKind::Stage] {
            if self.running[kind as usize].is_none()
                && let Some((id, parent)) = self.pick(kind)
            {
                let job = Job { kind, id, serial: self.next() };
                self.running[kind as usize] = Some(Running { job, parent });
                started.push(job);
            }
        }
        started
    }

    /// Chooses a block for a resource and marks it. Returns the block and its parent.
    fn pick(&mut self, kind: JobKind) -> Option<(ExecId, ExecId)> {
        if kind == JobKind::Commit {
            let commit = self.commit.as_mut().filter(|commit| !commit.writing)?;
            let staged = |id| self.blocks.get(id).is_some_and(|block| block.staging == Staging::Done);
            commit.writing = commit.path.iter().all(staged);
            let tip = self.blocks.get(&commit.tip).filter(|_| commit.writing)?;
            return Some((commit.tip, tip.candidate.parent()));
        }
        let ready = |block: &&Block<T>| {
            let parent = self.blocks.get(&block.candidate.parent());
            let waits = block.turn == Turn::Waiting;
            match (kind, &block.phase) {
                (JobKind::Execute, Phase::Queued) => waits && parent.is_none_or(Block::is_executed),
                (JobKind::Root, Phase::Executed(_)) => waits && parent.is_none_or(Block::is_rooted),
                (JobKind::Stage, Phase::Rooted(..)) => {
                    matches!(block.staging, Staging::Queued(_)) && parent.is_none_or(|p| p.staging == Staging::Done)
                }
                _ => false,
            }
        };
        let order = |block: &&Block<T>| (Reverse(block.priority), block.height(), block.arrival);
        let id = self.blocks.values().filter(ready).min_by_key(order)?.candidate.id();
        let block = self.blocks.get_mut(&id)?;
        match (kind, block.staging) {
            (JobKind::Stage, Staging::Queued(ticket)) => block.staging = Staging::Writing(ticket),
            _ => block.turn = Turn::Working,
        }
        Some((id, block.candidate.parent()))
    }

    /// Returns true if the result of a job is still of use: the job runs, and its block was not dropped. Any other
    /// job may be completed without being done.
    #[must_use]
    pub fn wants(&self, job: Job) -> bool {
        let runs = self.running[job.kind as usize].is_some_and(|running| running.job == job);
        // The job occupies the resource, so a block that was dropped and submitted again waits: its state tells the
        // two apart.
        runs && match (job.kind, self.blocks.get(&job.id)) {
            (JobKind::Execute, Some(block)) => block.turn == Turn::Working && !block.is_executed(),
            (JobKind::Root, Some(block)) => block.turn == Turn::Working && block.is_executed(),
            (JobKind::Stage, Some(block)) => matches!(block.staging, Staging::Writing(_)),
            (JobKind::Commit, Some(_)) => self.commit.as_ref().is_some_and(|commit| commit.writing),
            (_, None) => false,
        }
    }

    /// Returns true if a running job works or builds on a block.
    pub(super) fn in_use(&self, id: ExecId) -> bool {
        self.running.iter().flatten().any(|running| running.job.id == id || running.parent == id)
    }

    /// Completes an execution: all writes of the block are known, or it is invalid.
    pub fn executed(&mut self, job: Job, result: Result<T, InvalidCause>) {
        let wanted = self.end(job, JobKind::Execute);
        match (result, self.blocks.get_mut(&job.id).filter(|_| wanted)) {
            (Ok(value), Some(block)) => {
                block.phase = Phase::Executed(value);
                block.turn = Turn::Waiting;
                self.events.push_back(EngineEvent::Executed { ticket: block.ticket, id: job.id });
            }
            (Ok(value), None) => self.leaving.push((job.id, value)),
            (Err(cause), Some(_)) => self.fail_submission(job.id, Failure::Invalid(cause)),
            (Err(_), None) => {}
        }
        self.report_rest();
    }

    /// Completes a root: state and receipts are merkleized. `value` replaces that of [`Desk::executed`].
    pub fn rooted(&mut self, job: Job, value: T, outcome: ExecOutcome) {
        let wanted = self.end(job, JobKind::Root);
        if let Some(block) = self.blocks.get_mut(&job.id).filter(|_| wanted) {
            self.events.push_back(EngineEvent::Rooted { ticket: block.ticket, outcome: outcome.clone() });
            block.phase = Phase::Rooted(value, outcome);
            block.turn = Turn::Waiting;
        } else {
            self.leaving.push((job.id, value));
        }
        self.report_rest();
    }

    /// Completes a job that failed. After `Retry` and `Fatal` the block keeps its former state. Execution and root
    /// are tried again when it is submitted again; staging and commit when they are requested again. After `Invalid`
    /// and `Superseded` in execution or root the block is dropped with its descendants.
    pub fn failed(&mut self, job: Job, why: Failure) {
        match job.kind {
            JobKind::Stage => self.staged(job, Err(why)),
            JobKind::Commit => self.committed(job, Err(why)),
            JobKind::Execute | JobKind::Root => {
                if self.end(job, job.kind) {
                    self.fail_submission(job.id, why);
                }
                self.report_rest();
            }
        }
    }

    /// Completes a write: the block is durable, or not. A commit whose path could not be staged fails with it.
    pub fn staged(&mut self, job: Job, result: Result<(), Failure>) {
        let (wanted, id) = (self.end(job, JobKind::Stage), job.id);
        if let Some(block) = self.blocks.get_mut(&id).filter(|_| wanted)
            && let Staging::Writing(ticket) = block.staging
        {
            match result {
                Ok(()) => {
                    block.staging = Staging::Done;
                    self.events.push_back(EngineEvent::Staged { ticket, id });
                }
                Err(why) => {
                    block.staging = Staging::No;
                    let (operation, reason) = (Operation::Stage, why.clone());
                    self.events.push_back(EngineEvent::Failed { ticket, id, operation, why: reason });
                    if self.commit.as_ref().is_some_and(|commit| commit.path.contains(&id)) {
                        self.fail_commit(why);
                    }
                }
            }
        }
        self.report_rest();
    }

    /// Completes a commit: the path is the state and survives a power cut, or nothing has changed.
    pub fn committed(&mut self, job: Job, result: Result<(), Failure>) {
        if self.end(job, JobKind::Commit) {
            match result {
                Ok(()) => self.make_rows(),
                Err(why) => self.fail_commit(why),
            }
        }
        self.report_rest();
    }

    /// Frees the job's resource. Returns true if its result is of use.
    fn end(&mut self, job: Job, kind: JobKind) -> bool {
        let wanted = job.kind == kind && self.wants(job);
        self.running[kind as usize].take_if(|running| running.job == job);
        wanted
    }

    fn fail_submission(&mut self, id: ExecId, why: Failure) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        block.turn = Turn::Failed;
        let (ticket, operation) = (block.ticket, Operation::Submit);
        let lost = matches!(why, Failure::Invalid(_) | Failure::Superseded);
        self.events.push_back(EngineEvent::Failed { ticket, id, operation, why });
        if lost {
            // Nothing can build on it.
            let lost = self.descendants(id);
            self.retain(|id| !lost.contains(id));
        }
    }

    /// Ends every open request with `why`: the engine has stopped. No job is completed any more.
    pub fn halt(&mut self, why: &Failure) {
        let (mut failed, before) = (Vec::new(), self.events.len());
        for (id, block) in &mut self.blocks {
            if !block.is_rooted() && block.turn != Turn::Failed {
                block.turn = Turn::Failed;
                failed.push((block.ticket, *id, Operation::Submit));
            }
            if let Staging::Queued(ticket) | Staging::Writing(ticket) = block.staging {
                block.staging = Staging::No;
                failed.push((ticket, *id, Operation::Stage));
            }
        }
        for (ticket, id, operation) in failed {
            self.events.push_back(EngineEvent::Failed { ticket, id, operation, why: why.clone() });
        }
        self.fail_commit(why.clone());
        if self.events.len() == before {
            // No request is open, and its caller must hear of it all the same.
            let (ticket, id, operation) = (Ticket::default(), self.rows.tip().committed.exec, Operation::Commit);
            self.events.push_back(EngineEvent::Failed { ticket, id, operation, why: why.clone() });
        }
    }

    fn fail_commit(&mut self, why: Failure) {
        if let Some(commit) = self.commit.take() {
            let (ticket, id, operation) = (commit.ticket, commit.tip, Operation::Commit);
            self.events.push_back(EngineEvent::Failed { ticket, id, operation, why });
        }
    }

    fn make_rows(&mut self) {
        let Some(commit) = self.commit.take() else { return };
        for (place, id) in commit.path.iter().enumerate() {
            if let Some(block) = self.blocks.remove(id)
                && let height = block.height()
                && let Phase::Rooted(value, outcome) = block.phase
            {
                let (state_root, meta) = (outcome.state_root, commit.own_meta(place));
                self.rows.push(Row { committed: CommittedTip { height, exec: *id, state_root, meta }, value });
            }
        }
        let (ticket, tip, height) = (commit.ticket, commit.tip, self.height());
        self.events.push_back(EngineEvent::Committed { ticket, tip, height });
        let alive = self.descendants(tip);
        self.retain(|id| alive.contains(id));
    }
}
