//! Changes of keys' positions by a block, and an index over them to read the state before.

use std::{collections::HashMap, sync::OnceLock};

use super::{effect::Effect, resolve::KeyRef};
use crate::{
    state::{PositionChange, StateView},
    types::prefix,
};

/// Changes of keys' positions by a block.
#[derive(Debug, Default)]
pub(crate) struct PositionChanges {
    pub(crate) all: Vec<PositionChange>,
    /// Built by the first read.
    index: OnceLock<Index>,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    /// Position before, by position after.
    pub(super) after: HashMap<u64, Option<u64>>,
    /// Positions of deleted keys, by prefix.
    pub(super) gone: HashMap<u64, Vec<u64>>,
}

impl From<Vec<PositionChange>> for PositionChanges {
    fn from(all: Vec<PositionChange>) -> Self {
        Self { all, index: OnceLock::new() }
    }
}

impl PositionChanges {
    pub(super) fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut index = Index::default();
            for step in &self.all {
                match (step.before, step.after) {
                    (before, Some(after)) => _ = index.after.insert(after, before),
                    (Some(before), None) => index.gone.entry(step.prefix).or_default().push(before),
                    (None, None) => {}
                }
            }
            index
        })
    }
}

/// Derives the changes of positions from an effect on a paged state.
pub(crate) fn position_changes(state: &impl StateView, effect: &Effect) -> Vec<PositionChange> {
    let Effect { linked, moves, first_sn, .. } = effect;
    let deletes = linked.deletes.iter().map(|id| PositionChange {
        prefix: state.prefix(*id),
        before: Some(state.written(*id).sn),
        after: None,
    });
    let appends = (0..linked.len()).map(|rank| {
        let after = Some(first_sn + rank as u64);
        match linked.get(rank) {
            (_, KeyRef::Known(id)) => {
                PositionChange { prefix: state.prefix(id), before: Some(state.written(id).sn), after }
            }
            (op, KeyRef::New(new)) => {
                PositionChange { prefix: prefix(linked.digest(op.unwrap_or_default(), new)), before: None, after }
            }
        }
    });
    let moves = moves.iter().enumerate().map(|(rank, (id, from))| PositionChange {
        prefix: state.prefix(*id),
        before: Some(*from),
        after: Some(first_sn + (linked.len() + rank) as u64),
    });
    deletes.chain(appends).chain(moves).collect()
}
