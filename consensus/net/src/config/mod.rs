//! The configuration of a network, equal at all replicas.

mod bounds;
mod defaults;
mod epoch;
mod error;
mod protocols;
mod floor;

pub(crate) use bounds::MOST_ITEMS;
pub use defaults::{LOG_BYTES, RETENTION, SNAPSHOT_EVERY};
pub use epoch::Before;
pub(crate) use epoch::{Earlier, EarlierError};
pub use error::NetConfigError;
pub use floor::order_floor;

use alloy_primitives::{Address, B256};
use phalanx_bft::{
    ConfigError, Domain, Index, Micros, Protocol as _, QuorumError, Quorums, autobahn::Autobahn, pbft::Pbft, sbft::Sbft,
};
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, path::PathBuf};

/// Version of the configuration that this build reads.
pub const VERSION: u32 = 2;

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
    /// SBFT: collectors, threshold signatures, a fast path.
    Sbft,
    /// Autobahn: lanes of batches, and agreement on cuts of them.
    Autobahn,
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
    /// Number of the replica set: one more with each change of members.
    pub epoch: u64,
    /// Members of the epoch before; `None` in the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// Name of the network, random for each: what its replicas sign means nothing in another, also with equal keys and genesis. Zero
    /// for a network that was dealt before networks had names.
    #[serde(default)]
    pub instance: B256,
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
    /// Heights between two snapshots of the state, which replicas that are behind take from others; 0: none. Two are offered at a time.
    #[serde(default = "defaults::snapshot_every")]
    pub snapshot_every: u64,
    /// Length from which on a replica replaces its log by what it still needs, in bytes; at least double the last replacement.
    #[serde(default = "defaults::log_bytes")]
    pub log_bytes: u64,
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

impl NetConfig {
    /// A network of these replicas, of which as many may be faulty as their number permits: authenticated frames, synced logs, links as
    /// they are. Gas has no limit and no price.
    #[must_use]
    pub fn new(protocol: ProtocolName, chain: u64, instance: B256, replicas: Vec<Member>) -> Self {
        Self {
            version: VERSION,
            protocol,
            chain,
            epoch: 0,
            before: None,
            instance,
            faults: (replicas.len().saturating_sub(1) / 3) as u16,
            authentication: Authentication::Mac,
            durability: Durability::Group,
            batch_threads: 2,
            batch_txs: 100,
            batch_bytes: 1 << 20,
            batch_delay_us: 2_000,
            interval: 128,
            timeout_us: 1_000_000,
            resend_us: 100_000,
            retention: RETENTION,
            snapshot_every: SNAPSHOT_EVERY,
            log_bytes: LOG_BYTES,
            gas_limit: u64::MAX,
            base_fee: 0,
            beneficiary: Address::ZERO,
            links: Links::default(),
            replicas,
        }
    }

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
        if (self.epoch > 0) != self.before.is_some() || self.epoch > 0 && self.instance.is_zero() {
            return Err(NetConfigError::Epoch { epoch: self.epoch });
        }
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
        ConfigError::within("log_bytes", self.log_bytes, 1 << 10, 1 << 40)?;
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
        match self.protocol {
            ProtocolName::Pbft => Pbft::check(&self.pbft(0)?)?,
            ProtocolName::Sbft => Sbft::check(&self.sbft(0)?)?,
            ProtocolName::Autobahn => Autobahn::check(&self.autobahn(0)?)?,
        }
        Ok(self.check_window()?)
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
        Domain { chain: self.chain, epoch: self.epoch, instance: self.instance }
    }

    /// The link from a replica to another.
    #[must_use]
    pub fn link(&self, from: Index, to: Index) -> Link {
        let row = self.links.delay_us.get(usize::from(from.0));
        let delay_us = row.and_then(|row| row.get(usize::from(to.0))).copied().unwrap_or(0);
        let Links { bandwidth, loss_per_mille, .. } = self.links;
        Link { delay_us, bandwidth, loss_per_mille, cut: None }
    }

    /// Everything that replicas must agree on, in words.
    pub(crate) fn agreed(&self) -> Vec<String> {
        let Self { protocol, chain, epoch, faults, authentication, interval, batch_bytes, .. } = self;
        let Self { gas_limit, base_fee, timeout_us, instance, .. } = self;
        vec![
            format!("{protocol:?} {authentication:?} of {} replicas, {faults} faulty", self.replicas.len()),
            format!("chain {chain} epoch {epoch} interval {interval} timeout {timeout_us} batch {batch_bytes}"),
            format!("gas {gas_limit} fee {base_fee} instance {instance}"),
        ]
    }
}
