//! The configuration of a network, equal at all replicas.

use alloy_primitives::Address;
use phalanx_bft::{ConfigError, Domain, Index, Micros, QuorumError, Quorums, pbft};
use phalanx_host::{BlockRules, HostConfig};
use phalanx_pipeline::Committee;
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, path::PathBuf};

/// Version of the configuration that this build reads.
pub const VERSION: u32 = 1;

/// A cut of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Frames wait until the link is whole again, as far as the sender's queue has room.
    Holds,
    /// Frames are lost.
    Loses,
}

/// Properties of a link in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Delay in one direction, in µs.
    pub delay_us: Micros,
    /// Bandwidth, in bytes per second; 0: unlimited.
    pub bandwidth: u64,
    /// Frames lost, in per mille.
    pub loss_per_mille: u16,
    /// The cut; `None` for a link that works.
    pub cut: Option<Cut>,
}

/// An ordering protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolName {
    /// PBFT with out-of-order slots.
    Pbft,
}

/// Authentication of the frames between replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authentication {
    /// None, and simulated signatures of statements. Proves nothing: for measurements only.
    None,
    /// Keyed BLAKE3 per frame, Ed25519 for statements that travel further.
    Mac,
    /// Ed25519 per frame and for statements.
    Ed25519,
}

/// Moment at which a record of the log counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// At once, before it is written. A crash may make a replica contradict its votes: for measurements only.
    None,
    /// After a sync that covers all records that came during the last one.
    Group,
    /// After a sync of its own.
    Each,
}

/// A replica of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Address that other replicas connect to.
    pub peers: SocketAddr,
    /// Address that clients connect to.
    pub clients: SocketAddr,
    /// File with the replica's keys. Relative paths begin at the folder of the configuration.
    pub keys: PathBuf,
    /// Folder of log and state. Relative paths begin at the folder of the configuration.
    pub dir: PathBuf,
}

/// Emulated links, applied by senders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Links {
    /// Delay from replica `i` to replica `j` at `[i][j]`, in µs. Empty: none.
    pub delay_us: Vec<Vec<Micros>>,
    /// Bandwidth of each link, in bytes per second; 0: unlimited.
    pub bandwidth: u64,
    /// Frames lost, in per mille.
    pub loss_per_mille: u16,
    /// Seed of the losses.
    pub seed: u64,
}

/// The configuration of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetConfig {
    /// [`VERSION`].
    pub version: u32,
    /// Ordering protocol.
    pub protocol: ProtocolName,
    /// Chain id.
    pub chain: u64,
    /// Number of the replica set.
    pub epoch: u64,
    /// Maximum number of faulty replicas.
    pub faults: u16,
    /// Authentication of frames.
    pub authentication: Authentication,
    /// Durability of the log.
    pub durability: Durability,
    /// Threads that check clients' transactions before the worker gets them; 0: the worker checks.
    pub batch_threads: u16,
    /// Maximum number of transactions per batch.
    pub batch_txs: usize,
    /// Maximum length of a batch's transactions, in bytes.
    pub batch_bytes: usize,
    /// Time that a batch waits to become full, in µs.
    pub batch_delay_us: Micros,
    /// Slots between two checkpoints.
    pub interval: u64,
    /// Patience with a primary, in µs.
    pub timeout_us: Micros,
    /// Time between two repetitions of what others may have missed, in µs.
    pub resend_us: Micros,
    /// Decided blocks kept below the stable checkpoint, for replicas that are behind.
    pub retention: u64,
    /// Gas that a block may use.
    pub gas_limit: u64,
    /// Wei per gas that is burnt.
    pub base_fee: u64,
    /// Receiver of fees.
    pub beneficiary: Address,
    /// Emulated links.
    #[serde(default)]
    pub links: Links,
    /// Replicas by index.
    pub replicas: Vec<Member>,
}

