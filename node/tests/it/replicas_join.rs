//! Nodes that join the replicas of a paper's protocol by a snapshot, because all others have pruned the blocks that they lack.

use crate::replicas::{Net, PATIENCE, payment, wait};
use phalanx_node::{
    Node, NodeError,
    net::{Beginning, LogError, NetConfig, ProtocolName, ReplicaError, is_joining},
};
use serde_json::json;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// First byte of a reply with a chunk.
const CHUNK: u8 = 5;

/// What a relay before the clients of a replica does with chunks.
#[derive(Clone, Copy, PartialEq)]
enum Relay {
    Spoils,
    HoldsBack,
}

/// Relays connections until the process ends; counts the chunks that it does not pass on as they are.
fn relay(to: SocketAddr, relay: Relay, count: Arc<AtomicU64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let Ok(mut server) = TcpStream::connect(to) else { continue };
            let (mut from, mut into) = (client.try_clone().expect("a stream"), server.try_clone().expect("a stream"));
            thread::spawn(move || std::io::copy(&mut from, &mut into));
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let mut length = [0; 4];
                while server.read_exact(&mut length).is_ok() {
                    let mut body = vec![0; u32::from_be_bytes(length) as usize];
                    server.read_exact(&mut body).expect("a frame");
                    if body[0] == CHUNK {
                        count.fetch_add(1, Relaxed);
                        if relay == Relay::HoldsBack {
                            continue;
                        }
                        let last = body.len() - 1;
                        body[last] ^= 1;
                    }
                    if client.write_all(&[&length[..], &body].concat()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    at
}

/// The network as one node has it, with relays before the clients of these replicas.
fn relayed(network: &NetConfig, of: &[usize], kind: Relay) -> (NetConfig, Arc<AtomicU64>) {
    let (mut network, count) = (network.clone(), Arc::new(AtomicU64::new(0)));
    for index in of {
        let clients = &mut network.replicas[*index].clients;
        *clients = relay(*clients, kind, Arc::clone(&count));
    }
    (network, count)
}

/// Sends a payment of an account to node 0, and waits for its block at all nodes that are up.
fn pay(net: &Net, nonces: &mut u64) {
    let hash = net.client(0).send(&payment(0, *nonces));
    *nonces += 1;
    net.included(hash);
}

fn joins(protocol: ProtocolName) {
    let mut net = Net::with(protocol, |network| {
        (network.interval, network.retention, network.snapshot_every) = (4, 4, 4);
    });
    let mut nonces = 0;
    (0..4).for_each(|_| pay(&net, &mut nonces));
    net.nodes[3].take().expect("it runs").stop();
    let dir = net.network.replicas[3].dir.clone();
    fs::remove_dir_all(&dir).expect("a folder");
    let status = |net: &Net, index: usize| net.nodes[index].as_ref().expect("it runs").replica().expect("a replica");
    let has_pruned = |net: &Net| (0..3).all(|index| status(net, index).snapshots.iter().all(|height| *height > 4));
    while nonces < 24 || !has_pruned(&net) {
        pay(&net, &mut nonces);
    }
    // Without its log it does not start; silently it does, and finds that no other has the blocks.
    let refused = net.begin(3, net.network.clone(), Beginning::Usual);
    assert!(
        matches!(refused, Err(NodeError::Replica(ReplicaError::Log(LogError::Lost { .. })))),
        "{:?}",
        refused.map(drop)
    );
    let silent = net.begin(3, net.network.clone(), Beginning::Silent).expect("it starts");
    let ended = silent.wait(PATIENCE).expect_err("all have pruned the blocks");
    assert!(ended.is_behind(), "{ended}");
    silent.stop();
    // It ends while it waits for a chunk.
    let (network, held) = relayed(&net.network, &[0, 1, 2], Relay::HoldsBack);
    let interrupted = net.begin(3, network, Beginning::Snapshot).expect("it joins");
    wait("a chunk is asked for", || (held.load(Relaxed) > 0).then_some(()));
    assert!(!interrupted.is_open() && is_joining(&dir));
    drop(interrupted);
    // It goes on by itself; the first replica that it asks sends a chunk that is none.
    let (network, spoilt) = relayed(&net.network, &[0], Relay::Spoils);
    let node = net.begin(3, network, Beginning::Usual).expect("it joins");
    wait("it has joined", || node.is_open().then_some(()));
    assert!(spoilt.load(Relaxed) > 0 && !is_joining(&dir));
    let joined = node.height();
    assert!(joined > 0);
    wait("its replica runs", || node.replica().map(|_| ()));
    assert!(node.replica().expect("a replica").silent, "it may have voted before");
    net.nodes[3] = Some(node);
    net = until_it_votes(net, &mut nonces);
    same_blocks(&net, joined);
    // It is one of the three that the order needs, and a restart keeps its place.
    net.nodes[0].take().expect("it runs").stop();
    net.nodes[3].take().expect("it runs").stop();
    net.start(3);
    assert!(!status(&net, 3).silent);
    let hash = net.client(3).send(&payment(1, 0));
    assert_eq!(net.included(hash)["status"], json!("0x1"));
    net.stop();
}

/// Longest pause for node 3 between two payments. The others keep four blocks, and an unbroken load would leave it behind again and again.
const PAUSE: Duration = Duration::from_secs(1);

/// Pays until node 3 votes. A node that is behind again joins again, as the command does.
fn until_it_votes(mut net: Net, nonces: &mut u64) -> Net {
    wait("it votes", || {
        pay_at(&net, nonces);
        let node = net.nodes[3].as_ref().expect("it runs");
        let (newest, begun) = (net.nodes[0].as_ref().expect("it runs").height(), Instant::now());
        let mut ended = node.wait(Duration::ZERO);
        while ended.is_ok() && node.height() < newest && begun.elapsed() < PAUSE {
            ended = node.wait(Duration::from_millis(5));
        }
        if ended.is_err_and(|error| error.is_behind()) {
            net.nodes[3].take().expect("it runs").stop();
            let again = net.begin(3, net.network.clone(), Beginning::Snapshot).expect("it joins");
            wait("it has joined", || again.replica().map(|_| ()));
            net.nodes[3] = Some(again);
        }
        let silent = net.nodes[3].as_ref().and_then(Node::replica).is_none_or(|status| status.silent);
        (!silent).then_some(())
    });
    net
}

/// Sends a payment to node 0, and waits for its block there.
fn pay_at(net: &Net, nonces: &mut u64) {
    let client = net.client(0);
    let hash = client.send(&payment(0, *nonces));
    *nonces += 1;
    crate::replicas::receipt(&client, hash);
}

/// Compares the blocks above a height at all nodes, and the state.
fn same_blocks(net: &Net, above: u64) {
    let clients = net.clients();
    let height = clients[0].quantity("eth_blockNumber", json!([]));
    for client in &clients[1..] {
        wait("a block", || (client.quantity("eth_blockNumber", json!([])) >= height).then_some(()));
        for at in u128::from(above) + 1..=height {
            let params = json!([format!("{at:#x}"), true]);
            // A node that has joined again has no blocks below its newest snapshot.
            let answer = client.ask("eth_getBlockByNumber", params.clone())["result"].take();
            if !answer.is_null() {
                assert_eq!(answer, clients[0].get("eth_getBlockByNumber", params), "block {at}");
            }
        }
        let newest = json!([format!("{height:#x}"), true]);
        let of = |client: &crate::kit::Client| client.get("eth_getBlockByNumber", newest.clone());
        assert_eq!(of(client), of(&clients[0]));
    }
}

#[test]
fn a_wiped_node_of_pbft_joins_by_a_snapshot() {
    joins(ProtocolName::Pbft);
}

#[test]
fn a_wiped_node_of_sbft_joins_by_a_snapshot() {
    joins(ProtocolName::Sbft);
}

#[test]
fn a_wiped_node_of_autobahn_joins_by_a_snapshot() {
    joins(ProtocolName::Autobahn);
}
