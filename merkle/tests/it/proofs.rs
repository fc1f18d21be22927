//! The store proves only true claims, and its proofs prove nothing else.

use crate::{
    common::{Model, chain_ops, delta_of, open},
    model::FUNCTIONS,
};
use phalanx_merkle::{
    Backend, Change, Delta, HashFn, Params, Sentinels, Store, StoreConfig, verify_exclusion, verify_inclusion,
    verify_keys, verify_range, verify_transition, verify_version,
};
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

/// Every bit of a proof of every kind counts, and so does its length.
#[test]
fn no_changed_proof_is_accepted() {
    for function in FUNCTIONS {
        let sentinels = Sentinels::new(1).expect("few sentinels");
        let params = Params { sentinels, ..Params::with_hash(function) };
        let mut store = Store::open(StoreConfig::new(Backend::Mem).with_params(params)).expect("a store");
        let key = |i: u32| i.to_be_bytes();
        for height in 0..3 {
            let mut delta = Delta::new();
            (0..40).filter(|i| height == 0 || i % 3 == height).for_each(|i| delta.put(&key(i), &key(i * height)[3..]));
            delta.delete(&key(height));
            let prepared = store.prepare(delta, u64::from(height)).expect("a block");
            store.commit(prepared).expect("a block");
        }
        let (root, reader) = (store.root(), store.read());
        let (there, gone, mixed) = (key(20), key(1), [key(5), key(1), key(30), key(99)]);
        let changes: [Change<'_>; 3] = [(&there, Some(b"new")), (&gone, Some(b"back")), (&mixed[2], None)];
        let mut delta = Delta::new();
        for (key, value) in changes {
            match value {
                Some(value) => delta.put(key, value),
                None => delta.delete(key),
            }
        }
        let (from, to) = ([0x20; 32], [0x60; 32]);
        let (range, end) = reader.prove_range(&from, &to, 10).expect("a proof");
        let inclusion = reader.prove(&there).expect("a proof").expect("the key exists");
        type Accepts<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;
        let kinds: [(&str, Vec<u8>, Accepts<'_>); 6] = [
            ("inclusion", inclusion.clone(), Box::new(|proof| verify_inclusion(&params, &root, proof).is_ok())),
            ("version", inclusion, Box::new(|proof| verify_version(&params, &root, proof).is_ok())),
            (
                "exclusion",
                reader.prove_absence(&gone).expect("a proof").expect("no such key"),
                Box::new(|proof| verify_exclusion(&params, &root, &gone, proof).is_ok()),
            ),
            (
                "multi",
                reader.prove_keys(&mixed).expect("a proof"),
                Box::new(|proof| verify_keys(&params, &root, &mixed, proof, |_, _| ()).is_ok()),
            ),
            ("range", range, Box::new(|proof| verify_range(&params, &root, &from, &end, proof).is_ok())),
            (
                "witness",
                reader.witness(&delta).expect("a witness"),
                Box::new(|proof| verify_transition(&params, &root, 3, &changes, proof).is_ok()),
            ),
        ];
        for (kind, proof, accepts) in kinds {
            assert!(accepts(&proof), "{function} {kind}");
            for at in 0..proof.len() {
                for bit in 0..8 {
                    let mut changed = proof.clone();
                    changed[at] ^= 1 << bit;
                    assert!(!accepts(&changed), "{function} {kind} byte {at} bit {bit}");
                }
                assert!(!accepts(&proof[..at]), "{function} {kind} cut at {at}");
                let left_out = [&proof[..at], &proof[at + 1..]].concat();
                assert!(!accepts(&left_out), "{function} {kind} without byte {at}");
            }
            for more in [0, 1, 0xff] {
                assert!(!accepts(&[&proof[..], &[more]].concat()), "{function} {kind} and {more}");
            }
        }
    }
}

#[test]
fn memory_proves() {
    for (function, seed) in FUNCTIONS.into_iter().zip(40..) {
        proves(&Backend::Mem, function, seed);
    }
}

#[test]
fn file_proves() {
    let dir = crate::common::folder();
    proves(&Backend::File(dir.path().to_path_buf()), HashFn::Sha256, 50);
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_proves() {
    let dir = crate::common::folder();
    proves(&Backend::Rocks(dir.path().to_path_buf()), HashFn::Sha256, 51);
}
