//! The public rpc-compat vectors of execution-apis, as far as they fit a chain whose roots and hashes are its own.
//!
//! The vectors' chain begins before proof of stake, which a node here does not have. So the transactions of its blocks are decided
//! once more, block by block, on its accounts and with every hard fork from the first block. Names of its blocks in requests and answers
//! are replaced by those that the blocks have here. What depends on roots, fees or the age of a block is compared by form alone:
//! which fields there are, null or not, quantity or bytes, and the length that a field's name fixes.

use crate::kit::{Client, config};
use alloy_consensus::{Block, TxEnvelope};
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{Address, Bytes, U256};
use alloy_rlp::Decodable as _;
use phalanx::alloy::genesis::{Genesis, GenesisAccount};
use phalanx_abci::conformance::{Comet, Proposal, TcpLink};
use phalanx_node::{BlockSource, CometConfig, Node, Production, dev_genesis};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// Fields that depend on hashes, roots, fees, or the forks of the blocks before.
const OWN: &[&str] = &[
    "hash",
    "parentHash",
    "stateRoot",
    "receiptsRoot",
    "transactionsRoot",
    "requestsHash",
    "withdrawalsRoot",
    "blockHash",
    "blockTimestamp",
    "timestamp",
    "baseFeePerGas",
    "effectiveGasPrice",
    "mixHash",
    "miner",
    "extraData",
    "gasLimit",
    "size",
    "excessBlobGas",
    "blobGasUsed",
    "blobGasPrice",
    "parentBeaconBlockRoot",
    "difficulty",
    "nonce",
    "gasUsedRatio",
    "blobGasUsedRatio",
    "reward",
    "baseFeePerBlobGas",
    "oldestBlock",
];

/// Methods whose answers are compared by form: they depend on fees or times everywhere.
const BY_FORM: &[&str] =
    &["eth_getBalance", "eth_blobBaseFee", "eth_baseFee", "eth_feeHistory", "eth_estimateGas", "eth_blockNumber"];

/// Methods that a node here does not have, and why.
const ABSENT: &[(&str, &str)] = &[
    ("debug_getRaw", "headers have another state root here"),
    ("testing_", "for tests of other programs"),
    ("eth_getProof", "the chain reports another root than the vectors'"),
];

/// Vectors that do not fit, and why.
const UNFIT: &[(&str, &str)] = &[
    ("eth_call/call-callenv", "the contract answers the environment of the block"),
    ("eth_call/call-callenv-options-eip1559", "the contract answers the environment of the block"),
    ("eth_getBlockByHash/get-block-by-hash", "a block from before London"),
    ("eth_getBlockByNumber/get-block-cancun-fork", "a block from before Prague"),
    ("eth_getBlockByNumber/get-block-london-fork", "a block from before Cancun"),
    ("eth_getBlockByNumber/get-block-merge-fork", "a block from before Cancun"),
    ("eth_getBlockByNumber/get-block-shanghai-fork", "a block from before Cancun"),
    ("eth_getBlockByNumber/get-genesis", "a block from before London"),
    ("eth_getBlockReceipts/get-block-receipts-by-hash", "receipts from before Byzantium have a root"),
    ("eth_getBlockReceipts/get-block-receipts-n", "receipts from before Byzantium have a root"),
    ("eth_getTransactionReceipt/get-legacy-contract", "receipts from before Byzantium have a root"),
    ("eth_getTransactionReceipt/get-legacy-input", "receipts from before Byzantium have a root"),
    ("eth_getTransactionReceipt/get-legacy-receipt", "receipts from before Byzantium have a root"),
    ("eth_getTransactionByHash/get-blob-tx", "the price follows from the base fee"),
    ("eth_getTransactionByHash/get-dynamic-fee", "the price follows from the base fee"),
    ("eth_getTransactionByHash/get-setcode-tx", "the price follows from the base fee"),
    ("eth_getLogs/contract-addr", "transactions before it have other logs"),
    ("eth_capabilities/get-capabilities", "logs of all blocks are kept, so no strategy of deletion is stated"),
    ("eth_config/get-config", "the chain has every fork from its first block"),
    (
        "eth_simulateV1/ethSimulate-add-more-non-defined-BlockStateCalls-than-fit-but-now-with-fit",
        "the contract answers the environment of the block",
    ),
    ("eth_simulateV1/ethSimulate-contract-calls-itself", "the contract answers the environment of the block"),
    ("eth_simulateV1/ethSimulate-get-block-properties", "the contract answers the environment of the block"),
    ("eth_simulateV1/ethSimulate-overwrite-existing-contract", "the contract answers the environment of the block"),
    ("eth_simulateV1/ethSimulate-blockhash-complex", "the contract answers hashes of simulated blocks"),
    ("eth_simulateV1/ethSimulate-blockhash-start-before-head", "the contract answers hashes of simulated blocks"),
    ("eth_simulateV1/ethSimulate-empty-with-block-num-set-firstblock", "a block from before London"),
    ("eth_simulateV1/ethSimulate-self-destructing-state-override", "the beneficiary is paid, and another one here"),
    (
        "eth_simulateV1/ethSimulate-self-destructive-contract-produces-logs",
        "the beneficiary is paid, and another one here",
    ),
    ("eth_simulateV1/ethSimulate-block-timestamps-incrementing", "the newest block has another time"),
    ("eth_simulateV1/ethSimulate-blocknumber-increment", "the newest block has another time"),
    ("eth_simulateV1/ethSimulate-use-as-many-features-as-possible", "the newest block has another time"),
    ("eth_simulateV1/ethSimulate-overflow-nonce", "revm runs no transaction with the highest nonce"),
    ("txpool_content/get-content", "the pool holds other transactions"),
];

