//! Constants of a run.

use crate::core::{ConfigError, Domain, Index, Micros, Quorums, Slot, View};

/// Tips that a leader may propose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tips {
    /// Certified ones only: no vote ever waits for data.
    Certified,
    /// Certified ones, and the newest car of the leader's own lane.
    Own,
    /// The newest car of every lane. Votes wait for its data; its history is certified.
    Optimistic,
}

/// Receivers of votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spread {
    /// The leader, which spreads certificates.
    Linear,
    /// All replicas, which form certificates on their own.
    AllToAll,
}

/// Constants of an Autobahn instance, equal at all replicas but for the clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Replicas and faults.
    pub quorums: Quorums,
    /// Separates signatures from those of other instances.
    pub domain: Domain,
    /// Tips that leaders propose.
    pub tips: Tips,
    /// Receivers of votes.
    pub spread: Spread,
    /// Time to wait for the votes of all n replicas once n-f are there, in µs. `None` never takes the fast path.
    pub fast: Option<Micros>,
    /// Slots in flight at a time: k.
    pub parallel: u64,
    /// Patience with a leader, in µs. It doubles with each view of a slot.
    pub timeout: Micros,
    /// Lanes with a new tip that a leader waits for.
    pub coverage: usize,
    /// Time after which a leader proposes with fewer, in µs.
    pub cover_wait: Micros,
    /// Time that a vote waits for the data of optimistic tips before the leader is asked for it, in µs.
    pub tip_wait: Micros,
    /// Slots between two checkpoints.
    pub interval: u64,
    /// Time between two repetitions of what others may have missed, while a replica waits for something. Sixteen times that
    /// otherwise.
    pub resend: Micros,
    /// Maximum length of an encoded batch, in bytes. Longer ones are not accepted.
    pub batch_bytes: usize,
    /// Maximum length of the cars that become one block, in bytes, unless a single one is longer.
    pub block_bytes: usize,
    /// Maximum length of the cars in one answer, in bytes, unless a single one is longer.
    pub sync_bytes: usize,
    /// Cars of a lane above its committed one that replicas accept.
    pub ahead: u64,
    /// Length of these cars, in bytes, unless a single one is longer.
    pub ahead_bytes: usize,
    /// Milliseconds since 1970 at the clock's zero.
    pub epoch_ms: u64,
    /// Milliseconds by which a batch's timestamp may lie ahead of the own clock.
    pub ahead_ms: u64,
    /// Deliberate faults.
    #[cfg(feature = "mutations")]
    pub mutation: Option<Mutation>,
}

/// A rule that is broken on purpose, to show that the tests notice.
#[cfg(feature = "mutations")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// Quorums of 2f+1 where n is not 3f+1.
    TwoFPlusOne,
    /// The choice counts equal pairs of value and view, not values: a value that some replicas voted for again is lost.
    ExactPairs,
    /// A complaint leaves out the highest certificate.
    ForgetQc,
    /// A replica votes in a view that it has complained about.
    VoteAfterComplaint,
    /// A replica votes for a cut whose data it lacks.
    VoteWithoutData,
    /// Lanes are ordered as a replica happens to see them: the own one first.
    OwnLaneFirst,
}

impl Config {
    /// A configuration with optimistic tips, linear form, a fast path that waits 20 ms, k = 4, timeouts of 1 s, coverage n-f or
    /// 20 ms, checkpoints every 128 slots, repetitions every 200 ms, batches and blocks up to 4 MiB, 64 MiB of uncommitted cars per lane.
    #[must_use]
    pub const fn new(quorums: Quorums, domain: Domain) -> Self {
        Self {
            quorums,
            domain,
            tips: Tips::Optimistic,
            spread: Spread::Linear,
            fast: Some(20_000),
            parallel: 4,
            timeout: 1_000_000,
            coverage: quorums.available(),
            cover_wait: 20_000,
            tip_wait: 100_000,
            interval: 128,
            resend: 200_000,
            batch_bytes: 4 << 20,
            block_bytes: 4 << 20,
            sync_bytes: 8 << 20,
            ahead: 1_024,
            ahead_bytes: 64 << 20,
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
        ConfigError::within("fast", self.fast.unwrap_or_default(), 0, HOUR)?;
        ConfigError::within("parallel", self.parallel, 1, 1_024)?;
        ConfigError::within("timeout", self.timeout, 1, HOUR)?;
        ConfigError::within("coverage", self.coverage as u64, 1, self.quorums.available() as u64)?;
        ConfigError::within("cover_wait", self.cover_wait, 0, HOUR)?;
        ConfigError::within("tip_wait", self.tip_wait, 0, HOUR)?;
        ConfigError::within("interval", self.interval, self.parallel, 4_096)?;
        ConfigError::within("resend", self.resend, 1, HOUR)?;
        ConfigError::within("batch_bytes", self.batch_bytes as u64, 64, 1 << 30)?;
        ConfigError::within("block_bytes", self.block_bytes as u64, 64, 1 << 30)?;
        ConfigError::within("sync_bytes", self.sync_bytes as u64, 64, 1 << 30)?;
        ConfigError::within("ahead", self.ahead, 1, 1 << 20)?;
        ConfigError::within("ahead_bytes", self.ahead_bytes as u64, 64, 1 << 40)?;
        ConfigError::within("epoch_ms", self.epoch_ms, 0, 1 << 50)?;
        ConfigError::within("ahead_ms", self.ahead_ms, 1, 1 << 50)
    }

    /// Leader of a view of a slot: round robin, offset by f from slot to slot, so that a faulty replica delays few of them. Where
    /// f and n have a common divisor, a further step makes every replica lead.
    #[must_use]
    pub fn leader(&self, slot: Slot, view: View) -> Index {
        let n = self.quorums.n() as u64;
        let step = (self.quorums.f() as u64).max(1);
        let round = n / gcd(n, step);
        let offset = (slot % n) * step + if round < n { slot / round } else { 0 };
        Index(((offset % n + view % n) % n) as u16)
    }

    /// Slots above the stable checkpoint that may be in flight.
    #[must_use]
    pub const fn window(&self) -> Slot {
        2 * self.interval
    }

    /// Votes for a certificate: n-f. Any two such sets share a correct replica.
    #[must_use]
    pub(super) const fn quorum(&self) -> usize {
        #[cfg(feature = "mutations")]
        if matches!(self.mutation, Some(Mutation::TwoFPlusOne)) {
            return 2 * self.quorums.f() + 1;
        }
        self.quorums.available()
    }

    /// Reports of a value, out of those of n-f replicas, if it was decided on the fast path: n-2f.
    #[must_use]
    pub(super) const fn reports(&self) -> usize {
        self.quorum() - self.quorums.f()
    }

    #[cfg(feature = "mutations")]
    pub(super) fn breaks(&self, rule: Mutation) -> bool {
        self.mutation == Some(rule)
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replica_leads_in_views_and_in_slots() {
        for n in [1, 4, 7, 12, 20, 256] {
            let config = Config::new(Quorums::new(n, (n - 1) / 3).unwrap(), Domain::default());
            let all = |mut leaders: Vec<Index>| {
                leaders.sort_unstable();
                leaders.dedup();
                leaders.len()
            };
            for slot in [1, 5, 1_000_007] {
                assert_eq!(all((0..n as u64).map(|view| config.leader(slot, view)).collect()), n);
            }
            let many = 1..=(n * n) as u64;
            assert_eq!(all(many.map(|slot| config.leader(slot, 0)).collect()), n, "n = {n}");
        }
    }
}
