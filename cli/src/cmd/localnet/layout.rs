//! Files of a network: keys, genesis, configuration, one folder per validator.

use super::{
    comet::{self, Program},
    links::Links,
};
use anyhow::Context as _;
use phalanx_lab::error::Usage;
use phalanx_node::{DEV_BALANCE, DEV_MNEMONIC, DevAccount, dev_accounts, dev_genesis};
use rand::Rng as _;
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

/// Number of ports that are tried before the system chooses.
const TRIES: usize = 1000;

/// Choices for a network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) validators: u16,
    pub(super) accounts: u16,
    pub(super) chain: u64,
    /// First port of JSON-RPC; 0 takes free ones.
    pub(super) rpc_port: u16,
    /// Milliseconds that CometBFT waits after a block.
    pub(super) period: u64,
    /// Number of worker threads of each node's engine.
    pub(super) threads: u16,
    /// Number of heights from one snapshot to the next.
    pub(super) snapshot_every: u64,
    /// True if a node without a vote joins later.
    pub(super) join: bool,
    /// True if the links between validators are to be cut.
    pub(super) links: bool,
    /// True if CometBFT fetches transactions from the nodes, instead of keeping some itself.
    pub(super) app_mempool: bool,
}

/// Addresses and folders of one validator.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Home of CometBFT.
    pub(super) home: PathBuf,
    /// Data of the node.
    pub(super) data: PathBuf,
    pub(super) abci: SocketAddr,
    pub(super) comet_rpc: SocketAddr,
    pub(super) p2p: SocketAddr,
    /// JSON-RPC of the node.
    pub(super) rpc: SocketAddr,
}

/// A network on the disk.
#[derive(Debug)]
pub(super) struct Layout {
    /// Genesis of the chain.
    pub(super) genesis: PathBuf,
    pub(super) places: Vec<Place>,
    pub(super) accounts: Vec<DevAccount>,
    pub(super) chain: u64,
    pub(super) threads: u16,
    pub(super) snapshot_every: u64,
    /// Node that joins later.
    pub(super) joiner: Option<Place>,
    /// Links that can be cut.
    pub(super) links: Option<Links>,
}

impl Layout {
    /// Opens the network in a folder, or makes it. Ports are chosen anew at every start, all keys only once.
    pub(super) fn open(folder: &Path, program: &Program, plan: Plan) -> anyhow::Result<Self> {
        let (validators, accounts) = (usize::from(plan.validators), dev_accounts(DEV_MNEMONIC, plan.accounts.into())?);
        let genesis = folder.join("genesis.json");
        let homes: Vec<_> = (0..validators).map(|place| folder.join(format!("node{place}"))).collect();
        let text = serde_json::to_string_pretty(&dev_genesis(plan.chain, &accounts, DEV_BALANCE))?;
        if genesis.exists() {
            let wrong = |what: &str| Usage(format!("{} holds a network with {what}", folder.display()));
            let old = fs::read_to_string(&genesis).with_context(|| format!("reading {}", genesis.display()))?;
            if old != text {
                return Err(wrong("another chain id, or other accounts").into());
            }
            let is_same = homes.iter().all(|home| home.exists()) && !folder.join(format!("node{validators}")).exists();
            if !is_same {
                return Err(wrong("another number of validators").into());
            }
        } else {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            program.make(folder, validators)?;
            comet::name_chain(&homes, plan.chain)?;
            // The last file: a network without it was interrupted, and is made again.
            fs::write(&genesis, text).with_context(|| format!("writing {}", genesis.display()))?;
        }
        let joining = folder.join("joining");
        if plan.join && !joining.exists() {
            program.make_full(&joining)?;
            let (from, to) = (folder.join("node0/config/genesis.json"), joining.join("config/genesis.json"));
            fs::copy(&from, &to).with_context(|| format!("writing {}", to.display()))?;
        }
        let mut homes = homes;
        homes.extend(plan.join.then_some(joining));
        let mut places = places(homes, plan.rpc_port)?;
        let addresses: Vec<_> = places.iter().map(|place| place.p2p).collect();
        let links = plan.links.then(|| Links::start(&addresses)).transpose()?;
        configure(&places, program, &plan, links.as_ref())?;
        let joiner = if plan.join { places.pop() } else { None };
        let Plan { chain, threads, snapshot_every, .. } = plan;
        Ok(Self { genesis, places, accounts, chain, threads, snapshot_every, joiner, links })
    }
}

