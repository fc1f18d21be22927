//! One flipped bit anywhere in a node's folder: every answer is right, or an error that names the file.

use crate::{
    kit::{Call, Client, address, config, deploy, signed},
    replicas::{Net, payment},
};
use alloy_primitives::{Address, hex};
use phalanx_node::{
    Node, NodeConfig, NodeError, Production,
    net::{Beginning, ProtocolName},
};
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

/// Adds one to slot 0, and emits a log with its value as the topic.
const COUNTER: [u8; 13] = hex!("5f54600101805f555f5fa100aa");

/// Blocks of the chain, but for the genesis.
const BLOCKS: u64 = 24;

/// Settings that leave several segments, and history below the newest state.
fn settings(folder: &Path, production: Production) -> NodeConfig {
    let mut settings = config(folder, production);
    settings.segment_bytes = 8_000;
    settings
}

/// Makes a chain with transfers, code, storage and logs. Returns its questions with their answers.
fn fill(folder: &Path) -> Vec<(Value, Value)> {
    let node = Node::start(&settings(folder, Production::Instant)).expect("a node");
    let client = Client::new(node.address());
    let mut receipts = vec![client.include(&deploy(0, 0, &COUNTER))];
    let contract: Address = serde_json::from_value(receipts[0]["contractAddress"].clone()).expect("a contract");
    for nonce in 0..BLOCKS - 1 {
        let call = match nonce % 2 {
            0 => Call::to(1, nonce, contract, 0),
            _ => Call::to(1, nonce, address(20 + nonce), 5),
        };
        receipts.push(client.include(&signed(2, &call, vec![])));
    }
    node.stop();
    // Answers from a start of its own: nothing is in memory only.
    let node = Node::start(&settings(folder, Production::Off)).expect("a node");
    let mut extra: Vec<Value> = [json!({ "fromBlock": "0x0" }), json!({ "fromBlock": "0x0", "address": contract })]
        .map(|filter| json!(["eth_getLogs", [filter]]))
        .into();
    for account in (0..20 + BLOCKS).map(address).chain([contract, Address::repeat_byte(0xfe)]) {
        extra.extend(of_account(account));
    }
    extra.push(json!(["eth_getStorageAt", [contract, "0x0", "latest"]]));
    extra.push(json!(["eth_call", [{ "to": contract }, "latest"]]));
    extra.push(json!(["phalanx_getProof", [contract, ["0x0"], "latest"]]));
    questions(node, receipts.iter().map(|receipt| &receipt["transactionHash"]), extra)
}

/// Questions for the state of an account.
fn of_account(account: Address) -> impl Iterator<Item = Value> {
    let methods = ["eth_getBalance", "eth_getTransactionCount", "eth_getCode"];
    methods.into_iter().map(move |method| json!([method, [account, "latest"]]))
}

/// Questions for all blocks, these transactions and more, with the answers of a node, which ends then.
fn questions<'a>(node: Node, txs: impl Iterator<Item = &'a Value>, more: Vec<Value>) -> Vec<(Value, Value)> {
    let client = Client::new(node.address());
    let mut questions = vec![json!(["eth_blockNumber", []]), json!(["eth_chainId", []])];
    for height in 0..=node.height() {
        let name = format!("{height:#x}");
        questions.push(json!(["eth_getBlockByNumber", [name, true]]));
        questions.push(json!(["eth_getBlockReceipts", [name]]));
        let hash = &client.get("eth_getBlockByNumber", json!([name, false]))["hash"];
        questions.push(json!(["eth_getBlockByHash", [hash, false]]));
    }
    for hash in txs {
        questions.push(json!(["eth_getTransactionByHash", [hash]]));
        questions.push(json!(["eth_getTransactionReceipt", [hash]]));
    }
    questions.extend(more);
    let answers = ask(&client, &questions);
    assert!(answers.iter().all(|answer| answer["error"].is_null()), "{answers:?}");
    node.stop();
    questions.into_iter().zip(answers).collect()
}

/// Answers to all questions, in one request.
fn ask(client: &Client, questions: &[Value]) -> Vec<Value> {
    let calls: Vec<Value> = (0..)
        .zip(questions)
        .map(|(id, question): (u64, &Value)| {
            json!({ "jsonrpc": "2.0", "id": id, "method": question[0], "params": question[1] })
        })
        .collect();
    let (status, body) = client.post(json!(calls).to_string().as_bytes()).expect("an answer");
    assert_eq!(status, 200, "{body}");
    let mut answers: Vec<Value> = serde_json::from_str(&body).expect("JSON");
    answers.sort_by_key(|answer| answer["id"].as_u64());
    answers
}

/// Every file of a folder, and of those inside it, by its path from there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(folder.join(&inside)).into_iter().flatten().flatten() {
            let path = inside.join(entry.file_name());
            if entry.path().is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// Consequence of a flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// Every answer is right.
    Right,
    /// The node does not start, and names the file.
    Refused,
    /// Some answers are errors that name the file.
    Named,
}

/// Compares the answers of a node that may have started. Errors have to name the file.
fn look(node: Result<Node, NodeError>, name: &str, right: &[(Value, Value)]) -> Result<Seen, String> {
    let node = match node {
        Ok(node) => node,
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = error.source();
            while let Some(why) = cause {
                text += &format!(": {why}");
                cause = why.source();
            }
            return if text.contains(name) { Ok(Seen::Refused) } else { Err(format!("the start fails with {text}")) };
        }
    };
    let questions: Vec<Value> = right.iter().map(|(question, _)| question.clone()).collect();
    let answers = ask(&Client::new(node.address()), &questions);
    let mut seen = Seen::Right;
    for ((question, right), answer) in right.iter().zip(&answers) {
        match &answer["error"] {
            Value::Null if answer["result"] == right["result"] => {}
            Value::Null => return Err(format!("{question}: {}", answer["result"])),
            error if error.to_string().contains(name) => seen = Seen::Named,
            error => return Err(format!("{question}: {error}")),
        }
    }
    node.stop();
    Ok(seen)
}

