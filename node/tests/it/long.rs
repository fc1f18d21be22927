//! A node that runs for long: its memory does not grow with the chain, and it prunes the log of its state.
//!
//! The node has a process of its own, so that other tests do not count. Every round puts long transactions into a block, and blocks
//! without any follow. `PHALANX_BLOCKS=100000` is the long run.

#![cfg(target_os = "linux")]

use crate::kit::{Call, Client, address, config, signed};
use phalanx_node::{Durability, Node, Production};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    process::Command,
    time::{Duration, Instant},
};

/// Growth of the second half of a run that is no leak: caches of the index and of the allocator, in KiB.
const CACHES: u64 = 48 << 10;

/// Number of rounds, whatever the number of blocks.
const ROUNDS: u64 = 2_000;

/// Transactions of a round.
const TXS: u64 = 4;

/// Data of a transaction, in bytes. Were the bodies of the second half's blocks kept, memory would grow by twice [`CACHES`].
const DATA: usize = 2 * 2 * (CACHES as usize * 1024) / (ROUNDS * TXS) as usize;

/// Number of blocks, in the environment of the process that is measured.
const CHILD: &str = "PHALANX_LONG_NODE";

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.split_whitespace().next().and_then(|size| size.parse().ok()).expect("a number")
}

/// Makes blocks, and gives the memory after each tenth of them.
fn run(blocks: u64) -> Vec<u64> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = config(folder.path(), Production::Every(Duration::from_millis(1)));
    settings.durability = Durability::Async;
    settings.segment_bytes = 4 << 20;
    settings.keep_blocks = Some(blocks / 10);
    settings.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    // Caches that are full by half of the run.
    settings.recovered_bytes = 16 << 20;
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    let (mut nonce, mut samples, begun) = (0, Vec::new(), Instant::now());
    for round in 1..=ROUNDS {
        // One connection for all of it: the system has so many ports. Accounts are used again.
        let mut calls: Vec<Value> = Vec::new();
        for _ in 0..TXS {
            let call = Call::to(nonce % 16, nonce / 16, address(100 + nonce % 64), 1).with_data(vec![0; DATA]);
            calls.push(json!({ "method": "eth_sendRawTransaction", "params": [signed(2, &call, vec![])] }));
            nonce += 1;
        }
        calls.push(json!({ "method": "eth_getBlockByNumber", "params": ["latest", true] }));
        calls.push(json!({ "method": "eth_getLogs", "params": [{ "fromBlock": "latest" }] }));
        for (id, call) in calls.iter_mut().enumerate() {
            (call["jsonrpc"], call["id"]) = (json!("2.0"), json!(id));
        }
        let (_, answer) = client.post(json!(calls).to_string().as_bytes()).expect("an answer");
        let answers: Vec<Value> = serde_json::from_str(&answer).expect("JSON");
        assert!(answers.iter().all(|answer| answer["error"].is_null()), "{answer}");
        while node.height() < round * blocks / ROUNDS {
            std::thread::sleep(Duration::from_micros(200));
        }
        if round.is_multiple_of(ROUNDS / 10) {
            samples.push(resident());
            let (height, memory, seconds) = (node.height(), resident(), begun.elapsed().as_secs());
            println!("block {height}: {memory} KiB, {nonce} transactions, {seconds} s");
        }
    }
    let sent = client.quantity("eth_getTransactionCount", json!([address(0), "pending"]));
    assert_eq!(u128::from(nonce), 16 * sent, "every transaction was taken");
    let (_, page) = Client::new(node.metrics_address().expect("metrics")).page("/metrics");
    let pruned = page.lines().find_map(|line| line.strip_prefix("phalanx_store_pruned_blocks_total "));
    let pruned: f64 = pruned.and_then(|count| count.parse().ok()).expect("a count");
    assert!(pruned > blocks as f64 / 2.0, "{pruned} of {blocks} blocks are pruned");
    node.stop();
    samples
}

#[test]
fn memory_is_flat_over_many_blocks() {
    if let Some(blocks) = std::env::var(CHILD).ok().and_then(|blocks| blocks.parse().ok()) {
        let samples = run(blocks);
        let (half, last) = (samples[samples.len() / 2 - 1], samples[samples.len() - 1]);
        assert!(last.saturating_sub(half) < CACHES, "{half} KiB after half of {blocks} blocks, {last} KiB at the end");
        return;
    }
    let blocks = std::env::var("PHALANX_BLOCKS").unwrap_or_else(|_| "4000".into());
    let child = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "long::memory_is_flat_over_many_blocks", "--nocapture"])
        .env(CHILD, &blocks)
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&child.stdout);
    println!("{said}");
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    assert_eq!(said.matches("block ").count(), 10, "it has run: {said}");
}
