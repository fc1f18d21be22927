//! Constants of a run: thresholds, collectors, windows and waiting times.

#[cfg(feature = "mutations")]
use crate::core::Impatience;
use crate::core::{ConfigError, Domain, Index, Micros, Quorums, Slot, View};

/// Ways to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Paths {
    /// The slow path alone: linear PBFT.
    Linear,
    /// The fast path, and the slow one where the fast one does not come.
    Dual,
}

/// Answers that a client needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replies {
    /// Equal answers of f+1 replicas.
    Each,
    /// A single answer with a certificate, from an execution collector.
    Certificate,
}

/// Bounds of the time that a collector waits for the fast path: t_fs. It follows the delays of the past between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FastWait {
    /// Shortest time.
    pub least: Micros,
    /// Longest time, which the first slots wait.
    pub most: Micros,
}

/// Constants of an SBFT instance, equal at all replicas but for the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Replicas and faults: n = 3f+2c+1.
    pub quorums: Quorums,
    /// Separates signatures from those of other instances.
    pub domain: Domain,
    /// Slots between two checkpoints: half of the paper's `win`.
    pub interval: u64,
    /// Patience with a primary: T. It doubles with each view that brings no progress.
    pub timeout: Micros,
    /// Time between two repetitions of what others may have missed, while a replica waits for something. Sixteen times that
    /// otherwise.
    pub resend: Micros,
    /// Time after which a replica turns to the primary, the last collector, with a slot that is not decided.
    pub help: Micros,
    /// Time by which each collector waits for the one before it: g.
    pub stagger: Micros,
    /// Time that the slow path gives the fast one: t_fs.
    pub fast_wait: FastWait,
    /// Ways to a decision.
    pub paths: Paths,
    /// Time that the fast path waits for the shares of all replicas, while nothing failed lately: their sum needs no
    /// interpolation. `None` to take the first 3f+c+1.
    pub all_wait: Option<Micros>,
    /// Answers that a client needs.
    pub replies: Replies,
    /// Slots that a primary has in flight at most, `None` for ⌊(n-1)/(c+1)⌋: each collector has one.
    pub active: Option<u64>,
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
    /// The view change counts equal pairs of view and batch, instead of the batch in that view or later.
    ExactPairs,
    /// The view change prefers the fast value to the slow one of the same view.
    FastFirst,
    /// The view change looks at slow certificates alone.
    SlowOnly,
    /// The view change frees a last slot whose null filler may be decided.
    FreedNull,
    /// The fast path needs only 2f+c+1 shares.
    FastAtSlow,
    /// A fast decision makes the slots win/4 below it stable, without a certificate, and others believe it.
    StableUnproven,
    /// The certificate of f+1 replicas, enough for clients, makes a slot stable.
    StableByState,
    /// A restart forgets the choices of the view that the replica is in.
    ForgetChoices,
    /// A prepared certificate leaves in a share before its record is durable.
    ShareBeforeDurable,
    /// Collectors learn nothing from shares that come after a decision.
    LateSharesIgnored,
    /// A later collector takes its own turn for a delay of the network.
    TurnIsDelay,
    /// A rule of patience is broken.
    Patience(Impatience),
}

