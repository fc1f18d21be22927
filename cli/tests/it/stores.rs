//! Unusable stores: each has its exit code, and a refusal changes none.

use crate::{
    command::{all_match, disk_stores, end, phalanx, run},
    reference::store,
};
use phalanx::merkle::Store;
use std::{
    ffi::OsStr,
    fs::{self, OpenOptions},
    os::unix::{ffi::OsStrExt as _, fs::FileExt as _},
    path::{Path, PathBuf},
};

const LOAD: &str = "--accounts 300 --txs 3000 --block-txs 100 --oracle off";

/// Makes a store of some blocks; returns its `--store` name and the root of its tip.
fn made(kind: &str, dir: &Path) -> (String, String) {
    let name = format!("{kind}:{}", dir.join("state").display());
    let result = run(&format!("bench run {LOAD} --store {name} --json -")).json();
    let root = result["runs"][0]["integrity"]["state_root"].as_str().expect("a root").to_owned();
    (name, root)
}

fn path_of(name: &str) -> PathBuf {
    name.split_once(':').expect("a kind").1.into()
}

#[test]
fn a_store_keeps_what_was_committed() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let (name, root) = made(kind, dir.path());
        let info = run(&format!("state info --db {name} --json")).json();
        assert_eq!((&info["height"], &info["state_root"]), (&30.into(), &root.clone().into()), "{info}");
        // 300 accounts, the beneficiary, and the identity of the chain.
        assert_eq!(info["keys"], 302);
        assert!(info["bytes"].as_u64().is_some_and(|bytes| bytes > 100_000), "{info}");
        let text = run(&format!("state info --db {name}"));
        assert!(text.code == Some(0) && text.stdout.contains(&root), "{text:?}");
    }
}

#[test]
fn every_run_has_a_store_of_its_own() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let line = format!("bench run --accounts 100 --txs 200 --block-txs 50 --store {kind}:{}", dir.path().display());
        let result =
            run(&format!("{line} --runs 2 --executor dag --executor sequential --executor dag --json -")).json();
        assert_eq!(all_match(&result, 200).len(), 6);
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 6);
    }
}

#[test]
fn durabilities_lead_to_the_same_store() {
    for kind in disk_stores() {
        let mut roots = Vec::new();
        for durability in ["none", "async", "block"] {
            let dir = tempfile::tempdir().expect("a folder");
            let name = format!("{kind}:{}", dir.path().join("new/deep").display());
            let line = format!(
                "bench run --accounts 100 --txs 200 --block-txs 50 --durability {durability} --store {name} --json -"
            );
            let result = run(&line).json();
            assert_eq!(result["scope"]["durability"], durability);
            assert!(result["host"]["disk"].is_string() || !cfg!(target_os = "linux"), "{result}");
            roots.extend(all_match(&result, 200));
            if durability != "none" {
                let info = run(&format!("state info --db {name} --json")).json();
                assert_eq!(info["state_root"], roots[0].as_str(), "{durability}");
            }
        }
        assert!(roots.iter().all(|root| *root == roots[0]), "{roots:?}");
    }
}

#[test]
fn a_chain_is_never_overwritten() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let (name, root) = made(kind, dir.path());
        run(&format!("bench run {LOAD} --store {name} --json -")).refused(2, "choose a new or empty folder");
        assert_eq!(run(&format!("state info --db {name} --json")).json()["state_root"], root.as_str());
    }
}

#[test]
fn a_store_that_another_process_has_open_is_locked() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let (name, root) = made(kind, dir.path());
        let held = Store::open(store(kind, &path_of(&name))).expect("a sound store");
        run(&format!("state prune --db {name}")).refused(6, "is open elsewhere");
        assert_eq!(run(&format!("state info --db {name} --json")).json()["state_root"], root.as_str());
        run(&format!("bench run {LOAD} --store {name} --json -")).refused(6, "is open elsewhere");
        drop(held);
        assert_eq!(run(&format!("state info --db {name} --json")).json()["state_root"], root.as_str());
    }
}

#[test]
fn a_store_of_another_format_is_refused_and_unchanged() {
    for kind in disk_stores() {
        let dir = tempfile::tempdir().expect("a folder");
        let (name, root) = made(kind, dir.path());
        for hasher in ["keccak256", "blake3"] {
            let ended = run(&format!("state info --db {name} --hasher {hasher} --json"));
            ended.refused(6, "hash function sha256");
            assert!(ended.stderr.contains(hasher), "{ended:?}");
            run(&format!("bench run {LOAD} --store {name} --hasher {hasher} --json -")).refused(6, "with sha256");
        }
        assert_eq!(run(&format!("state info --db {name} --json")).json()["state_root"], root.as_str());
    }
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("state.log"), "a diary, not a log of blocks, and long enough to hold a header")
        .expect("a file");
    let name = format!("file:{}", dir.path().display());
    run(&format!("state info --db {name} --json")).refused(6, "state.log");
    assert!(fs::read_to_string(dir.path().join("state.log")).expect("a file").starts_with("a diary"));
}

