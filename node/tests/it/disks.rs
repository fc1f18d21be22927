//! A disk that gets full while blocks are made: the node says so, loses nothing, and goes on once there is room.

use crate::kit::{Call, Client, PATIENCE, address, config, signed};
use alloy_primitives::{B256, Bytes};
use phalanx_node::{Node, Production};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// Folder of a small disk, in the environment of the process that works on it.
const DISK: &str = "PHALANX_SMALL_DISK";

/// Exit code of a system that lets no test mount a disk.
const UNMOUNTED: i32 = 99;

/// Free bytes below which no block is begun, as the service has them.
const RESERVE: u64 = 64 << 20;

fn free(folder: &Path) -> u64 {
    let disk = rustix::fs::statvfs(folder).expect("a disk");
    disk.f_bavail * disk.f_frsize
}

/// Fills the disk until so many bytes are free.
fn fill(ballast: &Path, left: u64) {
    let mut file = File::options().append(true).create(true).open(ballast).expect("a file");
    let folder = ballast.parent().expect("a folder");
    while free(folder) > left {
        let bytes = (free(folder) - left).min(1 << 20) as usize;
        if file.write_all(&vec![7; bytes]).is_err() {
            return;
        }
    }
}

fn wait(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn receipts(client: &Client, hashes: &[B256]) -> Vec<Value> {
    hashes.iter().map(|hash| client.get("eth_getTransactionReceipt", json!([hash]))).collect()
}

fn transfer(nonce: u64) -> Bytes {
    signed(2, &Call::to(1, nonce, address(2), 5), vec![])
}

/// Runs on a disk of its own.
fn run(disk: &Path) {
    let mut settings = config(&disk.join("node"), Production::Every(Duration::from_millis(5)));
    settings.metrics = Some(([127, 0, 0, 1], 0).into());
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    let pages = Client::new(node.metrics_address().expect("asked for"));
    let missed = || {
        let page = pages.page("/metrics").1;
        let line = page.lines().find(|line| line.starts_with("phalanx_producer_missed_blocks_total "));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).expect("a counter")
    };
    let mut sent: Vec<B256> = (0..50).map(|nonce| client.send(&transfer(nonce))).collect();
    wait("the first blocks", || receipts(&client, &sent).iter().all(|receipt| !receipt.is_null()));
    assert_eq!(missed(), 0.0);
    let ballast: PathBuf = disk.join("ballast");
    // Transactions come while the disk gets full.
    std::thread::scope(|scope| {
        scope.spawn(|| fill(&ballast, RESERVE / 2));
        sent.extend((50..250).map(|nonce| client.send(&transfer(nonce))));
    });
    // Blocks are made as long as they have room: the next one has none.
    sent.push(client.send(&transfer(250)));
    wait("no try fails", || missed() >= 1.0);
    let (status, page) = pages.page("/health");
    assert!(status == 503 && page.contains("free bytes, and blocks need"), "{status} {page}");
    let (shown, height) = (receipts(&client, &sent), node.height());
    assert!(shown[..50].iter().all(|receipt| !receipt.is_null()) && shown[250].is_null(), "the last one waits");
    fill(&ballast, 0);
    sent.extend((251..260).map(|nonce| client.send(&transfer(nonce))));
    let before = missed();
    wait("it is not tried again", || missed() > before);
    assert_eq!(node.height(), height);
    for (receipt, hash) in shown.iter().zip(&sent).filter(|(receipt, _)| !receipt.is_null()) {
        assert_eq!(&client.get("eth_getTransactionReceipt", json!([hash])), receipt, "what was shown stays");
    }
    fs::remove_file(&ballast).expect("it is there");
    wait("blocks go on", || receipts(&client, &sent).iter().all(|receipt| !receipt.is_null()));
    assert_eq!(pages.page("/health").0, 200);
    let all = receipts(&client, &sent);
    assert!(all.iter().zip(&shown).all(|(now, before)| before.is_null() || now == before));
    node.stop();
    let node = Node::start(&settings).expect("it starts again");
    assert_eq!(receipts(&Client::new(node.address()), &sent), all);
    node.stop();
}

#[test]
fn a_full_disk_stops_blocks_until_there_is_room_and_loses_nothing() {
    if let Ok(disk) = std::env::var(DISK) {
        return run(Path::new(&disk));
    }
    let disk = tempfile::tempdir().expect("a folder");
    // The disk is mounted in a name space of its own, so that nothing stays mounted after the test.
    let script = format!("mount -t tmpfs -o size=400m none \"$D\" || exit {UNMOUNTED}; exec \"$T\" --exact \"$N\"");
    let ended = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .env("D", disk.path())
        .env(DISK, disk.path())
        .env("T", std::env::current_exe().expect("a path"))
        .env("N", "disks::a_full_disk_stops_blocks_until_there_is_room_and_loses_nothing")
        .output();
    let Ok(ended) = ended.map_err(|error| println!("skipped: there is no unshare: {error}")) else { return };
    let text = [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    if ended.status.code() == Some(UNMOUNTED) || text.contains("unshare failed") {
        println!("skipped: this system does not let a test mount a tmpfs: {text}");
        return;
    }
    assert!(ended.status.success() && text.contains("1 passed"), "{text}");
}
