//! What goes in and what comes out.

use alloy_primitives::{B256, Bytes};
use core::ops::RangeInclusive;
use phalanx_engine_api::{
    BlockEnv, BlockId, Candidate, CommitMeta, EngineStatus, ExecId, FatalCause, Outcome, Payload, Priority, Ticket,
};
use std::sync::Arc;

/// A block's place in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockMeta {
    /// Its name.
    pub id: BlockId,
    /// Its parent's name.
    pub parent: BlockId,
    /// One more than the parent's.
    pub height: u64,
}

/// A payload, or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadRef {
    /// It came along.
    Here(Arc<Payload>),
    /// It comes apart, by [`ConsensusEvent::Payload`].
    Named(B256),
}

impl PayloadRef {
    /// Its name.
    #[must_use]
    pub fn digest(&self) -> B256 {
        match self {
            Self::Here(payload) => payload.digest(),
            Self::Named(digest) => *digest,
        }
    }
}

/// What consensus tells. Every event may come again, late, or not at all where another implies it.
///
/// Authenticity is the sender's business: proofs, votes and certificates have been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsensusEvent {
    /// A block was proposed. It may never be ordered.
    Proposed {
        /// Its place.
        meta: BlockMeta,
        /// Its environment.
        env: BlockEnv,
        /// Its transactions.
        payload: PayloadRef,
    },
    /// A payload has come.
    Payload(Arc<Payload>),
    /// Our order vote for the block is in the write-ahead log and on its way.
    OrderVoteDurable(BlockId),
    /// The block and all its ancestors are ordered.
    Ordered {
        /// The newest of them.
        tip: BlockId,
        /// Its height.
        height: u64,
        /// Proof of it.
        proof: Bytes,
    },
    /// A validator's vote for the result of a block. Our own comes this way, too.
    StateVote {
        /// Its index in the committee.
        from: u32,
        /// The block.
        id: BlockId,
        /// [`Outcome::digest`].
        digest: B256,
        /// Its signature.
        signature: Bytes,
    },
    /// A certificate made elsewhere. It implies the order.
    StateCertificate {
        /// The block.
        id: BlockId,
        /// Its height.
        height: u64,
        /// The certified result.
        digest: B256,
        /// The certificate.
        bytes: Bytes,
    },
    /// Consensus proves that the block can never be ordered. A timeout is no proof.
    Abandoned(BlockId),
    /// Nothing at or below the height will ever be undone.
    Finalised(u64),
    /// State is about to be replaced: come to rest.
    SyncStart,
    /// State was replaced.
    SyncDone(Box<EngineStatus>),
    /// The node shuts down: come to rest.
    Stop,
}

/// A verdict on a block. Silence means: not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can be executed.
    Valid,
    /// It never can.
    Invalid,
}

/// A quorum of state votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certified result.
    pub digest: B256,
    /// In the chain's encoding, or [`Certificate::encode`]d votes.
    pub bytes: Bytes,
}

impl Certificate {
    /// Votes as index, length and signature, by index.
    #[must_use]
    pub fn encode<'a>(digest: B256, votes: impl IntoIterator<Item = (&'a u32, &'a Bytes)>) -> Self {
        let mut bytes = Vec::new();
        for (from, signature) in votes {
            bytes.extend_from_slice(&from.to_be_bytes());
            bytes.extend_from_slice(&(signature.len() as u32).to_be_bytes());
            bytes.extend_from_slice(signature);
        }
        Self { digest, bytes: bytes.into() }
    }
}

/// What a validator tells its fullnodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Downstream {
    /// A block they may execute already.
    Proposed {
        /// Its place.
        meta: BlockMeta,
        /// Its environment.
        env: BlockEnv,
        /// Name of its payload.
        payload: B256,
    },
    /// A block they may commit.
    Committed {
        /// Its place.
        meta: BlockMeta,
        /// Its environment.
        env: BlockEnv,
        /// Name of its payload.
        payload: B256,
        /// Its certificate, unless a descendant's covers it.
        certificate: Option<Certificate>,
    },
}

/// How far execution is behind, for consensus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backpressure {
    /// Heights ordered and not committed.
    pub behind: u64,
    /// Stop voting for new blocks.
    pub hold_votes: bool,
    /// Stop delivering ordered blocks.
    pub hold_blocks: bool,
}

/// All there is to say about the moment a node stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Why.
    pub cause: FatalCause,
    /// The block it is about, if one is.
    pub block: Option<BlockMeta>,
    /// Our result.
    pub outcome: Option<Outcome>,
    /// What contradicts it.
    pub certificate: Option<Certificate>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// [`phalanx_engine_api::Engine::submit`]
    Submit(Ticket, Candidate, Priority),
    /// [`phalanx_engine_api::Engine::stage`]
    Stage(Ticket, ExecId),
    /// [`phalanx_engine_api::Engine::commit`]
    Commit(Ticket, ExecId, CommitMeta),
    /// [`phalanx_engine_api::Engine::keep_only`]
    KeepOnly(Ticket, Vec<ExecId>),
    /// [`phalanx_engine_api::Engine::finalise`]
    Finalise(Ticket, u64),
    /// [`phalanx_engine_api::Engine::quiesce`]
    Quiesce(Ticket),
    /// [`phalanx_engine_api::Engine::resume`]
    Resume,
    /// Call [`crate::Pipeline::on_timer`] after so many µs.
    SetTimer(u64),
    /// Get a payload and hand it in.
    FetchPayload(B256),
    /// Hand in decided blocks: `Proposed` and `Ordered` for each of these heights that there is.
    FetchDecided(RangeInclusive<u64>),
    /// Sign this result, send it, and hand our own vote back in.
    StateVote {
        /// The block.
        meta: BlockMeta,
        /// [`Outcome::digest`].
        digest: B256,
    },
    /// A quorum vouches for this result.
    Certified(BlockMeta, Certificate),
    /// Whether the block can be executed.
    Verdict(BlockId, Verdict),
    /// Tell the fullnodes.
    Forward(Downstream),
    /// Committed, once per height, in order: consensus may forget it and answer clients.
    Ack {
        /// The block.
        meta: BlockMeta,
        /// Its result.
        outcome: Outcome,
    },
    /// These transactions belong to no branch any more.
    Return(Vec<Bytes>),
    /// How far execution is behind. Told when it changes what consensus should do.
    Pressure(Backpressure),
    /// No worker touches state any more.
    AtRest,
    /// The node must stop; nothing else follows. Whoever hears it keeps the incident: a node that is opened again knows
    /// nothing of it, and would vote.
    Halt(Box<Incident>),
}
