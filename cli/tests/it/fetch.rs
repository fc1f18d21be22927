//! `fetch`: blocks from a node and from scripted servers; what is recorded replays equal to the chain, what is wrong is refused.

use crate::{
    command::{Ended, end, phalanx, run},
    fixtures,
    node::{start, stop},
    rpc,
};
use alloy_consensus::{SignableTransaction as _, TxEip1559, TxEnvelope, crypto::secp256k1::sign_message};
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address, b256, hex};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    thread,
};

/// The first account that development tools know.
const SENDER: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const KEY: B256 = b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80");

/// Rules of `phalanx node --dev --chain-id 99`.
const GENESIS: &str = r#"{"config":{"chainId":99,"homesteadBlock":0,"eip150Block":0,"eip155Block":0,"eip158Block":0,"byzantiumBlock":0,
"constantinopleBlock":0,"petersburgBlock":0,"istanbulBlock":0,"berlinBlock":0,"londonBlock":0,"terminalTotalDifficulty":0,
"terminalTotalDifficultyPassed":true,"shanghaiTime":0,"cancunTime":0,"pragueTime":0,"osakaTime":0},
"difficulty":"0x0","gasLimit":"0x3938700","alloc":{}}"#;

fn ask(address: SocketAddr, method: &str, params: &Value) -> Value {
    rpc::ask(address, method, params).expect("a result")
}

/// Sends a transaction, and returns the number of its block and the contract that it makes.
fn include(address: SocketAddr, nonce: u64, to: TxKind, input: Bytes) -> (u64, Option<Address>) {
    let tx = TxEip1559 {
        chain_id: 99,
        nonce,
        gas_limit: 500_000,
        max_fee_per_gas: 10_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to,
        value: U256::from(7 * u64::from(input.is_empty())),
        access_list: Default::default(),
        input,
    };
    let signature = sign_message(KEY, tx.signature_hash()).expect("a key");
    let bytes = TxEnvelope::from(tx.into_signed(signature)).encoded_2718();
    let hash = ask(address, "eth_sendRawTransaction", &json!([Bytes::from(bytes)]));
    loop {
        let receipt = ask(address, "eth_getTransactionReceipt", &json!([hash]));
        if receipt.is_null() {
            thread::sleep(std::time::Duration::from_millis(5));
            continue;
        }
        assert_eq!(receipt["status"], "0x1", "{receipt}");
        let number = u64::from_str_radix(&receipt["blockNumber"].as_str().expect("a number")[2..], 16).expect("hex");
        return (number, receipt["contractAddress"].as_str().map(|address| address.parse().expect("an address")));
    }
}

/// Code that adds one to slot 0, and puts the hash of the block before the last one into slot 1.
const COUNTER: [u8; 18] = hex!("600160005401600055600243034060015500");

fn init(code: &[u8]) -> Bytes {
    // PUSH len, DUP1, PUSH offset, PUSH 0, CODECOPY, PUSH 0, RETURN, code.
    let mut init = vec![0x60, code.len() as u8, 0x80, 0x60, 0x0b, 0x5f, 0x39, 0x5f, 0xf3, 0x00, 0x00];
    init.extend(code);
    init.into()
}

fn fetch(address: impl core::fmt::Display, blocks: &str, out: &Path, flags: &str) -> Ended {
    run(&format!("fetch --rpc http://{address} {blocks} --out {} {flags}", out.display()))
}

