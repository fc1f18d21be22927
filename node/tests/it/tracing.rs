//! Traces of committed transactions and of calls, held against receipts and against a tracer over stock revm.

use crate::{
    answers::{COUNTER, build},
    kit::{Call, Reference, address, genesis, instant, signed},
};
use alloy_primitives::{B256, Bytes, U256};
use alloy_rpc_types_trace::geth::{CallConfig, CallFrame};
use phalanx::{
    recover,
    revm::{Context, InspectEvm as _, MainBuilder as _, MainContext as _},
};
use revm_inspectors::tracing::{TracingInspector, TracingInspectorConfig};
use serde_json::{Value, json};

fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().expect("a quantity").trim_start_matches("0x"), 16).expect("a number")
}

#[test]
fn every_transaction_is_traced_as_stock_revm_runs_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    build(&client);
    let mut reference = Reference::new(&genesis());
    let tracer = json!({"tracer": "callTracer", "tracerConfig": {"withLog": true}});
    for height in 1..=node.height() {
        let at = format!("{height:#x}");
        let json = client.get("eth_getBlockByNumber", json!([at, true]));
        let block: alloy_rpc_types_eth::Block = serde_json::from_value(json.clone()).expect("a block");
        let header = &block.header.inner;
        let hashes: Vec<B256> = block.transactions.hashes().collect();
        let raw: Vec<Bytes> = hashes
            .iter()
            .map(|hash| {
                serde_json::from_value(client.get("eth_getRawTransactionByHash", json!([hash]))).expect("bytes")
            })
            .collect();
        let whole = client.get("debug_traceBlockByNumber", json!([at, tracer]));
        for (place, hash) in hashes.iter().enumerate() {
            let traced = client.get("debug_traceTransaction", json!([hash, tracer]));
            assert_eq!(whole[place], json!({"result": traced, "txHash": hash}));
            // The same transaction on the reference's state, behind those before it.
            let mut before = reference.clone();
            before.block(header, block.header.hash, &raw[..place]);
            let spec = before.chain.spec(header);
            let (cfg, env) = (before.chain.cfg(spec, header.timestamp), before.chain.env(header));
            let config = CallConfig { with_log: Some(true), ..CallConfig::default() };
            let inspector = TracingInspector::new(TracingInspectorConfig::from_geth_call_config(&config));
            let context = Context::mainnet().with_db(&mut before.state).with_cfg(cfg).with_block(env);
            let mut evm = context.build_mainnet_with_inspector(inspector);
            let tx = recover(&raw[place]).expect("a transaction");
            let gas_limit = tx.gas_limit;
            let result = evm.inspect_one_tx(tx).expect("a valid transaction");
            let mut inspector = evm.inspector;
            inspector.set_transaction_gas_limit(gas_limit);
            let expected: CallFrame = inspector.geth_builder().geth_call_traces(config, result.tx_gas_used());
            assert_eq!(traced, serde_json::to_value(expected).expect("JSON"), "transaction {place} of block {height}");
            // And against the receipt.
            let receipt = client.get("eth_getTransactionReceipt", json!([hash]));
            assert_eq!(traced["gasUsed"], receipt["gasUsed"]);
            assert_eq!(traced.get("error").is_some(), receipt["status"] == "0x0");
            let steps = client.get("debug_traceTransaction", json!([hash, {"disableStorage": true}]));
            assert_eq!(steps["gas"], json!(number(&receipt["gasUsed"])));
            assert_eq!(steps["failed"], json!(receipt["status"] == "0x0"));
        }
        reference.block(header, block.header.hash, &raw);
    }
    node.stop();
}

#[test]
fn prestates_and_calls_are_traced() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let before = client.get("eth_getStorageAt", json!([counter, "0x0", "latest"]));
    let receipt = client.include(&signed(2, &Call::to(1, 4, counter, 0), vec![]));
    let after = client.get("eth_getStorageAt", json!([counter, "0x0", "latest"]));
    let hash = &receipt["transactionHash"];
    let diff = json!({"tracer": "prestateTracer", "tracerConfig": {"diffMode": true}});
    let traced = client.get("debug_traceTransaction", json!([hash, diff]));
    let slot = B256::ZERO.to_string();
    let name = serde_json::to_value(counter).expect("JSON").as_str().expect("a text").to_lowercase();
    let of = |part: &str| {
        traced[part]
            .as_object()
            .expect("accounts")
            .iter()
            .find(|(key, _)| key.to_lowercase() == name)
            .expect("the contract")
            .1["storage"][&slot]
            .clone()
    };
    assert_eq!((of("pre"), of("post")), (before, after));
    let steps = client.get("debug_traceCall", json!([{"from": address(1), "to": counter}, "latest"]));
    assert_eq!(steps["structLogs"].as_array().map(Vec::len), Some(19), "instructions of {COUNTER:?}: {steps}");
    assert_eq!(steps["structLogs"][4]["op"], json!("SLOAD"));
    let over = json!({"tracer": "callTracer", "stateOverrides": {counter.to_string(): {"code": "0x5f5ffd"}}});
    let traced = client.get("debug_traceCall", json!([{"to": counter}, "latest", over]));
    assert_eq!(traced["error"], json!("execution reverted"));
    for (method, params) in [
        ("debug_traceBlockByNumber", json!(["0x0"])),
        ("debug_traceBlockByHash", json!([B256::repeat_byte(1)])),
        ("debug_traceCall", json!([{"to": counter}, "latest", {"tracer": "noSuchTracer"}])),
        ("debug_traceTransaction", json!([hash, {"tracer": "{step: function() {}}"}])),
    ] {
        client.error(method, params);
    }
    assert!(U256::from(node.height()) > U256::ZERO);
    node.stop();
}
