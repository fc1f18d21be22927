//! Records of blocks, executions and votes.

use crate::{
    config::Committee,
    event::{BlockMeta, Certificate},
};
use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{BlockEnv, BlockId, ExecId, ExecOutcome, Priority, Ticket};
use std::collections::{BTreeMap, BTreeSet};

/// A block above the committed height.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) meta: BlockMeta,
    pub(super) env: BlockEnv,
    pub(super) payload: B256,
    /// Known as soon as the parent's execution is.
    pub(super) exec: Option<ExecId>,
    pub(super) order_voted: bool,
    /// True if the block or a descendant is ordered or certified.
    pub(super) decided: bool,
    pub(super) order_proof: Option<Bytes>,
    pub(super) voted: bool,
    pub(super) judged: bool,
    pub(super) tally: Tally,
    pub(super) certificate: Option<Certificate>,
}

impl Tracked {
    pub(super) const fn new(meta: BlockMeta, env: BlockEnv, payload: B256) -> Self {
        Self {
            meta,
            env,
            payload,
            exec: None,
            order_voted: false,
            decided: false,
            order_proof: None,
            voted: false,
            judged: false,
            tally: Tally::new(),
            certificate: None,
        }
    }
}

/// Progress of an execution in the engine.
#[derive(Clone, Debug, Default)]
pub(super) enum Phase {
    /// Not submitted, or to be submitted again.
    #[default]
    Idle,
    /// Failed temporarily: submitted again when the timer fires.
    Later,
    Submitted,
    Rooted(ExecOutcome),
    /// The execution can never succeed.
    Invalid,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Staging {
    #[default]
    No,
    /// Failed temporarily.
    Later,
    Asked(Ticket),
    Done,
}

/// An execution, which several blocks may share.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) phase: Phase,
    pub(super) ticket: Ticket,
    pub(super) priority: Priority,
    pub(super) staging: Staging,
}

impl Default for Work {
    fn default() -> Self {
        Self { phase: Phase::Idle, ticket: Ticket::default(), priority: Priority::Build, staging: Staging::No }
    }
}

impl Work {
    /// Result of the execution, once its root is known.
    pub(super) const fn outcome(&self) -> Option<&ExecOutcome> {
        match &self.phase {
            Phase::Rooted(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// True if the engine holds the execution.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Submitted | Phase::Rooted(_))
    }
}

/// Votes for one block. Only a validator's first vote counts.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    by_digest: BTreeMap<B256, (u64, BTreeMap<u32, Bytes>)>,
    voters: BTreeSet<u32>,
}

impl Tally {
    pub(super) const fn new() -> Self {
        Self { by_digest: BTreeMap::new(), voters: BTreeSet::new() }
    }

    /// Counts a vote. Returns the certificate when a quorum is reached.
    pub(super) fn add(
        &mut self,
        committee: &Committee,
        from: u32,
        digest: B256,
        signature: Bytes,
    ) -> Option<Certificate> {
        let weight = committee.weight(from);
        if weight == 0 || !self.voters.insert(from) {
            return None;
        }
        let (sum, votes) = self.by_digest.entry(digest).or_default();
        votes.insert(from, signature);
        *sum += weight;
        (*sum >= committee.quorum()).then(|| Certificate::encode(digest, votes.iter()))
    }
}

/// A vote for a block not seen yet.
#[derive(Clone, Debug)]
pub(super) struct EarlyVote {
    pub(super) id: BlockId,
    pub(super) digest: B256,
    pub(super) signature: Bytes,
}