/// A request and the answer to it.
struct Vector {
    name: String,
    request: Value,
    answer: Value,
    /// True if the specification fixes the form alone.
    is_form: bool,
}

fn vectors(folder: &Path, names: &[(String, String)]) -> Vec<Vector> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .filter_map(|entry| fs::read_dir(entry.ok()?.path()).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "io"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let mut text = fs::read_to_string(&path).expect("text");
        names.iter().for_each(|(theirs, ours)| text = text.replace(&theirs[..], ours));
        let is_form = text.contains("speconly");
        let method = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let name = format!("{method}/{}", path.file_stem().unwrap_or_default().to_string_lossy());
        let mut asked: Option<Value> = None;
        for line in text.lines() {
            if let Some(request) = line.strip_prefix(">> ") {
                asked = serde_json::from_str(request).ok();
            } else if let (Some(answer), Some(request)) = (line.strip_prefix("<< "), asked.take()) {
                let answer = serde_json::from_str(answer).expect("JSON");
                all.push(Vector { name: name.clone(), request, answer, is_form });
            }
        }
    }
    all
}

/// The vectors' accounts, with every hard fork from the first block.
fn genesis(folder: &Path) -> Genesis {
    let text = fs::read_to_string(folder.join("genesis.json")).expect("a genesis");
    let theirs: Value = serde_json::from_str(&text).expect("JSON");
    let chain = theirs["config"]["chainId"].as_u64().expect("a chain id");
    let mut genesis = dev_genesis(chain, &[], U256::ZERO);
    // Transactions from before London pay little.
    genesis.base_fee_per_gas = Some(0);
    genesis.gas_limit = 100_000_000;
    let accounts: BTreeMap<Address, GenesisAccount> =
        serde_json::from_value(theirs["alloc"].clone()).expect("accounts");
    genesis.alloc.extend(accounts);
    genesis
}

/// Fields of fixed length, and their bytes.
const FIXED: &[(&str, usize)] = &[
    ("hash", 32),
    ("parentHash", 32),
    ("sha3Uncles", 32),
    ("stateRoot", 32),
    ("receiptsRoot", 32),
    ("transactionsRoot", 32),
    ("requestsHash", 32),
    ("withdrawalsRoot", 32),
    ("parentBeaconBlockRoot", 32),
    ("mixHash", 32),
    ("blockHash", 32),
    ("transactionHash", 32),
    ("blobVersionedHashes", 32),
    ("topics", 32),
    ("storageKeys", 32),
    ("miner", 20),
    ("address", 20),
    ("contractAddress", 20),
    ("from", 20),
    ("to", 20),
    ("logsBloom", 256),
];

