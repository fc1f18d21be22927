//! Clients that follow the chain: filters, subscriptions, and transactions that wait for their receipt.

use crate::{
    answers::{COUNTER, build},
    kit::{Call, Client, Socket, address, config, deploy, instant, signed},
};
use alloy_primitives::{Address, B256};
use phalanx_node::{Node, Production};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn filters_answer_what_is_new_since_the_last_question() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let logs = client.get("eth_newFilter", json!([{"address": counter}]));
    let older = client.get("eth_newFilter", json!([{"address": counter, "fromBlock": "0x0"}]));
    let blocks = client.get("eth_newBlockFilter", json!([]));
    let pending = client.get("eth_newPendingTransactionFilter", json!([]));
    let changes = |name: &Value| client.get("eth_getFilterChanges", json!([name]));
    for name in [&logs, &older, &blocks, &pending] {
        assert_eq!(changes(name), json!([]));
    }
    let receipt = client.include(&signed(2, &Call::to(1, 4, counter, 0), vec![]));
    assert_eq!(changes(&logs), receipt["logs"]);
    assert_eq!(changes(&older), receipt["logs"]);
    assert_eq!(changes(&blocks), json!([receipt["blockHash"]]));
    assert_eq!(changes(&pending), json!([receipt["transactionHash"]]));
    for name in [&logs, &older, &blocks, &pending] {
        assert_eq!(changes(name), json!([]), "asked already");
    }
    let all = client.get("eth_getFilterLogs", json!([older]));
    assert_eq!(all, client.get("eth_getLogs", json!([{"address": counter, "fromBlock": "0x0"}])));
    // A filter may end at a block that is not there yet; a query may not.
    let ahead = json!({"address": counter, "fromBlock": "0x0", "toBlock": "0xffff"});
    let filter = client.get("eth_newFilter", json!([ahead]));
    assert_eq!(client.get("eth_getFilterLogs", json!([filter])), all);
    assert_eq!(
        client.error("eth_getLogs", json!([ahead])),
        (-32602, "block range extends beyond current head block".into())
    );
    assert_eq!(client.get("eth_uninstallFilter", json!([logs])), json!(true));
    assert_eq!(client.get("eth_uninstallFilter", json!([logs])), json!(false));
    assert_eq!(client.error("eth_getFilterChanges", json!([logs])), (-32000, "filter not found".into()));
    node.stop();
}

#[test]
fn subscribers_get_heads_logs_and_waiting_transactions_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let created = client.include(&deploy(0, 0, &COUNTER));
    let counter: Address = serde_json::from_value(created["contractAddress"].clone()).expect("a contract");
    let mut socket = Socket::connect(node.address());
    let mut subscribe =
        |id, params: Value| socket.ask(id, "eth_subscribe", params)["result"].as_str().expect("a name").to_owned();
    let heads = subscribe(1, json!(["newHeads"]));
    let logs = subscribe(2, json!(["logs", {"address": counter}]));
    let pending = subscribe(3, json!(["newPendingTransactions"]));
    let full = subscribe(4, json!(["newPendingTransactions", true]));
    assert!([&logs, &pending, &full].iter().all(|name| name.starts_with("0x") && **name != heads));
    assert!(socket.ask(5, "eth_subscribe", json!(["newWeather"])).get("error").is_some());
    let receipts: Vec<Value> =
        (0..5).map(|nonce| client.include(&signed(2, &Call::to(1, nonce, counter, 0), vec![]))).collect();
    let mut got: [Vec<Value>; 4] = Default::default();
    while got.iter().any(|messages| messages.len() < receipts.len()) {
        let message = socket.next().expect("a message");
        assert_eq!(message["method"], json!("eth_subscription"));
        let name = message["params"]["subscription"].as_str().expect("a name");
        let place = [&heads, &logs, &pending, &full].iter().position(|known| *known == name).expect("known");
        got[place].push(message["params"]["result"].clone());
    }
    for (place, receipt) in receipts.iter().enumerate() {
        assert_eq!(got[0][place]["hash"], receipt["blockHash"]);
        assert_eq!(got[0][place]["number"], receipt["blockNumber"]);
        assert_eq!(got[1][place], receipt["logs"][0]);
        assert_eq!(got[2][place], receipt["transactionHash"]);
        assert_eq!(got[3][place]["hash"], receipt["transactionHash"]);
    }
    assert_eq!(socket.ask(6, "eth_unsubscribe", json!([heads]))["result"], json!(true));
    assert_eq!(socket.ask(7, "eth_unsubscribe", json!([heads]))["result"], json!(false));
    node.stop();
}

#[test]
fn a_transaction_can_wait_for_its_receipt() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let receipt = client.get("eth_sendRawTransactionSync", json!([signed(2, &Call::to(1, 0, address(2), 5), vec![])]));
    assert_eq!(receipt["status"], json!("0x1"));
    assert_eq!(client.get("eth_getTransactionReceipt", json!([receipt["transactionHash"]])), receipt);
    let future = signed(2, &Call::to(1, 5, address(2), 5), vec![]);
    let answer = client.ask("eth_sendRawTransactionSync", json!([future, "0x64"]));
    assert_eq!(answer["error"]["code"], json!(4));
    let hash: B256 = serde_json::from_value(answer["error"]["data"].clone()).expect("the hash");
    assert_eq!(client.get("eth_getTransactionByHash", json!([hash]))["nonce"], json!("0x5"));
    assert_eq!(client.error("eth_sendRawTransactionSync", json!([future])).1, "already known");
    node.stop();
}

#[test]
fn blocks_come_by_period_and_a_restart_continues() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = config(folder.path(), Production::Every(Duration::from_millis(50)));
    settings.metrics = Some(([127, 0, 0, 1], 0).into());
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    let receipt = client.include(&signed(2, &Call::to(1, 0, address(2), 5), vec![]));
    while node.height() < 5 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pages = Client::new(node.metrics_address().expect("asked for"));
    let (status, page) = pages.page("/metrics");
    assert_eq!(status, 200);
    for name in [
        "phalanx_chain_height ",
        "phalanx_engine_stage_seconds_total{stage=\"execute\"}",
        "phalanx_rpc_requests_total{method=\"eth_getTransactionReceipt\"}",
        "phalanx_store_segments_bytes ",
    ] {
        assert!(page.contains(name), "{name} is missing: {page}");
    }
    let (status, page) = pages.page("/health");
    assert_eq!(status, 200);
    assert!(page.starts_with("{\"healthy\":true"), "{page}");
    assert_eq!(pages.page("/").0, 404);
    node.stop();
    settings.production = Production::Off;
    let node = Node::start(&settings).expect("the same chain");
    let client = Client::new(node.address());
    let height = node.height();
    assert!(height >= 5 && node.cuts().is_empty(), "{:?}", node.cuts());
    assert_eq!(client.get("eth_getTransactionReceipt", json!([receipt["transactionHash"]])), receipt);
    assert_eq!(
        client.get("eth_getBalance", json!([address(3), "0x0"])),
        client.get("eth_getBalance", json!([address(3)]))
    );
    node.stop();
    settings.production = Production::Instant;
    let node = Node::start(&settings).expect("the same chain");
    let client = Client::new(node.address());
    client.include(&signed(2, &Call::to(1, 1, address(2), 5), vec![]));
    assert_eq!(node.height(), height + 1);
    node.stop();
}
