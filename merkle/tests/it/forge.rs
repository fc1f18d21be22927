//! Content of users imitates every record that recovery looks for: a crash while such a block is written leaves a store
//! that opens.

use std::path::{Path, PathBuf};

use crate::common::life::{boundaries, config, copy_live, number};
use phalanx_merkle::{Delta, Durability, Store};

/// Frame with a right checksum, as an export has it.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut covered = (body.len() as u32).to_be_bytes().to_vec();
    covered.push(kind);
    covered.extend_from_slice(body);
    [&crc32c::crc32c(&covered).to_be_bytes()[..], &covered].concat()
}

/// Fragment of RocksDB's write-ahead log with a right checksum.
fn fragment(kind: u8, data: &[u8]) -> Vec<u8> {
    let covered = [&[kind], data].concat();
    let masked = crc32c::crc32c(&covered).rotate_right(15).wrapping_add(0xa282_ead8);
    [&masked.to_le_bytes()[..], &(data.len() as u16).to_le_bytes(), &covered].concat()
}

/// Records of every kind that an outsider can make, for far later writes.
fn imitations(height: u64) -> Vec<Vec<u8>> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let seq = 1u64 << 40;
    let tip = [b"PHXT".to_vec(), words(&[seq, 9])].concat();
    let counts = words(&[seq, seq, seq, 100, 0, 90]);
    let block = [b"PHXB".to_vec(), words(&[seq]), vec![1], words(&[9, 8, height + 1]), vec![7; 64], counts].concat();
    let params = [b"PHXM".to_vec(), phalanx_merkle::Params::default().encode().to_vec()].concat();
    let checkpoint = [vec![0], b"PHXC".to_vec(), vec![0; 100]].concat();
    let extent = [words(&[seq, height]), vec![0; 4]].concat();
    let mut all: Vec<Vec<u8>> = [(1, params), (2, extent.clone()), (3, block), (5, extent), (6, tip), (7, checkpoint)]
        .iter()
        .map(|(kind, body)| frame(*kind, body))
        .collect();
    all.push(frame(4, &[[3; 32].to_vec(), vec![0x60; 40]].concat()));
    all.push(frame(8, &words(&[1 << 30])));
    // A batch of one put, and rows in it.
    let batch = [&seq.to_le_bytes()[..], &1u32.to_le_bytes(), &[1, 3], b"tip", &[29], &all[4]].concat();
    for kind in [1, 2, 4] {
        all.push(fragment(kind, &batch));
    }
    all.push(fragment(130, &batch));
    let joined = all.concat();
    all.push(joined.repeat(4));
    all
}

fn hostile(height: u64) -> Delta {
    let mut delta = Delta::new();
    for (key, value) in (0u64..).zip(imitations(height).iter().cycle().take(120)) {
        delta.put(&(height << 32 | key).to_be_bytes(), value);
    }
    for (at, code) in imitations(height).into_iter().enumerate() {
        delta.put_code([at as u8; 32], code);
    }
    delta
}

/// Commits blocks, and keeps the last but one and the last image of the running store.
fn images(kind: &str, home: &Path, durability: Durability) -> (PathBuf, PathBuf) {
    let (live, before, after) = (home.join("live"), home.join("before"), home.join("after"));
    let mut store = Store::open(config(kind, &live, durability)).expect("a store");
    for height in 0..4 {
        let prepared = store.prepare(hostile(height), height).expect("a block");
        let prepared = prepared.with_payload(imitations(height).concat()).expect("a payload");
        if height == 3 {
            copy_live(&live, &before);
        }
        store.commit(prepared).expect("a block");
    }
    copy_live(&live, &after);
    (before, after)
}

/// Cuts what the last block added to one file, with the other files as they were before or after it.
fn cut(kind: &str, durability: Durability, cuts: u64) {
    let home = crate::common::folder();
    let (before, after) = images(kind, home.path(), durability);
    let len = |dir: &Path, name: &str| std::fs::metadata(dir.join(name)).map_or(0, |meta| meta.len());
    let names = std::fs::read_dir(&after).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let grown: Vec<&String> = names.iter().filter(|name| name.ends_with(".seg") || name.ends_with("log")).collect();
    let grown: Vec<&&String> = grown.iter().filter(|name| len(&after, name) > len(&before, name)).collect();
    assert!(!grown.is_empty(), "{kind}: no file has grown");
    let (mut opened, mut all) = (0, 0);
    for name in grown {
        let (from, to) = (len(&before, name), len(&after, name));
        let bytes = std::fs::read(after.join(name)).expect("the file");
        let ends = boundaries(name, &bytes);
        for at in 0..cuts {
            let end = from + (to - from - 1) * at / cuts;
            let context = format!("{kind} {durability:?}: {name} cut at {end} of {from}..{to}");
            let place = home.path().join("cut");
            copy_live(&before, &place);
            // Code is written before the rows that need it.
            if name.ends_with(".seg") && after.join("code.log").exists() {
                std::fs::copy(after.join("code.log"), place.join("code.log")).expect("a copy");
            }
            std::fs::write(place.join(name), &bytes[..end as usize]).expect("a write");
            all += 1;
            let mut store = match Store::open(config(kind, &place, durability)) {
                Ok(store) => store,
                Err(error) => {
                    println!("{context}: {error}");
                    continue;
                }
            };
            assert_eq!(store.height(), Some(2), "{context}");
            // Whole rows of code, and batches of a part of a block, are no torn end; neither is a segment without a row.
            let whole = match name.ends_with(".seg") {
                true => end == from || end as usize <= ends[1],
                false => ends.contains(&(end as usize)),
            };
            assert_eq!(store.tail().torn.is_empty(), whole, "{context}: {:?}", store.tail());
            store.check().expect(&context);
            let prepared = store.prepare(hostile(3), 3).expect(&context);
            store.commit(prepared).expect(&context);
            drop(store);
            let store = Store::open(config(kind, &place, durability)).expect(&context);
            assert!(store.height() == Some(3) && store.tail().is_clean(), "{context}: {:?}", store.tail());
            opened += 1;
            drop(store);
            std::fs::remove_dir_all(&place).expect("the copy");
        }
    }
    println!("{kind} {durability:?}: {opened} of {all} cuts open");
    assert_eq!(opened, all, "{kind} {durability:?}: a cut keeps the store from opening");
}

#[test]
fn a_file_that_imitates_records_opens_after_a_crash() {
    for durability in [Durability::Async, Durability::Block] {
        cut("file", durability, number("PHALANX_CUTS", 40));
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_database_that_imitates_records_opens_after_a_crash() {
    for durability in [Durability::Async, Durability::Block] {
        cut("rocks", durability, number("PHALANX_CUTS", 20));
    }
}
