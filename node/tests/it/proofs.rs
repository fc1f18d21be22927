//! `eth_getProof` on a chain with Ethereum's root, by alloy's verifier, at every height that can be read; and the refusals of the other
//! kind of proof.

use crate::{
    answers::build,
    kit::{Client, address, config, genesis, instant},
};
use alloy_consensus::proofs::{state_root_unhashed, storage_root_unhashed};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use alloy_trie::{Nibbles, TrieAccount, proof::verify_proof};
use phalanx::{RootKind, alloy::genesis::Genesis};
use phalanx_node::{Node, NodeConfig, Production, set_root};
use serde_json::{Value, json};
use std::path::Path;

fn with_ethereums_root(folder: &Path) -> NodeConfig {
    let mut config = config(folder, Production::Instant);
    set_root(&mut config.genesis, RootKind::Ethereum);
    config
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("a value of its type")
}

/// Root of a genesis, by another implementation.
fn root_of(genesis: &Genesis) -> B256 {
    state_root_unhashed(genesis.alloc.iter().map(|(address, account)| {
        let storage =
            storage_root_unhashed(account.storage.iter().flatten().map(|(slot, word)| (*slot, (*word).into())));
        let code = account.code.as_ref().map_or(KECCAK256_EMPTY, keccak256);
        (*address, TrieAccount::new(account.nonce.unwrap_or_default(), account.balance, storage, code))
    }))
}

/// Compares a proof with the other answers of the height, and verifies it under the root of the header.
fn verify(client: &Client, height: &str, address: Address, slots: &[Value]) -> Value {
    let proof = client.get("eth_getProof", json!([address, slots, height]));
    let root: B256 = read(&client.get("eth_getBlockByNumber", json!([height, false]))["stateRoot"]);
    let [nonce, balance]: [U256; 2] = [read(&proof["nonce"]), read(&proof["balance"])];
    assert_eq!(nonce, read::<U256>(&client.get("eth_getTransactionCount", json!([address, height]))));
    assert_eq!(balance, read::<U256>(&client.get("eth_getBalance", json!([address, height]))));
    let code: Bytes = read(&client.get("eth_getCode", json!([address, height])));
    let (code_hash, storage_root): (B256, B256) = (read(&proof["codeHash"]), read(&proof["storageHash"]));
    assert_eq!(code_hash, keccak256(&code));
    let account = TrieAccount::new(nonce.to(), balance, storage_root, code_hash);
    let value = (account != TrieAccount::default()).then(|| alloy_rlp::encode(account));
    let nodes: Vec<Bytes> = read(&proof["accountProof"]);
    verify_proof(root, Nibbles::unpack(keccak256(address)), value, &nodes).expect("the account's proof");
    let proven = proof["storageProof"].as_array().expect("an array");
    assert_eq!(proven.len(), slots.len());
    for (slot, proven) in slots.iter().zip(proven) {
        assert_eq!(proven["key"], *slot);
        let key: U256 = read(slot);
        let word: U256 = read(&client.get("eth_getStorageAt", json!([address, slot, height])));
        assert_eq!(word, read::<U256>(&proven["value"]));
        let nodes: Vec<Bytes> = read(&proven["proof"]);
        let value = (!word.is_zero()).then(|| alloy_rlp::encode(word));
        verify_proof(storage_root, Nibbles::unpack(keccak256(B256::from(key))), value, &nodes)
            .expect("the slot's proof");
    }
    proof
}

/// Proofs of accounts and slots, present and absent, at every height.
fn all(client: &Client, heights: u64, counter: Address) -> Vec<Value> {
    let ring = "0x0000F90827F1C53a10cb7A02335B175320002935".parse().expect("an address");
    let accounts = [counter, address(1), address(7), ring, Address::repeat_byte(0x99)];
    let slots = [json!("0x0"), json!("0x2"), json!(B256::with_last_byte(1))];
    let heights = (0..=heights).map(|height| format!("{height:#x}"));
    heights.flat_map(|height| accounts.map(|account| verify(client, &height, account, &slots))).collect()
}

#[test]
fn proofs_of_every_height_are_ethereums_before_and_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = with_ethereums_root(folder.path());
    let node = Node::start(&config).expect("a node");
    let client = Client::new(node.address());
    let first: B256 = read(&client.get("eth_getBlockByNumber", json!(["0x0", false]))["stateRoot"]);
    assert_eq!(first, root_of(&config.genesis));
    let counter = build(&client);
    let height = node.height();
    let proofs = all(&client, height, counter);
    assert_eq!(
        client.get("eth_getProof", json!([counter, ["0x0"], "latest"])),
        verify(&client, "latest", counter, &[json!("0x0")])
    );
    for wrong in [json!([counter]), json!([counter, "0x0", "latest"]), json!([counter, ["0xzz"], "latest"])] {
        assert_eq!(client.error("eth_getProof", wrong.clone()).0, -32602, "{wrong}");
    }
    let many = vec!["0x0"; 1025];
    assert!(client.error("eth_getProof", json!([counter, many, "latest"])).1.contains("too many keys"));
    assert!(client.error("phalanx_getProof", json!([counter, [], "latest"])).1.contains("eth_getProof"));
    node.stop();

    let node = Node::start(&config).expect("the chain goes on");
    let client = Client::new(node.address());
    assert_eq!(all(&client, height, counter), proofs);
    node.stop();

    let mut other = config;
    other.genesis = genesis();
    let error = Node::start(&other).expect_err("the chain has the other root").to_string();
    assert!(error.contains("the store holds"), "{error}");
}

#[test]
fn a_chain_of_twigs_says_where_its_proofs_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let (_, words) = client.error("eth_getProof", json!([address(1), [], "latest"]));
    assert!(words.contains("phalanx_getProof"), "{words}");
    node.stop();
}