#[test]
fn blocks_of_a_node_replay_equal_to_its_chain() {
    let (child, address) = start("--dev --chain-id 99 --log off");
    let folder = tempfile::tempdir().expect("a folder");
    let (out, genesis) = (folder.path().join("blocks"), folder.path().join("genesis.json"));
    fs::write(&genesis, GENESIS).expect("a file");
    let (plain, _) = include(address, 0, TxKind::Call(Address::repeat_byte(0x77)), Bytes::new());
    let (made, contract) = include(address, 1, TxKind::Create, init(&COUNTER));
    let contract = contract.expect("a contract");
    let (first, _) = include(address, 2, TxKind::Call(contract), Bytes::from_static(&[1]));
    let (second, _) = include(address, 3, TxKind::Call(contract), Bytes::from_static(&[1]));

    let wrong = fetch(address, &plain.to_string(), &out, "");
    wrong.refused(2, "the server's chain is 99, and the rules are those of chain 1: give its --genesis FILE");
    let flags = format!("--genesis {}", genesis.display());
    let fetched = fetch(address, &format!("{plain} {made} {first}"), &out, &flags);
    assert_eq!(fetched.code, Some(0), "{fetched:?}");
    // The genesis is there now, and a server need not take batches.
    let alone = fetch(address, &second.to_string(), &out, "--batch 1");
    assert_eq!(alone.code, Some(0), "{alone:?}");
    fetch(address, &second.to_string(), &out, "").refused(2, "is there already");
    fetch(address, "0", &out, "").refused(2, "block 0 is the genesis");
    stop(child, "TERM");

    let slots = |block: u64| {
        let state: Value =
            serde_json::from_str(&fs::read_to_string(out.join(format!("{block}/prestate.json"))).expect("a state"))
                .expect("JSON");
        let of = |address: Address| state[format!("{address:#x}")].clone();
        (of(contract)["storage"].clone(), of(SENDER)["nonce"].clone())
    };
    let zero = B256::ZERO.to_string();
    assert_eq!(slots(first).0[&zero], json!(zero), "a slot that was read as zero is listed");
    assert_eq!(slots(second).0[&zero], json!(B256::with_last_byte(1)));
    assert_eq!((slots(plain).1, slots(second).1), (json!(0), json!(3)));
    let hashes = fs::read_to_string(out.join(format!("{second}/block_hashes.json"))).expect("hashes");
    assert!(hashes.contains(&format!("\"{}\"", second - 2)), "{hashes}");

    let replayed =
        run(&format!("replay {} --executor dag --executor block-stm --executor sequential --json -", out.display()));
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    let lines: Vec<Value> = replayed.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 12);
    for line in lines {
        for field in [
            "gas_used_matches",
            "receipts_root_matches",
            "logs_bloom_matches",
            "requests_hash_matches",
            "equals_sequential",
            "block_matches_its_hashes",
        ] {
            assert_eq!(line[field], true, "{field}: {line}");
        }
    }
    let explained = run(&format!("explain {} --json -", out.join(second.to_string()).display())).json();
    assert_eq!(explained["txs"], 1);
}

/// A server that answers every request by `answer`, until the process ends.
fn serve(answer: impl Fn(&str, &Value) -> Value + Send + 'static) -> SocketAddr {
    raw(move |request| {
        let one = |call: &Value| {
            let mut told = answer(call["method"].as_str().expect("a method"), &call["params"]);
            told["id"] = call["id"].clone();
            told
        };
        let answer = match request {
            Value::Array(calls) => calls.iter().map(one).collect(),
            single => one(single),
        };
        let body = answer.to_string();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
}

/// A server that answers every request by these bytes, and closes the connection.
fn raw(answer: impl Fn(&Value) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a caller");
            let (mut read, mut bytes) = (Vec::new(), [0; 4096]);
            let request = loop {
                let len = stream.read(&mut bytes).unwrap_or(0);
                read.extend_from_slice(&bytes[..len]);
                let text = String::from_utf8_lossy(&read);
                let body = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str::<Value>(body).ok());
                if body.is_some() || len == 0 {
                    break body;
                }
            };
            let Some(request) = request else { continue };
            let _ = stream.write_all(&answer(&request));
        }
    });
    address
}

