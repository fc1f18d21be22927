//! A chain with siblings, generations of uncommitted blocks, rewinds, pruning and reopening equals a model of each
//! block.

use std::collections::BTreeMap;

use crate::{
    common::{Model, Op, delta_of, plain, random_memory, random_ops},
    model::FUNCTIONS,
};
use phalanx_merkle::{
    Backend, BlockId, Compaction, Durability, Error, Hash, Params, Reader, Sentinels, Snapshot, Store, StoreConfig,
    verify_exclusion, verify_inclusion, verify_keys, verify_range, verify_transition, verify_version,
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const HISTORY: usize = 4;

/// Asserts values, roots and every kind of proof.
fn check(reader: &Reader<'_>, model: &Model, rng: &mut ChaCha8Rng, context: &str) {
    let (params, root) = (&model.params, *model.roots.last().unwrap_or(&model.root()));
    assert_eq!(reader.root(), root, "{context}");
    assert_eq!(reader.len(), model.state.len(), "{context}");
    assert_eq!(reader.height(), (model.roots.len() as u64).checked_sub(1), "{context}");
    let absent: Vec<Vec<u8>> =
        (0..8).map(|_| rng.random::<u64>().to_be_bytes().to_vec()).chain([vec![], vec![0, 0]]).collect();
    let mut some: Vec<&[u8]> = Vec::new();
    for (key, value) in &model.state {
        assert_eq!(reader.get(key), Some(&value[..]), "{context}");
        if rng.random_bool(0.03) {
            some.push(key);
        }
    }
    let absent: Vec<&[u8]> = absent.iter().map(|key| &key[..]).filter(|key| !model.state.contains_key(*key)).collect();
    for key in &some {
        let proof = reader.prove(key).expect(context).expect(context);
        let entry = verify_inclusion(params, &root, &proof).expect(context);
        assert_eq!((entry.key, Some(entry.value)), (*key, model.state.get(*key).map(|value| &value[..])), "{context}");
        assert!(verify_exclusion(params, &root, key, &proof).is_err(), "{context}");
        assert_eq!(reader.prove_absence(key).expect(context), None, "{context}");
        let version = verify_version(params, &root, &proof).expect(context);
        assert_eq!(version.entry.previous, model.log[version.sn as usize].previous.map(|sn| sn as u64), "{context}");
        damage(&proof, rng, |proof| verify_inclusion(params, &root, proof).is_ok());
    }
    for key in &absent {
        assert_eq!(reader.get(key), None, "{context}");
        assert_eq!(reader.prove(key).expect(context), None, "{context}");
        let proof = reader.prove_absence(key).expect(context).expect(context);
        verify_exclusion(params, &root, key, &proof).expect(context);
        damage(&proof, rng, |proof| verify_exclusion(params, &root, key, proof).is_ok());
    }
    let keys: Vec<&[u8]> = some.iter().chain(&absent).copied().collect();
    let mut got = Vec::new();
    reader.get_many(keys.iter().copied(), |found| got.push(found.map(|(value, at)| (value.to_vec(), at))));
    let one_by_one = keys.iter().map(|key| reader.get(key).map(|value| (value.to_vec(), reader.locate(key))));
    assert_eq!(got, one_by_one.collect::<Vec<_>>(), "{context}");
    let proof = reader.prove_keys(&keys).expect(context);
    let mut seen = 0;
    verify_keys(params, &root, &keys, &proof, |at, value| {
        assert_eq!(value, model.state.get(keys[at]).map(|value| &value[..]), "{context}");
        seen += 1;
    })
    .expect(context);
    assert_eq!(seen, keys.len(), "{context}");
    damage(&proof, rng, |proof| verify_keys(params, &root, &keys, proof, |_, _| ()).is_ok());
    if some.len() > 1 {
        // A proof with an entry that no key needs is refused.
        assert!(verify_keys(params, &root, &keys[..1], &proof, |_, _| ()).is_err(), "{context}");
    }

    let places: BTreeMap<Hash, &Vec<u8>> = model.state.keys().map(|key| (model.place(key), key)).collect();
    let (mut from, mut to): (Hash, Hash) = (rng.random(), rng.random());
    if let Some((place, _)) = places.iter().nth(rng.random_range(0..places.len().max(1))) {
        from = *place;
    }
    if from > to {
        (from, to) = (to, from);
    }
    let (proof, end) = reader.prove_range(&from, &to, rng.random_range(1..200)).expect(context);
    let entries = verify_range(params, &root, &from, &end, &proof).expect(context);
    let expected: Vec<&[u8]> = places.range(from..=end).map(|(_, key)| &key[..]).collect();
    assert_eq!(entries.iter().map(|entry| entry.key).collect::<Vec<_>>(), expected, "{context}");
    damage(&proof, rng, |proof| verify_range(params, &root, &from, &end, proof).is_ok());
}

/// Asserts that no damaged proof is accepted.
fn damage(proof: &[u8], rng: &mut ChaCha8Rng, accepted: impl Fn(&[u8]) -> bool) {
    for _ in 0..4 {
        let mut changed = proof.to_vec();
        let at = rng.random_range(0..changed.len());
        changed[at] ^= 1 << rng.random_range(0..8);
        assert!(!accepted(&changed), "byte {at}");
        assert!(!accepted(&proof[..at]), "cut at {at}");
    }
    assert!(!accepted(&[proof, &[0; 32]].concat()), "longer");
}

struct Machine {
    config: StoreConfig,
    store: Option<Store>,
    /// All blocks, with their parents and whether they are staged.
    models: BTreeMap<BlockId, (Model, BlockId, bool)>,
    chain: Vec<BlockId>,
    snapshots: Vec<(Snapshot, Model)>,
    /// Operations so far: puts and deletes of blocks, and events of blocks.
    count: u64,
}

impl Machine {
    const fn store(&mut self) -> &mut Store {
        self.store.as_mut().expect("an open store")
    }

    fn tip(&self) -> BlockId {
        *self.chain.last().expect("the beginning")
    }

    fn held(&self) -> Vec<BlockId> {
        self.models.keys().copied().filter(|id| !self.chain.contains(id)).collect()
    }

    fn stands_on(&self, mut block: BlockId, below: BlockId) -> bool {
        while block != below {
            match self.models.get(&block) {
                Some((_, parent, _)) if *parent != block => block = *parent,
                _ => return false,
            }
        }
        true
    }

    /// Forgets blocks that are not on the tip.
    fn settle(&mut self) {
        let tip = self.tip();
        let gone: Vec<BlockId> = self.held().into_iter().filter(|block| !self.stands_on(*block, tip)).collect();
        gone.iter().for_each(|block| _ = self.models.remove(block));
    }

    fn step(&mut self, rng: &mut ChaCha8Rng, context: &str) {
        self.count += 1;
        let (tip, held) = (self.tip(), self.held());
        let any = held.get(rng.random_range(0..held.len().max(1))).copied();
        match rng.random_range(0..100) {
            0..30 if held.len() < 12 => {
                let parent = any.filter(|_| rng.random_bool(0.7)).unwrap_or(tip);
                let mut model = self.models[&parent].0.clone();
                let ops = ops(rng);
                model.block(&ops);
                self.count += ops.len() as u64;
                self.follow(parent, &ops, &model, rng, context);
                let prepared = self.store().prepare_on(parent, plain(&ops)).expect(context);
                assert_eq!(prepared.root(), model.roots[model.roots.len() - 1], "{context}");
                let prepared = prepared.with_payload(prepared_payload(&model)).expect(context);
                let block = self.store().add_fork(prepared).expect(context);
                self.models.insert(block, (model, parent, false));
            }
            30..45 => {
                let Some(block) = any else { return };
                let (_, parent, staged) = self.models[&block].clone();
                let ready = self.chain.contains(&parent) || self.models[&parent].2;
                match self.store().stage(block) {
                    Ok(Some(pending)) => {
                        assert!(ready && !staged, "{context}");
                        pending.write().expect(context);
                    }
                    Ok(None) => assert!(staged, "{context}"),
                    Err(Error::Stale { .. }) => assert!(!ready, "{context}"),
                    Err(other) => panic!("{context}: {other}"),
                }
                if ready && let Some(model) = self.models.get_mut(&block) {
                    model.2 = true;
                }
            }
            45..60 => {
                let Some(block) = any else { return };
                if self.models[&block].1 != tip {
                    assert!(matches!(self.store().apply_fork(block), Err(Error::Stale { .. })), "{context}");
                    return;
                }
                self.store().apply_fork(block).expect(context).write().expect(context);
                self.chain.push(block);
                self.settle();
            }
            60..66 => {
                let Some(block) = any else { return };
                let gone: Vec<BlockId> = held.into_iter().filter(|other| self.stands_on(*other, block)).collect();
                assert_eq!(self.store().discard_fork(block).expect(context), gone.len(), "{context}");
                gone.iter().for_each(|block| _ = self.models.remove(block));
                assert!(matches!(self.store().discard_fork(block), Err(Error::Gone { .. })), "{context}");
            }
            66..72 => {
                let back = rng.random_range(0..self.chain.len().min(HISTORY + 2));
                let to = self.chain.len() - 1 - back;
                let height = self.models[&self.chain[to]].0.roots.len() as u64;
                match self.store().rewind(height.checked_sub(1)) {
                    Ok(pending) => {
                        pending.write().expect(context);
                        for gone in self.chain.split_off(to + 1) {
                            self.models.remove(&gone);
                        }
                        let held = self.held();
                        held.iter().for_each(|block| _ = self.models.remove(block));
                    }
                    Err(Error::Rewind { .. }) => {}
                    Err(other) => panic!("{context}: {other}"),
                }
            }
            72..76 => _ = self.store().prune().expect(context),
            76..82 if self.config.backend != Backend::Mem => self.reopen(rng, context),
            82..90 => {
                // The plain way, with a later write.
                let mut model = self.models[&tip].0.clone();
                let height = model.roots.len() as u64;
                let ops = ops(rng);
                model.block(&ops);
                self.count += ops.len() as u64;
                self.follow(tip, &ops, &model, rng, context);
                let delta = delta_of(self.store(), &ops, rng);
                let prepared = self.store().prepare(delta, height).expect(context);
                assert_eq!(prepared.root(), model.roots[height as usize], "{context}");
                let prepared = prepared.with_payload(prepared_payload(&model)).expect(context);
                let pending = self.store().apply(prepared).expect(context);
                let block = self.store().tip();
                check(&self.store().read(), &model, rng, context);
                pending.write().expect(context);
                self.models.insert(block, (model, tip, false));
                self.chain.push(block);
                self.settle();
            }
            _ => {
                let all: Vec<BlockId> = self.models.keys().copied().collect();
                let block = all[rng.random_range(0..all.len())];
                let model = self.models[&block].0.clone();
                match self.store().snapshot(block) {
                    Ok(snapshot) => {
                        check(&snapshot.read().expect(context), &model, rng, context);
                        self.snapshots.push((snapshot, model));
                    }
                    Err(Error::Gone { .. }) => {
                        let depth = self.chain.iter().rev().position(|at| *at == block);
                        assert!(depth.is_some_and(|depth| depth > 0), "{context}: depth {depth:?}");
                    }
                    Err(other) => panic!("{context}: {other}"),
                }
            }
        }
    }

    /// Follows the block with a verifier that knows only the parent's root.
    fn follow(&mut self, parent: BlockId, ops: &[Op], after: &Model, rng: &mut ChaCha8Rng, context: &str) {
        let snapshot = self.store().snapshot(parent).expect(context);
        let reader = snapshot.read().expect(context);
        let witness = reader.witness(&plain(ops)).expect(context);
        let changes: Vec<_> = ops.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
        let (root, height) = (reader.root(), after.roots.len() as u64 - 1);
        let follow = |witness: &[u8]| verify_transition(&after.params, &root, height, &changes, witness);
        assert_eq!(follow(&witness), Ok(after.roots[height as usize]), "{context}");
        damage(&witness, rng, |witness| follow(witness).is_ok());
    }

    /// Reopens the store: staged forks are restored, other forks are gone.
    fn reopen(&mut self, rng: &mut ChaCha8Rng, context: &str) {
        self.snapshots.clear();
        self.store = None;
        let height = self.models[&self.tip()].0.roots.len() as u64;
        let mut config = self.config.clone().with_salt(rng.random());
        config.expected_min_height = height.checked_sub(1);
        config.memory = random_memory(rng);
        let store = Store::open(config).expect(context);
        self.store = Some(store);
        for block in self.held() {
            if !self.models[&block].2 {
                self.models.remove(&block);
            }
        }
        for held in self.store().forks() {
            assert!(held.staged, "{context}");
            match self.models.get(&held.block) {
                Some((model, parent, _)) => {
                    assert_eq!((held.root, held.parent), (model.roots[model.roots.len() - 1], *parent), "{context}");
                    assert_eq!(held.payload, prepared_payload(model), "{context}");
                }
                // The fork was discarded or rewound, and nothing was committed since.
                None => _ = self.store().discard_fork(held.block),
            }
        }
        let found: Vec<BlockId> = self.store().forks().iter().map(|held| held.block).collect();
        assert_eq!(found, self.held(), "{context}");
    }
}

fn prepared_payload(model: &Model) -> Vec<u8> {
    vec![model.roots.len() as u8; model.roots.len() % 40]
}

fn ops(rng: &mut ChaCha8Rng) -> Vec<Op> {
    let mut ops = random_ops(rng);
    if rng.random_bool(0.8) {
        ops.truncate(60);
    }
    ops
}

/// Runs and steps that the environment asks for.
fn runs(seed: u64) -> (Vec<u64>, usize) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match number("PHALANX_MERKLE_SEED") {
        Some(seed) => vec![seed],
        None => (seed..seed + number("PHALANX_MERKLE_RUNS").unwrap_or(2)).collect(),
    };
    (seeds, number("PHALANX_MERKLE_STEPS").unwrap_or(120) as usize)
}

