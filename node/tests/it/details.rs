//! Details of answers that clients rely on: filters that go on, ranges, overrides, names of contracts, forks, texts, numbers, traces.

use crate::kit::{CHAIN, Call, Client, address, authorize, config, deploy, development, hungry, instant, signed};
use alloy_primitives::{Address, B256, Bytes, TxKind, U64, U256, hex};
use phalanx::RootKind;
use phalanx_node::{BlockSource, Node, Production, set_root};
use serde_json::{Value, json};

/// Emits as many empty logs as the first byte of calldata says.
const LOGS: [u8; 22] = hex!("5f355f1a" "5b" "8015601457" "5f5fa0" "6001900360" "0456" "5b00");

fn count(value: &Value) -> usize {
    value.as_array().expect("a list").len()
}

#[test]
fn a_polled_filter_behind_the_limit_gives_all_logs_in_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = config(folder.path(), Production::Instant);
    settings.rpc.max_logs = 5;
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    let created = client.include(&deploy(0, 0, &LOGS));
    let contract: Address = serde_json::from_value(created["contractAddress"].clone()).expect("a contract");
    let emit =
        |nonce, logs: u8| client.include(&signed(2, &Call::to(1, nonce, contract, 0).with_data(vec![logs]), vec![]));
    let name = client.get("eth_newFilter", json!([{ "address": contract }]));
    let poll = || client.get("eth_getFilterChanges", json!([name]));
    // Eight blocks with a log each, one with seven, one with two.
    (0..8).for_each(|nonce| _ = emit(nonce, 1));
    let large = emit(8, 7);
    emit(9, 2);
    let parts: Vec<usize> = (0..5).map(|_| count(&poll())).collect();
    assert_eq!(parts, [5, 3, 7, 2, 0], "whole blocks, as many as fit, and a single block whatever it has");
    // A query cannot ask for less than a block either.
    let at = &large["blockNumber"];
    assert_eq!(count(&client.get("eth_getLogs", json!([{ "fromBlock": at, "toBlock": at }]))), 7);
    assert_eq!(count(&client.get("eth_getLogs", json!([{ "blockHash": large["blockHash"] }]))), 7);
    let (code, text) = client.error("eth_getLogs", json!([{ "fromBlock": "0x1" }]));
    assert_eq!((code, &text[..]), (-32000, "query exceeds max results 5, retry with a smaller range"));
    node.stop();
}

#[test]
fn a_range_of_logs_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    (0..3).for_each(|nonce| _ = client.include(&signed(2, &Call::to(0, nonce, address(1), 1), vec![])));
    for range in [
        json!({ "fromBlock": "0x0", "toBlock": "0x4" }),
        json!({ "fromBlock": "0x8", "toBlock": "0x9" }),
        json!({ "fromBlock": "0x8", "toBlock": "latest" }),
        json!({ "fromBlock": "0x4" }),
        json!({ "fromBlock": "0x3", "toBlock": "0x2" }),
        json!({ "fromBlock": "latest", "toBlock": "0x1" }),
        json!({ "fromBlock": "0x3", "toBlock": "earliest" }),
    ] {
        assert_eq!(client.error("eth_getLogs", json!([range])).0, -32602, "{range}");
    }
    for range in [json!({}), json!({ "fromBlock": "earliest" }), json!({ "fromBlock": "0x3", "toBlock": "0x3" })] {
        assert_eq!(count(&client.get("eth_getLogs", json!([range]))), 0, "{range}");
    }
    node.stop();
}

