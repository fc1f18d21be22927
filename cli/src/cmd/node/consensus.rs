//! Flags of `node` that name a consensus: CometBFT, a consensus client, or the replicas of a paper's protocol.

use super::engine_api::EngineApiArgs;
use crate::cmd::net::{OwnReplica, beginning};
use clap::{Args, ValueEnum, builder::BoolishValueParser};
use phalanx_lab::{config::heading, error::Usage};
use phalanx_node::{BlockSource, CometConfig, ReplicaConfig, net::ProtocolName};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// Source of the order of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Consensus {
    /// CometBFT v0.38, which connects by ABCI
    Cometbft,
    /// A consensus client, which calls the Engine API
    Engine,
    /// PBFT, in this process
    Pbft,
    /// SBFT, in this process
    Sbft,
    /// Autobahn, in this process
    Autobahn,
}

impl Consensus {
    /// Protocol of the replicas; `None` if others order the blocks.
    pub(crate) const fn protocol(self) -> Option<ProtocolName> {
        match self {
            Self::Cometbft | Self::Engine => None,
            Self::Pbft => Some(ProtocolName::Pbft),
            Self::Sbft => Some(ProtocolName::Sbft),
            Self::Autobahn => Some(ProtocolName::Autobahn),
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ConsensusArgs {
    /// Let consensus order the blocks instead of this node
    #[arg(long, value_enum, help_heading = heading::BLOCKS)]
    consensus: Option<Consensus>,
    /// Address that CometBFT connects to, its proxy_app
    #[arg(long, value_name = "ADDRESS", default_value_t = CometConfig::default().abci, help_heading = heading::BLOCKS)]
    abci: SocketAddr,
    /// Address of CometBFT's own RPC, which gets the transactions that JSON-RPC admits
    #[arg(long, value_name = "ADDRESS", default_value_t = CometConfig::default().rpc, help_heading = heading::BLOCKS)]
    comet_rpc: SocketAddr,
    /// Heights from one snapshot for nodes that join to the next; 0 for none. With --consensus cometbft
    #[arg(long, value_name = "N", default_value_t = CometConfig::default().snapshot_every, help_heading = heading::BLOCKS)]
    snapshot_every: u64,
    /// Number of snapshots that are offered, the newest
    #[arg(long, value_name = "N", default_value_t = CometConfig::default().snapshots, help_heading = heading::BLOCKS)]
    snapshots: usize,
    /// Join by a snapshot, if CometBFT offers one to this empty node, instead of executing the chain from its first block
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = BoolishValueParser::new(), value_name = "BOOL", hide_possible_values = true, help_heading = heading::BLOCKS)]
    state_sync: bool,
    #[command(flatten)]
    engine_api: EngineApiArgs,
    /// Network of replicas that this node is one of, with --consensus pbft, sbft or autobahn: `phalanx net --genesis` writes the file
    #[arg(long, value_name = "FILE", help_heading = heading::BLOCKS)]
    pub(super) network: Option<PathBuf>,
    /// Index of this node's replica, from 0
    #[arg(long, value_name = "N", help_heading = heading::BLOCKS)]
    pub(super) index: Option<u16>,
    /// Rejoin without the newest log of the replica: it is silent until it cannot contradict what it may have said
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = BoolishValueParser::new(), value_name = "BOOL", hide_possible_values = true, help_heading = heading::BLOCKS)]
    rejoin: bool,
    /// Trust a folder of the replica that was moved or restored to be its newest one
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = BoolishValueParser::new(), value_name = "BOOL", hide_possible_values = true, help_heading = heading::BLOCKS)]
    moved: bool,
    /// Join by a snapshot of the other replicas' state, whatever the folders hold: blocks below it are not kept
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = BoolishValueParser::new(), value_name = "BOOL", hide_possible_values = true, help_heading = heading::BLOCKS)]
    join: bool,
}

impl ConsensusArgs {
    /// Returns true if no consensus is named.
    pub(super) const fn is_none(&self) -> bool {
        self.consensus.is_none()
    }

    /// Returns true if replicas order the blocks.
    pub(super) fn has_replicas(&self) -> bool {
        self.consensus.is_some_and(|consensus| consensus.protocol().is_some())
    }

    /// Replica of this node, as the files of its network describe it.
    pub(super) fn replica(&self) -> Result<Option<ReplicaConfig>, Usage> {
        let usage = |why: &str| Err(Usage(why.into()));
        let Some(protocol) = self.consensus.and_then(Consensus::protocol) else {
            return match self.network {
                Some(_) => usage("--network is of replicas: --consensus names their protocol"),
                None => Ok(None),
            };
        };
        let (Some(network), Some(index)) = (&self.network, self.index) else {
            return usage("replicas order the blocks: --network FILE and --index N say which one this node is");
        };
        if self.rejoin && self.moved {
            return usage("a folder is the newest one, with --moved, or it is not, with --rejoin");
        }
        if self.join && (self.rejoin || self.moved) {
            return usage("--join needs no folder, and --rejoin and --moved go on with one");
        }
        let OwnReplica { file, keys, folder, .. } = OwnReplica::read(network, index)?;
        if file.network.protocol != protocol {
            let of = format!("{:?}", file.network.protocol).to_lowercase();
            return usage(&format!("{} is of --consensus {of}", network.display()));
        }
        let beginning = beginning(self.rejoin, self.moved, self.join);
        Ok(Some(ReplicaConfig { network: file.network, keys, folder, beginning }))
    }

    /// Source of the blocks of a node in a folder, which may follow another.
    pub(super) fn source(
        &self,
        folder: &Path,
        replica: Option<ReplicaConfig>,
        followed: Option<String>,
    ) -> Result<BlockSource, Usage> {
        let &Self { abci, comet_rpc: rpc, snapshot_every, snapshots, state_sync, .. } = self;
        Ok(match (followed, self.consensus, replica) {
            (Some(_), Some(_), _) => {
                let why = "a node that follows another makes no blocks, and no consensus orders any for it";
                return Err(Usage(why.into()));
            }
            (Some(url), None, _) => BlockSource::Followed(url),
            (None, _, Some(replica)) => BlockSource::Replica(Box::new(replica)),
            (None, Some(Consensus::Cometbft), _) => {
                BlockSource::Comet(CometConfig { abci, rpc, snapshot_every, snapshots, state_sync })
            }
            (None, Some(Consensus::Engine), _) => BlockSource::Client(self.engine_api.config(folder)),
            _ => BlockSource::Own,
        })
    }
}