/// Inverts eight bytes.
fn damage(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("a file of the store");
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at).expect("bytes");
    file.write_all_at(&bytes.map(|byte| !byte), at).expect("bytes");
}

#[test]
fn a_damaged_file_is_corrupt_and_unchanged() {
    let dir = tempfile::tempdir().expect("a folder");
    let (name, _) = made("file", dir.path());
    let log = path_of(&name).join("00000000.seg");
    let sound = fs::read(&log).expect("the log");
    let len = sound.len() as u64;
    // In genesis, in the middle, and before the last block: whole records follow, so it is no torn tail.
    for at in [len / 50, len / 4, len / 2, len * 3 / 4, len * 9 / 10] {
        damage(&log, at);
        let damaged = fs::read(&log).expect("the log");
        run(&format!("state info --db {name} --json")).refused(6, "is corrupt");
        run(&format!("bench run {LOAD} --store {name} --json -")).refused(6, "is corrupt");
        assert!(fs::read(&log).expect("the log") == damaged, "a corrupt store is not repaired by cutting it");
        fs::write(&log, &sound).expect("the log");
    }
    assert_eq!(run(&format!("state info --db {name} --json")).json()["height"], 30);
}

#[test]
fn a_torn_tail_is_cut_to_the_last_whole_block() {
    let dir = tempfile::tempdir().expect("a folder");
    let (name, _) = made("file", dir.path());
    let log = path_of(&name).join("00000000.seg");
    let len = fs::metadata(&log).expect("the log").len();
    OpenOptions::new().write(true).open(&log).and_then(|file| file.set_len(len - 1)).expect("the log");
    assert_eq!(run(&format!("state info --db {name} --json")).json()["height"], 29);
}

#[cfg(feature = "rocksdb")]
#[test]
fn damaged_tables_are_corrupt() {
    let dir = tempfile::tempdir().expect("a folder");
    let (name, _) = made("rocks", dir.path());
    // Opening for writing moves the log to tables.
    assert_eq!(run(&format!("state prune --db {name}")).code, Some(0));
    let tables = fs::read_dir(path_of(&name)).expect("a folder").flatten().map(|entry| entry.path());
    let tables = tables.filter(|path| path.extension().is_some_and(|extension| extension == "sst"));
    let largest = tables.max_by_key(|path| fs::metadata(path).map_or(0, |meta| meta.len())).expect("a table");
    damage(&largest, fs::metadata(&largest).expect("a table").len() / 2);
    run(&format!("state info --db {name} --json")).refused(6, "is corrupt");
}

#[test]
fn a_path_that_is_no_store_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("a-file");
    fs::write(&file, "something else").expect("a file");
    for kind in disk_stores() {
        run(&format!("state info --db {kind}:{}", dir.path().join("missing").display()))
            .refused(2, "no such directory");
        for (what, words) in [("state info --db", ""), ("bench run --store", LOAD)] {
            for path in [file.clone(), file.join("below")] {
                let line = format!("{what} {kind}:{} {words}", path.display());
                let ended = run(&line);
                ended.refused(2, "a-file");
                assert!(ended.stderr.matches("os error").count() <= 1, "said once: {ended:?}");
            }
        }
    }
    run("state info --db mem").refused(2, "in memory");
    assert_eq!(fs::read_to_string(&file).expect("a file"), "something else");
    // A name that is no UTF-8 is handled, too.
    let mut command = phalanx(["state", "info", "--db"]);
    command.arg(OsStr::from_bytes(b"file:\xff\xfe"));
    assert_eq!(end(command).code, Some(2));
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_database_without_its_manifest_or_current_file_is_corrupt() {
    for lost in ["MANIFEST-", "CURRENT"] {
        let dir = tempfile::tempdir().expect("a folder");
        let (name, _) = made("rocks", dir.path());
        let files = fs::read_dir(path_of(&name)).expect("a folder").map(|entry| entry.expect("an entry").path());
        let is_lost = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(lost));
        let gone: Vec<_> = files.filter(is_lost).collect();
        assert!(!gone.is_empty(), "{lost}");
        gone.iter().for_each(|path| fs::remove_file(path).expect("a file"));
        let ended = run(&format!("state info --db {name}"));
        assert_eq!(ended.code, Some(6), "{lost}: {ended:?}");
    }
}
