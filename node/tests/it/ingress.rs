//! The binary ingress, and batches of JSON-RPC through the same queue: verdicts in order, hostile frames, bounds, and the end.

use crate::kit::{Call, Client, config, signed};
use alloy_primitives::{Address, B256, Bytes, keccak256};
use phalanx_node::{
    BlockSource, IngressAddress, Node, NodeConfig, Production,
    ingress::{
        Code, Ended, GREETING, IN_FLIGHT, MAX_TXS,
        client::{Receiver, Sender, connect},
    },
};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(600);

fn start(folder: &Path, with: impl FnOnce(&mut NodeConfig)) -> (Node, Client) {
    let mut settings = config(folder, Production::Every(Duration::from_millis(20)));
    settings.ingress = vec![IngressAddress::Tcp(([127, 0, 0, 1], 0).into()), IngressAddress::Unix(folder.join("in"))];
    with(&mut settings);
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    (node, client)
}

fn transfer(from: u64, nonce: u64) -> Bytes {
    signed(2, &Call::to(from, nonce, Address::repeat_byte(0xaa), 1), vec![])
}

fn codes(receiver: &mut Receiver) -> Vec<Code> {
    receiver.receive().expect("verdicts").into_iter().map(|verdict| verdict.code).collect()
}

fn tcp(node: &Node) -> TcpStream {
    let IngressAddress::Tcp(address) = node.ingress()[0].clone() else { panic!("the first one is of TCP") };
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Answer of the node to these bytes, behind its greeting, until the connection ends.
fn said(node: &Node, bytes: &[u8]) -> Vec<u8> {
    let mut stream = tcp(node);
    // The node may end the connection amid them.
    let _ = stream.write_all(bytes);
    let mut greeting = [0; 16];
    stream.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(greeting[..8], GREETING);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    rest
}

fn wait_for(client: &Client, hash: &B256) {
    let begun = Instant::now();
    while client.get("eth_getTransactionReceipt", json!([hash])).is_null() {
        assert!(begun.elapsed() < PATIENCE, "no receipt of {hash}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_transaction_of_a_frame_has_its_verdict_over_tcp_and_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path(), |_| {});
    for (account, address) in (0..).zip(node.ingress()) {
        let (mut sender, mut receiver) = connect(&address).expect("a connection");
        let good = transfer(account, 0);
        let spent = signed(2, &Call::to(account, 1, Address::repeat_byte(0xaa), u64::MAX), vec![]);
        let far = transfer(account, 100_000);
        let frame = [good.clone(), good.clone(), spent.clone(), Bytes::new(), vec![0xff; 9].into(), far.clone()];
        sender.send(&frame).expect("sent");
        let verdicts = receiver.receive().expect("verdicts");
        let codes: Vec<_> = verdicts.iter().map(|verdict| verdict.code).collect();
        let expected =
            [Code::Admitted, Code::Known, Code::Admitted, Code::Malformed, Code::Malformed, Code::NonceTooFar];
        assert_eq!(codes, expected, "{address}");
        let zero = B256::ZERO;
        let hashes = [keccak256(&good), keccak256(&good), keccak256(&spent), zero, zero, keccak256(&far)];
        assert!(verdicts.iter().zip(hashes).all(|(verdict, hash)| verdict.hash == hash), "{verdicts:?}");
        wait_for(&client, &keccak256(&good));
        sender.send(&[good, transfer(account, 0)]).expect("sent");
        assert_eq!(self::codes(&mut receiver), [Code::NonceUsed; 2]);
        sender.send(&[] as &[Bytes]).expect("sent");
        assert!(receiver.receive().expect("an empty answer").is_empty());
    }
    node.stop();
    assert!(!folder.path().join("in").exists(), "the socket goes with the node");
}

#[test]
fn many_frames_are_answered_in_order_and_all_get_into_blocks() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path(), |_| {});
    let (mut sender, mut receiver) = connect(&node.ingress()[0]).expect("a connection");
    let frames: Vec<Vec<Bytes>> = (0..40)
        .map(|frame| (0..8).flat_map(|from| [2 * frame, 2 * frame + 1].map(|nonce| transfer(from, nonce))).collect())
        .collect();
    let hashes: Vec<Vec<B256>> = frames.iter().map(|frame| frame.iter().map(keccak256).collect()).collect();
    let sending = std::thread::spawn(move || {
        for frame in frames {
            sender.send(&frame).expect("sent");
        }
        sender
    });
    for hashes in &hashes {
        let verdicts = receiver.receive().expect("verdicts");
        assert!(verdicts.iter().all(|verdict| verdict.code == Code::Admitted), "{verdicts:?}");
        assert!(verdicts.iter().map(|verdict| verdict.hash).eq(hashes.iter().copied()));
    }
    drop::<Sender>(sending.join().expect("no panic"));
    hashes.iter().flatten().for_each(|hash| wait_for(&client, hash));
    node.stop();
}

#[test]
fn frames_that_break_the_format_end_their_connection_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path(), |settings| settings.rpc.max_request = 100_000);
    let ended = |why: Ended| [0, 0, 0, 1, why as u8].to_vec();
    let greeted = |rest: &[u8]| [&GREETING[..], rest].concat();
    assert_eq!(said(&node, b"GET / HTTP/1.1\r\n\r\n"), ended(Ended::Greeting));
    assert_eq!(said(&node, &greeted(&[0xff, 0xff, 0xff, 0xff])), ended(Ended::TooLong));
    assert_eq!(said(&node, &greeted(&100_001_u32.to_be_bytes())), ended(Ended::TooLong));
    assert_eq!(said(&node, &greeted(&[0, 0, 0, 3, 0, 0, 0])), ended(Ended::Frame));
    assert_eq!(said(&node, &greeted(&[0, 0, 0, 5, 0, 0, 0, 2, 9])), ended(Ended::Frame));
    let many = [&(4 * MAX_TXS as u32 + 4).to_be_bytes()[..], &vec![0; 4 * MAX_TXS + 4]].concat();
    assert_eq!(said(&node, &greeted(&many)), ended(Ended::TooLong));
    // A client that dies amid a frame, and one behind its greeting.
    for cut in [GREETING.len(), GREETING.len() + 7] {
        let whole = greeted(&[0, 0, 0, 9, 0, 0, 0, 5, 1, 2, 3, 4, 5]);
        tcp(&node).write_all(&whole[..cut]).expect("sent");
    }
    // Verdicts on what came before a bad frame come first.
    let tx = transfer(0, 0);
    let mut bytes = greeted(&(4 + tx.len() as u32).to_be_bytes());
    bytes.extend((tx.len() as u32).to_be_bytes());
    bytes.extend(&tx);
    bytes.extend([0, 0, 0, 1, 7]);
    let answer = said(&node, &bytes);
    assert_eq!(answer[..5], [0, 0, 0, 33, Code::Admitted as u8]);
    assert_eq!((&answer[5..37], &answer[37..]), (keccak256(&tx).as_slice(), &ended(Ended::Frame)[..]));
    wait_for(&client, &keccak256(&tx));
    // A client of the workspace refuses to send what the node would.
    let (mut sender, _receiver) = connect(&node.ingress()[0]).expect("a connection");
    assert_eq!(sender.max_txs(), MAX_TXS);
    assert_eq!(sender.send(&[vec![0; 100_000]]).expect_err("too long").kind(), std::io::ErrorKind::InvalidInput);
    node.stop();
}

