//! Flags of `net`.

use super::{distances::Distances, faults::Fault, file::Execution};
use clap::Args;
use phalanx_lab::{
    config::{Words, heading, one_of},
    error::Usage,
};
use phalanx_net::{Authentication, Durability, ProtocolName};
use std::path::PathBuf;

/// Ordering protocols.
pub(super) const PROTOCOLS: Words<ProtocolName> = &[
    (ProtocolName::Pbft, "pbft", "PBFT with out-of-order slots"),
    (ProtocolName::Sbft, "sbft", "SBFT: threshold signatures, a fast path, one message per client; n = 3f+2c+1"),
    (ProtocolName::Autobahn, "autobahn", "Lanes of batches, and agreement on cuts of them"),
];

/// Authentication of frames between replicas.
pub(super) const AUTHENTICATIONS: Words<Authentication> = &[
    (Authentication::None, "none", "None: proves nothing, for measurements"),
    (Authentication::Mac, "mac", "Keyed BLAKE3 per frame"),
    (Authentication::Ed25519, "ed25519", "Ed25519 per frame"),
];

/// Moment at which a record of the log counts as durable.
pub(super) const DURABILITIES: Words<Durability> = &[
    (Durability::None, "none", "At once, before it is written: for measurements"),
    (Durability::Group, "group", "After a sync that many records share"),
    (Durability::Each, "each", "After a sync of its own"),
];

