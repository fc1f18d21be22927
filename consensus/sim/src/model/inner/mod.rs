//! The model as a state machine: requests. What work does to it is in `progress`, what it shows in `read`.

mod open;
mod progress;
mod read;

use super::{Costs, Disk, disk::Record, state::State};
use alloy_primitives::Bytes;
use phalanx_engine_api::{
    Candidate, CommitMeta, Committed, EngineEvent, ExecId, Failure, FatalCause, InvalidCause, Limits, Outcome,
    Priority, RetryCause, Ticket, Waker,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Queued,
    Executing,
    Executed,
    Rooting,
    Rooted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Staging {
    No,
    Queued(Ticket),
    Writing(Ticket),
    Done,
}

/// A speculative block.
#[derive(Debug)]
struct Block {
    candidate: Candidate,
    priority: Priority,
    ticket: Ticket,
    arrival: u64,
    phase: Phase,
    /// There from `Executed` on.
    result: Option<(State, Outcome)>,
    staging: Staging,
}

/// A committed block.
#[derive(Debug)]
struct Row {
    exec: ExecId,
    state: State,
    meta: CommitMeta,
}

impl Row {
    fn committed(&self, height: u64) -> Committed {
        Committed { height, exec: self.exec, state_root: self.state.root, meta: self.meta.clone() }
    }
}

#[derive(Debug)]
struct PendingCommit {
    ticket: Ticket,
    /// Oldest first.
    path: Vec<ExecId>,
    meta: CommitMeta,
    writing: bool,
}

#[derive(Debug)]
pub(in crate::model) struct Inner {
    chain: u64,
    limits: Limits,
    costs: Costs,
    pub(in crate::model) disk: Disk,
    /// By height, without gaps.
    rows: BTreeMap<u64, Row>,
    finalised: u64,
    blocks: BTreeMap<ExecId, Block>,
    commit: Option<PendingCommit>,
    /// Serial numbers of what executor, hasher, disk and marker do now.
    busy: [Option<u64>; 4],
    serial: u64,
    pub(in crate::model) resting: Option<Ticket>,
    rest_reported: bool,
    pub(in crate::model) events: VecDeque<EngineEvent>,
    pub(in crate::model) waker: Option<Waker>,
    pub(in crate::model) diverge_at: Option<u64>,
}

impl Inner {
    pub(in crate::model) fn submit(
        &mut self,
        ticket: Ticket,
        candidate: Candidate,
        priority: Priority,
    ) -> Result<(), Failure> {
        if self.resting.is_some() {
            return Err(Failure::Retry(RetryCause::Quiesced));
        }
        let height = candidate.env().height;
        if height <= self.height() {
            return Err(Failure::Superseded);
        }
        if let Some(block) = self.blocks.get_mut(&candidate.id()) {
            block.ticket = ticket;
            block.priority = block.priority.max(priority);
            let (id, phase, staging) = (candidate.id(), block.phase, block.staging);
            if phase >= Phase::Executed {
                self.events.push_back(EngineEvent::Executed { ticket, id });
            }
            if let (Phase::Rooted, Some((_, outcome))) = (phase, &block.result) {
                self.events.push_back(EngineEvent::Rooted { ticket, outcome: outcome.clone() });
            }
            if staging == Staging::Done {
                self.events.push_back(EngineEvent::Staged { ticket, id });
            }
            return Ok(());
        }
        let parent = candidate.parent();
        let expected = match self.blocks.get(&parent) {
            Some(block) => block.candidate.env().height + 1,
            None if self.tip().1.exec == parent => self.height() + 1,
            None => return Err(Failure::Retry(RetryCause::MissingParent(parent))),
        };
        if height != expected {
            return Err(Failure::Invalid(InvalidCause::Height { says: height, expected }));
        }
        self.admit(&candidate, priority)?;
        let block = Block {
            priority,
            ticket,
            arrival: self.next(),
            phase: Phase::Queued,
            result: None,
            staging: Staging::No,
            candidate,
        };
        self.blocks.insert(block.candidate.id(), block);
        Ok(())
    }

    /// Depth binds all; siblings and bytes bind what is not decided, so that losers cannot keep out the winner.
    fn admit(&self, candidate: &Candidate, priority: Priority) -> Result<(), Failure> {
        let height = candidate.env().height;
        let siblings = self.blocks.values().filter(|block| block.candidate.env().height == height).count();
        let bytes: u64 = self.blocks.values().map(|block| block.candidate.payload().bytes()).sum();
        let full = siblings >= self.limits.siblings as usize
            || bytes.saturating_add(candidate.payload().bytes()) > self.limits.bytes;
        if height > self.height() + u64::from(self.limits.depth) || (full && priority != Priority::Decided) {
            return Err(Failure::Retry(RetryCause::Busy));
        }
        Ok(())
    }

    pub(in crate::model) fn stage(&mut self, ticket: Ticket, id: ExecId) -> Result<(), Failure> {
        if self.is_committed(id) {
            self.events.push_back(EngineEvent::Staged { ticket, id });
            return Ok(());
        }
        let block = self.blocks.get(&id).filter(|block| block.phase == Phase::Rooted);
        let block = block.ok_or(Failure::Retry(RetryCause::NotReady(id)))?;
        let parent = block.candidate.parent();
        let follows = match self.blocks.get(&parent) {
            Some(parent) => parent.staging != Staging::No,
            None => self.is_committed(parent),
        };
        if !follows {
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

    pub(in crate::model) fn commit(&mut self, ticket: Ticket, tip: ExecId, meta: CommitMeta) -> Result<(), Failure> {
        if self.is_committed(tip) {
            let (height, row) = self.tip();
            let tip = row.exec;
            self.events.push_back(EngineEvent::Committed { ticket, tip, height });
            return Ok(());
        }
        let path = self.path(tip)?;
        if let Some(id) = path.iter().find(|id| self.blocks.get(id).is_none_or(|b| b.phase != Phase::Rooted)) {
            return Err(Failure::Retry(RetryCause::NotReady(*id)));
        }
        if let Some(pending) = &mut self.commit {
            if pending.path.last() != Some(&tip) {
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
        self.commit = Some(PendingCommit { ticket, path, meta, writing: false });
        Ok(())
    }

    /// From the committed block (without it) to `tip`.
    fn path(&self, tip: ExecId) -> Result<Vec<ExecId>, Failure> {
        let mut path = vec![tip];
        let mut block = self.blocks.get(&tip).ok_or(Failure::Retry(RetryCause::NotReady(tip)))?;
        while let Some(parent) = self.blocks.get(&block.candidate.parent()) {
            path.push(block.candidate.parent());
            block = parent;
        }
        if block.candidate.parent() != self.tip().1.exec {
            return Err(Failure::Fatal(FatalCause::Fork { height: block.candidate.env().height }));
        }
        path.reverse();
        Ok(path)
    }

    pub(in crate::model) fn keep_only(&mut self, leaves: &[ExecId]) -> Result<(), Failure> {
        let mut keep: BTreeSet<ExecId> = BTreeSet::new();
        let pending = self.commit.as_ref().and_then(|commit| commit.path.last()).copied();
        for leaf in leaves.iter().copied().chain(pending) {
            if self.blocks.contains_key(&leaf) {
                keep.extend(self.path(leaf)?);
            }
        }
        self.retain(|id, _| keep.contains(id));
        Ok(())
    }

    pub(in crate::model) fn finalise(&mut self, height: u64) -> Result<(), Failure> {
        if height > self.height() {
            return Err(Failure::Retry(RetryCause::NotReady(self.tip().1.exec)));
        }
        if height > self.finalised && self.disk.append(Record::Finalised { height }) {
            self.finalised = height;
        }
        Ok(())
    }

    pub(in crate::model) fn rewind(&mut self, ticket: Ticket, to: ExecId) -> Result<(), Failure> {
        let found = self.rows.iter().rev().find(|(_, row)| row.exec == to).map(|(height, _)| *height);
        let height = found.ok_or(Failure::Fatal(FatalCause::Fork { height: self.height() }))?;
        if height < self.finalised {
            return Err(Failure::Fatal(FatalCause::Fork { height }));
        }
        if self.commit.is_some() {
            return Err(Failure::Retry(RetryCause::Busy));
        }
        if height < self.height() {
            if !self.disk.append(Record::Rewound { height }) {
                return Err(Failure::Retry(RetryCause::DiskFull));
            }
            self.disk.sync();
            self.rows.split_off(&(height + 1));
            self.retain(|_, _| false);
        }
        self.events.push_back(EngineEvent::Rewound { ticket, to });
        Ok(())
    }

    pub(in crate::model) fn quiesce(&mut self, ticket: Ticket) {
        self.resting = Some(ticket);
        self.rest_reported = false;
        let keep: BTreeSet<_> = self.commit.iter().flat_map(|commit| commit.path.iter().copied()).collect();
        self.retain(|id, _| keep.contains(id));
        self.report_rest();
    }

    fn report_rest(&mut self) {
        let idle = self.busy.iter().all(Option::is_none) && self.commit.is_none();
        if let (Some(ticket), true, false) = (self.resting, idle, self.rest_reported) {
            self.rest_reported = true;
            self.retain(|_, _| false);
            self.events.push_back(EngineEvent::Quiesced { ticket });
        }
    }

    fn descendants(&self, of: ExecId) -> BTreeSet<ExecId> {
        let mut found = BTreeSet::from([of]);
        let mut by_height: Vec<_> = self.blocks.values().map(|block| &block.candidate).collect();
        by_height.sort_by_key(|candidate| candidate.env().height);
        for candidate in by_height {
            if found.contains(&candidate.parent()) {
                found.insert(candidate.id());
            }
        }
        found
    }

    /// Drops the others. Work on them goes on and comes to nothing.
    fn retain(&mut self, keep: impl Fn(&ExecId, &Block) -> bool) {
        let (mut ids, mut txs): (Vec<ExecId>, Vec<Bytes>) = (Vec::new(), Vec::new());
        self.blocks.retain(|id, block| {
            let keep = keep(id, block);
            if !keep {
                ids.push(*id);
                txs.extend_from_slice(block.candidate.payload().txs());
            }
            keep
        });
        if !ids.is_empty() {
            self.events.push_back(EngineEvent::Dropped { ids, txs });
        }
    }

    fn tip(&self) -> (u64, &Row) {
        let (height, row) = self.rows.last_key_value().expect("the genesis row is never removed");
        (*height, row)
    }

    fn height(&self) -> u64 {
        self.tip().0
    }

    fn is_committed(&self, id: ExecId) -> bool {
        self.rows.values().rev().any(|row| row.exec == id)
    }

    fn knows(&self, id: ExecId) -> bool {
        self.tip().1.exec == id || self.blocks.contains_key(&id)
    }

    const fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}
