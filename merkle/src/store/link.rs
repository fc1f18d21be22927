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

    /// Cuts the way. Waits for reads that have begun, which hold the log.
    pub(crate) fn cut(&self) {
        *self.0.write() = None;
    }

    /// Reads the entries of keys into the cache; `None` once the store is closed.
    pub(super) fn read<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Option<Result<(), Error>> {
        // Declared first: the log is let go before the way is free.
        let link = self.0.read();
        let (plan, shared) = self::plan(link.as_ref()?, keys)?;
        Some(plan.and_then(|ahead| ahead.map_or(Ok(()), |ahead| ahead.read(&*shared.log))))
    }
}

/// Reads to make ahead, if there are any, and the store's parts that they need.
type Planned = (Result<Option<Ahead>, Error>, Arc<Shared>);

/// Finds out where the entries of keys are, under the store's lock.
fn plan<'k>(core: &RwLock<Core>, keys: impl Iterator<Item = &'k [u8]>) -> Option<Planned> {
    // A block that waits to be applied comes first.
    let core = core.read();
    let State::Paged(paged) = &core.state else { return None };
    let (shared, hash) = (Arc::clone(&core.shared), core.params.hash);
    let plan = paged.plan_ahead(&*shared.log, keys.map(|key| prefix(&hash.key(key))));
    Some((plan, shared))
}
