//! Changes of a block as they are handed out: before it is applied, of a fork, and of a committed block from its log.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_merkle::{Backend, BlockId, Delta, Error, Memory, Store, StoreConfig};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

type State = BTreeMap<Vec<u8>, Vec<u8>>;
type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Random changes, some of which change nothing, and the state after them.
fn turn(rng: &mut ChaCha8Rng, state: &State, ops: usize) -> (Delta, State) {
    let (mut delta, mut after) = (Delta::new(), state.clone());
    for _ in 0..ops {
        let key = rng.random_range(0..3000u32).to_be_bytes().to_vec();
        if rng.random_bool(0.3) {
            delta.delete(&key);
            after.remove(&key);
        } else {
            let value = vec![rng.random_range(0..3u8); rng.random_range(1..60)];
            delta.put(&key, &value);
            after.insert(key, value);
        }
    }
    (delta, after)
}

/// Keys whose values differ.
fn differences(before: &State, after: &State) -> Changes {
    let keys: BTreeSet<&Vec<u8>> = before.keys().chain(after.keys()).collect();
    let differs = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    differs.map(|key| (key.clone(), after.get(key).cloned())).collect()
}

/// Checks that changes hold every difference, and beside them values that are the same after the block.
fn check_covers(store: &Store, block: BlockId, wanted: &Changes, after: &State) {
    let mut found = Changes::new();
    let visited = store.changes_of(block, |key, value| {
        found.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        Ok::<_, Error>(())
    });
    visited.expect("readable");
    assert!(wanted.iter().all(|(key, value)| found.get(key) == Some(value)));
    assert!(found.iter().all(|(key, value)| value.as_ref() == after.get(key)));
}

fn live(memory: Memory, seed: u64) {
    println!("seed {seed}, {memory:?}");
    let dir = tempfile::tempdir().expect("a directory");
    let config = StoreConfig::new(Backend::File(dir.path().into())).with_memory(memory).with_history(4);
    let mut store = Store::open(config.clone()).expect("a store");
    let (mut rng, mut state, mut last) = (ChaCha8Rng::seed_from_u64(seed), State::new(), Vec::new());
    for height in 0..24u64 {
        let ops = [0, 3, 200, 4000][rng.random_range(0..4)];
        let (delta, after) = turn(&mut rng, &state, ops);
        let prepared = store.prepare_on(store.tip(), delta).expect("a block");
        let (wanted, mut found) = (differences(&state, &after), Changes::new());
        for part in 0..prepared.parts() {
            prepared.changes_of(part, |key, value| {
                let before = found.insert(key.to_vec(), value.map(<[u8]>::to_vec));
                assert_eq!(before, None, "each key is handed out once");
            });
        }
        assert!(found == wanted, "height {height}, {ops} operations");
        let block = store.add_fork(prepared).expect("room");
        check_covers(&store, block, &wanted, &after);
        if rng.random_bool(0.7) {
            store.apply_fork(block).expect("a child of the tip").write().expect("written");
            last.push((block, wanted, after.clone()));
            state = after;
        } else {
            store.discard_fork(block).expect("it is there");
            assert!(matches!(store.changes_of(block, |_, _| Ok::<_, Error>(())), Err(Error::Gone { .. })));
        }
        if rng.random_bool(0.2) {
            drop(store);
            store = Store::open(config.clone()).expect("a store");
        }
        for (block, wanted, after) in last.iter().rev().take(4) {
            check_covers(&store, *block, wanted, after);
        }
    }
    let (oldest, ..) = &last[0];
    assert!(
        matches!(store.changes_of(*oldest, |_, _| Ok::<_, Error>(())), Err(Error::Gone { .. })),
        "out of the history"
    );
}

#[test]
fn changes_are_the_keys_whose_values_differ() {
    for seed in 0..6 {
        live(if seed % 2 == 0 { Memory::Resident } else { Memory::Cached { bytes: 1 << 20 } }, seed);
    }
}
