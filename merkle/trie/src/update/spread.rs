//! Spreads a storage that has grown large over all shards.

use crate::nodes::{Child, Journal, Node, Piece, Reference, SHARDS, Shard, Top, What};

/// Copies the nodes below `node` of the shard `home` to the shards of their keys.
pub(super) fn spread(shards: &mut [Shard; SHARDS], home: u8, node: Node, journal: &mut Journal) -> Box<Top> {
    let mut spreading = Spreading { shards, home: home.into(), journal, top: Box::new(Top::EMPTY) };
    spreading.place(node, None);
    spreading.journal.replaced.push((home, What::Below(node)));
    spreading.top
}

struct Spreading<'a> {
    shards: &'a mut [Shard; SHARDS],
    home: usize,
    journal: &'a mut Journal,
    top: Box<Top>,
}

impl Spreading<'_> {
    /// Places a node; its reference is given if it hangs below two nibbles.
    fn place(&mut self, node: Node, reference: Option<Reference>) {
        let shard = &self.shards[self.home];
        let first = match node {
            Node::Empty => return,
            Node::Leaf(leaf) => shard.leaves.get(leaf).key[0],
            Node::Branch(branch) => {
                let head = shard.branches.head(branch);
                if head.depth < 2 {
                    for nibble in head.nibbles() {
                        let branches = &self.shards[self.home].branches;
                        let child = branches.node(branch, head, nibble);
                        let known = (head.depth == 1).then(|| branches.reference(branch, head, nibble));
                        self.place(child, known);
                    }
                    return;
                }
                shard.any_key(branch)[0]
            }
        };
        let node = self.copy(node, first);
        self.top.pieces[usize::from(first)] = Piece { node, reference };
    }

    fn copy(&mut self, node: Node, to: u8) -> Node {
        let (copy, what) = match node {
            Node::Empty => return node,
            Node::Leaf(leaf) => {
                let leaf = *self.shards[self.home].leaves.get(leaf);
                let copy = self.shards[usize::from(to)].leaves.add(leaf);
                (Node::Leaf(copy), What::Leaf(copy))
            }
            Node::Branch(branch) => {
                let head = self.shards[self.home].branches.head(branch);
                let mut children = Vec::with_capacity(head.count());
                for nibble in head.nibbles() {
                    let branches = &self.shards[self.home].branches;
                    let reference = branches.reference(branch, head, nibble);
                    let below = branches.node(branch, head, nibble);
                    children.push(Child { nibble, node: self.copy(below, to), reference });
                }
                let copy = self.shards[usize::from(to)].branches.add(head.depth.into(), &children);
                (Node::Branch(copy), What::Branch(copy, head.count() as u8))
            }
        };
        self.journal.made.push((to, what));
        copy
    }
}
