//! The journal on disk, torn and damaged at every byte.

use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::{DecidedBlock, FileJournal, Journal as _, JournalError};
use phalanx_engine_api::{BlockEnv, BlockId, FatalCause, Payload};
use phalanx_pipeline::{BlockMeta, Certificate};
use std::path::Path;

/// Blocks with and without transactions, proofs and certificates.
fn blocks() -> Vec<DecidedBlock> {
    let name = |height: u64| if height == 0 { BlockId::default() } else { BlockId(B256::repeat_byte(height as u8)) };
    let block = |height: u64| {
        let txs = (0..height - 1).map(|number| Bytes::from(vec![number as u8; 3 * number as usize])).collect();
        let certificate = Certificate { digest: B256::repeat_byte(7), bytes: Bytes::from_static(b"signed") };
        let env = BlockEnv {
            height,
            timestamp_ms: height << 40,
            prevrandao: B256::repeat_byte(9),
            beneficiary: Address::repeat_byte(5),
            gas_limit: u64::MAX,
            base_fee: 7,
        };
        DecidedBlock {
            meta: BlockMeta { id: name(height), parent: name(height - 1), height },
            env,
            payload: Payload::new(txs).into(),
            proof: Bytes::from(vec![1; height as usize % 3]),
            certificate: height.is_multiple_of(2).then_some(certificate),
        }
    };
    (1..=4).map(block).collect()
}

/// A journal of all blocks: its bytes, and where each record ends.
fn written(path: &Path) -> (Vec<u8>, Vec<usize>) {
    let mut journal = FileJournal::open(path).expect("a new journal");
    let mut ends = Vec::new();
    for block in blocks() {
        journal.append(block).expect("room");
        ends.push(std::fs::metadata(path).expect("a file").len() as usize);
    }
    drop(journal);
    (std::fs::read(path).expect("a file"), ends)
}

fn found(journal: &FileJournal) -> Vec<DecidedBlock> {
    (1..).map_while(|height| journal.block(height).expect("readable")).collect()
}

#[test]
fn appended_blocks_survive_reopening() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    written(&path);
    let journal = FileJournal::open(&path).expect("a journal");
    assert_eq!(found(&journal), blocks());
    assert_eq!(journal.last(), blocks().last());
    assert_eq!(journal.block(0), Ok(None));
    assert!(matches!(FileJournal::open(&path), Err(JournalError::Locked { .. })), "one at a time");
}

#[test]
fn a_torn_end_is_cut_off_at_every_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let (bytes, ends) = written(&path);
    for cut in 0..=bytes.len() {
        // Cut short; and at its full length, with zeros in the rest.
        let next = ends.iter().copied().find(|end| *end > cut).unwrap_or(cut);
        for tail in [0, next - cut] {
            let torn = [&bytes[..cut], &vec![0; tail]].concat();
            let whole = ends.iter().filter(|end| torn.get(..**end) == Some(&bytes[..**end])).count();
            std::fs::write(&path, torn).expect("room");
            let mut journal = FileJournal::open(&path).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            assert_eq!(found(&journal), blocks()[..whole], "cut at {cut}");
            // The journal continues as if the torn record had never been written.
            for block in &blocks()[whole..] {
                journal.append(block.clone()).expect("room");
            }
            drop(journal);
            assert_eq!(std::fs::read(&path).expect("a file"), bytes, "cut at {cut}");
        }
    }
}

#[test]
fn damage_before_the_end_is_reported_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let (bytes, ends) = written(&path);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).expect("room");
        let record = ends.iter().filter(|end| **end <= at).count();
        match FileJournal::open(&path) {
            // Indistinguishable from a torn write.
            Ok(journal) => {
                assert_eq!(record, ends.len() - 1, "byte {at}");
                assert_eq!(found(&journal), blocks()[..record], "byte {at}");
            }
            Err(JournalError::Corrupt { at: found, .. }) => {
                let begins = record.checked_sub(1).map_or(0, |before| ends[before]);
                assert_eq!((record < ends.len() - 1, found), (true, begins as u64), "byte {at}");
                assert_eq!(std::fs::read(&path).expect("a file"), damaged, "byte {at}");
            }
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
}

#[test]
fn records_must_follow_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let (bytes, ends) = written(&path);
    // The second record is missing.
    std::fs::write(&path, [&bytes[..ends[0]], &bytes[ends[1]..]].concat()).expect("room");
    let opened = FileJournal::open(&path);
    assert!(matches!(opened, Err(JournalError::Corrupt { at, .. }) if at == ends[0] as u64));
}

#[test]
fn damage_after_opening_is_not_returned() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let (mut bytes, ends) = written(&path);
    let journal = FileJournal::open(&path).expect("a journal");
    bytes[ends[0] + 40] ^= 1;
    std::fs::write(&path, bytes).expect("room");
    assert_eq!(journal.block(1), Ok(blocks().first().cloned()));
    assert!(matches!(journal.block(2), Err(FatalCause::Corrupt(why)) if why.contains(&format!("byte {}", ends[0]))));
    assert_eq!(journal.block(3), Ok(blocks().get(2).cloned()));
    std::fs::write(&path, b"").expect("room");
    assert!(matches!(journal.block(1), Err(FatalCause::Io(_))));
}

#[test]
fn only_the_next_block_is_appended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let mut journal = FileJournal::open(&path).expect("a journal");
    let refused = |journal: &mut FileJournal, block: &DecidedBlock| {
        assert!(matches!(journal.append(block.clone()), Err(FatalCause::Io(why)) if why.contains("not the next")));
    };
    let blocks = blocks();
    refused(&mut journal, &blocks[1]);
    journal.append(blocks[0].clone()).expect("the next");
    refused(&mut journal, &blocks[0]);
    refused(&mut journal, &blocks[2]);
    journal.append(blocks[1].clone()).expect("the next");
    drop(journal);
    assert_eq!(found(&FileJournal::open(&path).expect("a journal")), blocks[..2]);
}

#[test]
fn a_missing_folder_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = FileJournal::open(folder.path().join("missing").join("journal"));
    assert!(matches!(opened, Err(JournalError::Io { .. })));
}
