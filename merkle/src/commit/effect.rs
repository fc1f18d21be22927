//! From a delta to a root, without changing the store and without I/O.

use std::sync::Arc;

use super::{link::Linked, resolve::KeyRef};
use crate::{
    log::Records,
    state::{Arena, PositionChange, StateView},
    tree::TreePatch,
    types::{Delta, Operation, Target},
};

/// How far ahead of its use a record is asked for.
pub(crate) const AHEAD: usize = 12;

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

/// Order of key hash is random order in memory: asks for what the next ranks need, in two steps because the place of an
/// operation's bytes is known only from the operation.
#[inline]
pub(crate) fn ask_ahead(state: &impl StateView, delta: &Delta, linked: &Linked, rank: usize) {
    if rank + 2 * AHEAD < linked.len() {
        let (op, who) = linked.get(rank + 2 * AHEAD);
        if let Some(op) = op {
            delta.at(op).prefetch();
        }
        if let KeyRef::Known(id) = who {
            state.prefetch(id);
        }
    }
    if rank + AHEAD < linked.len()
        && let (Some(op), _) = linked.get(rank + AHEAD)
    {
        delta.at(op).prefetch_bytes();
    }
}