/// Reason why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetConfigError {
    /// The version is another one.
    #[error("the configuration has version {version}, and this program reads version {VERSION}")]
    Version {
        /// Version of the configuration.
        version: u32,
    },
    /// Numbers of replicas and faults do not fit.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
    /// A constant is out of range.
    #[error(transparent)]
    Constant(#[from] ConfigError),
    /// Two addresses are equal.
    #[error("{address} is listed twice: every replica needs two addresses of its own")]
    Address {
        /// The address.
        address: SocketAddr,
    },
    /// Two replicas share a folder.
    #[error("replicas {first} and {second} share the folder {}", dir.display())]
    Folder {
        /// Lower index.
        first: usize,
        /// Higher index.
        second: usize,
        /// The folder.
        dir: PathBuf,
    },
    /// The table of delays has another shape.
    #[error("`links.delay_us` must have {n} rows of {n} delays, one row per replica")]
    Delays {
        /// Number of replicas.
        n: usize,
    },
    /// The index names no replica.
    #[error("there is no replica {index}: the configuration lists {n}, from 0")]
    Index {
        /// The index.
        index: u16,
        /// Number of replicas.
        n: usize,
    },
}

impl NetConfig {
    /// Checks every constant.
    ///
    /// # Errors
    /// Names the first that no network can run with.
    pub fn check(&self) -> Result<(), NetConfigError> {
        const HOUR: Micros = 3_600_000_000;
        if self.version != VERSION {
            return Err(NetConfigError::Version { version: self.version });
        }
        let n = self.replicas.len();
        self.quorums()?;
        let delays = &self.links.delay_us;
        if !delays.is_empty() && (delays.len() != n || delays.iter().any(|row| row.len() != n)) {
            return Err(NetConfigError::Delays { n });
        }
        for delay in delays.iter().flatten() {
            ConfigError::within("links.delay_us", *delay, 0, HOUR)?;
        }
        ConfigError::within("links.loss_per_mille", self.links.loss_per_mille.into(), 0, 999)?;
        ConfigError::within("batch_threads", self.batch_threads.into(), 0, 64)?;
        ConfigError::within("batch_bytes", self.batch_bytes as u64, 1 << 10, 64 << 20)?;
        ConfigError::within("gas_limit", self.gas_limit, 21_000, u64::MAX)?;
        let mut addresses: Vec<SocketAddr> = self.replicas.iter().flat_map(|of| [of.peers, of.clients]).collect();
        addresses.sort_unstable();
        if let Some(twice) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(NetConfigError::Address { address: twice[0] });
        }
        for (second, member) in self.replicas.iter().enumerate() {
            if let Some(first) = self.replicas[..second].iter().position(|other| other.dir == member.dir) {
                return Err(NetConfigError::Folder { first, second, dir: member.dir.clone() });
            }
        }
        self.host(0)?.check()?;
        self.pbft(0)?.check()?;
        Ok(())
    }

    /// The replica with this index.
    ///
    /// # Errors
    /// There is none.
    pub fn member(&self, index: u16) -> Result<&Member, NetConfigError> {
        let n = self.replicas.len();
        self.replicas.get(usize::from(index)).ok_or(NetConfigError::Index { index, n })
    }

    /// Replicas and faults.
    ///
    /// # Errors
    /// There are too few or too many replicas.
    pub fn quorums(&self) -> Result<Quorums, QuorumError> {
        Quorums::new(self.replicas.len(), self.faults.into())
    }

    /// Separates signatures from those of other networks.
    #[must_use]
    pub const fn domain(&self) -> Domain {
        Domain { chain: self.chain, epoch: self.epoch }
    }

    /// The link from a replica to another.
    #[must_use]
    pub fn link(&self, from: Index, to: Index) -> Link {
        let row = self.links.delay_us.get(usize::from(from.0));
        let delay_us = row.and_then(|row| row.get(usize::from(to.0))).copied().unwrap_or(0);
        let Links { bandwidth, loss_per_mille, .. } = self.links;
        Link { delay_us, bandwidth, loss_per_mille, cut: None }
    }

    /// Maximum length of a frame, in bytes: an answer to a replica that is behind, or a batch.
    #[must_use]
    pub const fn most_frame(&self) -> usize {
        // 4 MiB of blocks, one batch more, and a kilobyte per replica for statements of a view change.
        (8 << 20) + 2 * self.batch_bytes + self.replicas.len() * (64 << 10)
    }

    pub(crate) fn host(&self, epoch_ms: u64) -> Result<HostConfig, QuorumError> {
        let quorums = self.quorums()?;
        let rules = BlockRules { chain: self.chain, gas_limit: self.gas_limit, base_fee: self.base_fee };
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

    pub(crate) fn pbft(&self, epoch_ms: u64) -> Result<pbft::Config, QuorumError> {
        let mut config = pbft::Config::new(self.quorums()?, self.domain());
        config.interval = self.interval;
        config.timeout = self.timeout_us;
        config.resend = self.resend_us;
        // Beside its transactions, a batch has a length for each and a few fields.
        config.batch_bytes = self.batch_bytes * 2 + 1_024;
        config.epoch_ms = epoch_ms;
        Ok(config)
    }

    /// Everything that replicas must agree on, in words.
    pub(crate) fn agreed(&self) -> Vec<String> {
        let Self { protocol, chain, epoch, faults, authentication, interval, batch_bytes, .. } = self;
        let Self { gas_limit, base_fee, timeout_us, .. } = self;
        vec![
            format!("{protocol:?} {authentication:?} of {} replicas, {faults} faulty", self.replicas.len()),
            format!("chain {chain} epoch {epoch} interval {interval} timeout {timeout_us} batch {batch_bytes}"),
            format!("gas {gas_limit} fee {base_fee}"),
        ]
    }
}

