//! Ethereum's public tests over the Engine API: those of the engine format as they are, and blockchain tests as payloads.
//!
//! Chains have Ethereum's root, so each payload that is valid has compared its state with the fixture's. A payload cannot say all
//! that a block can: blocks that are none, and what follows requests that only execution makes known, are counted and left out.

use super::beacon::{Driven, driven, read, said, state};
use alloy_consensus::{Block, TxEnvelope};
use alloy_eips::eip7685::EMPTY_REQUESTS_HASH;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::Decodable as _;
use alloy_rpc_types_engine::ExecutionPayload;
use phalanx::{
    RootKind,
    alloy::genesis::{Genesis, GenesisAccount},
};
use phalanx_node::set_root;
use phalanx_workloads::fixtures::visit_files;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// Forks that a payload can be of, with their fields of a genesis.
const FORKS: [(&str, &str); 9] = [
    ("Paris", "terminalTotalDifficulty"),
    ("Shanghai", "shanghaiTime"),
    ("Cancun", "cancunTime"),
    ("Prague", "pragueTime"),
    ("Osaka", "osakaTime"),
    ("BPO1", "bpo1Time"),
    ("BPO2", "bpo2Time"),
    ("BPO3", "bpo3Time"),
    ("BPO4", "bpo4Time"),
];

/// Number of times that a payload is handed over until its state is known.
const ATTEMPTS: usize = 50;

/// Code of a payload whose fields are not those of its version.
const MISSHAPEN: i64 = -32602;

/// Newest time of a block, in seconds: nodes keep milliseconds.
const MOST_TIME: u64 = u64::MAX / 1_000;

/// Configuration of a network, or `None` if it has blocks of before the merge, or of a fork that is not in force yet.
fn configuration(test: &Value) -> Option<Value> {
    let network = test["network"].as_str()?;
    let place = |name: &str| FORKS.iter().position(|(fork, _)| *fork == name);
    let (from, to) = match network.strip_suffix("AtTime15k") {
        None => (place(network)?, place(network)?),
        Some(passing) => {
            let (from, to) = passing.split_once("To")?;
            (place(from)?, place(to)?)
        }
    };
    let chain_id: Option<String> = read(&test["config"]["chainid"]);
    let chain_id = chain_id.map_or(1, |id| u64::from_str_radix(id.trim_start_matches("0x"), 16).expect("a chain id"));
    let mut config = json!({ "chainId": chain_id });
    for name in ["homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople", "petersburg", "istanbul"] {
        config[format!("{name}Block")] = json!(0);
    }
    for name in ["muirGlacier", "berlin", "london", "arrowGlacier", "grayGlacier", "mergeNetsplit"] {
        config[format!("{name}Block")] = json!(0);
    }
    for (place, (_, field)) in FORKS.iter().enumerate().take(to + 1) {
        config[*field] = json!(if place > from { 15_000 } else { 0 });
    }
    for (fork, limits) in test["config"]["blobSchedule"].as_object().into_iter().flatten() {
        let number = |name: &str| super::beacon::quantity(&limits[name]);
        let [target, max, fraction] = ["target", "max", "baseFeeUpdateFraction"].map(number);
        config["blobSchedule"][fork.to_lowercase()] =
            json!({ "target": target, "max": max, "baseFeeUpdateFraction": fraction });
    }
    Some(config)
}

fn genesis(test: &Value, config: &Value) -> Genesis {
    let header = &test["genesisBlockHeader"];
    let mut genesis = json!({ "config": config, "alloc": test["pre"], "coinbase": header["coinbase"] });
    for field in ["nonce", "timestamp", "extraData", "gasLimit", "difficulty", "mixHash", "number", "parentHash"] {
        genesis[field] = header[field].clone();
    }
    for field in ["baseFeePerGas", "excessBlobGas", "blobGasUsed"] {
        if let Some(value) = header.get(field) {
            genesis[field] = value.clone();
        }
    }
    let mut genesis = read(&genesis);
    set_root(&mut genesis, RootKind::Ethereum);
    genesis
}

/// A payload of a test with the method that takes it.
struct Step {
    method: String,
    params: Value,
    /// State of the payload, or else the error of the protocol that the test names.
    expected: &'static str,
    code: Option<i64>,
}

const fn status(is_valid: bool) -> &'static str {
    if is_valid { "VALID" } else { "INVALID" }
}

impl Step {
    fn hash(&self) -> B256 {
        read(&self.params[0]["blockHash"])
    }
}