/// Fields with bytes of any length.
const BYTES: &[&str] = &["extraData", "input", "data", "output", "returnData"];

/// The form that a string has in a field. A block's `nonce` has eight bytes, a transaction's is a quantity.
fn has_form(key: &str, in_block: bool, expected: &str, text: &str) -> bool {
    let (Some(theirs), Some(digits)) = (expected.strip_prefix("0x"), text.strip_prefix("0x")) else {
        return !expected.starts_with("0x") && !text.starts_with("0x");
    };
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_quantity = |digits: &str| digits == "0" || !digits.is_empty() && !digits.starts_with('0');
    let fixed = FIXED.iter().find(|(name, _)| *name == key).map(|(_, len)| *len);
    let fixed = if key == "nonce" && in_block { Some(8) } else { fixed };
    is_hex
        && match fixed {
            Some(len) => digits.len() == 2 * len,
            None if BYTES.contains(&key) => digits.len().is_multiple_of(2),
            // A field of another name has quantities, or bytes of a length that its type fixes.
            None if is_quantity(theirs) => is_quantity(digits),
            None => digits.len() == theirs.len(),
        }
}

/// Kind of a value, for reports.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Place of a value in an answer, and how it is compared there.
#[derive(Clone, Debug)]
struct Place {
    path: String,
    /// Name of the field, also for the elements of its array.
    key: String,
    /// True for the fields of a block.
    in_block: bool,
    /// True if leaves are compared by form alone.
    is_form: bool,
}

impl Place {
    fn result(is_form: bool) -> Self {
        Self { path: "result".into(), key: "result".into(), in_block: false, is_form }
    }

    fn field(&self, key: &str, in_block: bool) -> Self {
        let is_own = OWN.contains(&key) && (key != "nonce" || in_block);
        Self { path: format!("{}.{key}", self.path), key: key.into(), in_block, is_form: self.is_form || is_own }
    }

    fn element(&self, place: usize) -> Self {
        Self { path: format!("{}[{place}]", self.path), ..self.clone() }
    }
}

/// Compares an answer with the expected one; returns the first difference.
fn difference(place: &Place, expected: &Value, ours: &Value) -> Option<String> {
    let path = &place.path;
    let differs = || Some(format!("{path} is {ours}, and {expected} is expected"));
    match (expected, ours) {
        (Value::Object(expected), Value::Object(ours)) => {
            let missing = expected.keys().find(|key| !ours.contains_key(*key));
            let added = ours.keys().find(|key| !expected.contains_key(*key));
            if let Some(key) = missing {
                return Some(format!("{path}.{key} is missing"));
            }
            if let Some(key) = added {
                return Some(format!("{path}.{key} is not expected"));
            }
            let in_block = expected.contains_key("mixHash");
            expected.iter().find_map(|(key, value)| difference(&place.field(key, in_block), value, &ours[key]))
        }
        (Value::Array(expected), Value::Array(ours)) if expected.len() == ours.len() => {
            let mut pairs = expected.iter().zip(ours).enumerate();
            pairs.find_map(|(number, (expected, ours))| difference(&place.element(number), expected, ours))
        }
        // Of another number of elements each has the form of its counterpart, and further leaves have that of the first one:
        // further steps of a trace need not be like the first.
        (Value::Array(expected), Value::Array(all)) if place.is_form => match expected.first() {
            Some(first) if !all.is_empty() => all.iter().enumerate().find_map(|(number, ours)| {
                let like = expected.get(number).or_else(|| first.is_string().then_some(first))?;
                difference(&place.element(number), like, ours)
            }),
            _ => differs(),
        },
        _ if expected == ours => None,
        (Value::String(theirs), Value::String(text)) if place.is_form => {
            if has_form(&place.key, place.in_block, theirs, text) { None } else { differs() }
        }
        _ if place.is_form && kind(expected) == kind(ours) => None,
        _ => differs(),
    }
}