#[test]
fn a_client_that_reads_no_verdicts_holds_itself_up_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path(), |settings| settings.rpc.patience = Duration::from_secs(1));
    let frame = {
        let txs = vec![0xff_u8; 5 * MAX_TXS];
        let mut frame = (5 * MAX_TXS as u32).to_be_bytes().to_vec();
        txs.chunks(5).for_each(|_| frame.extend([0, 0, 0, 1, 0xff]));
        frame
    };
    let mut greedy = tcp(&node);
    greedy.write_all(&GREETING).expect("sent");
    let (ends, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Each frame has an answer of 135 kB, and none is read: the node stops reading, and then ends the connection.
        let frames = (0..100_000).take_while(|_| greedy.write_all(&frame).is_ok()).count();
        ends.send(frames)
    });
    let begun = Instant::now();
    let (mut sender, mut receiver) = connect(&node.ingress()[0]).expect("a connection");
    let mut nonce = 0;
    let frames = loop {
        assert!(begun.elapsed() < PATIENCE, "the greedy client is served for ever");
        sender.send(&[transfer(1, nonce)]).expect("sent");
        assert_eq!(codes(&mut receiver), [Code::Admitted], "an honest client is answered meanwhile");
        nonce += 1;
        match ended.recv_timeout(Duration::from_millis(50)) {
            Ok(frames) => break frames,
            Err(_) => continue,
        }
    };
    assert!(frames < 100 * IN_FLIGHT, "{frames} frames were taken without an answer that is read");
    assert_eq!(client.get("eth_chainId", json!([])), json!("0x1092"));
    node.stop();
}

