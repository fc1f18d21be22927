//! Nodes whose blocks the replicas of a paper's protocol order, four in this process: one chain everywhere, restarts, a follower.

use crate::kit::{CHAIN, Call, Client, FUNDED, Reference, address, config, genesis, signed};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::Index;
use phalanx_keys::{deal, deal_bls};
use phalanx_node::{
    BlockSource, Node, NodeConfig, NodeError, Production, ReplicaConfig,
    net::{Authentication, Beginning, Durability, Member, NetConfig, ProtocolName, ReplicaKeys, leave_token},
};
use serde_json::{Value, json};
use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

const REPLICAS: usize = 4;

/// Time that anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Free ports below those that the system gives to outgoing connections: a replica that is down must find its own again.
fn free(count: usize) -> Vec<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let candidates = (0..20_000).map(|_| {
        let at = std::process::id().wrapping_mul(173).wrapping_add(NEXT.fetch_add(1, Relaxed)) % 20_000;
        SocketAddr::from(([127, 0, 0, 1], 11_000 + at as u16))
    });
    candidates.filter(|address| TcpListener::bind(address).is_ok()).take(count).collect()
}

fn network(protocol: ProtocolName, folder: &Path) -> (NetConfig, Vec<ReplicaKeys>) {
    let ports = free(2 * REPLICAS);
    let member = |index: usize| Member {
        peers: ports[2 * index],
        clients: ports[2 * index + 1],
        keys: format!("keys-{index}.json").into(),
        dir: folder.join(format!("replica-{index}")),
    };
    let mut network = NetConfig::new(protocol, CHAIN, B256::repeat_byte(9), (0..REPLICAS).map(member).collect());
    network.interval = 8;
    network.gas_limit = genesis().gas_limit;
    network.base_fee = genesis().base_fee_per_gas.expect("a fee") as u64;
    network.beneficiary = Address::repeat_byte(0xbe);
    let seed = [3; 32];
    let keys: Vec<ReplicaKeys> = match protocol {
        ProtocolName::Sbft => deal_bls(REPLICAS, 1, &seed).expect("keys").into_iter().map(Into::into).collect(),
        _ => deal(REPLICAS, &seed).expect("keys").into_iter().map(Into::into).collect(),
    };
    (network, keys)
}

fn settings(folder: &Path) -> NodeConfig {
    let mut settings = config(folder, Production::Off);
    settings.beneficiary = Address::ZERO;
    settings.threads = Some(1);
    settings.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    settings.genesis.config.extra_fields.insert("phalanxFixedBaseFee".into(), true.into());
    settings
}

/// A network of nodes, each of which can be down.
pub(crate) struct Net {
    pub(crate) network: NetConfig,
    keys: Vec<ReplicaKeys>,
    pub(crate) nodes: Vec<Option<Node>>,
    folder: tempfile::TempDir,
}

impl Net {
    pub(crate) fn new(protocol: ProtocolName) -> Self {
        Self::with(protocol, |_| {})
    }

