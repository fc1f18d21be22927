//! What the store proves is so, and nothing else can be proven with its proofs.

use crate::common::{Model, chain_ops, delta_of, open};
use phalanx_merkle::{Backend, HashFn, Params, verify_inclusion};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

fn proves(backend: &Backend, function: HashFn, seed: u64) {
    let params = Params::with_hash(function);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut model = Model::new(function);
    let mut store = open(backend, function);
    for height in 0..40 {
        let context = format!("{backend:?} {function} seed {seed} height {height}");
        let ops = chain_ops(seed, height);
        model.block(&ops);
        let prepared = store.prepare(delta_of(&store, &ops, &mut rng), height).expect(&context);
        store.commit(prepared).expect(&context);
        if *backend != Backend::Mem && height % 10 == 9 {
            drop(store);
            store = open(backend, function);
        }
        let root = *model.roots.last().expect("a block");
        let old = model.roots.iter().rev().find(|old| **old != root);
        for (key, value) in &model.state {
            if !rng.random_bool(0.05) {
                continue;
            }
            let proof = store.read().prove(key).expect(&context).expect(&context);
            let entry = verify_inclusion(&params, &root, &proof).expect(&context);
            assert_eq!((entry.key, entry.value), (&key[..], &value[..]), "{context}");
            if let Some(old) = old {
                assert!(verify_inclusion(&params, old, &proof).is_err(), "{context}: of another root");
            }
            if rng.random_bool(0.02) {
                for at in 0..proof.len() {
                    let mut changed = proof.clone();
                    changed[at] ^= 1 << rng.random_range(0..8);
                    assert!(verify_inclusion(&params, &root, &changed).is_err(), "{context} byte {at}");
                }
            }
        }
        assert_eq!(store.read().prove(b"no such key").expect(&context), None);
    }
}

#[test]
fn memory_proves() {
    for (function, seed) in [HashFn::Sha256, HashFn::Keccak256, HashFn::Blake3].into_iter().zip(40..) {
        proves(&Backend::Mem, function, seed);
    }
}

#[test]
fn file_proves() {
    let dir = tempfile::tempdir().expect("a directory");
    proves(&Backend::File(dir.path().to_path_buf()), HashFn::Sha256, 50);
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_proves() {
    let dir = tempfile::tempdir().expect("a directory");
    proves(&Backend::Rocks(dir.path().to_path_buf()), HashFn::Sha256, 51);
}
