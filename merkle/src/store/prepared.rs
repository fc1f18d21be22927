use std::sync::Arc;

use phalanx_merkle_proof::{Hash, Shape};

use crate::{
    commit::{Effect, Overlay},
    log::Shared,
    types::{BlockId, Error, MAX_PAYLOAD_LEN},
};

/// A block that is hashed and not applied: its root is known, the store has not changed.
///
/// Belongs to the block it was prepared on; [`Store::apply`](crate::Store::apply) and [`Store::add_fork`](crate::Store::hold)
/// refuse it on another.
#[derive(Debug)]
#[must_use = "a prepared block changes nothing until it is applied"]
pub struct Prepared {
    pub(crate) shared: Arc<Shared>,
    pub(crate) parent_id: u64,
    /// The uncommitted blocks that it was prepared on: what the effect's ids refer to besides the state.
    pub(crate) ground: Option<Arc<Overlay>>,
    pub(crate) effect: Effect,
    pub(crate) payload: Vec<u8>,
}

impl Prepared {
    /// The block that it was prepared on.
    pub const fn parent(&self) -> BlockId {
        BlockId(self.parent_id)
    }

    /// The root after this block.
    pub const fn root(&self) -> Hash {
        self.effect.tree.root
    }

    /// What the root says of the log besides its content.
    pub const fn shape(&self) -> &Shape {
        &self.effect.tree.shape
    }

    /// The block's height.
    pub const fn height(&self) -> u64 {
        self.effect.height
    }

    /// How many keys get another value or another next key.
    pub const fn puts(&self) -> usize {
        self.effect.linked.len()
    }

    /// How many keys go.
    pub const fn deletes(&self) -> usize {
        self.effect.linked.deletes.len()
    }

    /// How many old entries move up.
    pub const fn moves(&self) -> usize {
        self.effect.moves.len()
    }

    /// Bytes of log that the block's entries take.
    pub fn log_bytes(&self) -> usize {
        self.effect.records.iter().map(|records| records.bytes.len()).sum()
    }

    /// Attaches bytes that are stored with the block and returned by [`Store::payload`](crate::Store::payload).
    ///
    /// # Errors
    /// [`Error::TooLong`] past 16 MiB.
    pub fn with_payload(mut self, payload: Vec<u8>) -> Result<Self, Error> {
        if payload.len() > MAX_PAYLOAD_LEN {
            return Err(Error::TooLong { what: "payload", len: payload.len(), max: MAX_PAYLOAD_LEN });
        }
        self.payload = payload;
        Ok(self)
    }
}
