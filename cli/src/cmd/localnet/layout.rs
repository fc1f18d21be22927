//! Files of a network: keys, genesis, configuration, one folder per validator.

use super::{
    comet::{self, Program},
    links::Links,
    replicas,
};
use crate::cmd::net::free_addresses;
use anyhow::Context as _;
use phalanx_lab::error::Usage;
use phalanx_node::{DEV_BALANCE, DEV_MNEMONIC, DevAccount, dev_accounts, dev_genesis, net::ProtocolName};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

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

/// Consensus of a network.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Comet(Program),
    Replicas(ProtocolName),
}

/// Addresses and folders of one validator.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Folder of keys and logs.
    pub(super) home: PathBuf,
    /// Data of the node.
    pub(super) data: PathBuf,
    /// JSON-RPC of the node.
    pub(super) rpc: SocketAddr,
    pub(super) seat: Seat,
}

/// Place of a validator in its consensus.
#[derive(Clone, Debug)]
pub(super) enum Seat {
    /// Addresses of the CometBFT beside the node.
    Comet { abci: SocketAddr, rpc: SocketAddr, p2p: SocketAddr },
    /// Replica in the node: the network as this one reaches it.
    Replica { protocol: ProtocolName, network: PathBuf, index: u16 },
}

impl Place {
    /// Address of CometBFT's own RPC.
    pub(super) const fn comet_rpc(&self) -> Option<SocketAddr> {
        match self.seat {
            Seat::Comet { rpc, .. } => Some(rpc),
            Seat::Replica { .. } => None,
        }
    }
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
    pub(super) fn open(folder: &Path, order: &Order, plan: Plan) -> anyhow::Result<Self> {
        let (validators, accounts) = (usize::from(plan.validators), dev_accounts(DEV_MNEMONIC, plan.accounts.into())?);
        let path = folder.join("genesis.json");
        let mut genesis = dev_genesis(plan.chain, &accounts, DEV_BALANCE);
        let kind = match order {
            Order::Comet(_) => "node",
            Order::Replicas(_) => {
                replicas::fix_base_fee(&mut genesis);
                "replica-"
            }
        };
        let home = |place: usize| folder.join(format!("{kind}{place}"));
        let homes: Vec<_> = (0..validators).map(home).collect();
        let text = serde_json::to_string_pretty(&genesis)?;
        if path.exists() {
            let wrong = |what: &str| Usage(format!("{} holds a network with {what}", folder.display()));
            let old = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            if old != text {
                return Err(wrong("another chain id, other accounts or another consensus").into());
            }
            let is_same = homes.iter().all(|home| home.exists()) && !home(validators).exists();
            if !is_same {
                return Err(wrong("another number of validators").into());
            }
        } else {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            match order {
                Order::Comet(program) => {
                    program.make(folder, validators)?;
                    comet::name_chain(&homes, plan.chain)?;
                }
                Order::Replicas(protocol) => replicas::make(folder, *protocol, validators, &genesis)?,
            }
            // The last file: a network without it was interrupted, and is made again.
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        let (mut places, links) = match order {
            Order::Comet(program) => of_comet(folder, homes, program, &plan)?,
            Order::Replicas(protocol) => replicas::places(folder, homes, *protocol, &plan)?,
        };
        let joiner = if plan.join { places.pop() } else { None };
        let Plan { chain, threads, snapshot_every, .. } = plan;
        Ok(Self { genesis: path, places, accounts, chain, threads, snapshot_every, joiner, links })
    }
}

/// Places of validators of CometBFT and of the node that joins, in the folders of each, and the links between them.
fn of_comet(
    folder: &Path,
    mut homes: Vec<PathBuf>,
    program: &Program,
    plan: &Plan,
) -> anyhow::Result<(Vec<Place>, Option<Links>)> {
    let joining = folder.join("joining");
    if plan.join && !joining.exists() {
        program.make_full(&joining)?;
        let (from, to) = (folder.join("node0/config/genesis.json"), joining.join("config/genesis.json"));
        fs::copy(&from, &to).with_context(|| format!("writing {}", to.display()))?;
    }
    homes.extend(plan.join.then_some(joining));
    let free = free_addresses(4 * homes.len())?;
    let mut places = Vec::new();
    for ((number, home), free) in (0..).zip(homes).zip(free.chunks(4)) {
        let seat = Seat::Comet { abci: free[1], rpc: free[2], p2p: free[3] };
        places.push(Place { data: home.join("phalanx"), home, rpc: json_rpc(plan.rpc_port, number, free[0])?, seat });
    }
    let peers: Vec<_> = places.iter().filter_map(p2p).collect();
    let links = plan.links.then(|| Links::start(&peers)).transpose()?;
    configure(&places, program, plan, links.as_ref())?;
    Ok((places, links))
}

const fn p2p(place: &Place) -> Option<SocketAddr> {
    match place.seat {
        Seat::Comet { p2p, .. } => Some(p2p),
        Seat::Replica { .. } => None,
    }
}

/// Address of JSON-RPC of a validator: by its number from a first port on, or a free one.
pub(super) fn json_rpc(first: u16, number: u16, free: SocketAddr) -> anyhow::Result<SocketAddr> {
    if first == 0 {
        return Ok(free);
    }
    let port = first.checked_add(number);
    let port = port.ok_or_else(|| Usage(format!("--rpc-port {first}: there are no ports above 65535")))?;
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpListener::bind(wanted).map_err(|error| Usage(format!("cannot listen on {wanted}: {error}")))?;
    Ok(wanted)
}

/// Writes addresses and times into CometBFT's configurations.
fn configure(places: &[Place], program: &Program, plan: &Plan, links: Option<&Links>) -> anyhow::Result<()> {
    let ids = places.iter().map(|place| program.id(&place.home)).collect::<anyhow::Result<Vec<_>>>()?;
    for (own, place) in places.iter().enumerate() {
        let Seat::Comet { abci, rpc, p2p: listens } = place.seat else { continue };
        let others = ids.iter().zip(places).enumerate().filter(|(at, _)| *at != own);
        let others = others.filter_map(|(at, (id, other))| {
            let address = links.map(|links| links.address(own, at)).or_else(|| p2p(other))?;
            Some(format!("{id}@{address}"))
        });
        let others = others.collect::<Vec<_>>().join(",");
        let quoted = |text: String| format!("\"{text}\"");
        let tcp = |address: SocketAddr| quoted(format!("tcp://{address}"));
        let mut settings = vec![
            (("", "proxy_app"), tcp(abci)),
            (("rpc", "laddr"), tcp(rpc)),
            (("p2p", "laddr"), tcp(listens)),
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