#[test]
fn a_stopping_node_says_so_behind_its_verdicts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, _client) = start(folder.path(), |_| {});
    let (mut sender, mut receiver) = connect(&node.ingress()[1]).expect("a connection");
    sender.send(&[transfer(0, 0)]).expect("sent");
    assert_eq!(codes(&mut receiver), [Code::Admitted]);
    node.stop();
    let why = receiver.receive().expect_err("the end");
    assert_eq!(why.get_ref().and_then(|why| why.downcast_ref::<Ended>()), Some(&Ended::Stops));
    // The next start replaces a socket that a killed process has left, and not one that is listened on.
    std::os::unix::net::UnixListener::bind(folder.path().join("in")).map(drop).expect("a socket, left behind");
    let (node, _client) = start(folder.path(), |_| {});
    let other = tempfile::tempdir().expect("a folder");
    let mut settings = config(other.path(), Production::Off);
    settings.ingress = vec![IngressAddress::Unix(folder.path().join("in"))];
    let why = Node::start(&settings).expect_err("it is taken").to_string();
    assert!(why.contains("the binary ingress cannot listen on unix:"), "{why}");
    let file = folder.path().join("notes");
    std::fs::write(&file, "no socket").expect("written");
    settings.ingress = vec![IngressAddress::Unix(file.clone())];
    assert!(Node::start(&settings).expect_err("it is a file").to_string().contains("cannot listen"));
    assert_eq!(std::fs::read_to_string(&file).expect("it stays"), "no socket");
    assert!(connect(&node.ingress()[1]).is_ok(), "the first node still listens");
    node.stop();
}

#[test]
fn a_batch_keeps_order_ids_and_errors_of_transactions_among_other_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path(), |settings| settings.production = Production::Off);
    let send = |id: Value, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "eth_sendRawTransaction", "params": params });
    let (first, second, third) = (transfer(0, 0), transfer(0, 1), transfer(0, 2));
    let pending = |id: u64| {
        let params = json!([crate::kit::address(0), "pending"]);
        json!({ "jsonrpc": "2.0", "id": id, "method": "eth_getTransactionCount", "params": params })
    };
    let batch = json!([
        pending(0),
        send(json!("a"), json!([first])),
        send(json!(2), json!([first])),
        { "jsonrpc": "2.0", "method": "eth_sendRawTransaction", "params": [third] },
        send(json!(3), json!(["0xzz"])),
        send(json!(4), json!([second])),
        pending(5),
        7,
        send(json!(6), json!(["0x05"])),
        send(json!(7), json!([])),
        { "jsonrpc": "2.0", "id": 8, "method": "eth_none" },
        send(json!(9), json!([third])),
        pending(10),
    ]);
    let (_, body) = client.post(batch.to_string().as_bytes()).expect("an answer");
    let answers: Vec<Value> = serde_json::from_str(&body).expect("a batch");
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    let expected = json!([0, "a", 2, 3, 4, 5, null, 6, 7, 8, 9, 10]);
    assert_eq!(ids, expected.as_array().expect("a list").iter().collect::<Vec<_>>());
    let result = |place: usize| answers[place]["result"].clone();
    let error = |place: usize| answers[place]["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert_eq!((result(0), result(1), error(2)), (json!("0x0"), json!(keccak256(&first)), "already known".into()));
    assert_eq!((error(3), result(4)), ("invalid argument 0: invalid hex string".into(), json!(keccak256(&second))));
    assert_eq!(result(5), json!("0x2"), "what comes before a call is in the pool");
    assert_eq!(
        (error(7), error(8)),
        ("transaction type not supported".into(), "missing value for required argument 0".into())
    );
    assert_eq!((result(10), result(11)), (json!(keccak256(&third)), json!("0x3")));
    node.stop();
}