/// Payloads of a test, up to the first that is not known, and why it is not. Counts invalid blocks that no payload can say.
fn steps(test: &Value, unsaid: &mut usize) -> (Vec<Step>, Option<&'static str>) {
    if let Some(payloads) = test["engineNewPayloads"].as_array() {
        let step = |payload: &Value| Step {
            method: format!("engine_newPayloadV{}", payload["newPayloadVersion"].as_str().expect("a version")),
            params: payload["params"].clone(),
            code: payload["errorCode"].as_str().map(|code| code.parse().expect("a number")),
            expected: status(payload["validationError"].is_null() && payload["errorCode"].is_null()),
        };
        return (payloads.iter().map(step).collect(), None);
    }
    let mut steps = Vec::new();
    for block in test["blocks"].as_array().expect("blocks") {
        let bytes: Bytes = read(&block["rlp"]);
        let is_valid = block["expectException"].is_null();
        let decoded = Block::<TxEnvelope>::decode(&mut bytes.as_ref());
        let decoded = match decoded {
            Err(_) if !is_valid => {
                *unsaid += 1;
                continue;
            }
            decoded => decoded.expect("a valid block"),
        };
        // Neither ommers nor withdrawals that are only in the header have a place in a payload.
        let Block { header, body } = &decoded;
        if !body.ommers.is_empty() || header.withdrawals_root.is_some() != body.withdrawals.is_some() {
            assert!(!is_valid, "ommers, or withdrawals in the header alone");
            *unsaid += 1;
            continue;
        }
        if header.requests_hash.is_some_and(|hash| hash != EMPTY_REQUESTS_HASH) {
            return (steps, Some("requests are not known"));
        }
        let unknown = block["expectException"].as_str().is_some_and(|reason| reason.contains("UNKNOWN_PARENT"));
        if header.timestamp > MOST_TIME {
            return (steps, Some("times of more than 2^64 ms"));
        }
        steps.push(Step { expected: if unknown { "SYNCING" } else { status(is_valid) }, ..of_block(&decoded) });
    }
    (steps, None)
}

fn of_block(block: &Block<TxEnvelope>) -> Step {
    let header = &block.header;
    let (payload, _) = ExecutionPayload::from_block_unchecked(header.hash_slow(), block);
    let payload = match payload {
        ExecutionPayload::V1(payload) => json!(payload),
        ExecutionPayload::V2(payload) => json!(payload),
        ExecutionPayload::V3(payload) => json!(payload),
        other => unreachable!("no test is of its fork: {other:?}"),
    };
    let hashes = || json!(block.body.blob_versioned_hashes_iter().collect::<Vec<_>>());
    let root = json!(header.parent_beacon_block_root);
    let (version, params) = match (header.withdrawals_root, header.excess_blob_gas, header.requests_hash) {
        (_, _, Some(_)) => (4, json!([payload, hashes(), root, []])),
        (_, Some(_), _) => (3, json!([payload, hashes(), root])),
        (Some(_), ..) => (2, json!([payload])),
        _ => (1, json!([payload])),
    };
    Step { method: format!("engine_newPayloadV{version}"), params, code: None, expected: "VALID" }
}

/// Asks until the state of a payload is known, unless it has to stay unknown: a node answers within five seconds, and finishes a longer
/// execution for the next attempt.
fn ask(expected: &str, attempt: impl Fn() -> Result<String, i64>) -> Result<String, i64> {
    let is_known =
        |status: &Result<String, i64>| expected == "SYNCING" || !matches!(status, Ok(status) if status == "SYNCING");
    let mut attempts = (0..ATTEMPTS).map(|_| attempt());
    attempts.find(is_known).unwrap_or_else(|| Ok("SYNCING".into()))
}

/// Hands a payload over and makes it the head. Returns the final answer: a state, or the code of an error.
fn take(node: &Driven, step: &Step) -> Result<String, i64> {
    let status = ask(step.expected, || {
        let answer = node.answer(&step.method, &step.params);
        answer["error"]["code"].as_i64().map_or_else(|| Ok(said(&answer["result"]).0), Err)
    })?;
    match status.as_str() {
        "VALID" | "ACCEPTED" => choose(node, step.hash(), step.expected),
        _ => Ok(status),
    }
}

fn choose(node: &Driven, head: B256, expected: &str) -> Result<String, i64> {
    let params = json!([state(head, B256::ZERO, B256::ZERO), null]);
    ask(expected, || {
        let answer = node.answer("engine_forkchoiceUpdatedV3", &params);
        answer["error"]["code"].as_i64().map_or_else(|| Ok(said(&answer["result"]["payloadStatus"]).0), Err)
    })
}

