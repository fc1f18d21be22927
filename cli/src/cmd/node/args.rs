//! Flags of `node`, and the settings that they make.

use super::{consensus::ConsensusArgs, remote::RemoteArgs};
use anyhow::Context as _;
use clap::{Args, ValueEnum, builder::BoolishValueParser};
use phalanx::{
    RootKind,
    alloy::{
        genesis::Genesis,
        primitives::{Address, U256},
    },
};
use phalanx_lab::{
    config::{Words, choice, heading, one_of, threads},
    error::Usage,
    machine::temporary::Temporary,
};
use phalanx_node::{
    DEV_BALANCE, DEV_CHAIN, DEV_MNEMONIC, DEV_NAMESPACES, DevAccount, Development, Durability, IngressAddress,
    NodeConfig, Production, Remote, RpcConfig, StorePlace, Upgrades, dev_accounts, dev_genesis, into_development,
    set_root,
};
use std::{
    fs,
    net::SocketAddr,
    num::ParseIntError,
    path::{Path, PathBuf},
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Number of older states of a chain for development that can be read: each takes some 16 KiB of memory.
const DEV_HISTORY: usize = 1 << 14;

/// Number of older states of other chains.
const HISTORY: usize = 128;

/// File of a chain for development in its folder: its genesis, for a restart and for nodes that follow.
pub(super) const DEV_GENESIS: &str = "genesis.json";

/// Refusal of a node without a genesis.
const NO_CHAIN: &str = "name a chain: --genesis FILE, or --dev";

/// Database of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Database {
    /// Segments of files
    File,
    /// RocksDB, if it is built in
    Rocks,
}

/// Faults that a committed block survives.
const DURABILITIES: Words<Durability> =
    &[(Durability::Block, "block", "A power cut"), (Durability::Async, "async", "kill -9, but no power cut")];

