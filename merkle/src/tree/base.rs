//! The tree at the tip: active bits, left roots and upper levels of every twig in use. A block changes it by a patch,
//! and gets back the patch that undoes it.

use std::collections::HashMap;

use phalanx_merkle_proof::{BITMAP_BYTES, EMPTY, Hash, Params, Shape, TWIG_LEVEL};

use super::{
    patch::TreePatch,
    span::Span,
    twig::{Bitmap, TwigTree, place_of, twig_of},
    upper::Upper,
};

pub(super) const NO_BITS: Bitmap = [0; BITMAP_BYTES];

/// Tree over all positions: 352 bytes per twig, and the trees of some twigs.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) params: Params,
    pub(super) shape: Shape,
    pub(super) bitmaps: Span<Bitmap>,
    pub(super) lefts: Span<Hash>,
    /// Tree of the growing twig, and of full twigs whose entries cannot be read from the log yet.
    pub(super) trees: HashMap<u64, TwigTree>,
    pub(super) upper: Upper,
}

/// Copy of a tree without what can be hashed again quickly: all levels above the twigs.
#[derive(Debug)]
pub(crate) struct TreeImage {
    pub(crate) first_twig: u64,
    pub(crate) bitmaps: Vec<Bitmap>,
    pub(crate) lefts: Vec<Hash>,
    /// Leaves of the growing twig.
    pub(crate) young: Vec<Hash>,
}

impl Tree {
    /// Creates a tree of which only the shape is known.
    pub(crate) fn starting_at(params: Params, shape: Shape) -> Self {
        let (bitmaps, lefts) = (Span::new(), Span::new());
        Self { params, shape, bitmaps, lefts, trees: HashMap::new(), upper: Upper::default() }
    }

    /// Copies what restoring the tree needs.
    pub(crate) fn image(&self) -> TreeImage {
        let Shape { next_sn, .. } = self.shape;
        let young = self.trees.get(&twig_of(next_sn)).map(TwigTree::leaves);
        let (bitmaps, lefts) = (self.bitmaps.iter().copied().collect(), self.lefts.iter().copied().collect());
        TreeImage { first_twig: self.shape.first_twig(), bitmaps, lefts, young: young.unwrap_or_default() }
    }

    /// Bytes that the tree takes.
    pub(crate) fn memory(&self) -> usize {
        let trees: usize = self.trees.values().map(TwigTree::memory).sum();
        self.bitmaps.memory() + self.lefts.memory() + trees + self.upper.memory()
    }

    /// Returns true if the position is active.
    #[inline]
    pub(crate) fn is_active(&self, sn: u64) -> bool {
        let bitmap = self.bitmaps.get(twig_of(sn)).unwrap_or(&NO_BITS);
        bitmap[place_of(sn) / 8] >> (place_of(sn) % 8) & 1 == 1
    }

    pub(crate) const fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn root(&self) -> Hash {
        let top = self.upper.node(usize::from(self.shape.top_level() - TWIG_LEVEL), 0);
        self.params.root(&self.shape, &top)
    }

    /// Applies a patch and returns the patch that undoes it.
    pub(crate) fn apply(&mut self, mut patch: TreePatch) -> TreePatch {
        let before = (self.shape, self.root());
        for (twig, bitmap) in &mut patch.bitmaps {
            *bitmap = self.bitmaps.set(*twig, *bitmap, NO_BITS).unwrap_or(NO_BITS);
        }
        for (twig, left) in &mut patch.lefts {
            *left = self.lefts.set(*twig, *left, EMPTY).unwrap_or(EMPTY);
        }
        for (twig, tree) in &mut patch.trees {
            *tree = match tree.take() {
                Some(tree) => self.trees.insert(*twig, tree),
                None => self.trees.remove(twig),
            };
        }
        let shape = patch.shape;
        self.upper.apply(&mut patch.upper, &shape);
        let (first, end) = (shape.first_twig(), shape.twigs());
        let (bitmaps, lefts, trees) = (&mut patch.bitmaps, &mut patch.lefts, &mut patch.trees);
        self.bitmaps.trim(first, end, |twig, bitmap| note(bitmaps, twig, bitmap));
        self.lefts.trim(first, end, |twig, left| {
            note(lefts, twig, left);
            // No proof needs it again.
            if let Some(tree) = self.trees.remove(&twig) {
                note(trees, twig, Some(tree));
            }
        });
        (patch.shape, patch.root) = before;
        self.shape = shape;
        patch
    }

    /// Releases the trees of full twigs below position `written`.
    pub(crate) fn release(&mut self, written: u64) {
        let (first, growing) = (twig_of(written), twig_of(self.shape.next_sn));
        self.trees.retain(|twig, _| *twig >= first || *twig == growing);
    }
}

/// Adds an item to a patch, unless the patch has one for the twig.
fn note<T>(items: &mut Vec<(u64, T)>, twig: u64, item: T) {
    if let Err(at) = items.binary_search_by_key(&twig, |(twig, _)| *twig) {
        items.insert(at, (twig, item));
    }
}