/// A node with block 1149999 of mainnet, from the recording. `spoil` changes an answer.
fn recorded(spoil: impl Fn(&str, &Value, &mut Value) + Send + 'static) -> SocketAddr {
    let read = |name: &str| -> Value {
        let path = fixtures::committed("blocks/1149999").join(format!("{name}.json.gz"));
        let bytes = fs::read(path).expect("a file");
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(&*bytes).read_to_string(&mut text).expect("text");
        serde_json::from_str(&text).expect("JSON")
    };
    let (block, state) = (read("block"), read("prestate"));
    serve(move |method, params| {
        let account = |field: &str, none: Value| {
            let address = params[0].as_str().expect("an address").to_lowercase();
            state[address].get(field).cloned().unwrap_or(none)
        };
        let quantity = |value: Value| value.as_u64().map_or(value, |number| json!(format!("{number:#x}")));
        let result = match method {
            "eth_chainId" => json!("0x1"),
            "eth_getBlockByNumber" if params[0] == "0x118c2f" => block.clone(),
            "eth_getBlockByNumber" => Value::Null,
            "eth_getBalance" => account("balance", json!("0x0")),
            "eth_getTransactionCount" => quantity(account("nonce", json!(0))),
            "eth_getCode" => account("code", json!("0x")),
            "eth_getStorageAt" => json!(B256::ZERO),
            _ => return json!({ "jsonrpc": "2.0", "error": { "code": -32601, "message": "unknown method" } }),
        };
        let mut answer = json!({ "jsonrpc": "2.0", "result": result });
        spoil(method, params, &mut answer);
        answer
    })
}

const BLOCK: &str = "1149999";

#[test]
fn a_server_without_traces_is_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = fetch(recorded(|_, _, _| {}), BLOCK, folder.path(), "");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("no prestateTracer"), "{ended:?}");
    let replayed = run(&format!("replay {} --repeat 1 --json -", folder.path().display())).json();
    assert_eq!((&replayed["gas_used_matches"], &replayed["equals_sequential"]), (&true.into(), &true.into()));
    assert!(!folder.path().join("genesis.json").exists(), "mainnet's rules need none");
}

#[test]
fn hostile_answers_are_refused_and_leave_nothing() {
    type Spoil = fn(&str, &Value, &mut Value);
    let cases: [(Spoil, i32, &str); 12] = [
        (
            |method, _, answer| {
                if method == "eth_getBlockByNumber" {
                    answer["result"]["number"] = json!("0x118c30")
                }
            },
            7,
            "it is block 1150000",
        ),
        (
            |method, _, answer| {
                if method == "eth_getBlockByNumber" {
                    answer["result"] = Value::Null
                }
            },
            7,
            "has no block 1149999",
        ),
        (
            |method, _, answer| {
                if method == "eth_getBlockByNumber" {
                    drop(answer["result"].as_object_mut().map(|block| block.remove("stateRoot")))
                }
            },
            7,
            "stateRoot",
        ),
        (
            |method, _, answer| {
                if method == "eth_getBlockByNumber" {
                    answer["result"]["timestamp"] = json!("0x1")
                }
            },
            7,
            "its contents hash to",
        ),
        (
            |method, _, answer| {
                if method == "eth_getBlockByNumber" {
                    answer["result"]["transactions"] = json!([])
                }
            },
            7,
            "transactionsRoot",
        ),
        (
            |method, _, answer| {
                if method == "eth_getBlockByNumber" {
                    answer["result"] = json!([1, "x"])
                }
            },
            7,
            "cannot be used",
        ),
        (
            |method, _, answer| {
                if method == "eth_getBalance" {
                    answer["result"] = json!("much")
                }
            },
            7,
            "the answer to eth_getBalance cannot be used",
        ),
        (
            |method, _, answer| {
                if method == "eth_getBalance" {
                    answer["result"] = json!("0x0")
                }
            },
            3,
            "sequential revm refuses it",
        ),
        (
            |method, _, answer| {
                if method == "eth_getTransactionCount" {
                    answer["result"] = json!("0x10000000000000000")
                }
            },
            7,
            "is no nonce",
        ),
        (
            |method, _, answer| {
                if method == "eth_getCode" {
                    answer["result"] = json!("0xef0100aa")
                }
            },
            7,
            "the code of 0x",
        ),
        (
            |method, _, answer| {
                if method == "eth_getCode" {
                    *answer = json!({ "error": { "code": -32000, "message": "missing trie node" } })
                }
            },
            7,
            "the server refuses eth_getCode: -32000: missing trie node",
        ),
        (
            |method, _, answer| {
                if method == "eth_chainId" {
                    answer["result"] = json!("0xa")
                }
            },
            2,
            "the server's chain is 10",
        ),
    ];
    for (at, (spoil, code, says)) in cases.into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let ended = fetch(recorded(spoil), BLOCK, folder.path(), "");
        assert_eq!(ended.code, Some(code), "case {at}: {ended:?}");
        assert!(ended.stderr.contains(says), "case {at}, not in stderr: {says:?}: {ended:?}");
        let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
        assert!(left.is_empty(), "case {at}: {left:?}");
    }
}

