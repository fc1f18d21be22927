//! The block store against every cut and every flipped bit, and against a loss of its index.

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, Log, LogData, keccak256};
use phalanx_node::store::{Block, BlockStore, Entry, Head, Identity, Key, Options, Skipped, StoreError};
use rand::{Rng as _, SeedableRng as _};
use std::{
    fs,
    path::{Path, PathBuf},
};

const IDENTITY: Identity = Identity { chain: 7, genesis: B256::repeat_byte(3) };

/// Segments of a few blocks.
const SMALL: Options = Options { segment_bytes: 4_000, durable: false, keep: None };

/// A folder in memory where the system has one: these tests are about bytes, and sync often.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

fn block(height: u64, rng: &mut impl rand::Rng) -> Block {
    let name = |part: u64| keccak256([height, part].map(u64::to_be_bytes).as_flattened());
    let header = Header { number: height, timestamp: 10 * height, state_root: name(1), ..Header::default() };
    let mut entries = Vec::new();
    let (mut cumulative_gas, mut first_log) = (0, 0);
    for place in 0..rng.random_range(0..4) {
        let logs: Vec<Log> = (0..rng.random_range(0..3))
            .map(|log| Log {
                address: Address::with_last_byte((height % 3) as u8),
                data: LogData::new_unchecked(vec![B256::with_last_byte(log)], Bytes::from(vec![1; 20])),
            })
            .collect();
        cumulative_gas += 21_000;
        let count = logs.len() as u64;
        entries.push(Entry {
            bytes: Bytes::from(vec![height as u8; rng.random_range(1..90)]),
            hash: name(100 + place),
            sender: Address::with_last_byte(place as u8),
            succeeded: place % 2 == 0,
            gas_used: 21_000,
            cumulative_gas,
            first_log,
            created: if place == 1 { Bytes::from(vec![9; 20]) } else { Bytes::new() },
            logs,
        });
        first_log += count;
    }
    let skipped = vec![Skipped { position: 9, bytes: Bytes::from(vec![1, 2]) }];
    let head = Head {
        hash: name(0),
        exec: name(1),
        header,
        timestamp_ms: height * 10_000 + 5,
        attributes: Bytes::new(),
        access_list: Bytes::from(vec![0xc0]),
        skipped,
    };
    Block { head, entries }
}

fn blocks(count: u64, seed: u64) -> Vec<Block> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|height| block(height, &mut rng)).collect()
}

fn fill(folder: &Path, blocks: &[Block]) -> BlockStore {
    let (store, _) = BlockStore::open(folder, IDENTITY, SMALL, None).expect("an empty store");
    blocks.iter().for_each(|block| store.append(block).expect("appended"));
    store
}

fn open(folder: &Path, committed: Option<u64>) -> Result<(BlockStore, usize), StoreError> {
    let (store, cuts) = BlockStore::open(folder, IDENTITY, SMALL, committed)?;
    Ok((store, cuts.len()))
}

/// All answers of a store equal the blocks.
fn compare(store: &BlockStore, blocks: &[Block]) {
    for block in blocks {
        let height = block.height();
        assert_eq!(store.block(height).expect("sound").as_ref(), Some(block));
        assert_eq!(store.head(height).expect("sound").as_ref(), Some(&block.head));
        assert_eq!(store.height_of(&block.head.hash).expect("sound"), Some(height));
        for (entry, index) in block.entries.iter().zip(0..) {
            assert_eq!(store.place_of(&entry.hash).expect("sound"), Some((height, index)));
            assert_eq!(store.entry(height, index).expect("sound").as_ref(), Some(entry));
        }
        assert_eq!(store.entry(height, block.entries.len() as u32).expect("sound"), None);
    }
    let end = blocks.len() as u64;
    assert_eq!(store.block(end).expect("sound"), None);
    let heights = |wanted: &dyn Fn(&Log) -> bool| -> Vec<u64> {
        let has = |block: &&Block| block.entries.iter().flat_map(|entry| &entry.logs).any(wanted);
        blocks.iter().filter(has).map(Block::height).collect()
    };
    let found = |lists: &[Vec<Key>]| store.heights(lists, 0..=end, usize::MAX).expect("sound");
    assert_eq!(found(&[]), heights(&|_| true));
    let (address, topic) = (Address::with_last_byte(1), B256::with_last_byte(1));
    assert_eq!(found(&[vec![Key::Address(address)]]), heights(&|log| log.address == address));
    assert_eq!(found(&[vec![], vec![Key::Topic(0, topic)]]), heights(&|log| log.topics()[0] == topic));
    assert_eq!(found(&[vec![Key::Topic(1, topic)]]), Vec::<u64>::new());
    assert_eq!(store.verify().expect("sound"), end);
}