impl Config {
    /// A configuration with `win` = 256, T = 1 s, repetitions every 200 ms, help after 100 ms, collectors 5 ms apart, 5 to 50 ms
    /// for the fast path, batches up to 4 MiB and 10 s ahead of a clock that starts in 1970.
    #[must_use]
    pub const fn new(quorums: Quorums, domain: Domain) -> Self {
        Self {
            quorums,
            domain,
            interval: 128,
            timeout: 1_000_000,
            resend: 200_000,
            help: 100_000,
            stagger: 5_000,
            fast_wait: FastWait { least: 5_000, most: 50_000 },
            paths: Paths::Dual,
            all_wait: None,
            replies: Replies::Certificate,
            active: None,
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
        let (n, f, c) = (self.quorums.n() as u64, self.quorums.f() as u64, self.c() as u64);
        ConfigError::within("replicas", n, 4, 256)?;
        // 3f+2c+1: an even number of replicas beyond 3f+1.
        ConfigError::within("replicas", n, 3 * f + 2 * c + 1, 3 * f + 2 * c + 1)?;
        ConfigError::within("interval", self.interval, 1, 4_096)?;
        ConfigError::within("timeout", self.timeout, 1, HOUR)?;
        ConfigError::within("resend", self.resend, 1, HOUR)?;
        ConfigError::within("help", self.help, 1, HOUR)?;
        ConfigError::within("stagger", self.stagger, 0, HOUR / 256)?;
        ConfigError::within("fast_wait.most", self.fast_wait.most, 0, HOUR)?;
        ConfigError::within("fast_wait.least", self.fast_wait.least, 0, self.fast_wait.most)?;
        ConfigError::within("all_wait", self.all_wait.unwrap_or(0), 0, HOUR)?;
        ConfigError::within("active", self.active.unwrap_or(1), 1, 1 << 20)?;
        ConfigError::within("batch_bytes", self.batch_bytes as u64, 64, 1 << 30)?;
        ConfigError::within("undecided_bytes", self.undecided_bytes as u64, self.batch_bytes as u64, 1 << 32)?;
        ConfigError::within("epoch_ms", self.epoch_ms, 0, 1 << 50)?;
        ConfigError::within("ahead_ms", self.ahead_ms, 1, 1 << 50)
    }

    /// Crashed or slow replicas that the fast path tolerates.
    #[must_use]
    pub const fn c(&self) -> usize {
        (self.quorums.n() - 1 - 3 * self.quorums.f()) / 2
    }

    /// Shares of σ: 3f+c+1.
    #[must_use]
    pub const fn fast(&self) -> usize {
        #[cfg(feature = "mutations")]
        if matches!(self.mutation, Some(Mutation::FastAtSlow)) {
            return self.slow();
        }
        3 * self.quorums.f() + self.c() + 1
    }

    /// Shares of τ: 2f+c+1. Any two such sets share a correct replica.
    #[must_use]
    pub const fn slow(&self) -> usize {
        2 * self.quorums.f() + self.c() + 1
    }

    /// Shares of π: f+1, of which a single one may be of a correct replica.
    #[must_use]
    pub const fn state(&self) -> usize {
        self.quorums.one_correct()
    }

    /// Reports of one batch that keep it through a view change: f+c+1.
    #[must_use]
    pub const fn kept(&self) -> usize {
        self.quorums.f() + self.c() + 1
    }

    /// Primary of a view: round robin.
    #[must_use]
    pub const fn primary(&self, view: View) -> Index {
        Index((view % self.quorums.n() as u64) as u16)
    }

    /// Commit collectors of a slot, in the order in which they act: c+1 backups, evenly spread over the slots.
    ///
    /// Without a fast path, the primary takes the place of the last one.
    pub fn collectors(&self, slot: Slot, view: View) -> impl Iterator<Item = Index> + use<> {
        let (primary, others, count) = (self.primary(view).0, self.quorums.n() as u64 - 1, self.c() as u64 + 1);
        let offset = view.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = slot.wrapping_mul(count).wrapping_add(offset) % others;
        let linear = self.paths == Paths::Linear;
        (0..count).map(move |rank| {
            let at = ((first + rank) % others) as u16;
            match linear && rank + 1 == count {
                true => Index(primary),
                false => Index(at + u16::from(at >= primary)),
            }
        })
    }

    /// Execution collectors of a slot, in the order in which they act: c+1 replicas.
    pub fn executors(&self, slot: Slot) -> impl Iterator<Item = Index> + use<> {
        let (n, count) = (self.quorums.n() as u64, self.c() as u64 + 1);
        let first = (slot % n).wrapping_mul(count).wrapping_add(n / 2);
        (0..count).map(move |rank| Index(((first + rank) % n) as u16))
    }

    /// Slots above the stable checkpoint that may be in flight: `win`.
    #[must_use]
    pub const fn window(&self) -> Slot {
        2 * self.interval
    }

    /// Slots above the last executed one in which a replica takes part in the fast path: `win`/4.
    #[must_use]
    pub const fn fast_reach(&self) -> Slot {
        let reach = self.window() / 4;
        if reach == 0 { 1 } else { reach }
    }

    /// Slots that a primary has in flight at most.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.active.unwrap_or((self.quorums.n() as u64 - 1) / (self.c() as u64 + 1)).max(1)
    }

    /// Length of the next batch by the paper's rule: waiting requests over half of the concurrent blocks, from 1 to `most`.
    #[must_use]
    pub fn batch_length(&self, waiting: u64, concurrent: u64, most: u64) -> u64 {
        (waiting / (concurrent / 2).max(1)).clamp(1, most.max(1))
    }

    #[cfg(feature = "mutations")]
    pub(super) fn breaks(&self, rule: Mutation) -> bool {
        self.mutation == Some(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(n: usize, f: usize) -> Config {
        Config::new(Quorums::new(n, f).unwrap(), Domain::default())
    }

    #[test]
    fn thresholds_are_those_of_the_paper() {
        for (n, f, c, fast, slow) in [(4, 1, 0, 4, 3), (6, 1, 1, 5, 4), (193, 64, 0, 193, 129), (209, 64, 8, 201, 137)]
        {
            let config = config(n, f);
            assert_eq!(config.check(), Ok(()));
            assert_eq!((config.c(), config.fast(), config.slow(), config.state()), (c, fast, slow, f + 1));
            assert_eq!(config.slow(), config.quorums.quorum());
        }
        assert_eq!((config(193, 64).active(), config(209, 64).active()), (192, 23));
        assert!(config(5, 1).check().is_err(), "5 is not 3f+2c+1");
    }

    #[test]
    fn every_replica_collects_equally_often_and_no_primary_does() {
        for (n, f) in [(4, 1), (6, 1), (8, 1), (13, 4)] {
            let config = config(n, f);
            for view in [0, 1, 7, u64::MAX] {
                let mut times = vec![0; n];
                let slots = (n as u64 - 1) * 10;
                for slot in 1..=slots {
                    let collectors: Vec<Index> = config.collectors(slot, view).collect();
                    assert_eq!(collectors.len(), config.c() + 1);
                    collectors.iter().for_each(|index| times[usize::from(index.0)] += 1);
                }
                assert_eq!(times[usize::from(config.primary(view).0)], 0);
                let even = slots as usize * (config.c() + 1) / (n - 1);
                assert!(times.iter().filter(|count| **count == even).count() == n - 1, "{times:?}");
            }
            let linear = Config { paths: Paths::Linear, ..config };
            assert_eq!(linear.collectors(9, 3).last(), Some(linear.primary(3)));
        }
    }

    #[test]
    fn batches_grow_with_the_waiting_requests() {
        let config = config(4, 1);
        assert_eq!([0, 1, 7, 8, 1_000].map(|waiting| config.batch_length(waiting, 8, 100)), [1, 1, 1, 2, 100]);
    }
}
