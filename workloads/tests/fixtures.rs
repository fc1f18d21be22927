//! Fixtures as they lie on disk: the committed ones always, the large collections where they are at hand.

use phalanx_workloads::fixtures::{BlockIndex, RealBlock, Test, find_blocks, read_tests, recover_senders, visit_files};
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// The large collections: `PHALANX_FIXTURES`, or `shared` beside the repository. Without them, says what is passed over; with
/// `PHALANX_REQUIRE_FIXTURES=1` that is a failure.
fn collection(part: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let path = std::env::var_os("PHALANX_FIXTURES").map_or_else(beside, PathBuf::from).join(part);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("PHALANX_REQUIRE_FIXTURES").is_none_or(|v| v != "1"), "{} is missing", path.display());
    eprintln!("skipped: {} is not there", path.display());
    None
}

#[test]
fn every_block_of_the_collection_is_read_and_signed_by_whom_it_says() {
    let Some(path) = collection("blocks") else { return };
    let dirs = find_blocks(&path).unwrap();
    let index = BlockIndex::read(&path).unwrap().unwrap();
    assert_eq!(dirs.len(), 41);
    for dir in dirs {
        let block = RealBlock::read(&dir).unwrap();
        block.check().unwrap();
        assert_eq!(block.index.as_ref(), index.block(block.header.number), "{}", dir.display());
        assert!(block.index.is_some() && !block.txs.is_empty() && !block.prestate.is_empty());
        if !block.inputs_only {
            let senders = recover_senders(&block.envelopes);
            assert!(senders.iter().zip(&block.txs).all(|(sender, tx)| *sender == Some(tx.caller)), "{}", dir.display());
        }
    }
}

#[test]
fn every_test_of_the_collection_is_read() {
    let Some(path) = collection("ethereum-tests") else { return };
    let (mut states, mut cases, mut chains, mut blocks) = (0, 0, 0, 0);
    let end = visit_files(&path, &mut |file| {
        let file = file.unwrap();
        for (name, test) in read_tests(&file.bytes).unwrap() {
            match test {
                Ok(Test::State(test)) => {
                    states += 1;
                    cases += test.cases.len();
                }
                Ok(Test::Blockchain(test)) => {
                    chains += 1;
                    blocks += test.blocks.len();
                }
                other => panic!("{}: {name}: {other:?}", file.name),
            }
        }
        ControlFlow::Continue(())
    });
    assert_eq!(end, ControlFlow::Continue(()));
    assert_eq!((states, cases, chains, blocks), (4_002, 21_442, 72, 289));
}