    /// A network with other settings.
    pub(crate) fn with(protocol: ProtocolName, change: impl FnOnce(&mut NetConfig)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut network, keys) = network(protocol, folder.path());
        change(&mut network);
        for (index, member) in (0..).zip(&network.replicas) {
            leave_token(&network, Index(index), &member.dir).expect("a folder");
        }
        let mut net = Self { network, keys, nodes: (0..REPLICAS).map(|_| None).collect(), folder };
        (0..REPLICAS).for_each(|index| net.start(index));
        net
    }

    /// Starts a node that has this configuration of the network, on its folder.
    pub(crate) fn begin(&self, index: usize, network: NetConfig, beginning: Beginning) -> Result<Node, NodeError> {
        let folder = self.network.replicas[index].dir.clone();
        let (mut settings, keys) = (settings(&folder), self.keys[index].clone());
        settings.source = BlockSource::Replica(Box::new(ReplicaConfig { network, keys, folder, beginning }));
        Node::start(&settings)
    }

    pub(crate) fn start(&mut self, index: usize) {
        let node = self.begin(index, self.network.clone(), Beginning::Usual);
        self.nodes[index] = Some(node.unwrap_or_else(|error| panic!("node {index}: {error}")));
    }

    pub(crate) fn client(&self, index: usize) -> Client {
        Client::new(self.nodes[index].as_ref().expect("it runs").address())
    }

    pub(crate) fn clients(&self) -> Vec<Client> {
        self.nodes.iter().flatten().map(|node| Client::new(node.address())).collect()
    }

    /// Waits for the receipt of a transaction at every node, and checks that it is one.
    pub(crate) fn included(&self, hash: B256) -> Value {
        let receipts: Vec<Value> = self.clients().iter().map(|client| receipt(client, hash)).collect();
        assert!(receipts.iter().all(|receipt| *receipt == receipts[0]), "{receipts:?}");
        receipts[0].clone()
    }

    /// Compares all blocks of all nodes, and with stock revm.
    fn compare(&self) {
        let clients = self.clients();
        let height = clients[0].quantity("eth_blockNumber", json!([]));
        let mut genesis = genesis();
        genesis.config.extra_fields.insert("phalanxFixedBaseFee".into(), true.into());
        let mut reference = Reference::new(&genesis);
        for at in 1..=height {
            let params = json!([format!("{at:#x}"), false]);
            let answer = clients[0].get("eth_getBlockByNumber", params.clone());
            for client in &clients[1..] {
                wait("a block", || (client.quantity("eth_blockNumber", json!([])) >= at).then_some(()));
                assert_eq!(client.get("eth_getBlockByNumber", params.clone()), answer, "block {at}");
            }
            let block: alloy_rpc_types_eth::Block = serde_json::from_value(answer).expect("alloy reads it");
            let header = block.header.inner;
            assert_eq!(header.base_fee_per_gas, Some(self.network.base_fee), "block {at}");
            let raw = |hash| {
                serde_json::from_value(clients[0].get("eth_getRawTransactionByHash", json!([hash]))).expect("raw")
            };
            let executed: Vec<Bytes> = block.transactions.hashes().map(raw).collect();
            let results = reference.block(&header, block.header.hash, &executed);
            let used: u64 = results.iter().map(|result| result.tx_gas_used()).sum();
            assert_eq!(used, header.gas_used, "block {at}");
        }
        for account in 0..FUNDED {
            let info = reference.account(address(account));
            let nonce = clients[0].quantity("eth_getTransactionCount", json!([address(account)]));
            let balance = clients[0].quantity("eth_getBalance", json!([address(account)]));
            assert_eq!((nonce, balance), (info.nonce.into(), info.balance.to()), "account {account}");
        }
    }

    pub(crate) fn stop(self) {
        self.nodes.into_iter().flatten().for_each(Node::stop);
    }
}

pub(crate) fn wait<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn receipt(client: &Client, hash: B256) -> Value {
    wait("a receipt", || {
        Some(client.get("eth_getTransactionReceipt", json!([hash]))).filter(|receipt| !receipt.is_null())
    })
}

pub(crate) fn payment(from: u64, nonce: u64) -> Bytes {
    signed(2, &Call::to(from, nonce, address(from + 1), 5), vec![])
}

