//! Bookkeeping of an engine, without the engine: which requests are open, which jobs may begin, which events are due.
//!
//! ```text
//!            requests                       jobs                          completions
//!  caller ──► submit ──► Queued ──Execute──► executor ──executed──► Executed ──Root──► hasher ──rooted──► Rooted
//!             stage ───► Queued ──Stage────► disk ────────staged──► Done
//!             commit ──► waits for its path ──Commit──► marker ─committed──► Rows
//!             keep_only, quiesce, a verdict ──► dropped ──► take_dropped
//! ```
//!
//! A [`Desk`] does no I/O and has no threads, no clock and no hash maps: the same calls in the same order have the same
//! effects. The simulator's model engine is a desk with a simulated disk, so what is proved there holds for every engine that
//! has a desk, as far as its jobs do what they say.
//!
//! The engine that drives a desk keeps four rules:
//!
//! 1. Every [`Job`] that [`Desk::start`] returns is completed once, in any order, also after its block was dropped:
//!    the resource is taken until then.
//! 2. A completion reports a fact: [`Desk::staged`] after the write, [`Desk::committed`] after the sync.
//! 3. [`Desk::check_rewind`] and [`Desk::rewound`] belong together, with the disk's work and nothing else between them;
//!    likewise [`Desk::check_finalise`] and [`Desk::finalised`].
//! 4. [`Desk::take_dropped`] is called from time to time: the desk holds dropped values until then.

mod block;
mod request;
mod rows;
mod work;

#[cfg(test)]
mod tests;

pub use block::{Commit, own_meta};
pub use rows::{Row, Rows};
pub use work::{Job, JobKind};

use crate::block::{Candidate, ExecOutcome};
use crate::engine::Priority;
use crate::event::EngineEvent;
use crate::failure::{Failure, FatalCause, RetryCause};
use crate::id::{ExecId, Ticket};
use crate::status::{BlockBudget, CommittedTip, EngineStatus, Limits, Pressure};
use alloy_primitives::Bytes;
use block::{Block, Phase, Staging, Turn};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bookkeeping of an engine that keeps a `T` per executed block. See the [module](self).
///
/// Blocks are few ([`Limits`]): requests and completions take time linear in their number.
#[derive(Debug)]
pub struct Desk<T> {
    chain: u64,
    limits: Limits,
    rows: Rows<T>,
    finalised: u64,
    /// # Invariants
    /// Each block descends from the committed tip, through blocks of this map. All blocks of the pending commit's
    /// path are rooted.
    blocks: BTreeMap<ExecId, Block<T>>,
    commit: Option<Commit>,
    /// Current job of executor, hasher, disk and marker.
    running: [Option<work::Running>; 4],
    serial: u64,
    resting: Option<Ticket>,
    rest_reported: bool,
    events: VecDeque<EngineEvent>,
    /// Values of dropped blocks, by name.
    leaving: Vec<(ExecId, T)>,
}

impl<T> Desk<T> {
    /// Opens a desk without jobs: `rows` are committed, and no rewind goes below `finalised`.
    #[must_use]
    pub const fn open(chain: u64, limits: Limits, rows: Rows<T>, finalised: u64) -> Self {
        Self {
            chain,
            limits,
            rows,
            finalised,
            blocks: BTreeMap::new(),
            commit: None,
            running: [None; 4],
            serial: 0,
            resting: None,
            rest_reported: false,
            events: VecDeque::new(),
            leaving: Vec::new(),
        }
    }

    /// Keeps only this many heights of committed blocks, at least one; without this call all are kept. Older blocks
    /// are unknown: no rewind reaches them, and staging or committing one again is answered `Retry`.
    #[must_use]
    pub fn with_rows(mut self, window: u64) -> Self {
        self.rows.set_window(window);
        self
    }

    /// Readmits a block that was found staged after a restart. Returns true if its parent is present; else its value
    /// goes to [`Desk::take_dropped`]. Parents come before their children.
    pub fn readmit(&mut self, candidate: Candidate, value: T, outcome: ExecOutcome) -> bool {
        let id = candidate.id();
        let fits = self.height_on(candidate.parent()) == Some(candidate.env().height);
        if !fits || self.blocks.contains_key(&id) {
            self.leaving.push((id, value));
            return false;
        }
        let block = Block {
            priority: Priority::Speculative,
            ticket: Ticket::default(),
            arrival: self.next(),
            phase: Phase::Rooted(value, outcome),
            turn: Turn::Waiting,
            staging: Staging::Done,
            weight: 0,
            candidate,
        };
        self.blocks.insert(id, block);
        true
    }

    /// As [`crate::ExecutionEngine::status`].
    #[must_use]
    pub fn status(&self) -> EngineStatus {
        let staged = self.blocks.iter().filter(|(_, block)| block.staging == Staging::Done);
        let mut staged: Vec<_> = staged.map(|(id, block)| (block.height(), *id)).collect();
        staged.sort_unstable();
        let committed = self.rows.tip().committed.clone();
        EngineStatus { chain: self.chain, committed, finalised: self.finalised, staged }
    }

    /// As [`crate::ExecutionEngine::committed_at`].
    #[must_use]
    pub fn committed_at(&self, height: u64) -> Option<CommittedTip> {
        self.rows.at(height).map(|row| row.committed.clone())
    }

