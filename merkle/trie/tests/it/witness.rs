//! Witnesses: their nodes alone give the values under the root, and the root after the changes that they are for.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use phalanx_trie::{Config, Fate, Lanes, Owner, Partial, PartialError, Wipe};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::common::{Change, Pair, account, address_of, changes, random_key, set};

/// A block that sets, empties and removes, often what lies close together.
fn block(rng: &mut ChaCha8Rng, keys: &[B256], pair: &Pair, version: phalanx_trie::Version) -> Vec<Change> {
    let state = &pair.states[&version];
    let mut block = Vec::new();
    for key in keys.iter().filter(|_| rng.random_bool(0.3)).copied().collect::<Vec<_>>() {
        let exists = state.accounts.contains_key(&address_of(key));
        let mut change = set(key, rng.random());
        change.fate = match rng.random_range(0..6) {
            0 | 1 => Fate::Removed,
            2 if exists => Fate::Kept,
            _ => Fate::Set(account(rng.random_range(0..100))),
        };
        if rng.random_bool(0.05) {
            change.wipe = Wipe::Storage;
        }
        for slot in keys.iter().filter(|_| rng.random_bool(0.2)).copied().collect::<Vec<_>>() {
            change.slots.push((slot, slot, U256::from(rng.random_range(0..3u64))));
        }
        block.push(change);
    }
    block
}

#[test]
fn a_witness_gives_what_it_is_for_and_nothing_else() {
    let mut nodes = 0;
    let seeds = std::env::var("PHALANX_HISTORIES").map_or(100, |count| count.parse().expect("a count"));
    for seed in 0..seeds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut pair = Pair::new(Config { lanes: Lanes::most(), spread: [4, 24, 1000][seed as usize % 3] });
        let keys: Vec<B256> = (0..rng.random_range(1..14)).map(|_| random_key(&mut rng)).collect();
        let mut tip = pair.trie.oldest();
        for _ in 0..4 {
            let next = block(&mut rng, &keys, &pair, tip);
            let state = &pair.states[&tip];
            let root = pair.trie.root(tip).expect("a version");
            let all = changes(&next);
            // Keys of these tests are not the hashes of their names, so reads are of absent ones.
            let reads = [(Address::from(rng.random::<[u8; 20]>()), vec![B256::from(rng.random::<[u8; 32]>())])];
            let witness = pair.trie.witness(tip, &reads, &all, state).expect("a witness");
            let distinct: std::collections::BTreeSet<&Bytes> = witness.iter().collect();
            nodes += distinct.len();

            let mut partial = Partial::of_witness(&root, witness.clone());
            assert_eq!(partial.account(&reads[0].0), Ok(None), "seed {seed}");
            let after = partial.update(&all).expect("the witness is whole");
            let made = pair.update(tip, &next);
            assert_eq!(after, made.root, "seed {seed}");

            // Without a node it says that one is absent, or does not need it: it never gives another root.
            for left_out in 0..witness.len() {
                let mut rest = witness.clone();
                let gone = rest.remove(left_out);
                rest.retain(|node| *node != gone);
                let mut partial = Partial::of_witness(&root, rest);
                match partial.account(&reads[0].0).and_then(|_| partial.update(&all)) {
                    Ok(root) => panic!("seed {seed}: node {left_out} was not needed for {root}"),
                    Err(error) => assert!(matches!(error, PartialError::Absent { .. }), "seed {seed}: {error}"),
                }
            }
            tip = made.version;
        }
    }
    assert!(nodes as u64 > 5 * seeds, "{nodes} nodes");
}

#[test]
fn values_of_a_witness_are_those_of_the_state() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut pair = Pair::new(Config { lanes: Lanes::most(), spread: 24 });
    let addresses: Vec<Address> = (0..60).map(|_| Address::from(rng.random::<[u8; 20]>())).collect();
    let slots: Vec<B256> = (0..40u64).map(|slot| U256::from(slot).into()).collect();
    let genesis: Vec<Change> = addresses
        .iter()
        .map(|address| Change {
            address: *address,
            key: keccak256(address),
            fate: Fate::Set(account(u64::from(address[0]) + 1)),
            wipe: Wipe::Nothing,
            slots: slots[..rng.random_range(0..slots.len())]
                .iter()
                .map(|slot| (*slot, keccak256(slot), U256::from_be_bytes(slot.0) + U256::ONE))
                .collect(),
        })
        .collect();
    let oldest = pair.trie.oldest();
    let made = pair.update(oldest, &genesis);
    let state = &pair.states[&made.version];
    let reads: Vec<_> = addresses.iter().map(|address| (*address, slots.clone())).collect();
    let witness = pair.trie.witness(made.version, &reads, &changes(&[]), state).expect("a witness");
    let mut partial = Partial::of_witness(&made.root, witness.clone());
    for address in &addresses {
        let owner = &state.accounts[address];
        assert_eq!(partial.account(address), Ok(Some((owner.account, owner.storage_root()))));
        for slot in &slots {
            let value = owner.slots.get(slot).map_or(U256::ZERO, |(_, value)| *value);
            assert_eq!(partial.slot(address, slot), Ok(value));
        }
    }
    // Nodes of others are of no use, and what is no node is named.
    let mut other = Partial::of_witness(&B256::repeat_byte(1), witness);
    let hash = B256::repeat_byte(1);
    assert_eq!(other.account(&addresses[0]), Err(PartialError::Absent { owner: Owner::State, hash }));
    for bytes in [&[0x80][..], &[0xc1, 0x80], &[0xf8, 0xff], &[0xc2, 0x00, 0x80], &[0xc4, 0x80, 0x80, 0x80, 0x80]] {
        let node = Bytes::copy_from_slice(bytes);
        let mut bad = Partial::of_witness(&keccak256(&node), [node]);
        match bad.account(&addresses[0]) {
            Ok(account) => assert!(account.is_none() && bytes == [0x80]),
            Err(error) => assert_eq!(error, PartialError::Malformed { owner: Owner::State }),
        }
    }
}
