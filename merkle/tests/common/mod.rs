//! A reference model, written from the definition of the commitment: it keeps every entry ever appended and hashes all of
//! them for each root. It shares no code with the store.
#![allow(dead_code, unreachable_pub, reason = "each test target uses its own part")]

use std::collections::BTreeMap;

use phalanx_merkle::{Backend, Delta, HashFn, Params, Store, StoreConfig};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use sha3::Digest as _;

pub type Digest = [u8; 32];
pub type Op = (Vec<u8>, Option<Vec<u8>>);

pub fn hash(function: HashFn, parts: &[&[u8]]) -> Digest {
    let message = parts.concat();
    match function {
        HashFn::Sha256 => sha2::Sha256::digest(message).into(),
        HashFn::Keccak256 => sha3::Keccak256::digest(message).into(),
        HashFn::Blake3 => blake3::hash(&message).into(),
    }
}

#[derive(Clone)]
pub struct Model {
    pub function: HashFn,
    /// Digest of every entry ever appended, and whether it is current.
    log: Vec<(Digest, bool)>,
    pub state: BTreeMap<Vec<u8>, (Vec<u8>, usize)>,
    /// The root after each block.
    pub roots: Vec<Digest>,
}

impl Model {
    pub const fn new(function: HashFn) -> Self {
        Self { function, log: Vec::new(), state: BTreeMap::new(), roots: Vec::new() }
    }

    pub fn block(&mut self, ops: &[Op]) {
        let height = self.roots.len() as u64;
        // Last operation on a key counts; what changes nothing is dropped.
        let last: BTreeMap<_, _> = ops.iter().cloned().collect();
        let mut changes: Vec<(Digest, Vec<u8>, Option<Vec<u8>>)> = last
            .into_iter()
            .filter(|(key, value)| self.state.get(key).map(|(value, _)| value) != value.as_ref())
            .map(|(key, value)| (hash(self.function, &[&[5], &key]), key, value))
            .collect();
        changes.sort();
        for (_, key, value) in changes {
            if let Some((_, sn)) = self.state.remove(&key) {
                self.log[sn].1 = false;
            }
            let Some(value) = value else { continue };
            let leaf = hash(
                self.function,
                &[&[0, 0, key.len() as u8], &key, &(value.len() as u16).to_be_bytes(), &value, &height.to_be_bytes()],
            );
            self.state.insert(key, (value, self.log.len()));
            self.log.push((leaf, true));
        }
        self.roots.push(self.root());
    }

    /// Hashes everything.
    pub fn root(&self) -> Digest {
        let node = |level: u8, pair: &[Digest]| match pair {
            [l, r] if *l == [0; 32] && *r == [0; 32] => [0; 32],
            [l, r] => hash(self.function, &[&[1, level], l, r]),
            _ => unreachable!("levels are padded to a power of two"),
        };
        let mut twigs: Vec<Digest> = Vec::new();
        for entries in self.log.chunks(2048) {
            let mut level: Vec<Digest> = entries.iter().map(|(leaf, _)| *leaf).collect();
            level.resize(2048, [0; 32]);
            for at in 1..=11 {
                level = level.chunks(2).map(|pair| node(at, pair)).collect();
            }
            let mut bitmap = [0u8; 256];
            for (place, (_, active)) in entries.iter().enumerate() {
                bitmap[place / 8] |= u8::from(*active) << (place % 8);
            }
            twigs.push(hash(self.function, &[&[3], &level[0], &hash(self.function, &[&[2], &bitmap])]));
        }
        let mut level = twigs;
        level.resize(level.len().next_power_of_two(), [0; 32]);
        let mut at = 12;
        while level.len() > 1 {
            at += 1;
            level = level.chunks(2).map(|pair| node(at, pair)).collect();
        }
        let params = hash(self.function, &[&[6, 0, 1, self.function as u8, 11]]);
        let active = self.log.iter().filter(|(_, active)| *active).count() as u64;
        hash(self.function, &[&[4], &params, &(self.log.len() as u64).to_be_bytes(), &active.to_be_bytes(), &level[0]])
    }

    pub fn assert_equals(&self, store: &Store, context: &str) {
        assert_eq!(store.height(), (self.roots.len() as u64).checked_sub(1), "{context}");
        assert_eq!(store.root(), self.root(), "{context}");
        assert_eq!(store.len(), self.state.len(), "{context}");
        for (key, (value, _)) in &self.state {
            assert_eq!(store.get(key), Some(&value[..]), "{context}");
        }
        for (height, root) in self.roots.iter().enumerate() {
            assert_eq!(store.root_at(height as u64), Some(*root), "{context}");
        }
    }
}

/// Operations of a block: few keys, so that they meet; sizes around the edges; sometimes more than a twig.
pub fn random_ops(rng: &mut ChaCha8Rng) -> Vec<Op> {
    let len = match rng.random_range(0..10) {
        0 => 0,
        1 => rng.random_range(2000..5000),
        _ => rng.random_range(1..60),
    };
    let keys = if len > 100 { 6000 } else { 300 };
    (0..len)
        .map(|_| {
            let number = rng.random_range(0..keys) as u32;
            let mut key = number.to_be_bytes().to_vec();
            key.resize([4, 20, 52, 255][number as usize % 4], 7);
            let len = match rng.random_range(0..40) {
                0 => 0,
                1 => 119,
                2 => 121,
                3 => rng.random_range(5000..9000),
                _ => rng.random_range(0..3),
            };
            let value = (!rng.random_bool(0.25)).then(|| vec![rng.random_range(0..3u8); len]);
            (key, value)
        })
        .collect()
}

/// A delta of `ops`, by name or by locator at random.
pub fn delta_of(store: &Store, ops: &[Op], rng: &mut ChaCha8Rng) -> Delta {
    let mut delta = Delta::new();
    for (key, value) in ops {
        let located = if rng.random_bool(0.5) { store.locate(key) } else { None };
        match (located, value) {
            (Some(at), Some(value)) => delta.put_at(at, value),
            (Some(at), None) => delta.delete_at(at),
            (None, Some(value)) => delta.put(key, value),
            (None, None) => delta.delete(key),
        }
    }
    delta
}

/// The operations of block `height` of a chain that only a seed defines.
pub fn chain_ops(seed: u64, height: u64) -> Vec<Op> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (height << 20));
    random_ops(&mut rng)
}

pub fn open(backend: &Backend, function: HashFn) -> Store {
    Store::open(config(backend, function)).expect("the store opens")
}

pub fn config(backend: &Backend, function: HashFn) -> StoreConfig {
    StoreConfig::new(backend.clone()).with_params(Params { hash: function })
}
