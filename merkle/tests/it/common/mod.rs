//! Reference model, written from the definition of the commitment: it keeps every entry ever appended and hashes all of
//! them for each root. It shares no code with the store.

pub(crate) mod life;

use std::collections::BTreeMap;

use phalanx_merkle::{Backend, Delta, HashFn, Memory, Params, Store, StoreConfig};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use sha3::Digest as _;

pub(crate) type Digest = [u8; 32];
pub(crate) type Op = (Vec<u8>, Option<Vec<u8>>);

/// Least room of a file system in memory, in bytes: containers often have 64 MiB.
const ROOM: u64 = 2 << 30;

/// A folder in memory where the system has one: what a test damages, cuts and opens some thousand times waits for no disk. With
/// `PHALANX_ON_DISK`, as at night, it is on the disk.
pub(crate) fn folder() -> tempfile::TempDir {
    let has_room = |room: rustix::fs::StatVfs| room.f_bavail.saturating_mul(room.f_frsize) >= ROOM;
    let is_fit = std::env::var_os("PHALANX_ON_DISK").is_none() && rustix::fs::statvfs("/dev/shm").is_ok_and(has_room);
    is_fit
        .then(|| tempfile::tempdir_in("/dev/shm"))
        .and_then(Result::ok)
        .unwrap_or_else(|| tempfile::tempdir().expect("a folder"))
}

pub(crate) fn hash(function: HashFn, parts: &[&[u8]]) -> Digest {
    let message = parts.concat();
    match function {
        HashFn::Sha256 => sha2::Sha256::digest(message).into(),
        HashFn::Keccak256 => sha3::Keccak256::digest(message).into(),
        HashFn::Blake3 => blake3::hash(&message).into(),
    }
}

/// Position of the log.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    pub(crate) sentinel: bool,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) next: Digest,
    pub(crate) previous: Option<usize>,
    pub(crate) height: u64,
    pub(crate) active: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) params: Params,
    pub(crate) log: Vec<Position>,
    pub(crate) floor: usize,
    /// Position of each key and sentinel, by its place in key order.
    pub(crate) ring: BTreeMap<Digest, usize>,
    pub(crate) state: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Root after each block.
    pub(crate) roots: Vec<Digest>,
}

const END: Digest = [0xff; 32];

impl Model {
    pub(crate) fn new(function: HashFn) -> Self {
        Self::with(Params::with_hash(function))
    }

    pub(crate) fn with(params: Params) -> Self {
        let mut model = Self {
            params,
            log: Vec::new(),
            floor: 0,
            ring: BTreeMap::new(),
            state: BTreeMap::new(),
            roots: Vec::new(),
        };
        let count = params.sentinels.count();
        for index in 0..count {
            let place = |index: u64| {
                let mut place = [0; 32];
                place[..2].copy_from_slice(&((index * 65536 / count) as u16).to_be_bytes());
                place
            };
            let next = if index + 1 < count { place(index + 1) } else { END };
            let (key, value) = (place(index)[..2].to_vec(), Vec::new());
            model.ring.insert(place(index), model.log.len());
            let (previous, height, active) = (None, 0, true);
            model.log.push(Position { sentinel: true, key, value, next, previous, height, active });
        }
        model
    }

    fn hash(&self, parts: &[&[u8]]) -> Digest {
        hash(self.params.hash, parts)
    }

    pub(crate) fn place(&self, key: &[u8]) -> Digest {
        self.hash(&[&[5], key])
    }

    pub(crate) fn block(&mut self, ops: &[Op]) {
        let height = self.roots.len() as u64;
        let first = self.log.len();
        let before = self.ring.clone();
        // The last operation on a key counts.
        let last: BTreeMap<_, _> = ops.iter().cloned().collect();
        for (key, value) in &last {
            let place = self.place(key);
            match value {
                Some(value) => _ = self.state.insert(key.clone(), value.clone()),
                None => _ = self.state.remove(key),
            }
            match (value, self.ring.contains_key(&place)) {
                (Some(_), false) => _ = self.ring.insert(place, usize::MAX),
                (None, true) => _ = self.ring.remove(&place),
                _ => {}
            }
        }
        let names: BTreeMap<Digest, Vec<u8>> = last.keys().map(|key| (self.place(key), key.clone())).collect();
        // Every entry that differs from its target is written anew.
        let places: Vec<Digest> = self.ring.keys().copied().collect();
        for (at, place) in places.iter().enumerate() {
            let next = places.get(at + 1).copied().unwrap_or(END);
            let old = before.get(place).map(|sn| self.log[*sn].clone());
            let sentinel = old.as_ref().is_some_and(|old| old.sentinel);
            let key = old.as_ref().map_or_else(|| names[place].clone(), |old| old.key.clone());
            let value = if sentinel { Vec::new() } else { self.state[&key].clone() };
            if old.is_some_and(|old| old.value == value && old.next == next) {
                continue;
            }
            let previous = before.get(place).copied();
            self.ring.insert(*place, self.log.len());
            self.log.push(Position { sentinel, key, value, next, previous, height, active: true });
        }
        for (place, sn) in &before {
            self.log[*sn].active = self.ring.get(place) == Some(sn);
        }
        // Compaction.
        let appended = self.log.len() - first;
        let rule = self.params.compaction;
        let cap = if appended == 0 { 0 } else { appended * rule.per_entry as usize + rule.extra as usize };
        let active = self.log.iter().filter(|position| position.active).count();
        for _ in 0..cap {
            let span = self.log.len() - self.floor;
            let oldest = (self.floor..first).find(|sn| self.log[*sn].active);
            let Some(sn) = oldest.filter(|_| active * (rule.of as usize) < span * rule.active as usize) else { break };
            let moved = self.log[sn].clone();
            self.log[sn].active = false;
            let place = self.ring.iter().find(|(_, at)| **at == sn).map(|(place, _)| *place).expect("it is active");
            self.ring.insert(place, self.log.len());
            self.log.push(moved);
            self.floor = sn + 1;
        }
        self.roots.push(self.root());
    }

