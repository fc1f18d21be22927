//! Readers that open the directory of a store while a writer commits, rewinds, prunes and makes checkpoints: every opening
//! succeeds, and every answer is of one height.
//!
//! `PHALANX_BLOCKS=10000` is the long run.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc::{self, Receiver},
    },
};

use crate::common::life::{config, number};
use phalanx_merkle::{
    Access, Delta, Durability, Memory, Store, StoreConfig,
    faults::{Faults, Step, Verdict},
    verify_inclusion,
};

const KEYS: u64 = 24;

fn code_of(height: u64) -> ([u8; 32], Vec<u8>) {
    let mut hash = [9; 32];
    hash[..8].copy_from_slice(&height.to_be_bytes());
    (hash, vec![height as u8; 60])
}

fn commit(store: &mut Store, height: u64) {
    let mut delta = Delta::new();
    for key in 0..KEYS {
        delta.put(&key.to_be_bytes(), &(height * 1000 + key).to_be_bytes());
    }
    let (hash, code) = code_of(height);
    delta.put_code(hash, code);
    let prepared = store.prepare(delta, height).expect("a block");
    let prepared = prepared.with_payload(height.to_be_bytes().to_vec()).expect("a payload");
    store.commit(prepared).expect("a block");
}

/// Heights that a reader may find.
#[derive(Debug, Default)]
struct Progress {
    written: AtomicU64,
    begun: AtomicU64,
    done: AtomicBool,
}

/// Writes the blocks; each ten of them wait for an opening, so that a fast writer is not alone. A reader that fails drops
/// its end of `opened`, and the writer goes on without it.
fn write(config: StoreConfig, blocks: u64, progress: &Progress, created: &AtomicBool, opened: &Receiver<()>) {
    let mut store = Store::open(config).expect("a store");
    for height in 0..blocks {
        if height % 10 == 5 {
            let _ = opened.recv();
        }
        progress.begun.store(height, SeqCst);
        commit(&mut store, height);
        progress.written.store(height, SeqCst);
        created.store(true, SeqCst);
        if height % 10 == 9 {
            progress.written.store(height - 1, SeqCst);
            store.rewind(Some(height - 1)).expect("a rewind").write().expect("a write");
            commit(&mut store, height);
            progress.written.store(height, SeqCst);
        }
        if height % 40 == 39 {
            store.prune().expect("a prune");
        }
    }
    progress.done.store(true, SeqCst);
    assert_eq!(store.height(), Some(blocks - 1));
}

/// Opens the store, and reads all of it at one height.
fn read(config: StoreConfig, progress: &Progress, thorough: bool, context: &str) -> u64 {
    let least = progress.written.load(SeqCst);
    let store = Store::open(config).unwrap_or_else(|error| panic!("{context}: {error}"));
    let (height, most) = (store.height().expect("a block"), progress.begun.load(SeqCst));
    assert!((least.saturating_sub(1)..=most).contains(&height), "{context}: {height} is not within {least}..={most}");
    assert!(store.tail().is_clean(), "{context}: the writer's last write is not torn: {:?}", store.tail());
    let reader = store.read();
    for key in 0..KEYS {
        let value = reader.get(&key.to_be_bytes()).map(<[u8]>::to_vec);
        reader.check().expect(context);
        assert_eq!(value.as_deref(), Some(&(height * 1000 + key).to_be_bytes()[..]), "{context}: key {key}");
    }
    let proof = reader.prove(&3u64.to_be_bytes()).expect(context).expect("the key exists");
    let entry = verify_inclusion(reader.params(), &reader.root(), &proof).expect("a proof");
    assert_eq!((entry.value, entry.height), (&(height * 1000 + 3).to_be_bytes()[..], height), "{context}");
    drop(reader);
    assert_eq!(store.payload(), height.to_be_bytes(), "{context}");
    let (hash, code) = code_of(height);
    assert_eq!(store.code(&hash).expect(context).as_deref(), Some(&code[..]), "{context}");
    if thorough {
        store.check().expect(context);
        let mut export = Vec::new();
        store.export(&mut export).expect(context);
        let copy = crate::common::folder();
        let copy = Store::import(
            self::config("file", &copy.path().join("copy"), Durability::None).with_access(Access::Create),
            &mut &export[..],
        )
        .expect(context);
        assert_eq!((copy.height(), copy.root()), (Some(height), store.root()), "{context}");
    }
    height
}

