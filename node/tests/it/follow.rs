//! A node that follows another: it has the same blocks and answers, sends transactions on, and ends behind a lie.

use crate::{
    answers::build,
    kit::{Call, Client, address, config, deploy, development, instant, signed},
};
use alloy_primitives::{B256, Bytes, keccak256};
use phalanx_node::{BlockSource, Node, NodeConfig, NodeError, Production};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(600);

fn follower(folder: &Path, upstream: SocketAddr) -> NodeConfig {
    let mut settings = config(folder, Production::Off);
    settings.beneficiary = alloy_primitives::Address::ZERO;
    settings.source = BlockSource::Followed(format!("http://{upstream}"));
    settings
}

fn wait(what: &str, mut is_done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_done() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Compares two nodes at every height.
fn compare(ours: &Client, theirs: &Client, height: u64) {
    for at in 0..=height {
        let params = json!([format!("{at:#x}"), true]);
        assert_eq!(ours.get("eth_getBlockByNumber", params.clone()), theirs.get("eth_getBlockByNumber", params));
        let params = json!([format!("{at:#x}")]);
        for method in ["eth_getBlockReceipts", "debug_getRawBlockAccessList"] {
            assert_eq!(ours.get(method, params.clone()), theirs.get(method, params.clone()), "{method}");
        }
        for account in 0..8 {
            let params = json!([address(account), format!("{at:#x}")]);
            assert_eq!(ours.get("eth_getBalance", params.clone()), theirs.get("eth_getBalance", params));
        }
    }
    let logs = json!([{ "fromBlock": "0x0", "toBlock": "latest" }]);
    assert_eq!(ours.get("eth_getLogs", logs.clone()), theirs.get("eth_getLogs", logs));
}

#[test]
fn a_follower_has_the_same_answers_and_sends_transactions_on() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (sequencer, theirs) = instant(folder.path());
    build(&theirs);
    let settings = follower(other.path(), sequencer.address());
    let mut node = Node::start(&settings).expect("a node");
    let client = |node: &Node| Client::new(node.address());
    wait("it catches up", || node.height() == sequencer.height());
    compare(&client(&node), &theirs, node.height());
    for round in 0..3 {
        // A transaction to the follower is executed by the sequencer, and the receipt comes back.
        let receipt = client(&node).include(&signed(2, &Call::to(10, round, address(11), 3), vec![]));
        assert_eq!(receipt["status"], json!("0x1"));
        let waiting = client(&node).get("eth_getTransactionCount", json!([address(10), "pending"]));
        assert_eq!(waiting, json!(format!("{:#x}", round + 1)));
        let sync = signed(2, &Call::to(12, round, address(11), 3), vec![]);
        assert_eq!(client(&node).get("eth_sendRawTransactionSync", json!([sync]))["status"], json!("0x1"));
        // What the sequencer refuses is refused in its words.
        let old = json!([signed(2, &Call::to(10, 0, address(11), 4), vec![])]);
        let refused = client(&node).error("eth_sendRawTransaction", old.clone());
        assert_eq!(refused, theirs.error("eth_sendRawTransaction", old));
        // A restart of the follower loses nothing, and misses nothing.
        node.stop();
        theirs.include(&signed(2, &Call::to(13, round, address(11), 3), vec![]));
        node = Node::start(&settings).expect("a node");
        wait("it catches up", || node.height() == sequencer.height());
    }
    compare(&client(&node), &theirs, node.height());
    assert_eq!(client(&node).get("txpool_status", json!([])), json!({ "pending": "0x0", "queued": "0x0" }));
    // Without the sequencer it answers what it has, and goes on once that is back.
    let (address_of, height) = (sequencer.address(), sequencer.height());
    sequencer.stop();
    let mut again = config(folder.path(), Production::Instant);
    assert_eq!(client(&node).quantity("eth_blockNumber", json!([])), u128::from(height));
    let (code, text) =
        client(&node).error("eth_sendRawTransaction", json!([signed(2, &Call::to(1, 90, address(2), 1), vec![])]));
    assert_eq!(code, -32000, "{text}");
    assert!(text.contains("does not answer"), "{text}");
    node.wait(Duration::from_millis(700)).expect("it goes on");
    again.rpc.address = address_of;
    let sequencer = Node::start(&again).expect("the port is free again");
    Client::new(sequencer.address()).include(&signed(2, &Call::to(14, 0, address(2), 1), vec![]));
    wait("it catches up", || node.height() == sequencer.height());
    compare(&client(&node), &Client::new(sequencer.address()), node.height());
    node.stop();
    sequencer.stop();
}

