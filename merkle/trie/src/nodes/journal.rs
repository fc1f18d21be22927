//! The nodes that an update made, and those that it made superfluous.

use super::{
    node::Node,
    shard::{Root, SHARDS, Shard},
};

/// Nodes that an update made and replaced. The made ones are freed if its version is discarded, the replaced ones when no
/// version is left that sees them.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) made: Vec<(u8, What)>,
    pub(crate) replaced: Vec<(u8, What)>,
    /// Journals of groups of shards.
    parts: Vec<Self>,
}

/// Part of a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// A branch, and its number of children, so that freeing it does not touch it.
    Branch(u32, u8),
    Leaf(u32),
    /// A node and all below it.
    Below(Node),
    /// A storage's record alone.
    Record(u32),
    /// A storage's record and all its nodes.
    Storage(u32),
}

impl Journal {
    /// A journal with room for so many nodes, made and replaced.
    pub(crate) fn with_capacity(nodes: usize) -> Self {
        Self { made: Vec::with_capacity(nodes), replaced: Vec::with_capacity(nodes), parts: Vec::new() }
    }

    /// Adds a journal of the same update.
    pub(crate) fn append(&mut self, other: Self) {
        self.parts.push(other);
    }

    /// Undoes the update.
    pub(crate) fn discard(self, shards: &mut [Shard; SHARDS]) {
        self.made.into_iter().for_each(|(shard, what)| free(shards, shard, what));
        self.parts.into_iter().for_each(|part| part.discard(shards));
    }

    /// Makes the update final.
    pub(crate) fn finish(self, shards: &mut [Shard; SHARDS]) {
        self.replaced.into_iter().for_each(|(shard, what)| free(shards, shard, what));
        self.parts.into_iter().for_each(|part| part.finish(shards));
    }
}

fn free(shards: &mut [Shard; SHARDS], at: u8, what: What) {
    let shard = &mut shards[usize::from(at)];
    match what {
        What::Branch(branch, children) => shard.branches.free(branch, children.into()),
        What::Leaf(leaf) => shard.leaves.free(leaf),
        What::Below(node) => shard.free_below(node),
        What::Record(storage) => shard.storages.free(storage),
        What::Storage(storage) => {
            shard.storages.free(storage);
            match &shard.storages.get(storage).nodes {
                Root::Whole(node) => {
                    let node = *node;
                    shard.free_below(node);
                }
                Root::Spread(top) => {
                    let pieces = top.pieces.map(|piece| piece.node);
                    for (shard, node) in shards.iter_mut().zip(pieces) {
                        shard.free_below(node);
                    }
                }
            }
        }
    }
}
