//! The three-round protocol with this simulator's blocks: an environment and a payload.

use alloy_primitives::{B256, keccak256};
use phalanx_bft::rounds::{self, Content, Place};
pub use phalanx_bft::rounds::{Cert, CertKind, Settings};
use phalanx_engine_api::{BlockEnv, BlockId, Payload};
use phalanx_pipeline::BlockMeta;
use std::sync::Arc;

/// Content of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Environment of the block; the first proposer's, if it is proposed again.
    pub env: BlockEnv,
    /// Transactions of the block.
    pub payload: Arc<Payload>,
}

impl Content for Filled {
    fn name(&self, place: &Place) -> B256 {
        let mut bytes = Vec::with_capacity(160);
        bytes.extend_from_slice(b"phalanx-sim-block");
        let Place { view, parent, parent_view, author, height } = *place;
        for number in [view, parent_view, u64::from(author.0), height, self.env.timestamp_ms] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(parent.as_slice());
        bytes.extend_from_slice(self.env.prevrandao.as_slice());
        bytes.extend_from_slice(self.payload.digest().as_slice());
        keccak256(bytes)
    }
}

/// A block.
pub type Block = rounds::Block<Filled>;
/// Message of a validator.
pub type Msg = rounds::Note<Filled>;
/// Record that a validator keeps.
pub type Record = rounds::Kept<Filled>;
/// A block that a leader has to make.
pub type Due = rounds::Due<Filled>;
/// Effect that the protocol asks for.
pub type Out = rounds::Act<Filled>;
/// A validator's protocol.
pub type Replica = rounds::Replica<Filled>;

/// Names of a block in the pipeline.
pub(crate) trait Named {
    fn name(&self) -> BlockId;
    fn meta(&self) -> BlockMeta;
}

impl Named for Block {
    fn name(&self) -> BlockId {
        BlockId(self.id)
    }

    fn meta(&self) -> BlockMeta {
        BlockMeta { id: self.name(), parent: BlockId(self.place.parent), height: self.place.height }
    }
}
