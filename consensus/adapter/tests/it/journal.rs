//! The journal on disk, torn and damaged at every byte.

use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::{DecidedBlock, FileJournal, Journal as _, JournalError, Torn};
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

/// Opens a copy of `bytes` in a folder of its own.
fn open(bytes: &[u8]) -> (tempfile::TempDir, Result<FileJournal, JournalError>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    std::fs::write(&path, bytes).expect("room");
    let journal = FileJournal::open(path);
    (folder, journal)
}

/// Offset of the first record.
const START: usize = 3 * 4096;

/// A journal of all blocks, as the file was after each: the beginning alone, then one more record each.
fn images() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let mut journal = FileJournal::open(&path).expect("a new journal");
    let mut images = vec![std::fs::read(&path).expect("a file")];
    for block in blocks() {
        journal.append(block).expect("room");
        images.push(std::fs::read(&path).expect("a file"));
    }
    images
}

/// The journal lacks the last block or none; what was cut off is kept and reported; it continues as if nothing had happened.
fn continues(folder: &Path, mut journal: FileJournal, kept: usize, tail: &[u8], promised: bool, end: &[u8]) {
    let blocks = blocks();
    assert_eq!(found(&journal), blocks[..kept]);
    let torn = journal.torn().cloned();
    assert_eq!(torn.is_some(), promised || !tail.is_empty(), "a loss is reported, and nothing else is");
    if let Some(Torn { height, bytes, kept: file, promised: was, .. }) = torn {
        assert_eq!((height, bytes, was), (kept as u64 + 1, tail.len() as u64, promised));
        let file = file.map(|file| std::fs::read(file).expect("a file"));
        assert_eq!(file.unwrap_or_default(), tail, "the end is kept beside");
    }
    blocks[kept..].iter().for_each(|block| journal.append(block.clone()).expect("room"));
    drop(journal);
    let path = folder.join("journal");
    assert_eq!(std::fs::read(&path).expect("a file"), end);
    let again = FileJournal::open(&path).expect("a journal");
    assert_eq!((found(&again), again.torn()), (blocks, None));
}

#[test]
fn a_crash_in_an_append_loses_nothing_that_was_promised() {
    let images = images();
    // PHALANX_LONG=1 takes every byte.
    let step = if std::env::var_os("PHALANX_LONG").is_some() { 1 } else { 71 };
    for (kept, pair) in images.windows(2).enumerate() {
        let (before, after) = (&pair[0], &pair[1]);
        for cut in (before.len()..after.len()).step_by(step).chain([before.len() + 1, after.len() - 1]) {
            // Cut short; at its full length, with zeros in the rest; with a record behind the mark that is whole but for a bit.
            let torn = [&before[..], &after[before.len()..cut]].concat();
            let zeros = [&torn[..], &vec![0; after.len() - cut]].concat();
            let mut damaged = [&before[..], &after[before.len()..]].concat();
            damaged[cut] ^= 1 << (cut % 8);
            for image in [torn, zeros, damaged] {
                let tail = image[before.len()..].to_vec();
                let (folder, journal) = open(&image);
                let journal = journal.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
                continues(folder.path(), journal, kept, &tail, false, &images[blocks().len()]);
            }
        }
        // The mark was not written yet.
        let unmarked = [&before[..], &after[before.len()..]].concat();
        let (folder, journal) = open(&unmarked);
        continues(folder.path(), journal.expect("a journal"), kept + 1, b"", false, &images[blocks().len()]);
    }
}

#[test]
fn a_promised_end_that_is_cut_short_is_reported() {
    let images = images();
    let (whole, ends) = (&images[4], images.iter().map(Vec::len).collect::<Vec<_>>());
    for cut in (START..whole.len()).step_by(11).chain(ends.iter().flat_map(|end| [end - 1, *end])) {
        if !(START..whole.len()).contains(&cut) {
            continue;
        }
        let (folder, journal) = open(&whole[..cut]);
        let kept = ends.iter().filter(|end| **end <= cut).count() - 1;
        if kept == 3 {
            let journal = journal.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            continues(folder.path(), journal, 3, &whole[ends[3]..cut], true, whole);
        } else {
            // More than the last record is missing: nothing that a disk forgets at its end.
            let Err(JournalError::Corrupt { at, lost, .. }) = journal else { panic!("cut at {cut}") };
            assert_eq!((at, lost), (ends[kept] as u64, kept as u64 + 1..=4), "cut at {cut}");
            assert_eq!(std::fs::read(folder.path().join("journal")).expect("a file"), whole[..cut]);
        }
    }
    for cut in [0, 1, 7, 8, 15, 16, 4095, 4096, 4136, 8192, 8232, START - 1] {
        let (_folder, journal) = open(&whole[..cut]);
        // The other mark is there from byte 4136 on, and then more than a record is missing.
        assert!(journal.is_err(), "cut at {cut}");
    }
}

/// Opens a changed file: it is an error, or all blocks are there, or the last is cut off and reported. Returns true for the first.
fn refuses(what: &str, bytes: &[u8], whole: &[u8]) -> bool {
    let (folder, journal) = open(bytes);
    match journal {
        Ok(journal) if found(&journal) == blocks() => {
            assert!(journal.torn().is_none() || bytes.len() > whole.len(), "{what}: nothing was lost");
            false
        }
        Ok(journal) => {
            assert_eq!(found(&journal), blocks()[..3], "{what}");
            let torn = journal.torn().expect("a loss is reported");
            let kept = torn.kept.as_ref().map(|kept| std::fs::read(kept).expect("a file"));
            assert_eq!(kept.unwrap_or_default(), bytes[torn.at as usize..], "{what}");
            false
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("journal"), "{text}");
            assert_eq!(std::fs::read(folder.path().join("journal")).expect("a file"), bytes, "{what}: it was changed");
            true
        }
    }
}

