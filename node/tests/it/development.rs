//! A node that makes a block for every transaction: receipts are there at once, and estimates are for the next block.

use crate::kit::{Call, Client, address, instant, signed};
use alloy_primitives::Address;
use serde_json::{Value, json};

fn height(client: Client) -> u128 {
    client.quantity("eth_blockNumber", json!([]))
}

#[test]
fn a_receipt_is_there_when_the_hash_is_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let transfer = |from, nonce| signed(2, &Call::to(from, nonce, address(9), 1), vec![]);
    let receipt = |hash: &Value| client.get("eth_getTransactionReceipt", json!([hash]));
    for nonce in 0..20 {
        assert!(!receipt(&json!(client.send(&transfer(0, nonce)))).is_null(), "nonce {nonce}");
    }
    // One behind a gap answers at once, and is there with the one that fills it.
    let queued = json!(client.send(&transfer(1, 1)));
    assert!(receipt(&queued).is_null());
    assert!(!receipt(&json!(client.send(&transfer(1, 0)))).is_null());
    assert!(!receipt(&queued).is_null());
    // A batch waits for all of its own, which share blocks.
    let before = height(client);
    let call = |nonce| json!({ "jsonrpc": "2.0", "id": nonce, "method": "eth_sendRawTransaction", "params": [transfer(2, nonce)] });
    let batch = Value::from((0..50).map(call).collect::<Vec<_>>());
    let (_, body) = client.post(batch.to_string().as_bytes()).expect("an answer");
    let answers: Vec<Value> = serde_json::from_str(&body).expect("a batch");
    assert!(answers.iter().all(|answer| !receipt(&answer["result"]).is_null()), "{body}");
    assert!(height(client) - before < 50, "they share blocks");
    // Senders beside each other wait for their own.
    let senders: Vec<_> = (3..11u64)
        .map(|from| {
            std::thread::spawn(move || {
                for nonce in 0..10 {
                    let hash = client.send(&signed(2, &Call::to(from, nonce, address(9), 1), vec![]));
                    assert!(!client.get("eth_getTransactionReceipt", json!([hash])).is_null(), "{from}, {nonce}");
                }
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().expect("receipts"));
    node.stop();
}

#[test]
fn an_estimate_without_a_block_is_for_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    // TIMESTAMP ISZERO PUSH1 9 JUMPI PUSH1 1 PUSH0 SSTORE JUMPDEST STOP: the genesis has time zero.
    let to = Address::repeat_byte(0xc0);
    let over = json!({ to.to_string(): { "code": "0x421560095760015f555b00" } });
    let estimate = |block: Value| client.quantity("eth_estimateGas", json!([{ "to": to }, block, over]));
    assert!(estimate(json!("latest")) < 25_000);
    assert!(estimate(Value::Null) > 40_000);
    assert_eq!(estimate(Value::Null), estimate(json!("pending")));
    node.stop();
}
