//! The log of a replica against crashes and damage: nothing promised is lost without a word, and a torn end costs nothing else.

use alloy_primitives::Bytes;
use phalanx_adapter::{Sync, Wal, WalError};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{fs, path::Path};

fn record(number: u64) -> Bytes {
    let length = 1 + number as usize * 37 % 300;
    Bytes::from(number.to_be_bytes().into_iter().cycle().take(length).collect::<Vec<u8>>())
}

fn records(range: core::ops::Range<u64>) -> Vec<Bytes> {
    range.map(record).collect()
}

/// A log of `groups` groups of three records each.
fn written(path: &Path, sync: Sync, groups: u64) -> Wal {
    let (mut wal, found) = Wal::open(path, sync).expect("a new log");
    assert!(found.is_empty());
    (0..groups).for_each(|group| wal.append(&records(group * 3..group * 3 + 3)).expect("room"));
    wal
}

#[test]
fn records_come_back_in_order_and_a_replacement_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    for sync in [Sync::Always, Sync::Never] {
        let mut wal = written(&path, sync, 5);
        assert!(matches!(Wal::open(&path, sync), Err(WalError::Locked { .. })));
        wal.append(&[]).expect("nothing to write");
        drop(wal);
        let (mut wal, found) = Wal::open(&path, sync).expect("a log");
        assert_eq!(found, records(0..15));
        wal.replace(&records(100..140)).expect("room");
        assert!(matches!(Wal::open(&path, sync), Err(WalError::Locked { .. })), "the new file is locked as well");
        wal.append(&records(7..9)).expect("room");
        drop(wal);
        let (mut wal, found) = Wal::open(&path, sync).expect("a log");
        assert_eq!(found, [records(100..140), records(7..9)].concat());
        wal.replace(&[]).expect("room");
        drop(wal);
        assert_eq!(Wal::open(&path, sync).expect("a log").1, records(0..0));
        fs::remove_file(&path).expect("a file");
    }
}

/// A crash while the last group is written leaves any prefix of it, with anything behind.
#[test]
fn a_torn_last_group_is_cut_off_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let promised = written(&path, Sync::Always, 4).bytes() as usize;
    let before = fs::read(&path).expect("a file");
    let mut wal = Wal::open(&path, Sync::Always).expect("a log").0;
    wal.append(&records(50..60)).expect("room");
    drop(wal);
    let after = fs::read(&path).expect("a file");
    // PHALANX_LONG=1 takes every byte.
    let step = if std::env::var_os("PHALANX_LONG").is_some() { 1 } else { 23 };
    for cut in (promised + 1..after.len()).step_by(step) {
        for fill in [None, Some(0), Some(0xff)] {
            // The mark of the torn group was not written yet.
            let mut torn = [&before[..promised], &after[promised..cut]].concat();
            torn.extend(fill.map(|byte| vec![byte; 100]).unwrap_or_default());
            fs::write(&path, &torn).expect("a file");
            let (wal, found) = Wal::open(&path, Sync::Always).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
            assert_eq!((found, wal.torn()), (records(0..12), (torn.len() - promised) as u64), "cut {cut}");
        }
    }
    assert!(fs::read_dir(folder.path()).expect("a folder").count() > 2, "torn ends are kept");
}

#[test]
fn any_damage_to_what_was_promised_is_refused() {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(41);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    drop(written(&path, Sync::Always, 6));
    let whole = fs::read(&path).expect("a file");
    for _ in 0..400 {
        let mut bytes = whole.clone();
        let at = rng.random_range(0..bytes.len());
        let bit = 1 << rng.random_range(0..8);
        bytes[at] ^= bit;
        fs::write(&path, &bytes).expect("a file");
        match Wal::open(&path, Sync::Always) {
            // Unused bytes of the first pages, or the older of two marks.
            Ok((_, found)) => {
                assert!(at < 3 * 4096, "seed {seed}: byte {at} is covered");
                assert_eq!(found, records(0..18), "seed {seed}: byte {at}");
            }
            Err(WalError::Corrupt { .. } | WalError::Format { .. }) => {}
            Err(error) => panic!("seed {seed}: byte {at}: {error}"),
        }
        let shorter = rng.random_range(3 * 4096..whole.len());
        fs::write(&path, &whole[..shorter]).expect("a file");
        assert!(matches!(Wal::open(&path, Sync::Always), Err(WalError::Corrupt { .. })), "seed {seed}: {shorter}");
    }
    for sector in (0..whole.len()).step_by(512) {
        let mut bytes = whole.clone();
        bytes[sector..whole.len().min(sector + 512)].fill(0);
        fs::write(&path, &bytes).expect("a file");
        let is_found = Wal::open(&path, Sync::Always).is_err();
        assert_eq!(is_found, sector == 0 || sector >= 3 * 4096, "sector at {sector}");
    }
    for junk in [&b""[..], b"junk", &[0; 20_000]] {
        fs::write(&path, junk).expect("a file");
        assert!(matches!(Wal::open(&path, Sync::Always), Err(WalError::Format { .. })));
    }
}

/// Records that users store are whatever they know: the bytes of this very log, as they are and as they would follow.
#[test]
fn groups_count_at_their_place_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let (mut wal, mut ends) = (written(&path, Sync::Always, 0), vec![3 * 4096]);
    for number in 0..4 {
        // Of one length.
        wal.append(&[number.to_string().repeat(80).into_bytes().into()]).expect("room");
        ends.push(wal.bytes() as usize);
    }
    drop(wal);
    let whole = fs::read(&path).expect("a file");
    let group = |number: usize| &whole[ends[number]..ends[number + 1]];
    for order in [&[1, 0, 2, 3][..], &[0, 2, 1, 3], &[0, 1, 3, 2], &[0, 2, 3], &[1, 2, 3], &[0, 0, 1, 2, 3]] {
        let groups = order.iter().flat_map(|number| group(*number)).copied();
        fs::write(&path, whole[..ends[0]].iter().copied().chain(groups).collect::<Vec<u8>>()).expect("a file");
        assert!(matches!(Wal::open(&path, Sync::Always), Err(WalError::Corrupt { .. })), "{order:?}");
    }
    fs::write(&path, &whole).expect("a file");
    let mut wal = Wal::open(&path, Sync::Always).expect("a log").0;
    let promised = wal.bytes() as usize;
    wal.append(&[whole.clone().into()]).expect("room");
    drop(wal);
    let hostile = fs::read(&path).expect("a file");
    for cut in (promised..hostile.len()).step_by(101) {
        fs::write(&path, [&whole[..], &hostile[promised..cut]].concat()).expect("a file");
        let (_, found) = Wal::open(&path, Sync::Always).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        assert_eq!(found.len(), 4, "cut {cut}");
    }
}
