//! Driver thread: performs the desk's jobs on the engine, one at a time.

use super::{
    codec::Note,
    execute::{Failed, execute, named},
    failure::failure,
    hand_over::Keeper,
    kept::{Changed, Handed, Kept},
    shared::Shared,
    shelf::Shelf,
    slot::Ordered,
};
use crate::{builder::Builder, engine::Engine, model::Error};
use alloy_primitives::B256;
use crossbeam_channel::{Receiver, Sender};
use phalanx_engine_api::{
    CommittedTip, EngineStatus, ExecId, ExecOutcome, Failure, InvalidCause, RetryCause, Ticket, TxPolicy,
    desk::{Desk, Job, JobKind},
};
use phalanx_merkle::BlockId;
use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

/// Minimum of free bytes on the disk beside a staged block: for notes of the next commits, and RocksDB's own files.
const RESERVE: u64 = 64 << 20;

/// Message to the driver.
pub(super) enum Order {
    /// There may be a job.
    Look,
    /// A write has ended.
    Written(Job, Result<(), Error>),
    /// A hand-over to the sink has ended.
    Handed(u64, Result<(), Failure>),
    /// Rewinds, and replies with the result.
    Rewind { ticket: Ticket, to: ExecId, reply: Sender<Result<(), Failure>> },
    /// Builds a block.
    Build(Ordered),
    /// Replies when no job is left.
    Settle(Sender<()>),
    /// Ends when the writes in flight are done.
    Stop,
    /// Ends at once.
    Abandon,
}

/// Result of a job.
#[derive(Debug)]
pub(super) enum Completion {
    Executed(Job, Box<Kept>),
    Invalid(Job, InvalidCause),
    Rooted(Job, Box<Kept>, ExecOutcome),
    /// Staged or committed.
    Written(Job),
    Failed(Job, Failure),
}

impl core::fmt::Debug for Driver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Driver").field("engine", &self.engine).finish_non_exhaustive()
    }
}

pub(super) struct Driver {
    pub(super) engine: Engine,
    pub(super) shared: Arc<Shared>,
    pub(super) builder: Builder,
    pub(super) shelf: Shelf,
    /// Accounts that the blocks change which are being committed.
    committing: Changed,
    /// Hashes of the transactions of the newest committed blocks, whose recovered transactions are kept.
    newest: VecDeque<Arc<[B256]>>,
    orders: Sender<Order>,
    disk_room: Option<Box<dyn Fn() -> u64 + Send>>,
    pub(super) keeper: Option<Keeper>,
    /// Commit that waits for the sink.
    pub(super) waiting: Option<Job>,
    /// Transactions of built blocks, by rank: the pool hands them to no other block.
    pub(super) reserved: Vec<(ExecId, Vec<u64>)>,
    /// Number of writes and hand-overs in flight.
    pub(super) writing: usize,
    settling: Vec<Sender<()>>,
}

impl Driver {
    pub(super) fn new(
        engine: Engine,
        shared: Arc<Shared>,
        orders: Sender<Order>,
        disk_room: Option<Box<dyn Fn() -> u64 + Send>>,
        keeper: Option<Keeper>,
    ) -> Self {
        let builder = match shared.policy {
            TxPolicy::Strict => Builder::new(&engine),
            // The other replicas skip what has no room by its gas limit, so it may not come into a block here.
            TxPolicy::SkipInvalid => Builder::new(&engine).with_limits_reserved(),
        };
        Self {
            engine,
            shared,
            builder,
            shelf: Shelf::default(),
            committing: Changed::default(),
            newest: VecDeque::new(),
            orders,
            disk_room,
            keeper,
            waiting: None,
            reserved: Vec::new(),
            writing: 0,
            settling: Vec::new(),
        }
    }

    pub(super) fn run(mut self, inbox: &Receiver<Order>) {
        let mut stopping = false;
        while !(stopping && self.writing == 0) {
            let Ok(order) = inbox.recv() else { return };
            match order {
                Order::Look => {}
                Order::Written(job, result) => {
                    let done = self.written(job, result);
                    self.complete(done);
                }
                Order::Handed(number, result) => {
                    if let Some(done) = self.handed(number, result) {
                        self.complete(done);
                    }
                }
                Order::Rewind { ticket, to, reply } => {
                    // A caller that has gone does not receive the result.
                    let _ = reply.send(self.rewind(ticket, to));
                }
                Order::Build(ordered) => {
                    // Submitted blocks go first.
                    self.work();
                    self.build(&ordered.0);
                }
                Order::Settle(reply) => self.settling.push(reply),
                Order::Stop => stopping = true,
                Order::Abandon => return,
            }
            if !stopping {
                self.work();
            }
            if self.writing == 0 {
                self.settling.drain(..).for_each(|reply| _ = reply.send(()));
            }
        }
    }

