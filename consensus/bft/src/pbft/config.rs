//! Constants of a run.

#[cfg(feature = "mutations")]
use crate::core::Impatience;
use crate::core::{ConfigError, Domain, Index, Micros, Quorums, Slot, View};

/// Constants of a PBFT instance, equal at all replicas but for the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Replicas and faults.
    pub quorums: Quorums,
    /// Separates signatures from those of other instances.
    pub domain: Domain,
    /// Slots between two checkpoints: Δ.
    pub interval: u64,
    /// Patience with a primary: T. A replica complains after half of it. It doubles with each view that brings no progress.
    pub timeout: Micros,
    /// Time between two repetitions of what others may have missed, while a replica waits for something. Sixteen times that
    /// otherwise.
    pub resend: Micros,
    /// Maximum length of an encoded batch, in bytes. Longer ones are not accepted.
    pub batch_bytes: usize,
    /// Maximum length of the batches of all undecided slots, in bytes; that of the first undecided slot passes anyway.
    pub undecided_bytes: usize,
    /// Milliseconds since 1970 at the clock's zero.
    pub epoch_ms: u64,
    /// Milliseconds by which a proposal's timestamp may lie ahead of the own clock.
    pub ahead_ms: u64,
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
    /// A restart forgets the choices of the view that the replica is in.
    ForgetChoices,
    /// A batch that an older view chose is accepted in a newer one when it comes late.
    LateChoice,
    /// A rule of patience is broken.
    Patience(Impatience),
}

impl Config {
    /// A configuration with Δ = 128, T = 1 s, repetitions every 200 ms, batches up to 4 MiB and 10 s ahead of a clock that starts
    /// in 1970.
    #[must_use]
    pub const fn new(quorums: Quorums, domain: Domain) -> Self {
        Self {
            quorums,
            domain,
            interval: 128,
            timeout: 1_000_000,
            resend: 200_000,
            batch_bytes: 4 << 20,
            undecided_bytes: 64 << 20,
            epoch_ms: 0,
            ahead_ms: 10_000,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    /// Checks every constant.
    ///
    /// # Errors
    /// Names the first constant that no replica can run with.
    pub fn check(&self) -> Result<(), ConfigError> {
        const HOUR: Micros = 3_600_000_000;
        ConfigError::within("interval", self.interval, 1, 4_096)?;
        ConfigError::within("timeout", self.timeout, 1, HOUR)?;
        ConfigError::within("resend", self.resend, 1, HOUR)?;
        ConfigError::within("batch_bytes", self.batch_bytes as u64, 64, 1 << 30)?;
        ConfigError::within("undecided_bytes", self.undecided_bytes as u64, self.batch_bytes as u64, 1 << 32)?;
        ConfigError::within("epoch_ms", self.epoch_ms, 0, 1 << 50)?;
        ConfigError::within("ahead_ms", self.ahead_ms, 1, 1 << 50)
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