/// Hard fork of a chain for development, from its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fork {
    /// The next one of Ethereum, whose prices may still change
    Amsterdam,
    /// The newest
    Osaka,
    /// The one before, without a maximum of a transaction's gas (EIP-7825)
    Prague,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// Chain for development: every hard fork, funded accounts, a block per transaction
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_parser = BoolishValueParser::new(), value_name = "BOOL", hide_possible_values = true)]
    dev: bool,
    /// Chain id of the chain for development [default: 1337, that of the other chain with --fork-url]
    #[arg(long, value_name = "ID", help_heading = heading::DEVELOPMENT)]
    chain_id: Option<u64>,
    /// Number of funded accounts of the chain for development, at most 10000
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = heading::DEVELOPMENT)]
    accounts: usize,
    /// Words that the keys of the accounts for development follow from
    #[arg(long, value_name = "WORDS", default_value = DEV_MNEMONIC, help_heading = heading::DEVELOPMENT)]
    mnemonic: String,
    /// Balance of each account for development, in ether
    #[arg(long, value_name = "ETHER", default_value_t = 10_000, help_heading = heading::DEVELOPMENT)]
    balance: u64,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Hard fork of the chain for development
    #[arg(long, value_enum, default_value = "osaka", help_heading = heading::DEVELOPMENT)]
    fork: Fork,
    /// Maximum length of a contract's code on the chain for development, in bytes, with twice as much for initcode [default: 24576]
    #[arg(long, value_name = "BYTES", value_parser = one_or_more::<u64>, help_heading = heading::DEVELOPMENT)]
    code_size_limit: Option<u64>,
    /// Root that the blocks of the chain for development report; a genesis file has it as phalanxRoot
    #[arg(long, value_parser = choice::<RootKind>(), default_value = "twigs", help_heading = heading::DEVELOPMENT)]
    root: RootKind,
    /// Chain and its first accounts, as geth's genesis.json
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// Forks that the chain takes after its genesis, as a JSON object: {"osakaTime": 1800000000}
    #[arg(long, value_name = "FILE")]
    upgrades: Option<PathBuf>,
    /// Folder of state and blocks [default: that of the replica with --network; with --dev a temporary one, which goes at the end]
    #[arg(long, value_name = "DIR", help_heading = heading::STORE)]
    datadir: Option<PathBuf>,
    /// Database of the state
    #[arg(long, value_enum, default_value = "file", help_heading = heading::STORE)]
    database: Database,
    /// Faults that a committed block survives [default: block, async with --dev]
    #[arg(long, value_parser = one_of(DURABILITIES), help_heading = heading::STORE)]
    durability: Option<Durability>,
    /// Number of older states that can be read [default: 128, 16384 with --dev]
    #[arg(long, value_name = "N", help_heading = heading::STORE)]
    history: Option<usize>,
    /// Number of blocks whose bodies and receipts are kept [default: all]
    #[arg(long, value_name = "N", value_parser = one_or_more::<u64>, help_heading = heading::STORE)]
    keep_blocks: Option<u64>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = one_or_more::<usize>, help_heading = heading::BLOCKS)]
    threads: Option<usize>,
    /// When blocks are made: instant, a period as 500ms or 2s, or off [default: instant with --dev alone, else off]
    #[arg(long, value_name = "WHEN", value_parser = production, help_heading = heading::BLOCKS)]
    blocks: Option<Production>,
    /// Follow the node with this JSON-RPC instead: execute its blocks, compare every root, and send it the transactions
    #[arg(long, value_name = "URL", value_parser = server, help_heading = heading::BLOCKS)]
    follow: Option<String>,
    #[command(flatten)]
    pub(super) consensus: ConsensusArgs,
    /// Gas limit of made blocks, reached by steps of less than 1/1024 per block, at once with --dev [default: the genesis's]
    #[arg(long, value_name = "GAS", value_parser = one_or_more::<u64>, help_heading = heading::BLOCKS)]
    gas_limit: Option<u64>,
    /// Account that gets the fees of made blocks
    #[arg(long, value_name = "ADDRESS", default_value = "0x0000000000000000000000000000000000000000", help_heading = heading::BLOCKS)]
    beneficiary: Address,
    /// Minimum tip of a transaction, in wei per gas
    #[arg(long, value_name = "WEI", default_value_t = 0, help_heading = heading::BLOCKS)]
    min_tip: u128,
    /// Address of JSON-RPC, HTTP and WebSocket
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8545", help_heading = heading::SERVICE)]
    rpc: SocketAddr,
    /// Namespaces of JSON-RPC [default: eth,net,web3,txpool,phalanx; with --dev all others too]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = namespace, help_heading = heading::SERVICE)]
    rpc_api: Option<Vec<String>>,
    /// Origins of web pages that may call, * for all [default: none; * with --dev]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = origin, help_heading = heading::SERVICE)]
    rpc_cors: Option<Vec<String>>,
    /// Names of this host that requests may have, * for all [default: localhost on a loopback address, else all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = heading::SERVICE)]
    rpc_hosts: Option<Vec<String>>,
    /// Maximum gas of a call, an estimate or a trace
    #[arg(long, value_name = "GAS", default_value_t = RpcConfig::default().gas_cap, value_parser = one_or_more::<u64>, help_heading = heading::SERVICE)]
    rpc_gas_cap: u64,
    /// Maximum number of blocks of a log query
    #[arg(long, value_name = "N", default_value_t = RpcConfig::default().max_range, value_parser = one_or_more::<u64>, help_heading = heading::SERVICE)]
    rpc_max_range: u64,
    /// Maximum number of logs of an answer
    #[arg(long, value_name = "N", default_value_t = RpcConfig::default().max_logs, value_parser = one_or_more::<usize>, help_heading = heading::SERVICE)]
    rpc_max_logs: usize,
    /// Maximum number of requests in a batch
    #[arg(long, value_name = "N", default_value_t = RpcConfig::default().max_batch, value_parser = one_or_more::<u32>, help_heading = heading::SERVICE)]
    rpc_max_batch: u32,
    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value_t = RpcConfig::default().max_connections, value_parser = one_or_more::<u32>, help_heading = heading::SERVICE)]
    rpc_max_connections: u32,
    /// Maximum number of calls, traces and log queries at once
    #[arg(long, value_name = "N", default_value_t = RpcConfig::default().max_calls, value_parser = one_or_more::<usize>, help_heading = heading::SERVICE)]
    rpc_max_calls: usize,
    /// Addresses of the binary ingress, for clients that send many transactions: IP:PORT, or unix:PATH
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = heading::SERVICE)]
    ingress: Vec<IngressAddress>,
    /// Address of /metrics and /health
    #[arg(long, value_name = "ADDRESS", help_heading = heading::SERVICE)]
    metrics: Option<SocketAddr>,
    /// Log filter: a level, or targets with levels
    #[arg(long, value_name = "FILTER", default_value = "info", help_heading = heading::SERVICE)]
    pub(super) log: String,
    /// Form of the log
    #[arg(long, value_enum, default_value = "text", help_heading = heading::SERVICE)]
    pub(super) log_format: LogFormat,
    /// Read further flags from a TOML file: flags of the command line come first, then PHALANX_NODE_*, then the file
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
}

