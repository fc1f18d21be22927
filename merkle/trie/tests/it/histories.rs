//! Random histories with forks, reverts and final blocks, on one, two and eight threads.

use alloy_primitives::{B256, U256, keccak256};
use phalanx_trie::{Fate, Version, Wipe};
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

use crate::common::{Change, Pair, State, account, address_of, configs, random_key, set};

/// Blocks of random changes on a state.
struct Blocks {
    rng: ChaCha8Rng,
    keys: Vec<B256>,
    /// Slots' keys; every account uses the same.
    slots: Vec<B256>,
}

impl Blocks {
    fn new(seed: u64, accounts: usize, slots: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut keys = |len| (0..len).map(|_| random_key(&mut rng)).collect();
        let (keys, slots) = (keys(accounts), keys(slots));
        Self { rng, keys, slots }
    }

    /// A block of about so many changes of accounts and slots, and their number.
    fn next(&mut self, state: &State, len: usize) -> (Vec<Change>, usize) {
        let mut block: Vec<Change> = Vec::new();
        let mut count = 0;
        let mut seen = std::collections::BTreeSet::new();
        while count < len {
            count += 1;
            let key = *self.keys.choose(&mut self.rng).expect("keys");
            if !seen.insert(key) {
                continue;
            }
            let exists = state.accounts.contains_key(&address_of(key));
            let mut change = set(key, self.rng.random());
            change.fate = match self.rng.random_range(0..10) {
                0 | 1 => Fate::Removed,
                2..5 if exists => Fate::Kept,
                _ => Fate::Set(account(self.rng.random_range(0..1000))),
            };
            if self.rng.random_bool(0.05) {
                change.wipe = Wipe::Storage;
            }
            if self.rng.random_bool(0.3) {
                let most = if self.rng.random_bool(0.1) { self.slots.len() } else { 6 };
                let mut slots = std::collections::BTreeMap::new();
                for _ in 0..self.rng.random_range(1..=most) {
                    let key = *self.slots.choose(&mut self.rng).expect("slots");
                    let value = match self.rng.random_range(0..5) {
                        0 | 1 => U256::ZERO,
                        2 => U256::from(self.rng.random_range(1..300)),
                        _ => U256::from_be_bytes(keccak256([self.rng.random::<u8>()]).0),
                    };
                    slots.insert(key, (key, key, value));
                    count += 1;
                }
                // In the order of names, and sometimes backwards.
                change.slots = slots.into_values().collect();
                if self.rng.random_bool(0.5) {
                    change.slots.reverse();
                }
            }
            block.push(change);
        }
        (block, count)
    }
}

fn count(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |count| count.parse().expect("a count"))
}

/// Runs random blocks on random versions; returns the number of changes.
fn history(seed: u64, threads: usize, accounts: usize, steps: usize, len: usize) -> usize {
    println!("seed {seed}");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
    let config = configs().nth(seed as usize % 3).expect("a configuration");
    let mut pair = Pair::new(config);
    let mut blocks = Blocks::new(seed, accounts, 60);
    let mut rng = ChaCha8Rng::seed_from_u64(!seed);
    let mut changed = 0;
    let mut made: Vec<(Version, Version)> = Vec::new();
    for _ in 0..steps {
        let versions: Vec<Version> = pair.states.keys().copied().collect();
        let version = *versions.choose(&mut rng).expect("versions");
        match rng.random_range(0..10) {
            0 if version != pair.trie.oldest() => {
                pair.trie.discard(version).expect("a version");
            }
            1..4 => {
                let oldest = pair.trie.oldest();
                if let Some((_, child)) = made.iter().rev().find(|(parent, _)| *parent == oldest).copied() {
                    pair.trie.advance(child).expect("a child of the oldest version");
                }
            }
            _ => {
                // The newest of two, so that chains become long.
                let parent = version.max(*versions.choose(&mut rng).expect("versions"));
                let (block, count) = blocks.next(&pair.states[&parent], len);
                changed += count;
                let child = pool.install(|| pair.update(parent, &block)).version;
                made.push((parent, child));
            }
        }
        pair.states.retain(|version, state| match pair.trie.root(*version) {
            Some(root) => {
                debug_assert_eq!(root, state.root());
                true
            }
            None => false,
        });
        made.retain(|(_, child)| pair.trie.root(*child).is_some());
    }
    // Only the oldest version is left, and nothing of the others.
    let oldest = pair.trie.oldest();
    let forks: Vec<Version> = pair.states.keys().copied().filter(|version| *version != oldest).collect();
    for fork in forks {
        let _ = pair.trie.discard(fork);
    }
    let state = &pair.states[&oldest];
    let wholes = phalanx_trie::Config { spread: u64::MAX, ..config };
    let spreads = phalanx_trie::Config { spread: 0, ..config };
    let range = Pair::nodes_of(state, spreads)..=Pair::nodes_of(state, wholes);
    assert!(range.contains(&pair.trie.nodes()), "nodes are lost or kept: {} of {range:?}", pair.trie.nodes());
    changed
}

#[test]
fn roots_equal_those_of_another_implementation_through_forks_and_reverts() {
    for seed in 0..count("PHALANX_HISTORIES", 60) {
        history(seed, [1, 2, 8][seed as usize % 3], 40 + 40 * (seed as usize % 7), 60, 30);
    }
}

#[test]
fn large_blocks_on_many_threads_keep_the_root() {
    let seeds = 100..100 + count("PHALANX_LARGE_HISTORIES", 3);
    let wanted = 100_000 * (seeds.end - seeds.start);
    let changes: usize = seeds.map(|seed| history(seed, [1, 2, 8][seed as usize % 3], 5000, 90, 2500)).sum();
    assert!(changes as u64 > wanted, "{changes} changes");
}

#[test]
fn the_root_depends_on_neither_order_threads_nor_lanes() {
    let mut blocks = Blocks::new(7, 3000, 60);
    let (block, _) = blocks.next(&State::default(), 4000);
    let mut roots = Vec::new();
    for (threads, config) in [1, 2, 8].into_iter().zip(configs()) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let mut pair = Pair::new(config);
        let mut block = block.clone();
        block.rotate_left(threads * 100);
        let oldest = pair.trie.oldest();
        roots.push(pool.install(|| pair.update(oldest, &block)).root);
    }
    assert!(roots.iter().all(|root| *root == roots[0]));
}