/// Counts of what was run, and of what a payload cannot say.
#[derive(Debug, Default)]
struct Tally {
    /// Tests of which every payload was run.
    whole: usize,
    valid: usize,
    /// Payloads that are `INVALID` or `SYNCING`, or of another fork.
    refused: usize,
    /// Payloads that are none: their fields are not those of their version.
    misshapen: usize,
    /// Invalid blocks that are no payload.
    unsaid: usize,
    /// Tests that were not run, or not up to their end.
    left_out: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

impl Tally {
    fn leave_out(&mut self, reason: &'static str) {
        *self.left_out.entry(reason).or_default() += 1;
    }
}

fn run(name: &str, test: &Value, tally: &mut Tally) {
    let Some(config) = configuration(test) else { return tally.leave_out("of other forks") };
    let folder = tempfile::tempdir().expect("a folder");
    let genesis = genesis(test, &config);
    let is_bare = |account: &GenesisAccount| {
        let has_slots = account.storage.as_ref().is_some_and(|slots| slots.values().any(|value| !value.is_zero()));
        account.nonce.unwrap_or(0) == 0 && account.code.as_ref().is_none_or(|code| code.is_empty()) && has_slots
    };
    if genesis.alloc.values().any(is_bare) {
        // A creation over storage succeeds in revm.
        return tally.leave_out("with storage and no code (EIP-7610)");
    }
    let node = Driven::start(&driven(folder.path(), genesis));
    assert_eq!(Some(node.genesis()), read(&test["genesisBlockHeader"]["hash"]), "{name}: the genesis");
    let (steps, left_out) = steps(test, &mut tally.unsaid);
    let mut is_right = true;
    for (place, step) in steps.iter().enumerate() {
        let before = node.tagged("latest");
        let got = take(&node, step);
        let is_valid = step.expected == "VALID";
        is_right = match (&got, step.code) {
            (Ok(status), None) => status == step.expected,
            // A field too many or too few for the time of a block.
            (Err(got), None) => !is_valid && *got == MISSHAPEN,
            (got, Some(code)) => *got == Err(code),
        };
        let head = if is_valid { Some(step.hash()) } else { before };
        is_right &= node.tagged("latest") == head;
        if !is_right {
            tally.wrong.push(format!("{name}, payload {place}: {got:?} for {}", step.expected));
            break;
        }
        *match got {
            Ok(_) if is_valid => &mut tally.valid,
            Err(MISSHAPEN) => &mut tally.misshapen,
            _ => &mut tally.refused,
        } += 1;
    }
    match left_out {
        Some(reason) => tally.leave_out(reason),
        None if is_right => {
            let end = choose(&node, read(&test["lastblockhash"]), "VALID");
            if end != Ok("VALID".into()) {
                tally.wrong.push(format!("{name}, its end: {end:?}"));
            }
            tally.whole += 1;
        }
        None => {}
    }
    node.stop();
}

/// Runs the tests of every `stride`-th file.
fn run_all(path: &Path, stride: usize) -> Tally {
    let (mut tally, mut files) = (Tally::default(), 0);
    let _ = visit_files(path, &mut |file| {
        files += 1;
        let file = file.expect("a readable file");
        // Files that are kept elsewhere are pointers of three lines.
        if (files - 1) % stride == 0 && file.bytes.starts_with(b"{") {
            let tests: Map<String, Value> = serde_json::from_slice(&file.bytes).expect("a file of tests");
            let is_chain = |test: &Value| !test["blocks"].is_null() || !test["engineNewPayloads"].is_null();
            tests.iter().filter(|(_, test)| is_chain(test)).for_each(|(name, test)| run(name, test, &mut tally));
        }
        ControlFlow::Continue(())
    });
    let Tally { whole, valid, refused, misshapen, unsaid, left_out, wrong } = &tally;
    println!("{files} files, {whole} whole tests, {valid} valid, {refused} refused and {misshapen} misshapen payloads");
    println!("invalid blocks that are no payload: {unsaid}; tests left out: {left_out:?}");
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
    tally
}

/// Two tests of the engine format, and blockchain tests of every fork and passage from one to the next.
#[test]
fn committed_tests_have_their_verdicts_over_the_engine_api() {
    let tally = run_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/payloads.json.gz"), 1);
    let Tally { whole, valid, refused, misshapen, unsaid, .. } = tally;
    assert_eq!((whole, valid, refused, misshapen, unsaid), (18, 13, 7, 0, 0), "{tally:?}");
}

/// Runs the sample of `ethereum-tests`, or the collection that `PHALANX_ENGINE_FIXTURES` names. `PHALANX_STRIDE` sets every how many-th
/// file is run.
#[test]
fn public_tests_have_their_verdicts_over_the_engine_api() {
    let stride = std::env::var("PHALANX_STRIDE").ok().map(|stride| stride.parse().expect("a count of files"));
    if let Some(path) = std::env::var_os("PHALANX_ENGINE_FIXTURES") {
        let tally = run_all(Path::new(&path), stride.unwrap_or(1));
        assert!(tally.valid > 0 && tally.misshapen <= tally.refused + 4, "{tally:?}");
        return;
    }
    let root = PathBuf::from(std::env::var_os("PHALANX_FIXTURES").unwrap_or_else(|| "../../shared".into()));
    let path = root.join("ethereum-tests/BlockchainTests-sample.tar.gz");
    if !path.exists() {
        assert!(std::env::var_os("PHALANX_REQUIRE_FIXTURES").is_none(), "{} is missing", path.display());
        eprintln!("skipped: {} is missing in the folder that PHALANX_FIXTURES names", path.display());
        return;
    }
    let stride = stride.unwrap_or(8);
    let tally = run_all(&path, stride);
    // Of 68 tests.
    assert!(tally.whole * stride > 40, "{tally:?}");
    // Few blocks have other fields than their time demands: an error of every wrong payload would be no verdict.
    assert!(tally.misshapen <= tally.refused + 4, "{tally:?}");
}
