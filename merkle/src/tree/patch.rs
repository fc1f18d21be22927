//! The difference between two trees.

use phalanx_merkle_proof::{EMPTY, Hash, Shape, TWIG_LEVEL};

use super::{
    twig::{Bitmap, TwigTree},
    upper::UpperPatch,
};

/// Place in a tree that a patch may change, as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(u64);

/// Bits of a twig's or digest's index; the bits above tell the kind.
const INDEX_BITS: u32 = 56;

impl Node {
    /// Active bits of a twig.
    pub(super) const fn bitmap(twig: u64) -> Self {
        Self(twig | 0xff << INDEX_BITS)
    }

    /// Left root of a twig.
    pub(super) const fn left(twig: u64) -> Self {
        Self(twig | 0xfe << INDEX_BITS)
    }

    /// Left tree of a twig.
    pub(super) const fn tree(twig: u64) -> Self {
        Self(twig | 0xfd << INDEX_BITS)
    }

    /// Digest at a level, which is the twigs' or above.
    pub(super) const fn upper(level: u8, index: u64) -> Self {
        Self(index | (level as u64) << INDEX_BITS)
    }

    /// Hash of the place. Neighbours have unlike hashes.
    pub(crate) const fn hash(self) -> u64 {
        let wide = (self.0 as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        (wide >> 64) as u64 ^ wide as u64
    }
}

/// Difference between two trees: from a block's parent to the block, or back.
#[derive(Clone, Debug)]
pub(crate) struct TreePatch {
    pub(crate) shape: Shape,
    pub(crate) root: Hash,
    /// Ascending by twig, as the next two fields are.
    pub(super) bitmaps: Vec<(u64, Bitmap)>,
    pub(super) lefts: Vec<(u64, Hash)>,
    pub(super) trees: Vec<(u64, Option<TwigTree>)>,
    pub(super) upper: UpperPatch,
}

impl TreePatch {
    /// Creates a patch that changes nothing but the shape.
    pub(crate) const fn of_shape(shape: Shape) -> Self {
        Self { shape, root: EMPTY, bitmaps: Vec::new(), lefts: Vec::new(), trees: Vec::new(), upper: UpperPatch::new() }
    }

    /// Places that the patch changes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> {
        let bitmaps = self.bitmaps.iter().map(|(twig, _)| Node::bitmap(*twig));
        let lefts = self.lefts.iter().map(|(twig, _)| Node::left(*twig));
        let trees = self.trees.iter().map(|(twig, _)| Node::tree(*twig));
        let levels = self.upper.iter().zip(TWIG_LEVEL..);
        let upper = levels.flat_map(|(nodes, level)| nodes.iter().map(move |(index, _)| Node::upper(level, *index)));
        bitmaps.chain(lefts).chain(trees).chain(upper)
    }

    /// Bytes that the patch takes.
    pub(crate) fn memory(&self) -> usize {
        let upper: usize = self.upper.iter().map(|level| level.capacity() * size_of::<(u64, Hash)>()).sum();
        let trees: usize = self.trees.iter().filter_map(|(_, tree)| tree.as_ref()).map(TwigTree::memory).sum();
        self.bitmaps.capacity() * size_of::<(u64, Bitmap)>()
            + self.lefts.capacity() * size_of::<(u64, Hash)>()
            + trees
            + upper
    }
}

pub(super) fn found<T>(items: &[(u64, T)], twig: u64) -> Option<&T> {
    items.binary_search_by_key(&twig, |(twig, _)| *twig).ok().map(|at| &items[at].1)
}

/// Patches on top of each other.
pub(crate) trait Patches<'t>: Copy + Send + Sync {
    /// Finds a place in the newest patch that changes it.
    fn newest<T>(self, node: Node, find: impl Fn(&'t TreePatch) -> Option<T>) -> Option<T>;
    /// The newest patch.
    fn last(self) -> Option<&'t TreePatch>;
}

/// No patches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unpatched;

impl<'t> Patches<'t> for Unpatched {
    fn newest<T>(self, _: Node, _: impl Fn(&'t TreePatch) -> Option<T>) -> Option<T> {
        None
    }

    fn last(self) -> Option<&'t TreePatch> {
        None
    }
}

/// A few patches in the order of application. A search asks each of them.
impl<'t> Patches<'t> for &[&'t TreePatch] {
    fn newest<T>(self, _: Node, find: impl Fn(&'t TreePatch) -> Option<T>) -> Option<T> {
        self.iter().rev().find_map(|patch| find(patch))
    }

    fn last(self) -> Option<&'t TreePatch> {
        <[&TreePatch]>::last(self).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn hashes_of_the_largest_places_wrap_and_differ() {
        // The products of these places exceed 128 bits: with overflow checks a plain one panics.
        let last = (1 << INDEX_BITS) - 1;
        let kinds: [fn(u64) -> Node; 4] = [Node::bitmap, Node::left, Node::tree, |at| Node::upper(11, at)];
        let hashes: BTreeSet<u64> =
            kinds.iter().flat_map(|kind| [kind(0), kind(1), kind(last)].map(Node::hash)).collect();
        assert_eq!(hashes.len(), 12);
    }
}
