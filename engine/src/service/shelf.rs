//! Built blocks that wait for their submission.

use super::kept::Kept;
use phalanx_engine_api::ExecId;
use phalanx_merkle::{BlockId, Store};
use std::collections::VecDeque;

/// Number of built blocks that are kept until they are submitted.
const KEPT: usize = 4;

/// Built blocks that were not submitted.
#[derive(Debug, Default)]
pub(super) struct Shelf(VecDeque<(ExecId, BlockId, Kept)>);

impl Shelf {
    /// Takes a block whose parent is `parent`.
    pub(super) fn take(&mut self, id: ExecId, parent: BlockId) -> Option<Kept> {
        let at = self.0.iter().position(|(found, below, _)| *found == id && *below == parent)?;
        self.0.remove(at).map(|(.., kept)| kept)
    }

    /// Removes the blocks that the store has dropped.
    pub(super) fn follow(&mut self, store: &Store) {
        self.0.retain(|(.., kept)| store.is_fork(kept.view.block()));
    }

    /// Inserts a block. Returns the oldest one if there are too many.
    pub(super) fn put(&mut self, id: ExecId, parent: BlockId, kept: Kept) -> Option<BlockId> {
        self.0.push_back((id, parent, kept));
        let oldest = if self.0.len() > KEPT { self.0.pop_front() } else { None };
        oldest.map(|(.., kept)| kept.view.block())
    }
}