/// Compares two answers as a whole. Of an error the code counts, and its data.
fn judge(vector: &Vector, answer: &Value) -> Option<String> {
    let (expected, ours) = (&vector.answer, answer);
    if !expected["error"].is_null() || !ours["error"].is_null() {
        let [expected, ours] = [expected, ours].map(|answer| (&answer["error"]["code"], &answer["error"]["data"]));
        return (expected != ours).then(|| format!("error {ours:?}, and {expected:?} is expected: {answer}"));
    }
    let method = vector.request["method"].as_str().unwrap_or_default();
    let is_form = vector.is_form || BY_FORM.contains(&method);
    difference(&Place::result(is_form), &expected["result"], &ours["result"])
}

#[test]
fn broken_answers_are_refused() {
    let (hash, address) = (format!("0x{}", "1a".repeat(32)), format!("0x{}", "2b".repeat(20)));
    let tx = json!({"nonce": "0x5", "blockHash": hash, "to": address, "input": "0x00"});
    let block = json!({
        "hash": hash, "mixHash": hash, "miner": address, "logsBloom": format!("0x{}", "00".repeat(256)),
        "nonce": "0x0000000000000000", "extraData": "0x", "baseFeePerGas": "0x7", "timestamp": "0x10",
        "size": "0x220", "number": "0x1", "transactions": [tx], "parentBeaconBlockRoot": hash,
    });
    let judged = |is_form, ours: &Value| difference(&Place::result(is_form), &block, ours);
    let with = |pointer: &str, value: Value| {
        let mut ours = block.clone();
        *ours.pointer_mut(pointer).expect("a field") = value;
        ours
    };
    let other = format!("0x{}", "00".repeat(32));
    for (pointer, value) in [
        ("/hash", json!(other)),
        ("/mixHash", json!(other)),
        ("/miner", json!(format!("0x{}", "00".repeat(20)))),
        ("/nonce", json!("0x0102030405060708")),
        ("/extraData", json!("0x1234")),
        ("/baseFeePerGas", json!("0x0")),
        ("/timestamp", json!("0xffff")),
        ("/size", json!("0x1")),
        ("/transactions/0/blockHash", json!(other)),
    ] {
        assert_eq!(judged(false, &with(pointer, value)), None, "{pointer} is this chain's own");
    }
    let broken = [
        ("/hash", json!("0x1a")),
        ("/hash", json!("0x")),
        ("/hash", json!(address)),
        ("/hash", json!(format!("0x{}", "zz".repeat(32)))),
        ("/hash", json!(format!("0x{}", "AB".repeat(32)))),
        ("/hash", json!("1a".repeat(32))),
        ("/hash", json!(null)),
        ("/hash", json!(1)),
        ("/mixHash", json!("0x0")),
        ("/parentBeaconBlockRoot", json!("0x0")),
        ("/parentBeaconBlockRoot", json!(null)),
        ("/miner", json!(hash)),
        ("/miner", json!("0x2b")),
        ("/logsBloom", json!("0x00")),
        ("/nonce", json!("0x0")),
        ("/extraData", json!("0x123")),
        ("/baseFeePerGas", json!("0x07")),
        ("/baseFeePerGas", json!("0x")),
        ("/baseFeePerGas", json!(hash.replace("0x", "0x00"))),
        ("/timestamp", json!("0x010")),
        ("/timestamp", json!(16)),
        ("/size", json!("0x00")),
        ("/transactions", json!([])),
        ("/transactions/0/nonce", json!("0x0000000000000005")),
        ("/transactions/0/blockHash", json!("0x1")),
        ("/transactions/0", json!(hash)),
    ];
    for (pointer, value) in &broken {
        for is_form in [false, true] {
            assert!(judged(is_form, &with(pointer, value.clone())).is_some(), "{pointer}: {value}, {is_form}");
        }
    }
    // Where the form is fixed alone, a value may be another one, and a field neither lacks nor is new.
    assert_eq!(judged(true, &with("/number", json!("0x2"))), None);
    assert!(judged(false, &with("/number", json!("0x2"))).is_some());
    assert!(
        judged(false, &with("/transactions/0/nonce", json!("0x6"))).is_some(),
        "a transaction's nonce is no own one"
    );
    for is_form in [false, true] {
        let mut ours = block.clone();
        ours["more"] = json!(1);
        assert!(judged(is_form, &ours).is_some());
        ours.as_object_mut().expect("an object").retain(|key, _| key != "more" && key != "size");
        assert!(judged(is_form, &ours).is_some());
    }
    // Arrays of another length have elements of the same form, at least one.
    let [two, none] = [json!(["0x1", "0x2"]), json!([])];
    let arrays = |expected: &Value, ours: &Value| difference(&Place::result(true), expected, ours);
    assert_eq!(arrays(&two, &json!(["0x3"])), None);
    assert_eq!(arrays(&none, &none), None);
    for (expected, ours) in
        [(&two, &none), (&none, &two), (&two, &json!(["0x1", "0x2", "0x03"])), (&two, &json!(["0x1", 2]))]
    {
        assert!(arrays(expected, ours).is_some(), "{expected}, {ours}");
    }
}

