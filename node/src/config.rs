//! Settings of a node. Nothing here reads flags, files or the environment: the command does.

use crate::{error::NodeError, keys::DevAccount, remote::Remote, upgrades::Upgrades};
use phalanx::{
    RootKind,
    alloy::{
        genesis::Genesis,
        primitives::{Address, Bytes},
    },
    chain::ChainSpec,
};
use phalanx_net::{Beginning, NetConfig, ReplicaKeys};
use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

/// Chain id of a chain for development unless another one is named: that of geth's.
pub const DEV_CHAIN: u64 = 1337;

/// Place of a node's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// A folder of the caller's: a restart continues there.
    Folder(PathBuf),
    /// A folder of the caller's that RocksDB is used in for the state.
    #[cfg(feature = "rocksdb")]
    Rocks(PathBuf),
}

impl StorePlace {
    /// The folder.
    pub fn folder(&self) -> &std::path::Path {
        match self {
            Self::Folder(path) => path,
            #[cfg(feature = "rocksdb")]
            Self::Rocks(path) => path,
        }
    }
}

/// Faults that a committed block survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut.
    #[default]
    Block,
    /// kill -9, but no power cut.
    Async,
}

/// When blocks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Production {
    /// As soon as a transaction waits.
    Instant,
    /// Once in every period: as soon as a transaction waits, or at its end. On a chain for development always at its end.
    Every(Duration),
    /// Never: the node serves what it has.
    Off,
}

/// Settings of a chain that CometBFT orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CometConfig {
    /// Address that the node listens on for CometBFT (`proxy_app`). Port 0 takes a free one.
    pub abci: SocketAddr,
    /// Address of CometBFT's own RPC, which gets the transactions that JSON-RPC admits.
    pub rpc: SocketAddr,
    /// Number of heights from one snapshot for other nodes to the next; 0 for none.
    pub snapshot_every: u64,
    /// Number of snapshots that are offered, the newest.
    pub snapshots: usize,
    /// True if a node without a chain takes a snapshot when CometBFT offers one. False executes the chain from its first block.
    pub state_sync: bool,
}

impl Default for CometConfig {
    /// CometBFT's own defaults, on the loopback address.
    fn default() -> Self {
        Self {
            abci: SocketAddr::from(([127, 0, 0, 1], 26658)),
            rpc: SocketAddr::from(([127, 0, 0, 1], 26657)),
            snapshot_every: 1000,
            snapshots: 2,
            state_sync: false,
        }
    }
}

/// Settings of a chain whose head a consensus client chooses over the Engine API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineApiConfig {
    /// Address of the Engine API, HTTP and WebSocket. Port 0 takes a free one.
    pub address: SocketAddr,
    /// File of the secret that client and node share, 64 hexadecimal digits. It is made if it is not there.
    pub jwt: PathBuf,
    /// Extra data of built blocks, at most 32 bytes.
    pub extra_data: Bytes,
    /// First bytes of the commit that the program is built from, for the client; zero if it is unknown.
    pub commit: [u8; 4],
}

impl EngineApiConfig {
    /// Settings with empty extra data and an unknown commit.
    pub const fn new(address: SocketAddr, jwt: PathBuf) -> Self {
        Self { address, jwt, extra_data: Bytes::new(), commit: [0; 4] }
    }

    /// Settings of the server for the client: the methods that the specification demands, for bodies as long as a payload.
    pub(crate) fn limits(&self, rpc: &RpcConfig) -> RpcConfig {
        RpcConfig {
            address: self.address,
            namespaces: ["engine", "eth", "net", "web3"].map(Into::into).to_vec(),
            cors: Vec::new(),
            max_request: MOST_PAYLOAD,
            max_connections: CLIENTS,
            ..rpc.clone()
        }
    }
}

/// Settings of a chain that the replicas of a paper's protocol order: this node is one of them.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Configuration of the network, equal at all replicas. Chain id, gas limit and base fee are the genesis's.
    pub network: NetConfig,
    /// Keys of this replica.
    pub keys: ReplicaKeys,
    /// Folder of the replica's log.
    pub folder: PathBuf,
    /// Trust in that folder.
    pub beginning: Beginning,
}

/// Namespaces of JSON-RPC. Those of [`DEV_NAMESPACES`] need a chain for development.
pub const NAMESPACES: [&str; 13] = [
    "eth", "net", "web3", "txpool", "debug", "phalanx", "trace", "ots", "erigon", "personal", "evm", "anvil", "hardhat",
];

