//! A point of the evaluation: protocol, deployment, workload, faults and service times.

use super::topology::Topology;
use crate::paper;
use schemars::JsonSchema;
use serde::Serialize;

/// Protocols, as the paper builds them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// No replication: one machine executes.
    Alone,
    /// PBFT: all to all.
    Pbft,
    /// Collectors instead of all to all.
    Linear,
    /// A fast path beside it.
    Fast,
    /// Execution collectors, and one message to the client.
    Sbft,
}

/// A client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Transactions or operations in a request.
    pub operations: u64,
    /// Bytes of a request.
    pub bytes: u64,
    /// Time to execute and persist a request, in ns.
    pub execute_ns: u64,
}

impl Workload {
    /// Puts of random values into a key-value store, so many in a request.
    #[must_use]
    pub const fn puts(operations: u64, costs: &Costs) -> Self {
        Self { operations, bytes: 256 + 48 * operations, execute_ns: costs.put_ns * operations }
    }

    /// A chunk of contract transactions: 12 KB, about 50 of them.
    #[must_use]
    pub const fn contracts(costs: &Costs) -> Self {
        Self { operations: 50, bytes: 12 << 10, execute_ns: costs.contract_ns * 50 }
    }
}

/// Service times in ns unless a name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A replica takes a message from its channel, decrypts and handles it; a tenth of that to send one.
    pub message_ns: u64,
    /// A message that is signed by its replica, a vote of PBFT or an answer, is checked and stored. Fitted.
    pub vote_ns: u64,
    /// Factor between the pairing library here and the paper's, in percent. Fitted.
    pub pairing_percent: u64,
    /// A share is made: a hash to the curve and a multiplication. Measured.
    pub share_ns: u64,
    /// A group's signature is verified: two pairings. Measured.
    pub verify_ns: u64,
    /// Shares are combined by interpolation: for each one. Measured.
    pub combine_ns: u64,
    /// Shares of all are added up: for each one. Measured.
    pub sum_ns: u64,
    /// A signature of a client or of an answer: to make, to check. RSA with 2,048 bits.
    pub rsa_ns: (u64, u64),
    /// A contract transaction is executed and written to disk: one over the paper's rate without replication. An input.
    pub contract_ns: u64,
    /// A put into the key-value store.
    pub put_ns: u64,
    /// The proof of one request's result is made.
    pub prove_ns: u64,
    /// Patience of a client that has no certificate: it asks all replicas, and takes f+1 equal answers. Assumed.
    pub patience_ns: u64,
    /// Bandwidth of a replica in each direction, in bytes per second.
    pub bandwidth: u64,
    /// Random addition to a delay, at most, in per mille of it.
    pub jitter: u64,
}

impl Costs {
    /// The frozen table; `docs/explanation/0025-sbft.md` has the source of each entry.
    pub const FROZEN: Self = Self {
        message_ns: 100_000,
        vote_ns: 510_000,
        pairing_percent: 1_000,
        share_ns: 110_000,
        verify_ns: 790_000,
        combine_ns: 25_000,
        sum_ns: 10_000,
        rsa_ns: (1_500_000, 40_000),
        contract_ns: 1_190_476,
        put_ns: 20_000,
        prove_ns: 20_000,
        patience_ns: 4_000_000_000,
        bandwidth: 1_250_000_000,
        jitter: 100,
    };

    /// Time of curve arithmetic in the paper's library.
    pub(super) const fn pairing(&self, ns: u64) -> u64 {
        ns * self.pairing_percent / 100
    }
}

/// A point of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Protocol.
    pub variant: Variant,
    /// Faulty replicas that it withstands.
    pub f: usize,
    /// Crashed or slow replicas that the fast path tolerates.
    pub c: usize,
    /// Deployment.
    pub topology: Topology,
    /// Clients, each with one request at a time.
    pub clients: u64,
    /// Requests.
    pub workload: Workload,
    /// Backups that are crashed.
    pub crashed: usize,
    /// Measured requests of each client, after a quarter as many.
    pub requests: u64,
    /// Seed of the delays.
    pub seed: u64,
    /// Service times.
    pub costs: Costs,
}

impl Setting {
    /// The paper's size: 64 faulty replicas, contracts on a continent.
    ///
    /// The paper's throughputs and latencies of contracts agree with two clients of 50 transactions each by Little's law, in all four cases.
    pub const PAPER: Self = Self {
        variant: Variant::Sbft,
        f: 64,
        c: 8,
        topology: Topology::Continent,
        clients: 2,
        workload: Workload::contracts(&Costs::FROZEN),
        crashed: 0,
        requests: 40,
        seed: 1,
        costs: Costs::FROZEN,
    };

    /// Number of replicas: 3f+2c+1.
    #[must_use]
    pub const fn n(&self) -> usize {
        3 * self.f + 2 * self.c + 1
    }

    /// Checks the numbers of a setting.
    ///
    /// # Errors
    /// Names what is impossible.
    pub const fn check(&self) -> Result<(), &'static str> {
        if self.f == 0 || self.f > 85 || self.c > 100 || self.n() > 256 {
            Err("one to 85 faulty replicas, and n = 3f+2c+1 up to 256")
        } else if self.c > 0 && !matches!(self.variant, Variant::Sbft) {
            Err("redundant replicas belong to SBFT alone")
        } else if self.crashed > self.f {
            Err("at most f backups crashed")
        } else if self.clients == 0 || self.clients > 10_000 || self.requests == 0 || self.requests > 100_000 {
            Err("one to 10,000 clients with one to 100,000 requests each")
        } else if self.costs.bandwidth == 0 || self.workload.operations == 0 || self.costs.jitter > 10_000 {
            Err("some bandwidth, at least one operation, jitter up to ten times the delay")
        } else {
            Ok(())
        }
    }
}

/// Result of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Outcome {
    /// Operations per second.
    pub per_second: f64,
    /// Median latency, in ms.
    pub median_ms: f64,
    /// Mean latency, in ms.
    pub mean_ms: f64,
    /// Clients ÷ (throughput × mean latency): one, by Little's law.
    pub little: f64,
    /// Messages between replicas per block.
    #[serde(rename = "messages_per_block")]
    pub messages: f64,
    /// Share of blocks that were decided on the fast path.
    #[serde(rename = "fast_share")]
    pub fast: f64,
    /// Requests per block.
    #[serde(rename = "requests_per_block")]
    pub block: f64,
    /// Hash of all events.
    #[serde(rename = "trace_hash", serialize_with = "paper::in_hex")]
    #[schemars(with = "String")]
    pub trace: u64,
}
