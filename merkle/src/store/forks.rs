//! Blocks that are not committed yet, and perhaps never will be.
//!
//! ```text
//!  prepare_on(parent) ──► Prepared ──hold──► block ──stage──► block in the log ──promote──► tip
//!                                              │                  │                          │
//!                                           discard            discard                     rewind
//! ```

use std::sync::{Arc, PoisonError};

use phalanx_merkle_proof::Hash;

use crate::{commit::Overlay, types::BlockId};

/// A block on top of the tip.
#[derive(Debug)]
pub(crate) struct ForkState {
    pub(crate) overlay: Arc<Overlay>,
    pub(crate) parent_id: u64,
    pub(crate) height: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) staged: bool,
}

impl ForkState {
    /// The code with this hash, if the block brings it.
    pub(crate) fn code(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        let effect = self.overlay.own()?.effect.lock().unwrap_or_else(PoisonError::into_inner);
        let codes = &effect.as_ref()?.delta.codes;
        codes.iter().find(|(found, _)| found == hash).map(|(_, code)| Arc::clone(code))
    }
}

/// What is known of a block that is held beside the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The block.
    pub block: BlockId,
    /// The block below it.
    pub parent: BlockId,
    /// Its height.
    pub height: u64,
    /// The root after it.
    pub root: Hash,
    /// What was attached to it.
    pub payload: Vec<u8>,
    /// Whether it is in the log.
    pub staged: bool,
}
