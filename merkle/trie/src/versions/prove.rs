//! Proofs of accounts and slots, present or absent, as `eth_getProof` returns them (EIP-1186).

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

use super::{
    trie::{State, Trie, Version},
    view::{ShardView, View},
};
use crate::{
    hash::{account_value, branch_of, extension, leaf, reference_of, slot_value},
    nodes::{Leaf, Middle, Node, Root, Top},
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
        let prover = Prover { state: self.state(version)?, view: self.view(version), values };
        let (nodes, found) = prover.account(&keccak256(address))?;
        let slots = slots.iter().map(|slot| {
            let (nodes, value) = prover.slot(found.as_ref(), &keccak256(slot))?;
            Ok(SlotProof { slot: *slot, value, nodes })
        });
        let slots = slots.collect::<Result<_, _>>()?;
        let storage_root = found.as_ref().map_or(EMPTY_ROOT, |found| found.root);
        Ok(AccountProof { account: found.map(|found| found.account), storage_root, nodes, slots })
    }
}

/// Nodes on the way to a key, and what the key has.
type Way<T> = (Vec<Bytes>, T);

/// Proofs under the root of one version.
pub(super) struct Prover<'a, V> {
    pub(super) state: &'a State,
    pub(super) view: View<'a>,
    pub(super) values: &'a V,
}

/// An account that exists.
pub(super) struct Owned<'a> {
    account: Account,
    address: Address,
    /// Root of its storage.
    root: B256,
    shard: ShardView<'a>,
    /// Record of its storage in the shard, 0 if it has none.
    storage: u32,
}

impl<V: Values> Prover<'_, V> {
    /// Nodes on the way to an account, and the account.
    pub(super) fn account(&self, key: &B256) -> Result<Way<Option<Owned<'_>>>, Error<V::Error>> {
        let mut path = Proving { view: &self.view, key: *key, nodes: Vec::new() };
        let Some(Found { shard, leaf, at }) = path.below_top(&self.state.accounts.top) else {
            return Ok((path.nodes, None));
        };
        let account = account(self.values, leaf)?;
        // The leaf may be another key's, of another shard.
        let root = storage_root(shard.shard, leaf);
        let mut value = Vec::new();
        account_value(&account, &root, &mut value);
        path.leaf(leaf, at, &value);
        let (address, storage) = (leaf.name.address(), leaf.name.storage());
        let found = (leaf.key == *key).then_some(Owned { account, address, root, shard, storage });
        Ok((path.nodes, found))
    }

    /// Nodes on the way to a slot of an account, and its value.
    pub(super) fn slot(&self, owner: Option<&Owned<'_>>, key: &B256) -> Result<Way<U256>, Error<V::Error>> {
        let mut path = Proving { view: &self.view, key: *key, nodes: Vec::new() };
        let Some(owner) = owner.filter(|owner| owner.storage != 0) else { return Ok((path.nodes, U256::ZERO)) };
        let found = match &owner.shard.shard.storages.get(owner.storage).nodes {
            Root::Whole(node) => path.down(owner.shard, *node, 0),
            Root::Spread(top) => path.below_top(top).map(|found| (found.leaf, found.at)),
        };
        let mut value = U256::ZERO;
        if let Some((found, at)) = found {
            let its = slot(self.values, &owner.address, found)?;
            let mut rlp = Vec::new();
            slot_value(&its, &mut rlp);
            path.leaf(found, at, &rlp);
            if found.key == *key {
                value = its;
            }
        }
        Ok((path.nodes, value))
    }
}

/// The nodes on the way to a key.
struct Proving<'v, 'w> {
    view: &'v View<'w>,
    key: B256,
    nodes: Vec<Bytes>,
}

/// The leaf at the end of the way, which may be another key's, its shard, and the nibbles above it.
struct Found<'a> {
    shard: ShardView<'a>,
    leaf: &'a Leaf,
    at: usize,
}

impl<'v> Proving<'v, '_> {
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

    fn below_top(&mut self, top: &Top) -> Option<Found<'v>> {
        let first = nibble(&self.key, 0);
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

    fn piece(&mut self, top: &Top, piece: usize, at: usize) -> Option<Found<'v>> {
        let shard = self.view.shard(piece as u8);
        let (leaf, at) = self.down(shard, top.pieces[piece].node, at)?;
        Some(Found { shard, leaf, at })
    }

    fn down(&mut self, shard: ShardView<'v>, mut node: Node, mut at: usize) -> Option<(&'v Leaf, usize)> {
        loop {
            let branch = match node {
                Node::Empty => return None,
                Node::Leaf(leaf) => return Some((shard.shard.leaves.get(leaf), at)),
                Node::Branch(branch) => branch,
            };
            let head = shard.shard.branches.head(branch);
            let depth = usize::from(head.depth);
            let mut rlp = Vec::new();
            branch_of(&shard.references(branch, head), &mut rlp);
            if at < depth {
                let below = reference_of(&rlp);
                let key = shard.any_key(branch);
                let mut above = Vec::new();
                extension(key, at, depth, &below, &mut above);
                self.push(above);
                if common(key, &self.key) < depth {
                    return None;
                }
            }
            self.push(rlp);
            (node, _) = shard.child(branch, head, nibble(&self.key, depth));
            at = depth + 1;
        }
    }
}
