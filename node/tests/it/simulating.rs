//! Simulated blocks: headers that alloy hashes alike, states that build on each other, and geth's defaults and errors.

use crate::{
    answers::build,
    kit::{CHAIN, Call, Client, address, instant, signed},
};
use alloy_consensus::{
    Transaction as _, TxEnvelope,
    proofs::{calculate_transaction_root, calculate_withdrawals_root},
};
use alloy_eips::{Encodable2718 as _, eip2935::HISTORY_STORAGE_ADDRESS};
use alloy_primitives::{Address, B256, U256, hex, logs_bloom};
use alloy_rpc_types_eth::{Block, Transaction};
use serde_json::{Value, json};

/// Returns BLOCKHASH of the parent, the block's number, time and base fee.
const ENVIRONMENT: [u8; 23] = hex!("6001430340" "5f52" "43602052" "42604052" "48606052" "60805ff3");

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("alloy reads it")
}

fn simulate(client: &Client, payload: Value) -> Vec<Value> {
    client.get("eth_simulateV1", json!([payload, "latest"])).as_array().expect("blocks").clone()
}

fn refused(client: &Client, payload: Value) -> (i64, String) {
    client.error("eth_simulateV1", json!([payload, "latest"]))
}

fn word(value: &Value, place: usize) -> U256 {
    let bytes: alloy_primitives::Bytes = read(value.clone());
    U256::from_be_slice(&bytes[32 * place..32 * (place + 1)])
}

#[test]
fn blocks_build_on_each_other_and_have_the_hash_of_their_header() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let head: Block = read(client.get("eth_getBlockByNumber", json!(["latest", false])));
    let asks = Address::repeat_byte(0xaa);
    let code = json!({ asks.to_string(): { "code": alloy_primitives::Bytes::from(ENVIRONMENT) } });
    let rich = Address::repeat_byte(0xcc);
    let count = json!({ "from": address(9), "to": counter });
    let withdrawal = json!({ "index": "0x1", "validatorIndex": "0x2", "address": rich, "amount": "0x3" });
    let (number, time) = (head.header.number, head.header.timestamp);
    let blocks = simulate(
        &client,
        json!({ "returnFullTransactions": true, "blockStateCalls": [
            { "stateOverrides": code, "calls": [count, count, { "to": asks }] },
            { "calls": [count, { "to": asks }], "blockOverrides": { "number": format!("{:#x}", number + 4),
                "time": format!("{:#x}", time + 1000), "feeRecipient": rich, "withdrawals": [withdrawal],
                "baseFeePerGas": "0x7", "prevRandao": B256::repeat_byte(3), "gasLimit": "0xf4240" } },
            { "stateOverrides": { rich.to_string(): { "balance": "0x64" } },
                "calls": [{ "from": rich, "to": address(2), "value": "0x64" }] },
        ] }),
    );
    assert_eq!(blocks.len(), 5, "two fill the gap");
    let (mut parent, mut before) = (head.header.hash, (number, time));
    for block in &blocks {
        let shown: Block = read(block.clone());
        let header = &shown.header.inner;
        assert_eq!(header.hash_slow(), shown.header.hash, "block {}", header.number);
        assert_eq!((header.parent_hash, header.number), (parent, before.0 + 1));
        assert!(header.timestamp > before.1);
        let txs: Vec<TxEnvelope> = shown.transactions.txns().map(|tx: &Transaction| tx.inner.inner().clone()).collect();
        assert_eq!(header.transactions_root, calculate_transaction_root(&txs));
        let calls = block["calls"].as_array().expect("calls");
        assert_eq!(calls.len(), txs.len());
        let used: u64 = calls.iter().map(|call| read::<U256>(call["gasUsed"].clone()).to::<u64>()).sum();
        assert_eq!(header.gas_used, used);
        let logs: Vec<alloy_rpc_types_eth::Log> =
            calls.iter().flat_map(|call| read::<Vec<_>>(call["logs"].clone())).collect();
        assert_eq!(header.logs_bloom, logs_bloom(logs.iter().map(|log| &log.inner)));
        for (place, log) in logs.iter().enumerate() {
            let names = (log.block_hash, log.block_number, log.log_index);
            assert_eq!(names, (Some(shown.header.hash), Some(header.number), Some(place as u64)));
        }
        assert!(header.requests_hash.is_some() && header.parent_beacon_block_root == Some(B256::ZERO));
        (parent, before) = (shown.header.hash, (header.number, header.timestamp));
    }
    // Each call counts on, over blocks and over the gap.
    let now: U256 = read(client.get("eth_getStorageAt", json!([counter, "0x0", "latest"])));
    let counted = [&blocks[0]["calls"][0], &blocks[0]["calls"][1], &blocks[3]["calls"][0]];
    for (more, call) in (1u64..).zip(counted) {
        assert_eq!(word(&call["returnData"], 0), now + U256::from(more));
        assert_eq!((&call["status"], call["logs"].as_array().map(Vec::len)), (&json!("0x1"), Some(1)));
    }
    // The environment is that of the headers.
    for (block, place) in [(0, 2), (3, 1)] {
        let (shown, output): (Block, _) = (read(blocks[block].clone()), &blocks[block]["calls"][place]["returnData"]);
        let header = &shown.header.inner;
        let seen = [0, 1, 2, 3].map(|place| word(output, place));
        let fee = if block == 3 { 0 } else { header.base_fee_per_gas.expect("a fee") };
        let expected =
            [U256::from_be_bytes(header.parent_hash.0), U256::from(header.number), U256::from(header.timestamp)];
        assert_eq!(seen[..3], expected, "block {block}");
        assert_eq!(seen[3], U256::from(fee), "block {block}");
    }
    let third: Block = read(blocks[3].clone());
    let header = &third.header.inner;
    assert_eq!((header.beneficiary, header.gas_limit, header.mix_hash), (rich, 1_000_000, B256::repeat_byte(3)));
    assert_eq!((header.base_fee_per_gas, header.timestamp), (Some(7), time + 1000));
    let withdrawals = third.withdrawals.expect("withdrawals");
    assert_eq!(header.withdrawals_root, Some(calculate_withdrawals_root(&withdrawals)));
    // All of the balance that the override gives, above what the withdrawal had paid.
    assert_eq!(blocks[4]["calls"][0]["status"], json!("0x1"));
    // Nothing has happened.
    let same: U256 = read(client.get("eth_getStorageAt", json!([counter, "0x0", "latest"])));
    assert_eq!((same, node.height()), (now, number));
    node.stop();
}