    /// Performs all jobs that can begin.
    fn work(&mut self) {
        self.shared.urgent.store(false, Ordering::Relaxed);
        loop {
            let jobs = self.start();
            if jobs.is_empty() {
                return self.drop_losers();
            }
            for job in jobs {
                if let Some(done) = self.perform(job) {
                    self.complete(done);
                }
            }
        }
    }

    /// Jobs that can begin.
    pub(super) fn start(&self) -> Vec<Job> {
        self.shared.desk.lock().start()
    }

    /// Performs a job. Returns `None` if [`Order::Written`] or [`Order::Handed`] will complete it.
    pub(super) fn perform(&mut self, job: Job) -> Option<Completion> {
        if !self.shared.desk.lock().wants(job) {
            return Some(Completion::Failed(job, Failure::Superseded));
        }
        let result = match job.kind {
            JobKind::Execute => self.execute(job),
            JobKind::Root => self.root(job),
            JobKind::Stage => return self.stage(job).err().map(|why| Completion::Failed(job, why)),
            JobKind::Commit => return self.commit(job).err().map(|why| Completion::Failed(job, why)),
        };
        Some(result.unwrap_or(Completion::Failed(job, Failure::Superseded)))
    }

    /// Records the result of a job in the books.
    pub(super) fn complete(&mut self, completion: Completion) {
        let committed = matches!(completion, Completion::Written(job) if job.kind == JobKind::Commit);
        let failed =
            matches!(completion, Completion::Failed(job, _) if matches!(job.kind, JobKind::Stage | JobKind::Commit));
        // Before the event: its receiver may request the next commit at once.
        if let Some(keeper) = self.keeper.as_mut().filter(|_| committed || failed) {
            keeper.end();
        }
        self.shared.with(|desk| match completion {
            Completion::Executed(job, kept) => {
                let memory = kept.memory;
                desk.executed(job, Ok(*kept));
                desk.weigh(job.id, memory);
            }
            Completion::Invalid(job, cause) => desk.executed(job, Err(cause)),
            Completion::Rooted(job, kept, outcome) => desk.rooted(job, *kept, outcome),
            Completion::Written(job) if job.kind == JobKind::Commit => desk.committed(job, Ok(())),
            Completion::Written(job) => desk.staged(job, Ok(())),
            Completion::Failed(job, why) => desk.failed(job, why),
        });
        if committed {
            let changed = core::mem::take(&mut self.committing);
            self.thin_out();
            self.follow(changed);
            self.release(is_there);
        }
        self.drop_losers();
    }

    /// Drops what older blocks need no more, and their recovered transactions.
    fn thin_out(&mut self) {
        let mut desk = self.shared.desk.lock();
        if let Some(old) = desk.height().checked_sub(Kept::WHOLE) {
            desk.change_row(old, Kept::thin);
        }
        let blocks = desk.rows().iter().rev().map(|row| (row.committed.height, row.value.txs()));
        for height in Kept::beyond(blocks) {
            desk.change_row(height, Kept::drop_parts);
        }
        drop(desk);
        let mut txs: usize = self.newest.iter().map(|hashes| hashes.len()).sum();
        while self.newest.len() as u64 > Kept::WHOLE || self.newest.len() > 1 && txs > Kept::WHOLE_TXS {
            let Some(oldest) = self.newest.pop_front() else { break };
            txs -= oldest.len();
            self.shared.recovery.forget(&oldest);
        }
    }

