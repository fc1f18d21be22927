//! Blocks, messages, certificates, log records.

use alloy_primitives::{B256, keccak256};
use phalanx_engine_api::{BlockEnv, BlockId, Payload};
use phalanx_pipeline::BlockMeta;
use std::sync::Arc;

/// A set of validators. Simulations have at most 128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signers(u128);

impl Signers {
    /// Adds one; whether it is new.
    pub const fn add(&mut self, index: u32) -> bool {
        let bit = 1u128 << (index & 127);
        let new = self.0 & bit == 0;
        self.0 |= bit;
        new
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Adds all of another set.
    pub const fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// A proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Covers everything else.
    pub id: BlockId,
    /// The view it was proposed in.
    pub view: u64,
    /// Its parent.
    pub parent: BlockId,
    /// The parent's view.
    pub parent_view: u64,
    /// Who proposed it.
    pub author: u32,
    /// Its environment; the first proposer's, if it is proposed again.
    pub env: BlockEnv,
    /// Its transactions.
    pub payload: Arc<Payload>,
}

impl Block {
    /// Names a block.
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

    /// Its place in the chain.
    #[must_use]
    pub const fn meta(&self) -> BlockMeta {
        BlockMeta { id: self.id, parent: self.parent, height: self.env.height }
    }
}

/// What a quorum can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertKind {
    /// Voted for the block.
    Notarise,
    /// Gave the view up.
    Nullify,
    /// Order-voted for the block.
    Order,
}

/// A quorum's word. Only collected votes make one: the simulation has no other way, so it cannot be forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cert {
    /// What they say.
    pub kind: CertKind,
    /// Of which view.
    pub view: u64,
    /// Of which block; zero for [`CertKind::Nullify`].
    pub id: BlockId,
    /// Who.
    pub signers: Signers,
}

/// Messages of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Msg {
    /// A block, from its author or passed on.
    Proposal(Arc<Block>),
    /// First round's vote.
    Vote(u64, BlockId),
    /// Second round's.
    OrderVote(u64, BlockId),
    /// Giving up a view.
    Nullify(u64),
    /// A quorum's word, passed on to who may have missed it.
    Cert(Cert),
    /// Who has this block?
    WantBlock(BlockId),
}

/// What a validator must not forget. Written before the message that it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Voted for the block in its view. The whole block: if all validators lose power at once, what a quorum voted for must
    /// still be somewhere, or it can be ordered and never executed.
    Voted(Arc<Block>),
    /// Order-voted for it.
    OrderVoted(u64, BlockId),
    /// Gave the view up.
    Nullified(u64),
    /// Proposed in the view.
    Proposed(u64, B256),
}
