//! Constants of a run.

use crate::core::{Domain, Index, Micros, Quorums, Slot, View};

/// Constants of a PBFT instance, equal at all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Replicas and faults.
    pub quorums: Quorums,
    /// Separates signatures from those of other instances.
    pub domain: Domain,
    /// Slots between two checkpoints: Δ.
    pub interval: u64,
    /// Patience with a primary: T. It doubles with each view that brings no progress.
    pub timeout: Micros,
    /// Time between two repetitions of what others may have missed, while a replica waits for something. Sixteen times that
    /// otherwise.
    pub resend: Micros,
    /// Deliberate faults.
    #[cfg(feature = "mutations")]
    pub mutation: Option<Mutation>,
}

/// A rule that is broken on purpose, to show that the tests notice.
#[cfg(feature = "mutations")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Quorums of 2f+1 where n is not 3f+1.
    TwoFPlusOne,
    /// The view change ignores condition A1: other prepared batches do not veto a choice.
    NoA1,
    /// The view change ignores condition A2: f+1 replicas need not vouch that the primary proposed a batch.
    NoA2,
    /// A slot becomes null though a replica reports a prepared batch.
    NullTooSoon,
    /// Order votes leave before their record is durable.
    VoteBeforeDurable,
}

impl Config {
    /// A configuration with Δ = 128, T = 1 s and repetitions every 200 ms.
    #[must_use]
    pub const fn new(quorums: Quorums, domain: Domain) -> Self {
        Self {
            quorums,
            domain,
            interval: 128,
            timeout: 1_000_000,
            resend: 200_000,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    /// Primary of a view: round robin.
    #[must_use]
    pub const fn primary(&self, view: View) -> Index {
        Index((view % self.quorums.n() as u64) as u16)
    }

    /// Slots above the stable checkpoint that may be in flight: L = 2Δ.
    #[must_use]
    pub const fn window(&self) -> Slot {
        2 * self.interval
    }

    /// Votes that make a quorum.
    #[must_use]
    pub(super) const fn quorum(&self) -> usize {
        #[cfg(feature = "mutations")]
        if matches!(self.mutation, Some(Mutation::TwoFPlusOne)) {
            return 2 * self.quorums.f() + 1;
        }
        self.quorums.quorum()
    }

    #[cfg(feature = "mutations")]
    pub(super) fn breaks(&self, rule: Mutation) -> bool {
        self.mutation == Some(rule)
    }
}