    /// Returns `None` if the block is unknown.
    fn execute(&mut self, job: Job) -> Option<Completion> {
        let (candidate, parent, rows) = {
            let desk = self.shared.desk.lock();
            let parent = desk.parent(job.id).cloned()?;
            (desk.candidate(job.id).cloned()?, parent.clone(), rows_above(&desk, parent.covered))
        };
        if let Err(cause) = self.shared.check_forced(&candidate) {
            return Some(Completion::Invalid(job, cause));
        }
        let result = match self.restore(job.id, &parent) {
            Some(kept) => Ok(kept),
            None => execute(&mut self.engine, &self.shared.recovery, &candidate, &parent, rows),
        };
        Some(match result {
            Ok(kept) => Completion::Executed(job, Box::new(kept)),
            Err(Failed::Invalid(cause)) => Completion::Invalid(job, cause),
            Err(Failed::Engine(why)) => Completion::Failed(job, why),
        })
    }

    /// The result of a block that was built here, or staged before a restart, if its parent is the same.
    fn restore(&mut self, id: ExecId, parent: &Kept) -> Option<Kept> {
        if let Some(kept) = self.shelf.take(id, parent.view.block()) {
            return Some(kept);
        }
        let mut restored = self.shared.restored.lock();
        let found = restored.take(id)?;
        // A sink gets receipts, which only an execution gives.
        let view = self.engine.state.store.snapshot(found.block).ok().filter(|_| self.keeper.is_none());
        let Some(view) = view.filter(|_| found.parent == parent.view.block()) else {
            restored.give_up(&found);
            return None;
        };
        let height = view.read().ok()?.height()?;
        let hash = found.tag.hash;
        let ancestors = Arc::new(named(&parent.ancestors, height, hash));
        let memory = self.engine.fork_memory(found.block).unwrap_or_default() as u64;
        Some(Kept { memory, ..Kept::restored(view, ancestors, hash, Some(found.tag)) })
    }

    /// Completes a root: it was computed with the execution, and is reported now.
    fn root(&self, job: Job) -> Option<Completion> {
        let kept = self.shared.desk.lock().value(job.id).cloned()?;
        let outcome = kept.outcome.clone()?;
        Some(Completion::Rooted(job, Box::new(kept), outcome))
    }

    fn stage(&mut self, job: Job) -> Result<(), Failure> {
        let kept = self.shared.desk.lock().value(job.id).cloned().ok_or(Failure::Superseded)?;
        let full = |room: &dyn Fn() -> u64| room() < kept.log_bytes.saturating_mul(2).saturating_add(RESERVE);
        if self.disk_room.as_deref().is_some_and(|room| full(room)) {
            return Err(Failure::Retry(RetryCause::DiskFull));
        }
        if self.shared.desk.lock().pending().is_some_and(|commit| commit.path().contains(&job.id)) {
            // Both writes at once: the block is committed behind them.
            self.begin_hand_over()?;
        }
        let done = self.done(job);
        self.engine.stage(kept.view.block(), done).map_err(|error| failure(&error)).inspect_err(|_| self.writing -= 1)
    }

    /// Commits the pending path, once the sink has it.
    fn commit(&mut self, job: Job) -> Result<(), Failure> {
        self.begin_hand_over()?;
        if !self.is_handed_over()? {
            self.waiting = Some(job);
            return Ok(());
        }
        let (path, finalised) = {
            let desk = self.shared.desk.lock();
            let kept = desk.pending().into_iter().flat_map(|commit| commit.path()).filter_map(|id| desk.value(*id));
            self.committing = Changed::of(kept);
            (path(&desk), desk.status().finalised)
        };
        let (mut rows, steps) = path.ok_or(Failure::Superseded)?;
        let last = steps.len().saturating_sub(1);
        for (place, Handed { committed, kept, .. }) in steps.into_iter().enumerate() {
            let (block, id) = (kept.view.block(), committed.exec);
            rows.push(committed);
            rows.retain(|row| row.height > kept.covered);
            let note = Note { finalised, committed: rows.clone() }.write();
            // The writer takes blocks in order: when the last is written, all are; if one fails, so do those after
            // it.
            let done = if place == last { self.done(job) } else { Box::new(drop) };
            if let Err(error) = self.engine.promote(block, note, done) {
                self.writing -= usize::from(place == last);
                return Err(failure(&error));
            }
            self.newest.push_back(kept.hashes);
            self.settle(id, block);
        }
        self.shared.restored.lock().follow(&self.engine.state.store);
        self.shelf.follow(&self.engine.state.store);
        Ok(())
    }