/// Segments in order.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "blocks")).collect();
    files.sort();
    files
}

fn copy(from: &Path, to: &Path, with_index: bool) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).expect("a folder");
    for file in fs::read_dir(from).expect("a folder") {
        let path = file.expect("a file").path();
        let is_index = path.extension().is_some_and(|end| end == "redb");
        if with_index || !is_index {
            fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
        }
    }
}

#[test]
fn a_store_answers_as_filled_also_without_its_index() {
    let folder = folder();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let blocks = blocks(60, 1);
    let store = fill(&one, &blocks);
    compare(&store, &blocks);
    assert!(segments(&one).len() > 3);
    let sizes = store.sizes().expect("readable");
    let txs: usize = blocks.iter().map(|block| block.entries.len()).sum();
    assert_eq!((sizes.blocks, sizes.txs), (60, txs as u64));
    assert!(sizes.per_tx() > 100.0, "{sizes:?}");
    drop(store);
    compare(&open(&one, Some(59)).expect("sound").0, &blocks);
    copy(&one, &two, false);
    compare(&open(&two, Some(59)).expect("built anew").0, &blocks);
    fs::write(two.join("index.redb"), b"no database").expect("written");
    compare(&open(&two, Some(59)).expect("built anew").0, &blocks);
    let held = open(&two, Some(59)).expect("sound");
    let refused = open(&two, Some(59)).expect_err("another process, or this one twice");
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
    drop(held);
    compare(&open(&two, Some(59)).expect("sound").0, &blocks);
    let other = Identity { chain: 8, ..IDENTITY };
    let refused = BlockStore::open(&two, other, SMALL, Some(59)).expect_err("another chain");
    assert!(matches!(refused, StoreError::OtherChain { .. }), "{refused}");
}

#[test]
fn blocks_are_replaced_from_a_height_on() {
    let folder = folder();
    let old = blocks(40, 2);
    let store = fill(folder.path(), &old);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
    let mut new = old[..17].to_vec();
    for height in 17..30 {
        let mut next = block(height, &mut rng);
        next.head.hash = keccak256(next.head.hash);
        next.entries.iter_mut().for_each(|entry| entry.hash = keccak256(entry.hash));
        store.append(&next).expect("replaced");
        new.push(next);
    }
    compare(&store, &new);
    assert_eq!(store.height_of(&old[20].head.hash).expect("sound"), None);
    assert!(matches!(store.append(&old[39]), Err(StoreError::Order { .. })));
    store.cut_above(10, &mut Vec::new()).expect("cut");
    compare(&store, &new[..11]);
    drop(store);
    compare(&open(folder.path(), Some(10)).expect("sound").0, &new[..11]);
}

#[test]
fn old_segments_are_pruned_and_the_rest_stays() {
    let folder = folder();
    let blocks = blocks(80, 4);
    drop(fill(folder.path(), &blocks));
    let options = Options { keep: Some(30), ..SMALL };
    let (store, _) = BlockStore::open(folder.path(), IDENTITY, options, Some(79)).expect("sound");
    assert_eq!(store.prune(0).expect("sound"), 0, "all are needed");
    let some = store.prune(20).expect("pruned");
    let first = store.first().expect("sound");
    assert!(some == first && (1..=20).contains(&first), "{first}: from 20 on all are needed");
    let pruned = some + store.prune(u64::MAX).expect("pruned");
    let first = store.first().expect("sound");
    assert!(pruned == first && (1..=50).contains(&first), "{first}");
    assert_eq!(store.block(first - 1).expect("sound"), None);
    assert_eq!(store.height_of(&blocks[3].head.hash).expect("sound"), None);
    for block in &blocks[first as usize..] {
        assert_eq!(store.block(block.height()).expect("sound").as_ref(), Some(block));
    }
    drop(store);
    fs::remove_file(folder.path().join("index.redb")).expect("removed");
    let (store, _) = BlockStore::open(folder.path(), IDENTITY, options, Some(79)).expect("built anew");
    assert_eq!(store.first().expect("sound"), first);
    assert_eq!(store.verify().expect("sound"), 80 - first);
}

