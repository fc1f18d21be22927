//! Methods of explorers and indexers, against what other methods answer, and against the state before and after each block.

use crate::{
    answers::build,
    kit::{Call, Client, address, config, deploy, signed},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rpc_types_trace::parity::{Delta, StateDiff};
use phalanx_node::{DEV_NAMESPACES, NAMESPACES, Node, Production};
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path};

/// Creates the contract that its calldata is the init code of, and pays it what comes with the call.
const FACTORY: [u8; 14] = alloy_primitives::hex!("365f5f37 365f34 f0 5f52 60205ff3");

/// A node that serves every namespace but those of development.
fn open(folder: &Path) -> (Node, Client) {
    let mut settings = config(folder, Production::Instant);
    let all = NAMESPACES.into_iter().filter(|name| !DEV_NAMESPACES.contains(name));
    settings.rpc.namespaces = all.map(str::to_owned).collect();
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    (node, client)
}

fn at(height: u64) -> Value {
    json!(format!("{height:#x}"))
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("alloy reads it")
}

fn hashes(client: &Client, height: u64) -> Vec<B256> {
    read(client.get("eth_getBlockByNumber", json!([at(height), false]))["transactions"].clone())
}

/// Adds a contract that another contract has made, with a payment, and a call between contracts that reverts.
fn nest(client: &Client, counter: Address) -> (Address, Address) {
    let created = client.include(&deploy(10, 0, &FACTORY));
    let factory: Address = read(created["contractAddress"].clone());
    // PUSH1 0, PUSH1 0, RETURN: an empty contract; it holds what it is paid.
    let init = vec![0x60, 0x01, 0x5f, 0x53, 0x60, 0x01, 0x5f, 0xf3];
    client.include(&signed(2, &Call::to(10, 1, factory, 77).with_data(init), vec![]));
    client.include(&signed(2, &Call::to(1, 4, counter, 0).with_data(vec![9]), vec![]));
    (factory, factory.create(1))
}

#[test]
fn headers_slots_accounts_and_fees_are_those_of_blocks_and_states() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = open(folder.path());
    let counter = build(&client);
    for height in 0..=node.height() {
        let mut block = client.get("eth_getBlockByNumber", json!([at(height), false]));
        for field in ["transactions", "uncles", "withdrawals", "size"] {
            block.as_object_mut().expect("a block").remove(field);
        }
        assert_eq!(client.get("eth_getHeaderByNumber", json!([at(height)])), block, "block {height}");
        assert_eq!(client.get("erigon_getHeaderByNumber", json!([at(height)])), block, "block {height}");
        assert_eq!(client.get("eth_getHeaderByHash", json!([block["hash"]])), block, "block {height}");
        let slots: Vec<B256> = (0..3).map(|slot| B256::from(U256::from(slot))).collect();
        let values = client.get("eth_getStorageValues", json!([{ counter.to_string(): slots }, at(height)]));
        let words: Vec<Value> =
            slots.iter().map(|slot| client.get("eth_getStorageAt", json!([counter, slot, at(height)]))).collect();
        assert_eq!(values, json!({ format!("{counter:#x}"): words }), "block {height}");
        for account in [counter, address(1), Address::repeat_byte(0x99)] {
            let info = client.get("eth_getAccountInfo", json!([account, at(height)]));
            let of = |method: &str| client.get(method, json!([account, at(height)]));
            let expected = json!({
                "balance": of("eth_getBalance"), "nonce": of("eth_getTransactionCount"), "code": of("eth_getCode"),
            });
            assert_eq!(info, expected, "{account} at block {height}");
        }
    }
    assert_eq!(client.get("eth_getHeaderByNumber", json!(["0xffff"])), Value::Null);
    assert_eq!(client.get("eth_getHeaderByHash", json!([B256::repeat_byte(1)])), Value::Null);
    assert_eq!(client.get("eth_getHeaderByNumber", json!(["pending"]))["hash"], Value::Null);
    let pending = client.get("eth_getBlockByNumber", json!(["pending", false]));
    assert_eq!(client.get("eth_baseFee", json!([])), pending["baseFeePerGas"]);
    assert_eq!(client.get("debug_getBadBlocks", json!([])), json!([]));
    let many = json!([{ counter.to_string(): vec![B256::ZERO; 1025] }, "latest"]);
    assert_eq!(client.error("eth_getStorageValues", many), (-38026, "too many slots (max 1024)".into()));
    assert_eq!(client.error("eth_getStorageValues", json!([{}, "latest"])), (-32602, "empty request".into()));
    node.stop();
}