#[test]
fn code_of_a_client_at_the_address_of_a_precompile_runs_and_the_precompile_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let sha256 = Address::with_last_byte(2);
    let call = |to: Address, over: Value| client.get("eth_call", json!([{ "to": to }, "latest", over]));
    let answer = json!(B256::with_last_byte(42));
    // Returns 42.
    let ours = json!({ sha256.to_string(): { "code": "0x602a5f5260205ff3" } });
    assert_eq!(call(sha256, ours.clone()), answer);
    // Calls address 2, and returns what it returns.
    let caller = Address::repeat_byte(0xc0);
    let mut both = ours;
    both[caller.to_string()] = json!({ "code": "0x60205f5f5f60025afa5060205ff3" });
    assert_eq!(call(caller, both), answer);
    let hash = "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(call(sha256, json!({})), json!(hash), "without an override it is the precompile");
    let traced = json!([{ "to": sha256 }, "latest", { "tracer": "callTracer", "stateOverrides": { sha256.to_string(): { "code": "0x602a5f5260205ff3" } } }]);
    assert_eq!(client.get("debug_traceCall", traced)["output"], answer);
    // It can run elsewhere, also where a contract calls it, and its own address has the code that is given.
    let (moved, to) = (Address::repeat_byte(0x77), "movePrecompileToAddress");
    let over = json!({ sha256.to_string(): { "code": "0x602a5f5260205ff3", to: moved } });
    assert_eq!((call(moved, over.clone()), call(sha256, over.clone())), (json!(hash), answer));
    let mut all = over;
    all[caller.to_string()] = json!({ "code": format!("0x60205f5f5f73{moved:x}5afa5060205ff3") });
    assert_eq!(call(caller, all), json!(hash));
    let refused = |over: Value| client.error("eth_call", json!([{ "to": moved }, "latest", over]));
    let (code, text) = refused(json!({ caller.to_string(): { to: moved } }));
    assert_eq!((code, text), (-32000, format!("account {caller} is not a precompile")));
    let (code, text) = refused(json!({ sha256.to_string(): { to: moved }, moved.to_string(): { "balance": "0x1" } }));
    assert_eq!((code, text), (-32000, format!("account {moved} is already overridden")));
    node.stop();
}

#[test]
fn a_creation_that_fails_has_an_address_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    // Reverts; uses all gas; works.
    for (nonce, (init, status)) in [("5f5ffd", "0x0"), ("fe", "0x0"), ("5f5ff3", "0x1")].into_iter().enumerate() {
        let data: Bytes = hex::decode(init).expect("hex").into();
        let call = Call { from: 0, nonce: nonce as u64, to: TxKind::Create, value: 0, data, tip: 7 };
        let receipt = client.include(&signed(2, &call, vec![]));
        assert_eq!(
            (&receipt["status"], &receipt["contractAddress"]),
            (&json!(status), &json!(address(0).create(nonce as u64)))
        );
        let whole = client.get("eth_getBlockReceipts", json!([receipt["blockNumber"]]));
        assert_eq!(whole[0]["contractAddress"], receipt["contractAddress"]);
    }
    node.stop();
}

#[test]
fn capabilities_are_the_heights_that_the_node_answers_for() {
    for is_ethereum in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = config(folder.path(), Production::Instant);
        settings.history = 3;
        if is_ethereum {
            set_root(&mut settings.genesis, RootKind::Ethereum);
        }
        let node = Node::start(&settings).expect("a node");
        let client = Client::new(node.address());
        let mut oldest = json!("0x0");
        for nonce in 0..8 {
            client.include(&signed(2, &Call::to(0, nonce, address(1), 1), vec![]));
            let found = client.get("eth_capabilities", json!([]));
            oldest = found["state"]["oldestBlock"].clone();
            let head = client.get("eth_getBlockByNumber", json!(["latest", false]));
            assert_eq!((&found["head"]["number"], &found["head"]["hash"]), (&head["number"], &head["hash"]));
            for of in ["tx", "logs", "receipts", "blocks"] {
                assert_eq!(found[of], json!({ "disabled": false, "oldestBlock": "0x0" }), "{of}");
            }
            let proofs = if is_ethereum { found["state"].clone() } else { json!({ "disabled": true }) };
            assert_eq!(found["stateproofs"], proofs);
            client.get("eth_getBalance", json!([address(1), oldest]));
        }
        let before: U64 = serde_json::from_value(oldest).expect("a height");
        assert!(before > U64::ZERO, "states of 3 blocks are kept");
        let (_, text) = client.error("eth_getBalance", json!([address(1), before - U64::from(1)]));
        assert!(text.contains("is not available"), "{text}");
        node.stop();
    }
}

