//! State sync: an empty node takes the snapshot of another by the calls of a scripted CometBFT, and goes on with the chain.

use crate::{
    answers::COUNTER,
    kit::{Call, Client, address, config, deploy, signed},
};
use alloy_primitives::{Address, B256, U256};
use phalanx::alloy::genesis::GenesisAccount;
use phalanx_abci::{
    conformance::{Broken, Comet, Peer, Proposal, TcpLink, chunk, snapshots},
    proto::Snapshot,
};
use phalanx_node::{BlockSource, CometConfig, Node, NodeConfig, Production};
use serde_json::{Value, json};
use std::{net::SocketAddr, path::Path};

/// Name of the chain: its number is at the end.
const NAME: &str = "phalanx-4242";

/// Milliseconds at which the chain begins.
const START_MS: u64 = 1_790_000_000_250;

/// Number of accounts that make the state two chunks long.
const ACCOUNTS: u64 = 40_000;

/// Height of the newest snapshot of the source.
const JOINED: u64 = 9;

fn settings(folder: &Path, state_sync: bool) -> NodeConfig {
    let mut settings = config(folder, Production::Off);
    settings.beneficiary = Address::ZERO;
    let account = |number| {
        let address = Address::from_word(B256::from(U256::from(0xacc_0000_u64 + number)));
        (address, GenesisAccount::default().with_balance(U256::from(number + 1)))
    };
    settings.genesis.alloc.extend((0..ACCOUNTS).map(account));
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let rpc = SocketAddr::from(([127, 0, 0, 1], 1));
    settings.source = BlockSource::Comet(CometConfig { abci: local, rpc, snapshot_every: 3, snapshots: 2, state_sync });
    settings
}

fn link(node: &Node) -> TcpLink {
    TcpLink::connect(node.abci_address().expect("ABCI")).expect("a connection")
}

/// A node with a chain of eleven blocks.
struct Source {
    node: Node,
    comet: Comet,
    _folder: tempfile::TempDir,
}

impl Source {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let node = Node::start(&settings(folder.path(), false)).expect("a node");
        let mut comet = Comet::new(NAME, START_MS);
        let mut link = link(&node);
        comet.handshake(&mut link).expect("sound");
        let client = Client::new(node.address());
        for height in 1..=8 {
            // A contract, blobs, and what cannot run: the snapshot's own block has all kinds.
            client.send(&signed(3, &Call::to(1, height - 1, address(2), 1), vec![]));
            client.send(&deploy(4, height - 1, &COUNTER));
            comet.height(&mut link, &[Proposal::Own]).expect("sound");
            assert_eq!(comet.blocks().last().expect("a block").txs.len(), 2);
        }
        let junk =
            vec![alloy_primitives::Bytes::from_static(b"\x02junk"), signed(2, &Call::to(0, 0, address(9), 7), vec![])];
        for _ in 0..3 {
            comet.height(&mut link, &[Proposal::Unseen(junk.clone())]).expect("sound");
        }
        Self { node, comet, _folder: folder }
    }

    fn peer(&self, name: &str) -> Peer<'static> {
        let mut link = link(&self.node);
        Peer {
            name: name.into(),
            snapshots: snapshots(&mut link).expect("a list"),
            chunk: Box::new(move |height, format, number| chunk(&mut link, height, format, number).expect("an answer")),
        }
    }
}

