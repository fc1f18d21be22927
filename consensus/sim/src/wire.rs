//! Messages between nodes.

use crate::{
    bft::{Block, Cert, Msg},
    machine::Batch,
};
use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{BlockId, Payload};
use phalanx_pipeline::Downstream;
use std::sync::Arc;

/// Size of a vote, in bytes: names, signature, framing. Only bandwidth depends on it.
const VOTE_BYTES: u64 = 200;
/// Size of a transaction, in bytes, as in the paper's load.
const TX_BYTES: u64 = 300;

/// A certified state.
#[derive(Clone, Debug)]
pub(crate) struct Certified {
    pub(crate) id: BlockId,
    pub(crate) height: u64,
    pub(crate) digest: B256,
    pub(crate) bytes: Bytes,
}

#[derive(Clone, Debug)]
pub(crate) enum Wire {
    Bft(Msg),
    StateVote {
        height: u64,
        id: BlockId,
        digest: B256,
    },
    Certificate(Certified),
    Batch(Batch, Arc<[Bytes]>),
    /// Requests ordered blocks and certificates from this height on.
    WantChain(u64),
    Chain {
        blocks: Vec<Arc<Block>>,
        cert: Option<Cert>,
        certificates: Vec<Certified>,
    },
    Down(Downstream, Arc<Payload>),
}

impl Wire {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Bft(Msg::Proposal(block)) => VOTE_BYTES + block.content.payload.bytes(),
            Self::Batch(batch, _) => VOTE_BYTES + u64::from(batch.txs) * TX_BYTES,
            Self::Chain { blocks, .. } => {
                VOTE_BYTES + blocks.iter().map(|b| VOTE_BYTES + b.content.payload.bytes()).sum::<u64>()
            }
            _ => VOTE_BYTES,
        }
    }

    /// A number that differs between different messages, for the trace.
    pub(crate) fn label(&self) -> u64 {
        let first = |hash: &B256| hash.as_slice().iter().take(8).fold(0, |n, byte| n << 8 | u64::from(*byte));
        match self {
            Self::Bft(Msg::Proposal(block)) => 1 ^ first(&block.id),
            Self::Bft(Msg::Vote(view, id)) => 2 ^ view ^ first(id),
            Self::Bft(Msg::OrderVote(view, id)) => 3 ^ view ^ first(id),
            Self::Bft(Msg::Nullify(view)) => 4 ^ (view << 8),
            Self::Bft(Msg::Cert(cert)) => 5 ^ (cert.view << 8) ^ first(&cert.id),
            Self::Bft(Msg::WantBlock(id)) => 6 ^ first(id),
            Self::StateVote { digest, .. } => 7 ^ first(digest),
            Self::Certificate(certified) => 8 ^ first(&certified.digest),
            Self::Batch(batch, _) => 9 ^ (batch.number << 16) ^ (u64::from(batch.author) << 8),
            Self::WantChain(from) => 10 ^ (from << 8),
            Self::Chain { blocks, .. } => 11 ^ blocks.last().map_or(0, |block| first(&block.id)),
            Self::Down(Downstream::Proposed { meta, .. }, _) => 12 ^ first(&meta.id.0),
            Self::Down(Downstream::Committed { meta, .. }, _) => 13 ^ first(&meta.id.0),
        }
    }
}
