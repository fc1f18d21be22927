//! Constants of a host.

use crate::chain::BlockRules;
use alloy_primitives::Address;
use phalanx_bft::{ConfigError, Domain, Micros, Quorums};
use phalanx_pipeline::{Committee, Config};
use std::sync::Arc;

/// Check of the transactions in a proposal, equal at all replicas: what does not pass is never ordered. It looks at the bytes alone.
#[derive(Clone)]
pub struct Content(Arc<Check>);

type Check = dyn Fn(&[u8]) -> bool + Send + Sync;

impl Content {
    /// Transactions of which the check returns true.
    pub fn new(check: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }

    /// Returns true if a transaction passes.
    pub(crate) fn takes(&self, tx: &[u8]) -> bool {
        (self.0)(tx)
    }
}

/// Any bytes.
impl Default for Content {
    fn default() -> Self {
        Self::new(|_| true)
    }
}

impl core::fmt::Debug for Content {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

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
    /// Check of the transactions in proposals.
    pub content: Content,
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
            content: Content::default(),
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
