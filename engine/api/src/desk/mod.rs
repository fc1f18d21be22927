//! The bookkeeping of an engine, without the engine: what was asked, what may begin, what is reported.
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
//! Whoever drives it keeps four rules:
//!
//! 1. Every [`Job`] that [`Desk::start`] hands out is completed once, in any order, whatever has become of its block: the
//!    resource is taken until then.
//! 2. A completion says what is true already: [`Desk::staged`] after the write, [`Desk::committed`] after the sync.
//! 3. [`Desk::check_rewind`] and [`Desk::rewound`] belong together, with the disk's work and nothing else between them;
//!    likewise [`Desk::check_finalise`] and [`Desk::finalised`].
//! 4. [`Desk::take_dropped`] is called from time to time, for what it returns is kept until then.

mod block;
mod request;
mod rows;
mod work;

#[cfg(test)]
mod tests;

pub use block::{Commit, own_meta};
pub use rows::{Row, Rows};
pub use work::{Job, JobKind};

use crate::{
    Budget, Candidate, Committed, EngineEvent, EngineStatus, ExecId, Failure, FatalCause, Limits, Outcome, Pressure,
    Priority, RetryCause, Ticket,
};
use alloy_primitives::Bytes;
use block::{Block, Phase, Staging, Turn};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Keeps the books of an engine that keeps a `T` of each executed block. See the [module](self).
///
/// Blocks are few ([`Limits`]), so requests and completions take time in proportion to all of them.
#[derive(Debug)]
pub struct Desk<T> {
    chain: u64,
    limits: Limits,
    rows: Rows<T>,
    finalised: u64,
    /// # Invariants
    /// Each descends from the committed tip, through blocks of this map. All of the pending commit's path are rooted.
    blocks: BTreeMap<ExecId, Block<T>>,
    commit: Option<Commit>,
    /// What executor, hasher, disk and marker do now.
    running: [Option<work::Running>; 4],
    serial: u64,
    resting: Option<Ticket>,
    rest_reported: bool,
    events: VecDeque<EngineEvent>,
    /// Of dropped blocks, by name.
    leaving: Vec<(ExecId, T)>,
}

impl<T> Desk<T> {
    /// A desk at which nothing is under way: `rows` are committed, and nobody rewinds below `finalised`.
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

    /// Keeps only this many heights of committed blocks, at least one; all of them without. What is older is unknown: no
    /// rewind goes there, and to stage or commit it again is answered `Retry`.
    #[must_use]
    pub fn with_rows(mut self, window: u64) -> Self {
        self.rows.set_window(window);
        self
    }

    /// Takes back a block that was found staged after a restart; whether it still builds on what is there. If it does not,
    /// its value goes to [`Desk::take_dropped`]. Parents come before their children.
    pub fn readmit(&mut self, candidate: Candidate, value: T, outcome: Outcome) -> bool {
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
            candidate,
        };
        self.blocks.insert(id, block);
        true
    }

    /// As [`crate::Engine::status`].
    #[must_use]
    pub fn status(&self) -> EngineStatus {
        let staged = self.blocks.iter().filter(|(_, block)| block.staging == Staging::Done);
        let mut staged: Vec<_> = staged.map(|(id, block)| (block.height(), *id)).collect();
        staged.sort_unstable();
        let committed = self.rows.tip().committed.clone();
        EngineStatus { chain: self.chain, committed, finalised: self.finalised, staged }
    }

    /// As [`crate::Engine::committed_at`].
    #[must_use]
    pub fn committed_at(&self, height: u64) -> Option<Committed> {
        self.rows.at(height).map(|row| row.committed.clone())
    }

    /// As [`crate::Engine::pressure`], with no opinion on what to propose.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        let unexecuted = self.blocks.values().filter(|block| !block.is_executed()).count() as u32;
        let uncommitted = self.blocks.len() as u32 - unexecuted;
        Pressure { unexecuted, uncommitted, propose: Budget::UNLIMITED }
    }

    /// As [`crate::Engine::poll`].
    pub fn poll(&mut self, max: usize, out: &mut Vec<EngineEvent>) -> usize {
        let count = max.min(self.events.len());
        out.extend(self.events.drain(..count));
        count
    }

    /// Whether events are waiting.
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

    /// A speculative block.
    #[must_use]
    pub fn candidate(&self, id: ExecId) -> Option<&Candidate> {
        self.blocks.get(&id).map(|block| &block.candidate)
    }

    /// What is kept of a speculative block, once it is executed.
    #[must_use]
    pub fn value(&self, id: ExecId) -> Option<&T> {
        self.blocks.get(&id).and_then(Block::value)
    }

    /// The result of a speculative block, once it is rooted.
    #[must_use]
    pub fn outcome(&self, id: ExecId) -> Option<&Outcome> {
        self.blocks.get(&id).and_then(Block::outcome)
    }

    /// What is kept of a speculative block's parent, once that is executed: a block like it, or the committed tip.
    #[must_use]
    pub fn parent(&self, id: ExecId) -> Option<&T> {
        let parent = self.blocks.get(&id)?.candidate.parent();
        match self.blocks.get(&parent) {
            Some(parent) => parent.value(),
            None => Some(&self.rows.tip().value),
        }
    }

    /// The commit that is asked for, if any: what a job of [`JobKind::Commit`] is to write.
    #[must_use]
    pub const fn pending(&self) -> Option<&Commit> {
        self.commit.as_ref()
    }

    /// From the committed block (without it) to `tip`, oldest first.
    ///
    /// # Errors
    /// `Retry` if `tip` is not there, `Fatal` if it does not descend from the committed block.
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

    /// What was kept of speculative blocks that are gone, in the order in which they went. One that a running job works on,
    /// or builds on, comes when the job has ended. What a job brought that nobody wanted comes here, too; committed blocks
    /// never do, not even when they are rewound or leave the window.
    #[must_use = "the engine may hold resources for each of them"]
    pub fn take_dropped(&mut self) -> Vec<T> {
        let leaving = core::mem::take(&mut self.leaving);
        let (stay, gone): (Vec<_>, Vec<_>) = leaving.into_iter().partition(|(id, _)| self.in_use(*id));
        self.leaving = stay;
        gone.into_iter().map(|(_, value)| value).collect()
    }

    /// The height that a child of `parent` must have, if the parent is there.
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

    /// Drops the others. Work on them goes on and comes to nothing.
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