    fn leaf(&self, position: &Position) -> Digest {
        let Position { sentinel, key, value, next, previous, height, .. } = position;
        let head = [0, u8::from(*sentinel), key.len() as u8];
        let previous = previous.map_or(0, |sn| sn as u64 + 1).to_be_bytes();
        self.hash(&[&head, key, &(value.len() as u16).to_be_bytes(), value, next, &previous, &height.to_be_bytes()])
    }

    /// Hashes everything.
    pub(crate) fn root(&self) -> Digest {
        let node = |level: u8, pair: &[Digest]| match pair {
            [l, r] if *l == [0; 32] && *r == [0; 32] => [0; 32],
            [l, r] => self.hash(&[&[1, level], l, r]),
            _ => unreachable!("levels are padded to a power of two"),
        };
        let mut twigs: Vec<Digest> = Vec::new();
        for (twig, positions) in self.log.chunks(2048).enumerate() {
            if twig < self.floor / 2048 {
                twigs.push([0; 32]);
                continue;
            }
            let mut level: Vec<Digest> = positions.iter().map(|position| self.leaf(position)).collect();
            level.resize(2048, [0; 32]);
            for at in 1..=11 {
                level = level.chunks(2).map(|pair| node(at, pair)).collect();
            }
            let mut bitmap = [0u8; 256];
            for (place, position) in positions.iter().enumerate() {
                bitmap[place / 8] |= u8::from(position.active) << (place % 8);
            }
            twigs.push(self.hash(&[&[3], &level[0], &self.hash(&[&[2], &bitmap])]));
        }
        let mut level = twigs;
        level.resize(level.len().next_power_of_two(), [0; 32]);
        let mut at = 12;
        while level.len() > 1 {
            at += 1;
            level = level.chunks(2).map(|pair| node(at, pair)).collect();
        }
        let rule = self.params.compaction;
        let sentinel_bits = self.params.sentinels.count().ilog2() as u8;
        let mut params = vec![6, 0, 2, self.params.hash as u8, 11, sentinel_bits];
        for word in [rule.active, rule.of, rule.per_entry, rule.extra] {
            params.extend_from_slice(&word.to_be_bytes());
        }
        let params = self.hash(&[&params]);
        let active = self.log.iter().filter(|position| position.active).count();
        let [next, floor, active] = [self.log.len(), self.floor, active].map(|word| (word as u64).to_be_bytes());
        self.hash(&[&[4], &params, &next, &floor, &active, &level[0]])
    }

    pub(crate) fn assert_equals(&self, store: &Store, context: &str) {
        assert_eq!(store.height(), (self.roots.len() as u64).checked_sub(1), "{context}");
        assert_eq!(store.root(), self.root(), "{context}");
        assert_eq!(store.len(), self.state.len(), "{context}");
        for (key, value) in &self.state {
            assert_eq!(store.read().get(key), Some(&value[..]), "{context}");
        }
        for (height, root) in self.roots.iter().enumerate() {
            let found = store.root_at(height as u64);
            // Pruned blocks are not remembered.
            let pruned = store.block_at(0).is_none() && found.is_none();
            assert!(pruned || found == Some(*root), "{context} height {height}: {found:?}");
        }
    }
}

/// Random operations of a block: few keys, so that they meet; sizes around the edges; sometimes more than a twig.
pub(crate) fn random_ops(rng: &mut ChaCha8Rng) -> Vec<Op> {
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

/// Delta of `ops`, by key bytes.
pub(crate) fn plain(ops: &[Op]) -> Delta {
    let mut delta = Delta::new();
    for (key, value) in ops {
        match value {
            Some(value) => delta.put(key, value),
            None => delta.delete(key),
        }
    }
    delta
}

/// Delta of `ops`, by key bytes or by locator at random.
pub(crate) fn delta_of(store: &Store, ops: &[Op], rng: &mut ChaCha8Rng) -> Delta {
    let mut delta = Delta::new();
    for (key, value) in ops {
        let located = if rng.random_bool(0.5) { store.read().locate(key) } else { None };
        match (located, value) {
            // The last operation on a key counts, and declares that it changes the stored value.
            (Some(at), Some(value)) if store.read().get(key) != Some(value) && rng.random() => {
                delta.change_at(at, value)
            }
            (Some(at), Some(value)) => delta.put_at(at, value),
            (Some(at), None) => delta.delete_at(at),
            (None, Some(value)) => delta.put(key, value),
            (None, None) => delta.delete(key),
        }
    }
    delta
}

/// Operations of block `height` of a chain that is defined by a seed.
pub(crate) fn chain_ops(seed: u64, height: u64) -> Vec<Op> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (height << 20));
    random_ops(&mut rng)
}

/// Random memory setting: it affects only memory and time.
pub(crate) fn random_memory(rng: &mut ChaCha8Rng) -> Memory {
    match rng.random_range(0..5) {
        0 | 1 => Memory::Resident,
        2 => Memory::Cached { bytes: 0 },
        3 => Memory::Cached { bytes: rng.random_range(0..1 << 18) },
        _ => Memory::Cached { bytes: 1 << 28 },
    }
}

pub(crate) fn open(backend: &Backend, function: HashFn) -> Store {
    Store::open(config(backend, function)).expect("the store opens")
}

pub(crate) fn config(backend: &Backend, function: HashFn) -> StoreConfig {
    StoreConfig::new(backend.clone()).with_params(Params::with_hash(function))
}