#[test]
fn eth_config_describes_the_forks() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = config(folder.path(), Production::Instant);
    settings.genesis.config.bpo1_time = Some(1 << 40);
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    let config = client.get("eth_config", json!([]));
    let current = &config["current"];
    assert_eq!((&current["activationTime"], &current["chainId"]), (&json!(0), &json!(format!("{CHAIN:#x}"))));
    assert_eq!(current["blobSchedule"], json!({ "target": 6, "max": 9, "baseFeeUpdateFraction": 5_007_716 }));
    assert_eq!(current["precompiles"]["P256VERIFY"], json!("0x0000000000000000000000000000000000000100"));
    assert_eq!(current["precompiles"].as_object().map(serde_json::Map::len), Some(18));
    assert_eq!(current["systemContracts"].as_object().map(serde_json::Map::len), Some(5));
    assert_eq!((&config["next"]["activationTime"], &config["next"]), (&json!(1_u64 << 40), &config["last"]));
    assert_eq!(config["next"]["blobSchedule"]["max"], json!(15));
    let id = |of: &Value| of["forkId"].as_str().expect("an id").to_owned();
    assert!(id(current).len() == 10 && id(current) != id(&config["next"]), "{config}");
    node.stop();
}

#[test]
fn a_running_chain_takes_a_fork_that_its_genesis_does_not_schedule() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut settings = config(folder.path(), Production::Instant);
    settings.genesis.config.osaka_time = None;
    let mut node = Node::start(&settings).expect("a node");
    let include = |node: &Node, nonce| {
        let client = Client::new(node.address());
        let receipt = client.include(&signed(2, &Call::to(0, nonce, address(1), 1), vec![]));
        let block = client.get("eth_getBlockByNumber", json!([receipt["blockNumber"], false]));
        u64::from_str_radix(&block["timestamp"].as_str().expect("a time")[2..], 16).expect("a number")
    };
    // `return clz(1)`: the opcode of EIP-7939.
    let count = |node: &Node| {
        let call = json!({ "input": "0x60011e60005260206000f3" });
        Client::new(node.address()).ask("eth_call", json!([call, "latest"]))
    };
    let time = include(&node, 0);
    assert!(count(&node)["error"].is_object(), "Prague has no such opcode");
    node.stop();
    settings.upgrades = format!(r#"{{"osakaTime": {}}}"#, time + 1).parse().expect("upgrades");
    node = Node::start(&settings).expect("the fork is still to come");
    assert!(include(&node, 1) > time);
    assert_eq!(count(&node)["result"], json!(format!("{:#066x}", 255)));
    // A node of the same upgrades follows from the first block.
    let mut follower = config(other.path(), Production::Off);
    (follower.genesis, follower.upgrades) = (settings.genesis.clone(), settings.upgrades.clone());
    (follower.beneficiary, follower.source) =
        (Default::default(), BlockSource::Followed(format!("http://{}", node.address())));
    let following = Node::start(&follower).expect("a node");
    let client = Client::new(following.address());
    while client.quantity("eth_blockNumber", json!([])) < 2 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(count(&following), count(&node));
    following.stop();
    node.stop();
    settings.upgrades = Default::default();
    let why = Node::start(&settings).expect_err("a fork that has begun").to_string();
    assert!(why.contains("upgrades.json"), "{why}");
}