#[test]
fn traces_are_those_of_geths_flat_tracer_and_lead_from_state_to_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = open(folder.path());
    let counter = build(&client);
    let (factory, made) = nest(&client, counter);
    let flat = json!({ "tracer": "flatCallTracer" });
    let (mut all, mut kinds) = (Vec::new(), BTreeSet::new());
    for height in 0..=node.height() {
        let mut of_block = Vec::new();
        for hash in hashes(&client, height) {
            let traces = client.get("trace_transaction", json!([hash]));
            // The first has what the code may use here, and geth's the limit of the transaction.
            let without_gas = |mut traces: Value| {
                traces[0]["action"].as_object_mut().expect("an action").remove("gas");
                traces
            };
            let geths = client.get("debug_traceTransaction", json!([hash, flat]));
            assert_eq!(without_gas(traces.clone()), without_gas(geths), "{hash}");
            let traces = traces.as_array().expect("traces").clone();
            for trace in &traces {
                let get = client.get("trace_get", json!([hash, trace["traceAddress"]]));
                assert_eq!(&get, trace);
                kinds.insert(trace["type"].as_str().expect("a type").to_owned());
            }
            // The parts of a replay.
            let replayed = client.get("trace_replayTransaction", json!([hash, ["trace", "vmTrace", "stateDiff"]]));
            assert_eq!(replayed["trace"].as_array().expect("traces").len(), traces.len());
            assert_eq!(replayed["trace"][0]["action"], traces[0]["action"]);
            let has_code = traces[0]["type"] == "create" || traces[0]["action"]["to"] == json!(counter);
            let steps = replayed["vmTrace"]["ops"].as_array().expect("steps");
            assert!(!has_code || !steps.is_empty(), "{hash}");
            of_block.extend(traces);
        }
        assert_eq!(client.get("trace_block", json!([at(height)])), json!(of_block), "block {height}");
        // What the transactions of a block change is what the states around it differ in.
        let replayed = client.get("trace_replayBlockTransactions", json!([at(height), ["stateDiff"]]));
        let replayed = replayed.as_array().expect("transactions");
        assert_eq!(replayed.len(), hashes(&client, height).len());
        let (mut first, mut last) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
        for one in replayed {
            let diff: StateDiff = read(one["stateDiff"].clone());
            for (account, change) in &diff.0 {
                let (from, to) = match change.balance {
                    Delta::Added(to) => (U256::ZERO, to),
                    Delta::Removed(from) => (from, U256::ZERO),
                    Delta::Changed(ref change) => (change.from, change.to),
                    Delta::Unchanged => continue,
                };
                first.entry(*account).or_insert(from);
                last.insert(*account, to);
            }
        }
        assert_eq!(first.contains_key(&Address::repeat_byte(0xfe)), !replayed.is_empty(), "the beneficiary");
        for (balances, height) in [(&first, height.wrapping_sub(1)), (&last, height)] {
            for (account, balance) in balances {
                let stored = client.get("eth_getBalance", json!([account, at(height)]));
                assert_eq!(stored, json!(balance), "{account} at block {height}");
            }
        }
        all.extend(of_block);
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["call", "create"]);
    // Filters, by sender, by receiver, by both, and in pages.
    let filter = |fields: Value| client.get("trace_filter", json!([fields]));
    assert_eq!(filter(json!({})), json!(all));
    let by =
        |wanted: &dyn Fn(&Value) -> bool| -> Vec<Value> { all.iter().filter(|one| wanted(one)).cloned().collect() };
    // The receiver of a creation is what it makes.
    let to = by(&|one| [&one["action"]["to"], &one["result"]["address"]].contains(&&json!(counter)));
    assert!(to.len() > 5);
    assert_eq!(filter(json!({ "toAddress": [counter] })), json!(to));
    assert_eq!(filter(json!({ "toAddress": [counter], "after": 1, "count": 2 })), json!(to[1..3]));
    let made_by = by(&|one| one["result"]["address"] == json!(made));
    assert_eq!(made_by.len(), 1);
    assert_eq!(made_by[0]["action"]["from"], json!(factory));
    assert_eq!(filter(json!({ "toAddress": [made] })), json!(made_by));
    let both = by(&|one| one["action"]["from"] == json!(address(1)) && one["action"]["to"] == json!(counter));
    assert_eq!(filter(json!({ "fromAddress": [address(1)], "toAddress": [counter] })), json!(both));
    let head = node.height();
    let ranged = by(&|one| one["blockNumber"].as_u64().expect("a number") == head);
    assert_eq!(filter(json!({ "fromBlock": at(head), "toBlock": "latest" })), json!(ranged));
    assert_eq!(client.error("trace_filter", json!([{ "fromBlock": "0x2", "toBlock": "0x1" }])).0, -32602);
    // Calls.
    let call = json!({ "from": address(9), "to": counter });
    let output = client.get("eth_call", json!([call, "latest"]));
    let traced = client.get("trace_call", json!([call, ["trace"], "latest"]));
    assert_eq!((&traced["output"], &traced["trace"][0]["action"]["to"]), (&output, &json!(counter)));
    let kinds = json!(["trace"]);
    let many = client.get("trace_callMany", json!([[[call, kinds], [call, kinds]], "latest"]));
    let number = |value: &Value| read::<U256>(value.clone());
    assert_eq!(number(&many[1]["output"]), number(&many[0]["output"]) + U256::ONE, "each on the one before");
    let raw = signed(2, &Call::to(11, 0, counter, 0), vec![]);
    assert_eq!(client.get("trace_rawTransaction", json!([raw, kinds]))["output"], output);
    assert_eq!(client.get("trace_transaction", json!([B256::ZERO])), Value::Null);
    assert_eq!(client.get("trace_block", json!([B256::repeat_byte(7)])), Value::Null);
    node.stop();
}

