//! What is remembered of a block, and of an execution.

use super::votes::Tally;
use crate::{BlockMeta, Certificate};
use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{BlockEnv, ExecId, Outcome, Priority, Ticket};

/// A block above the committed height.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) meta: BlockMeta,
    pub(super) env: BlockEnv,
    pub(super) payload: B256,
    /// Known as soon as the parent's is.
    pub(super) exec: Option<ExecId>,
    pub(super) order_voted: bool,
    /// Ordered or certified, it or a descendant.
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

/// How far the engine is with an execution.
#[derive(Clone, Debug, Default)]
pub(super) enum Phase {
    /// Not asked for, or to be asked for again.
    #[default]
    Idle,
    /// Failed for the moment: asked for again when the timer rings.
    Later,
    Submitted,
    Rooted(Outcome),
    /// It can never be executed.
    Invalid,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Staging {
    #[default]
    No,
    /// Failed for the moment.
    Later,
    Asked(Ticket),
    Done,
}

/// An execution. Several blocks may share it.
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
    /// The result, once it is committed to.
    pub(super) const fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Rooted(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Whether the engine has it.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Submitted | Phase::Rooted(_))
    }
}
