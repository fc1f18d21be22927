//! The state before the last blocks: the positions that keys had.

use std::{collections::HashMap, sync::OnceLock};

use super::{effect::Effect, resolve::Who};
use crate::{
    state::{Ground, Step},
    types::prefix,
};

/// What a block did to the positions of keys.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) all: Vec<Step>,
    /// Built when it is first asked for.
    index: OnceLock<Index>,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    /// What was before, by what is after.
    pub(super) after: HashMap<u64, Option<u64>>,
    /// The positions of keys that went, by the first bytes of their hashes.
    pub(super) gone: HashMap<u64, Vec<u64>>,
}

impl From<Vec<Step>> for Steps {
    fn from(all: Vec<Step>) -> Self {
        Self { all, index: OnceLock::new() }
    }
}

impl Steps {
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

/// How a block changes the positions of keys.
pub(crate) fn steps_of(state: &impl Ground, effect: &Effect) -> Vec<Step> {
    let Effect { linked, moves, first_sn, .. } = effect;
    let deletes = linked.deletes.iter().map(|id| Step {
        prefix: state.prefix(*id),
        before: Some(state.written(*id).sn),
        after: None,
    });
    let appends = (0..linked.len()).map(|rank| {
        let after = Some(first_sn + rank as u64);
        match linked.get(rank) {
            (_, Who::Known(id)) => Step { prefix: state.prefix(id), before: Some(state.written(id).sn), after },
            (op, Who::New(new)) => {
                Step { prefix: prefix(linked.digest(op.unwrap_or_default(), new)), before: None, after }
            }
        }
    });
    let moves = moves.iter().enumerate().map(|(rank, (id, from))| Step {
        prefix: state.prefix(*id),
        before: Some(*from),
        after: Some(first_sn + (linked.len() + rank) as u64),
    });
    deletes.chain(appends).chain(moves).collect()
}
