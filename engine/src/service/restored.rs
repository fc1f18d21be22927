//! Blocks that were staged before a restart.

use super::codec::Tag;
use crate::engine::Engine;
use phalanx_engine_api::ExecId;
use phalanx_merkle::{BlockId, Store};
use std::collections::BTreeMap;

/// Staged blocks of the store that need no execution when they are submitted again. A cache: a lost block is executed
/// again.
#[derive(Debug, Default)]
pub(super) struct Restored {
    blocks: BTreeMap<ExecId, Block>,
    /// Dropped blocks that are still in the store.
    dropped: Vec<BlockId>,
}

/// A staged block with its identity and result.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) block: BlockId,
    pub(super) parent: BlockId,
    height: u64,
    pub(super) tag: Tag,
}

impl Restored {
    /// Reads the staged blocks of the engine's store.
    pub(super) fn of(engine: &Engine) -> Self {
        let mut restored = Self::default();
        for held in engine.forks() {
            match Tag::read(&held.payload) {
                Some(tag) => {
                    let id = tag.outcome.id;
                    let block = Block { block: held.block, parent: held.parent, height: held.height, tag };
                    restored.blocks.insert(id, block);
                }
                // The tag is another program's.
                None => restored.dropped.push(held.block),
            }
        }
        restored
    }

    /// Appends the blocks to a list of staged blocks.
    pub(super) fn list(&self, staged: &mut Vec<(u64, ExecId)>) {
        staged.extend(self.blocks.iter().map(|(id, block)| (block.height, *id)));
        staged.sort_unstable();
    }

    /// Takes a block that was submitted.
    pub(super) fn take(&mut self, id: ExecId) -> Option<Block> {
        self.blocks.remove(&id)
    }

    /// Drops a taken block that is of no use.
    pub(super) fn give_up(&mut self, block: &Block) {
        self.dropped.push(block.block);
    }

    /// Drops all blocks but `ids`.
    pub(super) fn keep_only(&mut self, ids: &[ExecId]) {
        self.dropped.extend(self.blocks.extract_if(.., |id, _| !ids.contains(id)).map(|(_, block)| block.block));
    }

    /// Removes the blocks that the store has dropped.
    pub(super) fn follow(&mut self, store: &Store) {
        self.blocks.retain(|_, block| store.is_fork(block.block));
    }

    /// Takes the blocks dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> Vec<BlockId> {
        core::mem::take(&mut self.dropped)
    }
}
