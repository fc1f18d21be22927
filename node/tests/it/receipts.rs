//! Receipts that clients wait for, and reads of blocks in memory and on the disk, singly and in batches.

use crate::kit::{Blobs, Call, Client, PATIENCE, Socket, address, config, heavy, instant, signed, with_blobs};
use alloy_primitives::{B256, Bytes, keccak256};
use phalanx_node::{Node, Production};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Name of the method that waits.
const SYNC: &str = "eth_sendRawTransactionSync";

fn transfer(from: u64, nonce: u64) -> Bytes {
    signed(2, &Call::to(from, nonce, address(9), 1), vec![])
}

#[test]
fn many_wait_at_once_and_each_gets_the_receipt_of_its_own_transaction() {
    let folder = tempfile::tempdir().expect("a folder");
    for production in [Production::Every(Duration::from_millis(20)), Production::Instant] {
        let folder = folder.path().join(format!("{production:?}"));
        let node = Node::start(&config(&folder, production)).expect("a node");
        let client = Client::new(node.address());
        // One that cannot run waits beside them all.
        let stuck = std::thread::spawn(move || client.ask(SYNC, json!([transfer(8, 1), "0x7530"])));
        let work = |from: u64| {
            let mut socket = Socket::connect(client.address());
            let mut expected: BTreeMap<u64, B256> = BTreeMap::new();
            for nonce in 0..40 {
                let tx = transfer(from, nonce);
                expected.insert(nonce, keccak256(&tx));
                socket.send(nonce, SYNC, json!([tx]));
            }
            while !expected.is_empty() {
                let answer = socket.next().expect("an answer");
                let id = answer["id"].as_u64().expect("its number");
                let hash = expected.remove(&id).unwrap_or_else(|| panic!("one answer each: {answer}"));
                let receipt = client.get("eth_getTransactionReceipt", json!([hash]));
                assert_eq!(answer["result"], receipt, "{from} {id}");
                assert_eq!(receipt["transactionHash"], json!(hash));
            }
        };
        std::thread::scope(|scope| (0..8).for_each(|from| _ = scope.spawn(move || work(from))));
        assert_eq!(client.error(SYNC, json!([transfer(0, 0)])).1, "nonce too low: next nonce 40, tx nonce 0");
        // The one that was stuck is woken as well, once it can run. It is noted before it is in the pool.
        let hash = keccak256(transfer(8, 1));
        while client.get("eth_getTransactionByHash", json!([hash])).is_null() {
            std::thread::sleep(Duration::from_millis(2));
        }
        client.send(&transfer(8, 0));
        let answer = stuck.join().expect("no panic");
        assert_eq!(answer["result"]["transactionHash"], json!(keccak256(transfer(8, 1))), "{answer}");
        node.stop();
    }
}

#[test]
fn a_replaced_transaction_has_no_receipt_in_time_and_its_replacement_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let (old, new) = (heavy(1, 1, 1_000, 0), heavy(1, 1, 900_000_000, 0));
    let hash = keccak256(&old);
    let first = std::thread::spawn(move || client.ask(SYNC, json!([old, "0x5dc"])));
    while client.get("eth_getTransactionByHash", json!([hash])).is_null() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let second = std::thread::spawn(move || client.ask(SYNC, json!([new])));
    let begun = Instant::now();
    while !client.get("eth_getTransactionByHash", json!([hash])).is_null() {
        assert!(begun.elapsed() < PATIENCE, "it is not replaced");
        std::thread::sleep(Duration::from_millis(2));
    }
    client.send(&transfer(1, 0));
    assert_eq!(second.join().expect("no panic")["result"]["status"], json!("0x1"));
    let answer = first.join().expect("no panic");
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]), (&json!(4), &json!(hash)), "{answer}");
    node.stop();
}

/// A blob has one proof before Osaka, and proofs of its cells from then on.
#[test]
fn a_transaction_with_blobs_gets_its_receipt_whatever_their_proofs_are() {
    let folder = tempfile::tempdir().expect("a folder");
    for (is_old, blobs) in [(true, Blobs::whole(1)), (false, Blobs::cells(1))] {
        let mut settings = config(&folder.path().join(is_old.to_string()), Production::Instant);
        if is_old {
            settings.genesis.config.osaka_time = None;
        }
        let node = Node::start(&settings).expect("a node");
        let client = Client::new(node.address());
        let receipt = client.get(SYNC, json!([with_blobs(&Call::to(1, 0, address(9), 1), &blobs)]));
        assert_eq!((&receipt["type"], &receipt["status"]), (&json!("0x3"), &json!("0x1")), "{receipt}");
        let again = client.get("eth_getTransactionReceipt", json!([receipt["transactionHash"]]));
        assert_eq!(receipt, again);
        node.stop();
    }
}