#[test]
fn a_follower_sends_frames_and_batches_on() {
    let (above, below) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (upstream, theirs) = start(above.path(), |_| {});
    let mut settings = config(below.path(), Production::Off);
    (settings.beneficiary, settings.source) =
        (Address::ZERO, BlockSource::Followed(format!("http://{}", upstream.address())));
    settings.ingress = vec![IngressAddress::Tcp(([127, 0, 0, 1], 0).into())];
    let follower = Node::start(&settings).expect("a node");
    let (mut sender, mut receiver) = connect(&follower.ingress()[0]).expect("a connection");
    let txs: Vec<Bytes> = (0..600).map(|nonce| transfer(0, nonce)).collect();
    let frame: Vec<Bytes> = txs.iter().cloned().chain([vec![0xff].into(), txs[0].clone()]).collect();
    sender.send(&frame).expect("sent");
    let verdicts = receiver.receive().expect("verdicts");
    assert!(verdicts[..600].iter().all(|verdict| verdict.code == Code::Admitted));
    assert!(verdicts.iter().zip(&txs).all(|(verdict, tx)| verdict.hash == keccak256(tx)));
    assert!(verdicts[600..].iter().all(|verdict| verdict.code == Code::Refused), "{:?}", &verdicts[600..]);
    let ours = Client::new(follower.address());
    let batch: Vec<Value> = [transfer(1, 0), transfer(1, 0), transfer(1, 1)]
        .iter()
        .map(|tx| json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [tx] }))
        .collect();
    let (_, body) = ours.post(Value::Array(batch).to_string().as_bytes()).expect("an answer");
    let answers: Vec<Value> = serde_json::from_str(&body).expect("a batch");
    assert_eq!(answers[0]["result"], json!(keccak256(transfer(1, 0))));
    assert_eq!((answers[1].get("result"), &answers[2]["result"]), (None, &json!(keccak256(transfer(1, 1)))));
    wait_for(&theirs, &keccak256(&txs[599]));
    wait_for(&theirs, &keccak256(transfer(1, 1)));
    upstream.stop();
    // The node above is away: frames get a verdict after which they may be sent again.
    let begun = Instant::now();
    loop {
        sender.send(&[transfer(2, 0), transfer(2, 1)]).expect("sent");
        if codes(&mut receiver) == [Code::Busy; 2] {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing notices that the node above is away");
    }
    follower.stop();
}

#[test]
fn the_client_of_the_how_to_sends() {
    use std::process::{Command, Stdio};
    if Command::new("python3").arg("--version").output().is_err() {
        assert!(std::env::var_os("PHALANX_REQUIRE_PYTHON").is_none(), "there is no python3");
        println!("skipped: there is no python3");
        return;
    }
    let page = include_str!("../../../docs/how-to/send-many-transactions.md");
    let script = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a script");
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path(), |_| {});
    let txs: Vec<Bytes> = (0..300).map(|nonce| transfer(3, nonce)).collect();
    let mut command = Command::new("python3");
    command.args(["-c", script, &node.ingress()[0].to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = command.spawn().expect("python3");
    let lines: String = txs.iter().map(|tx| format!("{tx}\n")).chain(["0xff\n".into()]).collect();
    python.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("written");
    let output = python.wait_with_output().expect("the end");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let expected: String = txs.iter().map(|tx| format!("0 {}\n", keccak256(tx))).collect();
    assert_eq!(text, format!("{expected}2 {}\n", B256::ZERO));
    wait_for(&client, &keccak256(&txs[299]));
    node.stop();
}
