//! A block verified from a witness has the store's root, and no other witness is accepted.

use crate::{
    common::{Op, delta_of, open, plain, random_memory, random_ops},
    model::FUNCTIONS,
};
use phalanx_merkle::{
    Backend, Change, Compaction, Delta, HashFn, Memory, Params, ProofError, Sentinels, Store, StoreConfig,
    verify_transition,
};
use rand::{Rng as _, SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;

fn changes(ops: &[Op]) -> Vec<Change<'_>> {
    ops.iter().map(|(key, value)| (&key[..], value.as_deref())).collect()
}

/// Seeds that the environment asks for, from the first on.
fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("PHALANX_MERKLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + number("PHALANX_MERKLE_RUNS").unwrap_or(count),
    }
}

fn params(rng: &mut ChaCha8Rng, seed: u64) -> Params {
    Params {
        hash: FUNCTIONS[seed as usize % FUNCTIONS.len()],
        sentinels: Sentinels::new([0, 3, 8, 11, 12][seed as usize % 5]).expect("few sentinels"),
        compaction: Compaction { extra: rng.random_range(0..3000), ..Compaction::default() },
    }
}

/// Verifies random blocks from the root before each. Returns true if compaction moved entries.
fn follows(backend: &Backend, seed: u64, blocks: u64) -> bool {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let params = params(&mut rng, seed);
    let config = StoreConfig::new(backend.clone()).with_params(params).with_memory(random_memory(&mut rng));
    let mut store = Store::open(config).expect("a store");
    let mut moved = false;
    for height in 0..blocks {
        let context = format!("{backend:?} seed {seed} height {height}");
        let mut ops = random_ops(&mut rng);
        if rng.random_bool(0.1) {
            ops.iter_mut().for_each(|(_, value)| *value = None);
        }
        let (parent, delta) = (store.root(), delta_of(&store, &ops, &mut rng));
        let witness = store.read().witness(&delta).expect(&context);
        let prepared = store.prepare(delta, height).expect(&context);
        let root = verify_transition(&params, &parent, height, &changes(&ops), &witness);
        assert_eq!(root, Ok(prepared.root()), "{context}");

        // The order of changes to different keys does not matter.
        let mut sorted: Vec<Op> =
            ops.iter().cloned().collect::<std::collections::BTreeMap<_, _>>().into_iter().collect();
        sorted.shuffle(&mut rng);
        let again = verify_transition(&params, &parent, height, &changes(&sorted), &witness);
        assert_eq!(again, Ok(prepared.root()), "{context}");
        spoil(&store, &sorted, &witness, prepared.root(), &mut rng, &context);
        store.commit(prepared).expect(&context);
        moved |= store.shape().floor > 0;
    }
    moved
}

/// Asserts that no changed witness is accepted, and that a changed block leads to another root or an error.
fn spoil(store: &Store, ops: &[Op], witness: &[u8], root: [u8; 32], rng: &mut ChaCha8Rng, context: &str) {
    let (params, parent) = (store.params(), &store.root());
    let height = store.height().map_or(0, |height| height + 1);
    let verify = |witness: &[u8]| verify_transition(params, parent, height, &changes(ops), witness);
    for round in 0..6 {
        let mut changed = witness.to_vec();
        // The head, whose fields matter most, or anything.
        let at = rng.random_range(0..if round % 2 == 0 { 41.min(witness.len()) } else { witness.len() });
        changed[at] ^= 1 << rng.random_range(0..8);
        assert!(verify(&changed).is_err(), "{context} byte {at}");
        assert!(verify(&witness[..at]).is_err(), "{context} cut at {at}");
        let (from, to) = (rng.random_range(0..witness.len()), rng.random_range(0..witness.len()));
        let shifted = [&witness[..from], &witness[to..]].concat();
        assert!(shifted == witness || verify(&shifted).is_err(), "{context} {from} to {to}");
    }
    assert!(verify(&[witness, &[0; 32]].concat()).is_err(), "{context} longer");
    let mut other = *parent;
    other[rng.random_range(0..32)] ^= 1;
    let changes_of_all = changes(ops);
    let foreign = verify_transition(params, &other, height, &changes_of_all, witness);
    assert_eq!(foreign, Err(ProofError::Root), "{context}");
    let Some(at) = rng.random_range(0..=ops.len()).checked_sub(1) else { return };
    let mut fewer = ops.to_vec();
    fewer.remove(at);
    // An entry that only the removed change needed is now superfluous.
    let expected = store.prepare(delta_of(store, &fewer, rng), height).expect(context).root();
    let result = verify_transition(params, parent, height, &changes(&fewer), witness);
    assert!(result.is_err() || result == Ok(expected), "{context} without {at}: {result:?}");
    let mut more = ops.to_vec();
    more.push((vec![0xab; 9], Some(vec![1])));
    let result = verify_transition(params, parent, height, &changes(&more), witness);
    assert_ne!(result, Ok(root), "{context} with one more");
}