/// Namespaces of methods that a node has on a chain for development alone.
pub const DEV_NAMESPACES: [&str; 4] = ["personal", "evm", "anvil", "hardhat"];

/// Settings of a node that is the producer of a chain for development.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Development {
    /// Accounts that the node signs for.
    pub accounts: Vec<DevAccount>,
}

/// Maximum size of a request of a consensus client, in bytes: a payload of 60 MB as hexadecimal digits.
const MOST_PAYLOAD: u32 = 128 << 20;

/// Maximum number of connections of consensus clients.
const CLIENTS: u32 = 64;

/// Maximum of [`RpcConfig::max_calls`]: each call holds a thread.
const MOST_CALLS: usize = 1_024;

/// Settings of the JSON-RPC server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcConfig {
    /// Address of HTTP and WebSocket, one port for both. Port 0 takes a free one.
    pub address: SocketAddr,
    /// Namespaces that are served, of [`NAMESPACES`].
    pub namespaces: Vec<String>,
    /// Origins of web pages that may call; `*` for all.
    pub cors: Vec<String>,
    /// Names of this host that requests may have; `*` for all. Empty: on a loopback address `localhost` alone, else all.
    pub hosts: Vec<String>,
    /// Maximum gas of a call, an estimate or a trace.
    pub gas_cap: u64,
    /// Maximum number of blocks in the range of a log query.
    pub max_range: u64,
    /// Maximum number of logs in an answer.
    pub max_logs: usize,
    /// Maximum number of requests in a batch.
    pub max_batch: u32,
    /// Maximum size of a request, in bytes.
    pub max_request: u32,
    /// Maximum size of an answer, in bytes.
    pub max_response: u32,
    /// Maximum number of bytes of all requests that arrive or are answered.
    pub max_request_bytes: usize,
    /// Maximum number of bytes of all answers and notifications that are made or not read yet.
    pub max_answer_bytes: usize,
    /// Maximum number of connections.
    pub max_connections: u32,
    /// Maximum number of requests of a WebSocket that are not answered yet. Nothing more is read from it meanwhile.
    pub max_in_flight: usize,
    /// Maximum number of bytes of notifications that wait for a WebSocket.
    pub max_behind: usize,
    /// Time for which a connection may be idle.
    pub idle: Duration,
    /// Time for which nothing of a request may arrive, and nothing of an answer be read.
    pub patience: Duration,
    /// Least speed of a request and of an answer that take longer than that, in bytes per second.
    pub rate: u64,
    /// Maximum number of subscriptions of a connection.
    pub max_subscriptions: u32,
    /// Maximum number of installed filters.
    pub max_filters: usize,
    /// Time after which a filter that is not asked for is removed.
    pub filter_timeout: Duration,
    /// Maximum number of calls, traces and log queries that run at once, from 1 to 1024. Others wait.
    pub max_calls: usize,
    /// Maximum time that a call, a trace or a log query waits for its turn.
    pub max_queued: Duration,
    /// Maximum time that a trace or a log query takes. The gas of other calls bounds theirs.
    pub max_run: Duration,
    /// Maximum number of bytes that a trace records.
    pub max_trace: usize,
    /// Maximum time that `eth_sendRawTransactionSync` waits for a receipt.
    pub max_wait: Duration,
}

impl Default for RpcConfig {
    /// On the loopback address, without the namespaces of explorers, whose traces are dear: `debug`, `trace`, `ots`, `erigon`.
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 8545)),
            namespaces: ["eth", "net", "web3", "txpool", "phalanx"].map(Into::into).to_vec(),
            cors: Vec::new(),
            hosts: Vec::new(),
            gas_cap: 50_000_000,
            max_range: 100_000,
            max_logs: 20_000,
            max_batch: 1_000,
            max_request: 15 << 20,
            max_response: 160 << 20,
            max_request_bytes: 256 << 20,
            max_answer_bytes: 512 << 20,
            max_connections: 500,
            max_in_flight: 32,
            max_behind: 4 << 20,
            idle: Duration::from_secs(120),
            patience: Duration::from_secs(20),
            rate: 64 << 10,
            max_subscriptions: 128,
            max_filters: 1_000,
            filter_timeout: Duration::from_secs(300),
            max_calls: 16,
            max_queued: Duration::from_secs(10),
            max_run: Duration::from_secs(30),
            max_trace: 256 << 20,
            max_wait: Duration::from_secs(30),
        }
    }
}

