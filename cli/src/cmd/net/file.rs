//! The configuration file of a network: what all replicas share, and how each opens its engine.

use alloy_primitives::{B256, keccak256};
use anyhow::Context as _;
use clap::ValueEnum;
use phalanx_bft::Index;
use phalanx_keys::{BlsFile, KeyFile, PublicKeys, Roster};
use phalanx_lab::error::Usage;
use phalanx_net::{Beginning, Member, NetConfig, ProtocolName, ReplicaKeys};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// Place of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Execution {
    /// On threads of the engine: 1E
    Decoupled,
    /// On the worker, between two messages: 0E
    Worker,
}

/// The engine of every replica, and the accounts of its genesis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EngineSection {
    /// Funded accounts at genesis.
    pub(crate) accounts: u64,
    /// Transactions that each of them can pay for.
    pub(crate) txs: u64,
    /// Seed of the accounts.
    pub(crate) seed: u64,
    /// Worker threads of the engine.
    pub(crate) threads: usize,
    /// Place of execution.
    pub(crate) execution: Execution,
}

impl EngineSection {
    /// Identifies the genesis state.
    pub(crate) fn genesis(&self) -> B256 {
        let Self { accounts, txs, seed, .. } = self;
        keccak256(format!("phalanx-genesis-1 {accounts} {txs} {seed}"))
    }
}

/// Public part of a member of a network, for all others: public keys, and the addresses of its replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberFile {
    pub(crate) keys: PublicKeys,
    pub(crate) peers: SocketAddr,
    pub(crate) clients: SocketAddr,
}

impl MemberFile {
    /// Reads and checks the file of the member with this index.
    pub(crate) fn read(path: &Path, index: usize) -> Result<Self, Usage> {
        let wrong = |why: String| Usage(format!("{}: {why}", path.display()));
        let file: Self = serde_json::from_slice(&read(path)?).map_err(|error| wrong(error.to_string()))?;
        file.keys.check(index).map_err(|error| wrong(error.to_string()))?;
        Ok(file)
    }
}

/// The configuration file of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkFile {
    pub(crate) network: NetConfig,
    /// Engine of the laboratory's replicas; `None` in a network of nodes, whose genesis is a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) engine: Option<EngineSection>,
    /// Public keys by index, of members that make their own; empty where one command dealt all keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) members: Vec<PublicKeys>,
}

impl NetworkFile {
    /// Reads and checks a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Usage> {
        let wrong = |why: String| Usage(format!("{}: {why}", path.display()));
        let text = read(path)?;
        let file: Self = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        file.network.check().map_err(|error| wrong(error.to_string()))?;
        if let Some(EngineSection { threads, .. }) = file.engine
            && !(1..=256).contains(&threads)
        {
            return Err(wrong(format!("`engine.threads` is {threads}: it must be between 1 and 256")));
        }
        if file.roster()?.is_some_and(|roster| roster.members().len() != file.network.replicas.len()) {
            return Err(wrong("`members` and `network.replicas` have another length".into()));
        }
        Ok(file)
    }

    /// Engine of the laboratory's replicas.
    pub(crate) fn engine(&self) -> Result<&EngineSection, Usage> {
        let why = "the file has no `engine`: it is of a network of nodes, and `phalanx node --consensus` starts each";
        self.engine.as_ref().ok_or_else(|| Usage(why.into()))
    }

    /// Members that make their own keys; `None` where one command dealt all keys.
    pub(crate) fn roster(&self) -> Result<Option<Roster>, Usage> {
        let own = !self.members.is_empty();
        let (instance, epoch) = (self.network.instance, self.network.epoch);
        let roster = own.then(|| Roster::new(instance, self.members.clone())).transpose();
        roster
            .map(|roster| roster.map(|roster| roster.in_epoch(epoch)))
            .map_err(|error| Usage(format!("`members`: {error}")))
    }

    /// Keys of the members' signatures, by index; empty where one command dealt all keys.
    pub(crate) fn signing_keys(&self) -> Vec<B256> {
        self.members.iter().map(PublicKeys::signing).collect()
    }

    /// Digest that members sign to have this network come next.
    pub(crate) fn digest(&self) -> B256 {
        self.network.digest(&self.signing_keys())
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }
}

