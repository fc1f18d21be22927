//! `kill -9` at random moments: the store reopens at a committed block with the oracle's root, and continues from it.
//!
//! Ten moments per store and durability; `PHALANX_KILLS=50` is the long run.

use crate::{
    command::{phalanx, run},
    reference::{Load, store},
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{fs, path::Path, process::Stdio, time::Duration};

fn kills() -> u32 {
    match std::env::var("PHALANX_KILLS") {
        Ok(count) => count.parse().expect("PHALANX_KILLS is a number"),
        Err(_) => 10,
    }
}

/// Bytes under `path`, as visible during concurrent writes.
fn size_of(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}

fn survives(kind: &str, durability: &str, load: Load) {
    let reference = load.reference();
    let dir = tempfile::tempdir().expect("a folder");
    let bench = |name: &str| {
        format!("bench run {} --oracle off --durability {durability} --store {kind}:{name} --json -", load.flags())
    };

    let whole = dir.path().join("whole");
    let result = run(&bench(&whole.display().to_string())).json();
    let info = run(&format!("state info --db {kind}:{} --json", whole.display())).json();
    assert_eq!(reference.holds(&info), Some(reference.tip()));
    let full = result["runs"][0]["resources"]["db_bytes"].as_u64().expect("a size").max(1);

    // The moment depends on the written bytes, so that slow and fast machines see the same spread, plus a short random delay.
    let seed = rand::rng().random();
    println!("{kind} {durability}: random moments from seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut heights = Vec::new();
    for kill in 0..kills() {
        let path = dir.path().join(kill.to_string());
        let (written, later) = (random.random_range(0..full), Duration::from_micros(random.random_range(0..2_000)));
        let mut command = phalanx(bench(&path.display().to_string()).split_whitespace());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
        while size_of(&path) < written && child.try_wait().expect("a child").is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(later);
        child.kill().expect("a child");
        child.wait().expect("a child");

        let ended = run(&format!("state info --db {kind}:{} --json", path.display()));
        if !path.exists() {
            ended.refused(2, "no such directory");
            heights.push(None);
            continue;
        }
        match ended.code {
            // The store was being created.
            Some(2) => {
                ended.refused(2, "there is no store");
                heights.push(None);
            }
            _ => heights.push(reference.holds(&ended.json())),
        }
        reference.remembers(store(kind, &path));
        reference.finish(store(kind, &path));
        // Stores are removed to save disk space.
        fs::remove_dir_all(&path).expect("a folder");
    }
    println!("{kind} {durability}: reopened at {heights:?} of {}", reference.tip());
    let between = heights.iter().flatten().filter(|height| (1..reference.tip()).contains(height)).count();
    assert!(between > 0, "no kill struck between two blocks: {heights:?}");
}

/// Many small blocks; fewer where each waits for the disk.
const ASYNC: Load = Load { accounts: 300, txs: 30_000, block_txs: 50, seed: 1 };
const BLOCK: Load = Load { accounts: 300, txs: 6_000, block_txs: 50, seed: 2 };

#[test]
fn a_file_with_async_durability() {
    survives("file", "async", ASYNC);
}

#[test]
fn a_file_with_block_durability() {
    survives("file", "block", BLOCK);
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_with_async_durability() {
    survives("rocks", "async", ASYNC);
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_with_block_durability() {
    survives("rocks", "block", BLOCK);
}
