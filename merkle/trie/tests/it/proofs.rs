//! Proofs of present and absent accounts and slots hold with another implementation's verifier.

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_trie::{EMPTY_ROOT_HASH, Nibbles, TrieAccount, proof::verify_proof};
use phalanx_trie::{Account, AccountProof, Config, Fate, Lanes, Wipe};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::common::{Change, Pair, account};

fn set(address: Address, slots: &[(B256, U256)]) -> Change {
    let slots = slots.iter().map(|(slot, value)| (*slot, keccak256(slot), *value)).collect();
    let (key, fate) = (keccak256(address), Fate::Set(account(u64::from(address[19]) + 1)));
    Change { address, key, fate, wipe: Wipe::Nothing, slots }
}

fn verify(root: B256, address: Address, proof: &AccountProof) {
    let account = proof.account.map(|Account { nonce, balance, code_hash }| {
        alloy_rlp::encode(TrieAccount::new(nonce, balance, proof.storage_root, code_hash))
    });
    let path = Nibbles::unpack(keccak256(address));
    verify_proof(root, path, account, &proof.nodes).expect("the account's proof");
    for slot in &proof.slots {
        let value = (!slot.value.is_zero()).then(|| alloy_rlp::encode(slot.value));
        let path = Nibbles::unpack(keccak256(slot.slot));
        verify_proof(proof.storage_root, path, value, &slot.nodes).expect("the slot's proof");
    }
}

/// Number in the last bytes.
fn slot(number: u64) -> B256 {
    U256::from(number).into()
}

#[test]
fn proofs_hold_for_states_of_every_size() {
    for (accounts, count) in [(0, 0), (1, 0), (1, 1), (2, 2), (3, 20), (17, 30), (40, 3), (400, 40)] {
        let seed = accounts * 1000 + count;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut pair = Pair::new(Config { lanes: Lanes::most(), spread: 24 });
        let addresses: Vec<Address> = (0..accounts).map(|_| Address::from(rng.random::<[u8; 20]>())).collect();
        let block: Vec<Change> = addresses
            .iter()
            .map(|address| {
                let slots: Vec<_> = (0..count).map(|number| (slot(number), U256::from(number + 1))).collect();
                set(*address, &slots)
            })
            .collect();
        let oldest = pair.trie.oldest();
        let made = pair.update(oldest, &block);
        // A block on top does not change what the first one proves.
        pair.update(made.version, &block.iter().map(|change| set(change.address, &[])).collect::<Vec<_>>());
        let state = &pair.states[&made.version];
        let absent = (0..50).map(|_| Address::from(rng.random::<[u8; 20]>()));
        for address in addresses.into_iter().chain(absent) {
            let wanted: Vec<B256> = (0..count + 10).map(slot).collect();
            let proof = pair.trie.prove(made.version, &address, &wanted, state).expect("a proof");
            let owner = state.accounts.get(&address);
            assert_eq!(proof.account, owner.map(|owner| owner.account), "seed {seed}");
            assert_eq!(proof.storage_root, owner.map_or(EMPTY_ROOT_HASH, |owner| owner.storage_root()));
            for (wanted, proven) in wanted.iter().zip(&proof.slots) {
                let value = owner.and_then(|owner| owner.slots.get(wanted)).map_or(U256::ZERO, |(_, value)| *value);
                assert_eq!((proven.slot, proven.value), (*wanted, value), "seed {seed}");
            }
            verify(made.root, address, &proof);
        }
    }
}

#[test]
fn a_proof_does_not_hold_under_another_root() {
    let mut pair = Pair::new(Config::default());
    let address = Address::with_last_byte(1);
    let oldest = pair.trie.oldest();
    let first = pair.update(oldest, &[set(address, &[(slot(1), U256::from(5))]), set(Address::ZERO, &[])]);
    let second = pair.update(first.version, &[set(Address::with_last_byte(2), &[])]);
    let proof = pair.trie.prove(first.version, &address, &[], &pair.states[&first.version]).expect("a proof");
    let (path, root) = (Nibbles::unpack(keccak256(address)), second.root);
    assert!(verify_proof(root, path, None, &proof.nodes).is_err());
}

/// Versions of a tree with forks: the trie stands at the last one made, and proves under all.
#[test]
fn every_version_proves_its_own_state_wherever_the_trie_stands() {
    for seed in 0..8 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut pair = Pair::new(Config { lanes: Lanes::most(), spread: 24 });
        let addresses: Vec<Address> = (0..120).map(|_| Address::from(rng.random::<[u8; 20]>())).collect();
        let mut versions = vec![pair.trie.oldest()];
        for height in 0..14 {
            let parent = versions[rng.random_range(versions.len().saturating_sub(4)..versions.len())];
            let mut block = Vec::new();
            for address in &addresses {
                let numbers = 0..if rng.random_bool(0.1) { 60 } else { rng.random_range(0..4) };
                let slots: Vec<_> = numbers.map(|number| (slot(number), U256::from(rng.random_range(0..5)))).collect();
                match rng.random_range(0..8) {
                    0 => block.push(Change { fate: Fate::Removed, ..set(*address, &[]) }),
                    1..4 => block.push(Change { fate: Fate::Set(account(height)), ..set(*address, &slots) }),
                    _ => {}
                }
            }
            versions.push(pair.update(parent, &block).version);
            if height == 9 {
                // One that leads to other versions, and the trie may stand there.
                let _ = pair.trie.discard(versions[5]);
                versions.retain(|version| pair.trie.root(*version).is_some());
            }
        }
        for version in versions {
            let (state, root) = (&pair.states[&version], pair.trie.root(version).expect("a version"));
            for address in &addresses {
                let wanted: Vec<B256> = [0, 1, 30, 70].map(slot).to_vec();
                let proof = pair.trie.prove(version, address, &wanted, state).expect("a proof");
                assert_eq!(proof.account, state.accounts.get(address).map(|owner| owner.account), "seed {seed}");
                verify(root, *address, &proof);
            }
        }
    }
}