    /// As [`crate::ExecutionEngine::pressure`], without a recommendation for the next block.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        let unexecuted = self.blocks.values().filter(|block| !block.is_executed()).count() as u32;
        let uncommitted = self.blocks.len() as u32 - unexecuted;
        Pressure { unexecuted, uncommitted, propose: BlockBudget::UNLIMITED }
    }

    /// As [`crate::ExecutionEngine::poll`].
    pub fn poll(&mut self, max: usize, out: &mut Vec<EngineEvent>) -> usize {
        let count = max.min(self.events.len());
        out.extend(self.events.drain(..count));
        count
    }

    /// Returns true if events are waiting.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Height of the committed tip.
    #[must_use]
    pub const fn height(&self) -> u64 {
        self.rows.tip().committed.height
    }

    /// The committed blocks.
    #[must_use]
    pub const fn rows(&self) -> &Rows<T> {
        &self.rows
    }

    /// Changes the value of the committed block at a height, if it is kept.
    pub fn change_row(&mut self, height: u64, change: impl FnOnce(&mut T)) {
        self.rows.change(height, change);
    }

    /// A speculative block.
    #[must_use]
    pub fn candidate(&self, id: ExecId) -> Option<&Candidate> {
        self.blocks.get(&id).map(|block| &block.candidate)
    }

    /// Value of a speculative block, once it is executed.
    #[must_use]
    pub fn value(&self, id: ExecId) -> Option<&T> {
        self.blocks.get(&id).and_then(Block::value)
    }

    /// Sets the memory that an executed speculative block takes, in bytes: it counts against [`Limits::bytes`] until the
    /// block is committed or dropped.
    pub fn weigh(&mut self, id: ExecId, bytes: u64) {
        if let Some(block) = self.blocks.get_mut(&id).filter(|block| block.is_executed()) {
            block.weight = bytes;
        }
    }

    /// Replaces the value of an executed speculative block, and returns the old one.
    pub fn replace(&mut self, id: ExecId, value: T) -> Option<T> {
        match &mut self.blocks.get_mut(&id)?.phase {
            Phase::Queued => None,
            Phase::Executed(old) | Phase::Rooted(old, _) => Some(core::mem::replace(old, value)),
        }
    }

    /// The result of a speculative block, once it is rooted.
    #[must_use]
    pub fn outcome(&self, id: ExecId) -> Option<&ExecOutcome> {
        self.blocks.get(&id).and_then(Block::outcome)
    }

    /// Value of a speculative block's parent, once that is executed: a speculative block, or the committed tip.
    #[must_use]
    pub fn parent(&self, id: ExecId) -> Option<&T> {
        let parent = self.blocks.get(&id)?.candidate.parent();
        match self.blocks.get(&parent) {
            Some(parent) => parent.value(),
            None => Some(&self.rows.tip().value),
        }
    }

    /// The requested commit, if any: a job of [`JobKind::Commit`] writes it.
    #[must_use]
    pub const fn pending(&self) -> Option<&Commit> {
        self.commit.as_ref()
    }

    /// Blocks from the committed one (exclusive) to `tip`, oldest first.
    ///
    /// # Errors
    /// `Retry` if `tip` is unknown, `Fatal` if it does not descend from the committed block.
    pub fn path(&self, tip: ExecId) -> Result<Vec<ExecId>, Failure> {
        let mut path = vec![tip];
        let mut block = self.blocks.get(&tip).ok_or(Failure::Retry(RetryCause::NotReady(tip)))?;
        while let Some(parent) = self.blocks.get(&block.candidate.parent()) {
            path.push(block.candidate.parent());
            block = parent;
        }
        if block.candidate.parent() != self.rows.tip().committed.exec {
            return Err(Failure::Fatal(FatalCause::Fork { height: block.height() }));
        }
        path.reverse();
        Ok(path)
    }

    /// Takes the values of dropped speculative blocks, in the order of their drop. A value that a running job works
    /// on, or builds on, follows when the job has ended. The value of a job whose result came too late is among them.
    /// Values of committed blocks never are, not even when they are rewound or leave the window.
    #[must_use = "the engine may hold resources for each of them"]
    pub fn take_dropped(&mut self) -> Vec<T> {
        let leaving = core::mem::take(&mut self.leaving);
        let (stay, gone): (Vec<_>, Vec<_>) = leaving.into_iter().partition(|(id, _)| self.in_use(*id));
        self.leaving = stay;
        gone.into_iter().map(|(_, value)| value).collect()
    }

    /// Height that a child of `parent` must have, if the parent is present.
    fn height_on(&self, parent: ExecId) -> Option<u64> {
        let tip = &self.rows.tip().committed;
        match self.blocks.get(&parent) {
            Some(block) => Some(block.height() + 1),
            None => (tip.exec == parent).then_some(tip.height + 1),
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

    /// Drops all blocks that `keep` refuses. Jobs on them continue without effect.
    fn retain(&mut self, keep: impl Fn(&ExecId) -> bool) {
        let (mut ids, mut txs): (Vec<ExecId>, Vec<Bytes>) = (Vec::new(), Vec::new());
        for (id, block) in self.blocks.extract_if(.., |id, _| !keep(id)) {
            ids.push(id);
            txs.extend_from_slice(block.candidate.payload().txs());
            if let Phase::Executed(value) | Phase::Rooted(value, _) = block.phase {
                self.leaving.push((id, value));
            }
        }
        if !ids.is_empty() {
            self.events.push_back(EngineEvent::Dropped { ids, txs });
        }
    }

    const fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}