/// Port that nothing listens on. Those below the ones that systems give to outgoing connections come first: another process may
/// not take it while a validator is down.
fn free_port(held: &[TcpListener]) -> anyhow::Result<TcpListener> {
    let mut rng = rand::rng();
    let is_held = |port| held.iter().any(|held| held.local_addr().is_ok_and(|address| address.port() == port));
    for _ in 0..TRIES {
        let port = rng.random_range(10_000..32_000);
        if let (false, Ok(listener)) = (is_held(port), TcpListener::bind(local(port))) {
            return Ok(listener);
        }
    }
    TcpListener::bind(local(0)).context("looking for a free port")
}

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// Free addresses for every validator.
fn places(homes: Vec<PathBuf>, rpc_port: u16) -> anyhow::Result<Vec<Place>> {
    // All are held until the last is chosen, so that none is chosen twice.
    let mut held = Vec::new();
    let mut free = |port: u16| -> anyhow::Result<SocketAddr> {
        let wanted = local(port);
        let listener = match port {
            0 => free_port(&held)?,
            _ => TcpListener::bind(wanted).map_err(|error| Usage(format!("cannot listen on {wanted}: {error}")))?,
        };
        let address = listener.local_addr()?;
        held.push(listener);
        Ok(address)
    };
    let mut places = Vec::new();
    for (home, place) in homes.into_iter().zip(0..) {
        let port = if rpc_port == 0 { Some(0) } else { rpc_port.checked_add(place) };
        let port = port.ok_or_else(|| Usage(format!("--rpc-port {rpc_port}: there are no ports above 65535")))?;
        let (rpc, abci, comet_rpc, p2p) = (free(port)?, free(0)?, free(0)?, free(0)?);
        places.push(Place { data: home.join("phalanx"), home, abci, comet_rpc, p2p, rpc });
    }
    Ok(places)
}

/// Writes addresses and times into CometBFT's configurations.
fn configure(places: &[Place], program: &Program, plan: &Plan, links: Option<&Links>) -> anyhow::Result<()> {
    let ids = places.iter().map(|place| program.id(&place.home)).collect::<anyhow::Result<Vec<_>>>()?;
    for (own, place) in places.iter().enumerate() {
        let others = ids.iter().zip(places).enumerate().filter(|(at, _)| *at != own);
        let others = others.map(|(at, (id, other))| {
            let address = links.map_or(other.p2p, |links| links.address(own, at));
            format!("{id}@{address}")
        });
        let others = others.collect::<Vec<_>>().join(",");
        let quoted = |text: String| format!("\"{text}\"");
        let tcp = |address: SocketAddr| quoted(format!("tcp://{address}"));
        let mut settings = vec![
            (("", "proxy_app"), tcp(place.abci)),
            (("rpc", "laddr"), tcp(place.comet_rpc)),
            (("p2p", "laddr"), tcp(place.p2p)),
            (("p2p", "persistent_peers"), quoted(others)),
            // A validator that was killed comes back within a second or two.
            (("p2p", "persistent_peers_max_dial_period"), quoted("1s".into())),
            (("p2p", "pex"), "false".into()),
            (("p2p", "addr_book_strict"), "false".into()),
            (("p2p", "allow_duplicate_ip"), "true".into()),
            // The node's own pool chooses: this one only passes transactions on.
            (("mempool", "size"), "50000".into()),
            (("mempool", "cache_size"), "100000".into()),
            (("consensus", "timeout_commit"), quoted(format!("{}ms", plan.period))),
            (("tx_index", "indexer"), quoted("null".into())),
        ];
        // Versions before v0.39 do not have this setting, so it is named only if it is asked for.
        settings.extend(plan.app_mempool.then(|| (("mempool", "type"), quoted("app".into()))));
        let path = place.home.join("config/config.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let text = comet::set(&text, &settings).with_context(|| format!("changing {}", path.display()))?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