#[test]
fn answers_agree_with_the_vectors_of_execution_apis() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rpc-compat");
    let folder = std::env::var_os("PHALANX_RPC_VECTORS").map_or(committed, PathBuf::from);
    let genesis = genesis(&folder);
    let place = tempfile::tempdir().expect("a folder");
    let mut settings = config(place.path(), Production::Off);
    settings.beneficiary = Address::ZERO;
    let (abci, rpc) = (SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([127, 0, 0, 1], 1)));
    settings.source = BlockSource::Comet(CometConfig { abci, rpc, ..CometConfig::default() });
    let chain = genesis.config.chain_id;
    settings.genesis = genesis;
    let node = Node::start(&settings).expect("a node");
    let mut link = TcpLink::connect(node.abci_address().expect("ABCI")).expect("a connection");
    let mut comet = Comet::new(&format!("vectors-{chain}"), 1_790_000_000_000);
    comet.handshake(&mut link).expect("sound");
    let bytes = fs::read(folder.join("chain.rlp")).expect("a chain");
    let (mut rest, mut sent, client) = (&bytes[..], 0, Client::new(node.address()));
    // Their name of each block, and ours.
    let mut names = Vec::new();
    while !rest.is_empty() {
        let block = Block::<TxEnvelope>::decode(&mut rest).expect("a block");
        if names.is_empty() {
            let ours = client.get("eth_getBlockByNumber", json!(["0x0", false]));
            names.push((format!("{:#x}", block.header.parent_hash), ours["hash"].as_str().expect("a hash").to_owned()));
        }
        let txs: Vec<Bytes> = block.body.transactions.iter().map(|tx| tx.encoded_2718().into()).collect();
        sent += txs.len();
        comet.height(&mut link, &[Proposal::Unseen(txs)]).expect("sound");
        assert_eq!(node.height(), block.header.number);
        let ours = client.get("eth_getBlockByNumber", json!([format!("{:#x}", block.header.number), false]));
        names.push((format!("{:#x}", block.header.hash_slow()), ours["hash"].as_str().expect("a hash").to_owned()));
    }
    let executed: usize = (1..=node.height())
        .map(|height| {
            let receipts = client.get("eth_getBlockReceipts", json!([format!("{height:#x}")]));
            receipts.as_array().expect("receipts").len()
        })
        .sum();
    println!("{} blocks, {executed} of {sent} transactions executed", node.height());
    assert!(executed == sent && sent > 200, "{executed} of {sent} transactions");
    let (mut run, mut agreed, mut unfit, mut absent, mut wrong) = (0, 0, 0, 0, Vec::new());
    for vector in vectors(&folder, &names) {
        let method = vector.request["method"].as_str().unwrap_or_default();
        if ABSENT.iter().any(|(name, _)| method.starts_with(name)) {
            absent += 1;
            continue;
        }
        run += 1;
        let answer = client.ask(method, vector.request["params"].clone());
        let is_unfit = UNFIT.iter().any(|(name, _)| *name == vector.name);
        match judge(&vector, &answer) {
            None if is_unfit => wrong.push(format!("{}: it fits, and is listed as one that does not", vector.name)),
            None => agreed += 1,
            Some(_) if is_unfit => unfit += 1,
            Some(what) => wrong.push(format!("{}: {what}", vector.name)),
        }
    }
    println!("{run} vectors, {agreed} agree, {unfit} do not fit; {absent} of methods that are absent");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(agreed >= 180, "{agreed} of {run} vectors agree");
    node.stop();
}