#[test]
fn followers_keep_the_lists_of_both_sides_of_a_fork() {
    let folders: Vec<_> = (0..2).map(|_| tempfile::tempdir().expect("a folder")).collect();
    let mut settings = development(folders[0].path());
    let genesis = settings.genesis.timestamp;
    let time = |number: u64| genesis + 10 * number;
    settings.genesis.config.amsterdam_time = Some(time(4));
    let sequencer = Node::start(&settings).expect("a node");
    let theirs = Client::new(sequencer.address());
    let mut following = follower(folders[1].path(), sequencer.address());
    following.genesis = settings.genesis;
    let mut node = Node::start(&following).expect("a node");
    for nonce in 0..6 {
        theirs.get("evm_setNextBlockTimestamp", json!([time(nonce + 1)]));
        theirs.include(&signed(2, &Call::to(0, nonce, address(nonce), 3), vec![]));
    }
    wait("it catches up", || node.height() == sequencer.height());
    let ours = Client::new(node.address());
    compare(&ours, &theirs, node.height());
    let mut listed = 0;
    for at in 1..=node.height() {
        let at = format!("{at:#x}");
        let block = ours.get("eth_getBlockByNumber", json!([at, false]));
        let list = ours.get("debug_getRawBlockAccessList", json!([at]));
        let list: Bytes = serde_json::from_value(list).expect("bytes");
        assert!(!list.is_empty(), "block {at}");
        let raw = theirs.get("phalanx_getRawBlocks", json!([at, "0x1"]));
        if let Some(hash) = block.get("blockAccessListHash").filter(|hash| !hash.is_null()) {
            assert_eq!(*hash, json!(keccak256(&list)), "block {at}");
            assert_eq!(raw[0]["blockAccessList"], json!(list), "block {at}");
            listed += 1;
        } else {
            assert_eq!(raw[0].get("blockAccessList"), None, "block {at}");
        }
    }
    assert_eq!((listed, node.height()), (3, 6));
    // What is kept is kept over a restart.
    node.stop();
    node = Node::start(&following).expect("a node");
    compare(&Client::new(node.address()), &theirs, node.height());
    node.stop();
    sequencer.stop();
}

#[test]
fn followers_follow_followers() {
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a folder")).collect();
    let (sequencer, theirs) = instant(folders[0].path());
    let second = Node::start(&follower(folders[1].path(), sequencer.address())).expect("a node");
    let third = Node::start(&follower(folders[2].path(), second.address())).expect("a node");
    let client = Client::new(third.address());
    client.include(&deploy(0, 0, &crate::answers::COUNTER));
    client.include(&signed(3, &Call::to(1, 0, address(2), 1), vec![]));
    assert_eq!(third.height(), 2);
    compare(&client, &theirs, 2);
    for node in [third, second, sequencer] {
        node.stop();
    }
}

/// A node between a follower and its upstream, which changes answers about blocks.
struct Liar {
    address: SocketAddr,
    is_lying: Arc<AtomicBool>,
}

/// Change of the blocks in an answer.
type Lie = fn(&mut Vec<Value>);

impl Liar {
    fn start(upstream: SocketAddr, lie: Lie) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let is_lying = Arc::new(AtomicBool::new(false));
        let lying = Arc::clone(&is_lying);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let lying = Arc::clone(&lying);
                std::thread::spawn(move || serve(stream, upstream, lie, &lying));
            }
        });
        Self { address, is_lying }
    }
}

