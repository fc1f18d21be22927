//! Databases that an earlier build of this format version made open with their roots. With `PHALANX_WRITE_GOLDEN` set
//! the images are made anew, which is a change of the format.

use std::path::{Path, PathBuf};

use crate::common::life::{self, Oracle, copy, number, params, turn};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use phalanx_merkle::{Durability, Store, StoreConfig, verify_exclusion, verify_inclusion, verify_keys, verify_range};

const SEED: u64 = 2;

/// Turns of the life in the images; the last one ends in staged forks.
const TURNS: u64 = 16;

/// Last root.
const ROOT: &str = "8eefae48e00411076c83796ac45e2bb5bbf8ae4cd7818974d59e23d6d2e7cae6";

/// Files of the images that only say where and when they were made, or are made anew.
const SKIPPED: [&str; 4] = ["LOG", "LOCK", "lock", "LOG.old"];

fn image(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/format-2-{kind}.tar.gz"))
}

fn open(kind: &str, dir: &Path) -> Store {
    let backend = life::backend(kind, dir);
    let config = StoreConfig::new(backend).with_params(params()).with_durability(Durability::Async).with_history(3);
    Store::open(config.with_expected_min_height(TURNS - 1)).expect("the image opens")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes an image: a life in two openings, and a fork staged at its end.
fn make(kind: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let live = dir.path().join("live");
    for _ in 0..2 {
        let backend = life::backend(kind, &live);
        let mut store = Store::open(StoreConfig::new(backend).with_params(params()).with_history(3)).expect("a store");
        (0..TURNS / 2).for_each(|_| turn(&mut store, SEED, &mut |_| ()).expect("a turn"));
        if store.height() == Some(TURNS - 1) {
            let prepared = store.prepare_on(store.tip(), life::delta(SEED, TURNS)).expect("a block");
            let block = store.add_fork(prepared).expect("a held block");
            store.stage(block).expect("a block").expect("not staged yet").write().expect("a write");
        }
    }
    let still = dir.path().join("still");
    copy(&live, &still);
    let mut names: Vec<_> =
        std::fs::read_dir(&still).expect("a directory").map(|e| e.expect("an entry").file_name()).collect();
    names.sort();
    let file = std::fs::File::create(image(kind)).expect("the image");
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::best()));
    for name in names.iter().filter(|name| !SKIPPED.contains(&&*name.to_string_lossy())) {
        let bytes = std::fs::read(still.join(name)).expect("a file");
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append_data(&mut header, name, &bytes[..]).expect("an entry");
    }
    tar.into_inner().and_then(GzEncoder::finish).expect("the image");
}

fn opens(kind: &str) {
    if number("PHALANX_WRITE_GOLDEN", 0) > 0 {
        make(kind);
    }
    let dir = tempfile::tempdir().expect("a directory");
    let packed = std::fs::File::open(image(kind)).expect("the image");
    assert!(packed.metadata().expect("the image").len() < 60 << 10, "the image is large");
    tar::Archive::new(GzDecoder::new(packed)).unpack(dir.path()).expect("the image unpacks");

    let mut oracle = Oracle::new(SEED);
    for opening in 0..2 {
        let mut store = open(kind, dir.path());
        let tip = TURNS - 1 + opening;
        assert_eq!(store.height(), Some(tip));
        if opening == 0 {
            assert_eq!(hex(&store.root()), ROOT);
        }
        let model = oracle.after(tip as usize + 1).clone();
        model.assert_equals(&store, kind);
        store.check().expect("a sound store");
        let (reader, root, params) = (store.read(), store.root(), params());
        let keys: Vec<&[u8]> = model.state.keys().map(|key| &key[..]).collect();
        for key in &keys {
            let proof = reader.prove(key).expect("a proof").expect("the key exists");
            assert_eq!(verify_inclusion(&params, &root, &proof).expect("a sound proof").value, model.state[*key]);
        }
        let absence = reader.prove_absence(b"absent").expect("a proof").expect("no such key");
        verify_exclusion(&params, &root, b"absent", &absence).expect("a sound proof");
        let proof = reader.prove_keys(&keys).expect("a proof");
        verify_keys(&params, &root, &keys, &proof, |_, _| ()).expect("a sound proof");
        let (proof, end) = reader.prove_range(&[0; 32], &[0xff; 32], 1000).expect("a proof");
        assert_eq!(verify_range(&params, &root, &[0; 32], &end, &proof).expect("a sound proof").len(), keys.len());
        drop(reader);
        assert_eq!(store.code(&[3; 32]).expect("code").as_deref(), Some(&[3; 50][..]));
        if opening == 0 {
            // The staged fork is there and can be committed, and so is the history.
            let held = store.forks();
            assert_eq!(held.len(), 1, "{held:?}");
            assert_eq!((held[0].height, held[0].root), (TURNS, oracle.root(TURNS)));
            store.rewind(Some(TURNS - 3)).expect("a way back").write().expect("a write");
            assert_eq!(store.root(), oracle.root(TURNS - 3));
            for height in TURNS - 2..=TURNS {
                let prepared = store.prepare(life::delta(SEED, height), height).expect("a block");
                store.commit(prepared).expect("a block");
            }
            assert_eq!(store.root(), oracle.root(TURNS));
        }
    }
}

#[test]
fn an_image_of_files_opens() {
    opens("file");
}

#[cfg(feature = "rocksdb")]
#[test]
fn an_image_of_a_database_opens() {
    opens("rocks");
}