/// Settings of a node, and what lives as long as it.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) config: NodeConfig,
    pub(super) accounts: Vec<DevAccount>,
    /// The folder, if it goes at the end.
    pub(super) temporary: Option<Temporary>,
}

/// Address of JSON-RPC over HTTP or HTTPS.
pub(super) fn server(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let is_sound = |host: &str| {
        let port = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let name = port.map_or(host, |(name, _)| name);
        !name.is_empty()
            && !name.contains('@')
            && port.is_none_or(|(_, port)| port.parse::<u16>().is_ok_and(|of| of != 0))
    };
    let found = host.filter(|host| is_sound(host)).map(|_| text.to_owned());
    found.ok_or_else(|| "http://HOST:PORT or https://HOST is expected".into())
}

/// A namespace of JSON-RPC.
fn namespace(text: &str) -> Result<String, String> {
    let known = phalanx_node::NAMESPACES;
    known.contains(&text).then(|| text.to_owned()).ok_or_else(|| format!("the namespaces are {}", known.join(", ")))
}

/// Origin of web pages, as browsers name it: scheme, host and port, and nothing behind them. Nothing at all is no origin.
fn origin(text: &str) -> Result<String, String> {
    let is_sound = |(scheme, rest): (&str, &str)| {
        let is_scheme =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.');
        let is_host = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'@' | b'?' | b'#' | b'*' | b'"');
        let begins = scheme.starts_with(|first: char| first.is_ascii_lowercase());
        begins && scheme.bytes().all(is_scheme) && !rest.is_empty() && rest.bytes().all(is_host)
    };
    if text.is_empty() || text == "*" || text.split_once("://").is_some_and(is_sound) {
        return Ok(text.to_owned());
    }
    Err("* or an origin as https://HOST or http://HOST:PORT is expected, without a path".into())
}

/// A number above zero.
fn one_or_more<N: FromStr<Err = ParseIntError> + Default + PartialEq>(text: &str) -> Result<N, String> {
    let number = text.parse::<N>().map_err(|error| error.to_string())?;
    if number == N::default() { Err("a number from 1 is expected".into()) } else { Ok(number) }
}

/// When blocks are made, in words.
pub(crate) fn production(text: &str) -> Result<Production, String> {
    match text {
        "instant" => return Ok(Production::Instant),
        "off" => return Ok(Production::Off),
        _ => {}
    }
    let (digits, milliseconds) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, 1),
        (None, Some(digits)) => (digits, 1000),
        (None, None) => ("", 0),
    };
    let period = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(milliseconds));
    let period = period.filter(|period| (1..=86_400_000).contains(period));
    let period = period.ok_or("instant, off, or a period from 1ms to 86400s is expected")?;
    Ok(Production::Every(Duration::from_millis(period)))
}

impl NodeArgs {
    /// Balance of each account for development, in ether.
    pub(super) const fn balance(&self) -> u64 {
        self.balance
    }

