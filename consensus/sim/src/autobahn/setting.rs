//! Settings of a run, service times with their sources, and the result.

use crate::load::{Series, hangover};
use phalanx_bft::autobahn::{Spread, Tips};

/// Regions of Table 1. Replica i is in region i modulo four.
pub const REGIONS: [&str; 4] = ["us-east1", "us-east5", "us-west1", "us-west4"];

/// Round-trip times of Table 1, in µs.
pub const LINKS: [[u64; 4]; 4] = [
    [500, 19_000, 64_000, 55_000],
    [19_000, 500, 50_000, 57_000],
    [64_000, 50_000, 500, 28_000],
    [55_000, 57_000, 28_000, 500],
];

/// An ordering protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Autobahn.
    Autobahn,
    /// Two-chain HotStuff whose blocks carry batches.
    VanillaHotStuff,
    /// Two-chain HotStuff whose blocks name batches that were spread beforehand.
    BatchedHotStuff,
    /// PBFT, as ResilientDB runs it.
    Pbft,
    /// SBFT with c = 0.
    Sbft,
}

impl Order {
    /// Name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Autobahn => "Autobahn",
            Self::VanillaHotStuff => "VanillaHS",
            Self::BatchedHotStuff => "BatchedHS",
            Self::Pbft => "PBFT",
            Self::Sbft => "SBFT",
        }
    }
}

/// A fault, from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blip {
    /// Replica 0 leads no longer, until so many views have been given up. It still votes and spreads its data.
    Leader {
        /// Begin, in ms.
        at_ms: u64,
        /// Views that are given up because of it.
        views: u64,
        /// True if what it would have said comes late, false if it is lost.
        late: bool,
    },
    /// The two halves of the replicas are apart; messages between them are lost.
    Halves {
        /// Begin, in ms.
        from_ms: u64,
        /// End, in ms.
        until_ms: u64,
    },
}

impl Blip {
    /// Time at which it begins, in ms.
    #[must_use]
    pub const fn begin_ms(self) -> u64 {
        match self {
            Self::Leader { at_ms, .. } => at_ms,
            Self::Halves { from_ms, .. } => from_ms,
        }
    }
}

/// Moment at which a transaction is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Its own replica can execute it: the paper's measure.
    Ready,
    /// f+1 replicas have votes of a quorum on the state behind it, which is what clients of `phalanx net` wait for. They are near
    /// every replica.
    Certified,
}

/// Service times. Three are fitted, each to one printed number; the others are orders of magnitude that decide nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A replica takes a transaction in, in ns. Fitted to the peak of 234,610 transactions per second.
    pub ingest_ns: u64,
    /// A leader serialises and spreads a transaction of its own block, in ns. Fitted to VanillaHS's one thousand transactions per
    /// 80 ms.
    pub block_tx_ns: u64,
    /// A batch goes from the mempool to a protocol that spreads batches ahead of the order, in ns. Fitted to Autobahn's latency
    /// at low load.
    pub mempool_ns: u64,
    /// A message, without signatures, in ns.
    pub message_ns: u64,
    /// A signature, to make and to check, in ns.
    pub signature_ns: (u64, u64),
    /// A share of a group's signature, to make; shares, to combine, in ns.
    pub share_ns: (u64, u64),
    /// Records become durable, as many as wait, in ns. The papers' figures have none.
    pub persist_ns: u64,
    /// Bandwidth of a node, in bytes per second.
    pub bandwidth: u64,
    /// Bytes of a transaction.
    pub tx_bytes: u64,
}

impl Costs {
    /// The frozen table.
    pub const FROZEN: Self = Self {
        ingest_ns: 4_260,
        block_tx_ns: 26_000,
        mempool_ns: 90_000_000,
        message_ns: 10_000,
        signature_ns: (20_000, 40_000),
        share_ns: (300_000, 1_500_000),
        persist_ns: 0,
        bandwidth: 1_250_000_000,
        tx_bytes: 512,
    };
}

/// A point of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Protocol.
    pub order: Order,
    /// Number of replicas.
    pub n: usize,
    /// Transactions per second of all clients.
    pub tps: u64,
    /// Clients with one transaction in flight each, `None` for an open loop. A transaction that finds no client free waits; its
    /// latency counts from the time at which it was due.
    pub clients: Option<u64>,
    /// Transactions after which a batch is full, a multiple of ten.
    pub batch_txs: u64,
    /// Batches that one car carries at most.
    pub car_batches: usize,
    /// Time after which a batch is closed that is not full, in ms.
    pub batch_ms: u64,
    /// Patience with a leader, in ms.
    pub timeout_ms: u64,
    /// Wait for the votes of all replicas, in ms, `None` without a fast path.
    pub fast_ms: Option<u64>,
    /// Autobahn: tips that leaders propose.
    pub tips: Tips,
    /// Autobahn: receivers of votes.
    pub spread: Spread,
    /// Autobahn: slots in flight.
    pub parallel: u64,
    /// Batches that a block of BatchedHS names at most.
    pub block_batches: usize,
    /// Autobahn: time between two repetitions of what others may have missed, in ms.
    pub resend_ms: u64,
    /// Moment at which a transaction is answered.
    pub answers: Answers,
    /// Fault.
    pub blip: Option<Blip>,
    /// Service times.
    pub costs: Costs,
    /// Virtual time of the run, in ms.
    pub total_ms: u64,
    /// Part of it that is not measured, at the beginning, in ms.
    pub warm_up_ms: u64,
}