fn lives(backend: impl Fn(&std::path::Path) -> Backend, seed: u64) {
    let (seeds, steps) = runs(seed);
    for seed in seeds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let dir = crate::common::folder();
        let params = Params {
            hash: FUNCTIONS[seed as usize % FUNCTIONS.len()],
            sentinels: Sentinels::new([0, 4, 8, 11][seed as usize % 4]).expect("few sentinels"),
            compaction: Compaction { extra: rng.random_range(0..200), ..Compaction::default() },
        };
        let config = StoreConfig::new(backend(dir.path())).with_params(params).with_history(HISTORY);
        let durability = if seed % 2 == 0 { Durability::Async } else { Durability::Block };
        let config = config.with_durability(durability).with_memory(random_memory(&mut rng));
        let store = Store::open(config.clone()).expect("a store");
        let tip = store.tip();
        let models = BTreeMap::from([(tip, (Model::with(params), tip, true))]);
        let mut machine =
            Machine { config, store: Some(store), models, chain: vec![tip], snapshots: Vec::new(), count: 0 };
        for step in 0..steps {
            let context = format!("seed {seed} step {step}");
            machine.step(&mut rng, &context);
            let model = machine.models[&machine.tip()].0.clone();
            check(&machine.store().read(), &model, &mut rng, &context);
            // A snapshot shows its block, or is gone.
            machine.snapshots.retain(|(snapshot, model)| match snapshot.read() {
                Ok(reader) => {
                    check(&reader, model, &mut rng, &context);
                    rng.random_bool(0.9)
                }
                Err(Error::Gone { .. }) => false,
                Err(other) => panic!("{context}: {other}"),
            });
        }
        println!("seed {seed}: {} operations in {steps} steps", machine.count);
    }
}

#[test]
fn memory_lives() {
    lives(|_| Backend::Mem, 100);
}

#[test]
fn file_lives() {
    lives(|dir| Backend::File(dir.to_path_buf()), 200);
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocks_lives() {
    lives(|dir| Backend::Rocks(dir.to_path_buf()), 300);
}