/// Reads and checks the keys of a replica: with shares of groups where the protocol needs them.
fn keys(path: &Path, protocol: ProtocolName) -> Result<ReplicaKeys, Usage> {
    let bytes = read(path)?;
    let keys = match protocol {
        ProtocolName::Sbft => BlsFile::parse(&bytes).map(ReplicaKeys::from),
        ProtocolName::Pbft | ProtocolName::Autobahn => KeyFile::parse(&bytes).map(ReplicaKeys::from),
    };
    keys.map_err(|error| Usage(format!("{}: {error}", path.display())))
}

/// A replica of a network, as its file describes it.
#[derive(Debug)]
pub(crate) struct OwnReplica {
    pub(crate) file: NetworkFile,
    pub(crate) keys: ReplicaKeys,
    /// Folder of the log.
    pub(crate) folder: PathBuf,
    /// Index of the replica.
    pub(crate) index: u16,
    config: PathBuf,
}

impl OwnReplica {
    /// Reads the file of a network, and the keys of the replica with this index.
    pub(crate) fn read(config: &Path, index: u16) -> Result<Self, Usage> {
        let file = NetworkFile::read(config)?;
        let member = file.network.member(index).map_err(|error| Usage(error.to_string()))?;
        let keys = keys(&beside(config, &member.keys), file.network.protocol)?;
        let of = keys.single().index();
        if of != Index(index) {
            return Err(Usage(format!("{} has the keys of {of}, not of replica {index}", member.keys.display())));
        }
        let folder = beside(config, &member.dir);
        Ok(Self { file, keys, folder, index, config: config.to_path_buf() })
    }

    /// The replica with this folder in a later epoch, as the file of that network beside the present one describes it; `None` if it is no
    /// member there. `network` is the digest that the members have agreed on.
    pub(crate) fn in_epoch(&self, epoch: u64, network: B256) -> Result<Option<Self>, Usage> {
        let path = later(&self.config, self.file.network.epoch, epoch);
        let file = NetworkFile::read(&path)?;
        if file.network.epoch != epoch || !file.members.is_empty() && file.digest() != network {
            let (shown, digest) = (path.display(), file.digest());
            let why = format!("{shown} has the digest {digest}, and the members agreed on {network} for epoch {epoch}");
            return Err(Usage(why));
        }
        let own = |member: &Member| beside(&path, &member.dir) == self.folder;
        let index = file.network.replicas.iter().position(own);
        index.map(|index| Self::read(&path, index as u16)).transpose()
    }
}

/// Trust in a replica's folder, by the flags `--rejoin`, `--moved` and `--join`.
pub(crate) const fn beginning(rejoin: bool, moved: bool, join: bool) -> Beginning {
    match (rejoin, moved, join) {
        (true, ..) => Beginning::Silent,
        (_, true, _) => Beginning::Moved,
        (.., true) => Beginning::Snapshot,
        _ => Beginning::Usual,
    }
}

/// Reads a small file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Usage> {
    const MOST: u64 = 16 << 20;
    let unread = |error: std::io::Error| Usage(format!("{}: {error}", path.display()));
    let length = fs::metadata(path).map_err(unread)?.len();
    if length > MOST {
        return Err(Usage(format!(
            "{} has {length} bytes: a configuration or key file has at most {MOST}",
            path.display()
        )));
    }
    fs::read(path).map_err(unread)
}

/// File of a later network beside that of an epoch: `network-2.json` beside `network-1.json` and `network.json`.
pub(crate) fn later(config: &Path, epoch: u64, next: u64) -> PathBuf {
    let name = config.file_stem().and_then(|name| name.to_str()).unwrap_or("network");
    let first = name.strip_suffix(&format!("-{epoch}")).unwrap_or(name);
    config.with_file_name(format!("{first}-{next}.json"))
}

/// A path of the configuration, which begins at the file's folder if it is relative.
pub(crate) fn beside(config: &Path, path: &Path) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(path)
}
