//! Constants of a host, and its exchange with the shell: records, timers, actions.

use crate::{
    chain::{BlockRules, Tip},
    frame::Frame,
};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{Base, Batch, ConfigError, Domain, Index, Micros, Protocol, Quorums, Slot, To};
use phalanx_engine_api::ExecOutcome;
use phalanx_pipeline::{BlockMeta, Committee, Config, Incident};

/// Constants of a host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Replicas and faults.
    pub quorums: Quorums,
    /// Separates signatures from those of other instances.
    pub domain: Domain,
    /// From batches to blocks.
    pub rules: BlockRules,
    /// Configuration of the pipeline.
    pub pipeline: Config,
    /// Receiver of the fees of own batches.
    pub beneficiary: Address,
    /// Maximum number of transactions per batch.
    pub batch_txs: usize,
    /// Maximum length of the transactions of a batch, in bytes.
    pub batch_bytes: usize,
    /// Time that a batch waits to become full, in µs.
    pub batch_delay: Micros,
    /// Time between two repetitions of state votes, in µs.
    pub resend: Micros,
    /// Milliseconds since 1970 at the clock's zero.
    pub epoch_ms: u64,
    /// Decided blocks kept below the stable checkpoint, for replicas that are behind.
    pub retention: u64,
    /// Number of this start, which no earlier one has: answers to questions of others do not count.
    pub start: u64,
}

impl HostConfig {
    /// A configuration for `quorums`: batches of 100 transactions, 1 MiB or 1 ms, 1,024 blocks retained.
    #[must_use]
    pub fn new(quorums: Quorums, domain: Domain) -> Self {
        let rules = BlockRules { chain: domain.chain, gas_limit: u64::MAX, base_fee: 0, timestamp_ms: 0 };
        let committee = Committee::equal(quorums.n() as u32);
        let pipeline = Config::validator(committee);
        let (batch_txs, batch_delay, resend, epoch_ms, retention) = (100, 1_000, 50_000, 0, 1_024);
        Self {
            quorums,
            domain,
            rules,
            pipeline,
            beneficiary: Address::ZERO,
            batch_txs,
            batch_bytes: 1 << 20,
            batch_delay,
            resend,
            epoch_ms,
            retention,
            start: 0,
        }
    }

    /// Checks every constant.
    ///
    /// # Errors
    /// Names the first constant that no host can run with.
    pub fn check(&self) -> Result<(), ConfigError> {
        const HOUR: Micros = 3_600_000_000;
        ConfigError::within("batch_txs", self.batch_txs as u64, 1, 1 << 20)?;
        ConfigError::within("batch_bytes", self.batch_bytes as u64, 64, 1 << 30)?;
        ConfigError::within("batch_delay", self.batch_delay, 0, HOUR)?;
        ConfigError::within("resend", self.resend, 1, HOUR)?;
        ConfigError::within("epoch_ms", self.epoch_ms, 0, 1 << 50)?;
        ConfigError::within("retention", self.retention, 1, 1 << 32)
    }
}

/// A record of a host's log.
#[derive(Clone, Debug)]
pub enum HostRecord<R> {
    /// The block below the oldest one of the log. First record of a compacted log.
    Base(Tip),
    /// A record of the protocol.
    Protocol(R),
    /// A decided block. Slots come in order.
    Block(Slot, Option<Batch>),
    /// Own result of a block, encoded; durable before the engine commits the block. A replica that is behind checks blocks against
    /// it. The block may not be decided yet, or never be.
    Outcome(Slot, Bytes),
    /// True: the log lacks what the replica has said before, so that it stays silent. False: nothing of that matters any longer.
    Silent(bool),
}

/// Timers of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostTimer<T> {
    /// A timer of the protocol.
    Protocol(T),
    /// A batch has waited long enough.
    Batch,
    /// A peer that was asked for decided blocks may send none.
    Transfer,
    /// Own state votes may have been lost, or the certificates that they helped to form.
    Votes,
    /// Clients' requests may not have reached the leader.
    Requests,
    /// A replica without its log asks how far the others are.
    Silence,
}

/// An action that a host asks its shell for, in order.
#[derive(Debug)]
pub enum Action<P: Protocol> {
    /// Append a record to the log and report [`Host::durable`](crate::Host::durable) with its number. Appends may be grouped.
    Append(u64, HostRecord<P::Record>),
    /// Send a frame.
    Send(To, Frame<P::Msg>),
    /// Set a timer, replacing one of the same name.
    Timer(HostTimer<P::Timer>, Micros),
    /// Cancel a timer.
    Cancel(HostTimer<P::Timer>),
    /// A block is committed: clients can be answered.
    Committed(BlockMeta, ExecOutcome),
    /// The state after a slot has a certificate of f+1 replicas, see [`Out::Certificate`](phalanx_bft::Out::Certificate): what a
    /// client needs beside the proof of its transaction.
    Certified {
        /// The slot.
        slot: Slot,
        /// Digest of its outcome.
        digest: B256,
        /// The certificate.
        signature: Bytes,
        /// True if this replica tells the clients of the slot's transactions.
        answers: bool,
    },
    /// Older records can go: [`Host::compacted`](crate::Host::compacted) tells what to write instead.
    Stable(Base),
    /// Proof that a replica broke the protocol. Keep it.
    Evidence(Index, Bytes),
    /// A replica sent a wrong signature, which a correct one does not: close its connection for a while, and name it.
    Forged(Index),
    /// The node has stopped. Keep the incident.
    Halted(Box<Incident>),
}
