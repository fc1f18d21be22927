//! Payloads of many transactions, whose times the test prints.

use super::beacon::{Driven, SECRET, attributes, driven, read, token};
use crate::kit::{Call, Reference, address, genesis, signed};
use alloy_primitives::{Address, B256, Bytes, U256};
use phalanx::alloy::genesis::GenesisAccount;
use serde_json::{Value, json};
use std::time::Instant;

/// Transactions of a sender.
const EACH: u64 = 50;

/// Sends transactions in batches.
fn send(node: &Driven, txs: &[Bytes]) {
    for txs in txs.chunks(1_000) {
        let call = |tx| json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [tx] });
        let batch = Value::from(txs.iter().map(call).collect::<Vec<_>>()).to_string();
        let (status, body) = node.client.post(batch.as_bytes()).expect("an answer");
        let answers: Vec<Value> = serde_json::from_str(&body).expect("JSON");
        assert!(status == 200 && answers.iter().all(|answer| answer.get("error").is_none()), "{body}");
    }
}

/// `PHALANX_TRANSFERS` says how many.
#[test]
fn many_waiting_transfers_are_one_payload_that_another_node_finds_valid() {
    let transfers = std::env::var("PHALANX_TRANSFERS").map_or(2_000, |count| count.parse().expect("a count"));
    let senders = u64::div_ceil(transfers, EACH);
    let mut genesis = genesis();
    genesis.gas_limit = 300_000 * (transfers + 1);
    let funded =
        |account| (address(account), GenesisAccount::default().with_balance(U256::from(10).pow(U256::from(20))));
    genesis.alloc.extend((0..senders).map(funded));
    let folder = tempfile::tempdir().expect("a folder");
    let [builder, other, slow] = ["builder", "other", "slow"].map(|name| {
        let mut settings = driven(&folder.path().join(name), genesis.clone());
        // One thread executes and hashes one transaction after the other: the figure beside the others.
        settings.threads = Some(if name == "slow" { 1 } else { 2 });
        Driven::start(&settings)
    });
    let to = |number: u64| Address::from_word(B256::from(U256::from(0xabcd_0000 + number)));
    let call = |number: u64| Call::to(number % senders, number / senders, to(number), 1);
    let txs: Vec<_> = (0..transfers).map(|number| signed(2, &call(number), vec![])).collect();
    send(&builder, &txs);
    let first = builder.genesis();
    // Until a payload has all of them: a builder begins with what its time permits.
    let mut payload = None;
    for attempt in 0..64 {
        let begun = Instant::now();
        let id = builder.begin(5, first, &attributes(5, 12, attempt));
        let built = builder.fetch(5, &id);
        println!("payload of {} of {} transactions after {:?}", built.txs().len(), txs.len(), begun.elapsed());
        if built.txs().len() == txs.len() {
            payload = Some(built);
            break;
        }
    }
    let payload = payload.expect("a payload with all transactions");
    let (version, args) = payload.args();
    let method = format!("engine_newPayloadV{version}");
    for (name, node) in [("the builder", &builder), ("another node", &other), ("a node of one thread", &slow)] {
        let begun = Instant::now();
        // One that takes longer than an answer may is finished for the next attempt.
        let bodies = (0..50).map(|_| node.raw(&token(&SECRET, 0), &method, &args).1);
        let body = bodies.into_iter().find(|body| !body.contains("SYNCING")).expect("a verdict");
        println!("{method} of {name}: {:?}", begun.elapsed());
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(answer["result"]["status"], "VALID", "{body}");
        let begun = Instant::now();
        node.head(payload.hash());
        println!("forkchoiceUpdated of {name}: {:?}", begun.elapsed());
        assert_eq!(node.balance(to(transfers - 1)), U256::from(1));
        assert_eq!(read::<B256>(&payload.body["blockHash"]), payload.hash());
    }
    let (header, txs) = (payload.block().header, payload.txs());
    let mut reference = Reference::new(&genesis);
    let begun = Instant::now();
    reference.block(&header, payload.hash(), &txs);
    println!("execution by stock revm, without a root: {:?}", begun.elapsed());
    assert_eq!(reference.account(to(transfers - 1)).balance, U256::from(1));
    [builder, other, slow].into_iter().for_each(Driven::stop);
}