#[test]
fn a_torn_end_is_cut_off_and_a_lost_committed_block_is_an_error() {
    let folder = folder();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let blocks = blocks(12, 5);
    drop(fill(&one, &blocks));
    let last = segments(&one).pop().expect("segments");
    let len = fs::metadata(&last).expect("a file").len();
    // Every length of the last segment, with and without the index, whatever is committed.
    let stride = std::env::var("PHALANX_STRIDE").ok().and_then(|stride| stride.parse().ok()).unwrap_or(3);
    for (place, at) in (0..len).step_by(stride).enumerate() {
        let committed = [Some(11), Some(10), Some(5), None][place % 4];
        copy(&one, &two, place % 3 == 0);
        let file =
            fs::OpenOptions::new().write(true).open(two.join(last.file_name().expect("a name"))).expect("a file");
        file.set_len(at).expect("cut");
        drop(file);
        match open(&two, committed) {
            Ok((store, _)) => {
                let held = store.last().map_or(0, |last| last + 1);
                assert!(committed.is_none_or(|committed| held == committed + 1), "cut at {at}, {committed:?}");
                for block in &blocks[..held as usize] {
                    assert_eq!(store.block(block.height()).expect("sound").as_ref(), Some(block), "cut at {at}");
                }
                // The store goes on.
                if let Some(next) = blocks.get(held as usize) {
                    store.append(next).expect("appended");
                    assert_eq!(store.block(held).expect("sound").as_ref(), Some(next));
                }
            }
            Err(StoreError::Damaged { height, .. }) => {
                assert!(committed.is_some_and(|committed| height <= committed), "cut at {at}, {committed:?}: {height}");
            }
            Err(StoreError::Behind { committed: known, .. }) => assert_eq!(Some(known), committed),
            Err(error) => panic!("cut at {at}, {committed:?}: {error}"),
        }
    }
}

#[test]
fn no_flipped_bit_gives_another_answer() {
    let folder = folder();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let blocks = blocks(10, 6);
    drop(fill(&one, &blocks));
    let stride = std::env::var("PHALANX_STRIDE").ok().and_then(|stride| stride.parse().ok()).unwrap_or(11);
    let (mut sound, mut refused) = (0, 0);
    for path in segments(&one) {
        let bytes = fs::read(&path).expect("a segment");
        for at in (0..bytes.len()).step_by(stride) {
            let with_index = at % 2 == 0;
            copy(&one, &two, with_index);
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(two.join(path.file_name().expect("a name")), flipped).expect("written");
            // Committed to the end: nothing may be lost in silence.
            let Ok((store, cuts)) = open(&two, Some(9)) else {
                refused += 1;
                continue;
            };
            assert_eq!((cuts, store.last()), (0, Some(9)), "byte {at} of {}", path.display());
            let mut damaged = 0;
            for block in &blocks {
                match store.block(block.height()) {
                    Ok(read) => assert_eq!(read.as_ref(), Some(block), "byte {at} of {}", path.display()),
                    Err(StoreError::Damaged { .. }) => damaged += 1,
                    Err(error) => panic!("byte {at}: {error}"),
                }
                for (entry, index) in block.entries.iter().zip(0..) {
                    if let Ok(read) = store.entry(block.height(), index) {
                        assert_eq!(read.as_ref(), Some(entry), "byte {at} of {}", path.display());
                    }
                }
            }
            assert!(damaged > 0 && store.verify().is_err(), "byte {at} of {} is covered by nothing", path.display());
            sound += 1;
        }
    }
    println!("{sound} opened and told, {refused} refused");
    assert!(sound > 0 && refused > 0);
}

/// Everything that a store answers about its blocks, or the first error.
fn answers(store: &BlockStore, blocks: &[Block]) -> Result<Vec<String>, StoreError> {
    let mut answers = Vec::new();
    let mut note = |answer: &dyn std::fmt::Debug| answers.push(format!("{answer:?}"));
    for block in blocks {
        note(&store.block(block.height())?.as_ref().map(|read| read == block));
        note(&store.height_of(&block.head.hash)?);
        for entry in &block.entries {
            note(&store.place_of(&entry.hash)?);
        }
    }
    for list in [vec![], vec![Key::Address(Address::with_last_byte(1))], vec![Key::Topic(0, B256::with_last_byte(1))]] {
        note(&store.heights(&[list], 0..=blocks.len() as u64, usize::MAX)?);
    }
    note(&store.sizes()?.txs);
    Ok(answers)
}

