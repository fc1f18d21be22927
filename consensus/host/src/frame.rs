//! Frames between two hosts: the protocol's messages, state votes, catch-up, and clients' transactions.

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{BufMut, Decodable, Encodable, Error, RlpDecodable, RlpEncodable};
use phalanx_bft::{Batch, Claim, Domain, Lean, Message, Reach, Signed, Slot, Statement};

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<M> {
    /// A message of the protocol.
    Protocol(M),
    /// A replica's vote for the result of a block.
    StateVote(Signed<StateVote>),
    /// State votes that certify a block, for a replica that is behind.
    Certificate(Vec<Signed<StateVote>>),
    /// Asks for decided blocks.
    WantBlocks(WantBlocks),
    /// Answers [`Frame::WantBlocks`].
    Blocks(Blocks),
    /// A client's transaction, forwarded to the leader.
    Request(Bytes),
    /// A replica without its log asks how far the votes of others reach. The number is that of its start.
    WantReach(u64),
    /// Answers [`Frame::WantReach`].
    Reached(Reached),
    /// Answers [`Frame::WantBlocks`]: blocks up to this slot are not retained.
    Pruned(Slot),
}

/// Reach of a replica's votes, in answer to another one's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Reached {
    /// Number of the question.
    pub start: u64,
    /// The answer.
    pub reach: Reach,
}

/// Statement of a state vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct StateVote {
    /// Slot of the block.
    pub slot: Slot,
    /// Name of the block.
    pub block: B256,
    /// Digest of the outcome.
    pub digest: B256,
    /// Zero for a final vote, else one more than the view that an early vote leans on.
    lean: u64,
}

impl StateVote {
    /// A vote that leans on `lean`.
    #[must_use]
    pub const fn new(slot: Slot, block: B256, digest: B256, lean: Lean) -> Self {
        let lean = match lean {
            Lean::Final => 0,
            Lean::Early(view) => view.saturating_add(1),
        };
        Self { slot, block, digest, lean }
    }

    /// Basis of the vote.
    #[must_use]
    pub const fn lean(&self) -> Lean {
        match self.lean {
            0 => Lean::Final,
            lean => Lean::Early(lean - 1),
        }
    }
}

impl Statement for StateVote {
    const KIND: u8 = 4;
}

/// Request for the decided blocks of a range of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct WantBlocks {
    /// First slot.
    pub from: Slot,
    /// Last slot, a checkpoint.
    pub to: Slot,
}

/// Decided blocks, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Blocks {
    /// Slot of the first block.
    pub from: Slot,
    /// A batch per block; empty for a null filler.
    pub batches: Vec<Filled>,
    /// Outcome of the last block, if it is the checkpoint: what its digest was computed from.
    pub outcome: Bytes,
}

/// A batch, or the null filler: a list of one or no element.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Filled {
    batch: Vec<Batch>,
}

impl Filled {
    /// Wraps the content of a slot.
    #[must_use]
    pub fn new(batch: Option<Batch>) -> Self {
        Self { batch: batch.into_iter().collect() }
    }

    /// The content; `None` if there is more than one batch.
    #[must_use]
    pub fn content(&self) -> Option<Option<&Batch>> {
        (self.batch.len() <= 1).then(|| self.batch.first())
    }
}

impl<M: Message> Encodable for Frame<M> {
    fn encode(&self, out: &mut dyn BufMut) {
        let (kind, body): (u8, &dyn Encodable) = match self {
            Self::Protocol(message) => (Self::PROTOCOL, message),
            Self::StateVote(vote) => (2, vote),
            Self::Certificate(votes) => (3, votes),
            Self::WantBlocks(want) => (4, want),
            Self::Blocks(blocks) => (5, blocks),
            Self::Request(tx) => (6, tx),
            Self::WantReach(start) => (7, start),
            Self::Reached(reached) => (8, reached),
            Self::Pruned(slot) => (9, slot),
        };
        out.put_u8(kind);
        body.encode(out);
    }
}

impl<M: Message> Decodable for Frame<M> {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (kind, rest) = bytes.split_first().ok_or(Error::InputTooShort)?;
        *bytes = rest;
        Ok(match kind {
            kind if *kind == Self::PROTOCOL => Self::Protocol(Decodable::decode(bytes)?),
            2 => Self::StateVote(Decodable::decode(bytes)?),
            3 => Self::Certificate(Decodable::decode(bytes)?),
            4 => Self::WantBlocks(Decodable::decode(bytes)?),
            5 => Self::Blocks(Decodable::decode(bytes)?),
            6 => Self::Request(Decodable::decode(bytes)?),
            7 => Self::WantReach(Decodable::decode(bytes)?),
            8 => Self::Reached(Decodable::decode(bytes)?),
            9 => Self::Pruned(Decodable::decode(bytes)?),
            _ => return Err(Error::Custom("unknown kind of frame")),
        })
    }
}

impl<M: Message> Frame<M> {
    /// First byte of a message of the protocol.
    pub const PROTOCOL: u8 = 1;

    /// Appends every signature in the frame.
    pub fn claims(&self, domain: Domain, claims: &mut Vec<Claim>) {
        match self {
            Self::Protocol(message) => message.claims(domain, claims),
            Self::StateVote(vote) => claims.push(vote.claim(domain)),
            Self::Certificate(votes) => claims.extend(votes.iter().map(|vote| vote.claim(domain))),
            _ => {}
        }
    }
}
