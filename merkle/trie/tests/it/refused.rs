//! Refused changes and versions, after which the trie is as before.

use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::{Address, B256, U256};
use phalanx_trie::{Account, Changes, Config, Error, Fate, Trie, Values, Version, Wipe};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use crate::common::{Change, Pair, State, address_of, changes, key, random_key, remove, set, slots};

/// A store that fails after some reads.
struct Failing<'a>(&'a State, AtomicUsize);

impl Failing<'_> {
    fn read<T>(&self, value: Result<T, &'static str>) -> Result<T, &'static str> {
        let left = self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map_or(Err("a fault"), |_| value)
    }
}

impl Values for Failing<'_> {
    type Error = &'static str;

    fn account(&self, address: &Address) -> Result<Option<Account>, Self::Error> {
        self.read(self.0.account(address))
    }

    fn slot(&self, address: &Address, slot: &B256) -> Result<U256, Self::Error> {
        self.read(self.0.slot(address, slot))
    }
}

fn update(pair: &mut Pair, parent: Version, block: &[Change]) -> Result<(), Error<&'static str>> {
    pair.trie.update(parent, &changes(block), &pair.states[&parent]).map(|_| ())
}

#[test]
fn contradictions_are_named() {
    let mut pair = Pair::new(Config::default());
    let oldest = pair.trie.oldest();
    let one = key(&[1]);
    let tip = pair.update(oldest, &[set(one, 1)]).version;
    let nodes = pair.trie.nodes();
    assert_eq!(update(&mut pair, tip, &[set(one, 1), set(one, 2)]), Err(Error::Twice { key: one }));
    let twice = slots(one, &[(key(&[3]), 1), (key(&[3]), 1)]);
    assert_eq!(update(&mut pair, tip, &[twice]), Err(Error::Twice { key: key(&[3]) }));
    let other = key(&[2]);
    let orphan = slots(other, &[(key(&[3]), 1)]);
    assert_eq!(update(&mut pair, tip, &[orphan]), Err(Error::NoAccount { address: address_of(other) }));
    assert_eq!(pair.trie.nodes(), nodes);

    // The store lacks the account that has to move.
    let address = address_of(one);
    let missing = pair.trie.update(tip, &changes(&[set(other, 1)]), &State::default());
    assert_eq!(missing.map(|_| ()), Err(Error::Missing { address, slot: None }));
    assert_eq!(pair.trie.nodes(), nodes);
}

#[test]
fn versions_that_do_not_exist_are_named() {
    let mut trie = Trie::new(Config::default());
    let oldest = trie.oldest();
    let state = State::default();
    let make = |trie: &mut Trie, parent| trie.update(parent, &Changes::new(), &state).map(|made| made.version);
    let first = make(&mut trie, oldest).expect("a version");
    let second = make(&mut trie, first).expect("a version");
    let fork = make(&mut trie, first).expect("a version");
    assert!(matches!(trie.advance(second), Err(Error::NotNext { .. })));
    assert!(matches!(trie.advance(oldest), Err(Error::NotNext { .. })));
    assert!(matches!(trie.discard(oldest), Err(Error::NotNext { .. })));
    trie.advance(first).expect("the first");
    trie.advance(second).expect("the second");
    for gone in [oldest, first, fork] {
        assert!(matches!(make(&mut trie, gone), Err(Error::Unknown { .. })));
        assert!(matches!(trie.discard(gone), Err(Error::Unknown { .. })));
        assert_eq!(trie.root(gone), None);
    }
}

#[test]
fn a_slot_without_an_owner_is_not_added() {
    let mut changes = Changes::new();
    changes.slot(key(&[1]), key(&[1]), U256::ONE);
    assert!(changes.slots().is_empty());
    changes.account(key(&[1]), address_of(key(&[1])), Fate::Kept, Wipe::Nothing);
    changes.slot(key(&[1]), key(&[1]), U256::ONE);
    assert_eq!((changes.accounts().count(), changes.slots().len()), (1, 1));
}

#[test]
fn a_failing_store_leaves_the_trie_as_it_was() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut pair = Pair::new(Config { spread: 24, ..Config::default() });
        let mut keys = |len: usize| -> Vec<B256> {
            let keys: std::collections::BTreeSet<B256> = (0..len).map(|_| random_key(&mut rng)).collect();
            keys.into_iter().collect()
        };
        let (accounts, names) = (keys(60), keys(80));
        let (old, new) = accounts.split_at(accounts.len() / 2);
        let (first, rest) = names.split_at(20);
        let with = |value: u64, names: &[B256]| names.iter().map(|name| (*name, value)).collect::<Vec<_>>();
        let oldest = pair.trie.oldest();
        let genesis: Vec<Change> =
            old.iter().map(|key| Change { fate: set(*key, 1).fate, ..slots(*key, &with(1, first)) }).collect();
        let tip = pair.update(oldest, &genesis).version;
        let mut block: Vec<Change> = new.iter().map(|key| set(*key, 1)).collect();
        block.extend(old[..10].iter().map(|key| remove(*key)));
        block.extend(old[10..20].iter().map(|key| slots(*key, &with(2, rest))));
        block.extend(old[20..].iter().map(|key| slots(*key, &with(0, &first[1..]))));
        let nodes = pair.trie.nodes();
        let mut reads = 0;
        loop {
            let failing = Failing(&pair.states[&tip], AtomicUsize::new(reads));
            match pair.trie.update(tip, &changes(&block), &failing) {
                Ok(made) => break pair.trie.discard(made.version).expect("a version"),
                Err(error) => assert_eq!(error, Error::Values("a fault")),
            }
            assert_eq!(pair.trie.nodes(), nodes, "after {reads} reads");
            reads += 1;
        }
        assert!(reads > 10, "the block reads {reads} values");
        assert_eq!(pair.trie.nodes(), nodes);
        pair.update(tip, &block);
    }
}
