//! A draft reads as the state does once it is committed, and what is located in it names the same keys then.

use std::{collections::BTreeMap, sync::Arc};

use phalanx_merkle::{Backend, Delta, Error, Locator, Memory, Store, StoreConfig};
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u32 = 3000;

/// Short keys, and some that do not fit into records.
fn key(number: u32) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.resize([4, 20, 56, 120][number as usize % 4], 3);
    key
}

fn value(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let len = [1, 12, 32, 40, 41, 300][rng.random_range(0..6)];
    vec![rng.random(); len]
}

/// Changes of random keys: by name, or by what `locate` says; some of them twice, either way.
fn changes(rng: &mut ChaCha8Rng, state: &mut State, locate: impl Fn(&[u8]) -> Option<Locator>) -> Delta {
    let (mut delta, before) = (Delta::new(), state.clone());
    let how_many = [3, 400, 6000][rng.random_range(0..3)];
    for _ in 0..how_many {
        let key = key(rng.random_range(0..KEYS));
        let at = locate(&key).filter(|_| state.contains_key(&key) && rng.random_bool(0.7));
        let new = rng.random_bool(0.8).then(|| value(rng));
        match (at, &new) {
            (Some(at), Some(new)) if before.get(&key) != Some(new) && rng.random() => delta.change_at(at, new),
            (Some(at), Some(new)) => delta.put_at(at, new),
            (Some(at), None) => delta.delete_at(at),
            (None, Some(new)) => delta.put(&key, new),
            (None, None) => delta.delete(&key),
        }
        match new {
            Some(new) => _ = state.insert(key, new),
            None => _ = state.remove(&key),
        }
    }
    delta
}

/// A store with some of the keys.
fn filled(rng: &mut ChaCha8Rng, config: StoreConfig) -> (Store, State) {
    let mut state = State::new();
    let mut delta = Delta::new();
    for number in (0..KEYS).step_by(2) {
        let (key, value) = (key(number), value(rng));
        delta.put(&key, &value);
        state.insert(key, value);
    }
    let mut store = Store::open(config).expect("a store");
    let block = store.prepare(delta, 0).expect("a block");
    store.commit(block).expect("a block");
    (store, state)
}

fn chain_of_drafts(seed: u64, blocks: u64) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let (mut store, mut state) = filled(rng, StoreConfig::new(Backend::Mem));
    // Its changes are by locators of the committed state, those of the others by locators of the draft before.
    let mut delta = changes(rng, &mut state, |key| store.read().locate(key));
    for height in 1..blocks {
        let delta_of_block = Arc::new(delta);
        let draft = store.draft(Arc::clone(&delta_of_block)).expect("it is in memory");
        let mut located = BTreeMap::new();
        {
            let reader = store.read_draft(&draft).expect("the tip is the same");
            let keys: Vec<Vec<u8>> = (0..KEYS + 100).map(key).collect();
            let mut many = Vec::new();
            reader.get_many(keys.iter().map(Vec::as_slice), |found| {
                many.push(found.map(|(value, at)| (value.to_vec(), at)));
            });
            for (key, many) in keys.iter().zip(many) {
                let (value, at) = (reader.get(key), reader.locate(key));
                assert_eq!(value, state.get(key).map(Vec::as_slice), "seed {seed}, block {height}: {key:?}");
                assert_eq!(many, value.map(|value| (value.to_vec(), at)), "seed {seed}, block {height}: {key:?}");
                assert_eq!(at.is_some(), value.is_some() && store.read().locate(key).is_some());
                if let Some(at) = at {
                    assert_eq!(reader.value(at), value);
                    located.insert(key.clone(), at);
                }
            }
            assert_eq!(reader.tip().height(), Some(height - 1));
        }
        // Of what is the next state, while this one is not committed.
        let mut after = state.clone();
        let next = changes(rng, &mut after, |key| located.get(key).copied());
        let block = store.prepare(delta_of_block, height).expect("a block");
        store.commit(block).expect("a block");
        assert!(matches!(store.read_draft(&draft), Err(Error::Gone { .. })), "its block is committed");
        assert_eq!(store.len(), state.len());
        for (key, at) in located {
            assert_eq!(store.read().value(at), state.get(&key).map(Vec::as_slice));
            assert_eq!(store.read().locate(&key), Some(at), "it names the key when the block is committed");
        }
        (delta, state) = (next, after);
    }
}

#[test]
fn a_draft_reads_as_the_state_that_it_becomes() {
    for (threads, seeds) in [(1, 0..6), (4, 6..12)] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| seeds.for_each(|seed| chain_of_drafts(seed, 8)));
    }
}

