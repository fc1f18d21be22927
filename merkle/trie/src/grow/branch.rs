//! Applies steps to a branch.

use alloy_primitives::B256;

use super::{
    grower::{Grower, Grown, Names, Step},
    items::NONE,
};
use crate::{
    nodes::{Child, Head, Node, Other, Shard, What},
    types::{common, runs},
};

/// Children whose own children are prefetched before they are visited: one takes less time than memory does.
const AHEAD: usize = 4;

impl<N: Names> Grower<'_, N> {
    pub(super) fn grow_branch(&mut self, branch: u32, at: usize, steps: &[Step]) -> Grown {
        let head = self.shard.branches.head(branch);
        let depth = usize::from(head.depth);
        let steps = if at < depth {
            let key = *self.shard.any_key(branch);
            match self.split(branch, &key, at, depth, steps) {
                Some(split) => return split,
                None => sharing(steps, &key, depth),
            }
        } else {
            steps
        };
        for (nibble, _) in runs(steps, depth, |step| &step.key) {
            self.shard.look_ahead(self.shard.branches.node(branch, head, nibble));
        }
        let mut ahead = runs(steps, depth, |step| &step.key);
        for (nibble, run) in ahead.by_ref().take(AHEAD) {
            look_below(self.shard, self.shard.branches.node(branch, head, nibble), run);
        }
        let mut changed = [(0, Grown::same(Node::Empty)); 16];
        let mut count = 0;
        let mut children = head.children;
        for (nibble, run) in runs(steps, depth, |step| &step.key) {
            if let Some((nibble, run)) = ahead.next() {
                look_below(self.shard, self.shard.branches.node(branch, head, nibble), run);
            }
            let child = self.shard.branches.node(branch, head, nibble);
            let grown = self.grow(child, depth + 1, run);
            if grown.item != NONE || grown.node != child {
                children = children & !(1 << nibble) | u16::from(grown.node != Node::Empty) << nibble;
                changed[count] = (nibble, grown);
                count += 1;
            }
        }
        let changed = &changed[..count];
        if changed.is_empty() {
            return Grown::same(Node::Branch(branch));
        }
        if children == head.children {
            return self.change(branch, head, changed);
        }
        self.journal.replaced.push((self.number, What::Branch(branch, head.count() as u8)));
        match children.count_ones() {
            0 => Grown::same(Node::Empty),
            1 => {
                let last = children.trailing_zeros() as usize;
                let grown = changed
                    .iter()
                    .find(|(nibble, _)| *nibble == last)
                    .map_or_else(|| Grown::same(self.shard.branches.node(branch, head, last)), |(_, grown)| *grown);
                self.moved(grown)
            }
            _ => self.reshape(branch, children, changed),
        }
    }

    /// Changes children of a branch in place.
    fn change(&mut self, branch: u32, head: Head, changed: &[(usize, Grown)]) -> Grown {
        let branches = &mut self.shard.branches;
        for (at, grown) in changed {
            let (node, reference) = (branches.node(branch, head, *at), branches.reference(branch, head, *at));
            let nibble = *at as u8;
            self.journal.others.push(Other { branch, shard: self.number, nibble, node, reference });
            if grown.node != node {
                branches.set_node(branch, *at, grown.node);
            }
        }
        self.branch_item(branch, head.depth.into(), head.count(), changed)
    }

    /// Makes a branch with other children than before.
    fn reshape(&mut self, branch: u32, children: u16, changed: &[(usize, Grown)]) -> Grown {
        let branches = &mut self.shard.branches;
        let head = branches.head(branch);
        let mut all = Vec::with_capacity(16);
        let mut new = changed.iter().peekable();
        for nibble in (0..16).filter(|nibble| children & 1 << nibble != 0) {
            while new.next_if(|(at, _)| *at < nibble).is_some() {}
            let (node, reference) = match new.next_if(|(at, _)| *at == nibble) {
                Some((_, grown)) => (grown.node, crate::nodes::Reference::UNKNOWN),
                None => (branches.node(branch, head, nibble), branches.reference(branch, head, nibble)),
            };
            all.push(Child { nibble, node, reference });
        }
        let made = branches.add(head.depth.into(), &all);
        let mut kept = [(0, Grown::same(Node::Empty)); 16];
        let mut count = 0;
        for pair in changed.iter().filter(|(_, grown)| grown.node != Node::Empty) {
            kept[count] = *pair;
            count += 1;
        }
        self.made_branch(made, head.depth.into(), all.len(), &kept[..count])
    }
}

/// Steps whose keys share the first `depth` nibbles with `key`.
pub(super) fn sharing<'s>(steps: &'s [Step], key: &B256, depth: usize) -> &'s [Step] {
    let is_shared = |step: &Step| common(&step.key, key) >= depth;
    let first = steps.partition_point(|step| step.key < *key && !is_shared(step));
    let len = steps[first..].partition_point(is_shared);
    &steps[first..first + len]
}

/// Prefetches what the steps lead to below a node that has been prefetched, and the references that they change in it.
fn look_below(shard: &Shard, node: Node, steps: &[Step]) {
    if let Node::Branch(branch) = node {
        let head = shard.branches.head(branch);
        for (nibble, _) in runs(steps, head.depth.into(), |step| &step.key) {
            shard.branches.prefetch_reference(branch, head, nibble);
            shard.look_ahead(shard.branches.node(branch, head, nibble));
        }
    }
}
