//! The public rpc-compat vectors of execution-apis, as far as they fit a chain whose roots and hashes are its own.
//!
//! The vectors' chain begins before proof of stake, which a node here does not have. So the transactions of its blocks are decided
//! once more, block by block, on its accounts and with every hard fork from the first block. Names of its blocks in requests and answers
//! are replaced by those that the blocks have here. What depends on roots, fees or the age of a block is compared by form alone:
//! which fields there are, null or not, quantity or bytes, and their length.

use crate::kit::{Client, config};
use alloy_consensus::{Block, TxEnvelope};
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::Decodable as _;
use phalanx::alloy::genesis::{Genesis, GenesisAccount};
use phalanx_abci::conformance::{Comet, Proposal, TcpLink};
use phalanx_node::{CometConfig, Node, Production, dev_genesis};
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
const BY_FORM: &[&str] = &["eth_getBalance", "eth_blobBaseFee", "eth_feeHistory", "eth_estimateGas", "eth_blockNumber"];

/// Methods that a node here does not have, and why.
const ABSENT: &[(&str, &str)] = &[
    ("debug_getRaw", "headers and blocks have another hash here"),
    ("testing_", "for tests of other programs"),
    ("eth_simulateV1", "absent"),
    ("eth_getProof", "proofs are those of another tree: phalanx_getProof"),
    ("eth_getStorageValues", "absent"),
    ("eth_capabilities", "absent"),
    ("eth_config", "absent"),
    ("eth_baseFee", "absent"),
];

/// Vectors that do not fit, and why.
const UNFIT: &[(&str, &str)] = &[
    ("eth_call/call-callenv", "the contract answers the environment of the block"),
    ("eth_call/call-callenv-options-eip1559", "the contract answers the environment of the block"),
    ("eth_getBlockByHash/get-block-by-empty-hash", "the genesis has this hash here"),
    ("eth_getBlockReceipts/get-block-receipts-empty", "the genesis has this hash here"),
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
    let mut genesis = dev_genesis(chain, &[]);
    // Transactions from before London pay little.
    genesis.base_fee_per_gas = Some(0);
    genesis.gas_limit = 100_000_000;
    let accounts: BTreeMap<Address, GenesisAccount> =
        serde_json::from_value(theirs["alloc"].clone()).expect("accounts");
    genesis.alloc.extend(accounts);
    genesis
}

/// The form of a value: quantities and bytes are told apart, and bytes of fixed length by it.
fn form(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(_) => "number".into(),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) if [16, 40, 64, 512].contains(&digits.len()) => format!("{} digits", digits.len()),
            Some("") => "bytes".into(),
            Some(digits) if digits == "0" || !digits.starts_with('0') => "quantity or bytes".into(),
            Some(_) => "bytes".into(),
            None => "text".into(),
        },
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

/// Compares an answer with the expected one; returns the first difference. `is_form` compares leaves by form alone.
fn difference(path: &str, expected: &Value, ours: &Value, is_form: bool) -> Option<String> {
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
            expected.iter().find_map(|(key, value)| {
                let is_form = is_form || OWN.contains(&&key[..]);
                difference(&format!("{path}.{key}"), value, &ours[key], is_form)
            })
        }
        (Value::Array(expected), Value::Array(ours)) if expected.len() == ours.len() => {
            (0..).zip(expected.iter().zip(ours)).find_map(|(place, (expected, ours)): (usize, _)| {
                difference(&format!("{path}[{place}]"), expected, ours, is_form)
            })
        }
        (Value::Array(expected), Value::Array(ours)) if is_form => {
            let (expected, ours) = (expected.first()?, ours.first()?);
            difference(&format!("{path}[0]"), expected, ours, true)
        }
        _ if expected == ours => None,
        _ if is_form => {
            let (expected, ours) = (form(expected), form(ours));
            let is_loose = |form: &str| form.ends_with("bytes") || form.ends_with("digits");
            let is_same = expected == ours || is_loose(&expected) && is_loose(&ours);
            (!is_same).then(|| format!("{path} is {ours}, and {expected} is expected"))
        }
        _ => Some(format!("{path} is {ours}, and {expected} is expected")),
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
    difference("result", &expected["result"], &ours["result"], is_form)
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
    settings.comet = Some(CometConfig { abci, rpc, ..CometConfig::default() });
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
            names.push((format!("{:#x}", block.header.parent_hash), format!("{:#x}", B256::ZERO)));
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
    assert!(agreed >= 96, "{agreed} of {run} vectors agree");
    node.stop();
}
