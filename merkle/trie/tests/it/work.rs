//! Counts of hashes: an update hashes what changed and what lies above.

use alloy_primitives::B256;
use phalanx_trie::{Config, Updated};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::common::{Change, Pair, set, slots};

const KEYS: usize = 1 << 16;

fn keys(seed: u64) -> Vec<B256> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..KEYS).map(|_| B256::from(rng.random::<[u8; 32]>())).collect()
}

/// Permutations per change, of all changes.
fn per_change(made: &Updated, changes: usize) -> f64 {
    made.work.permutations as f64 / changes as f64
}

#[test]
fn a_changed_account_costs_three_and_a_half_permutations() {
    // Ten in a hundred accounts change, as with 100,000 of 2^20: as many nodes per change.
    let keys = keys(1);
    let mut pair = Pair::new(Config::default());
    let oldest = pair.trie.oldest();
    let genesis: Vec<Change> = keys.iter().map(|key| set(*key, 1)).collect();
    let tip = pair.update(oldest, &genesis).version;
    let block: Vec<Change> = keys[..KEYS / 10].iter().map(|key| set(*key, 2)).collect();
    let made = pair.update(tip, &block);
    let cost = per_change(&made, block.len());
    assert!((3.2..3.8).contains(&cost), "{cost} permutations per account: {:?}", made.work);
    assert_eq!(made.work.leaves, block.len() as u64);
}

#[test]
fn a_changed_slot_costs_as_much_as_an_account() {
    let keys = keys(2);
    let mut pair = Pair::new(Config { spread: 1000, ..Config::default() });
    let (oldest, owner) = (pair.trie.oldest(), keys[0]);
    let all: Vec<_> = keys.iter().map(|key| (*key, 1)).collect();
    let tip = pair.update(oldest, &[set(owner, 1)]).version;
    let tip = pair.update(tip, &[slots(owner, &all)]).version;
    let some: Vec<_> = keys[..KEYS / 10].iter().map(|key| (*key, 2)).collect();
    let made = pair.update(tip, &[slots(owner, &some)]);
    let cost = per_change(&made, some.len());
    assert!((3.2..3.8).contains(&cost), "{cost} permutations per slot: {:?}", made.work);
}

#[test]
fn one_change_hashes_one_path() {
    let keys = keys(3);
    let mut pair = Pair::new(Config::default());
    let oldest = pair.trie.oldest();
    let genesis: Vec<Change> = keys[..4096].iter().map(|key| set(*key, 1)).collect();
    let tip = pair.update(oldest, &genesis).version;
    let made = pair.update(tip, &[set(keys[5], 2)]);
    assert_eq!(made.work.leaves, 1);
    assert!(made.work.branches <= 5 && made.work.extensions <= 2, "{:?}", made.work);
    let nothing = pair.update(made.version, &[]);
    assert_eq!(nothing.work, phalanx_trie::Work::default());
    assert_eq!(nothing.root, made.root);
}
