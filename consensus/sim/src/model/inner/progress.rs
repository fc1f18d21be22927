//! What work does.

use super::{Block, Inner, Phase, Row, Staging, open::own_meta};
use crate::model::{
    Work, WorkKind,
    disk::{Record, Staged},
    state::State,
};
use alloy_primitives::keccak256;
use phalanx_engine_api::{EngineEvent, ExecId, Failure, Operation, RetryCause};

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
    pub(in crate::model) fn start(&mut self) -> Vec<Work> {
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

    pub(in crate::model) fn finish(&mut self, work: &Work) {
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
}