/// Flips bits of a sound folder's files, one at a time, each in a copy on which `start` starts a node. `PHALANX_FLIPS` sets their
/// number, `PHALANX_SEED` the first of the random ones.
fn flip(sound: &Path, hurt: &Path, right: &[(Value, Value)], start: impl Fn() -> Result<Node, NodeError>) {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (flips, seed) = (number("PHALANX_FLIPS", 48), number("PHALANX_SEED", 1));
    println!("{flips} flips, PHALANX_SEED={seed}");
    let image: Vec<(PathBuf, Vec<u8>)> =
        files(sound).into_iter().map(|path| (path.clone(), fs::read(sound.join(&path)).expect("a file"))).collect();
    let contents: Vec<&(PathBuf, Vec<u8>)> = image.iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let (mut counts, mut faults) = (BTreeMap::<(String, Seen), u64>::new(), Vec::new());
    for flip in 0..flips {
        // Files in turns, however long they are; pages that were never written are rare among the bytes.
        let (path, bytes) = contents[flip as usize % contents.len()];
        let mut at = rng.random_range(0..bytes.len());
        if rng.random_ratio(7, 8) {
            at = (at..bytes.len()).find(|at| bytes[*at] != 0).unwrap_or(at);
        }
        let bit = rng.random_range(0..8);
        // In place: a replica notices files that are copies.
        let known = |path: &PathBuf| image.iter().any(|(known, _)| known == path);
        for left in files(hurt).iter().filter(|path| !known(path)) {
            fs::remove_file(hurt.join(left)).expect("removed");
        }
        for (path, bytes) in &image {
            fs::create_dir_all(hurt.join(path).parent().expect("a folder")).expect("made");
            fs::write(hurt.join(path), bytes).expect("written");
        }
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        fs::write(hurt.join(path), flipped).expect("written");
        // At the top of the folder files have words as names: errors have their paths.
        let name = match path.parent() {
            Some(inside) if !inside.as_os_str().is_empty() => {
                path.file_name().expect("a name").to_string_lossy().into_owned()
            }
            _ => hurt.join(path).display().to_string(),
        };
        let seen = look(start(), &name, right).and_then(|seen| {
            // A replica was stopped in order, so that nothing in its log is torn: what is cut off are votes.
            let is_cut = |path: &PathBuf| {
                path.to_string_lossy().starts_with("log.") && path.to_string_lossy().ends_with(".torn")
            };
            match files(hurt).into_iter().find(is_cut) {
                Some(cut) => Err(format!("{} was cut off", cut.display())),
                None => Ok(seen),
            }
        });
        match seen {
            Ok(seen) => *counts.entry((path.display().to_string(), seen)).or_default() += 1,
            Err(why) => faults.push(format!("flip {flip}, bit {bit} of byte {at} of {}: {why}", path.display())),
        }
        if (flip + 1) % 1_000 == 0 {
            println!("{} flips, {} faults", flip + 1, faults.len());
        }
    }
    counts.iter().for_each(|((path, seen), count)| println!("{path} {seen:?}: {count}"));
    assert!(faults.is_empty(), "PHALANX_SEED={seed}: {} of {flips}\n{}", faults.len(), faults.join("\n"));
}

fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

#[test]
fn a_flipped_bit_of_any_file_changes_no_answer() {
    let home = in_memory();
    let (sound, hurt) = (home.path().join("sound"), home.path().join("hurt"));
    let right = fill(&sound);
    flip(&sound, &hurt, &right, || Node::start(&settings(&hurt, Production::Off)));
}

/// Flips bits of the folder of one replica: its log, its place in the order, and its node's files.
fn of_a_replica(protocol: ProtocolName) {
    let mut net = Net::with(protocol, |network| (network.interval, network.retention) = (4, 4));
    let sent: Vec<Value> = (0..12).map(|nonce| json!(net.client(0).send(&payment(0, nonce)))).collect();
    sent.iter().for_each(|hash| _ = net.included(serde_json::from_value(hash.clone()).expect("a hash")));
    net.nodes.iter_mut().for_each(|node| node.take().expect("it runs").stop());
    let home = in_memory();
    let (sound, hurt) = (home.path().join("sound"), net.network.replicas[0].dir.clone());
    // Alone it decides nothing: its blocks stay the same.
    let start = || net.begin(0, net.network.clone(), Beginning::Usual);
    let right = questions(start().expect("a node"), sent.iter(), (0..3).flat_map(|n| of_account(address(n))).collect());
    for path in files(&hurt) {
        fs::create_dir_all(sound.join(&path).parent().expect("a folder")).expect("made");
        fs::copy(hurt.join(&path), sound.join(&path)).expect("copied");
    }
    flip(&sound, &hurt, &right, start);
}

#[test]
fn a_flipped_bit_of_a_replicas_folder_changes_no_answer_with_pbft() {
    of_a_replica(ProtocolName::Pbft);
}

#[test]
fn a_flipped_bit_of_a_replicas_folder_changes_no_answer_with_sbft() {
    of_a_replica(ProtocolName::Sbft);
}

#[test]
fn a_flipped_bit_of_a_replicas_folder_changes_no_answer_with_autobahn() {
    of_a_replica(ProtocolName::Autobahn);
}
