//! From a delta to a root, without changing the store and without I/O.

use std::sync::Arc;

use super::link::Linked;
use crate::{
    log::Records,
    state::{Arena, PositionChange},
    tree::TreePatch,
    types::{Delta, Operation, Target},
};

/// Entries between the prefetch of a record, or of an operation's bytes, and its use.
pub(crate) const RECORD_LOOKAHEAD: usize = 12;

/// Entries between the prefetch of an operation and its use: its bytes can be prefetched only once it is there.
pub(crate) const OPERATION_LOOKAHEAD: usize = 2 * RECORD_LOOKAHEAD;

/// What a block does to the state, the tree and the log.
#[derive(Debug)]
pub(crate) struct Effect {
    pub(crate) delta: Delta,
    pub(crate) linked: Linked,
    /// Who is moved to the positions after the appended ones, from which position.
    pub(crate) moves: Vec<(u32, u64)>,
    pub(crate) first_sn: u64,
    pub(crate) height: u64,
    pub(crate) tree: TreePatch,
    /// What goes to the log, unless it is there.
    pub(crate) records: Vec<Records>,
    /// How positions change, where the state is on disk.
    pub(crate) steps: Vec<PositionChange>,
    /// What the ids of keys refer to, where the state is on disk.
    pub(crate) arena: Option<Arc<Arena>>,
    /// The block's rows once they are on their way to the log, where entries are read from it.
    pub(crate) kept: Option<Arc<Vec<Records>>>,
}

/// The key that an operation names by its bytes.
pub(crate) fn name(op: Operation<'_>) -> &[u8] {
    match op.target() {
        Target::Key(key) => key,
        Target::At(_) => unreachable!("a located key is in the state"),
    }
}
