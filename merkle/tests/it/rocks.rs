//! The log on RocksDB from outside: direct I/O, and the key ranges of its tables.

use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::{fs, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

#[cfg(target_os = "linux")]
use phalanx_merkle::Memory;
use phalanx_merkle::{
    Backend, Delta, Store, StoreConfig,
    faults::{Faults, Step, Verdict},
};
use rocksdb::{DB, Options};

/// Returns true if a file can be written past the page cache.
#[cfg(target_os = "linux")]
fn can(path: &Path) -> bool {
    let memory = vec![0u8; 2 << 12];
    let aligned = memory.as_ptr().align_offset(1 << 12);
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).custom_flags(libc::O_DIRECT).open(path);
    file.and_then(|mut file| file.write_all(&memory[aligned..][..1 << 12])).is_ok()
}

#[cfg(target_os = "linux")]
#[test]
fn rocksdb_uses_direct_io_for_a_resident_state() {
    let dir = tempfile::tempdir().expect("a folder");
    let able = can(&dir.path().join("file"));
    for (at, memory) in [Memory::Resident, Memory::Cached { bytes: 1 << 20 }].into_iter().enumerate() {
        let path = dir.path().join(at.to_string());
        let config = StoreConfig { memory, ..StoreConfig::new(Backend::Rocks(path.clone())) };
        // At the second opening there is something to be read.
        for _ in 0..2 {
            drop(Store::open(config.clone()).expect("a store"));
        }
        let files = fs::read_dir(&path).expect("a folder").map(|file| file.expect("a file").path());
        let options = files.filter(|file| file.to_string_lossy().contains("OPTIONS-")).max().expect("options");
        let options = fs::read_to_string(options).expect("readable");
        let told = options.contains("use_direct_io_for_flush_and_compaction=true");
        assert_eq!(told, able && memory == Memory::Resident, "{memory:?}");
    }
}

#[derive(Debug)]
struct SmallTables;

impl Faults for SmallTables {
    fn before(&self, _: Step<'_>) -> Verdict {
        Verdict::Go
    }

    fn segment_bytes(&self) -> Option<u64> {
        Some(4 << 10)
    }
}

/// Compaction would rewrite overlapping tables.
#[test]
fn tables_do_not_overlap() {
    let dir = tempfile::tempdir().expect("a folder");
    let open = || {
        let config = StoreConfig::new(Backend::Rocks(dir.path().to_path_buf()));
        Store::open(config.with_faults(Arc::new(SmallTables))).expect("a store")
    };
    let mut height = 0;
    for round in 0..3u64 {
        let mut store = open();
        for keys in [1, 200, 1, 200, 1] {
            let mut delta = Delta::new();
            (0..keys).for_each(|key: u64| delta.put(&(round << 32 | key).to_be_bytes(), &[height as u8; 60]));
            let prepared = store.prepare(delta, height).expect("a block");
            store.commit(prepared).expect("is written");
            height += 1;
        }
    }
    // The rest of the write-ahead log becomes tables.
    drop(open());
    let db = DB::open_cf_for_read_only(&Options::default(), dir.path(), ["entries", "blocks", "meta", "code"], false);
    let files = db.expect("a database").live_files().expect("files").into_iter();
    let entries = files.filter(|file| file.column_family_name == "entries");
    let mut ranges: Vec<_> = entries.map(|file| (file.start_key, file.end_key)).collect();
    ranges.sort();
    assert!(ranges.len() >= 6, "large blocks bring tables: {ranges:?}");
    for pair in ranges.windows(2) {
        assert!(pair[0].1 < pair[1].0, "{pair:?}");
    }
}
