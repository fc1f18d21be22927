//! Inputs and outputs of the pipeline: events of consensus, effects, and the data they carry.

use alloy_primitives::{B256, Bytes};
use core::ops::RangeInclusive;
use phalanx_engine_api::{
    BlockEnv, BlockId, BlockResult, Candidate, CommitMeta, EngineStatus, ExecId, ExecOutcome, FatalCause, Payload,
    Priority, Ticket,
};
use std::sync::Arc;

/// Place of a block in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockMeta {
    /// Name of the block.
    pub id: BlockId,
    /// Name of the parent.
    pub parent: BlockId,
    /// Height of the block: one more than the parent's.
    pub height: u64,
}

/// A payload, or its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadRef {
    /// The payload came along.
    Here(Arc<Payload>),
    /// The payload follows as [`ConsensusEvent::Payload`].
    Named(B256),
}

impl PayloadRef {
    /// Digest of the payload.
    #[must_use]
    pub fn digest(&self) -> B256 {
        match self {
            Self::Here(payload) => payload.digest(),
            Self::Named(digest) => *digest,
        }
    }
}

/// An event of consensus. Events may be repeated or late, or be left out where another event implies them.
///
/// The caller verifies proofs, votes and certificates before it hands them in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsensusEvent {
    /// A block was proposed. The block may never be ordered.
    Proposed {
        /// Place of the block.
        meta: BlockMeta,
        /// Environment of the block.
        env: BlockEnv,
        /// Transactions of the block.
        payload: PayloadRef,
    },
    /// A payload has arrived.
    Payload(Arc<Payload>),
    /// The own order vote for the block is in the write-ahead log, ready to be sent.
    OrderVoteDurable(BlockId),
    /// The block and all its ancestors are ordered.
    Ordered {
        /// Name of the newest ordered block.
        tip: BlockId,
        /// Height of that block.
        height: u64,
        /// Proof of the order.
        proof: Bytes,
    },
    /// A validator's vote for the result of a block. The node's own vote arrives the same way.
    StateVote {
        /// Index of the validator in the committee.
        from: u32,
        /// The block.
        id: BlockId,
        /// [`ExecOutcome::digest`].
        digest: B256,
        /// Signature of the validator.
        signature: Bytes,
    },
    /// A certificate that was formed elsewhere. The certificate implies the order.
    StateCertificate {
        /// The block.
        id: BlockId,
        /// Height of the block.
        height: u64,
        /// The certified result.
        digest: B256,
        /// The certificate.
        bytes: Bytes,
    },
    /// Consensus proves that the block can never be ordered. A timeout is no proof.
    Abandoned(BlockId),
    /// No block at or below the height will ever be undone.
    Finalised(u64),
    /// The state is about to be replaced: the pipeline comes to rest.
    SyncStart,
    /// State was replaced.
    SyncDone(Box<EngineStatus>),
    /// The node shuts down: the pipeline comes to rest.
    Stop,
}

/// Verdict on a block. No verdict is given while the result is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The block can be executed.
    Valid,
    /// The block can never be executed.
    Invalid,
}

/// A quorum of state votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certified result.
    pub digest: B256,
    /// The chain's encoding, or votes in the encoding of [`Certificate::encode`].
    pub bytes: Bytes,
}

impl Certificate {
    /// Encodes votes in the order of their index, each as index, length and signature.
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

/// Message of a validator to its fullnodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Downstream {
    /// A block that fullnodes may execute already.
    Proposed {
        /// Place of the block.
        meta: BlockMeta,
        /// Environment of the block.
        env: BlockEnv,
        /// Digest of the payload.
        payload: B256,
    },
    /// A block that fullnodes may commit.
    Committed {
        /// Place of the block.
        meta: BlockMeta,
        /// Environment of the block.
        env: BlockEnv,
        /// Digest of the payload.
        payload: B256,
        /// Certificate of the block, unless a descendant's certificate covers it.
        certificate: Option<Certificate>,
    },
}

/// Lag of execution behind the order, with advice for consensus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backpressure {
    /// Number of heights that are ordered and not committed.
    pub behind: u64,
    /// True if consensus should stop voting for new blocks.
    pub hold_votes: bool,
    /// True if consensus should stop delivering ordered blocks.
    pub hold_blocks: bool,
}

/// Evidence of the moment at which a node stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Cause of the stop.
    pub cause: FatalCause,
    /// Block that the cause concerns, if any.
    pub block: Option<BlockMeta>,
    /// Result that this node computed.
    pub outcome: Option<ExecOutcome>,
    /// Certificate that contradicts the result.
    pub certificate: Option<Certificate>,
}

/// Action that the pipeline requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// [`phalanx_engine_api::ExecutionEngine::submit`]
    Submit(Ticket, Candidate, Priority),
    /// [`phalanx_engine_api::ExecutionEngine::stage`]
    Stage(Ticket, ExecId),
    /// [`phalanx_engine_api::ExecutionEngine::commit`]
    Commit(Ticket, ExecId, CommitMeta),
    /// [`phalanx_engine_api::ExecutionEngine::keep_only`]
    KeepOnly(Ticket, Vec<ExecId>),
    /// [`phalanx_engine_api::ExecutionEngine::finalise`]
    Finalise(Ticket, u64),
    /// [`phalanx_engine_api::ExecutionEngine::quiesce`]
    Quiesce(Ticket),
    /// [`phalanx_engine_api::ExecutionEngine::resume`]
    Resume,
    /// Call [`crate::Pipeline::on_timer`] after this time, in µs.
    SetTimer(u64),
    /// Fetch a payload and hand it in.
    FetchPayload(B256),
    /// Hand in decided blocks: `Proposed` and `Ordered` for each of these heights that exists.
    FetchDecided(RangeInclusive<u64>),
    /// Sign this result, send the vote, and hand the own vote back in.
    StateVote {
        /// The block.
        meta: BlockMeta,
        /// [`ExecOutcome::digest`].
        digest: B256,
        /// Result that the digest covers: a consensus with a log of its own keeps it before it lets the block be committed.
        result: BlockResult,
    },
    /// A quorum certifies this result.
    Certified(BlockMeta, Certificate),
    /// States whether the block can be executed.
    Verdict(BlockId, Verdict),
    /// Send the message to the fullnodes.
    Forward(Downstream),
    /// Committed, once per height, in order: consensus may release the block and answer clients.
    Ack {
        /// Committed block.
        meta: BlockMeta,
        /// Result of the block.
        outcome: ExecOutcome,
    },
    /// Transactions that belong to no branch any longer.
    Return(Vec<Bytes>),
    /// Lag of execution. Sent when the advice to consensus changes.
    Pressure(Backpressure),
    /// No worker touches the state any longer.
    AtRest,
    /// The node must stop; no effect follows. The receiver must store the incident: a node that reopens does not
    /// remember it and would vote.
    Halt(Box<Incident>),
}
