//! References of items, level by level.

use phalanx_hash_lanes::Lanes;

use super::{
    many::Many,
    node::{extension, leaf, stored_branch},
};
use crate::{
    grow::{Item, Up},
    nodes::{Leaf, Node, Reference, Shard},
    types::{DEPTH, Work},
};

/// Values of leaves: from the changes, or from the store if a leaf only moved.
pub(crate) trait LeafValues: Sync {
    type Error;

    /// Prefetches what the value of a leaf is made of.
    fn prefetch(&self, change: u32);

    /// Writes the value of a leaf in RLP.
    fn write(&self, shard: &Shard, leaf: &Leaf, task: u32, change: u32, out: &mut Vec<u8>) -> Result<(), Self::Error>;
}

/// Buckets of a level: by number of permutations, so that neighbours have about the same length.
const SIZES: usize = 4;

/// Computes references of all items and puts each where it belongs; `top` takes those of topmost nodes, with the item.
///
/// `first` is the number of the first shard.
pub(crate) fn levels<V: LeafValues>(
    shards: &mut [Shard],
    first: u8,
    items: &[Item],
    values: &V,
    lanes: Lanes,
    mut top: impl FnMut(&Item, Reference),
) -> Result<Work, V::Error> {
    let mut work = Work::default();
    let mut many = Many::new(lanes);
    let mut above = Many::new(lanes);
    let mut put = |shards: &mut [Shard], item: &Item, reference| match item.up {
        Up::Task => top(item, reference),
        Up::Branch { branch, nibble } => {
            let branches = &mut shards[usize::from(item.shard - first)].branches;
            branches.set_reference(branch, nibble.into(), reference);
        }
    };
    let order = Order::new(items);
    let mut value = Vec::new();
    let leaves = order.leaves();
    for (first_leaf, together) in (0..).step_by(Many::LIMIT).zip(leaves.chunks(Many::LIMIT)) {
        for next in leaves.iter().skip(first_leaf + Many::LIMIT).take(Many::LIMIT) {
            let next = &items[*next as usize];
            values.prefetch(next.change);
            shards[usize::from(next.shard - first)].look_ahead_whole(next.node);
        }
        for item in together.iter().map(|item| &items[*item as usize]) {
            let Node::Leaf(at) = item.node else { unreachable!("only leaves are in this part of the order") };
            let shard = &shards[usize::from(item.shard - first)];
            let found = shard.leaves.get(at);
            value.clear();
            values.write(shard, found, item.task, item.change, &mut value)?;
            leaf(&found.key, item.at.into(), &value, many.out());
            many.end();
        }
        work.leaves += together.len() as u64;
        many.take(&mut work, |at, reference| put(shards, &items[together[at] as usize], reference));
    }
    for level in order.levels() {
        for (first_branch, together) in (0..).step_by(Many::LIMIT).zip(level.chunks(Many::LIMIT)) {
            for next in level.iter().skip(first_branch + Many::LIMIT).take(Many::LIMIT) {
                let next = &items[*next as usize];
                shards[usize::from(next.shard - first)].look_ahead_whole(next.node);
            }
            for item in together.iter().map(|item| &items[*item as usize]) {
                let Node::Branch(branch) = item.node else { unreachable!("the rest are branches") };
                stored_branch(&shards[usize::from(item.shard - first)], branch, many.out());
                many.end();
            }
            work.branches += together.len() as u64;
            let mut extended = Vec::new();
            many.take(&mut work, |at, reference| {
                let item = &items[together[at] as usize];
                if item.at == item.depth {
                    put(shards, item, reference);
                } else if let Node::Branch(branch) = item.node {
                    let key = shards[usize::from(item.shard - first)].any_key(branch);
                    extension(key, item.at.into(), item.depth.into(), &reference, above.out());
                    above.end();
                    extended.push(*item);
                }
            });
            work.extensions += extended.len() as u64;
            above.take(&mut work, |at, reference| put(shards, &extended[at], reference));
        }
    }
    Ok(work)
}

/// Indices of items: leaves, then branches from the deepest level up, longer ones first within a level.
struct Order {
    indices: Vec<u32>,
    ends: [u32; 1 + DEPTH * SIZES],
}

impl Order {
    fn new(items: &[Item]) -> Self {
        let mut ends = [0; 1 + DEPTH * SIZES];
        items.iter().for_each(|item| ends[bucket(item)] += 1);
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end - *count;
        }
        let mut indices = vec![0; items.len()];
        for (index, item) in (0..).zip(items) {
            let end = &mut ends[bucket(item)];
            indices[*end as usize] = index;
            *end += 1;
        }
        Self { indices, ends }
    }

    fn leaves(&self) -> &[u32] {
        &self.indices[..self.ends[0] as usize]
    }

    fn levels(&self) -> impl Iterator<Item = &[u32]> {
        let last = self.ends[1..].iter().copied().skip(SIZES - 1).step_by(SIZES);
        let mut start = self.ends[0];
        last.map(move |end| &self.indices[core::mem::replace(&mut start, end) as usize..end as usize])
            .filter(|level| !level.is_empty())
    }
}

fn bucket(item: &Item) -> usize {
    match item.node {
        Node::Branch(_) => {
            // Permutations of a branch of hashes, less one.
            let size = (usize::from(item.children) * 32 + 20) / 136;
            1 + (DEPTH - 1 - usize::from(item.depth)) * SIZES + (SIZES - 1 - size.min(SIZES - 1))
        }
        _ => 0,
    }
}
