//! The model as a state machine.

use super::{
    Costs, Disk, Work, WorkKind,
    disk::{Record, Staged},
    state::State,
};
use alloy_primitives::{Address, B256, Bytes, keccak256};
use phalanx_engine_api::{
    Budget, Candidate, CommitMeta, Committed, EngineEvent, EngineStatus, ExecId, Failure, FatalCause, InvalidCause,
    Limits, Operation, Outcome, Pressure, Priority, RetryCause, Ticket, ViewAt, Waker,
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

/// What a block of a committed path is stored with: the tip's proofs, its own name and cursor.
fn own_meta(meta: &CommitMeta, place: usize, length: usize) -> CommitMeta {
    let below = (length - 1).saturating_sub(place) as u64;
    let block = meta.ancestors.get(place).copied().unwrap_or(meta.block);
    CommitMeta { block, ancestors: Vec::new(), cursor: meta.cursor.saturating_sub(below), ..meta.clone() }
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
pub(super) struct Inner {
    chain: u64,
    limits: Limits,
    costs: Costs,
    pub(super) disk: Disk,
    /// By height, without gaps.
    rows: BTreeMap<u64, Row>,
    finalised: u64,
    blocks: BTreeMap<ExecId, Block>,
    commit: Option<PendingCommit>,
    /// Serial numbers of what executor, hasher, disk and marker do now.
    busy: [Option<u64>; 4],
    serial: u64,
    pub(super) resting: Option<Ticket>,
    rest_reported: bool,
    pub(super) events: VecDeque<EngineEvent>,
    pub(super) waker: Option<Waker>,
    pub(super) diverge_at: Option<u64>,
}

const fn resource(kind: WorkKind) -> usize {
    match kind {
        WorkKind::Execute => 0,
        WorkKind::Root => 1,
        WorkKind::Stage => 2,
        // A small write of its own, which does not queue behind blocks.
        WorkKind::Commit => 3,
    }
}

impl Inner {
    pub(super) fn open(chain: u64, limits: Limits, costs: Costs, mut disk: Disk) -> Self {
        let genesis = Row { exec: ExecId::GENESIS, state: State::genesis(), meta: CommitMeta::default() };
        let mut rows = BTreeMap::from([(0, genesis)]);
        let mut staged: BTreeMap<ExecId, Staged> = BTreeMap::new();
        let mut finalised = 0;
        for record in disk.replay() {
            match record {
                Record::Staged(block) => drop(staged.insert(block.candidate.id(), (**block).clone())),
                Record::Committed { path, meta } => {
                    for (place, id) in path.iter().enumerate() {
                        if let Some(block) = staged.get(id) {
                            let row =
                                Row { exec: *id, state: block.state.clone(), meta: own_meta(meta, place, path.len()) };
                            rows.insert(block.candidate.env().height, row);
                        }
                    }
                }
                Record::Rewound { height } => {
                    rows.split_off(&(height + 1));
                }
                Record::Finalised { height } => finalised = *height,
            }
        }
        let mut engine = Self {
            chain,
            limits,
            costs,
            disk,
            rows,
            finalised,
            blocks: BTreeMap::new(),
            commit: None,
            busy: [None; 4],
            serial: 0,
            resting: None,
            rest_reported: false,
            events: VecDeque::new(),
            waker: None,
            diverge_at: None,
        };
        engine.readmit(staged.into_values().collect());
        engine
    }

    /// Takes back staged blocks that still build on what is committed, parents first. The rest is garbage.
    fn readmit(&mut self, mut staged: Vec<Staged>) {
        staged.sort_by_key(|block| (block.candidate.env().height, block.candidate.id()));
        for Staged { candidate, state, outcome } in staged {
            if candidate.env().height > self.height() && self.knows(candidate.parent()) {
                let block = Block {
                    priority: Priority::Speculative,
                    ticket: Ticket::default(),
                    arrival: self.next(),
                    phase: Phase::Rooted,
                    result: Some((state, outcome)),
                    staging: Staging::Done,
                    candidate,
                };
                self.blocks.insert(block.candidate.id(), block);
            }
        }
    }

    pub(super) fn status(&self) -> EngineStatus {
        let (height, row) = self.tip();
        let committed = row.committed(height);
        let mut staged: Vec<_> = self
            .blocks
            .iter()
            .filter(|(_, block)| block.staging == Staging::Done)
            .map(|(id, block)| (block.candidate.env().height, *id))
            .collect();
        staged.sort_unstable();
        EngineStatus { chain: self.chain, committed, finalised: self.finalised, staged }
    }

    pub(super) fn submit(&mut self, ticket: Ticket, candidate: Candidate, priority: Priority) -> Result<(), Failure> {
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

    pub(super) fn stage(&mut self, ticket: Ticket, id: ExecId) -> Result<(), Failure> {
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

    pub(super) fn commit(&mut self, ticket: Ticket, tip: ExecId, meta: CommitMeta) -> Result<(), Failure> {
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

    pub(super) fn keep_only(&mut self, leaves: &[ExecId]) -> Result<(), Failure> {
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

    pub(super) fn finalise(&mut self, height: u64) -> Result<(), Failure> {
        if height > self.height() {
            return Err(Failure::Retry(RetryCause::NotReady(self.tip().1.exec)));
        }
        if height > self.finalised && self.disk.append(Record::Finalised { height }) {
            self.finalised = height;
        }
        Ok(())
    }

    pub(super) fn rewind(&mut self, ticket: Ticket, to: ExecId) -> Result<(), Failure> {
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

    pub(super) fn quiesce(&mut self, ticket: Ticket) {
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

    pub(super) fn pressure(&self) -> Pressure {
        let unexecuted = self.blocks.values().filter(|block| block.phase < Phase::Executed).count() as u32;
        let uncommitted = self.blocks.len() as u32 - unexecuted;
        Pressure { unexecuted, uncommitted, propose: Budget::UNLIMITED }
    }

    pub(super) fn start(&mut self) -> Vec<Work> {
        let mut started = Vec::new();
        for kind in [WorkKind::Execute, WorkKind::Root, WorkKind::Commit, WorkKind::Stage] {
            if self.busy[resource(kind)].is_some() {
                continue;
            }
            if let Some(id) = self.pick(kind) {
                let serial = self.next();
                self.busy[resource(kind)] = Some(serial);
                let cost_us = self.blocks.get(&id).map_or(0, |block| self.costs.of(kind, block.candidate.payload()));
                started.push(Work { kind, id, cost_us, serial });
            }
        }
        started
    }

    /// Chooses a block for a resource and marks it.
    fn pick(&mut self, kind: WorkKind) -> Option<ExecId> {
        if kind == WorkKind::Commit {
            let commit = self.commit.as_mut().filter(|commit| !commit.writing)?;
            let staged = |id| self.blocks.get(id).is_some_and(|block| block.staging == Staging::Done);
            let ready = commit.path.iter().all(staged);
            commit.writing = ready;
            return ready.then(|| commit.path.last().copied()).flatten();
        }
        let ready = |block: &&Block| {
            let parent = self.blocks.get(&block.candidate.parent());
            match kind {
                WorkKind::Execute => block.phase == Phase::Queued && parent.is_none_or(|p| p.phase >= Phase::Executed),
                WorkKind::Root => block.phase == Phase::Executed && parent.is_none_or(|p| p.phase == Phase::Rooted),
                _ => matches!(block.staging, Staging::Queued(_)) && parent.is_none_or(|p| p.staging == Staging::Done),
            }
        };
        let order = |block: &&Block| (core::cmp::Reverse(block.priority), block.candidate.env().height, block.arrival);
        let id = self.blocks.values().filter(ready).min_by_key(order)?.candidate.id();
        let block = self.blocks.get_mut(&id)?;
        match (kind, block.staging) {
            (WorkKind::Execute, _) => block.phase = Phase::Executing,
            (WorkKind::Root, _) => block.phase = Phase::Rooting,
            (_, Staging::Queued(ticket)) => block.staging = Staging::Writing(ticket),
            _ => {}
        }
        Some(id)
    }

    pub(super) fn finish(&mut self, work: &Work) {
        let slot = &mut self.busy[resource(work.kind)];
        if *slot != Some(work.serial) {
            return;
        }
        *slot = None;
        match work.kind {
            WorkKind::Execute => self.executed(work.id),
            WorkKind::Root => self.rooted(work.id),
            WorkKind::Stage => self.staged(work.id),
            WorkKind::Commit => self.flip(),
        }
        self.report_rest();
    }

    fn executed(&mut self, id: ExecId) {
        let Some(block) = self.blocks.get(&id).filter(|block| block.phase == Phase::Executing) else { return };
        let parent = match self.blocks.get(&block.candidate.parent()) {
            Some(parent) => parent.result.as_ref().map(|(state, _)| state.root),
            None => Some(self.tip().1.state.root),
        };
        let Some(parent) = parent else { return };
        let mut result = State::execute(parent, &block.candidate);
        if let (Ok((state, outcome)), true) = (&mut result, self.diverge_at == Some(block.candidate.env().height)) {
            state.root = keccak256(state.root);
            outcome.state_root = state.root;
        }
        let ticket = block.ticket;
        match result {
            Ok(result) => {
                if let Some(block) = self.blocks.get_mut(&id) {
                    block.phase = Phase::Executed;
                    block.result = Some(result);
                }
                self.events.push_back(EngineEvent::Executed { ticket, id });
            }
            Err(cause) => {
                let why = Failure::Invalid(cause);
                self.events.push_back(EngineEvent::Failed { ticket, id, operation: Operation::Submit, why });
                // Nothing can build on it.
                let lost = self.descendants(id);
                self.retain(|id, _| !lost.contains(id));
            }
        }
    }

    fn rooted(&mut self, id: ExecId) {
        if let Some(block) = self.blocks.get_mut(&id)
            && let (Phase::Rooting, Some((_, outcome))) = (block.phase, &block.result)
        {
            block.phase = Phase::Rooted;
            self.events.push_back(EngineEvent::Rooted { ticket: block.ticket, outcome: outcome.clone() });
        }
    }

    fn staged(&mut self, id: ExecId) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let (Staging::Writing(ticket), Some((state, outcome))) = (block.staging, block.result.clone()) else { return };
        let staged = Staged { candidate: block.candidate.clone(), state, outcome };
        if self.disk.append(Record::Staged(Box::new(staged))) {
            block.staging = Staging::Done;
            self.events.push_back(EngineEvent::Staged { ticket, id });
            return;
        }
        block.staging = Staging::No;
        let why = Failure::Retry(RetryCause::DiskFull);
        self.events.push_back(EngineEvent::Failed { ticket, id, operation: Operation::Stage, why });
        self.fail_commit_of(id);
    }

    /// A commit whose path could not be staged fails with it.
    fn fail_commit_of(&mut self, id: ExecId) {
        if let Some(commit) = self.commit.take_if(|commit| commit.path.contains(&id)) {
            let tip = commit.path.last().copied().unwrap_or(id);
            let why = Failure::Retry(RetryCause::DiskFull);
            let (ticket, operation) = (commit.ticket, Operation::Commit);
            self.events.push_back(EngineEvent::Failed { ticket, id: tip, operation, why });
        }
    }

    /// One record makes the path committed and moves the cursor, and is synced before anybody hears of it.
    fn flip(&mut self) {
        let Some(commit) = self.commit.take() else { return };
        let Some(tip) = commit.path.last().copied() else { return };
        if !self.disk.append(Record::Committed { path: commit.path.clone(), meta: commit.meta.clone() }) {
            self.commit = Some(commit);
            self.fail_commit_of(tip);
            return;
        }
        self.disk.sync();
        for (place, id) in commit.path.iter().enumerate() {
            if let Some(block) = self.blocks.remove(id)
                && let Some((state, _)) = block.result
            {
                let row = Row { exec: *id, state, meta: own_meta(&commit.meta, place, commit.path.len()) };
                self.rows.insert(block.candidate.env().height, row);
            }
        }
        let height = self.height();
        self.events.push_back(EngineEvent::Committed { ticket: commit.ticket, tip, height });
        let alive = self.descendants(tip);
        self.retain(|id, _| alive.contains(id));
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

    pub(super) fn committed_at(&self, height: u64) -> Option<Committed> {
        self.rows.get(&height).map(|row| row.committed(height))
    }

    /// Height, root and counters of a state.
    pub(super) fn accounts(&self, at: ViewAt) -> Result<(u64, B256, BTreeMap<Address, u64>), Failure> {
        let path = match at {
            ViewAt::Committed => Vec::new(),
            ViewAt::Exec(id) if id == self.tip().1.exec => Vec::new(),
            ViewAt::Exec(id) => self.path(id)?,
        };
        let mut accounts = BTreeMap::new();
        let mut apply = |state: &State| {
            for (address, count) in &state.writes {
                *accounts.entry(*address).or_insert(0) += count;
            }
        };
        self.rows.values().for_each(|row| apply(&row.state));
        let mut root = self.tip().1.state.root;
        for id in &path {
            let result = self.blocks.get(id).and_then(|block| block.result.as_ref());
            let (state, _) = result.ok_or(Failure::Retry(RetryCause::NotReady(*id)))?;
            apply(state);
            root = state.root;
        }
        Ok((self.height() + path.len() as u64, root, accounts))
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
