//! `kill -9` while blocks are made: every visible block has its body and its receipts, every receipt that a client has got is there,
//! and the chain goes on.

use crate::kit::{CHAIN, Call, Client, address, config, genesis, signed};
use alloy_primitives::B256;
use phalanx::chain_digest;
use phalanx_node::{
    Node, Production,
    store::{BlockStore, Identity, Options},
};
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Folder of the node, in the environment of a process that is to be killed.
const FOLDER: &str = "PHALANX_KILLED_NODE";

/// Milliseconds between its blocks, in the same; without them a block is made for every transaction.
const PERIOD: &str = "PHALANX_KILLED_NODE_PERIOD";

/// Number of kills after which the receipts of all blocks are read, those of older blocks included.
const ALL: u64 = 50;

/// Number of accounts that send at the same time.
const SENDERS: u64 = 4;

/// File beside the folder of the node, with the hash of every transaction whose receipt a client has got: 32 bytes each.
const SHOWN: &str = "shown";

/// Path of [`SHOWN`].
fn shown(folder: &Path) -> PathBuf {
    folder.with_extension(SHOWN)
}

/// Sends transactions to a node that makes blocks without end.
fn run(folder: &Path) {
    // Blocks that are due before those before them are written are built meanwhile.
    let period = std::env::var(PERIOD).ok().and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    let mut settings = config(folder, period.map_or(Production::Instant, Production::Every));
    // Segments of a few blocks, so that kills meet their ends.
    settings.segment_bytes = 8_000;
    let node = Node::start(&settings).expect("a node");
    let send = |from: u64| {
        let client = Client::new(node.address());
        let mut shown = File::options().append(true).create(true).open(shown(folder)).expect("a file");
        let mut nonce = nonce_of(&client, from);
        loop {
            let tx = signed(2, &Call::to(from, nonce, address(SENDERS), 1), vec![]);
            if from.is_multiple_of(2) {
                client.send(&tx);
            } else {
                let receipt = client.get("eth_sendRawTransactionSync", json!([tx]));
                let hash: B256 = serde_json::from_value(receipt["transactionHash"].clone()).expect("a hash");
                // A write of this process is in the kernel, whatever becomes of the process.
                shown.write_all(hash.as_slice()).expect("written");
            }
            nonce += 1;
            if nonce.is_multiple_of(7) {
                std::thread::sleep(Duration::from_millis(3));
            }
        }
    };
    std::thread::scope(|scope| (0..SENDERS).for_each(|from| _ = scope.spawn(move || send(from))));
}

/// Number of transactions that a sender has in visible blocks.
fn nonce_of(client: &Client, from: u64) -> u64 {
    u64::try_from(client.quantity("eth_getTransactionCount", json!([address(from)]))).expect("a nonce")
}

/// Size of all segments, in bytes.
fn size(folder: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(folder.join("blocks")) else { return 0 };
    let files = files.flatten().filter(|file| file.path().extension().is_some_and(|end| end == "blocks"));
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Waits until a process has made some blocks.
fn wait_for_blocks(folder: &Path) {
    let (before, begun) = (size(folder), Instant::now());
    while size(folder) < before + 3_000 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn kills_lose_no_visible_block_and_no_receipt() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return run(Path::new(&folder));
    }
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (kills, seed) = (number("PHALANX_KILLS", 5), number("PHALANX_SEED", 7));
    println!("{kills} kills, PHALANX_SEED={seed}");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("node");
    let (mut last, mut known, mut sent, mut receipts_shown) = (0, 0, 0, 0);
    for kill in 0..kills {
        let program = std::env::current_exe().expect("a path");
        let mut child = Command::new(program)
            .args(["--exact", "kills::kills_lose_no_visible_block_and_no_receipt"])
            .env(FOLDER, &folder)
            .envs((kill % 2 == 1).then_some((PERIOD, "1")))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        // Most kills meet blocks, some the start.
        if kill % 4 != 3 {
            wait_for_blocks(&folder);
        }
        std::thread::sleep(Duration::from_millis(rng.random_range(0..300)));
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        // The node finds its own state and blocks in agreement, or does not start.
        let mut settings = config(&folder, Production::Off);
        settings.segment_bytes = 8_000;
        let node = Node::start(&settings).unwrap_or_else(|error| panic!("PHALANX_SEED={seed}, kill {kill}: {error}"));
        let client = Client::new(node.address());
        let height = node.height();
        assert!(height >= last, "PHALANX_SEED={seed}, kill {kill}: {height} after {last}");
        // Those that were there before are read again from time to time, and at the end: a kill cannot reach them alone.
        if kill % ALL == 0 || kill + 1 == kills {
            (known, sent) = (0, 0);
        }
        for at in known + 1..=height {
            let receipts = client.get("eth_getBlockReceipts", json!([format!("{at:#x}")]));
            let receipts = receipts.as_array().expect("receipts");
            sent += receipts.len() as u64;
        }
        known = height;
        let hashes = std::fs::read(shown(&folder)).unwrap_or_default();
        for hash in hashes.as_chunks::<32>().0.iter().skip(receipts_shown).map(B256::from) {
            let receipt = client.get("eth_getTransactionReceipt", json!([hash]));
            assert!(
                !receipt.is_null(),
                "PHALANX_SEED={seed}, kill {kill}: the receipt of {hash} was shown, and is lost"
            );
            receipts_shown += 1;
        }
        let nonces: u64 = (0..SENDERS).map(|from| nonce_of(&client, from)).sum();
        assert_eq!(sent, nonces, "PHALANX_SEED={seed}, kill {kill}: a receipt for every executed transaction");
        node.stop();
        let identity = Identity { chain: CHAIN, genesis: chain_digest(&genesis()).expect("a chain") };
        let (store, cuts) =
            BlockStore::open(&folder.join("blocks"), identity, Options::default(), Some(height)).expect("sound");
        assert!(cuts.is_empty(), "the node has cut off what was not committed");
        assert_eq!(store.verify().expect("sound"), height + 1);
        last = height;
        if (kill + 1) % ALL == 0 {
            println!("{} kills: {height} blocks, {sent} transactions", kill + 1);
        }
    }
    println!("{last} blocks and {receipts_shown} receipts after {kills} kills");
    assert!(kills < 2 || receipts_shown > 0, "some receipts were shown");
    assert!(last > 0, "some blocks were committed");
}