/// Address of a binary ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IngressAddress {
    /// Address and port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl core::fmt::Display for IngressAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for IngressAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("unix:PATH names a socket".into()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| "an address as 127.0.0.1:8547, or unix:PATH".into()),
        }
    }
}

/// Source of a node's blocks.
#[derive(Clone, Debug, Default)]
pub enum BlockSource {
    /// The node itself: [`NodeConfig::production`] says when.
    #[default]
    Own,
    /// CometBFT orders them. Then gas limit and beneficiary are not the node's to choose: the genesis has the one, and the
    /// proposer of a block is the other.
    Comet(CometConfig),
    /// A consensus client chooses the head over the Engine API. Then the fees of a block go to the account that the client names.
    Client(EngineApiConfig),
    /// Replicas of a paper's protocol order them, of which one is here. As with CometBFT, the genesis has the gas limit; the network
    /// names the receiver of the fees.
    Replica(Box<ReplicaConfig>),
    /// A node that this one follows, by the address of its JSON-RPC, as `http://127.0.0.1:8545`. It needs the namespace `phalanx`.
    Followed(String),
}

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Chain and its first accounts.
    pub genesis: Genesis,
    /// Forks that are laid over those of the genesis.
    pub upgrades: Upgrades,
    /// Place of the data.
    pub store: StorePlace,
    /// Faults that a committed block survives.
    pub durability: Durability,
    /// Number of older states that can be read.
    pub history: usize,
    /// Number of blocks whose bodies and receipts are kept; `None` for all.
    pub keep_blocks: Option<u64>,
    /// Size after which a segment of the block store is closed, in bytes.
    pub segment_bytes: u64,
    /// Number of worker threads of the engine; `None` for one per core.
    pub threads: Option<usize>,
    /// When blocks are made.
    pub production: Production,
    /// Source of the blocks.
    pub source: BlockSource,
    /// Gas limit of made blocks; `None` for the genesis's. A chain with another one gets there by less than 1/1024 per block.
    pub gas_limit: Option<u64>,
    /// Account that gets the fees of made blocks.
    pub beneficiary: Address,
    /// Minimum tip of a transaction, in wei per gas.
    pub min_tip: u128,
    /// Maximum memory of recovered transactions, in bytes: a block's were recovered for the pool before.
    pub recovered_bytes: usize,
    /// Methods of a node for development; `None` for none. The genesis must be of a chain for development
    /// ([`into_development`](crate::into_development)), and this node the producer of its blocks.
    pub development: Option<Development>,
    /// Block of a remote chain that a chain for development goes on from; `None` for a chain from its genesis on. The genesis is
    /// [above](Remote::put_above) that block.
    pub remote: Option<Remote>,
    /// JSON-RPC.
    pub rpc: RpcConfig,
    /// Addresses of the binary ingress. Sizes, connections and times are bounded as those of JSON-RPC.
    pub ingress: Vec<IngressAddress>,
    /// Address of the metrics and the health page; `None` for none.
    pub metrics: Option<SocketAddr>,
}

impl NodeConfig {
    /// Creates the settings of a node with defaults, which serves and makes no blocks.
    pub fn new(genesis: Genesis, store: StorePlace) -> Self {
        Self {
            genesis,
            upgrades: Upgrades::default(),
            store,
            durability: Durability::default(),
            history: 128,
            keep_blocks: None,
            segment_bytes: 256 << 20,
            threads: None,
            production: Production::Off,
            source: BlockSource::default(),
            gas_limit: None,
            beneficiary: Address::ZERO,
            min_tip: 0,
            recovered_bytes: 256 << 20,
            development: None,
            remote: None,
            rpc: RpcConfig::default(),
            ingress: Vec::new(),
            metrics: None,
        }
    }

    /// Returns true if a consensus of several validators orders the blocks.
    pub(crate) const fn is_ordered(&self) -> bool {
        matches!(self.source, BlockSource::Comet(_) | BlockSource::Replica(_))
    }

    /// CometBFT, if it orders the blocks.
    pub(crate) const fn comet(&self) -> Option<CometConfig> {
        if let BlockSource::Comet(comet) = self.source { Some(comet) } else { None }
    }

