//! Accounts and slots of a partial state.

use alloy_primitives::{
    Address, B256, Bytes, U256, keccak256,
    map::{B256Map, HashMap},
};
use alloy_rlp::Decodable as _;
use alloy_trie::{Nibbles, TrieAccount};

use super::{
    source::{Nodes, Owner, by_hash},
    subtrie::{Subtrie, Way},
};
use crate::types::{Account, AccountChange, Changes, Fate, Wipe};

/// Fault of a witness: with it nothing is said about the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartialError {
    /// A node is needed that is not known.
    #[error("the witness lacks the node {hash} ({owner:?}): it is not whole, or of another state")]
    Absent {
        /// Trie of the node.
        owner: Owner,
        /// Hash of the node.
        hash: B256,
    },
    /// A node is not one of a trie of accounts or slots.
    #[error("a node of the witness is malformed ({owner:?}): it is not of Ethereum's state")]
    Malformed {
        /// Trie of the node.
        owner: Owner,
    },
    /// A change keeps an account that does not exist.
    #[error("account {address} does not exist: set it before its slots")]
    NoAccount {
        /// The account.
        address: Address,
    },
}

/// A state by its root and some of its nodes, each of which the root binds.
///
/// Reads and changes fail where they lead to a node that is not known, so that what they return holds under the root.
#[derive(Debug)]
pub struct Partial<N = B256Map<Bytes>> {
    nodes: N,
    accounts: Subtrie,
    /// Storages that were opened, by hashed address.
    storages: HashMap<B256, Subtrie>,
}

impl Partial {
    /// Creates the state with this root of a witness's nodes, in any order.
    pub fn of_witness(root: &B256, nodes: impl IntoIterator<Item = Bytes>) -> Self {
        Self::new(root, by_hash(nodes))
    }
}

impl<N: Nodes> Partial<N> {
    /// Creates the state with this root; nodes are taken as the source returns them.
    pub fn new(root: &B256, nodes: N) -> Self {
        Self { nodes, accounts: Subtrie::of_root(root), storages: HashMap::default() }
    }

    /// Source of the nodes.
    pub fn into_nodes(self) -> N {
        self.nodes
    }

    /// The account at `address`, with the root of its storage; `None` if there is none.
    ///
    /// # Errors
    /// [`PartialError`].
    pub fn account(&mut self, address: &Address) -> Result<Option<(Account, B256)>, PartialError> {
        let found = self.found(&keccak256(address))?;
        Ok(found.map(|TrieAccount { nonce, balance, storage_root, code_hash, .. }| {
            (Account { nonce, balance, code_hash }, storage_root)
        }))
    }

    /// The value of a slot, zero if it is not set.
    ///
    /// # Errors
    /// [`PartialError`].
    pub fn slot(&mut self, address: &Address, slot: &B256) -> Result<U256, PartialError> {
        let key = keccak256(address);
        let Some(account) = self.found(&key)? else { return Ok(U256::ZERO) };
        let owner = Owner::Storage(key);
        let storage = self.storages.entry(key).or_insert_with(|| Subtrie::of_root(&account.storage_root));
        let mut way = Way { nodes: &mut self.nodes, owner, key: Nibbles::unpack(keccak256(slot)) };
        let value = way.get(storage, 0)?;
        value.map_or(Ok(U256::ZERO), |rlp| U256::decode(&mut &rlp[..]).map_err(|_| PartialError::Malformed { owner }))
    }

    fn found(&mut self, key: &B256) -> Result<Option<TrieAccount>, PartialError> {
        let mut way = Way { nodes: &mut self.nodes, owner: Owner::State, key: Nibbles::unpack(key) };
        let value = way.get(&mut self.accounts, 0)?;
        let decode = |rlp: Vec<u8>| TrieAccount::decode(&mut &rlp[..]);
        value.map(decode).transpose().map_err(|_| PartialError::Malformed { owner: Owner::State })
    }

    /// Applies the changes of a block, and returns the root after it.
    ///
    /// # Errors
    /// [`PartialError`]; the state is then of no use.
    pub fn update(&mut self, changes: &Changes) -> Result<B256, PartialError> {
        let all = || changes.accounts();
        // Removals come last: what takes a removed node's place is then needed only if it does so in the end.
        for account in all().filter(|account| account.fate != Fate::Removed) {
            self.change(account, changes)?;
        }
        for account in all().filter(|account| account.fate == Fate::Removed) {
            self.storages.remove(&account.key);
            let key = Nibbles::unpack(account.key);
            Way { nodes: &mut self.nodes, owner: Owner::State, key }.remove(&mut self.accounts, 0)?;
        }
        Ok(self.accounts.root())
    }

    fn change(&mut self, change: &AccountChange, changes: &Changes) -> Result<(), PartialError> {
        let before = self.found(&change.key)?;
        let key = Nibbles::unpack(change.key);
        let mut account = match (change.fate, before) {
            (Fate::Set(Account { nonce, balance, code_hash }), before) => {
                let storage_root = before.unwrap_or_default().storage_root;
                TrieAccount { nonce, balance, code_hash, storage_root }
            }
            (_, Some(before)) => before,
            (_, None) => return Err(PartialError::NoAccount { address: change.address }),
        };
        if change.wipe == Wipe::Storage {
            self.storages.insert(change.key, Subtrie::Empty);
        }
        let storage = self.storages.entry(change.key).or_insert_with(|| Subtrie::of_root(&account.storage_root));
        let slots = &changes.slots()[change.slots()];
        let mut way = Way { nodes: &mut self.nodes, owner: Owner::Storage(change.key), key };
        for slot in slots.iter().filter(|slot| !slot.value.is_zero()) {
            way.key = Nibbles::unpack(slot.key);
            way.put(storage, 0, alloy_rlp::encode(slot.value))?;
        }
        for slot in slots.iter().filter(|slot| slot.value.is_zero()) {
            way.key = Nibbles::unpack(slot.key);
            way.remove(storage, 0)?;
        }
        account.storage_root = storage.root();
        let mut way = Way { nodes: &mut self.nodes, owner: Owner::State, key };
        way.put(&mut self.accounts, 0, alloy_rlp::encode(account))
    }
}