#[test]
fn memory_follows() {
    let moved = seeds(500, 6).filter(|seed| follows(&Backend::Mem, *seed, 30)).count();
    assert!(moved > 0, "no block moved anything");
}

#[test]
fn file_follows() {
    for seed in seeds(520, 2) {
        let dir = crate::common::folder();
        follows(&Backend::File(dir.path().to_path_buf()), seed, 30);
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_follows() {
    for seed in seeds(540, 2) {
        let dir = crate::common::folder();
        follows(&Backend::Rocks(dir.path().to_path_buf()), seed, 20);
    }
}

/// Verifies blocks on forks, and on earlier blocks.
fn follows_beside(backend: Backend, memory: Memory, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let config = StoreConfig::new(backend).with_params(Params::with_hash(HashFn::Sha256)).with_memory(memory);
    let mut store = Store::open(config).expect("a store");
    let params = *store.params();
    for round in 0..20u64 {
        let mut parent = store.tip();
        for depth in 0..3 {
            let ops = random_ops(&mut rng);
            let snapshot = store.snapshot(parent).expect("a held block");
            let (root, witness) = {
                let reader = snapshot.read().expect("a held block");
                (reader.root(), reader.witness(&plain(&ops)).expect("a witness"))
            };
            let prepared = store.prepare_on(parent, plain(&ops)).expect("a block");
            let verified = verify_transition(&params, &root, prepared.height(), &changes(&ops), &witness);
            assert_eq!(verified, Ok(prepared.root()), "seed {seed} round {round} depth {depth}");
            let before = store.snapshot(parent).expect("a held block");
            let height = prepared.height();
            let expected = prepared.root();
            parent = store.add_fork(prepared).expect("a held block");
            if depth == 0 {
                store.apply_fork(parent).expect("a block").write().expect("a write");
                // The same from a later tip.
                let late = before.read().expect("kept").witness(&plain(&ops)).expect("a witness");
                assert_eq!(late, witness, "seed {seed} round {round}");
                assert_eq!(verify_transition(&params, &root, height, &changes(&ops), &late), Ok(expected));
            }
        }
    }
}

#[test]
fn forks_and_earlier_blocks_have_witnesses() {
    follows_beside(Backend::Mem, Memory::Resident, 560);
    let dir = crate::common::folder();
    follows_beside(Backend::File(dir.path().to_path_buf()), Memory::Cached { bytes: 2000 }, 561);
}

#[test]
fn a_block_without_effect_needs_only_the_entries_that_show_it() {
    let mut store = open(&Backend::Mem, HashFn::Sha256);
    let mut delta = Delta::new();
    delta.put(b"a", b"1");
    let prepared = store.prepare(delta, 0).expect("a block");
    store.commit(prepared).expect("a block");
    let (root, params) = (store.root(), *store.params());
    let empty = store.read().witness(&Delta::new()).expect("a witness");
    assert_eq!(verify_transition(&params, &root, 1, &[], &empty), Ok(root));
    let mut delta = Delta::new();
    delta.put(b"a", b"1");
    delta.delete(b"b");
    let witness = store.read().witness(&delta).expect("a witness");
    let same: [Change<'_>; 2] = [(b"a", Some(b"1")), (b"b", None)];
    assert_eq!(verify_transition(&params, &root, 1, &same, &witness), Ok(root));
    assert_eq!(verify_transition(&params, &root, 1, &[], &witness), Err(ProofError::Other), "more than is needed");
    assert_eq!(verify_transition(&params, &root, 1, &same, &empty), Err(ProofError::Other), "less than is needed");
    let long = [0; 256];
    let too_long = verify_transition(&params, &root, 1, &[(&long, None)], &empty);
    assert_eq!(too_long, Err(ProofError::TooLong));
}