fn serve(mut stream: TcpStream, upstream: SocketAddr, lie: Lie, is_lying: &AtomicBool) {
    while let Some(body) = request(&mut stream) {
        let Ok((status, mut answer)) = Client::new(upstream).post(&body) else { return };
        if is_lying.load(Ordering::SeqCst) {
            let mut value: Value = serde_json::from_str(&answer).expect("JSON");
            if let Some(blocks) = value["result"].as_array_mut() {
                // The genesis is compared before anything else, and is no block to lie about here.
                let genesis = (blocks.len() > 1 && blocks[0]["number"] == "0x0").then(|| blocks.remove(0));
                lie(blocks);
                blocks.splice(0..0, genesis);
            } else if value["result"].is_string() {
                value["result"] = other_hash();
            }
            answer = value.to_string();
        }
        let head = format!("HTTP/1.1 {status} OK\r\nContent-Length: {}\r\n\r\n", answer.len());
        if stream.write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}

/// Body of the next request; `None` at the end of the connection.
fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let len = head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
    let mut body = vec![0; len];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn other_hash() -> Value {
    json!(B256::repeat_byte(7))
}

#[test]
fn a_lie_ends_the_follower_with_its_reason_and_is_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sequencer, theirs) = instant(folder.path());
    build(&theirs);
    let lies: [(&str, Lie); 15] = [
        ("state root", |blocks| blocks[0]["stateRoot"] = other_hash()),
        ("receipts root", |blocks| blocks[0]["receiptsRoot"] = other_hash()),
        ("gas", |blocks| blocks[0]["gasUsed"] = json!("0x1")),
        ("its hash is", |blocks| blocks[0]["hash"] = other_hash()),
        ("has this content", |blocks| blocks[0]["execution"] = other_hash()),
        ("is the newest here", |blocks| blocks[0]["parentHash"] = other_hash()),
        ("has this content", |blocks| blocks[0]["beneficiary"] = json!(address(3))),
        ("has this content", |blocks| blocks[0]["timestampMs"] = json!("0x1")),
        ("has this content", |blocks| blocks[0]["baseFeePerGas"] = json!("0x1")),
        ("has this content", |blocks| blocks[0]["gasLimit"] = json!("0x5209")),
        ("has this content", |blocks| blocks[0]["prevRandao"] = other_hash()),
        ("has this content", |blocks| blocks[0]["attributes"] = json!("0x01")),
        ("has this content", |blocks| blocks[0]["transactions"] = json!([])),
        ("is the newest here", |blocks| _ = blocks.remove(0)),
        ("is the newest here", |blocks| blocks.swap(0, 1)),
    ];
    for (what, lie) in lies {
        let other = tempfile::tempdir().expect("a folder");
        let liar = Liar::start(sequencer.address(), lie);
        liar.is_lying.store(true, Ordering::SeqCst);
        let settings = follower(other.path(), liar.address);
        let node = Node::start(&settings).expect("a node");
        let ended = node.wait(PATIENCE).expect_err("the node has ended");
        assert!(matches!(ended, NodeError::Upstream { height: 1, .. }), "{ended}");
        assert!(ended.to_string().contains(what), "{what}: {ended}");
        // It still answers, and shows nothing of the lie.
        assert_eq!(Client::new(node.address()).quantity("eth_blockNumber", json!([])), 0);
        node.stop();
        // An operator that mends the upstream node goes on from there.
        liar.is_lying.store(false, Ordering::SeqCst);
        let node = Node::start(&settings).expect("a node");
        wait("it catches up", || node.height() == sequencer.height());
        node.stop();
    }
    sequencer.stop();
}

#[test]
fn another_chain_is_noticed_at_the_newest_own_block() {
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a folder")).collect();
    let (first, client) = instant(folders[0].path());
    let (second, others) = instant(folders[1].path());
    client.include(&signed(2, &Call::to(0, 0, address(1), 1), vec![]));
    for nonce in 0..3 {
        others.include(&signed(2, &Call::to(0, nonce, address(2), 2), vec![]));
    }
    let node = Node::start(&follower(folders[2].path(), first.address())).expect("a node");
    wait("it catches up", || node.height() == 1);
    node.stop();
    let node = Node::start(&follower(folders[2].path(), second.address())).expect("a node");
    let ended = node.wait(PATIENCE).expect_err("the node has ended");
    assert!(ended.to_string().contains("another chain"), "{ended}");
    assert_eq!(node.height(), 1);
    for node in [node, first, second] {
        node.stop();
    }
}

