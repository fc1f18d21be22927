//! A fork as the store keeps it, and as a caller sees it.

use std::sync::{Arc, PoisonError};

use phalanx_merkle_proof::Hash;

use crate::{commit::Overlay, types::BlockId};

/// State of a fork.
#[derive(Debug)]
pub(crate) struct ForkState {
    pub(crate) overlay: Arc<Overlay>,
    pub(crate) parent_id: u64,
    pub(crate) height: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) staged: bool,
}

impl ForkState {
    /// Code with this hash, if the block has it.
    pub(crate) fn code(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        let unapplied = self.overlay.own()?.unapplied.lock().unwrap_or_else(PoisonError::into_inner);
        let codes = &unapplied.as_ref()?.effect.delta.codes;
        codes.iter().find(|(found, _)| found == hash).map(|(_, code)| Arc::clone(code))
    }
}

/// Description of a fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Id of the block.
    pub block: BlockId,
    /// Id of its parent.
    pub parent: BlockId,
    /// Height of the block.
    pub height: u64,
    /// Root after the block.
    pub root: Hash,
    /// Payload attached to the block.
    pub payload: Vec<u8>,
    /// True if the block is in the log.
    pub staged: bool,
}