    pub(super) fn settings(&self) -> anyhow::Result<Settings> {
        let wrong = |error: phalanx_node::NodeError| Usage(error.to_string());
        let accounts = if self.dev { dev_accounts(&self.mnemonic, self.accounts).map_err(wrong)? } else { Vec::new() };
        let replica = self.consensus.replica()?;
        let own = self.datadir.as_deref().or_else(|| replica.as_ref().map(|replica| replica.folder.as_path()));
        let (folder, temporary) = match (own, self.dev) {
            (Some(folder), _) => (folder.to_owned(), None),
            (None, true) => {
                let folder = Temporary::new().context("making a temporary folder")?;
                (folder.path().to_owned(), Some(folder))
            }
            (None, false) if self.genesis.is_none() => return Err(Usage(NO_CHAIN.into()).into()),
            (None, false) => return Err(Usage("--datadir names no folder, and only --dev does without".into()).into()),
        };
        let remote = self.remote.open(self.is_development(), &folder)?;
        let genesis = self.read_genesis(&accounts, &folder, remote.as_ref())?;
        let mut config = NodeConfig::new(genesis, self.place(folder)?);
        config.upgrades = self.read_upgrades()?;
        let usual = if self.is_development() { Durability::Async } else { Durability::Block };
        config.durability = self.durability.unwrap_or(usual);
        config.development = self.is_development().then(|| Development { accounts: accounts.clone() });
        config.remote = remote;
        config.production =
            self.blocks.unwrap_or(if self.is_development() { Production::Instant } else { Production::Off });
        config.source = self.consensus.source(config.store.folder(), replica, self.follow.clone())?;
        config.history = self.history.unwrap_or(if self.is_development() { DEV_HISTORY } else { HISTORY });
        config.keep_blocks = self.keep_blocks;
        config.threads = self.threads.map(|of| threads(Some(of))).transpose()?;
        config.gas_limit = self.gas_limit;
        config.beneficiary = self.beneficiary;
        config.min_tip = self.min_tip;
        config.metrics = self.metrics;
        config.rpc = self.server();
        config.ingress.clone_from(&self.ingress);
        Ok(Settings { config, accounts, temporary })
    }

    /// True if this node alone makes the blocks of a chain for development.
    const fn is_development(&self) -> bool {
        self.dev && self.consensus.is_none() && self.follow.is_none()
    }

    fn read_genesis(&self, accounts: &[DevAccount], folder: &Path, remote: Option<&Remote>) -> anyhow::Result<Genesis> {
        match (&self.genesis, self.dev) {
            (Some(_), true) => Err(Usage("--dev has a genesis of its own: leave out --genesis".into()).into()),
            (None, true) if self.follow.is_some() => {
                let why = "a node that follows has the genesis of the other: --genesis FILE, which --dev writes as \
                           genesis.json into its --datadir";
                Err(Usage(why.into()).into())
            }
            (None, true) => self.dev_genesis(accounts, folder, remote),
            (None, false) => Err(Usage(NO_CHAIN.into()).into()),
            (Some(path), false) => {
                let text = fs::read_to_string(path).map_err(|error| Usage(format!("{}: {error}", path.display())))?;
                let genesis = serde_json::from_str(&text);
                Ok(genesis.map_err(|error| Usage(format!("{}: {error}", path.display())))?)
            }
        }
    }

