//! Branches as a version has them, while the trie stands at another one.

use core::cell::OnceCell;

use alloy_primitives::{B256, map::HashMap};

use crate::nodes::{Head, Journal, Node, Other, Reference, SHARDS, Shard};

/// All branches as a version has them.
pub(super) struct View<'a> {
    shards: &'a [Shard; SHARDS],
    /// Differences on the way to the version, in their order.
    way: Vec<&'a Journal>,
    /// Shards that were looked at.
    others: Vec<OnceCell<Others<'a>>>,
}

/// Children of a shard that are different from those where the trie stands, by branch and nibble.
type Others<'a> = HashMap<(u32, u8), &'a Other>;

/// A shard as a version has it.
#[derive(Clone, Copy)]
pub(super) struct ShardView<'a> {
    pub(super) shard: &'a Shard,
    others: &'a Others<'a>,
}

impl<'a> View<'a> {
    pub(super) fn new(shards: &'a [Shard; SHARDS], way: Vec<&'a Journal>) -> Self {
        Self { shards, way, others: (0..SHARDS).map(|_| OnceCell::new()).collect() }
    }

    /// A shard; the first time O(changes of the shard on the way).
    pub(super) fn shard(&self, number: u8) -> ShardView<'_> {
        let others = self.others[usize::from(number)].get_or_init(|| {
            // The last one of a child is that of the version.
            let all = self.way.iter().flat_map(|journal| journal.others_of(number));
            all.map(|other| ((other.branch, other.nibble), other)).collect()
        });
        ShardView { shard: &self.shards[usize::from(number)], others }
    }
}

impl<'a> ShardView<'a> {
    /// The child at a nibble, empty if there is none, and its reference.
    pub(super) fn child(&self, branch: u32, head: Head, nibble: usize) -> (Node, Reference) {
        if !head.has(nibble) {
            return (Node::Empty, Reference::UNKNOWN);
        }
        let branches = &self.shard.branches;
        let here = || (branches.node(branch, head, nibble), branches.reference(branch, head, nibble));
        self.others.get(&(branch, nibble as u8)).map_or_else(here, |other| (other.node, other.reference))
    }

    /// References of a branch's children, by nibble.
    pub(super) fn references(&self, branch: u32, head: Head) -> [Option<Reference>; 16] {
        core::array::from_fn(|nibble| head.has(nibble).then(|| self.child(branch, head, nibble).1))
    }

    /// Key of some leaf below a branch: all of them share the nibbles above it.
    pub(super) fn any_key(&self, mut branch: u32) -> &'a B256 {
        loop {
            let head = self.shard.branches.head(branch);
            match self.child(branch, head, head.children.trailing_zeros() as usize).0 {
                Node::Branch(below) => branch = below,
                Node::Leaf(leaf) => return &self.shard.leaves.get(leaf).key,
                Node::Empty => unreachable!("a branch has no empty children"),
            }
        }
    }
}
