//! The committed state, in memory or on disk.

use std::sync::Arc;

use phalanx_merkle_proof::HashFn;

use crate::{
    Delta, Error,
    keyed::Keyed,
    log::Log,
    overlay::{Over, Overlay},
    paged::{Paged, Wait, steps_of},
    prepare::{Effect, compute},
    resident::Resident,
    tree::{Patch, TreeView},
};

/// The committed state.
#[derive(Debug)]
pub(crate) enum State {
    Resident(Resident),
    Paged(Paged),
}

impl State {
    /// Number of keys.
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Resident(state) => state.len(),
            Self::Paged(state) => state.len(),
        }
    }

    /// What speculative blocks find keys by.
    pub(crate) const fn keyed(&self) -> Keyed {
        match self {
            Self::Resident(state) => state.keyed(),
            Self::Paged(state) => state.keyed(),
        }
    }

    /// Hashes a delta on top of this state, and of an overlay on top of it.
    ///
    /// # Errors
    /// [`Error::StaleLocator`], [`Error::Unchanged`], [`Error::TooLong`], and, where the state is on disk, what reading the
    /// log reports.
    pub(crate) fn compute<P: Patch>(
        &self,
        log: &dyn Log,
        overlay: Option<&Overlay>,
        tree: TreeView<'_, P>,
        hash: HashFn,
        delta: Delta,
        height: u64,
    ) -> Result<Effect, Error> {
        let keeps = log.keeps_entries();
        match (self, overlay) {
            (Self::Resident(state), None) => compute(state, tree, hash, delta, height, keeps),
            (Self::Resident(state), Some(overlay)) => {
                compute(&Over { state, overlay }, tree, hash, delta, height, keeps)
            }
            (Self::Paged(paged), overlay) => {
                let state = &paged.session(log, Arc::default(), Wait::Working);
                let (effect, steps) = match overlay {
                    None => {
                        let effect = compute(state, tree, hash, delta, height, keeps)?;
                        let steps = steps_of(state, &effect);
                        (effect, steps)
                    }
                    Some(overlay) => {
                        let over = Over { state, overlay };
                        let effect = compute(&over, tree, hash, delta, height, keeps)?;
                        let steps = steps_of(&over, &effect);
                        (effect, steps)
                    }
                };
                Ok(Effect { steps, arena: Some(Arc::clone(state.arena())), ..effect })
            }
        }
    }
}