#[test]
fn a_node_that_stops_lets_go_those_that_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let hash = keccak256(transfer(1, 1));
    let waits = std::thread::spawn(move || client.ask(SYNC, json!([transfer(1, 1)])));
    while client.get("eth_getTransactionByHash", json!([hash])).is_null() {
        std::thread::sleep(Duration::from_millis(2));
    }
    node.stop();
    let answer = waits.join().expect("no panic");
    // Its transaction waits in the pool, as after the end of its time.
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]), (&json!(4), &json!(hash)), "{answer}");
}

#[test]
fn a_batch_of_reads_answers_what_its_calls_answer_singly() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let hashes: Vec<B256> = (0..40).map(|nonce| client.send(&transfer(0, nonce))).collect();
    let block =
        |height: u64| client.get("eth_getBlockByNumber", json!([format!("{height:#x}"), false]))["hash"].clone();
    let (old, new) = (block(2), block(39));
    let mut calls = Vec::new();
    // Blocks and transactions of the newest blocks, of older ones, and none.
    for hash in [&hashes[39], &hashes[1], &B256::ZERO, &hashes[38]] {
        for method in ["eth_getTransactionReceipt", "eth_getTransactionByHash", "eth_getRawTransactionByHash"] {
            calls.push((method, json!([hash])));
        }
    }
    for height in ["latest", "0x2", "0x0", "earliest", "safe", "finalized", "0x27", "0x999", "nonsense"] {
        calls.push(("eth_getBlockByNumber", json!([height, true])));
        calls.push(("eth_getBlockTransactionCountByNumber", json!([height])));
        calls.push(("eth_getBlockReceipts", json!([height])));
    }
    for hash in [&new, &old, &json!(B256::ZERO), &json!("0x12")] {
        calls.push(("eth_getBlockByHash", json!([hash, false])));
        calls.push(("eth_getBlockTransactionCountByHash", json!([hash])));
    }
    calls.push(("eth_getTransactionReceipt", json!([])));
    calls.push(("eth_getTransactionReceipt", json!([hashes[0], 1, 2])));
    calls.push(("eth_chainId", json!([])));
    calls.push(("eth_getLogs", json!([{ "fromBlock": "0x0" }])));
    let singly: Vec<Value> = calls
        .iter()
        .map(|(method, params)| {
            let mut answer = client.ask(method, params.clone());
            answer["id"].take();
            answer
        })
        .collect();
    let request = |(id, (method, params)): (usize, &(&str, Value))| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    // Many of all kinds, and the same in the other order. Then reads alone behind one of an old block: more than one thread takes.
    let many: Vec<_> = core::iter::repeat_n(&calls, 8).flatten().enumerate().map(request).collect();
    let is_read = |method: &str| !["eth_chainId", "eth_getLogs"].contains(&method);
    let (old_block, all) = (json!(["0x2", true]), many.iter().cycle().take(2 * many.len()));
    let reads = all.filter(|asked| is_read(asked["method"].as_str().expect("a method")));
    let reads: Vec<_> = reads.skip_while(|asked| asked["params"] != old_block).take(600).cloned().collect();
    assert_eq!(reads.len(), 600);
    for batch in [many.clone(), many.into_iter().rev().collect(), reads] {
        let (status, body) = client.post(Value::Array(batch.clone()).to_string().as_bytes()).expect("an answer");
        let answers: Vec<Value> = serde_json::from_str(&body).expect("a batch");
        assert_eq!((status, answers.len()), (200, batch.len()));
        for (mut answer, asked) in answers.into_iter().zip(batch) {
            let id = answer["id"].take();
            assert_eq!(id, asked["id"], "in order");
            let place = id.as_u64().expect("a number") as usize % singly.len();
            assert_eq!(answer, singly[place], "{asked}");
        }
    }
    // A read behind a transaction of its batch sees that.
    let tx = transfer(0, 40);
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "eth_getTransactionReceipt", "params": [keccak256(&tx)] },
        { "jsonrpc": "2.0", "id": 2, "method": "eth_sendRawTransaction", "params": [tx] },
        { "jsonrpc": "2.0", "id": 3, "method": "eth_getTransactionReceipt", "params": [keccak256(&tx)] },
    ]);
    let (_, body) = client.post(batch.to_string().as_bytes()).expect("an answer");
    let answers: Vec<Value> = serde_json::from_str(&body).expect("a batch");
    assert_eq!((&answers[0]["result"], &answers[2]["result"]["status"]), (&Value::Null, &json!("0x1")), "{body}");
    node.stop();
}
