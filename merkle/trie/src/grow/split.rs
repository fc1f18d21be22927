//! Splits an extension: a key leaves it before its branch.

use alloy_primitives::B256;

use super::{
    branch::sharing,
    grower::{Grower, Grown, Names, Step, Verb},
};
use crate::{
    nodes::Node,
    types::{common, nibble, runs},
};

impl<N: Names> Grower<'_, N> {
    /// The subtrie of a branch at `depth` below an extension from `at`, if some leaf that is put leaves the extension.
    /// `key` is one below the branch.
    pub(super) fn split(&mut self, branch: u32, key: &B256, at: usize, depth: usize, steps: &[Step]) -> Option<Grown> {
        let puts = steps.iter().filter(|step| step.verb != Verb::Delete);
        let split = puts.map(|step| common(&step.key, key)).min().filter(|split| *split < depth)?;
        debug_assert!(at <= split, "all keys share the nibbles above");
        // What leaves the extension above is deleted, and was not there.
        let steps = sharing(steps, key, split);
        let own = nibble(key, split);
        let mut children = [(0, Grown::same(Node::Empty)); 16];
        let mut count = 0;
        let mut add = |nibble, grown: Grown| {
            if grown.node != Node::Empty {
                children[count] = (nibble, grown);
                count += 1;
            }
        };
        let mut is_grown = false;
        for (nibble, run) in runs(steps, split, |step| &step.key) {
            if nibble > own && !is_grown {
                add(own, Grown::same(Node::Branch(branch)));
                is_grown = true;
            }
            let node = if nibble == own { Node::Branch(branch) } else { Node::Empty };
            is_grown |= nibble == own;
            add(nibble, self.grow(node, split + 1, run));
        }
        if !is_grown {
            add(own, Grown::same(Node::Branch(branch)));
        }
        Some(match &children[..count] {
            [] => Grown::same(Node::Empty),
            [(_, only)] => self.moved(*only),
            children => self.join(split, children),
        })
    }
}
