//! Applies steps to leaves and empty places, and makes subtries out of leaves.

use alloy_primitives::B256;

use super::items::{Item, NONE, Up};
use crate::{
    nodes::{Child, Journal, Leaf, Name, Node, Reference, Shard, What},
    types::{common, runs},
};

/// Effect of a change on one leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) key: B256,
    /// Index of the change.
    pub(crate) change: u32,
    pub(crate) verb: Verb,
}

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// The leaf has another value; its name stays, if it exists.
    Put,
    /// The leaf has another value and another name.
    Rename,
    /// There is no leaf.
    Delete,
}

/// Names of leaves, by change.
pub(crate) trait Names {
    /// Name of the leaf that the change makes.
    fn name(&self, change: u32) -> Name;
}

/// A subtrie of a shard, as it is changed.
pub(crate) struct Grower<'a, N> {
    pub(crate) shard: &'a mut Shard,
    pub(crate) number: u8,
    pub(crate) task: u32,
    pub(crate) names: &'a N,
    pub(crate) items: &'a mut Vec<Item>,
    pub(crate) journal: &'a mut Journal,
    /// Leaves that were added, less those removed.
    pub(crate) added: i64,
}

/// A subtrie after the steps, with the item of its topmost node unless it is as before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grown {
    pub(crate) node: Node,
    pub(crate) item: u32,
}

impl Grown {
    pub(super) const fn same(node: Node) -> Self {
        Self { node, item: NONE }
    }
}

/// Leaf of a subtrie that is made.
pub(super) struct Seed {
    key: B256,
    grown: Grown,
}

