//! Applying and rolling back give the same state on any number of threads.

use std::collections::BTreeMap;

use rand::{Rng as _, SeedableRng as _, seq::IteratorRandom as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{
    parallel::Par,
    state::State,
    store::{Prepared, Snapshot, Store},
    types::{Backend, Delta, StoreConfig},
};
use phalanx_merkle_proof::Hash;

/// Blocks that can be rewound.
const WINDOW: usize = 3;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys and values in the order of their places.
type Places = Vec<(Vec<u8>, Vec<u8>)>;

fn key(number: u32) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.resize([8, 20, 52, 120][number as usize % 4], 7);
    key
}

/// Random value that is stored in its key's record, beside it, or elsewhere, unlike the value before.
fn value(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let len = [0, 9, 30, 32, 45, 200][rng.random_range(0..6)];
    vec![rng.random(); len]
}

/// Delta of a block, and the model after it.
fn block(rng: &mut ChaCha8Rng, before: &Model, height: u64) -> (Delta, Model) {
    let (mut delta, mut model) = (Delta::new(), before.clone());
    if height == 0 {
        (0..12_000).for_each(|number| _ = model.insert(key(number), value(rng)));
        model.iter().for_each(|(key, value)| delta.put(key, value));
        return (delta, model);
    }
    for key in before.keys().choose_multiple(rng, 300) {
        delta.delete(key);
        model.remove(key);
    }
    let fresh: Vec<Vec<u8>> = (0..400).map(|_| key(rng.random_range(12_000..20_000))).collect();
    let known: Vec<Vec<u8>> = model.keys().cloned().choose_multiple(rng, 6500);
    for key in known.into_iter().chain(fresh) {
        let value = value(rng);
        delta.put(&key, &value);
        model.insert(key, value);
    }
    (delta, model)
}

fn resident<R>(store: &Store, visit: impl FnOnce(&Resident) -> R) -> R {
    match &store.core().state {
        State::Resident(state) => visit(state),
        State::Paged(_) => unreachable!("it is in memory"),
    }
}

/// Asserts that a block is written in several parts, each record in the part that has it.
fn is_cut(store: &Store, prepared: &Prepared, threads: usize) {
    let effect = &prepared.effect;
    let ahead = resident(store, |state| ApplyPlan::of(state, effect, Par::UNOBSERVED));
    assert_eq!(ahead.is_some(), threads > 1, "{threads} threads");
    let Some(ApplyPlan { each, ranks, owners, .. }) = ahead else { return };
    let mut seen = vec![0; threads * PARTS_PER_THREAD];
    for (rank, part) in ranks
        .iter()
        .flat_map(|by_part| by_part.iter().zip(0..))
        .flat_map(|(ranks, part)| ranks.iter().map(move |rank| (*rank, part)))
    {
        let (Entry::Linked(id, _) | Entry::Moved(id)) = entry(effect, rank as usize) else {
            panic!("it has no record")
        };
        assert_eq!(id as usize / each, part);
        seen[part] += 1;
    }
    for (rank, id) in owners.into_iter().flatten().enumerate() {
        match entry(effect, rank) {
            Entry::Linked(owner, _) | Entry::Moved(owner) => assert_eq!(id, owner, "position {rank}"),
            Entry::New => assert_eq!(id, NO_ID, "position {rank}"),
        }
    }
    let known =
        (0..effect.linked.len() + effect.moves.len()).filter(|rank| !matches!(entry(effect, *rank), Entry::New));
    assert_eq!(seen.iter().sum::<usize>(), known.count());
    // Spread evenly, though the records are in few chunks.
    let (some, most) = (seen.iter().filter(|count| **count > 0).count(), seen.iter().max().copied().unwrap_or(0));
    assert!(some > threads && most < seen.iter().sum::<usize>() / 2, "{threads} threads: {seen:?}");
}

fn equals(store: &Store, models: &[Model], history: usize, context: &str) {
    let last = models.len() - 1;
    let all = |snapshot: &Snapshot, model: &Model| {
        let reader = snapshot.read().expect("it can be read");
        model.iter().for_each(|(key, value)| assert_eq!(reader.get(key), Some(&value[..]), "{context}"));
        assert_eq!(reader.len(), model.len(), "{context}");
    };
    for depth in 0..=history.min(last - 1) {
        let id = store.block_at((last - depth) as u64 - 1).expect("a block");
        all(&store.snapshot(id).expect("a view"), &models[last - depth]);
    }
    let gone = models.iter().flat_map(BTreeMap::keys).filter(|key| !models[last].contains_key(*key));
    gone.for_each(|key| assert_eq!(store.read().get(key), None, "{context}"));
}

/// Roots, and all entries in the order of their places.
fn run(seed: u64, threads: usize) -> Vec<(Hash, Places)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut store = Store::open(StoreConfig::new(Backend::Mem).with_history(WINDOW).with_salt(1)).expect("a store");
    let (mut models, mut states, mut history) = (vec![Model::new()], Vec::new(), 0);
    let mut deltas: Vec<Delta> = Vec::new();
    for step in 0..9u64 {
        let height = models.len() as u64 - 1;
        let (delta, model) = block(&mut rng, &models[height as usize], height);
        deltas.push(delta.clone());
        let prepared = store.prepare(delta, height).expect("a block");
        if height > 0 {
            is_cut(&store, &prepared, threads);
        }
        store.commit(prepared).expect("a block");
        models.push(model);
        let context = format!("seed {seed} step {step} on {threads} threads");
        history = (history + 1).min(WINDOW);
        equals(&store, &models, history, &context);
        if step % 4 == 3 {
            let back = rng.random_range(1..=history);
            history -= back;
            models.truncate(models.len() - back);
            deltas.truncate(deltas.len() - back);
            store.rewind(Some(models.len() as u64 - 2)).expect("a way back").write().expect("a write");
            equals(&store, &models, history, &context);
        }
        let all = |state: &Resident| state.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        states.push((store.root(), resident(&store, all)));
    }
    // A store that was never rewound has the same entries and the same key order.
    let mut straight = Store::open(StoreConfig::new(Backend::Mem).with_history(0).with_salt(2)).expect("a store");
    for (height, delta) in (0..).zip(deltas) {
        let prepared = straight.prepare(delta, height).expect("a block");
        straight.commit(prepared).expect("a block");
    }
    assert_eq!(straight.root(), store.root(), "seed {seed} on {threads} threads");
    states
}

#[test]
fn blocks_are_applied_and_rolled_back_alike_on_any_number_of_threads() {
    for seed in 0..2 {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| run(seed, threads))
        };
        let one = on(1);
        for threads in [2, 3, 8] {
            assert!(on(threads) == one, "seed {seed}: {threads} threads");
        }
    }
}

#[test]
fn few_entries_are_written_by_one_thread() {
    let least = |writers: usize| (writers * THREAD_NANOS).div_ceil(WRITE_NANOS);
    assert_eq!([0, 1, least(2) - 1, least(2), least(9)].map(writers), [1, 1, 1, 2, 9]);
    assert_eq!(writers(1 << 30), MAX_THREADS);
}
