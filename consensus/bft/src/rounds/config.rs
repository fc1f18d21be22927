//! Constants of a run.

use super::replica::Settings;
use crate::core::{ConfigError, Domain, Micros, Quorums};

/// Constants of an instance, equal at all replicas but for the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Replicas and faults.
    pub quorums: Quorums,
    /// Separates signatures from those of other instances.
    pub domain: Domain,
    /// Number of consecutive views of a leader; 1 rotates every view.
    pub term: u64,
    /// Slots between two checkpoints.
    pub interval: u64,
    /// Timeout of a view; it grows up to eightfold while views fail.
    pub timeout: Micros,
    /// Time between two repetitions of what others may have missed, while a replica waits for something. Sixteen times that
    /// otherwise.
    pub resend: Micros,
    /// True if leaders propose on blocks that are not notarised yet.
    pub optimistic_proposals: bool,
    /// Maximum length of an encoded batch, in bytes. Longer ones are not accepted.
    pub batch_bytes: usize,
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
    /// Votes leave before their record is durable.
    VoteBeforeDurable,
    /// An order vote is sent in a view that the replica has given up.
    OrderVoteAfterNullify,
    /// A restart forgets the views that the replica has given up.
    ForgetNullified,
    /// The certificate behind an order vote is not durable.
    ForgetCertificate,
    /// A vote needs no nullified views between the block and its parent.
    SkipViews,
}

impl Config {
    /// A configuration with a leader per view, checkpoints every 128 slots, a timeout of 1 s, repetitions every 200 ms, batches up
    /// to 4 MiB and 10 s ahead of a clock that starts in 1970.
    #[must_use]
    pub const fn new(quorums: Quorums, domain: Domain) -> Self {
        Self {
            quorums,
            domain,
            term: 1,
            interval: 128,
            timeout: 1_000_000,
            resend: 200_000,
            optimistic_proposals: true,
            batch_bytes: 4 << 20,
            epoch_ms: 0,
            ahead_ms: 10_000,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        const HOUR: Micros = 3_600_000_000;
        ConfigError::within("term", self.term, 1, 1 << 32)?;
        ConfigError::within("interval", self.interval, 1, 4_096)?;
        ConfigError::within("timeout", self.timeout, 1, HOUR)?;
        ConfigError::within("resend", self.resend, 1, HOUR)?;
        ConfigError::within("batch_bytes", self.batch_bytes as u64, 64, 1 << 30)?;
        ConfigError::within("epoch_ms", self.epoch_ms, 0, 1 << 50)?;
        ConfigError::within("ahead_ms", self.ahead_ms, 1, 1 << 50)
    }

    /// Constants of the votes.
    pub(super) const fn settings(&self) -> Settings {
        Settings {
            n: self.quorums.n() as u32,
            f: self.quorums.f() as u32,
            term: self.term,
            timeout_us: self.timeout,
            optimistic_proposals: self.optimistic_proposals,
        }
    }

    #[cfg(feature = "mutations")]
    pub(super) fn breaks(&self, rule: Mutation) -> bool {
        self.mutation == Some(rule)
    }
}