/// Compares a joined node with the source.
fn compare(source: &Source, joined: &Node, from: u64) {
    let (ours, theirs) = (Client::new(joined.address()), Client::new(source.node.address()));
    let newest = source.comet.blocks().len() as u64;
    assert_eq!(joined.height(), newest);
    for height in from + 1..=newest {
        let params = json!([format!("{height:#x}"), true]);
        assert_eq!(ours.get("eth_getBlockByNumber", params.clone()), theirs.get("eth_getBlockByNumber", params));
        let params = json!([format!("{height:#x}")]);
        assert_eq!(ours.get("eth_getBlockReceipts", params.clone()), theirs.get("eth_getBlockReceipts", params));
    }
    for account in 0..10 {
        for method in ["eth_getBalance", "eth_getTransactionCount", "eth_getCode"] {
            for at in ["latest", &format!("{from:#x}")] {
                let params = json!([address(account), at]);
                assert_eq!(ours.get(method, params.clone()), theirs.get(method, params), "{method} {account} {at}");
            }
        }
    }
    let counter = address(4).create(0);
    assert_eq!(
        ours.get("eth_getCode", json!([counter, "latest"])),
        theirs.get("eth_getCode", json!([counter, "latest"]))
    );
    // What lies before is pruned, and says so.
    for height in [0, 1, from] {
        let answer = ours.ask("eth_getBlockByNumber", json!([format!("{height:#x}"), false]));
        assert_eq!(answer["error"]["code"], json!(4444), "{height}: {answer}");
    }
    let logs = ours.ask("eth_getLogs", json!([{ "fromBlock": "0x1", "toBlock": "latest" }]));
    assert_eq!(logs["error"]["code"], json!(4444), "{logs}");
    let fees = ours.ask("eth_feeHistory", json!(["0x400", "latest", []]));
    assert!(fees["error"].is_null(), "{fees}");
    assert_eq!(
        ours.get("eth_getBlockByNumber", json!(["earliest", false]))["number"],
        json!(format!("{:#x}", from + 1))
    );
}

#[test]
fn an_empty_node_joins_by_a_snapshot_with_deaths_of_both_at_every_step() {
    let source = Source::start();
    let (mut steps, mut step) = (1, 0);
    while step <= steps {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path(), true);
        let mut node = Node::start(&settings).expect("a node");
        assert!(!node.is_open());
        let mut comet = Comet::joining(&source.comet);
        comet.die_at(Some(step));
        loop {
            let mut calls = link(&node);
            let mut go_on = || -> Result<(), Broken> {
                if comet.state().0 == 0 {
                    let mut peers = vec![source.peer("one"), source.peer("two")];
                    assert_eq!(comet.sync(&mut calls, &source.comet, &mut peers)?, JOINED);
                } else {
                    comet.handshake(&mut calls)?;
                }
                comet.catch_up(&mut calls, &source.comet)
            };
            match go_on() {
                Ok(()) => break,
                Err(Broken::Died) => {}
                Err(other) => panic!("step {step}: {other}"),
            }
            comet.die_at(None);
            node.stop();
            node = Node::start(&settings).expect("a node");
        }
        if step == 0 {
            steps = comet.steps();
            assert!(steps > 10, "{steps}");
        }
        // Comparisons are long: every step ends with the same state, and some with a look at all of it.
        assert_eq!(comet.state().1, source.comet.state().1, "step {step}");
        if step % 5 == 0 {
            compare(&source, &node, JOINED);
            node.stop();
            node = Node::start(&settings).expect("a node");
            compare(&source, &node, JOINED);
            comet.handshake(&mut link(&node)).expect("sound");
            // It proposes and offers like any other.
            comet.height(&mut link(&node), &[Proposal::Own]).expect("sound");
            comet.height(&mut link(&node), &[Proposal::Own]).expect("sound");
            let heights: Vec<u64> = snapshots(&mut link(&node)).expect("a list").iter().map(|one| one.height).collect();
            assert_eq!(heights, [12]);
        }
        node.stop();
        step += 1;
    }
}

#[test]
fn a_newer_snapshot_replaces_one_that_the_chain_has_not_gone_on_from() {
    let mut source = Source::start();
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), true);
    let node = Node::start(&settings).expect("a node");
    let mut first = Comet::joining(&source.comet);
    assert_eq!(first.sync(&mut link(&node), &source.comet, &mut vec![source.peer("one")]), Ok(JOINED));
    node.stop();
    // CometBFT dies before it has saved its state, and there is a newer snapshot by then.
    for _ in 0..3 {
        source.comet.height(&mut link(&source.node), &[Proposal::Own]).expect("sound");
    }
    let node = Node::start(&settings).expect("a node");
    let mut second = Comet::joining(&source.comet);
    assert_eq!(second.sync(&mut link(&node), &source.comet, &mut vec![source.peer("one")]), Ok(12));
    second.catch_up(&mut link(&node), &source.comet).expect("sound");
    compare(&source, &node, 12);
    node.stop();
}