#[test]
fn answers_that_are_none_are_waited_out_and_pruned_blocks_are_final() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sequencer, theirs) = instant(folder.path());
    theirs.include(&signed(2, &Call::to(0, 0, address(1), 1), vec![]));
    let junk: [Lie; 4] = [
        |blocks| blocks[0] = json!("junk"),
        |blocks| _ = blocks[0].as_object_mut().expect("a block").remove("hash"),
        |blocks| blocks[0]["transactions"] = json!(["0xzz"]),
        |blocks| blocks[0]["more"] = json!(1),
    ];
    for lie in junk {
        let other = tempfile::tempdir().expect("a folder");
        let liar = Liar::start(sequencer.address(), lie);
        liar.is_lying.store(true, Ordering::SeqCst);
        let node = Node::start(&follower(other.path(), liar.address)).expect("a node");
        node.wait(Duration::from_millis(300)).expect("it goes on");
        assert_eq!(node.height(), 0);
        liar.is_lying.store(false, Ordering::SeqCst);
        wait("it catches up", || node.height() == 1);
        node.stop();
    }
    sequencer.stop();
    // A node that does not serve the namespace has no blocks for followers.
    let mut settings = config(folder.path(), Production::Off);
    settings.rpc.namespaces.retain(|namespace| namespace != "phalanx");
    let upstream = Node::start(&settings).expect("a node");
    let other = tempfile::tempdir().expect("a folder");
    let node = Node::start(&follower(other.path(), upstream.address())).expect("a node");
    let ended = node.wait(PATIENCE).expect_err("the node has ended");
    assert!(ended.to_string().contains("namespace phalanx"), "{ended}");
    node.stop();
    upstream.stop();
}

#[test]
fn settings_that_contradict_following_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let changes: [fn(&mut NodeConfig); 2] =
        [|settings| settings.production = Production::Instant, |settings| settings.gas_limit = Some(1)];
    for change in changes {
        let mut settings = follower(folder.path(), SocketAddr::from(([127, 0, 0, 1], 1)));
        change(&mut settings);
        assert!(matches!(Node::start(&settings), Err(NodeError::Setting(why)) if why.contains("follows")));
    }
}

#[test]
fn an_upstream_node_that_is_silent_stops_nothing_but_transactions() {
    // Connections are accepted by the system, and nothing is ever read.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let folder = tempfile::tempdir().expect("a folder");
    let settings = follower(folder.path(), silent.local_addr().expect("an address"));
    let senders = settings.rpc.max_calls + 64;
    let node = Node::start(&settings).expect("a node");
    let address_of = node.address();
    let senders: Vec<_> = (0..senders)
        .map(|nonce| {
            let tx = json!([signed(2, &Call::to(1, nonce as u64, address(2), 1), vec![])]);
            std::thread::spawn(move || Client::new(address_of).error("eth_sendRawTransaction", tx).1)
        })
        .collect();
    // More requests than the node has threads for: some wait, the others are refused at once.
    wait("requests are refused", || senders.iter().filter(|sender| sender.is_finished()).count() >= senders.len() - 16);
    assert_eq!(Client::new(address_of).quantity("eth_blockNumber", json!([])), 0);
    let why: Vec<String> = senders.into_iter().map(|sender| sender.join().expect("an answer")).collect();
    assert!(why.iter().all(|why| why.contains("is busy") || why.contains("does not answer")), "{why:?}");
    // The follower itself waits for blocks meanwhile. The other node never answers: the stop alone ends that.
    node.stop();
    drop(silent);
}

/// A node between a follower and its upstream, which answers without end while it floods.
struct Flood {
    address: SocketAddr,
    is_flooding: Arc<AtomicBool>,
    /// Number of blocks that were asked for, and bytes that the follower took of the answer.
    taken: Arc<Mutex<Vec<(u64, usize)>>>,
}

impl Flood {
    fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (is_flooding, taken) = (Arc::new(AtomicBool::new(true)), Arc::<Mutex<Vec<_>>>::default());
        let (flag, log) = (Arc::clone(&is_flooding), Arc::clone(&taken));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (flag, log) = (Arc::clone(&flag), Arc::clone(&log));
                std::thread::spawn(move || flood(stream, upstream, &flag, &log));
            }
        });
        Self { address, is_flooding, taken }
    }
}

