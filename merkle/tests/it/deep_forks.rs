//! Long chains of uncommitted blocks of every size, whose lowest blocks are committed while new ones come on top: each has
//! the root, the values and the proofs that it has as a committed block.

use std::collections::BTreeMap;

use phalanx_merkle::{Backend, BlockId, Delta, HashFn, Memory, Reader, Store};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::common::config;

type Values = BTreeMap<Vec<u8>, Vec<u8>>;
type Block = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Changes of many sizes, among few keys, so that keys are deleted and created again.
fn block(rng: &mut ChaCha8Rng) -> Block {
    let count = [1, 2, 3, 30, 300, 2_000][rng.random_range(0..6)];
    let change = |rng: &mut ChaCha8Rng| {
        let key = rng.random_range(0..4_000u32).to_be_bytes().to_vec();
        (key, rng.random_bool(0.7).then(|| rng.random::<[u8; 12]>().to_vec()))
    };
    let changes: BTreeMap<_, _> = (0..count).map(|_| change(rng)).collect();
    changes.into_iter().collect()
}

fn delta(block: &Block) -> Delta {
    let mut delta = Delta::new();
    for (key, value) in block {
        match value {
            Some(value) => delta.put(key, value),
            None => delta.delete(key),
        }
    }
    delta
}

/// Proofs of a whole state in key order, of one key, and of its absence.
fn proofs(reader: &Reader<'_>, key: &[u8]) -> Vec<Vec<u8>> {
    let mut proofs = Vec::new();
    let mut from = [0; 32];
    while from != [0xff; 32] {
        let (proof, next) = reader.prove_range(&from, &[0xff; 32], 997).expect("a proof");
        proofs.push(proof);
        from = next;
    }
    proofs.extend(reader.prove(key).expect("a proof"));
    proofs.extend(reader.prove_absence(key).expect("a proof"));
    proofs
}

fn run(memory: Memory, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let dirs = [crate::common::folder(), crate::common::folder()];
    let open = |dir: &tempfile::TempDir| {
        let backend = Backend::File(dir.path().to_path_buf());
        Store::open(config(&backend, HashFn::Blake3).with_memory(memory)).expect("a store")
    };
    // One store keeps forks, the other commits the same blocks one by one.
    let (mut forked, mut straight) = (open(&dirs[0]), open(&dirs[1]));
    let mut values = Values::new();
    let mut chain: Vec<(BlockId, Values)> = Vec::new();
    let (mut height, mut deepest) = (0, 0);
    for step in 0..110u64 {
        let context = format!("seed {seed} {memory:?} step {step}");
        let changes = block(&mut rng);
        for (key, value) in &changes {
            match value {
                Some(value) => _ = values.insert(key.clone(), value.clone()),
                None => _ = values.remove(key),
            }
        }
        let parent = chain.last().map_or_else(|| forked.tip(), |(block, _)| *block);
        let prepared = forked.prepare_on(parent, delta(&changes)).expect(&context);
        let expected = straight.prepare(delta(&changes), step).expect(&context);
        assert_eq!(prepared.root(), expected.root(), "{context}");
        straight.commit(expected).expect(&context);
        chain.push((forked.add_fork(prepared).expect(&context), values.clone()));
        deepest = deepest.max(chain.len());

        let at = rng.random_range(0..chain.len());
        let (id, values) = &chain[at];
        let snapshot = forked.snapshot(*id).expect(&context);
        let reader = snapshot.read().expect(&context);
        assert_eq!((reader.len(), reader.height()), (values.len(), Some(height + at as u64)), "{context}");
        for _ in 0..40 {
            let key = rng.random_range(0..4_000u32).to_be_bytes();
            assert_eq!(reader.get(&key), values.get(&key[..]).map(Vec::as_slice), "{context}");
        }
        drop(reader);
        if step % 11 == 10 {
            let (tip, _) = chain[chain.len() - 1];
            let (theirs, ours) =
                (straight.snapshot(straight.tip()).expect(&context), forked.snapshot(tip).expect(&context));
            let key = rng.random_range(0..4_000u32).to_be_bytes();
            let (theirs, ours) = (theirs.read().expect(&context), ours.read().expect(&context));
            assert_eq!(proofs(&ours, &key), proofs(&theirs, &key), "{context}");
            let change = delta(&block(&mut rng));
            assert_eq!(ours.witness(&change).expect(&context), theirs.witness(&change).expect(&context), "{context}");
        }
        // A sibling, which goes again.
        if step % 7 == 0 {
            let (parent, _) = chain[rng.random_range(0..chain.len())];
            let beside = forked.prepare_on(parent, delta(&block(&mut rng))).expect(&context);
            match forked.add_fork(beside) {
                Ok(beside) => assert_eq!(forked.discard_fork(beside).expect(&context), 1, "{context}"),
                Err(phalanx_merkle::Error::TooDeep { .. }) => assert_eq!(chain.len(), 64, "{context}"),
                Err(error) => panic!("{context}: {error}"),
            }
        }
        let most = if step < 70 { 60 } else { 3 };
        while chain.len() > most || (chain.len() > 1 && rng.random_bool(0.2)) {
            let (id, _) = chain.remove(0);
            forked.apply_fork(id).expect(&context).write().expect(&context);
            height += 1;
            assert_eq!(forked.forks().len(), chain.len(), "{context}");
        }
    }
    assert!(deepest > 8, "seed {seed}: {deepest}");
    for (id, _) in chain {
        forked.apply_fork(id).expect("a block").write().expect("a write");
    }
    assert_eq!(forked.root(), straight.root(), "seed {seed}");
}

#[test]
fn forks_of_every_depth_equal_committed_blocks() {
    let seeds = std::env::var("PHALANX_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2);
    for seed in 0..seeds {
        run(Memory::Resident, seed);
        run(Memory::Cached { bytes: 1 << 19 }, seed);
    }
}

/// A block that changes little takes little memory, and a chain takes what its blocks change.
#[test]
fn forks_take_memory_for_their_own_changes() {
    let mut store = Store::open(config(&Backend::Mem, HashFn::Blake3)).expect("a store");
    let change = |block: u64, count: u64| {
        let mut delta = Delta::new();
        (0..count).for_each(|key| delta.put(&(block << 32 | key).to_be_bytes(), &[block as u8; 40]));
        delta
    };
    store.commit(store.prepare(change(1_000, 300_000), 0).expect("a block")).expect("a commit");
    let small = |store: &mut Store, parent| {
        let prepared = store.prepare_on(parent, change(2_000, 3)).expect("a block");
        let id = store.add_fork(prepared).expect("a fork");
        let bytes = store.fork_memory(id).expect("a fork");
        store.discard_fork(id).expect("it is there");
        bytes
    };
    let tip = store.tip();
    let shallow = small(&mut store, tip);
    let mut parent = tip;
    let mut sizes = Vec::new();
    for block in 0..60 {
        let prepared = store.prepare_on(parent, change(block, 5_000)).expect("a block");
        parent = store.add_fork(prepared).expect("a fork");
        sizes.push(store.fork_memory(parent).expect("a fork"));
    }
    let deep = small(&mut store, parent);
    assert!(deep < 2 * shallow, "{deep} bytes on 60 forks, {shallow} on the committed block");
    // Old keys are in blocks of theirs beside the new ones, in a random place, so a fork changes 10,000 keys.
    assert!(sizes.iter().all(|bytes| *bytes < 10_000 * 700), "{sizes:?}");
    assert!(sizes[59] < 2 * sizes[0], "{sizes:?}");
}
