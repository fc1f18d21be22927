use std::sync::Arc;

use parking_lot::RwLock;

use super::reader::{At, Reader};
use crate::{
    commit::{Core, Overlay},
    types::{BlockId, Error},
};

/// The state after one block, wherever the chain goes: stays readable from any thread while later blocks are applied, for
/// as many of them as the store can undo.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) core: Arc<RwLock<Core>>,
    pub(crate) id: u64,
    /// Of a block that was not committed when the view was made.
    pub(crate) overlay: Option<Arc<Overlay>>,
}

impl Snapshot {
    /// The block.
    pub const fn block(&self) -> BlockId {
        BlockId(self.id)
    }

    /// Reads the state.
    ///
    /// # Errors
    /// [`Error::Gone`] if the block was discarded, taken back, or lies too far behind the tip.
    pub fn read(&self) -> Result<Reader<'_>, Error> {
        let core = self.core.read_recursive();
        let tip = core.tip_id();
        let at = if tip == self.id {
            At::Tip
        } else if let Some(depth) = core.depth_of(self.id) {
            At::Past(depth)
        } else {
            let overlay = self.overlay.as_deref().filter(|overlay| overlay.stands_on(tip));
            At::ForkState(overlay.ok_or(Error::Gone { block: BlockId(self.id) })?)
        };
        Ok(Reader::new(core, at))
    }
}