fn beside(kind: &str, durability: Durability, memory: Memory, blocks: u64) {
    let dir = crate::common::folder();
    let at = |dir: &Path| config(kind, dir, durability).with_memory(memory).with_checkpoint_bytes(1 << 14);
    let (progress, created) = (Progress::default(), AtomicBool::new(false));
    let (mut openings, mut heights) = (0u64, 0u64);
    let (opened, waits) = mpsc::channel();
    std::thread::scope(|scope| {
        let (progress, created) = (&progress, &created);
        let config = at(dir.path());
        let writer = scope.spawn(move || write(config, blocks, progress, created, &waits));
        let opened = opened;
        let mut last = None;
        while !progress.done.load(SeqCst) && !writer.is_finished() {
            if !created.load(SeqCst) {
                std::thread::yield_now();
                continue;
            }
            let context = format!("{kind} {durability:?} {memory:?}, opening {openings}");
            let reading = at(dir.path()).with_access(Access::Read);
            let height = read(reading, progress, openings % 16 == 15, &context);
            let _ = opened.send(());
            openings += 1;
            heights += u64::from(last.replace(height) != Some(height));
        }
        writer.join().expect("the writer ends");
    });
    println!("{kind} {durability:?} {memory:?}: {blocks} blocks, {openings} openings at {heights} heights");
    assert!(openings > 0 && heights > 0);
}

#[test]
fn a_reader_that_opens_the_store_beside_a_writer_sees_one_height() {
    let blocks = number("PHALANX_BLOCKS", 120);
    beside("file", Durability::Async, Memory::Resident, blocks);
    beside("file", Durability::Block, Memory::Cached { bytes: 4000 }, blocks);
    #[cfg(feature = "rocksdb")]
    {
        beside("rocks", Durability::Async, Memory::Resident, blocks);
        beside("rocks", Durability::Block, Memory::Cached { bytes: 4000 }, blocks);
    }
}

/// Lets a writer commit and prune before some segments are read.
#[derive(Debug)]
struct Overtaken {
    writer: Mutex<Store>,
    reads: AtomicU64,
    /// Reads of segments before which the writer goes on: the bits of a mask.
    mask: u64,
    blocks: u64,
}

impl Faults for Overtaken {
    fn before(&self, step: Step<'_>) -> Verdict {
        if let Step::Read(path) = step
            && path.extension().is_some_and(|name| name == "seg")
            && self.mask.checked_shr(self.reads.fetch_add(1, SeqCst) as u32).is_some_and(|mask| mask & 1 == 1)
        {
            let mut store = self.writer.lock().expect("no panic");
            let next = store.height().expect("a block") + 1;
            (next..next + self.blocks).for_each(|height| commit(&mut store, height));
            store.prune().expect("a prune");
        }
        Verdict::Go
    }
}

/// A node may write and prune more between two files that a reader opens than the reader's last block can do without.
#[test]
fn a_reader_that_a_writer_overtakes_while_it_opens_sees_one_height() {
    for (memory, blocks) in [Memory::Resident, Memory::Cached { bytes: 4000 }]
        .into_iter()
        .flat_map(|memory| [1, 2, 5, 40, 200].map(|blocks| (memory, blocks)))
    {
        for mask in [1, 2, 4, 1 << 7, 0b101, 0xff, 0x5555] {
            let context = format!("{memory:?}, {blocks} blocks before the reads {mask:b}");
            let dir = crate::common::folder();
            let at = || config("file", dir.path(), Durability::Async).with_memory(memory);
            let mut store = Store::open(at()).expect("a store");
            (0..50).for_each(|height| commit(&mut store, height));
            let overtaken = Arc::new(Overtaken { writer: Mutex::new(store), reads: AtomicU64::new(0), mask, blocks });
            let reading = at().with_access(Access::Read).with_faults(Arc::<Overtaken>::clone(&overtaken));
            let store = Store::open(reading).unwrap_or_else(|error| panic!("{context}: {error}"));
            let height = store.height().expect("a block");
            for key in 0..KEYS {
                let reader = store.read();
                let value = reader.get(&key.to_be_bytes()).map(<[u8]>::to_vec);
                reader.check().expect(&context);
                assert_eq!(value.as_deref(), Some(&(height * 1000 + key).to_be_bytes()[..]), "{context}: key {key}");
            }
            let writer = overtaken.writer.lock().expect("no panic");
            assert!(height > 49, "{context}: {height}");
            assert_eq!(writer.root_at(height).unwrap_or(store.root()), store.root(), "{context}");
        }
    }
}