    fn read_upgrades(&self) -> anyhow::Result<Upgrades> {
        let Some(path) = &self.upgrades else { return Ok(Upgrades::default()) };
        let refused = |why: String| Usage(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        Ok(text.parse().map_err(refused)?)
    }

    /// Genesis of the chain for development. That of a chain in a folder keeps its time, which a file there has.
    fn dev_genesis(&self, accounts: &[DevAccount], folder: &Path, remote: Option<&Remote>) -> anyhow::Result<Genesis> {
        let ether = DEV_BALANCE / U256::from(10_000);
        let chain_id = self.chain_id.or_else(|| remote.map(Remote::chain_id)).unwrap_or(DEV_CHAIN);
        let mut genesis = dev_genesis(chain_id, accounts, ether.saturating_mul(U256::from(self.balance)));
        match self.fork {
            Fork::Amsterdam => genesis.config.amsterdam_time = Some(0),
            Fork::Osaka => {}
            Fork::Prague => genesis.config.osaka_time = None,
        }
        if let Some(limit) = self.code_size_limit {
            genesis.config.extra_fields.insert("phalanxCodeLimit".into(), limit.into());
        }
        if self.root != RootKind::default() {
            set_root(&mut genesis, self.root);
        }
        if self.consensus.has_replicas() {
            genesis.config.extra_fields.insert("phalanxFixedBaseFee".into(), true.into());
        }
        if !self.is_development() {
            return Ok(genesis);
        }
        let path = folder.join(DEV_GENESIS);
        let wrong = |error: &dyn core::fmt::Display| Usage(format!("{}: {error}", path.display()));
        if path.exists() {
            let text = fs::read_to_string(&path).map_err(|error| wrong(&error))?;
            let held: Genesis = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
            if let Some(remote) = remote {
                remote.check(&held)?;
                // The accounts of the other chain were read at the first start.
                return Ok(held);
            }
            into_development(&mut genesis, held.timestamp);
            // Only the first block has the gas limit of the genesis. The node refuses a chain that differs in anything else.
            genesis.gas_limit = held.gas_limit;
            return Ok(genesis);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        into_development(&mut genesis, now);
        if let Some(remote) = remote {
            remote.put_above(&mut genesis)?;
        } else {
            genesis.gas_limit = self.gas_limit.unwrap_or(genesis.gas_limit);
        }
        fs::create_dir_all(folder).map_err(|error| wrong(&error))?;
        fs::write(&path, serde_json::to_string_pretty(&genesis)?).map_err(|error| wrong(&error))?;
        Ok(genesis)
    }

    #[cfg_attr(feature = "rocksdb", expect(clippy::missing_const_for_fn, reason = "it makes an error without RocksDB"))]
    fn place(&self, folder: PathBuf) -> anyhow::Result<StorePlace> {
        match self.database {
            Database::File => Ok(StorePlace::Folder(folder)),
            #[cfg(feature = "rocksdb")]
            Database::Rocks => Ok(StorePlace::Rocks(folder)),
            #[cfg(not(feature = "rocksdb"))]
            Database::Rocks => Err(Usage("RocksDB is not built in: use --database file".into()).into()),
        }
    }

    fn server(&self) -> RpcConfig {
        let mut rpc = RpcConfig {
            address: self.rpc,
            gas_cap: self.rpc_gas_cap,
            max_range: self.rpc_max_range,
            max_logs: self.rpc_max_logs,
            max_batch: self.rpc_max_batch,
            max_connections: self.rpc_max_connections,
            max_calls: self.rpc_max_calls,
            ..RpcConfig::default()
        };
        if self.dev {
            rpc.namespaces.extend(["debug", "trace", "ots", "erigon"].map(Into::into));
            rpc.cors = vec!["*".into()];
        }
        if self.is_development() {
            rpc.namespaces.extend(DEV_NAMESPACES.map(str::to_owned));
        }
        if let Some(namespaces) = &self.rpc_api {
            rpc.namespaces.clone_from(namespaces);
        }
        if let Some(origins) = &self.rpc_cors {
            rpc.cors = origins.iter().filter(|origin| !origin.is_empty()).cloned().collect();
        }
        if let Some(hosts) = &self.rpc_hosts {
            rpc.hosts.clone_from(hosts);
        }
        rpc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_a_scheme_and_a_host() {
        for sound in ["http://10.0.0.1:8545", "http://[::1]:8545/", "http://[::1]", "https://node.example/key?x=1:2"] {
            assert_eq!(server(sound), Ok(sound.into()));
        }
        for wrong in
            ["", "10.0.0.1:8545", "ws://a:1", "http://", "https:///x", "http://a:0", "http://a:b", "http://u@a:1"]
        {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn namespaces_origins_and_limits_that_mean_nothing_are_refused() {
        for known in ["eth", "net", "web3", "txpool", "debug", "phalanx"] {
            assert_eq!(namespace(known), Ok(known.into()));
        }
        for wrong in ["", "wallet", "ETH", "eth_", "*"] {
            assert!(namespace(wrong).is_err_and(|why| why.contains("txpool")), "{wrong}");
        }
        for sound in ["", "*", "https://a.example", "http://localhost:3000", "http://[::1]:8", "chrome-extension://abc"]
        {
            assert_eq!(origin(sound), Ok(sound.into()));
        }
        for wrong in
            ["not an origin", "a.example", "https://", "https://a/", "https://a/b", "https://*.a", "//a", "null"]
        {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
        assert_eq!(one_or_more::<usize>("7"), Ok(7));
        for wrong in ["0", "", "-1", "x", "4294967296"] {
            assert!(one_or_more::<u32>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn blocks_come_instantly_by_period_or_never() {
        assert_eq!(production("instant"), Ok(Production::Instant));
        assert_eq!(production("off"), Ok(Production::Off));
        assert_eq!(production("250ms"), Ok(Production::Every(Duration::from_millis(250))));
        assert_eq!(production("12s"), Ok(Production::Every(Duration::from_secs(12))));
        for wrong in ["", "s", "ms", "0s", "-1s", "1", "1h", "86401s", "99999999999999999999s"] {
            assert!(production(wrong).is_err(), "{wrong}");
        }
    }
}
