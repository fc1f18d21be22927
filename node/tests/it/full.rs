//! A full pool, met over JSON-RPC and over the binary ingress, and a client that dies before it has read its verdicts.

use crate::kit::{CHAIN, Client, PATIENCE, address, config, heavy};
use alloy_primitives::{B256, Bytes, U256, keccak256};
use phalanx::alloy::genesis::GenesisAccount;
use phalanx_node::{
    IngressAddress, Node, NodeConfig, Production,
    ingress::{Code, GREETING, client::connect},
};
use serde_json::{Value, json};
use std::{
    io::Write as _,
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

/// Senders, and transactions of each: together more than the 256 MiB of the pool, in which each counts twice, and of each less than 8 MiB.
const SENDERS: u64 = 44;
const EACH: u64 = 33;

/// Bytes of data of a transaction.
const LONG: usize = 120_000;

fn start(folder: &Path, production: Production, with: impl FnOnce(&mut NodeConfig)) -> (Node, Client) {
    let mut settings = config(folder, production);
    settings.ingress = vec![IngressAddress::Tcp(([127, 0, 0, 1], 0).into())];
    with(&mut settings);
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    (node, client)
}

#[test]
fn a_full_pool_refuses_each_transaction_by_name_and_takes_dearer_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path(), Production::Off, |settings| {
        let balance = U256::from(10).pow(U256::from(24));
        let funded =
            (0..2 * SENDERS).map(|account| (address(account), GenesisAccount::default().with_balance(balance)));
        settings.genesis.alloc.extend(funded);
    });
    let (mut sender, mut receiver) = connect(&node.ingress()[0]).expect("a connection");
    let mut codes = Vec::new();
    for from in 0..SENDERS {
        for first in (0..EACH).step_by(11) {
            let frame: Vec<Bytes> = (first..first + 11).map(|nonce| heavy(from, nonce, 1_000, LONG)).collect();
            sender.send(&frame).expect("sent");
            let verdicts = receiver.receive().expect("verdicts");
            assert!(verdicts.iter().zip(&frame).all(|(verdict, tx)| verdict.hash == keccak256(tx)), "each is named");
            codes.extend(verdicts.into_iter().map(|verdict| verdict.code));
        }
    }
    let admitted = codes.iter().take_while(|code| **code == Code::Admitted).count();
    assert!((1_000..codes.len() - 50).contains(&admitted), "{admitted} of {}", codes.len());
    // Behind it the pool takes one for another that ranks below it, and names each that it refuses.
    let (full, rest) = (codes.iter().filter(|code| **code == Code::PoolFull).count(), &codes[admitted..]);
    assert!(rest.iter().all(|code| [Code::Admitted, Code::PoolFull].contains(code)), "{rest:?}");
    assert!(full > 0, "{rest:?}");
    let call = |id: usize, tx: &Bytes| json!({ "jsonrpc": "2.0", "id": id, "method": "eth_sendRawTransaction", "params": [tx] });
    // The third pays more than all in the pool.
    let others: Vec<Bytes> =
        (0..5).map(|n| heavy(SENDERS + n, 0, if n == 2 { 900_000_000 } else { 1_000 }, LONG)).collect();
    let batch: Vec<Value> = others.iter().enumerate().map(|(id, tx)| call(id, tx)).collect();
    let (_, body) = client.post(Value::Array(batch).to_string().as_bytes()).expect("an answer");
    let answers: Vec<Value> = serde_json::from_str(&body).expect("a batch");
    for (place, (answer, tx)) in answers.iter().zip(&others).enumerate() {
        assert_eq!(answer["id"], json!(place));
        let error = &answer["error"];
        let is_full = error["code"] == json!(-32000)
            && error["message"].as_str().is_some_and(|text| text.starts_with("txpool is full"));
        assert!(answer["result"] == json!(keccak256(tx)) || place != 2 && is_full, "{answer}");
    }
    // Honest clients that pay are served on both ways.
    let dear = heavy(SENDERS + 10, 0, 800_000_000, 100);
    sender.send(core::slice::from_ref(&dear)).expect("sent");
    assert_eq!(receiver.receive().expect("a verdict")[0].code, Code::Admitted);
    client.send(&heavy(SENDERS + 11, 0, 800_000_000, 100));
    assert_eq!(client.get("eth_chainId", json!([])), json!(format!("{CHAIN:#x}")));
    node.stop();
}

#[test]
fn transactions_of_a_client_that_dies_with_unread_verdicts_get_into_a_block() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path(), Production::Every(Duration::from_millis(20)), |_| {});
    let IngressAddress::Tcp(ingress) = node.ingress()[0].clone() else { panic!("it is of TCP") };
    // They wait for their first one, so that they are in no block before their client dies.
    let txs: Vec<Bytes> = (1..200).map(|nonce| heavy(3, nonce, 1_000, 10)).collect();
    let mut stream = TcpStream::connect(ingress).expect("a connection");
    let mut bytes = GREETING.to_vec();
    for txs in txs.chunks(20) {
        let frame: Vec<u8> = txs.iter().flat_map(|tx| [&(tx.len() as u32).to_be_bytes()[..], tx].concat()).collect();
        bytes.extend((frame.len() as u32).to_be_bytes());
        bytes.extend(frame);
    }
    stream.write_all(&bytes).expect("sent");
    let is_there = |method: &str, hash: B256| !client.get(method, json!([hash])).is_null();
    let wait = |method: &str, tx: &Bytes| {
        let begun = Instant::now();
        while !is_there(method, keccak256(tx)) {
            assert!(begun.elapsed() < PATIENCE, "{method}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    wait("eth_getTransactionByHash", &txs[198]);
    // Unread verdicts make this a reset.
    drop(stream);
    client.send(&heavy(3, 0, 1_000, 10));
    txs.iter().for_each(|tx| wait("eth_getTransactionReceipt", tx));
    assert_eq!(client.quantity("eth_getTransactionCount", json!([address(3)])), 200);
    node.stop();
}
