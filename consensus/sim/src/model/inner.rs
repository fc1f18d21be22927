//! The model without its lock: a desk, a disk, and the effect of every job.

use super::{
    Costs, Disk, Work,
    disk::{Record, Staged},
    state::{State, weight},
};
use alloy_primitives::{Address, B256, keccak256};
use phalanx_engine_api::{
    Candidate, CommitMeta, CommittedTip, ExecId, Failure, Limits, RetryCause, Ticket, ViewAt, Waker,
    desk::{Desk, Job, JobKind, Row, Rows, own_meta},
};
use std::{collections::BTreeMap, sync::Arc};

const FULL: Failure = Failure::Retry(RetryCause::DiskFull);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) desk: Desk<Arc<State>>,
    pub(super) disk: Disk,
    costs: Costs,
    pub(super) waker: Option<Waker>,
    pub(super) diverge_at: Option<u64>,
}

impl Inner {
    /// Recovers from the records of a disk.
    pub(super) fn open(chain: u64, limits: Limits, costs: Costs, mut disk: Disk) -> Self {
        let (mut rows, mut finalised) = (Rows::new(genesis()), 0);
        let mut staged: BTreeMap<ExecId, Staged> = BTreeMap::new();
        for record in disk.replay() {
            match record {
                Record::Staged(block) => drop(staged.insert(block.candidate.id(), (**block).clone())),
                Record::Committed { path, meta } => {
                    for (place, id) in path.iter().enumerate() {
                        if let Some(block) = staged.get(id) {
                            rows.push(row(block, own_meta(meta, place, path.len())));
                        }
                    }
                }
                Record::Rewound { height } => rows.rewind(*height),
                Record::Finalised { height } => finalised = *height,
            }
        }
        let mut desk = Desk::open(chain, limits, rows, finalised);
        let mut staged: Vec<_> = staged.into_values().collect();
        staged.sort_by_key(|block| (block.candidate.env().height, block.candidate.id()));
        for Staged { candidate, state } in staged {
            let outcome = state.outcome(candidate.id());
            desk.readmit(candidate, state, outcome);
        }
        // Dropped states are garbage.
        drop(desk.take_dropped());
        Self { desk, disk, costs, waker: None, diverge_at: None }
    }

    pub(super) fn start(&mut self) -> Vec<Work> {
        let jobs = self.desk.start().into_iter();
        jobs.map(|job| {
            let txs = |block: &Candidate| block.payload().txs().iter().map(weight).sum();
            let candidate = self.desk.candidate(job.id);
            Work { job, cost_us: candidate.map_or(0, |block| self.costs.of(job.kind, txs(block))) }
        })
        .collect()
    }

    pub(super) fn finish(&mut self, work: &Work) {
        let job = work.job;
        let done = match job.kind {
            // Unwanted work does not reach the disk.
            _ if !self.desk.wants(job) => None,
            JobKind::Execute => self.execute(job),
            JobKind::Root => self.root(job),
            JobKind::Stage => self.stage(job),
            JobKind::Commit => self.flip(job),
        };
        if done.is_none() {
            self.desk.failed(job, Failure::Superseded);
        }
    }

    fn execute(&mut self, job: Job) -> Option<()> {
        let (candidate, parent) = (self.desk.candidate(job.id)?, self.desk.parent(job.id)?);
        let mut result = State::execute(parent.root, candidate);
        if let (Ok(state), true) = (&mut result, self.diverge_at == Some(candidate.env().height)) {
            state.root = keccak256(state.root);
        }
        self.desk.executed(job, result.map(Arc::new));
        Some(())
    }

    fn root(&mut self, job: Job) -> Option<()> {
        let state = self.desk.value(job.id)?.clone();
        let outcome = state.outcome(job.id);
        self.desk.rooted(job, state, outcome);
        Some(())
    }

    fn stage(&mut self, job: Job) -> Option<()> {
        let (candidate, state) = (self.desk.candidate(job.id)?.clone(), self.desk.value(job.id)?.clone());
        let written = self.disk.append(Record::Staged(Box::new(Staged { candidate, state })));
        self.desk.staged(job, if written { Ok(()) } else { Err(FULL) });
        Some(())
    }

    /// Writes one record that commits the path and moves the cursor, synced before the commit is reported.
    fn flip(&mut self, job: Job) -> Option<()> {
        let commit = self.desk.pending()?;
        let written = self.disk.append(Record::Committed { path: commit.path().to_vec(), meta: commit.meta().clone() });
        if written {
            self.disk.sync();
        }
        self.desk.committed(job, if written { Ok(()) } else { Err(FULL) });
        Some(())
    }

    pub(super) fn finalise(&mut self, height: u64) -> Result<(), Failure> {
        if self.desk.check_finalise(height)? && self.disk.append(Record::Finalised { height }) {
            self.desk.finalised(height);
        }
        Ok(())
    }

    pub(super) fn rewind(&mut self, ticket: Ticket, to: ExecId) -> Result<(), Failure> {
        let below = self.desk.check_rewind(to)?;
        if let Some(height) = below {
            if !self.disk.append(Record::Rewound { height }) {
                return Err(FULL);
            }
            self.disk.sync();
        }
        self.desk.rewound(ticket, below.unwrap_or(self.desk.height()), to);
        Ok(())
    }

    /// Height, root and counters of a state.
    pub(super) fn accounts(&self, at: ViewAt) -> Result<(u64, B256, BTreeMap<Address, u64>), Failure> {
        let tip = self.desk.rows().tip();
        let path = match at {
            ViewAt::Committed => Vec::new(),
            ViewAt::Exec(id) if id == tip.committed.exec => Vec::new(),
            ViewAt::Exec(id) => self.desk.path(id)?,
            // The model sums up all rows, so it has only the newest state.
            ViewAt::Height(height) if height == tip.committed.height => Vec::new(),
            ViewAt::Height(height) if height < tip.committed.height => {
                return Err(Failure::Pruned { oldest: tip.committed.height });
            }
            ViewAt::Height(_) => return Err(Failure::Retry(RetryCause::NotReady(tip.committed.exec))),
        };
        let mut accounts = BTreeMap::new();
        let mut apply = |state: &State| {
            for (address, count) in &state.writes {
                *accounts.entry(*address).or_insert(0) += count;
            }
        };
        self.desk.rows().iter().for_each(|row| apply(&row.value));
        let mut root = tip.value.root;
        for id in &path {
            let state = self.desk.value(*id).ok_or(Failure::Retry(RetryCause::NotReady(*id)))?;
            apply(state);
            root = state.root;
        }
        Ok((self.desk.height() + path.len() as u64, root, accounts))
    }
}

fn genesis() -> Row<Arc<State>> {
    let value = Arc::new(State::genesis());
    let (exec, state_root, meta) = (ExecId::GENESIS, value.root, CommitMeta::default());
    Row { committed: CommittedTip { height: 0, exec, state_root, meta }, value }
}

fn row(block: &Staged, meta: CommitMeta) -> Row<Arc<State>> {
    let (height, exec) = (block.candidate.env().height, block.candidate.id());
    let value = block.state.clone();
    Row { committed: CommittedTip { height, exec, state_root: value.root, meta }, value }
}