impl Setting {
    /// Four replicas with the timers of the paper's artefact: main timer 5 s, fast wait 5 s, batches of 1,000 or 20 ms, k = 4.
    pub const BASE: Self = Self {
        order: Order::Autobahn,
        n: 4,
        tps: 220_000,
        clients: None,
        batch_txs: 1_000,
        car_batches: 8,
        batch_ms: 20,
        timeout_ms: 5_000,
        fast_ms: Some(5_000),
        tips: Tips::Optimistic,
        spread: Spread::Linear,
        parallel: 4,
        block_batches: 64,
        resend_ms: 500,
        answers: Answers::Ready,
        blip: None,
        costs: Costs::FROZEN,
        total_ms: 12_000,
        warm_up_ms: 2_000,
    };

    /// Four replicas as `phalanx net --protocol autobahn --rtt autobahn4 --tps 2000` runs them. Timers, batches and repetitions are
    /// its own, there is no mempool, and a transaction is answered once a quorum has voted on the state. A log syncs in 2 ms.
    pub const PROCESSES: Self = Self {
        tps: 2_000,
        batch_txs: 100,
        car_batches: 1,
        batch_ms: 2,
        timeout_ms: 1_000,
        fast_ms: Some(20),
        resend_ms: 100,
        answers: Answers::Certified,
        costs: Costs { mempool_ns: 0, persist_ns: 2_000_000, ..Costs::FROZEN },
        total_ms: 20_000,
        ..Self::BASE
    };

    /// Checks the numbers of a setting.
    ///
    /// # Errors
    /// Names what is impossible.
    pub const fn check(&self) -> Result<(), &'static str> {
        const HOUR: u64 = 3_600_000;
        if self.n < 4 || self.n > 64 {
            Err("between 4 and 64 replicas")
        } else if self.tps == 0 || self.tps > 10_000_000 || self.batch_txs < 10 || self.batch_txs > 100_000 {
            Err("up to ten million transactions per second, batches of 10 to 100,000")
        } else if matches!(self.clients, Some(0)) {
            Err("at least one client")
        } else if self.car_batches == 0 || self.car_batches > 1_000 || self.block_batches == 0 {
            Err("1 to 1,000 batches per car, at least one per block")
        } else if self.batch_ms == 0 || self.timeout_ms == 0 || self.timeout_ms > HOUR || self.batch_ms > HOUR {
            Err("timers between 1 ms and an hour")
        } else if self.total_ms > HOUR || self.warm_up_ms + 1_000 >= self.total_ms {
            Err("more than a second of measured time, and at most an hour")
        } else if self.resend_ms == 0 || self.resend_ms > HOUR || self.costs.persist_ns > 1_000_000_000 {
            Err("repetitions between 1 ms and an hour, a log that syncs within a second")
        } else if self.parallel == 0 || self.parallel > 128 || self.costs.bandwidth == 0 {
            Err("1 to 128 slots in flight, some bandwidth")
        } else {
            Ok(())
        }
    }
}

/// Result of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Transactions per second that became ready to execute in the measured time.
    pub tps: f64,
    /// Mean latency of the transactions that were submitted in it, but for its last second, in ms.
    pub latency_ms: f64,
    /// Share of transactions of that time that are ready at the end.
    pub answered: f64,
    /// Latency by second of submission.
    pub series: Series,
    /// Time at which the transactions of each batch were sent in the mean, and their latency, in µs.
    pub answers: Vec<(u64, u64)>,
    /// Messages between replicas per second.
    pub messages: f64,
    /// Bytes between replicas per second.
    pub bytes: f64,
    /// Signatures made, and checked, per second, by all replicas.
    pub signatures: (f64, f64),
    /// Share of time in which the busiest replica takes transactions in, and handles messages.
    pub busy: (f64, f64),
    /// Views that were given up.
    pub views: u64,
    /// Hash of all events: equal settings, equal traces.
    pub trace: u64,
}

impl Outcome {
    /// Time in s from the end of a blip until transactions take at most twice as long as before it, and 20 ms. It goes by tenths of
    /// a second, as in `phalanx net`. `None` if that does not come, or without a blip that has an end.
    #[must_use]
    pub fn hangover_s(&self, blip: Blip) -> Option<f64> {
        let Blip::Halves { from_ms, until_ms } = blip else { return None };
        hangover(&self.answers, (from_ms * 1_000, until_ms * 1_000)).map(|us| us as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Means over all pairs of lane owner and leader, in ms: derived from Table 1.
    #[test]
    fn the_floor_of_table_1_is_94_6_ms() {
        let one_way = |a: usize, b: usize| LINKS[a][b] as f64 / 2_000.0;
        let (mut optimistic, mut certified) = (0.0, 0.0);
        for owner in 0..4 {
            for leader in 0..4 {
                let travel = |a: usize, b: usize| if a == b { 0.0 } else { one_way(a, b) };
                let slowest = (0..4).map(|r| 2.0 * travel(leader, r)).fold(0.0, f64::max);
                let fast = travel(owner, leader) + slowest + travel(leader, owner);
                let nearest = (0..4).filter(|r| *r != owner).map(|r| 2.0 * one_way(owner, r)).fold(f64::MAX, f64::min);
                optimistic += fast / 16.0;
                certified += (fast + nearest) / 16.0;
            }
        }
        assert!(
            (optimistic - 94.6).abs() < 0.1 && (certified - optimistic - 23.5).abs() < 0.1,
            "{optimistic} {certified}"
        );
    }
}
