//! Constants of host and protocols that follow from the configuration.

use super::{MOST_ITEMS, NetConfig};
use phalanx_bft::{Micros, QuorumError, autobahn, pbft, sbft};
use phalanx_host::{BlockRules, HostConfig};
use phalanx_pipeline::Committee;

/// Time that the slow path of SBFT gives the fast one beside the distances, at most, in µs: replicas sync before they sign.
const MOST_WAIT: Micros = 100_000;
/// Length of the cars in one answer, in bytes.
const MOST_CARS_BYTES: usize = 4 << 20;

impl NetConfig {
    pub(crate) fn host(&self, epoch_ms: u64) -> Result<HostConfig, QuorumError> {
        let quorums = self.quorums()?;
        // The time of the genesis is the engine's to say.
        let (gas_limit, base_fee) = (self.gas_limit, self.base_fee);
        let rules = BlockRules { chain: self.chain, gas_limit, base_fee, timestamp_ms: 0 };
        let mut host = HostConfig::new(quorums, self.domain());
        host.pipeline = phalanx_pipeline::Config::validator(Committee::equal(self.replicas.len() as u32));
        // Consensus may run ahead of execution by its window.
        host.pipeline.window = phalanx_pipeline::Window { vote: 24, admit: 48 };
        host.rules = rules;
        host.beneficiary = self.beneficiary;
        host.batch_txs = self.batch_txs;
        host.batch_bytes = self.batch_bytes;
        host.batch_delay = self.batch_delay_us;
        host.resend = self.resend_us;
        host.retention = self.retention;
        host.epoch_ms = epoch_ms;
        Ok(host)
    }

    /// Maximum length of an encoded batch, in bytes: beside its transactions, it has a length for each and a few fields.
    pub(super) const fn encoded_batch(&self) -> usize {
        self.batch_bytes * 2 + 1_024
    }

    pub(crate) fn pbft(&self, epoch_ms: u64) -> Result<pbft::Config, QuorumError> {
        let mut config = pbft::Config::new(self.quorums()?, self.domain());
        config.interval = self.interval;
        config.timeout = self.timeout_us;
        config.resend = self.resend_us;
        config.batch_bytes = self.encoded_batch();
        config.undecided_bytes = config.undecided_bytes.max(2 * config.batch_bytes);
        config.epoch_ms = epoch_ms;
        Ok(config)
    }

    pub(crate) fn sbft(&self, epoch_ms: u64) -> Result<sbft::Config, QuorumError> {
        let mut config = sbft::Config::new(self.quorums()?, self.domain());
        config.interval = self.interval;
        config.timeout = self.timeout_us;
        config.resend = self.resend_us;
        config.batch_bytes = self.encoded_batch();
        config.undecided_bytes = config.undecided_bytes.max(2 * config.batch_bytes);
        config.epoch_ms = epoch_ms;
        // A collector that is away costs no longer than the messages of a slot take to come and go twice.
        config.stagger += 2 * self.farthest();
        config.help += 4 * self.farthest();
        // The farthest replica answers last.
        config.fast_wait.least += 2 * self.farthest();
        config.fast_wait.most = MOST_WAIT + 2 * self.farthest();
        Ok(config)
    }

    pub(crate) fn autobahn(&self, epoch_ms: u64) -> Result<autobahn::Config, QuorumError> {
        let mut config = autobahn::Config::new(self.quorums()?, self.domain());
        config.interval = self.interval.max(config.parallel);
        config.timeout = self.timeout_us;
        config.resend = self.resend_us;
        config.batch_bytes = self.encoded_batch();
        // Blocks of several cars, and answers of several, have few enough items for a frame.
        config.block_bytes = self.batch_bytes.min(MOST_ITEMS / 2);
        config.sync_bytes = MOST_CARS_BYTES;
        config.epoch_ms = epoch_ms;
        Ok(config)
    }

    /// Longest delay of a link, in µs.
    fn farthest(&self) -> Micros {
        self.links.delay_us.iter().flatten().copied().max().unwrap_or(0)
    }
}