/// One draft's marks are the next one's memory.
#[test]
fn a_thousand_drafts_in_a_row_do_not_mix() {
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let (store, state) = filled(rng, StoreConfig::new(Backend::Mem));
    let known: Vec<_> = state.keys().collect();
    for round in 0..1000u32 {
        let mut delta = Delta::new();
        let changed = known.choose(rng).expect("a key");
        delta.put_at(store.read().locate(changed).expect("it is there"), &round.to_be_bytes());
        let draft = store.draft(delta).expect("it is in memory");
        let reader = store.read_draft(&draft).expect("the tip is the same");
        assert_eq!(reader.get(changed), Some(&round.to_be_bytes()[..]));
        for other in known.choose_multiple(rng, 20).filter(|other| *other != changed) {
            assert_eq!(reader.get(other), Some(&state[*other][..]), "round {round}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_draft_is_said_when_it_is_prepared() {
    let rng = &mut ChaCha8Rng::seed_from_u64(2);
    let (mut store, state) = filled(rng, StoreConfig::new(Backend::Mem));
    let (key, value) = state.first_key_value().expect("there are keys");
    let at = store.read().locate(key).expect("it is there");
    let mut gone = Delta::new();
    gone.delete(key);
    let block = store.prepare(gone, 1).expect("a block");
    store.commit(block).expect("a block");
    let mut stale = Delta::new();
    stale.change_at(at, value);
    let stale = Arc::new(stale);
    let draft = store.draft(Arc::clone(&stale)).expect("it is in memory");
    let reader = store.read_draft(&draft).expect("the tip is the same");
    assert_eq!((reader.get(key), reader.locate(key), reader.value(at)), (None, None, None));
    assert!(matches!(store.prepare(stale, 2), Err(Error::StaleLocator)));
}

/// The numbers of operations are those of runs, which need not be full.
#[test]
fn more_changes_than_have_numbers_are_no_draft() {
    let mut store = Store::open(StoreConfig::new(Backend::Mem)).expect("a store");
    let mut first = Delta::new();
    first.put(b"key", b"first");
    let block = store.prepare(first, 0).expect("a block");
    store.commit(block).expect("a block");
    let at = store.read().locate(b"key").expect("it is there");
    // As long as is not copied behind another one.
    let mut run = Delta::new();
    (0..512u32).for_each(|number| run.put_at(at, &number.to_be_bytes()));
    let mut delta = Delta::new();
    (0..4000).for_each(|_| delta.append(run.clone()));
    delta.put_at(at, b"last");
    assert!(store.takes_draft(&delta));
    let draft = store.draft(delta.clone()).expect("few enough");
    assert_eq!(store.read_draft(&draft).expect("the tip is the same").get(b"key"), Some(&b"last"[..]));
    (0..200).for_each(|_| delta.append(run.clone()));
    assert!(!store.takes_draft(&delta) && store.draft(delta).is_none());
}

/// Each has marks of its own.
#[test]
fn two_drafts_at_once_do_not_mix() {
    let rng = &mut ChaCha8Rng::seed_from_u64(4);
    let (store, state) = filled(rng, StoreConfig::new(Backend::Mem));
    let key = state.first_key_value().expect("there are keys").0;
    let at = store.read().locate(key).expect("it is there");
    for round in 0..300u32 {
        let drafts = [round, round + 1].map(|value| {
            let mut delta = Delta::new();
            delta.put_at(at, &value.to_be_bytes());
            store.draft(delta).expect("it is in memory")
        });
        for (value, draft) in (round..).zip(&drafts) {
            let reader = store.read_draft(draft).expect("the tip is the same");
            assert_eq!(reader.get(key), Some(&value.to_be_bytes()[..]));
        }
    }
}

#[test]
fn drafts_are_of_one_store_and_of_states_in_memory() {
    let rng = &mut ChaCha8Rng::seed_from_u64(3);
    let (store, _) = filled(rng, StoreConfig::new(Backend::Mem));
    let (other, _) = filled(rng, StoreConfig::new(Backend::Mem));
    let draft = store.draft(Delta::new()).expect("it is in memory");
    assert!(matches!(other.read_draft(&draft), Err(Error::Gone { .. })));
    let before = store.memory();
    drop(draft);
    let marks = store.memory().drafts;
    assert!(before.drafts == 0 && (4 * store.len()..16 * store.len()).contains(&marks), "{marks}");
    let dir = tempfile::tempdir().expect("a directory");
    let on_disk = StoreConfig::new(Backend::File(dir.path().into())).with_memory(Memory::Cached { bytes: 1 << 16 });
    let (paged, _) = filled(rng, on_disk);
    assert!(paged.draft(Delta::new()).is_none() && !paged.takes_draft(&Delta::new()));
}
