//! The committed state with its tree, chain and history: applies blocks, rolls them back, and releases what the log has.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use phalanx_merkle_proof::{Hash, Params, Shape};

use super::{
    apply::{ApplyPlan, apply},
    effect::Effect,
    pins::Pins,
    rollback::{PastEntry, UndoRecord},
};
use crate::{
    log::{BlockRecord, Shared},
    state::{Resident, State},
    tree::{Tree, TreePatch},
    types::{Contents, ForkJoin, ThreadStart},
};

/// Committed state and the blocks that led to it, shared by a store and its snapshots.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) params: Params,
    pub(crate) contents: Contents,
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: State,
    pub(crate) tree: Tree,
    /// Committed blocks that the log still has.
    pub(crate) chain: VecDeque<ChainBlock>,
    /// Undo records of the last blocks; at most `window`.
    pub(crate) history: VecDeque<UndoRecord>,
    pub(crate) window: usize,
    /// Log that exporters and the named checkpoint need.
    pub(crate) pins: Pins,
    /// Height of the first block of all.
    pub(crate) first_height: u64,
    /// Code of applied blocks that may not be written yet, with the sequence numbers of the writes.
    pub(crate) fresh_codes: HashMap<Hash, (u64, Arc<[u8]>)>,
    /// For threads that write checkpoints.
    pub(crate) thread_start: ThreadStart,
    pub(crate) fork_join: ForkJoin,
}

/// A committed block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainBlock {
    pub(crate) id: u64,
    /// Sequence number of the write that brings the block to the log.
    seq: u64,
    pub(crate) height: u64,
    pub(crate) root: Hash,
    /// First position of the block.
    pub(crate) first_sn: u64,
    pub(crate) shape: Shape,
}

impl From<&BlockRecord> for ChainBlock {
    fn from(record: &BlockRecord) -> Self {
        Self {
            id: record.id,
            seq: record.seq,
            height: record.height,
            root: record.root,
            first_sn: record.first_sn,
            shape: record.shape,
        }
    }
}

impl Core {
    pub(crate) fn height(&self) -> Option<u64> {
        self.chain.back().map(|block| block.height)
    }

    /// Height of the next block.
    pub(crate) fn next_height(&self) -> u64 {
        self.height().map_or(self.first_height, |height| height + 1)
    }

    /// Id of the tip; zero before the first block.
    pub(crate) fn tip_id(&self) -> u64 {
        self.chain.back().map_or(0, |block| block.id)
    }

    pub(crate) fn root(&self) -> Hash {
        self.chain.back().map_or_else(|| self.tree.root(), |block| block.root)
    }

    pub(crate) fn at(&self, height: u64) -> Option<&ChainBlock> {
        let first = self.chain.front()?.height;
        self.chain.get(usize::try_from(height.checked_sub(first)?).ok()?)
    }

    /// Number of blocks on top of a committed block; `None` if that is more than can be rolled back.
    pub(crate) fn depth_of(&self, id: u64) -> Option<usize> {
        let depth = self.chain.iter().rev().take(self.history.len() + 1).position(|block| block.id == id);
        depth.or_else(|| (id == 0 && self.history.len() == self.chain.len()).then_some(self.chain.len()))
    }

    /// Plans applying a block, while readers still read the state.
    pub(crate) fn apply_plan(&self, effect: &Effect) -> Option<ApplyPlan> {
        match &self.state {
            State::Resident(state) => ApplyPlan::of(state, effect, self.fork_join.par()),
            State::Paged(_) => None,
        }
    }

    /// Makes a block the tip. Waits for no rayon job but fork-join helpers, which wait for nothing: other jobs may wait
    /// for the lock that the caller holds.
    pub(crate) fn apply(&mut self, mut effect: Effect, plan: Option<ApplyPlan>, record: &BlockRecord) {
        let par = self.fork_join.par();
        let shape = effect.tree.shape;
        let patch = core::mem::replace(&mut effect.tree, TreePatch::of_shape(shape));
        let Self { state, tree, history, window, .. } = self;
        let apply_tree = || {
            // Records to be noted reuse the memory of undo records beyond the window.
            history.drain(..(history.len() + 1).saturating_sub(*window).min(history.len()));
            tree.apply(patch)
        };
        let undo = match state {
            State::Resident(state) => {
                let (mut undo, mut reverse) = (UndoRecord::new(TreePatch::of_shape(shape)), TreePatch::of_shape(shape));
                let notes = (*window > 0).then_some(&mut undo);
                apply(state, &effect, plan, notes, par, || reverse = apply_tree());
                undo.tree = reverse;
                undo
            }
            State::Paged(paged) => {
                paged.apply(
                    &effect.steps,
                    record.shape.next_sn,
                    record.id,
                    record.seq,
                    effect.kept.take().unwrap_or_default(),
                );
                UndoRecord::of_position_changes(apply_tree(), effect.steps)
            }
        };
        if self.window > 0 {
            self.history.push_back(undo);
        }
        self.chain.push_back(ChainBlock::from(record));
        self.release();
    }

    /// Rolls the tip back; false if no undo record is left.
    pub(crate) fn roll_back(&mut self) -> bool {
        let Some(undo) = self.history.pop_back() else { return false };
        match &mut self.state {
            State::Resident(state) => undo.roll_back(state),
            State::Paged(paged) => paged.roll_back(&undo.steps.all, undo.tree.shape.next_sn),
        }
        self.tree.apply(undo.tree);
        self.chain.pop_back();
        true
    }

    /// Rolls back what a checkpoint contains: the tree, and a paged state. A resident state is not in it, and stays.
    pub(crate) fn roll_back_image(&mut self) {
        let Some(undo) = self.history.pop_back() else { return };
        if let State::Paged(paged) = &mut self.state {
            paged.roll_back(&undo.steps.all, undo.tree.shape.next_sn);
        }
        self.tree.apply(undo.tree);
        self.chain.pop_back();
    }

    /// Number of blocks of the chain that are in the log.
    pub(crate) fn written_blocks(&self) -> usize {
        let next_seq = self.shared.next_seq();
        self.chain.len() - self.chain.iter().rev().take_while(|block| block.seq >= next_seq).count()
    }

    /// Position below which entries can be read from the log.
    pub(crate) fn written_sn(&self) -> u64 {
        self.written_blocks().checked_sub(1).map_or(0, |last| self.chain[last].shape.next_sn)
    }

    /// Releases what is in memory only until it can be read from the log.
    pub(crate) fn release(&mut self) {
        if self.shared.log.keeps_entries() {
            self.tree.release(self.written_sn());
        }
        let next_seq = self.shared.next_seq();
        if let State::Paged(paged) = &mut self.state {
            paged.release(&*self.shared.log, next_seq);
        }
        self.fresh_codes.retain(|_, (seq, _)| *seq >= next_seq);
    }

    /// Finds a key of a resident state as it was `depth` blocks ago.
    pub(crate) fn find_past<'c>(&'c self, state: &'c Resident, key: &[u8], depth: usize) -> Option<PastEntry<'c>> {
        let now = state.find(key).map(|id| PastEntry::now(state, id));
        self.history.iter().rev().take(depth).fold(now, |was, undo| undo.before(key, was))
    }

    /// Finds a sentinel of a resident state as it was `depth` blocks ago.
    pub(crate) fn sentinel_past<'c>(&'c self, state: &'c Resident, id: u32, depth: usize) -> Option<PastEntry<'c>> {
        let now = Some(PastEntry::now(state, id));
        self.history.iter().rev().take(depth).fold(now, |was, undo| undo.before(&[], was))
    }
}
