//! The tree as a block sees it: the tree at the tip, and patches on top.

use phalanx_merkle_proof::{EMPTY, Hash, Shape, TWIG_LEVEL};

use super::{
    base::{NO_BITS, Tree},
    deactivations::Regions,
    patch::{Node, Patches, TreePatch, Unpatched, found},
    twig::{Bitmap, TwigTree},
    upper::patched,
};
use crate::parallel::Par;

/// A tree with patches on top.
#[derive(Debug)]
pub(crate) struct TreeView<'t, P> {
    pub(super) base: &'t Tree,
    pub(super) patches: P,
    pub(super) par: Par<'t>,
}

impl<P: Clone> Clone for TreeView<'_, P> {
    fn clone(&self) -> Self {
        Self { patches: self.patches.clone(), ..*self }
    }
}

impl<P: Copy> Copy for TreeView<'_, P> {}

impl<'t> From<&'t Tree> for TreeView<'t, Unpatched> {
    fn from(base: &'t Tree) -> Self {
        Self { base, patches: Unpatched, par: Par::UNOBSERVED }
    }
}

impl<'t, P: Patches<'t>> TreeView<'t, P> {
    pub(crate) const fn new(base: &'t Tree, patches: P) -> Self {
        Self { base, patches, par: Par::UNOBSERVED }
    }

    /// Tree under the patches.
    pub(crate) const fn base(&self) -> &'t Tree {
        self.base
    }

    /// Sets the observer of shared work.
    pub(crate) const fn observed_by(self, par: Par<'t>) -> Self {
        Self { par, ..self }
    }

    /// Parallelism and its observer.
    pub(crate) const fn par(&self) -> Par<'t> {
        self.par
    }

    fn newest<T>(&self, node: Node, find: impl Fn(&'t TreePatch) -> Option<T>) -> Option<T> {
        self.patches.newest(node, find)
    }

    pub(crate) fn shape(&self) -> Shape {
        self.patches.last().map_or(self.base.shape, |patch| patch.shape)
    }

    pub(crate) fn bitmap(&self, twig: u64) -> &'t Bitmap {
        let patched = self.newest(Node::bitmap(twig), |patch| found(&patch.bitmaps, twig));
        patched.or_else(|| self.base.bitmaps.get(twig)).unwrap_or(&NO_BITS)
    }

    pub(crate) fn left(&self, twig: u64) -> &'t Hash {
        let patched = self.newest(Node::left(twig), |patch| found(&patch.lefts, twig));
        patched.or_else(|| self.base.lefts.get(twig)).unwrap_or(&EMPTY)
    }

    /// Tree of a twig, if it is in memory.
    pub(crate) fn twig_tree(&self, twig: u64) -> Option<&'t TwigTree> {
        match self.newest(Node::tree(twig), |patch| found(&patch.trees, twig)) {
            Some(tree) => tree.as_ref(),
            None => self.base.trees.get(&twig),
        }
    }

    /// Digest at `level`, which is the twigs' or above.
    pub(crate) fn upper(&self, level: u8, index: u64) -> Hash {
        let up = usize::from(level - TWIG_LEVEL);
        let patched = self.newest(Node::upper(level, index), |patch| patched(&patch.upper, up, index));
        patched.copied().unwrap_or_else(|| self.base.upper.node(up, index))
    }

    /// Regions of the twigs of a block that appends `entries`.
    pub(crate) fn regions(&self, entries: u64) -> Regions {
        let shape = self.shape();
        Regions::of(&Shape { next_sn: shape.next_sn + entries, ..shape }, rayon::current_num_threads())
    }
}
