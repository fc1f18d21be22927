//! Model: a state as ordered maps, whose root another implementation computes anew. Blocks change both.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, keccak256};
use alloy_trie::{
    TrieAccount,
    root::{state_root, storage_root},
};
use phalanx_trie::{Account, Changes, Config, Fate, Lanes, Trie, Updated, Values, Version, Wipe};
use rand::{Rng as _, RngCore as _};
use rand_chacha::ChaCha8Rng;

/// A state: accounts by address, slots by name. Keys are separate, so that tests can choose them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) accounts: BTreeMap<Address, Owner>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) key: B256,
    pub(crate) account: Account,
    /// Key and value by name.
    pub(crate) slots: BTreeMap<B256, (B256, U256)>,
}

impl Values for State {
    type Error = &'static str;

    fn account(&self, address: &Address) -> Result<Option<Account>, Self::Error> {
        Ok(self.accounts.get(address).map(|owner| owner.account))
    }

    fn slot(&self, address: &Address, slot: &B256) -> Result<U256, Self::Error> {
        let owner = self.accounts.get(address);
        Ok(owner.and_then(|owner| owner.slots.get(slot)).map_or(U256::ZERO, |(_, value)| *value))
    }
}

impl Owner {
    pub(crate) fn storage_root(&self) -> B256 {
        let mut slots: Vec<_> = self.slots.values().copied().collect();
        slots.sort_unstable();
        storage_root(slots)
    }
}

impl State {
    pub(crate) fn root(&self) -> B256 {
        let mut accounts: Vec<_> = self
            .accounts
            .values()
            .map(|owner| {
                let Account { nonce, balance, code_hash } = owner.account;
                (owner.key, TrieAccount::new(nonce, balance, owner.storage_root(), code_hash))
            })
            .collect();
        accounts.sort_unstable_by_key(|(key, _)| *key);
        state_root(accounts)
    }

    pub(crate) fn apply(&mut self, block: &[Change]) {
        for change in block {
            match change.fate {
                Fate::Removed => {
                    self.accounts.remove(&change.address);
                    continue;
                }
                Fate::Set(account) => {
                    let new = || Owner { key: change.key, account, slots: BTreeMap::new() };
                    self.accounts.entry(change.address).or_insert_with(new).account = account;
                }
                Fate::Kept => {}
            }
            let owner = self.accounts.get_mut(&change.address).expect("the account exists");
            if change.wipe == Wipe::Storage {
                owner.slots.clear();
            }
            for (slot, key, value) in &change.slots {
                if value.is_zero() {
                    owner.slots.remove(slot);
                } else {
                    owner.slots.insert(*slot, (*key, *value));
                }
            }
        }
    }
}

/// Change of an account and of its slots: name, key, value.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) address: Address,
    pub(crate) key: B256,
    pub(crate) fate: Fate,
    pub(crate) wipe: Wipe,
    pub(crate) slots: Vec<(B256, B256, U256)>,
}

pub(crate) fn changes(block: &[Change]) -> Changes {
    let mut changes = Changes::new();
    for change in block {
        changes.account(change.key, change.address, change.fate, change.wipe);
        for (slot, key, value) in &change.slots {
            changes.slot(*key, *slot, *value);
        }
    }
    changes
}

/// An address whose key is chosen.
pub(crate) fn address_of(key: B256) -> Address {
    Address::from_slice(&keccak256(key)[..20])
}

/// Account with this balance and no code.
pub(crate) fn account(balance: u64) -> Account {
    Account { nonce: balance % 3, balance: U256::from(balance), code_hash: KECCAK256_EMPTY }
}

/// Sets the account with a key to a balance.
pub(crate) fn set(key: B256, balance: u64) -> Change {
    let fate = Fate::Set(account(balance));
    Change { address: address_of(key), key, fate, wipe: Wipe::Nothing, slots: Vec::new() }
}

/// Removes the account with a key.
pub(crate) fn remove(key: B256) -> Change {
    Change { fate: Fate::Removed, ..set(key, 0) }
}

/// Sets slots of the account with a key, which exists; a slot's name is its key.
pub(crate) fn slots(key: B256, slots: &[(B256, u64)]) -> Change {
    let slots = slots.iter().map(|(key, value)| (*key, *key, U256::from(*value))).collect();
    Change { fate: Fate::Kept, slots, ..set(key, 0) }
}

/// A key of these nibbles, which zeros follow.
pub(crate) fn key(nibbles: &[u8]) -> B256 {
    let mut key = B256::ZERO;
    for (at, nibble) in nibbles.iter().enumerate() {
        key[at / 2] |= nibble << if at % 2 == 0 { 4 } else { 0 };
    }
    key
}

/// A trie beside the model, one state per version.
pub(crate) struct Pair {
    pub(crate) trie: Trie,
    pub(crate) states: BTreeMap<Version, State>,
}

impl Pair {
    pub(crate) fn new(config: Config) -> Self {
        let trie = Trie::new(config);
        let states = BTreeMap::from([(trie.oldest(), State::default())]);
        Self { trie, states }
    }

    /// Makes a version in both, and compares the roots.
    pub(crate) fn update(&mut self, parent: Version, block: &[Change]) -> Updated {
        let before = &self.states[&parent];
        let updated = self.trie.update(parent, &changes(block), before).expect("a block");
        let mut after = before.clone();
        after.apply(block);
        assert_eq!(updated.root, after.root(), "the root of {:?} on {parent:?}", updated.version);
        assert_eq!(self.trie.root(updated.version), Some(updated.root));
        self.states.insert(updated.version, after);
        updated
    }

    /// Number of nodes of a trie that was made of one state at once.
    pub(crate) fn nodes_of(state: &State, config: Config) -> usize {
        let mut trie = Trie::new(config);
        let all: Vec<Change> = state
            .accounts
            .iter()
            .map(|(address, owner)| Change {
                address: *address,
                key: owner.key,
                fate: Fate::Set(owner.account),
                wipe: Wipe::Nothing,
                slots: owner.slots.iter().map(|(slot, (key, value))| (*slot, *key, *value)).collect(),
            })
            .collect();
        trie.update(trie.oldest(), &changes(&all), state).expect("a state");
        trie.nodes()
    }
}

/// Configurations that tests use: every number of lanes, storages that are spread early.
pub(crate) fn configs() -> impl Iterator<Item = Config> {
    [Lanes::Eight, Lanes::Four, Lanes::One].into_iter().map(|lanes| Config { lanes, spread: 24 })
}

/// A key, often close to others.
pub(crate) fn random_key(rng: &mut ChaCha8Rng) -> B256 {
    let mut key = B256::ZERO;
    match rng.random_range(0..4) {
        0 | 1 => rng.fill_bytes(key.as_mut_slice()),
        // One of 4096 keys that differ in a few places, near the root, in the middle and at the end.
        2 => {
            for at in [0, 1, 15, 16, 30, 31] {
                key[at] = rng.random_range(0..4);
            }
        }
        _ => {
            let shared = rng.random_range(0..32);
            key[..shared].fill(0xab);
            key[shared] = rng.random_range(0..32);
        }
    }
    key
}
