//! A block's state that stays readable while the chain moves on.

use std::sync::{Arc, PoisonError};

use parking_lot::RwLock;

use super::reader::Reader;
use crate::{
    commit::{Core, Overlay},
    types::{BlockId, Error},
};

/// Snapshot of the state after one block, readable from any thread while later blocks are applied, as many as the store
/// can rewind.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) core: Arc<RwLock<Core>>,
    pub(crate) id: u64,
    /// Present if the block was a fork when the snapshot was made.
    pub(crate) overlay: Option<Arc<Overlay>>,
}

impl Snapshot {
    /// Id of the block.
    pub const fn block(&self) -> BlockId {
        BlockId(self.id)
    }

    /// Lowest height whose committed state can be read now; `None` before the first block.
    pub fn oldest_height(&self) -> Option<u64> {
        let core = self.core.read_recursive();
        core.height().map(|tip| tip.saturating_sub(core.history.len() as u64))
    }

    /// Reads the state.
    ///
    /// # Errors
    /// [`Error::Gone`] if the block was discarded or rewound, or is too far behind the tip.
    pub fn read(&self) -> Result<Reader<'_>, Error> {
        Reader::new(&self.core, self.id, self.overlay.as_deref())
    }

    /// Contract code with this hash, if a committed block put it, or one between it and this block. Reads the log: cache
    /// what is used often.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports.
    pub fn code(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, Error> {
        let core = self.core.read_recursive();
        if let Some((_, code)) = core.fresh_codes.get(hash) {
            return Ok(Some(Arc::clone(code)));
        }
        for layer in self.overlay.iter().flat_map(|overlay| overlay.layers()) {
            let unapplied = layer.unapplied.lock().unwrap_or_else(PoisonError::into_inner);
            let codes = unapplied.as_ref().map_or(&[][..], |unapplied| &unapplied.effect.delta.codes);
            if let Some((_, code)) = codes.iter().find(|(found, _)| found == hash) {
                return Ok(Some(Arc::clone(code)));
            }
        }
        let shared = Arc::clone(&core.shared);
        drop(core);
        shared.check()?;
        shared.log.code(hash)
    }
}
