use std::sync::Arc;

use parking_lot::RwLock;

use crate::{Reader, Store, core::Core, reader::At};

/// Reads a whole store while it goes on, on a thread of its own: [`Self::export`] is an online backup, [`Self::check`] a
/// scrubber. Blocks are prepared, applied, written and pruned meanwhile.
///
/// While there is one, dropping the store does not close its log.
#[derive(Clone, Debug)]
pub struct Background {
    pub(crate) core: Arc<RwLock<Core>>,
}

impl Background {
    pub(crate) fn read(&self) -> Reader<'_> {
        // Not fair towards a block that waits to be applied, but held for a twig at most.
        Reader::new(self.core.read_recursive(), At::Tip)
    }
}

impl Store {
    /// What reads the whole store on another thread.
    pub fn background(&self) -> Background {
        Background { core: Arc::clone(&self.core) }
    }
}