/// Time in µs from a primary's proposal until f+1 replicas know the order in PBFT, with these one-way delays alone.
#[must_use]
pub fn order_floor(delay_us: &[Vec<Micros>], quorums: Quorums, primary: usize) -> Micros {
    let n = delay_us.len();
    let nth = |mut times: Vec<Micros>, nth: usize| {
        times.sort_unstable();
        times.get(nth.saturating_sub(1)).copied().unwrap_or(0)
    };
    let proposed: Vec<Micros> = (0..n).map(|to| if to == primary { 0 } else { delay_us[primary][to] }).collect();
    let hop = |from: usize, to: usize, at: Micros| if from == to { at } else { at + delay_us[from][to] };
    let prepared: Vec<Micros> = (0..n)
        .map(|to| {
            let votes = (0..n).filter(|from| *from != primary).map(|from| hop(from, to, proposed[from])).collect();
            nth(votes, quorums.quorum() - 1).max(proposed[to])
        })
        .collect();
    let decided: Vec<Micros> =
        (0..n).map(|to| nth((0..n).map(|from| hop(from, to, prepared[from])).collect(), quorums.quorum())).collect();
    nth(decided, quorums.one_correct())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_delays_give_three_of_them() {
        for n in [4, 7, 8] {
            let delays: Vec<Vec<Micros>> =
                (0..n).map(|from| (0..n).map(|to| if from == to { 0 } else { 10 }).collect()).collect();
            let quorums = Quorums::new(n, (n - 1) / 3).expect("a legal size");
            assert!((0..n).all(|primary| order_floor(&delays, quorums, primary) == 30));
        }
        // A distant replica is not waited for.
        let mut delays = vec![vec![10; 4]; 4];
        (0..4).for_each(|other| (delays[3][other], delays[other][3]) = (500, 500));
        let quorums = Quorums::new(4, 1).expect("a legal size");
        assert_eq!(order_floor(&delays, quorums, 0), 30);
        assert_eq!(order_floor(&delays, quorums, 3), 520);
    }
}
