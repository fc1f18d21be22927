//! What an earlier life has staged.

use super::codec::Tag;
use crate::Engine;
use phalanx_engine_api::{ExecId, Outcome};
use phalanx_merkle::{BlockId, Store};
use std::collections::BTreeMap;

/// Blocks that are in the store and need no execution if they are submitted again. A cache: whatever is lost of it is
/// executed.
#[derive(Debug, Default)]
pub(super) struct Restored {
    blocks: BTreeMap<ExecId, Block>,
    /// Dropped, and still in the store.
    dropped: Vec<BlockId>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) block: BlockId,
    pub(super) parent: BlockId,
    height: u64,
    pub(super) outcome: Outcome,
}

impl Restored {
    /// What the engine's store holds.
    pub(super) fn of(engine: &Engine) -> Self {
        let mut restored = Self::default();
        for held in engine.held() {
            match Tag::read(&held.payload) {
                Some(Tag { outcome }) => {
                    let block = Block { block: held.block, parent: held.parent, height: held.height, outcome };
                    restored.blocks.insert(block.outcome.id, block);
                }
                // Another program's.
                None => restored.dropped.push(held.block),
            }
        }
        restored
    }

    /// Adds them to a list of staged blocks.
    pub(super) fn list(&self, staged: &mut Vec<(u64, ExecId)>) {
        staged.extend(self.blocks.iter().map(|(id, block)| (block.height, *id)));
        staged.sort_unstable();
    }

    /// Takes one that is wanted.
    pub(super) fn take(&mut self, id: ExecId) -> Option<Block> {
        self.blocks.remove(&id)
    }

    /// Drops a block that was taken and is of no use.
    pub(super) fn give_up(&mut self, block: &Block) {
        self.dropped.push(block.block);
    }

    /// Drops all but these.
    pub(super) fn keep_only(&mut self, ids: &[ExecId]) {
        self.dropped.extend(self.blocks.extract_if(.., |id, _| !ids.contains(id)).map(|(_, block)| block.block));
    }

    /// Forgets what the store has dropped.
    pub(super) fn follow(&mut self, store: &Store) {
        self.blocks.retain(|_, block| store.is_held(block.block));
    }

    /// What was dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> Vec<BlockId> {
        core::mem::take(&mut self.dropped)
    }
}