#[test]
fn prestates_have_the_beneficiary_and_no_account_that_was_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = open(folder.path());
    build(&client);
    let beneficiary = Address::repeat_byte(0xfe);
    let fresh = Address::repeat_byte(0x3a);
    let receipt = client.include(&signed(2, &Call::to(12, 0, fresh, 5), vec![]));
    let (hash, height) = (&receipt["transactionHash"], node.height());
    let trace = |config: Value| {
        client.get("debug_traceTransaction", json!([hash, { "tracer": "prestateTracer", "tracerConfig": config }]))
    };
    let balance = |account: Address, height: u64| client.get("eth_getBalance", json!([account, at(height)]));
    let of = |accounts: &Value, account: Address| accounts[format!("{account:#x}")].clone();
    let pre = trace(json!({}));
    for account in [beneficiary, address(12)] {
        assert_eq!(of(&pre, account)["balance"], balance(account, height - 1), "{account}");
    }
    assert_eq!(of(&pre, fresh), Value::Null);
    let diff = trace(json!({ "diffMode": true }));
    assert_eq!(of(&diff["pre"], fresh), Value::Null);
    for account in [beneficiary, address(12), fresh] {
        assert_eq!(of(&diff["post"], account)["balance"], balance(account, height), "{account}");
    }
    assert_eq!(of(&diff["pre"], beneficiary)["balance"], balance(beneficiary, height - 1));
    // The same block as its encoding.
    let raw = client.get("debug_getRawBlock", json!([at(height)]));
    let flat = json!({ "tracer": "callTracer" });
    let by_number = client.get("debug_traceBlockByNumber", json!([at(height), flat]));
    assert_eq!(client.get("debug_traceBlock", json!([raw, flat])), by_number);
    assert_eq!(client.error("debug_traceBlock", json!(["0xc0", flat])).0, -32602);
    node.stop();
}