impl<N: Names> Grower<'_, N> {
    /// The subtrie `node`, which hangs below `at` nibbles, after the steps. All keys share those nibbles; the steps are
    /// sorted and no key is there twice.
    pub(crate) fn grow(&mut self, node: Node, at: usize, steps: &[Step]) -> Grown {
        match (node, steps) {
            (_, []) => Grown::same(node),
            (Node::Empty, steps) => self.plant(None, at, steps),
            (Node::Leaf(leaf), steps) => self.plant(Some(leaf), at, steps),
            (Node::Branch(branch), steps) => self.grow_branch(branch, at, steps),
        }
    }

    /// Makes a subtrie of a leaf, if there is one, and the steps.
    fn plant(&mut self, leaf: Option<u32>, at: usize, steps: &[Step]) -> Grown {
        let old = leaf.map(|leaf| self.shard.leaves.get(leaf).key);
        if let [step] = steps {
            match (leaf, step.verb) {
                (Some(leaf), _) if old == Some(step.key) => return self.renew(leaf, step),
                (Some(leaf), Verb::Delete) => return Grown::same(Node::Leaf(leaf)),
                (None, Verb::Delete) => return Grown::same(Node::Empty),
                (None, _) => return self.seed(step).grown,
                (Some(_), _) => {}
            }
        }
        let mut seeds = Vec::with_capacity(steps.len() + 1);
        let mut untouched = leaf.zip(old);
        for step in steps {
            if let Some((leaf, key)) = untouched.take_if(|(_, key)| *key <= step.key) {
                if key == step.key {
                    let grown = self.renew(leaf, step);
                    if grown.node != Node::Empty {
                        seeds.push(Seed { key, grown });
                    }
                    continue;
                }
                seeds.push(Seed { key, grown: Grown::same(Node::Leaf(leaf)) });
            }
            if step.verb != Verb::Delete {
                let seed = self.seed(step);
                seeds.push(seed);
            }
        }
        seeds.extend(untouched.map(|(leaf, key)| Seed { key, grown: Grown::same(Node::Leaf(leaf)) }));
        self.join_seeds(&seeds, at)
    }

    /// A new leaf.
    fn seed(&mut self, step: &Step) -> Seed {
        let leaf = self.make_leaf(step);
        self.added += 1;
        Seed { key: step.key, grown: self.item(leaf, step.change) }
    }

    fn make_leaf(&mut self, step: &Step) -> Node {
        let leaf = self.shard.leaves.add(Leaf { key: step.key, name: self.names.name(step.change) });
        self.journal.made.push((self.number, What::Leaf(leaf)));
        Node::Leaf(leaf)
    }

    /// A leaf after the step on its own key.
    fn renew(&mut self, leaf: u32, step: &Step) -> Grown {
        match step.verb {
            Verb::Put => self.item(Node::Leaf(leaf), step.change),
            Verb::Rename => {
                self.journal.replaced.push((self.number, What::Leaf(leaf)));
                let renamed = self.make_leaf(step);
                self.item(renamed, step.change)
            }
            Verb::Delete => {
                self.journal.replaced.push((self.number, What::Leaf(leaf)));
                self.added -= 1;
                Grown::same(Node::Empty)
            }
        }
    }

    /// Makes branches of sorted leaves.
    fn join_seeds(&mut self, seeds: &[Seed], at: usize) -> Grown {
        match seeds {
            [] => Grown::same(Node::Empty),
            [seed] => seed.grown,
            [first, .., last] => {
                let depth = common(&first.key, &last.key);
                let mut children = [(0, Grown::same(Node::Empty)); 16];
                let mut count = 0;
                for (nibble, run) in runs(seeds, depth, |seed| &seed.key) {
                    children[count] = (nibble, self.join_seeds(run, depth + 1));
                    count += 1;
                }
                debug_assert!(at <= depth && count > 1, "the keys differ at this depth");
                self.join(depth, &children[..count])
            }
        }
    }

    /// Makes a branch of two subtries or more, none of which was its child before.
    pub(super) fn join(&mut self, depth: usize, grown: &[(usize, Grown)]) -> Grown {
        let mut children = [Child { nibble: 0, node: Node::Empty, reference: Reference::UNKNOWN }; 16];
        let mut moved = [(0, Grown::same(Node::Empty)); 16];
        for ((child, moved), (nibble, grown)) in children.iter_mut().zip(&mut moved).zip(grown) {
            *moved = (*nibble, self.moved(*grown));
            *child = Child { nibble: *nibble, node: grown.node, reference: Reference::UNKNOWN };
        }
        let branch = self.shard.branches.add(depth, &children[..grown.len()]);
        self.made_branch(branch, depth, grown.len(), &moved[..grown.len()])
    }

    /// Notes a new branch, and that the references of these children belong to it.
    pub(super) fn made_branch(
        &mut self,
        branch: u32,
        depth: usize,
        count: usize,
        children: &[(usize, Grown)],
    ) -> Grown {
        self.journal.made.push((self.number, What::Branch(branch, count as u8)));
        self.branch_item(branch, depth, count, children)
    }

    /// Item of a branch, to which the references of these children belong.
    pub(super) fn branch_item(
        &mut self,
        branch: u32,
        depth: usize,
        count: usize,
        children: &[(usize, Grown)],
    ) -> Grown {
        for (nibble, grown) in children {
            let item = &mut self.items[grown.item as usize];
            (item.at, item.up) = (depth as u8 + 1, Up::Branch { branch, nibble: *nibble as u8 });
        }
        let item = self.item(Node::Branch(branch), NONE);
        let noted = &mut self.items[item.item as usize];
        (noted.depth, noted.children) = (depth as u8, count as u8);
        item
    }

    /// A subtrie that hangs elsewhere than before, and therefore has another reference.
    pub(super) fn moved(&mut self, grown: Grown) -> Grown {
        if grown.item != NONE {
            return grown;
        }
        let moved = self.item(grown.node, NONE);
        if let Node::Branch(branch) = grown.node {
            let head = self.shard.branches.head(branch);
            let item = &mut self.items[moved.item as usize];
            (item.depth, item.children) = (head.depth, head.count() as u8);
        }
        moved
    }

    fn item(&mut self, node: Node, change: u32) -> Grown {
        let (shard, task) = (self.number, self.task);
        let item = Item { node, change, task, up: Up::Task, shard, at: 0, depth: 0, children: 0 };
        self.items.push(item);
        Grown { node, item: (self.items.len() - 1) as u32 }
    }
}