fn flood(mut stream: TcpStream, upstream: SocketAddr, is_flooding: &AtomicBool, taken: &Mutex<Vec<(u64, usize)>>) {
    while let Some(body) = request(&mut stream) {
        if !is_flooding.load(Ordering::SeqCst) {
            let Ok((status, answer)) = Client::new(upstream).post(&body) else { return };
            let head = format!("HTTP/1.1 {status} OK\r\nContent-Length: {}\r\n\r\n", answer.len());
            if stream.write_all((head + &answer).as_bytes()).is_err() {
                return;
            }
            continue;
        }
        let asked: Value = serde_json::from_slice(&body).expect("JSON");
        let count = asked["params"][1].as_str().and_then(|count| u64::from_str_radix(&count[2..], 16).ok());
        let piece = [&b"10000\r\n"[..], &vec![b'['; 0x10000], b"\r\n"].concat();
        let mut bytes = 0;
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut sent = stream.write_all(head);
        while sent.is_ok() {
            sent = stream.write_all(&piece);
            bytes += 0x10000;
        }
        taken.lock().expect("no panic").push((count.expect("a number"), bytes));
        return;
    }
}

#[test]
fn answers_without_end_are_cut_off_and_fewer_blocks_are_asked_for() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (sequencer, theirs) = instant(folder.path());
    theirs.include(&signed(2, &Call::to(1, 0, address(2), 1), vec![]));
    let flood = Flood::start(sequencer.address());
    let node = Node::start(&follower(other.path(), flood.address)).expect("a node");
    wait("it asks for one block", || flood.taken.lock().expect("no panic").len() >= 7);
    let taken = flood.taken.lock().expect("no panic").clone();
    // The kernel's buffers are the rest.
    let most = (48 << 20) + (16 << 20);
    assert!(taken.iter().all(|(_, bytes)| *bytes < most), "{taken:?}");
    assert_eq!(taken[..7].iter().map(|(count, _)| *count).collect::<Vec<_>>(), [64, 32, 16, 8, 4, 2, 1]);
    assert_eq!(Client::new(node.address()).quantity("eth_blockNumber", json!([])), 0);
    flood.is_flooding.store(false, Ordering::SeqCst);
    wait("it catches up", || node.height() == sequencer.height());
    node.stop();
    sequencer.stop();
}

#[test]
fn a_gas_limit_that_moves_by_steps_is_followed() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut settings = config(folder.path(), Production::Instant);
    settings.gas_limit = Some(settings.genesis.gas_limit * 2);
    let sequencer = Node::start(&settings).expect("a node");
    let client = Client::new(sequencer.address());
    let node = Node::start(&follower(other.path(), sequencer.address())).expect("a node");
    let limit = |at: u64| client.get("eth_getBlockByNumber", json!([format!("{at:#x}"), false]))["gasLimit"].clone();
    for nonce in 0..3 {
        client.include(&signed(2, &Call::to(1, nonce, address(2), 1), vec![]));
    }
    let step = |limit: u64| limit + limit / 1024 - 1;
    let mut expected = settings.genesis.gas_limit;
    for at in 1..=3 {
        expected = step(expected);
        assert_eq!(limit(at), json!(format!("{expected:#x}")));
    }
    wait("it catches up", || node.height() == sequencer.height());
    compare(&Client::new(node.address()), &client, node.height());
    for node in [node, sequencer] {
        node.stop();
    }
}

#[test]
fn a_hash_or_blocks_that_were_not_asked_for_are_not_taken() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (sequencer, theirs) = instant(folder.path());
    theirs.include(&signed(2, &Call::to(1, 0, address(2), 1), vec![]));
    let many: Lie = |blocks| {
        let block = blocks[0].clone();
        blocks.resize(65, block);
    };
    let liar = Liar::start(sequencer.address(), many);
    liar.is_lying.store(true, Ordering::SeqCst);
    let node = Node::start(&follower(other.path(), liar.address)).expect("a node");
    node.wait(Duration::from_millis(300)).expect("it goes on");
    assert_eq!(node.height(), 0);
    let tx = signed(2, &Call::to(1, 1, address(2), 1), vec![]);
    let (_, why) = Client::new(node.address()).error("eth_sendRawTransaction", json!([tx]));
    assert!(why.contains("names the transaction"), "{why}");
    node.stop();
    sequencer.stop();
}
