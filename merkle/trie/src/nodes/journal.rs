//! The nodes that an update made, those that it made superfluous, and the children that it changed in place.

use super::{
    node::{Node, Reference},
    shard::{Root, SHARDS, Shard},
};

/// Difference between a version and its parent.
///
/// Nodes that the update made are freed if the version is discarded, those that it replaced when no version is left that
/// sees them. Children that it changed in place are exchanged when the trie goes from one of both versions to the other.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) made: Vec<(u8, What)>,
    pub(crate) replaced: Vec<(u8, What)>,
    /// Children as they are at the other side of the update, ordered by shard, each child once.
    pub(crate) others: Vec<Other>,
    /// Journals of groups of shards.
    parts: Vec<Self>,
}

/// Memory of journals that are gone, which the next ones take: the system would clear fresh pages for every block.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Vec<Other>>);

impl Spare {
    /// More than the groups of a block with 100,000 changes need, each some 200 KB.
    const MOST: usize = 128;

    fn take(&mut self, mut others: Vec<Other>) {
        if self.0.len() < Self::MOST && others.capacity() != 0 {
            others.clear();
            self.0.push(others);
        }
    }
}

/// Child of a branch that two versions share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Other {
    pub(crate) branch: u32,
    pub(crate) shard: u8,
    pub(crate) nibble: u8,
    pub(crate) node: Node,
    pub(crate) reference: Reference,
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
    /// An empty journal on memory of one that is gone.
    pub(crate) fn new(spare: &mut Spare) -> Self {
        Self { others: spare.0.pop().unwrap_or_default(), ..Self::default() }
    }

    /// Adds a journal of the same update.
    pub(crate) fn append(&mut self, other: Self) {
        self.parts.push(other);
    }

    /// Goes to the other side of the update: exchanges all children that it changed in place.
    pub(crate) fn cross(&mut self, shards: &mut [Shard; SHARDS]) {
        for Other { branch, shard, nibble, node, reference } in &mut self.others {
            let branches = &mut shards[usize::from(*shard)].branches;
            let (head, at) = (branches.head(*branch), usize::from(*nibble));
            let here = (branches.node(*branch, head, at), branches.reference(*branch, head, at));
            branches.set_node(*branch, at, *node);
            branches.set_reference(*branch, at, *reference);
            (*node, *reference) = here;
        }
        self.parts.iter_mut().for_each(|part| part.cross(shards));
    }

    /// Children of a shard that are different at the other side of the update.
    pub(crate) fn others_of(&self, shard: u8) -> impl Iterator<Item = &Other> {
        self.parts.iter().flat_map(move |part| {
            let start = part.others.partition_point(|other| other.shard < shard);
            part.others[start..].iter().take_while(move |other| other.shard == shard)
        })
    }

    /// Frees what the update made, once the trie is at the side before it.
    pub(crate) fn discard(self, shards: &mut [Shard; SHARDS], spare: &mut Spare) {
        self.made.into_iter().for_each(|(shard, what)| free(shards, shard, what));
        spare.take(self.others);
        self.parts.into_iter().for_each(|part| part.discard(shards, spare));
    }

    /// Makes the update final, once no version before it is left.
    pub(crate) fn finish(self, shards: &mut [Shard; SHARDS], spare: &mut Spare) {
        self.replaced.into_iter().for_each(|(shard, what)| free(shards, shard, what));
        spare.take(self.others);
        self.parts.into_iter().for_each(|part| part.finish(shards, spare));
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
