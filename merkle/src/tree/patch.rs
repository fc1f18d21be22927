//! The difference between two trees.

use phalanx_merkle_proof::{EMPTY, Hash, Shape};

use super::{
    twig::{Bitmap, TwigTree},
    upper::UpperPatch,
};

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

/// Owner of a patch.
pub(crate) trait Patch: Sync {
    fn patch(&self) -> &TreePatch;
}

impl Patch for TreePatch {
    fn patch(&self) -> &TreePatch {
        self
    }
}

impl Patch for &TreePatch {
    fn patch(&self) -> &TreePatch {
        self
    }
}