#[test]
fn hexadecimal_arguments_have_one_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let who = address(0).to_string();
    let twice = format!("0x{who}");
    for (method, params) in [
        ("eth_getBalance", json!([twice, "latest"])),
        ("eth_getTransactionByHash", json!([format!("0x0x{}", "1".repeat(64))])),
        ("eth_sendRawTransaction", json!(["0x0x02f8"])),
        ("eth_getStorageAt", json!([who, "0x1_0", "latest"])),
        ("eth_call", json!([{ "to": who }, "latest", { who.clone(): { "balance": "0x1_0" } }])),
        ("eth_call", json!([{ "to": who }, "latest", {}, { "baseFeePerGas": "0x1_0" }])),
        ("debug_traceCall", json!([{ "to": who }, "latest", { "stateOverrides": { who: { "nonce": "0x1_0" } } }])),
    ] {
        assert_eq!(client.error(method, params.clone()).0, -32602, "{method}{params}");
    }
    node.stop();
}

/// All frames of a call trace.
fn frames(trace: &Value) -> Vec<&Value> {
    let inner = trace["calls"].as_array().into_iter().flatten().flat_map(frames);
    std::iter::once(trace).chain(inner).collect()
}

#[test]
fn traces_show_a_contract_that_destroys_itself_in_favour_of_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    // ADDRESS, SELFDESTRUCT.
    let created = client.include(&deploy(0, 0, &hex!("30ff")));
    let contract = created["contractAddress"].clone();
    let to: Address = serde_json::from_value(contract.clone()).expect("a contract");
    let lower = json!(contract.as_str().expect("an address").to_lowercase());
    let mut balance = 0;
    for (nonce, value) in [7, 5].into_iter().enumerate() {
        balance += value;
        let receipt = client.include(&signed(2, &Call::to(1, nonce as u64, to, value), vec![]));
        let hash = &receipt["transactionHash"];
        let trace = client.get("debug_traceTransaction", json!([hash, { "tracer": "callTracer" }]));
        let found: Vec<_> = frames(&trace).into_iter().filter(|frame| frame["type"] == "SELFDESTRUCT").collect();
        let [frame] = found[..] else { panic!("{trace}") };
        let wei = json!(format!("{balance:#x}"));
        assert_eq!((&frame["from"], &frame["to"], &frame["value"]), (&lower, &lower, &wei));
        let flat = client.get("debug_traceTransaction", json!([hash, { "tracer": "flatCallTracer" }]));
        let found: Vec<_> =
            flat.as_array().expect("frames").iter().filter(|frame| frame["type"] == "suicide").collect();
        let [frame] = found[..] else { panic!("{flat}") };
        let action = &frame["action"];
        assert_eq!((&action["address"], &action["refundAddress"], &action["balance"]), (&lower, &lower, &wei));
    }
    node.stop();
}

#[test]
fn struct_logs_count_the_refunds_of_the_transaction() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    // Called by another, it sets slot 0 to 1. Called with calldata, it sets slot 0 to 1. Else it clears slot 0, and calls itself
    // with calldata of one byte.
    let code = hex!("36601657" "5f5f55" "5f5f60015f5f305af150" "5a5000" "0000" "5b60015f555a5000");
    let created = client.include(&deploy(0, 0, &code));
    let contract: Address = serde_json::from_value(created["contractAddress"].clone()).expect("a contract");
    client.include(&signed(2, &Call::to(1, 0, contract, 0).with_data(vec![1]), vec![]));
    assert_eq!(client.get("eth_getStorageAt", json!([contract, "0x0"])), json!(B256::with_last_byte(1)));
    let receipt = client.include(&signed(2, &Call::to(1, 1, contract, 0), vec![]));
    assert_eq!(receipt["status"], json!("0x1"));
    let trace = client.get("debug_traceTransaction", json!([receipt["transactionHash"], {}]));
    let logs = trace["structLogs"].as_array().expect("steps");
    let refund = |log: &Value| log["refund"].as_u64().unwrap_or_default();
    let at = |op: &str, depth: u64| {
        let found = logs.iter().find(|log| log["op"] == op && log["depth"] == depth);
        refund(found.unwrap_or_else(|| panic!("{op} at {depth}: {trace}")))
    };
    // EIP-3529: 4,800 for the clear; EIP-2200: minus that, and 2,800 as the slot has its first value again.
    assert_eq!((at("CALL", 1), at("SSTORE", 2), at("GAS", 2)), (4_800, 4_800, 2_800));
    assert_eq!(at("POP", 1), 2_800);
    assert!(logs.iter().all(|log| refund(log) <= 4_800));
    node.stop();
}