#[test]
fn a_flipped_bit_of_the_index_changes_no_answer() {
    let folder = folder();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let blocks = blocks(200, 10);
    let store = fill(&one, &blocks);
    let right = answers(&store, &blocks).expect("sound");
    drop(store);
    let bytes = fs::read(one.join("index.redb")).expect("an index");
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let tries = std::env::var("PHALANX_DAMAGES").ok().and_then(|tries| tries.parse().ok()).unwrap_or(120);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(11);
    let (mut anew, mut refused) = (0, 0);
    for attempt in 0..tries {
        copy(&one, &two, false);
        let (at, bit) = (used[rng.random_range(0..used.len())], rng.random_range(0..8));
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        fs::write(two.join("index.redb"), flipped).expect("written");
        let (store, _) = open(&two, Some(199)).expect("the segments are sound");
        match answers(&store, &blocks) {
            Ok(found) => {
                assert!(found == right, "try {attempt}, bit {bit} of byte {at}");
                anew += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("index.redb"), "try {attempt}: {error}");
                refused += 1;
            }
        }
        drop(store);
        let (store, _) = open(&two, Some(199)).expect("built anew");
        assert!(
            answers(&store, &blocks).expect("sound") == right,
            "try {attempt}, bit {bit} of byte {at}, opened again"
        );
    }
    println!("{anew} right, {refused} refused");
    assert!(refused > 0 && anew > 0);
}

#[test]
fn a_damaged_index_is_an_error_or_built_anew() {
    let folder = folder();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let blocks = blocks(30, 8);
    drop(fill(&one, &blocks));
    let bytes = fs::read(one.join("index.redb")).expect("an index");
    let tries = std::env::var("PHALANX_DAMAGES").ok().and_then(|tries| tries.parse().ok()).unwrap_or(40);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(9);
    for attempt in 0..tries {
        copy(&one, &two, false);
        let mut damaged = bytes.clone();
        let at = rng.random_range(0..damaged.len());
        let end = (at + rng.random_range(1..4_096)).min(damaged.len());
        rng.fill(&mut damaged[at..end]);
        fs::write(two.join("index.redb"), damaged).expect("written");
        let Ok((store, _)) = open(&two, Some(29)) else { continue };
        for block in &blocks {
            // Not found, or an error, but no other block.
            if let Ok(Some(read)) = store.block(block.height()) {
                assert_eq!(read, *block, "try {attempt}, bytes {at} to {end}");
            }
        }
        drop(store);
    }
}

#[test]
fn a_death_while_a_store_is_begun_leaves_one_that_can_be_begun() {
    let folder = folder();
    let (place, whole) = (folder.path().join("blocks"), folder.path().join("whole"));
    let anchor = block(9, &mut rand_chacha::ChaCha8Rng::seed_from_u64(3));
    let is_there = |store: &BlockStore| {
        assert_eq!(store.block(9).expect("sound").as_ref(), Some(&anchor));
        assert_eq!((store.first().expect("sound"), store.last()), (9, Some(9)));
    };
    is_there(&BlockStore::begin(&whole, IDENTITY, SMALL, &anchor).expect("begun"));
    is_there(&open(&whole, Some(9)).expect("sound").0);
    let bytes = fs::read(&segments(&whole)[0]).expect("a segment");
    let new = place.with_extension("new");
    for cut in 0..=bytes.len() {
        // The write died at a byte: what a start then finds is no store, and not a damaged one.
        fs::create_dir_all(&new).expect("a folder");
        fs::write(new.join("0000000000000009.blocks"), &bytes[..cut]).expect("written");
        let refused = BlockStore::open(&place, IDENTITY, SMALL, Some(9)).expect_err("no block");
        assert!(matches!(refused, StoreError::Behind { committed: 9, .. }), "cut {cut}: {refused}");
        if cut % 16 == 0 || cut == bytes.len() {
            is_there(&BlockStore::begin(&place, IDENTITY, SMALL, &anchor).expect("begun"));
            is_there(&open(&place, Some(9)).expect("sound").0);
            assert!(!new.exists() && !place.with_extension("old").exists());
            fs::remove_dir_all(&place).expect("removed");
        }
    }
    // It died between the two renames, or before the old folder was gone.
    for _ in 0..2 {
        copy(&whole, &place.with_extension("old"), true);
        copy(&whole, &new, false);
        is_there(&BlockStore::begin(&place, IDENTITY, SMALL, &anchor).expect("begun"));
    }
}