/// A server that speaks TLS, with a certificate for `localhost`, and gives every request one answer.
fn secret(answer: &'static [u8]) -> SocketAddr {
    let held = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let certificate = CertificateDer::from_pem_file(held("localhost.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(held("localhost-key.pem")).expect("a key");
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
    let config = std::sync::Arc::new(config.expect("they fit"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(session) = ServerConnection::new(config.clone()) else { return };
            let mut stream = StreamOwned::new(session, stream);
            let mut request = Vec::new();
            // The body is one JSON value.
            while request.last() != Some(&b'}') {
                let mut byte = [0];
                if stream.read_exact(&mut byte).is_err() {
                    break;
                }
                request.extend(byte);
            }
            let _ = stream.write_all(answer);
        }
    });
    address
}

#[test]
fn a_server_with_tls_is_asked_if_its_certificate_is_trusted() {
    let server = secret(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 8\r\n\r\nreached!");
    let folder = tempfile::tempdir().expect("a folder");
    let fetch = |trusted: &str| {
        let url = format!("https://localhost:{}", server.port());
        let mut command = phalanx(["fetch", "--rpc", &url, BLOCK, "--out"]);
        let trusted = Path::new(env!("CARGO_MANIFEST_DIR")).join(trusted);
        command.arg(folder.path()).env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR");
        end(command)
    };
    fetch("tests/fixtures/localhost.pem").refused(1, "HTTP status 403 Forbidden: reached!");
    // A file without a certificate trusts none.
    fetch("tests/fixtures/localhost-key.pem").refused(2, "certificate");
}

#[test]
fn servers_that_speak_something_else_are_refused() {
    let huge = || {
        let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n{".to_vec();
        answer.resize(answer.len() + 100_000, b' ');
        answer
    };
    let cases: [(&str, Vec<u8>); 5] = [
        ("does not answer", b"".to_vec()),
        ("does not answer", b"SSH-2.0-OpenSSH\r\n".to_vec()),
        ("HTTP status 403", b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno".to_vec()),
        ("cannot be used", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>".to_vec()),
        ("longer than", huge()),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for (says, answer) in cases {
        let server = raw(move |_| answer.clone());
        let ended = fetch(server, BLOCK, folder.path(), "");
        assert!(matches!(ended.code, Some(1 | 7)) && ended.stderr.contains(says), "{says:?}: {ended:?}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    fetch(closed, BLOCK, folder.path(), "").refused(1, "does not answer");
    for (url, says) in [("ftp://node", "http://"), ("node", "http"), ("http://me:secret@node", "not sent")] {
        let mut command = phalanx(["fetch", "--rpc", url, BLOCK, "--out"]);
        command.arg(folder.path());
        end(command).refused(2, says);
    }
    fetch("127.0.0.1:1", BLOCK, folder.path(), "--batch 0").refused(2, "--batch must be between");
}