#[test]
fn a_simulated_transaction_has_the_receipt_of_the_real_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let call = json!({ "from": address(13), "to": counter, "maxFeePerGas": "0xb2d05e00", "maxPriorityFeePerGas": "0x3e8",
        "gas": "0x493e0", "nonce": "0x0" });
    let simulated = simulate(&client, json!({ "validation": true, "blockStateCalls": [{ "calls": [call] }] }));
    let receipt = client.include(&signed(2, &Call::to(13, 0, counter, 0), vec![]));
    let of = &simulated[0]["calls"][0];
    assert_eq!((&of["gasUsed"], &of["status"]), (&receipt["gasUsed"], &receipt["status"]));
    assert_eq!(of["logs"][0]["data"], receipt["logs"][0]["data"]);
    let block = client.get("eth_getBlockByNumber", json!(["latest", false]));
    for field in ["gasUsed", "logsBloom", "receiptsRoot", "baseFeePerGas", "number", "parentHash", "requestsHash"] {
        assert_eq!(simulated[0][field], block[field], "{field}");
    }
    // EIP-2935 holds the parent's hash in a simulated block as in a real one.
    let slot = format!("{:#066x}", node.height() - 1);
    let real: B256 = read(client.get("eth_getStorageAt", json!([HISTORY_STORAGE_ADDRESS, slot, "latest"])));
    assert_eq!(json!(real), block["parentHash"]);
    let head: Block = read(block);
    let data = format!("{:#066x}", head.header.number);
    let asks = json!({ "to": HISTORY_STORAGE_ADDRESS, "data": data });
    let blocks = simulate(&client, json!({ "blockStateCalls": [{ "calls": [asks] }] }));
    assert_eq!(blocks[0]["calls"][0]["returnData"], json!(head.header.hash));
    node.stop();
}