    /// Has the books keep a committed block without the fork that it was.
    fn settle(&self, id: ExecId, block: BlockId) {
        let mut desk = self.shared.desk.lock();
        if let Ok(view) = self.engine.state.store.snapshot(block)
            && let Some(kept) = desk.value(id).cloned()
        {
            desk.replace(id, Kept { view, memory: 0, ..kept });
        }
    }

    /// Callback for the end of a write of `job`.
    fn done(&mut self, job: Job) -> crate::state::Done {
        self.writing += 1;
        let orders = self.orders.clone();
        // Without a driver the result has no receiver.
        Box::new(move |result| _ = orders.send(Order::Written(job, result)))
    }

    /// Completion of a job whose write has ended.
    pub(super) fn written(&mut self, job: Job, result: Result<(), Error>) -> Completion {
        self.writing -= 1;
        match result {
            Ok(()) => Completion::Written(job),
            Err(error) => Completion::Failed(job, failure(&error)),
        }
    }

    fn drop_losers(&mut self) {
        let losers = self.shared.desk.lock().take_dropped();
        let restored = self.shared.restored.lock().take_dropped();
        for block in losers.iter().map(|kept| kept.view.block()).chain(restored) {
            // The block is gone already if an ancestor is.
            let _ = self.engine.discard(block);
        }
        if !losers.is_empty() {
            self.release(is_there);
        }
    }

    pub(super) fn rewind(&mut self, ticket: Ticket, to: ExecId) -> Result<(), Failure> {
        let (check, rows, finalised, height) = {
            let desk = self.shared.desk.lock();
            let EngineStatus { finalised, .. } = desk.status();
            let check = desk.check_rewind(to)?;
            let target = desk.rows().at(check.unwrap_or(desk.height()));
            let rows = rows_above(&desk, target.map_or(0, |row| row.value.covered));
            (check, rows, finalised, desk.height())
        };
        if let Some(to) = check.filter(|to| *to < height) {
            let committed = rows.into_iter().filter(|row| row.height <= to).collect();
            let note = Note { finalised, committed }.write();
            self.engine.rewind(to, note).map_err(|error| failure(&error))?;
            // An old row has no ancestors any more, and after a restart not all of them: the state has their hashes.
            let hashes = self.engine.state.names().map_err(|error| failure(&error))?;
            self.shared.desk.lock().change_row(to, |kept| {
                let below = hashes.into_iter().filter(|(at, _)| *at < to);
                kept.ancestors = Arc::new(below.chain([(to, kept.hash)]).collect());
            });
            self.shared.restored.lock().follow(&self.engine.state.store);
            self.shelf.follow(&self.engine.state.store);
        }
        self.shared.with(|desk| desk.rewound(ticket, check.unwrap_or(height), to));
        self.follow(Changed::Unknown);
        self.tell_sink();
        self.drop_losers();
        Ok(())
    }
}

/// Committed blocks above a height, oldest first.
pub(super) fn rows_above(desk: &Desk<Kept>, height: u64) -> Vec<CommittedTip> {
    let above = desk.rows().iter().rev().take_while(|row| row.committed.height > height);
    let mut rows: Vec<_> = above.map(|row| row.committed.clone()).collect();
    rows.reverse();
    rows
}

/// Committed rows that the path's first block does not cover, and the blocks that join them.
type Path = (Vec<CommittedTip>, Vec<Handed>);

pub(super) fn path(desk: &Desk<Kept>) -> Option<Path> {
    let commit = desk.pending()?;
    let step = |(place, id): (usize, &ExecId)| {
        let (kept, outcome) = (desk.value(*id)?.clone(), desk.outcome(*id)?);
        let (candidate, meta) = (desk.candidate(*id)?.clone(), commit.own_meta(place));
        let (height, state_root) = (candidate.env().height, outcome.state_root);
        Some(Handed { committed: CommittedTip { height, exec: *id, state_root, meta }, candidate, kept })
    };
    let steps: Vec<_> = commit.path().iter().enumerate().map(step).collect::<Option<_>>()?;
    let covered = steps.first().map_or(0, |step| step.kept.covered);
    Some((rows_above(desk, covered), steps))
}

/// True for a block that may still be committed.
fn is_there(desk: &Desk<Kept>, id: &ExecId) -> bool {
    desk.candidate(*id).is_some()
}
