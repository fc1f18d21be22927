//! A shard: the nodes of all keys with one first byte, so that threads write to different ones.

use alloy_primitives::B256;
use phalanx_memory::prefetch;

use super::{
    arena::Arena,
    branches::Branches,
    node::{Leaf, Node},
    top::Top,
};
use crate::types::nibble;

/// Number of shards: values of a key's first byte.
pub(crate) const SHARDS: usize = 256;

/// Nodes of one shard. Small storages are whole in the shard of their account.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) branches: Branches,
    pub(crate) leaves: Arena<Leaf>,
    pub(crate) storages: Arena<Storage>,
}

/// An account's storage with at least one slot.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    pub(crate) root: B256,
    /// Number of slots.
    pub(crate) len: u64,
    pub(crate) nodes: Root,
}

/// Nodes of a storage.
#[derive(Clone, Debug)]
pub(crate) enum Root {
    /// In the shard of the account.
    Whole(Node),
    /// In all shards, each slot in that of its key.
    Spread(Box<Top>),
}

impl Default for Shard {
    fn default() -> Self {
        let mut storages = Arena::default();
        // Index 0 stands for no storage.
        storages.add(Storage { root: B256::ZERO, len: 0, nodes: Root::Whole(Node::Empty) });
        Self { branches: Branches::default(), leaves: Arena::default(), storages }
    }
}

impl Shard {
    /// Prefetches what visiting a node takes.
    #[inline]
    pub(crate) fn look_ahead(&self, node: Node) {
        match node {
            Node::Empty => {}
            Node::Leaf(leaf) => prefetch(self.leaves.get(leaf)),
            Node::Branch(branch) => self.branches.prefetch_head(branch),
        }
    }

    /// Prefetches what hashing a node takes.
    #[inline]
    pub(crate) fn look_ahead_whole(&self, node: Node) {
        match node {
            Node::Branch(branch) => self.branches.prefetch(branch),
            node => self.look_ahead(node),
        }
    }

    /// Key of some leaf below a branch: all of them share the nibbles above it.
    pub(crate) fn any_key(&self, mut branch: u32) -> &B256 {
        loop {
            let head = self.branches.head(branch);
            let first = head.children.trailing_zeros() as usize;
            match self.branches.node(branch, head, first) {
                Node::Branch(below) => branch = below,
                Node::Leaf(leaf) => return &self.leaves.get(leaf).key,
                Node::Empty => unreachable!("a branch has no empty children"),
            }
        }
    }

    /// The leaf with this key below `node`, if there is one.
    pub(crate) fn find(&self, mut node: Node, key: &B256) -> Option<u32> {
        loop {
            match node {
                Node::Empty => return None,
                Node::Leaf(leaf) => return (self.leaves.get(leaf).key == *key).then_some(leaf),
                Node::Branch(branch) => {
                    let head = self.branches.head(branch);
                    node = self.branches.node(branch, head, nibble(key, head.depth.into()));
                }
            }
        }
    }

    /// Frees a node and all below it.
    pub(crate) fn free_below(&mut self, node: Node) {
        match node {
            Node::Empty => {}
            Node::Leaf(leaf) => self.leaves.free(leaf),
            Node::Branch(branch) => {
                let head = self.branches.head(branch);
                for nibble in head.nibbles() {
                    self.free_below(self.branches.node(branch, head, nibble));
                }
                self.branches.free(branch, head.count());
            }
        }
    }

    /// Bytes of all arenas.
    pub(crate) fn memory(&self) -> usize {
        self.branches.memory() + self.leaves.memory() + self.storages.memory()
    }
}
