//! The way from threads that read ahead to the state.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::{
    commit::Core,
    log::Shared,
    state::{Ahead, State},
    types::{Error, prefix},
};

/// Way from prefetchers to the state. A store that is closed cuts it, so that it has the state for itself.
#[derive(Debug, Default)]
pub(crate) struct Link(RwLock<Option<Arc<RwLock<Core>>>>);

impl Link {
    /// Makes a way.
    pub(super) fn tie(&self, core: &Arc<RwLock<Core>>) {
        *self.0.write() = Some(Arc::clone(core));
    }

    /// Cuts the way. Waits for lookups in memory, not for the disk.
    pub(crate) fn cut(&self) {
        *self.0.write() = None;
    }

    /// Finds out where the entries of keys are; `None` once the store is closed.
    pub(super) fn plan<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Option<Result<(Option<Ahead>, Arc<Shared>), Error>> {
        let link = self.0.read();
        // A block that waits to be applied comes first.
        let core = link.as_ref()?.read();
        let State::Paged(paged) = &core.state else { return None };
        let (shared, hash) = (Arc::clone(&core.shared), core.params.hash);
        let plan = paged.plan_ahead(&*shared.log, keys.map(|key| prefix(&hash.key(key))));
        Some(plan.map(|plan| (plan, shared)))
    }
}