#[test]
fn otterscan_finds_what_it_shows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = open(folder.path());
    let counter = build(&client);
    let (factory, made) = nest(&client, counter);
    assert_eq!(client.get("ots_getApiLevel", json!([])), json!(8));
    for (account, expected) in [(counter, true), (made, true), (address(1), false)] {
        assert_eq!(client.get("ots_hasCode", json!([account, "latest"])), json!(expected));
    }
    let (mut all, mut fees) = (Vec::new(), U256::ZERO);
    for height in 0..=node.height() {
        let block = client.get("eth_getBlockByNumber", json!([at(height), true]));
        let txs = block["transactions"].as_array().expect("transactions").clone();
        let details = client.get("ots_getBlockDetails", json!([at(height)]));
        assert_eq!(client.get("ots_getBlockDetailsByHash", json!([block["hash"]])), details);
        assert_eq!(details["block"]["transactionCount"], json!(txs.len()));
        fees += read::<U256>(details["totalFees"].clone());
        let size = 3;
        let mut paged = Vec::new();
        for number in 0..txs.len().div_ceil(size) {
            let page = client.get("ots_getBlockTransactions", json!([at(height), number, size]));
            let shown = page["fullblock"]["transactions"].as_array().expect("transactions").clone();
            assert_eq!(shown.len(), page["receipts"].as_array().expect("receipts").len());
            assert!(shown.iter().all(|tx| tx["input"].as_str().expect("a text").len() <= 10));
            assert_eq!(page["fullblock"]["transactionCount"], json!(txs.len()));
            paged.splice(0..0, shown.into_iter().map(|tx| tx["hash"].clone()));
        }
        assert_eq!(json!(paged), json!(hashes(&client, height)), "block {height}");
        for tx in &txs {
            let by_nonce = client.get("ots_getTransactionBySenderAndNonce", json!([tx["from"], tx["nonce"]]));
            assert_eq!(by_nonce, tx["hash"]);
        }
        all.extend(txs);
    }
    let paid = |tx: &Value| {
        let receipt = client.get("eth_getTransactionReceipt", json!([tx["hash"]]));
        read::<U256>(receipt["gasUsed"].clone()) * read::<U256>(receipt["effectiveGasPrice"].clone())
    };
    assert_eq!(fees, all.iter().map(paid).fold(U256::ZERO, |sum, fee| sum + fee));
    // A contract that counts its calls: all of them, from both ends, in pages.
    let mut named: Vec<Value> = all
        .iter()
        .filter(|tx| tx["to"] == json!(counter) || tx["hash"] == all[0]["hash"])
        .map(|tx| tx["hash"].clone())
        .collect();
    // One calls it through a delegation, which changes the delegating account alone.
    named.reverse();
    let page = |method: &str, from: u64| client.get(method, json!([counter, from, 2]));
    let of = |page: &Value| -> Vec<Value> {
        page["txs"].as_array().expect("transactions").iter().map(|tx| tx["hash"].clone()).collect()
    };
    let height = |tx: &Value| read::<U256>(tx["blockNumber"].clone()).to::<u64>();
    let (mut from, mut found) = (0, Vec::new());
    loop {
        let page = page("ots_searchTransactionsBefore", from);
        assert_eq!(page["firstPage"], json!(from == 0));
        found.extend(of(&page));
        if page["lastPage"] == json!(true) {
            break;
        }
        from = height(page["txs"].as_array().and_then(|txs| txs.last()).expect("a transaction"));
    }
    assert_eq!(found, named);
    let (mut from, mut found) = (0, Vec::new());
    loop {
        let page = page("ots_searchTransactionsAfter", from);
        assert_eq!(page["lastPage"], json!(from == 0));
        found.splice(0..0, of(&page));
        if page["firstPage"] == json!(true) {
            break;
        }
        from = height(&page["txs"][0]);
    }
    assert_eq!(found, named);
    // Creators, of a transaction and of a contract.
    for (contract, creator) in [(counter, address(0)), (made, factory), (factory, address(10))] {
        let found = client.get("ots_getContractCreator", json!([contract]));
        assert_eq!(found["creator"], json!(creator), "{contract}");
    }
    assert_eq!(client.get("ots_getContractCreator", json!([address(1)])), Value::Null);
    assert_eq!(client.get("ots_getTransactionBySenderAndNonce", json!([address(1), 99])), Value::Null);
    // Inside of transactions.
    let maker = client.get("ots_getContractCreator", json!([made]))["hash"].clone();
    let operations = client.get("ots_getInternalOperations", json!([maker]));
    assert_eq!(operations, json!([{ "type": 2, "from": factory, "to": made, "value": "0x4d" }]));
    let entries = client.get("ots_traceTransaction", json!([maker]));
    let kinds: Vec<&str> = entries.as_array().expect("entries").iter().filter_map(|one| one["type"].as_str()).collect();
    assert_eq!(kinds, ["CALL", "CREATE"]);
    assert_eq!((&entries[1]["depth"], &entries[1]["to"]), (&json!(1), &json!(made)));
    let last = all.last().expect("a transaction")["hash"].clone();
    assert_eq!(
        client.get("ots_getTransactionError", json!([last])),
        json!(Bytes::from(vec![9])),
        "it reverts with that"
    );
    assert_eq!(client.get("ots_getTransactionError", json!([maker])), json!("0x"));
    node.stop();
}
