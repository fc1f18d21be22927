//! Malformed, huge and slow requests: an error by the conventions or a closed connection, and the node answers the next.

use crate::{
    answers::COUNTER,
    kit::{Call, Client, Socket, address, config, deploy, signed},
};
use phalanx_node::{Node, Production};
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use std::{io::Write as _, net::TcpStream, path::Path};

fn limited(folder: &Path) -> (Node, Client) {
    let mut settings = config(folder, Production::Instant);
    settings.rpc.max_batch = 10;
    settings.rpc.max_request = 100_000;
    settings.rpc.max_response = 200_000;
    settings.rpc.max_range = 20;
    settings.rpc.max_logs = 5;
    settings.rpc.max_filters = 3;
    settings.rpc.max_subscriptions = 2;
    settings.rpc.gas_cap = 1_000_000;
    settings.rpc.max_trace = 1 << 20;
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    (node, client)
}

#[test]
fn whatever_is_sent_the_node_answers_the_next_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = limited(folder.path());
    let nested = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_call\",\"params\":{}{}}}",
        "[".repeat(40_000),
        "]".repeat(40_000)
    );
    let batch = |count: usize| {
        Value::Array(vec![json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}); count]).to_string()
    };
    let bodies: Vec<Vec<u8>> = vec![
        vec![],
        b"null".to_vec(),
        b"[]".to_vec(),
        b"{".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1}".to_vec(),
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"eth_chainId\"}".to_vec(),
        vec![0xff; 1_000],
        nested.into_bytes(),
        batch(11).into_bytes(),
        vec![b' '; 200_000],
    ];
    for body in &bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        if let Ok((status, answer)) = client.post(body) {
            assert!(status != 200 || answer.contains("\"error\"") || answer.is_empty(), "{shown}: {status} {answer}");
        }
        assert_eq!(client.get("eth_chainId", json!([])), json!("0x1092"), "after {shown}");
    }
    let (_, answer) = client.post(batch(10).as_bytes()).expect("an answer");
    assert_eq!(serde_json::from_str::<Vec<Value>>(&answer).expect("a batch").len(), 10);
    // A client that never ends its request holds up no other.
    let mut slow = TcpStream::connect(node.address()).expect("a connection");
    slow.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{").expect("written");
    assert_eq!(client.get("eth_chainId", json!([])), json!("0x1092"));
    drop(slow);
    node.stop();
}

#[test]
fn limits_bound_ranges_results_filters_traces_and_gas() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = limited(folder.path());
    let created = client.include(&deploy(0, 0, &COUNTER));
    let counter = created["contractAddress"].clone();
    let to = serde_json::from_value(counter).expect("an address");
    for nonce in 0..24 {
        client.include(&signed(2, &Call::to(1, nonce, to, 0), vec![]));
    }
    let logs = |from: &str, to: &str| client.ask("eth_getLogs", json!([{"fromBlock": from, "toBlock": to}]));
    assert_eq!(logs("0x2", "0x6")["result"].as_array().map(Vec::len), Some(5));
    assert!(
        logs("0x2", "0x7")["error"]["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("query exceeds max results 5"))
    );
    assert!(
        logs("0x0", "0x14")["error"]["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("query exceeds max block range 20"))
    );
    let names: Vec<Value> = (0..4).map(|_| client.ask("eth_newBlockFilter", json!([]))).collect();
    assert_eq!(names.iter().filter(|answer| answer.get("error").is_some()).count(), 1);
    // JUMPDEST PUSH0 JUMP: it runs until its gas is used up.
    let endless = json!({"0x00000000000000000000000000000000000c0de1": {"code": "0x5b5f56"}});
    let to = json!({"to": "0x00000000000000000000000000000000000c0de1", "gas": "0xffffffffff"});
    assert_eq!(client.error("eth_call", json!([to, "latest", endless])), (-32000, "out of gas".into()));
    let (_, text) = client.error("debug_traceCall", json!([to, "latest", {"stateOverrides": endless}]));
    assert!(text.contains("the trace is too large"), "{text}");
    let traced =
        client.get("debug_traceCall", json!([to, "latest", {"tracer": "callTracer", "stateOverrides": endless}]));
    assert_eq!(traced["error"], json!("out of gas"));
    let mut socket = Socket::connect(node.address());
    let answers: Vec<Value> = (0..3).map(|id| socket.ask(id, "eth_subscribe", json!(["newHeads"]))).collect();
    assert_eq!(answers.iter().filter(|answer| answer.get("error").is_some()).count(), 1);
    node.stop();
}

/// Values that no method expects everywhere.
fn odd(rng: &mut impl rand::Rng, depth: u32) -> Value {
    let texts = [
        "",
        "0x",
        "0x0",
        "0x00",
        "0x1",
        "latest",
        "pending",
        "earliest",
        "0xffffffffffffffff",
        "0xfffffffffffffffff",
        "no",
        "0xzz",
        "\u{0}",
    ];
    match rng.random_range(0..10) {
        0 => Value::Null,
        1 => json!(rng.random::<i64>()),
        2 => json!(rng.random::<bool>()),
        3 => json!(address(rng.random_range(0..3))),
        4 => json!(alloy_primitives::B256::from(rng.random::<[u8; 32]>())),
        5 if depth < 3 => (0..rng.random_range(0..4)).map(|_| odd(rng, depth + 1)).collect(),
        6 if depth < 3 => {
            let names = [
                "to",
                "from",
                "data",
                "gas",
                "value",
                "fromBlock",
                "topics",
                "address",
                "blockHash",
                "tracer",
                "stateOverrides",
                "accessList",
                "authorizationList",
            ];
            let fields = (0..rng.random_range(0..4))
                .map(|_| (names[rng.random_range(0..names.len())].to_owned(), odd(rng, depth + 1)));
            Value::Object(fields.collect())
        }
        _ => json!(texts[rng.random_range(0..texts.len())]),
    }
}

#[test]
fn no_arguments_make_a_method_panic() {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(44);
    let rounds = std::env::var("PHALANX_ODD").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    println!("PHALANX_SEED={seed} PHALANX_ODD={rounds}");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = limited(folder.path());
    client.include(&deploy(0, 0, &COUNTER));
    let methods = [
        "eth_getBlockByNumber",
        "eth_getBlockByHash",
        "eth_getBlockReceipts",
        "eth_getTransactionByHash",
        "eth_getTransactionReceipt",
        "eth_getTransactionByBlockNumberAndIndex",
        "eth_getBalance",
        "eth_getCode",
        "eth_getStorageAt",
        "eth_getTransactionCount",
        "eth_sendRawTransaction",
        "eth_call",
        "eth_estimateGas",
        "eth_createAccessList",
        "eth_feeHistory",
        "eth_getLogs",
        "eth_newFilter",
        "eth_getFilterChanges",
        "eth_uninstallFilter",
        "txpool_contentFrom",
        "debug_traceTransaction",
        "debug_traceCall",
        "debug_traceBlockByNumber",
        "debug_getRawBlock",
        "eth_getProof",
        "phalanx_getProof",
        "eth_getBlockAccessList",
        "eth_getBlockAccessListByBlockHash",
        "debug_getRawBlockAccessList",
        "web3_sha3",
    ];
    for method in methods {
        for _ in 0..rounds {
            let params: Vec<Value> = (0..rng.random_range(0..5)).map(|_| odd(&mut rng, 0)).collect();
            let answer = client.ask(method, json!(params));
            let internal = answer["error"]["code"] == json!(-32603);
            assert!(!internal, "PHALANX_SEED={seed}: {method}{}: {answer}", json!(params));
        }
    }
    node.stop();
}