fn one_chain(protocol: ProtocolName) {
    let mut net = Net::new(protocol);
    // Nonces of a sender reach different nodes, the later ones first.
    let mut sent = Vec::new();
    for nonce in (0..4).rev() {
        sent.extend((0..6).map(|from| net.client((from + nonce) as usize % REPLICAS).send(&payment(from, nonce))));
    }
    for hash in sent {
        assert_eq!(net.included(hash)["status"], json!("0x1"));
    }
    // Two nodes get transactions of one nonce: one of the two has a block, and the other one holds nothing up.
    let rivals = [(0, 6), (1, 7)].map(|(node, value)| {
        let tx = signed(2, &Call::to(5, 4, address(6), value), vec![]);
        net.client(node).send(&tx)
    });
    for client in net.clients() {
        wait("one of the two", || (client.quantity("eth_getTransactionCount", json!([address(5)])) == 5).then_some(()));
    }
    let included = |hash: &B256| !net.client(0).get("eth_getTransactionReceipt", json!([hash])).is_null();
    assert_eq!(rivals.iter().filter(|hash| included(hash)).count(), 1);
    for client in net.clients() {
        wait("the other one leaves", || {
            (client.get("txpool_status", json!([]))["pending"] == json!("0x0")).then_some(())
        });
    }
    assert_eq!(net.included(net.client(1).send(&payment(5, 5)))["status"], json!("0x1"));
    // Its progress is on the page of every node.
    for node in net.nodes.iter().flatten() {
        let (status, page) = Client::new(node.metrics_address().expect("metrics")).page("/metrics");
        let value = |name: &str| page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        assert!(status == 200 && value("phalanx_replica_decided_height ") > Some(0), "{page}");
        assert_eq!((value("phalanx_replica_forgers "), value("phalanx_replica_evidence_total ")), (Some(0), Some(0)));
    }
    // Replicas have no sidecars, so that a node takes no blobs.
    let blobs = signed(3, &Call::to(9, 0, address(1), 1), vec![]);
    let (_, why) = net.client(2).error("eth_sendRawTransaction", json!([blobs]));
    assert_eq!(why, "transaction type not supported");
    assert_eq!(net.included(net.client(2).send(&payment(9, 0)))["status"], json!("0x1"), "its nonce is free");
    // A node is away, be it the leader or not, and the others go on.
    let height = net.client(0).quantity("eth_blockNumber", json!([]));
    net.nodes[3].take().expect("it runs").stop();
    let sent: Vec<B256> = (4..8).map(|nonce| net.client(nonce as usize % 3).send(&payment(0, nonce))).collect();
    for hash in &sent {
        assert_eq!(net.included(*hash)["status"], json!("0x1"));
    }
    net.start(3);
    assert!(net.client(3).quantity("eth_blockNumber", json!([])) + 1 >= height, "its blocks are its own");
    for hash in &sent {
        assert_eq!(net.included(*hash)["status"], json!("0x1"));
    }
    assert_eq!(net.included(net.client(3).send(&payment(1, 4)))["status"], json!("0x1"), "it takes transactions");
    // All end one after the other, and go on.
    for index in 0..REPLICAS {
        net.nodes[index].take().expect("it runs").stop();
    }
    (0..REPLICAS).for_each(|index| net.start(index));
    assert_eq!(net.included(net.client(2).send(&payment(1, 5)))["status"], json!("0x1"));
    // A follower executes the same blocks.
    let own = net.folder.path().join("follower");
    let mut following = settings(&own);
    following.source = BlockSource::Followed(format!("http://{}", net.nodes[1].as_ref().expect("it runs").address()));
    let follower = Node::start(&following).expect("a follower");
    let client = Client::new(follower.address());
    let height = net.client(1).quantity("eth_blockNumber", json!([]));
    wait("it follows", || (client.quantity("eth_blockNumber", json!([])) >= height).then_some(()));
    let params = json!([format!("{height:#x}"), true]);
    assert_eq!(client.get("eth_getBlockByNumber", params.clone()), net.client(1).get("eth_getBlockByNumber", params));
    let hash = client.send(&payment(2, 4));
    assert_eq!(net.included(hash), receipt(&client, hash), "its transactions go to the node that it follows");
    follower.stop();
    net.compare();
    net.stop();
}

#[test]
fn four_nodes_of_pbft_have_one_chain() {
    one_chain(ProtocolName::Pbft);
}

#[test]
fn four_nodes_of_sbft_have_one_chain() {
    one_chain(ProtocolName::Sbft);
}

#[test]
fn four_nodes_of_autobahn_have_one_chain() {
    one_chain(ProtocolName::Autobahn);
}

#[test]
fn a_network_of_another_chain_or_for_measurements_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (network, keys) = network(ProtocolName::Pbft, folder.path());
    let refused = |change: &dyn Fn(&mut NodeConfig, &mut NetConfig)| {
        let (mut settings, mut network) = (settings(folder.path()), network.clone());
        change(&mut settings, &mut network);
        let (keys, folder) = (keys[0].clone(), folder.path().to_owned());
        let replica = ReplicaConfig { network, keys, folder, beginning: Beginning::Usual };
        settings.source = BlockSource::Replica(Box::new(replica));
        match Node::start(&settings) {
            Err(NodeError::Setting(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    type Case<'a> = (&'a str, &'a dyn Fn(&mut NodeConfig, &mut NetConfig));
    let cases: [Case<'_>; 8] = [
        ("minimum tip", &|settings, _| settings.min_tip = 1),
        ("phalanxFixedBaseFee", &|settings, _| settings.genesis.config.extra_fields.clear()),
        ("chain id", &|_, network| network.chain += 1),
        ("gas limit", &|_, network| network.gas_limit += 1),
        ("base fee", &|_, network| network.base_fee += 1),
        ("measurements", &|_, network| network.authentication = Authentication::None),
        ("measurements", &|_, network| network.durability = Durability::None),
        ("batches", &|_, network| network.batch_bytes = 1 << 16),
    ];
    for (what, change) in cases {
        let why = refused(change);
        assert!(why.contains(what), "{what}: {why}");
    }
}
