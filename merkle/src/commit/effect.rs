//! The effect of a block: what it does to the state, the tree and the log, before it is applied.

use std::sync::Arc;

use super::{link::Linked, prepare::CHUNK};
use crate::{
    log::{ExtentItem, Kind, Marks, Records, frame_body, read_extent},
    state::{Arena, PositionChange},
    tree::TreePatch,
    types::{Delta, Operation, Target},
};

/// Entries between the prefetch of a record, or of an operation's bytes, and its use.
pub(crate) const RECORD_LOOKAHEAD: usize = 12;

/// Entries between the prefetch of an operation and its use: its bytes can be prefetched only once it is there.
pub(crate) const OPERATION_LOOKAHEAD: usize = 2 * RECORD_LOOKAHEAD;

/// Effect of a block on the state, the tree and the log.
#[derive(Debug)]
pub(crate) struct Effect {
    pub(crate) delta: Delta,
    pub(crate) linked: Linked,
    /// Compacted entries in the order of their new positions, which follow the appended ones: id, and old position.
    pub(crate) moves: Vec<(u32, u64)>,
    pub(crate) first_sn: u64,
    pub(crate) height: u64,
    pub(crate) tree: TreePatch,
    /// Log records of the block, until they are written.
    pub(crate) records: Vec<Records>,
    /// Changes of keys' positions, for a paged state.
    pub(crate) steps: Vec<PositionChange>,
    /// Entries that the ids of keys refer to, for a paged state.
    pub(crate) arena: Option<Arc<Arena>>,
    /// Log records of a block whose write is in flight, for a paged state, which reads entries from them.
    pub(crate) kept: Option<Arc<Vec<Records>>>,
}

impl Effect {
    /// Bytes that the effect takes, without its tree.
    pub(crate) fn memory(&self) -> usize {
        self.delta.memory()
            + self.linked.memory()
            + self.moves.capacity() * size_of::<(u32, u64)>()
            + self.records.iter().map(|records| records.bytes.capacity()).sum::<usize>()
            + self.steps.capacity() * size_of::<PositionChange>()
            + self.arena.as_ref().map_or(0, |arena| arena.memory())
    }
}

impl Effect {
    /// Hands the keys whose values the block changes to `visit`, with the new values; `None` for deleted keys. Part `part` are the
    /// records of that place, until they are written.
    pub(crate) fn changes_of(&self, part: usize, mut visit: impl FnMut(&[u8], Option<&[u8]>)) {
        let mut ranks = part * CHUNK..;
        for frame in self.records.get(part).into_iter().flat_map(Records::iter) {
            let Some((Kind::Extent, body)) = frame_body(frame, &Marks::PLAIN) else { continue };
            read_extent(Kind::Extent, body, |item| match item {
                ExtentItem::Entry(entry, _) => {
                    // Of the key before a new or a deleted one only the next key changes.
                    if ranks.next().is_some_and(|rank| self.linked.get(rank).0.is_some()) {
                        visit(entry.key, Some(entry.value));
                    }
                }
                ExtentItem::Delete(_, key) => visit(key, None),
                ExtentItem::Moved(..) | ExtentItem::Kept(..) => {}
            });
        }
    }
}

/// Key bytes that an operation names.
pub(crate) fn name(op: Operation<'_>) -> &[u8] {
    match op.target() {
        Target::Key(key) => key,
        Target::At(_) => unreachable!("a located key is in the state"),
    }
}
