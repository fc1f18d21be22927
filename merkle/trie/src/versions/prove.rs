//! Proofs of accounts and slots, present or absent, as `eth_getProof` returns them (EIP-1186).

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

use super::trie::{Trie, Version};
use crate::{
    hash::{account_value, branch_of, extension, leaf, reference_of, slot_value, stored_branch},
    nodes::{Leaf, Middle, Node, Root, SHARDS, Shard, Top},
    types::{Account, Error, Values, common, nibble},
    update::{EMPTY_ROOT, account, first_byte, slot, storage_root},
};

/// Proof of an account and of some of its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountProof {
    /// The account, `None` if it does not exist.
    pub account: Option<Account>,
    /// Root of the account's storage.
    pub storage_root: B256,
    /// Nodes from the state root down, in RLP; nodes that are part of others are not repeated.
    pub nodes: Vec<Bytes>,
    /// Slots, as they were asked for.
    pub slots: Vec<SlotProof>,
}

/// Proof of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotProof {
    /// The slot.
    pub slot: B256,
    /// Value, zero if it is not set.
    pub value: U256,
    /// Nodes from the storage root down, in RLP.
    pub nodes: Vec<Bytes>,
}

impl Trie {
    /// Proves an account and slots of it under the root of a version, of which `values` are the values.
    ///
    /// # Errors
    /// If there is no such version, or the store fails or lacks what the trie has.
    pub fn prove<V: Values>(
        &self,
        version: Version,
        address: &Address,
        slots: &[B256],
        values: &V,
    ) -> Result<AccountProof, Error<V::Error>> {
        let state = self.state(version)?;
        let key = keccak256(address);
        let mut path = Proving { shards: self.shards(), key: &key, nodes: Vec::new() };
        let found = path.below_top(&state.accounts.top);
        let shard = &self.shards()[usize::from(key[0])];
        let (mut proven, mut storage) = (None, None);
        let mut root = EMPTY_ROOT;
        if let Some((found, at)) = found {
            let its = account(values, found)?;
            // The leaf may be another key's, of another shard.
            root = storage_root(&self.shards()[usize::from(found.key[0])], found);
            let mut value = Vec::new();
            account_value(&its, &root, &mut value);
            path.leaf(found, at, &value);
            if found.key == key {
                proven = Some(its);
                storage = Some(found.name.storage()).filter(|storage| *storage != 0);
            } else {
                root = EMPTY_ROOT;
            }
        }
        let nodes = path.nodes;
        let storage = storage.map(|storage| &shard.storages.get(storage).nodes);
        let slots = slots.iter().map(|slot| self.prove_slot(address, shard, storage, *slot, values));
        let slots = slots.collect::<Result<_, _>>()?;
        Ok(AccountProof { account: proven, storage_root: root, nodes, slots })
    }

    fn prove_slot<V: Values>(
        &self,
        address: &Address,
        home: &Shard,
        storage: Option<&Root>,
        name: B256,
        values: &V,
    ) -> Result<SlotProof, Error<V::Error>> {
        let key = keccak256(name);
        let mut path = Proving { shards: self.shards(), key: &key, nodes: Vec::new() };
        let found = match storage {
            None => None,
            Some(Root::Whole(node)) => path.down(home, *node, 0),
            Some(Root::Spread(top)) => path.below_top(top),
        };
        let mut value = U256::ZERO;
        if let Some((found, at)) = found {
            let its = slot(values, address, found)?;
            let mut rlp = Vec::new();
            slot_value(&its, &mut rlp);
            path.leaf(found, at, &rlp);
            if found.key == key {
                value = its;
            }
        }
        Ok(SlotProof { slot: name, value, nodes: path.nodes })
    }
}

/// The nodes on the way to a key.
struct Proving<'a> {
    shards: &'a [Shard; SHARDS],
    key: &'a B256,
    nodes: Vec<Bytes>,
}

/// The leaf at the end of the way, which may be another key's, and the nibbles above it.
type Found<'a> = Option<(&'a Leaf, usize)>;

impl<'a> Proving<'a> {
    /// Adds a node, unless it is so short that its parent contains it.
    fn push(&mut self, rlp: Vec<u8>) {
        if rlp.len() >= 32 || self.nodes.is_empty() {
            self.nodes.push(rlp.into());
        }
    }

    fn leaf(&mut self, found: &Leaf, at: usize, value: &[u8]) {
        let mut rlp = Vec::new();
        leaf(&found.key, at, value, &mut rlp);
        self.push(rlp);
    }

    fn below_top(&mut self, top: &Top) -> Found<'a> {
        let first = nibble(self.key, 0);
        let middle = match top.below_root()[..] {
            [] => return None,
            [(_, Middle::Piece(piece))] => return self.piece(top, piece, 0),
            [(only, middle)] => {
                let mut rlp = Vec::new();
                let below = top.middles[only].expect("middles of a complete version are known");
                extension(&first_byte(only << 4), 0, 1, &below, &mut rlp);
                self.push(rlp);
                if only != first {
                    return None;
                }
                middle
            }
            _ => {
                let mut rlp = Vec::new();
                branch_of(&top.middles, &mut rlp);
                self.push(rlp);
                top.middle(first)
            }
        };
        match middle {
            Middle::Empty => None,
            Middle::Piece(piece) => self.piece(top, piece, 1),
            Middle::Branch => {
                let mut children = [None; 16];
                for piece in top.pieces_below(first) {
                    children[piece % 16] = top.pieces[piece].reference;
                }
                let mut rlp = Vec::new();
                branch_of(&children, &mut rlp);
                self.push(rlp);
                self.piece(top, usize::from(self.key[0]), 2)
            }
        }
    }

    fn piece(&mut self, top: &Top, piece: usize, at: usize) -> Found<'a> {
        self.down(&self.shards[piece], top.pieces[piece].node, at)
    }

    fn down(&mut self, shard: &'a Shard, mut node: Node, mut at: usize) -> Found<'a> {
        loop {
            let branch = match node {
                Node::Empty => return None,
                Node::Leaf(leaf) => return Some((shard.leaves.get(leaf), at)),
                Node::Branch(branch) => branch,
            };
            let head = shard.branches.head(branch);
            let depth = usize::from(head.depth);
            let mut rlp = Vec::new();
            stored_branch(shard, branch, &mut rlp);
            if at < depth {
                let below = reference_of(&rlp);
                let key = shard.any_key(branch);
                let mut above = Vec::new();
                extension(key, at, depth, &below, &mut above);
                self.push(above);
                if common(key, self.key) < depth {
                    return None;
                }
            }
            self.push(rlp);
            node = shard.branches.node(branch, head, nibble(self.key, depth));
            at = depth + 1;
        }
    }
}
