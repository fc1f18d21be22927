//! Readers, exporters and a scrubber beside a writer: every answer is of one height.
//!
//! `PHALANX_BLOCKS=10000` is the long run.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use phalanx_merkle::{
    Backend, Delta, Error, Memory, Params, Snapshot, Store, StoreConfig, snapshot::Chunk, verify_inclusion,
};

const KEYS: u64 = 24;

fn delta(height: u64) -> Delta {
    let mut delta = Delta::new();
    for key in 0..KEYS {
        delta.put(&key.to_be_bytes(), &(height * 1000 + key).to_be_bytes());
    }
    delta
}

/// Reads all keys, and proves one, at one height.
fn consistent(snapshot: &Snapshot) -> Result<u64, Error> {
    let reader = snapshot.read()?;
    let height = reader.height().expect("a block");
    for key in 0..KEYS {
        let value = reader.get(&key.to_be_bytes()).map(<[u8]>::to_vec);
        reader.check()?;
        assert_eq!(value.as_deref(), Some(&(height * 1000 + key).to_be_bytes()[..]), "key {key} at height {height}");
    }
    match reader.prove(&3u64.to_be_bytes()) {
        Ok(proof) => {
            let (proof, root) = (proof.expect("the key exists"), reader.root());
            let entry = verify_inclusion(reader.params(), &root, &proof).expect("a proof");
            assert_eq!((entry.value, entry.height), (&(height * 1000 + 3).to_be_bytes()[..], height));
        }
        Err(Error::NotWritten) => {}
        Err(error) => return Err(error),
    }
    Ok(height)
}

fn beside(backend: Backend, memory: Memory, blocks: u64) {
    let config = StoreConfig::new(backend).with_params(Params::default()).with_memory(memory);
    let mut store = Store::open(config.with_checkpoint_bytes(1 << 18)).expect("a store");
    let commit = |store: &mut Store, height| {
        let prepared = store.prepare(delta(height), height).expect("a block");
        store.commit(prepared).expect("a block");
    };
    commit(&mut store, 0);
    let newest = Mutex::new(store.snapshot(store.tip()).expect("the tip"));
    let (background, done, read) = (store.background(), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Relaxed) {
                    let snapshot = newest.lock().expect("no panic").clone();
                    match consistent(&snapshot) {
                        Ok(height) => {
                            assert!(height >= last, "time goes on");
                            last = height;
                            read.fetch_add(1, Relaxed);
                        }
                        Err(Error::Gone { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let made_chunks = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Relaxed) {
                let block = newest.lock().expect("no panic").block();
                let made = background.exporter(block).and_then(|exporter| {
                    let chunk = exporter.chunk(exporter.manifest().chunks() - 1)?;
                    Ok((*exporter.manifest(), chunk))
                });
                match made {
                    Ok((manifest, chunk)) => {
                        let number = manifest.chunks() - 1;
                        let chunk =
                            Chunk::verify(&manifest, &Default::default(), number, &chunk).expect("it is proven");
                        assert!(chunk.entries().all(|proven| proven.entry.height <= manifest.height));
                        count += 1;
                    }
                    Err(Error::Gone { .. } | Error::NotWritten) => {}
                    Err(error) => panic!("{error}"),
                }
                background.check().expect("a sound store");
            }
            count
        });
        for height in 1..=blocks {
            commit(&mut store, height);
            *newest.lock().expect("no panic") = store.snapshot(store.tip()).expect("the tip");
            if height % 100 == 0 {
                store.prune().expect("a prune");
            }
        }
        done.store(true, Relaxed);
        assert!(made_chunks.join().expect("no panic") > 0, "no chunk was made beside the writer");
    });
    assert!(read.load(Relaxed) > 0);
    assert_eq!(store.height(), Some(blocks));
}

#[test]
fn every_answer_beside_a_writer_is_of_one_height() {
    let blocks = std::env::var("PHALANX_BLOCKS").ok().and_then(|blocks| blocks.parse().ok()).unwrap_or(500);
    let dir = crate::common::folder();
    beside(Backend::File(dir.path().join("file")), Memory::Resident, blocks);
    beside(Backend::File(dir.path().join("paged")), Memory::Cached { bytes: 1 << 20 }, blocks);
    #[cfg(feature = "rocksdb")]
    beside(Backend::Rocks(dir.path().join("rocks")), Memory::Resident, blocks);
}
