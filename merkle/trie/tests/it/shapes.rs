//! Named shapes: what random histories might miss.

use alloy_primitives::{B256, b256};
use phalanx_trie::{Config, Fate, Wipe};

use crate::common::{Change, Pair, account, configs, key, remove, set, slots};

/// Runs blocks on top of each other, with each configuration, and every block alone on top of the first as well.
fn each(blocks: &[Vec<Change>]) {
    for config in configs() {
        let mut pair = Pair::new(config);
        let mut tip = pair.trie.oldest();
        for block in blocks {
            tip = pair.update(tip, block).version;
        }
        while pair.trie.oldest() != tip {
            let next = pair.states.keys().copied().find(|version| *version > pair.trie.oldest()).expect("a child");
            pair.trie.advance(next).expect("the next version");
        }
        let spread_late = Config { spread: u64::MAX, ..config };
        let state = &pair.states[&tip];
        // Whole storages have two levels of branches more in their shard than spread ones.
        let fewest = Pair::nodes_of(state, Config { spread: 0, ..config });
        let most = Pair::nodes_of(state, spread_late);
        assert!((fewest..=most).contains(&pair.trie.nodes()), "{fewest}..={most}: {}", pair.trie.nodes());
    }
}

#[test]
fn an_empty_state_has_the_root_of_an_empty_string() {
    let pair = Pair::new(Config::default());
    let root = b256!("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");
    assert_eq!(pair.trie.root(pair.trie.oldest()), Some(root));
    each(&[vec![], vec![remove(key(&[1]))]]);
}

#[test]
fn one_account_comes_changes_and_goes() {
    each(&[vec![set(key(&[1, 2, 3]), 1)], vec![set(key(&[1, 2, 3]), 2)], vec![remove(key(&[1, 2, 3]))]]);
}

#[test]
fn two_accounts_part_at_every_depth() {
    for depth in 0..64 {
        let mut other = [0; 64];
        other[depth] = 5;
        let (one, other) = (key(&[]), key(&other));
        each(&[
            vec![set(one, 1)],
            vec![set(other, 2)],
            vec![set(one, 3)],
            vec![remove(one)],
            vec![set(one, 4), remove(other)],
            vec![remove(one)],
        ]);
    }
}

#[test]
fn an_extension_is_split_at_every_depth_and_restored() {
    let mut last = [0; 64];
    last[63] = 1;
    for depth in 0..63 {
        let mut other = [0; 64];
        other[depth] = 5;
        each(&[
            vec![set(key(&[]), 1), set(key(&last), 1)],
            vec![set(key(&other), 2)],
            vec![remove(key(&other)), set(key(&last), 9)],
            vec![set(key(&other), 2), remove(key(&last))],
        ]);
    }
}

#[test]
fn deletes_that_leave_an_extension_change_nothing() {
    let mut last = [0; 64];
    last[63] = 1;
    each(&[
        vec![set(key(&[]), 1), set(key(&last), 1)],
        vec![remove(key(&[0, 5])), remove(key(&[3])), remove(key(&[0, 0, 0, 7]))],
        vec![remove(key(&[0, 5])), set(key(&[0, 0, 3]), 1), remove(key(&[0, 0, 0, 7])), remove(key(&[9]))],
    ]);
}

#[test]
fn a_cascade_of_branches_collapses_and_grows_again() {
    let deep: Vec<B256> = (0..60u8).map(|depth| key(&[&vec![1; depth.into()][..], &[2]].concat())).collect();
    let all: Vec<Change> = deep.iter().map(|key| set(*key, 1)).collect();
    let most: Vec<Change> = deep[..59].iter().map(|key| remove(*key)).collect();
    each(&[all.clone(), most, all.clone(), deep.iter().map(|key| remove(*key)).collect(), all]);
}

#[test]
fn slots_are_set_to_zero_and_back() {
    let owner = key(&[7]);
    let one = |value| slots(owner, &[(key(&[1]), value), (key(&[1, 1]), value)]);
    each(&[vec![set(owner, 1)], vec![one(5)], vec![one(0)], vec![one(0)], vec![one(6)], vec![one(6)]]);
}

#[test]
fn short_nodes_are_part_of_their_parents() {
    // A leaf with a short value below 58 nibbles takes fewer bytes than a hash, and so do small branches of those.
    let prefix = [3; 64];
    for depth in [8, 9, 10, 11, 40, 57, 60, 61, 62, 63] {
        let near = |nibble| key(&[&prefix[..depth], &[nibble]].concat());
        let owner = key(&[7]);
        each(&[
            vec![set(owner, 1)],
            vec![slots(owner, &[(near(1), 1), (near(2), 2)])],
            vec![slots(owner, &[(near(3), 200)])],
            vec![slots(owner, &[(near(1), u64::MAX)])],
            vec![slots(owner, &[(near(1), 0), (near(2), 0)])],
            vec![slots(owner, &[(near(5), 1), (near(3), 0)])],
        ]);
    }
}

#[test]
fn a_storage_is_spread_when_it_grows() {
    let owner = key(&[7]);
    let slot = |number: u8| key(&[number / 16, 3, 3, number % 16]);
    let some = |numbers: core::ops::Range<u8>, value| -> Vec<Change> {
        vec![slots(owner, &numbers.map(|number| (slot(number), value)).collect::<Vec<_>>())]
    };
    each(&[
        vec![set(owner, 1)],
        some(0..20, 1),
        some(18..40, 2),
        some(0..10, 0),
        some(0..38, 0),
        some(39..40, 7),
        some(38..39, 0),
        some(39..40, 0),
        some(0..5, 1),
    ]);
    // All slots are below one piece, and then below one middle.
    let below = |prefix: &'static [u8]| {
        let numbers = (0..40u8).map(move |number| (key(&[prefix, &[number / 16, 3, number % 16]].concat()), 1));
        vec![slots(owner, &numbers.collect::<Vec<_>>())]
    };
    for prefix in [&[4, 4][..], &[4], &[], &[4, 4, 4, 4]] {
        let one = slots(owner, &[(key(&[4, 5]), 1)]);
        each(&[vec![set(owner, 1)], below(prefix), vec![one.clone()]]);
        let half = |range: core::ops::Range<usize>| {
            let all = &below(prefix)[0];
            vec![Change { slots: all.slots[range].to_vec(), ..all.clone() }]
        };
        each(&[vec![set(owner, 1)], half(0..20), half(20..40), vec![one]]);
    }
}

#[test]
fn a_removed_account_is_created_again_without_its_storage() {
    let owner = key(&[7]);
    let full = || slots(owner, &(0..30).map(|at| (key(&[at / 16, at % 16]), 1)).collect::<Vec<_>>());
    let again = Change { fate: Fate::Set(account(3)), wipe: Wipe::Storage, ..slots(owner, &[(key(&[1]), 2)]) };
    let wiped = Change { fate: Fate::Kept, wipe: Wipe::Storage, ..set(owner, 0) };
    each(&[
        vec![set(owner, 1), set(key(&[8]), 1)],
        vec![full()],
        vec![remove(owner)],
        vec![set(owner, 2)],
        vec![full()],
        vec![again.clone()],
        vec![wiped.clone()],
        vec![full()],
        vec![again],
        vec![wiped],
    ]);
}
