//! Prepares a block on whichever state there is: resident or paged, with or without an overlay.

use std::sync::Arc;

use phalanx_merkle_proof::HashFn;

use super::{effect::Effect, layered::Overlaid, layers::Overlay, prepare::compute, steps::position_changes};
use crate::{
    log::Log,
    state::{Reads, State, Wait},
    tree::{Patches, TreeView},
    types::{Delta, Error},
};

impl State {
    /// Prepares a delta on top of this state, and of an overlay if there is one.
    ///
    /// # Errors
    /// [`Error::StaleLocator`], [`Error::Unchanged`], [`Error::TooLong`]; for a paged state also errors of reading the
    /// log.
    pub(crate) fn compute<'t, P: Patches<'t>>(
        &self,
        log: &dyn Log,
        overlay: Option<&Overlay>,
        tree: TreeView<'t, P>,
        hash: HashFn,
        delta: Delta,
        height: u64,
    ) -> Result<Effect, Error> {
        let keeps = log.keeps_entries();
        match (self, overlay) {
            (Self::Resident(state), None) => compute(state, tree, hash, delta, height, keeps),
            (Self::Resident(state), Some(overlay)) => {
                compute(&Overlaid { state, overlay }, tree, hash, delta, height, keeps)
            }
            (Self::Paged(paged), overlay) => {
                let state = &paged.session(tree.base(), log, Arc::default(), Reads::Now(Wait::Stealing));
                let (effect, steps) = match overlay {
                    None => {
                        let effect = compute(state, tree, hash, delta, height, keeps)?;
                        let steps = position_changes(state, &effect);
                        (effect, steps)
                    }
                    Some(overlay) => {
                        let over = Overlaid { state, overlay };
                        let effect = compute(&over, tree, hash, delta, height, keeps)?;
                        let steps = position_changes(&over, &effect);
                        (effect, steps)
                    }
                };
                Ok(Effect { steps, arena: Some(Arc::clone(state.arena())), ..effect })
            }
        }
    }
}