/// What a peer sends, changed.
fn liar(source: &Source, name: &str, edit: impl Fn(&mut Snapshot)) -> Peer<'static> {
    let mut peer = source.peer(name);
    for snapshot in &mut peer.snapshots {
        edit(snapshot);
        snapshot.hash = alloy_primitives::keccak256(&snapshot.metadata).to_vec().into();
    }
    peer
}

fn edited(snapshot: &mut Snapshot, edit: impl Fn(&mut Vec<u8>)) {
    let mut metadata = snapshot.metadata.to_vec();
    edit(&mut metadata);
    snapshot.metadata = metadata.into();
}

#[test]
fn every_changed_byte_of_the_metadata_and_every_bad_chunk_is_refused() {
    let stride = std::env::var("PHALANX_STRIDE").map_or(8, |stride| stride.parse().expect("a distance in bytes"));
    let source = Source::start();
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(&settings(folder.path(), true)).expect("a node");
    let mut calls = link(&node);
    let best = source.peer("one").snapshots.into_iter().max_by_key(|one| one.height).expect("a snapshot");
    let mut refused = |peer: Peer<'static>, what: &str| {
        let mut comet = Comet::joining(&source.comet);
        let mut peers = vec![peer];
        let error = comet.sync(&mut calls, &source.comet, &mut peers);
        assert_eq!(error, Err(Broken::Wrong("no snapshot is accepted".into())), "{what}");
    };
    for at in (0..best.metadata.len()).step_by(stride) {
        let flip = |bytes: &mut Vec<u8>| {
            let place = at % bytes.len();
            bytes[place] ^= 1 << (at / stride % 8);
        };
        let peer = liar(&source, "liar", |snapshot| edited(snapshot, flip));
        refused(peer, &format!("byte {at}"));
    }
    refused(liar(&source, "liar", |snapshot| edited(snapshot, |bytes| bytes.push(0))), "a byte more");
    refused(liar(&source, "liar", |snapshot| edited(snapshot, |bytes| _ = bytes.pop())), "a byte less");
    refused(liar(&source, "liar", |snapshot| snapshot.chunks += 1), "a chunk more");
    refused(liar(&source, "liar", |snapshot| snapshot.height -= 1), "another height");
    refused(liar(&source, "liar", |snapshot| snapshot.format += 1), "another format");
    for (what, edit) in [
        ("nothing", (|_| Vec::new()) as fn(Vec<u8>) -> Vec<u8>),
        ("a flipped bit", |mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            bytes
        }),
        ("the end cut off", |mut bytes| {
            bytes.pop();
            bytes
        }),
        ("a byte more", |mut bytes| {
            bytes.push(0);
            bytes
        }),
    ] {
        let mut peer = source.peer("liar");
        let mut real = peer.chunk;
        peer.chunk = Box::new(move |height, format, number| edit(real(height, format, number).to_vec()).into());
        refused(peer, what);
    }
    // A state of another chain under its own app hash: the light client of a CometBFT that was told the wrong chain.
    let other = tempfile::tempdir().expect("a folder");
    let mut settings = settings(other.path(), true);
    settings.genesis.alloc.insert(Address::repeat_byte(0x99), GenesisAccount::default().with_balance(U256::ONE));
    let foreign = Node::start(&settings).expect("a node");
    let mut comet = Comet::joining(&source.comet);
    let error = comet.sync(&mut link(&foreign), &source.comet, &mut vec![source.peer("one")]);
    assert_eq!(error, Err(Broken::Wrong("no snapshot is accepted".into())), "another genesis");
    foreign.stop();
    // After all that, an honest peer among liars is enough.
    let mut peers = vec![liar(&source, "liar", |snapshot| edited(snapshot, |bytes| bytes[0] ^= 1)), source.peer("one")];
    let mut comet = Comet::joining(&source.comet);
    assert_eq!(comet.sync(&mut calls, &source.comet, &mut peers), Ok(JOINED));
    comet.catch_up(&mut calls, &source.comet).expect("sound");
    compare(&source, &node, JOINED);
    // A node with a chain takes no snapshot.
    let error = Comet::joining(&source.comet).sync(&mut calls, &source.comet, &mut peers);
    assert_eq!(error, Err(Broken::Wrong("the application aborts state sync at an offer".into())));
    assert_eq!(Value::from(node.height()), json!(source.comet.blocks().len()));
    node.stop();
}