#[test]
fn transfers_are_logs_where_they_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let pay = json!({ "from": address(9), "to": address(2), "value": "0x5" });
    // A transfer that is reverted is none.
    let fails = json!({ "from": address(9), "to": counter, "data": "0x01", "value": "0x5" });
    // A contract that pays its caller, one that reverts then, and one that calls that and goes on.
    let [pays, reverts, calls] = [0xba, 0xbb, 0xbc].map(Address::repeat_byte);
    let callee = alloy_primitives::hex::encode(reverts);
    let code = json!({
        pays.to_string(): { "code": "0x5f5f5f5f600133611000f100", "balance": "0x9" },
        reverts.to_string(): { "code": "0x5f5f5f5f600133611000f15f5ffd", "balance": "0x9" },
        calls.to_string(): { "code": format!("0x5f5f5f5f5f73{callee}61fffff100") },
    });
    let call = |to: Address| json!({ "from": address(9), "to": to });
    let blocks = json!([{ "stateOverrides": code, "calls": [pay, fails, call(pays), call(calls)] }]);
    let plain = simulate(&client, json!({ "blockStateCalls": blocks }));
    assert_eq!(plain[0]["calls"][0]["logs"], json!([]));
    let traced = simulate(&client, json!({ "traceTransfers": true, "blockStateCalls": blocks }));
    let logs = traced[0]["calls"][0]["logs"].as_array().expect("logs");
    assert_eq!(logs.len(), 1);
    assert_eq!(logs[0]["address"], json!(Address::repeat_byte(0xee)));
    assert_eq!(logs[0]["topics"][1], json!(address(9).into_word()));
    assert_eq!(logs[0]["topics"][2], json!(address(2).into_word()));
    assert_eq!(logs[0]["data"], json!(B256::with_last_byte(5)));
    let inner = traced[0]["calls"][2]["logs"].as_array().expect("logs");
    assert_eq!(inner.len(), 1);
    assert_eq!(inner[0]["topics"][1], json!(pays.into_word()));
    let around = &traced[0]["calls"][3];
    assert_eq!((&around["logs"], &around["status"]), (&json!([]), &json!("0x1")));
    let failed = &traced[0]["calls"][1];
    assert_eq!((&failed["logs"], &failed["status"]), (&json!([]), &json!("0x0")));
    assert_eq!(failed["error"], json!({ "message": "execution reverted", "code": 3, "data": "0x01" }));
    for field in ["logsBloom", "receiptsRoot"] {
        assert_eq!(plain[0][field], traced[0][field], "{field}: transfers are no logs of the chain");
    }
    node.stop();
}

