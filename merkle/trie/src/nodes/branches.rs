//! Branches in lines of 32 bytes.
//!
//! ```text
//! head: children, leaves, inlined (a bit per nibble), depth │ indices of children │ references of children
//!       2 + 2 + 2 + 1 + 1 bytes                             │ 4 bytes each, padded│ 32 bytes each
//! ```
//!
//! Only children that exist take room: two children are 96 bytes, sixteen 608. Everything that hashing a branch needs is
//! in it, so that no child is touched for another's change.

use phalanx_memory::{prefetch_slice, prefetch_write};

use super::node::{Node, Reference};

const LINE: usize = 32;
const CACHE_LINE: usize = 64;
const HEAD: usize = 8;
const RADIX: usize = 16;
/// Lines before the references at most.
const INDICES: usize = (HEAD + 4 * RADIX).div_ceil(LINE);

/// Branches of a shard, by the index of their first line.
#[derive(Debug, Default)]
pub(crate) struct Branches {
    lines: Vec<[u8; LINE]>,
    /// Freed branches, by number of children.
    free: [Vec<u32>; RADIX + 1],
    live: usize,
}

/// Head of a branch. Its masks have a bit per nibble.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) children: u16,
    leaves: u16,
    inlined: u16,
    /// Index of the nibble by which it branches.
    pub(crate) depth: u8,
}

impl Head {
    pub(crate) const fn count(self) -> usize {
        self.children.count_ones() as usize
    }

    /// Number of children before that of the nibble.
    const fn rank(self, nibble: usize) -> usize {
        (self.children & ((1 << nibble) - 1)).count_ones() as usize
    }

    pub(crate) const fn has(self, nibble: usize) -> bool {
        self.children & 1 << nibble != 0
    }

    /// Nibbles of the children.
    pub(crate) fn nibbles(self) -> impl Iterator<Item = usize> {
        let mut rest = self.children;
        core::iter::from_fn(move || {
            let nibble = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(nibble)
        })
    }

    /// Lines before the references.
    const fn indices(self) -> usize {
        (HEAD + 4 * self.count()).div_ceil(LINE)
    }

    /// True if no child is so short that the branch contains it.
    pub(crate) const fn is_hashed(self) -> bool {
        self.inlined == 0
    }
}

/// A child of a branch that is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child {
    pub(crate) nibble: usize,
    pub(crate) node: Node,
    pub(crate) reference: Reference,
}

impl Branches {
    #[inline]
    pub(crate) fn head(&self, branch: u32) -> Head {
        let [a, b, c, d, e, f, depth, ..] = self.lines[branch as usize];
        let mask = |low, high| u16::from_le_bytes([low, high]);
        Head { children: mask(a, b), leaves: mask(c, d), inlined: mask(e, f), depth }
    }

    fn set_head(&mut self, branch: u32, head: Head) {
        let line = &mut self.lines[branch as usize];
        line[..2].copy_from_slice(&head.children.to_le_bytes());
        line[2..4].copy_from_slice(&head.leaves.to_le_bytes());
        line[4..6].copy_from_slice(&head.inlined.to_le_bytes());
        line[6] = head.depth;
    }

    /// The child at a nibble; empty if there is none.
    #[inline]
    pub(crate) fn node(&self, branch: u32, head: Head, nibble: usize) -> Node {
        if !head.has(nibble) {
            return Node::Empty;
        }
        let bytes = self.lines[branch as usize..].as_flattened();
        let at = HEAD + 4 * head.rank(nibble);
        let index = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if head.leaves & 1 << nibble == 0 { Node::Branch(index) } else { Node::Leaf(index) }
    }

    /// The reference of a child that exists.
    #[inline]
    pub(crate) fn reference(&self, branch: u32, head: Head, nibble: usize) -> Reference {
        let line = branch as usize + head.indices() + head.rank(nibble);
        Reference { bytes: self.lines[line], inline: head.inlined & 1 << nibble != 0 }
    }