#[test]
fn the_pool_follows_nonces_that_others_move() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = config(folder.path(), Production::Off);
    settings.production = Production::Every(std::time::Duration::from_millis(50));
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    // Creates a contract without code.
    let created = client.include(&deploy(0, 0, &hex!("5f5f5ff05000")));
    let creator: Address = serde_json::from_value(created["contractAddress"].clone()).expect("a contract");
    client.include(&signed(4, &Call::to(1, 0, address(1), 0), vec![authorize(7, 0, creator)]));
    let nonce = |block: &str| client.quantity("eth_getTransactionCount", json!([address(7), block]));
    assert_eq!((nonce("latest"), nonce("pending")), (1, 1));
    (1..4).for_each(|nonce| _ = client.include(&signed(2, &Call::to(1, nonce, address(7), 0), vec![])));
    assert_eq!(nonce("latest"), 4);
    assert!(nonce("pending") >= 4);
    let receipt = client.include(&signed(2, &Call::to(7, 4, address(2), 1), vec![]));
    assert_eq!(receipt["status"], json!("0x1"));
    assert_eq!(U256::from(nonce("pending")), U256::from(5));
    node.stop();
}

#[test]
fn a_transaction_larger_than_any_block_yet_holds_up_no_other() {
    for production in [Production::Instant, Production::Every(std::time::Duration::from_millis(20))] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = config(folder.path(), production);
        // Before Osaka, which bounds a transaction's gas.
        (settings.genesis.config.prague_time, settings.genesis.config.osaka_time) = (None, None);
        settings.genesis.gas_limit = 30_000_000;
        settings.gas_limit = Some(60_000_000);
        let node = Node::start(&settings).expect("a node");
        let client = Client::new(node.address());
        let large = client.send(&hungry(1, 0, 55_000_000));
        for nonce in 0..5 {
            client.include(&signed(2, &Call::to(2, nonce, address(3), 1), vec![]));
        }
        assert_eq!(client.get("eth_getTransactionReceipt", json!([large])), Value::Null);
        assert_eq!(client.get("eth_getTransactionByHash", json!([large]))["blockHash"], Value::Null, "it waits");
        if production == Production::Instant {
            // No block is made for what fits into none.
            assert_eq!(node.height(), 5);
        }
        node.stop();
    }
}

#[test]
fn a_period_has_one_block_and_it_begins_with_a_transaction() {
    // No period ends in this test.
    let long = Production::Every(std::time::Duration::from_secs(100_000));
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(&config(folder.path(), long)).expect("a node");
    let client = Client::new(node.address());
    // It cannot run: the period keeps its block.
    let early = client.send(&signed(2, &Call::to(1, 1, address(2), 1), vec![]));
    client.include(&signed(2, &Call::to(2, 0, address(3), 1), vec![]));
    assert_eq!(node.height(), 1);
    client.send(&signed(2, &Call::to(1, 0, address(2), 1), vec![]));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(node.height(), 1, "the period has its block");
    assert_eq!(client.get("eth_getTransactionReceipt", json!([early])), Value::Null);
    node.stop();
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = development(folder.path());
    settings.production = long;
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    client.send(&signed(2, &Call::to(2, 0, address(3), 1), vec![]));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(node.height(), 0, "a block of a chain for development is made at the end of its period");
    node.stop();
}