    /// The Engine API, if a consensus client chooses the head.
    pub(crate) const fn engine_api(&self) -> Option<&EngineApiConfig> {
        if let BlockSource::Client(api) = &self.source { Some(api) } else { None }
    }

    /// Replica of this node, if replicas order the blocks.
    pub(crate) fn replica(&self) -> Option<&ReplicaConfig> {
        if let BlockSource::Replica(replica) = &self.source { Some(replica) } else { None }
    }

    /// Returns true if the replicas of such nodes offer snapshots: one that is behind can join again. Ethereum's root binds none.
    #[must_use]
    pub fn offers_snapshots(&self) -> bool {
        let root = ChainSpec::from_genesis(&self.genesis).map(|chain| chain.root());
        let is_bound = root.is_ok_and(|root| root != RootKind::Ethereum);
        is_bound && self.replica().is_some_and(|replica| replica.network.snapshot_every > 0)
    }

    /// Checks that the settings go together.
    pub(crate) fn check(&self) -> Result<(), NodeError> {
        let is_own = self.production != Production::Off || self.gas_limit.is_some() || !self.beneficiary.is_zero();
        if self.is_ordered() && is_own {
            let why = "CometBFT or replicas order the blocks: times are theirs, the gas limit is the genesis's, and they say who \
                       gets the fees";
            return Err(NodeError::Setting(why.into()));
        }
        let follows = matches!(self.source, BlockSource::Followed(_));
        if follows && is_own {
            return Err(NodeError::Setting("a node that follows another makes no blocks".into()));
        }
        let chain = ChainSpec::from_genesis(&self.genesis).map_err(|error| NodeError::Chain(error.to_string()))?;
        if self.comet().is_some_and(|comet| comet.state_sync) && chain.root() == RootKind::Ethereum {
            let why = "no node joins a chain with Ethereum's root by a snapshot, which that root does not bind: copy the folder of another \
                       node, or let the node execute the chain from its first block";
            return Err(NodeError::Setting(why.into()));
        }
        let is_makers = !self.is_ordered() && !follows && chain.parameters().development;
        if self.development.is_some() && !is_makers {
            let why =
                "a node for development makes the blocks of a chain for development itself, and no other node does";
            return Err(NodeError::Setting(why.into()));
        }
        if self.remote.is_some() && self.development.is_none() {
            let why = "only a chain for development goes on from a remote one";
            return Err(NodeError::Setting(why.into()));
        }
        let is_driven = self.engine_api().is_some();
        let makes = self.development.is_some() || self.production != Production::Off || !self.beneficiary.is_zero();
        if is_driven && makes {
            let why = "a consensus client orders the blocks, and names the account that gets their fees";
            return Err(NodeError::Setting(why.into()));
        }
        if is_driven && self.durability == Durability::Async {
            let why = "a consensus client does not send a chosen block again: its node keeps blocks through a power cut, \
                       which --durability async does not";
            return Err(NodeError::Setting(why.into()));
        }
        let is_of_development = |name: &&String| DEV_NAMESPACES.contains(&&name[..]) && self.development.is_none();
        if let Some(name) = self.rpc.namespaces.iter().find(is_of_development) {
            let why = format!("the namespace {name:?} is that of a node for development alone: --dev is one");
            return Err(NodeError::Setting(why));
        }
        let unknown = self.rpc.namespaces.iter().find(|name| !NAMESPACES.contains(&&name[..]));
        if let Some(name) = unknown {
            let why = format!("JSON-RPC has no namespace {name:?}: there are {}", NAMESPACES.join(", "));
            return Err(NodeError::Setting(why));
        }
        if !(1..=MOST_CALLS).contains(&self.rpc.max_calls) {
            let why = format!("{} calls at once: from 1 to {MOST_CALLS} are possible", self.rpc.max_calls);
            return Err(NodeError::Setting(why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_a_port_or_of_a_path() {
        for text in ["127.0.0.1:8547", "[::1]:1", "unix:/run/phalanx.sock", "unix:a b"] {
            assert_eq!(text.parse::<IngressAddress>().map(|address| address.to_string()), Ok(text.to_owned()));
        }
        for wrong in ["", "unix:", "localhost:1", "127.0.0.1", "/run/phalanx.sock"] {
            assert!(wrong.parse::<IngressAddress>().is_err(), "{wrong}");
        }
    }
}
