//! The journal on disk: a log of blocks, whose own tests tear and damage it.

use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::{DecidedBlock, FileJournal, Journal as _, WalError};
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

/// A journal of all blocks: its bytes, and where each group ends.
fn written(path: &Path) -> (Vec<u8>, Vec<usize>) {
    let mut journal = FileJournal::open(path).expect("a new journal");
    let append = |block| {
        journal.append(block).expect("room");
        std::fs::metadata(path).expect("a file").len() as usize
    };
    let ends = blocks().into_iter().map(append).collect();
    (std::fs::read(path).expect("a file"), ends)
}

fn found(journal: &FileJournal) -> Vec<DecidedBlock> {
    (1..).map_while(|height| journal.block(height).expect("readable")).collect()
}

#[test]
fn appended_blocks_survive_reopening_and_a_torn_end_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let (bytes, _) = written(&path);
    for tail in [&b""[..], b"torn"] {
        std::fs::write(&path, [&bytes[..], tail].concat()).expect("room");
        let journal = FileJournal::open(&path).expect("a journal");
        assert_eq!((found(&journal), journal.torn()), (blocks(), tail.len() as u64));
        assert_eq!((journal.last(), journal.block(0)), (blocks().last(), Ok(None)));
        assert!(matches!(FileJournal::open(&path), Err(WalError::Locked { .. })), "one at a time");
    }
}

#[test]
fn damage_before_opening_is_refused_and_damage_after_it_is_not_returned() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let (whole, ends) = written(&path);
    let mut bytes = whole.clone();
    bytes[ends[0] + 40] ^= 1;
    let journal = FileJournal::open(&path).expect("a journal");
    std::fs::write(&path, &bytes).expect("room");
    assert_eq!(journal.block(1), Ok(blocks().first().cloned()));
    assert!(matches!(journal.block(2), Err(FatalCause::Corrupt(why)) if why.contains(&format!("byte {}", ends[0]))));
    assert_eq!(journal.block(3), Ok(blocks().get(2).cloned()));
    std::fs::write(&path, b"").expect("room");
    assert!(matches!(journal.block(1), Err(FatalCause::Io(_))));
    drop(journal);
    for bytes in [&bytes, &whole[..ends[2]]] {
        std::fs::write(&path, bytes).expect("room");
        assert!(matches!(FileJournal::open(&path), Err(WalError::Corrupt { .. })));
        assert_eq!(std::fs::read(&path).expect("a file"), bytes, "it is left as it is");
    }
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
