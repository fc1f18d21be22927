//! Fixtures on disk: the committed ones always, the large collections where they are present.

use phalanx_workloads::fixtures::{BlockIndex, RealBlock, Test, find_blocks, read_tests, recover_senders, visit_files};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// Path of a part of the large collections: in `PHALANX_FIXTURES`, or `shared` beside the repository. Without them the
/// test reports that it is skipped; with `PHALANX_REQUIRE_FIXTURES=1` it fails.
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
fn every_block_of_the_collection_is_read_with_its_senders() {
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

/// Damages tests at random: reading ends with fixtures or errors.
#[test]
fn damaged_tests_are_read_or_refused() {
    let count = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
    };
    let (seed, rounds) = (count("PHALANX_SEED", 1), count("PHALANX_CASES", 400));
    println!("PHALANX_SEED={seed} PHALANX_CASES={rounds}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/fixtures");
    let mut originals = Vec::new();
    let end = visit_files(&folder, &mut |file| {
        originals.push(file.unwrap());
        ControlFlow::Continue(())
    });
    assert!(end.is_continue() && originals.len() >= 8, "{}", originals.len());
    originals.retain(|file| file.bytes.len() < 20_000);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let alphabet = b"0123456789abcdefx\"{}[],:-nul \\\xff\x00";
    let (mut read, mut refused) = (0, 0);
    for _ in 0..rounds {
        let mut bytes = originals[rng.random_range(0..originals.len())].bytes.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..4) {
                0 => bytes[at] = alphabet[rng.random_range(0..alphabet.len())],
                1 => bytes.insert(at, alphabet[rng.random_range(0..alphabet.len())]),
                2 => drop(bytes.drain(at..(at + rng.random_range(1..40)).min(bytes.len()))),
                _ => bytes[at] = rng.random(),
            }
        }
        match read_tests(&bytes) {
            Ok(tests) if tests.iter().all(|(_, test)| test.is_ok()) => read += 1,
            _ => refused += 1,
        }
    }
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
}
