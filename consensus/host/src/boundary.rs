//! The boundary between two epochs: the last block of the earlier one, with the votes of its members and the change that it holds.
//!
//! Any holder of the earlier epoch's keys can check it alone: the members' quorum signs the block's name and result, the name covers the
//! content, and the content has a change that a quorum of them has signed.

use crate::{
    certified::{Anchor, Certified},
    chain::{decode_result, name},
    change::{Change, SignedChange},
    config::HostConfig,
};
use alloy_primitives::B256;
use alloy_rlp::{RlpDecodable, RlpEncodable};
use phalanx_bft::{Base, Batch, Slot};
use phalanx_engine_api::BlockId;
use phalanx_keys::Scheme;

/// The last block of an epoch, which begins the next one. [`Boundary::check`] says if it is one.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Boundary {
    /// The change that the block holds.
    pub change: Change,
    /// The block, with the votes of the epoch that it ends.
    pub block: Certified,
    /// Name of the parent.
    pub parent: B256,
    /// Content of the block.
    pub batch: Batch,
}

impl Boundary {
    /// Checks everything with the constants of the epoch that the block ends.
    #[must_use]
    pub fn check(&self, ended: &HostConfig, scheme: &dyn Scheme) -> Option<Anchor> {
        let Self { change, block, parent, batch } = self;
        let names = name(block.slot, batch.digest(), BlockId(*parent)).0 == block.block;
        let holds = SignedChange::first_in(batch, ended.quorums, ended.domain, scheme) == Some(*change);
        block.clone().check(ended, scheme).filter(|_| names && holds)
    }

    /// Slot of the block.
    #[must_use]
    pub const fn slot(&self) -> Slot {
        self.block.slot
    }

    /// The block as a checkpoint.
    pub(crate) fn base(&self) -> Option<Base> {
        let digest = B256::new(decode_result(&self.block.result)?.digest());
        Some(Base { slot: self.slot(), digest })
    }
}
