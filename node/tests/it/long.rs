//! A node that runs for long: its memory does not grow with the chain.

use crate::kit::{Call, Client, address, config, signed};
use phalanx_node::{Durability, Node, Production};
use serde_json::json;
use std::time::Duration;

/// Growth of the second half of a run that is no leak: caches of the index and of the allocator, in KiB.
const CACHES: u64 = 48 << 10;

/// Resident memory of this process, in KiB.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn memory_is_flat_over_many_blocks() {
    let Some(blocks) = std::env::var("PHALANX_BLOCKS").ok().and_then(|blocks| blocks.parse::<u64>().ok()) else {
        println!("skipped: PHALANX_BLOCKS is no number of blocks; the test needs the process to itself");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = config(folder.path(), Production::Every(Duration::from_millis(1)));
    settings.durability = Durability::Async;
    settings.segment_bytes = 16 << 20;
    settings.keep_blocks = Some(10_000);
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    let (mut nonce, mut samples) = (0, Vec::new());
    while node.height() < blocks {
        // Some blocks have transactions, a call and a log query read beside them, and accounts are used again.
        let tx = signed(2, &Call::to(nonce % 16, nonce / 16, address(100 + nonce % 64), 1), vec![]);
        client.send(&tx);
        nonce += 1;
        client.get("eth_getBlockByNumber", json!(["latest", true]));
        client.get("eth_getLogs", json!([{ "fromBlock": "latest" }]));
        if node.height() * 10 >= (samples.len() as u64 + 1) * blocks {
            samples.extend(resident());
            println!(
                "block {}: {} KiB, {nonce} transactions",
                node.height(),
                samples.last().copied().unwrap_or_default()
            );
        }
        // Some blocks later: each request is a connection, and the system has so many ports.
        let next = node.height() + 10;
        while node.height() < next.min(blocks) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    node.stop();
    // No figure, no statement: the file is Linux's.
    if let (Some(half), Some(last)) = (samples.get(samples.len() / 2), samples.last()) {
        assert!(last.saturating_sub(*half) < CACHES, "{half} KiB after half of {blocks} blocks, {last} KiB at the end");
    }
}