    /// References of all children, for a branch that has none inlined.
    pub(crate) fn references(&self, branch: u32, head: Head) -> &[[u8; 32]] {
        &self.lines[branch as usize + head.indices()..][..head.count()]
    }

    /// Replaces a child that exists; its reference stays until it is set.
    pub(crate) fn set_node(&mut self, branch: u32, nibble: usize, node: Node) {
        let mut head = self.head(branch);
        let index = match node {
            Node::Leaf(index) => {
                head.leaves |= 1 << nibble;
                index
            }
            Node::Branch(index) => {
                head.leaves &= !(1 << nibble);
                index
            }
            Node::Empty => unreachable!("a branch has no empty children"),
        };
        self.set_head(branch, head);
        let at = HEAD + 4 * head.rank(nibble);
        self.lines[branch as usize..].as_flattened_mut()[at..at + 4].copy_from_slice(&index.to_le_bytes());
    }

    /// Replaces the reference of a child that exists.
    #[inline]
    pub(crate) fn set_reference(&mut self, branch: u32, nibble: usize, reference: Reference) {
        let mut head = self.head(branch);
        let inlined = head.inlined & !(1 << nibble) | u16::from(reference.inline) << nibble;
        if inlined != head.inlined {
            head.inlined = inlined;
            self.set_head(branch, head);
        }
        let line = branch as usize + head.indices() + head.rank(nibble);
        self.lines[line] = reference.bytes;
    }

    /// Makes a branch of two children or more, in the order of their nibbles.
    pub(crate) fn add(&mut self, depth: usize, children: &[Child]) -> u32 {
        let mask = children.iter().fold(0, |mask, child| mask | 1 << child.nibble);
        let head = Head { children: mask, leaves: 0, inlined: 0, depth: depth as u8 };
        let branch = self.room(head);
        self.set_head(branch, head);
        for child in children {
            self.set_node(branch, child.nibble, child.node);
            self.set_reference(branch, child.nibble, child.reference);
        }
        branch
    }

    fn room(&mut self, head: Head) -> u32 {
        self.live += 1;
        let free = &mut self.free[head.count()];
        if let Some(branch) = free.pop() {
            // The next one is as old, and no longer in a cache.
            if let Some(next) = free.last() {
                let lines = &self.lines[*next as usize..][..head.indices() + head.count()];
                lines.chunks(CACHE_LINE / LINE).for_each(|lines| prefetch_write(&lines[0]));
            }
            return branch;
        }
        let branch = u32::try_from(self.lines.len()).expect("memory ends before indices do");
        self.lines.resize(self.lines.len() + head.indices() + head.count(), [0; LINE]);
        branch
    }

    /// Frees a branch of so many children.
    pub(crate) fn free(&mut self, branch: u32, children: usize) {
        self.live -= 1;
        self.free[children].push(branch);
    }

    /// Prefetches the head of a branch and the indices of its children.
    #[inline]
    pub(crate) fn prefetch_head(&self, branch: u32) {
        let end = self.lines.len().min(branch as usize + INDICES);
        prefetch_slice(&self.lines[branch as usize..end]);
    }

    /// Prefetches the reference of the child at a nibble.
    #[inline]
    pub(crate) fn prefetch_reference(&self, branch: u32, head: Head, nibble: usize) {
        self.lines.get(branch as usize + head.indices() + head.rank(nibble)).into_iter().for_each(prefetch_write);
    }

    /// Prefetches a branch as far as the longest.
    pub(crate) fn prefetch(&self, branch: u32) {
        let end = self.lines.len().min(branch as usize + INDICES + RADIX);
        prefetch_slice(&self.lines[branch as usize..end]);
    }

    /// Number of branches.
    pub(crate) const fn len(&self) -> usize {
        self.live
    }

    /// Bytes of all lines.
    pub(crate) fn memory(&self) -> usize {
        self.lines.capacity() * LINE + self.free.iter().map(|free| free.capacity() * 4).sum::<usize>()
    }
}
