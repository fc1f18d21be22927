//! The commitment in memory: active bits, left roots and upper levels of every twig in use, and how a block changes them.
//! Pure: it knows leaves and positions, neither keys nor storage.

use phalanx_merkle_proof::{EMPTY, Hash, Shape};

use super::{
    twig::{Bitmap, TwigTree},
    upper::UpperPatch,
};

/// The difference between two trees: what a block makes of the one before it, or what was before it.
#[derive(Clone, Debug)]
pub(crate) struct TreePatch {
    pub(crate) shape: Shape,
    pub(crate) root: Hash,
    /// Twigs ascending, here and below.
    pub(super) bitmaps: Vec<(u64, Bitmap)>,
    pub(super) lefts: Vec<(u64, Hash)>,
    pub(super) trees: Vec<(u64, Option<TwigTree>)>,
    pub(super) upper: UpperPatch,
}

impl TreePatch {
    /// A patch that changes nothing and says where a tree ends.
    pub(crate) const fn of_shape(shape: Shape) -> Self {
        Self { shape, root: EMPTY, bitmaps: Vec::new(), lefts: Vec::new(), trees: Vec::new(), upper: UpperPatch::new() }
    }

    /// Bytes that it takes.
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

/// Something that holds a patch.
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
