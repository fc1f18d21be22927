//! Blocks, messages, certificates and log records of the protocol.

use alloy_primitives::{B256, keccak256};
use phalanx_engine_api::{BlockEnv, BlockId, Payload};
use phalanx_pipeline::BlockMeta;
use std::sync::Arc;

/// A set of at most 128 validators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signers(u128);

impl Signers {
    /// Adds a validator. Returns true if it was not in the set.
    pub const fn add(&mut self, index: u32) -> bool {
        let bit = 1u128 << (index & 127);
        let new = self.0 & bit == 0;
        self.0 |= bit;
        new
    }

    /// Number of validators in the set.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Adds all validators of another set.
    pub const fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// A proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Hash of all other fields.
    pub id: BlockId,
    /// View of the proposal.
    pub view: u64,
    /// Parent of the block.
    pub parent: BlockId,
    /// View of the parent.
    pub parent_view: u64,
    /// Index of the proposer.
    pub author: u32,
    /// Environment of the block; the first proposer's, if it is proposed again.
    pub env: BlockEnv,
    /// Transactions of the block.
    pub payload: Arc<Payload>,
}

impl Block {
    /// Creates a block and computes its name.
    #[must_use]
    pub fn new(
        view: u64,
        (parent, parent_view): (BlockId, u64),
        author: u32,
        env: BlockEnv,
        payload: Arc<Payload>,
    ) -> Self {
        let mut bytes = Vec::with_capacity(160);
        bytes.extend_from_slice(b"phalanx-sim-block");
        for number in [view, parent_view, u64::from(author), env.height, env.timestamp_ms] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(parent.0.as_slice());
        bytes.extend_from_slice(env.prevrandao.as_slice());
        bytes.extend_from_slice(payload.digest().as_slice());
        Self { id: BlockId(keccak256(bytes)), view, parent, parent_view, author, env, payload }
    }

    /// Place of the block in the chain.
    #[must_use]
    pub const fn meta(&self) -> BlockMeta {
        BlockMeta { id: self.id, parent: self.parent, height: self.env.height }
    }
}

/// Statement of a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertKind {
    /// Votes for the block.
    Notarise,
    /// Nullifies of the view.
    Nullify,
    /// Order votes for the block.
    Order,
}

/// A certificate. Only collected votes make one: the simulation has no other constructor, so it cannot be forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cert {
    /// Statement that the signers make.
    pub kind: CertKind,
    /// View of the statement.
    pub view: u64,
    /// Block of the statement; zero for [`CertKind::Nullify`].
    pub id: BlockId,
    /// Validators that signed.
    pub signers: Signers,
}

/// Messages of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Msg {
    /// A block, from its author or relayed.
    Proposal(Arc<Block>),
    /// Vote of the first round.
    Vote(u64, BlockId),
    /// Vote of the second round.
    OrderVote(u64, BlockId),
    /// Nullify of a view.
    Nullify(u64),
    /// A certificate, relayed to validators that may have missed it.
    Cert(Cert),
    /// Requests a block.
    WantBlock(BlockId),
}

/// Log record of a validator, written before the message that it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Vote for the block in its view. The record holds the whole block: if all validators lose power at once, a block
    /// with a quorum of votes must survive. Otherwise it could be ordered and never executed.
    Voted(Arc<Block>),
    /// Order vote for the block.
    OrderVoted(u64, BlockId),
    /// Nullify of the view.
    Nullified(u64),
    /// Proposal in the view.
    Proposed(u64, B256),
}