#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let images = images();
    let (whole, ends) = (&images[4], images.iter().map(Vec::len).collect::<Vec<_>>());
    let marks = [4096, 8192].into_iter().flat_map(|page| page..page + 48);
    for at in (0..24).chain(marks).chain([4095, START - 1]).chain(START..whole.len()) {
        for bit in [at % 8, (at + 3) % 8] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            let refused = refuses(&format!("bit {bit} of byte {at}"), &damaged, whole);
            let expected = !(16..START).contains(&at);
            assert!(refused == expected, "bit {bit} of byte {at} of {}: refused is {refused}", ends[4]);
        }
    }
}

#[test]
fn zeroed_sectors_and_moved_records_are_found() {
    let images = images();
    let (whole, ends) = (&images[4], images.iter().map(Vec::len).collect::<Vec<_>>());
    for size in [512, 4096] {
        for sector in (0..whole.len()).step_by(size) {
            let mut damaged = whole.clone();
            damaged[sector..(sector + size).min(whole.len())].fill(0);
            if damaged != *whole {
                let refused = refuses(&format!("sector at {sector}"), &damaged, whole);
                assert_eq!(refused, sector == 0 || sector >= START, "sector at {sector}");
            }
        }
    }
    let record = |number: usize| &whole[ends[number]..ends[number + 1]];
    let file = |order: &[usize]| {
        let records = order.iter().flat_map(|number| record(*number)).copied();
        whole[..START].iter().copied().chain(records).collect::<Vec<u8>>()
    };
    for order in
        [&[1, 0, 2, 3][..], &[0, 2, 1, 3], &[0, 1, 3, 2], &[0, 2, 3], &[1, 2, 3], &[0, 0, 1, 2, 3], &[0, 1, 1, 2, 3]]
    {
        assert!(refuses(&format!("{order:?}"), &file(order), whole), "{order:?}");
    }
    // What follows the promised records was never promised: it is kept beside and reported.
    for order in [&[0, 1, 2, 3, 3][..], &[0, 1, 2, 3, 0], &[0, 1, 2, 3, 2]] {
        assert!(!refuses(&format!("{order:?}"), &file(order), whole), "{order:?}");
    }
    // The end of another journal, and the beginning of an earlier time under a newer end: neither is taken for promised.
    assert!(refuses("an older beginning of a foreign kind", &[&vec![1; START], &whole[START..]].concat(), whole));
}

/// A block of 200 transactions, one of which holds `content`.
fn full(height: u64, parent: BlockId, content: &[u8]) -> DecidedBlock {
    let txs = (0..200u8).map(|tx| if tx == 10 { content.to_vec() } else { vec![tx; 500] }.into()).collect();
    let id = BlockId(B256::repeat_byte(height as u8));
    DecidedBlock {
        meta: BlockMeta { id, parent, height },
        env: BlockEnv { height, ..BlockEnv::default() },
        payload: Payload::new(txs).into(),
        proof: Bytes::new(),
        certificate: None,
    }
}

#[test]
fn records_in_calldata_do_not_keep_a_journal_from_opening() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let mut journal = FileJournal::open(&path).expect("a new journal");
    let honest = full(1, BlockId::default(), &[]);
    journal.append(honest.clone()).expect("room");
    let before = std::fs::read(&path).expect("a file");
    // Whatever the sender knows: records and marks of this very journal, as they are and as they would follow, at any place.
    let mut next = journal;
    next.append(full(2, honest.meta.id, &[])).expect("room");
    next.append(full(3, BlockId(B256::repeat_byte(2)), &[])).expect("room");
    drop(next);
    let known = std::fs::read(&path).expect("a file");
    std::fs::remove_file(&path).expect("a file");
    std::fs::write(&path, &before).expect("room");
    let mut journal = FileJournal::open(&path).expect("a journal");
    let hostile = full(2, honest.meta.id, &known);
    journal.append(hostile.clone()).expect("room");
    let after = std::fs::read(&path).expect("a file");
    drop(journal);
    let added = after.len() - before.len();
    let mut opened = 0;
    for number in 0..250 {
        let cut = before.len() + added * number / 250;
        // As a crash leaves the file, and as a disk does that forgets what it had acknowledged.
        for beginning in [&before[..], &after[..before.len()]] {
            let (_folder, journal) = open(&[beginning, &after[before.len()..cut]].concat());
            let journal = journal.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            assert_eq!(journal.last(), Some(&honest), "cut at {cut}");
            opened += 1;
        }
    }
    assert_eq!(opened, 500);
    let (_folder, journal) = open(&after);
    assert_eq!(journal.expect("a journal").last(), Some(&hostile));
}

#[test]
fn a_file_of_another_kind_is_left_alone() {
    let text = b"hello, this is no journal, and it is long enough for a head";
    for bytes in [&b""[..], text, &[0; 2 * START], &[0xff; 40]] {
        let (folder, journal) = open(bytes);
        assert!(matches!(journal, Err(JournalError::Format { .. })));
        assert_eq!(std::fs::read(folder.path().join("journal")).expect("a file"), bytes);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing was made beside it");
    }
}

#[test]
fn an_interrupted_creation_is_begun_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    for rest in [&b""[..], b"PHXJ", &[7; 2 * START]] {
        std::fs::write(folder.path().join("journal.new"), rest).expect("room");
        let (bytes, _) = written(&path);
        assert_eq!(bytes, images()[4]);
        assert!(!folder.path().join("journal.new").exists());
        std::fs::remove_file(&path).expect("a file");
    }
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
