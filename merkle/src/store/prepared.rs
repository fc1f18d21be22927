//! A block between its root and its application.

use std::sync::Arc;

use phalanx_merkle_proof::{Hash, Shape};

use crate::{
    commit::{Effect, Overlay},
    log::Shared,
    types::{BlockId, Error, MAX_PAYLOAD_LEN},
};

/// Block whose root is computed and that is not applied: the store has not changed.
///
/// Belongs to the parent that it was prepared on; [`Store::apply`](crate::Store::apply) and
/// [`Store::add_fork`](crate::Store::add_fork) refuse it on another.
#[derive(Debug)]
#[must_use = "a prepared block changes nothing until it is applied"]
pub struct Prepared {
    pub(crate) shared: Arc<Shared>,
    pub(crate) parent_id: u64,
    /// Uncommitted blocks below it, to which the effect's ids refer besides the state.
    pub(crate) base: Option<Arc<Overlay>>,
    pub(crate) effect: Effect,
    pub(crate) payload: Vec<u8>,
}

impl Prepared {
    /// Block that it was prepared on.
    pub const fn parent(&self) -> BlockId {
        BlockId(self.parent_id)
    }

    /// Root after this block.
    pub const fn root(&self) -> Hash {
        self.effect.tree.root
    }

    /// Shape of the log under the root.
    pub const fn shape(&self) -> &Shape {
        &self.effect.tree.shape
    }

    /// Height of the block.
    pub const fn height(&self) -> u64 {
        self.effect.height
    }

    /// Number of keys with a new value or a new next key.
    pub const fn puts(&self) -> usize {
        self.effect.linked.len()
    }

    /// Number of deleted keys.
    pub const fn deletes(&self) -> usize {
        self.effect.linked.deletes.len()
    }

    /// Number of old entries that compaction moves.
    pub const fn moves(&self) -> usize {
        self.effect.moves.len()
    }

    /// Number of parts in which [`Self::changes_of`] hands out the changes.
    pub const fn parts(&self) -> usize {
        self.effect.records.len()
    }

    /// Hands the keys of a part whose values the block changes to `visit`, with the new values; `None` for deleted keys. Each key is
    /// in one part. Parts can be read on several threads.
    pub fn changes_of(&self, part: usize, visit: impl FnMut(&[u8], Option<&[u8]>)) {
        self.effect.changes_of(part, visit);
    }

    /// Bytes of log that the block's entries take.
    pub fn log_bytes(&self) -> usize {
        self.effect.records.iter().map(|records| records.bytes.len()).sum()
    }

    /// Attaches a payload, which is stored with the block and returned by [`Store::payload`](crate::Store::payload).
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