#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// Transactions per second; 0: as many as the clients' answers permit
    #[arg(long, default_value_t = 1_000, help_heading = heading::LOAD)]
    pub(crate) tps: u64,
    /// Number of clients, each with one transaction in flight
    #[arg(long, default_value_t = 1_000, help_heading = heading::LOAD)]
    pub(crate) clients: u64,
    /// Time for which transactions are sent, in seconds; 0 only writes the configuration to --dir
    #[arg(long, default_value_t = 10, help_heading = heading::LOAD)]
    pub(crate) seconds: u64,
    /// Time that clients wait for an answer before they send to all replicas, in ms
    #[arg(long, default_value_t = 500, help_heading = heading::LOAD)]
    pub(crate) retry_ms: u64,
    /// Time for the rest to settle after the last transaction, in seconds
    #[arg(long, default_value_t = 60, help_heading = heading::LOAD)]
    pub(crate) drain: u64,
    /// Seed of accounts and losses
    #[arg(long, default_value_t = 1, help_heading = heading::LOAD)]
    pub(crate) seed: u64,
    /// Deal keys that follow from --seed, which everyone knows: for tests
    #[arg(long, help_heading = heading::LOAD)]
    pub(crate) test_keys: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct FaultArgs {
    /// Kill -9 a replica at a second and restart it: INDEX|primary@AT+DOWN, for example primary@3+2; repeatable
    #[arg(long, value_parser = Fault::parse_kill, value_name = "WHICH@AT+DOWN", help_heading = heading::FAULTS)]
    pub(crate) kill: Vec<Fault>,
    /// Stop a replica's process at a second and resume it, as SIGSTOP and SIGCONT do: INDEX|primary@AT+LENGTH; repeatable
    #[arg(long, value_parser = Fault::parse_stop, value_name = "WHICH@AT+LENGTH", help_heading = heading::FAULTS)]
    pub(crate) stop: Vec<Fault>,
    /// Cut replicas off from the others: INDEX[,INDEX]@AT+LENGTH[:holds|:loses], for example 0,1@4+2; repeatable
    #[arg(long, value_parser = Fault::parse_partition, value_name = "GROUP@AT+LENGTH", help_heading = heading::FAULTS)]
    pub(crate) partition: Vec<Fault>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Folder for configuration, keys, logs and states, new or empty [default: a temporary one]
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    pub(crate) dir: Option<PathBuf>,
    /// Write the first message of an SBFT replica that proves a transaction by itself, for `state acknowledged`
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    pub(crate) acknowledgement: Option<PathBuf>,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct NetArgs {
    /// Ordering protocol
    #[arg(long, value_parser = one_of(PROTOCOLS), default_value = "pbft", help_heading = heading::NETWORK)]
    pub(crate) protocol: ProtocolName,
    /// Number of replicas, 4 to 16
    #[arg(long, default_value_t = 4, help_heading = heading::NETWORK)]
    pub(crate) n: usize,
    /// Distances that senders emulate: local, autobahn4, or a JSON file with a table of round-trip times in ms
    #[arg(long, default_value = "local", value_parser = Distances::parse, help_heading = heading::NETWORK)]
    pub(crate) rtt: Distances,
    /// Bandwidth of each link, in Mbit/s [default: unlimited]
    #[arg(long, help_heading = heading::NETWORK)]
    pub(crate) mbits: Option<u64>,
    /// Frames that each link loses, in per mille
    #[arg(long, default_value_t = 0, help_heading = heading::NETWORK)]
    pub(crate) loss: u16,
    /// Maximum number of transactions per batch
    #[arg(long, default_value_t = 100, help_heading = heading::NETWORK)]
    pub(crate) batch: usize,
    /// Threads that check clients' transactions; 0: the worker does (0B)
    #[arg(long, default_value_t = 2, help_heading = heading::NETWORK)]
    pub(crate) batch_threads: u16,
    /// Place of execution
    #[arg(long, value_enum, default_value_t = Execution::Decoupled, help_heading = heading::NETWORK)]
    pub(crate) execution: Execution,
    /// Authentication of frames between replicas
    #[arg(long, value_parser = one_of(AUTHENTICATIONS), default_value = "mac", help_heading = heading::NETWORK)]
    pub(crate) authentication: Authentication,
    /// Durability of the replicas' logs
    #[arg(long, value_parser = one_of(DURABILITIES), default_value = "group", help_heading = heading::NETWORK)]
    pub(crate) durability: Durability,
    /// Slots between two checkpoints
    #[arg(long, default_value_t = 128, help_heading = heading::NETWORK)]
    pub(crate) interval: u64,
    /// Length of a replica's log from which on it is replaced by what is still needed, in KiB
    #[arg(long, default_value_t = phalanx_net::LOG_BYTES >> 10, help_heading = heading::NETWORK)]
    pub(crate) log_kib: u64,
    /// Decided blocks that replicas keep for others, below the stable checkpoint
    #[arg(long, default_value_t = phalanx_net::RETENTION, help_heading = heading::NETWORK)]
    pub(crate) retention: u64,
    /// Blocks from one snapshot for replicas that are further behind to the next; 0 for none
    #[arg(long, default_value_t = phalanx_net::SNAPSHOT_EVERY, help_heading = heading::NETWORK)]
    pub(crate) snapshot_every: u64,
    /// Patience with a primary, in ms
    #[arg(long, default_value_t = 1_000, help_heading = heading::NETWORK)]
    pub(crate) timeout_ms: u64,
    /// Member of a network whose operators make their own keys, as `keys new` writes it, in the order of indices; with --seconds 0.
    /// No key is dealt; repeatable
    #[arg(long, value_name = "FILE", conflicts_with = "test_keys", help_heading = heading::NETWORK)]
    pub(crate) member: Vec<PathBuf>,
    /// Write a network of nodes on this genesis, whose base fee is fixed, for `phalanx node --consensus`; with --seconds 0
    #[arg(long, value_name = "FILE", help_heading = heading::NETWORK)]
    pub(crate) genesis: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) faults: FaultArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl NetArgs {
    /// Maximum number of transactions of the whole run.
    pub(crate) const fn most_txs(&self) -> u64 {
        const FASTEST: u64 = 100_000;
        let rate = if self.load.tps == 0 { FASTEST } else { self.load.tps };
        rate.saturating_mul(self.load.seconds)
    }

    /// All faults.
    pub(crate) fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.faults.kill.iter().chain(&self.faults.stop).chain(&self.faults.partition)
    }

    /// True if replicas prove a transaction in a single message.
    pub(crate) fn acknowledges(&self) -> bool {
        self.protocol == ProtocolName::Sbft && self.authentication != Authentication::None
    }

    /// Checks what the configuration does not.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        let within = |name: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(Usage(format!("--{name} is {value}: it must be between {least} and {most}"))),
        };
        within("n", self.n as u64, 4, 16)?;
        within("clients", self.load.clients, 1, 100_000)?;
        within("tps", self.load.tps, 0, 100_000)?;
        within("seconds", self.load.seconds, 0, 3_600)?;
        within("drain", self.load.drain, 1, 3_600)?;
        within("retry-ms", self.load.retry_ms, 1, 3_600_000)?;
        if let Some(mbits) = self.mbits {
            within("mbits", mbits, 1, 1_000_000)?;
        }
        if self.load.seconds == 0 && self.output.dir.is_none() {
            return Err(Usage("--seconds 0 writes a configuration and starts nothing: say where, with --dir".into()));
        }
        if !self.member.is_empty() && self.load.seconds != 0 {
            return Err(Usage("--member writes a network for others to start: use it with --seconds 0".into()));
        }
        if self.genesis.is_some() && self.load.seconds != 0 {
            return Err(Usage("--genesis writes a network for nodes to start: use it with --seconds 0".into()));
        }
        if !self.member.is_empty() && self.member.len() != self.n {
            return Err(Usage(format!("--n is {} and there are {} --member", self.n, self.member.len())));
        }
        if self.durability == Durability::None && !self.faults.kill.is_empty() {
            let why = "--durability none lets a killed replica contradict its votes: use group or each with --kill";
            return Err(Usage(why.into()));
        }
        for fault in self.faults() {
            fault.check(self.n, self.load.seconds)?;
        }
        if self.output.acknowledgement.is_some() && !self.acknowledges() {
            let why =
                "--acknowledgement needs --protocol sbft with signatures: others prove nothing in a single message";
            return Err(Usage(why.into()));
        }
        Ok(())
    }
}