#[test]
fn what_no_block_may_contain_ends_the_simulation() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    build(&client);
    let height = node.height();
    let block = |env: Value, calls: Value| json!({ "blockStateCalls": [{ "blockOverrides": env, "calls": calls }] });
    let checked = |call: Value| json!({ "validation": true, "blockStateCalls": [{ "calls": [call] }] });
    let from = address(14);
    let cases = [
        (json!({ "blockStateCalls": [] }), -32602, "empty input"),
        (block(json!({ "number": "0x1" }), json!([])), -38020, "block numbers must be in order"),
        (block(json!({ "number": format!("{:#x}", height + 257) }), json!([])), -38026, "too many blocks"),
        (block(json!({ "number": format!("0x1{}", "0".repeat(40)) }), json!([])), -38026, "too many blocks"),
        (block(json!({ "time": "0x1" }), json!([])), -38021, "block timestamps must be in order"),
        (block(json!({ "gasLimit": "0x5208" }), json!([{ "gas": "0x5209" }])), -38015, "block gas limit reached"),
        (block(json!({}), json!([{ "from": Address::repeat_byte(9), "value": "0x1" }])), -38014, "insufficient funds"),
        (block(json!({}), json!([{ "gas": "0x5207", "to": from }])), -38013, "intrinsic gas too low"),
        (
            checked(json!({ "from": from, "to": from, "nonce": "0x7", "maxFeePerGas": "0xb2d05e00" })),
            -38011,
            "nonce too high",
        ),
        (
            checked(json!({ "from": address(1), "to": from, "nonce": "0x0", "maxFeePerGas": "0xb2d05e00" })),
            -38010,
            "nonce too low",
        ),
        (checked(json!({ "from": from, "to": from, "maxFeePerGas": "0x1" })), -38012, "max fee per gas less than"),
    ];
    for (payload, code, text) in cases {
        let (found, message) = refused(&client, payload.clone());
        assert_eq!(found, code, "{payload}: {message}");
        assert!(message.contains(text), "{payload}: {message}");
    }
    // All calls of a request share the limit of gas: 50 million.
    let spin = Address::repeat_byte(0xab);
    let code = json!({ spin.to_string(): { "code": "0x5b5f56" } });
    let calls = vec![json!({ "to": spin, "gas": "0x1312d00" }); 3];
    let limit = json!({ "gasLimit": "0x5f5e100" });
    let spent = json!({ "blockStateCalls": [{ "stateOverrides": code, "blockOverrides": limit, "calls": calls }, { "calls": [{ "to": spin }] }] });
    let (code, message) = refused(&client, spent);
    assert_eq!(code, -32005, "{message}");
    // A call that halts is a result.
    let halts = json!({ spin.to_string(): { "code": "0xfe" } });
    let blocks = simulate(
        &client,
        json!({ "blockStateCalls": [{ "stateOverrides": halts, "calls": [{ "to": spin, "gas": "0x7530" }] }] }),
    );
    assert_eq!(blocks[0]["calls"][0]["error"], json!({ "message": "invalid opcode: INVALID", "code": -32015 }));
    assert_eq!(blocks[0]["calls"][0]["gasUsed"], json!("0x7530"));
    node.stop();
}

#[test]
fn filled_transactions_are_those_that_a_wallet_signs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let call = json!({ "from": address(1), "to": counter });
    let filled = client.get("eth_fillTransaction", json!([call]));
    let tx: TxEnvelope = read(filled["tx"].clone());
    assert_eq!(filled["raw"], json!(alloy_primitives::Bytes::from(tx.encoded_2718())));
    let quantity = |method: &str, params: Value| client.quantity(method, params);
    let nonce = quantity("eth_getTransactionCount", json!([address(1), "pending"]));
    let gas = quantity("eth_estimateGas", json!([call, "pending"]));
    let tip = quantity("eth_maxPriorityFeePerGas", json!([]));
    let head: Block = read(client.get("eth_getBlockByNumber", json!(["latest", false])));
    let base = u128::from(head.header.base_fee_per_gas.expect("a fee"));
    assert_eq!((u128::from(tx.nonce()), u128::from(tx.gas_limit())), (nonce, gas));
    assert_eq!((tx.max_fee_per_gas(), tx.max_priority_fee_per_gas()), (2 * base + tip, Some(tip)));
    assert_eq!((tx.chain_id(), tx.to(), tx.tx_type() as u8), (Some(CHAIN), Some(counter), 2));
    // What is given stays.
    let given = json!({ "from": address(1), "to": counter, "gasPrice": "0xb2d05e00", "gas": "0x30000", "nonce": "0x9",
        "value": "0x5", "data": "0x01" });
    let tx: TxEnvelope = read(client.get("eth_fillTransaction", json!([given]))["tx"].clone());
    let fields = (tx.tx_type() as u8, tx.nonce(), tx.gas_limit(), tx.gas_price(), tx.value(), tx.input().to_vec());
    assert_eq!(fields, (0, 9, 0x30000, Some(3_000_000_000), U256::from(5), vec![1]));
    for (wrong, text) in [
        (json!({ "from": address(1) }), "contract creation without any data provided"),
        (json!({ "to": counter, "maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x2" }), "maxFeePerGas (1) < "),
        (json!({ "from": address(1), "to": counter, "data": "0x01" }), "execution reverted"),
    ] {
        let (_, message) = client.error("eth_fillTransaction", json!([wrong]));
        assert!(message.contains(text), "{message}");
    }
    node.stop();
}
