//! The commitment in memory: active bits, left roots and upper levels of every twig in use, and how a block changes them.
//! Pure: it knows leaves and positions, neither keys nor storage.

use std::collections::HashMap;

use phalanx_merkle_proof::{BITMAP_BYTES, EMPTY, Hash, Params, Shape, TWIG_LEVEL};

use super::{
    patch::TreePatch,
    span::Span,
    twig::{Bitmap, TwigTree, place_of, twig_of},
    upper::Upper,
};

pub(super) const NO_BITS: Bitmap = [0; BITMAP_BYTES];

/// The tree of all positions. 352 bytes per twig, and the trees of some.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) params: Params,
    pub(super) shape: Shape,
    pub(super) bitmaps: Span<Bitmap>,
    pub(super) lefts: Span<Hash>,
    /// The growing twig's tree, and of full twigs those whose entries cannot be read back from a log yet.
    pub(super) trees: HashMap<u64, TwigTree>,
    pub(super) upper: Upper,
}

/// What a tree can be made of again, with much hashing of the few levels above the twigs and little below.
#[derive(Debug)]
pub(crate) struct TreeImage {
    pub(crate) first_twig: u64,
    pub(crate) bitmaps: Vec<Bitmap>,
    pub(crate) lefts: Vec<Hash>,
    /// The leaves of the twig that still grows.
    pub(crate) young: Vec<Hash>,
}

impl Tree {
    /// A tree of which nothing but the shape is known.
    pub(crate) fn starting_at(params: Params, shape: Shape) -> Self {
        let (bitmaps, lefts) = (Span::new(), Span::new());
        Self { params, shape, bitmaps, lefts, trees: HashMap::new(), upper: Upper::default() }
    }

    /// A copy of what it takes to make the tree again.
    pub(crate) fn image(&self) -> TreeImage {
        let Shape { next_sn, .. } = self.shape;
        let young = self.trees.get(&twig_of(next_sn)).map(TwigTree::leaves);
        let (bitmaps, lefts) = (self.bitmaps.iter().copied().collect(), self.lefts.iter().copied().collect());
        TreeImage { first_twig: self.shape.first_twig(), bitmaps, lefts, young: young.unwrap_or_default() }
    }

    /// Bytes that it takes.
    pub(crate) fn memory(&self) -> usize {
        let trees: usize = self.trees.values().map(TwigTree::memory).sum();
        self.bitmaps.memory() + self.lefts.memory() + trees + self.upper.memory()
    }

    /// Whether a position is active.
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

    /// Applies a patch and returns the one that leads back.
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
            // Nothing is ever proven from it again.
            if let Some(tree) = self.trees.remove(&twig) {
                note(trees, twig, Some(tree));
            }
        });
        (patch.shape, patch.root) = before;
        self.shape = shape;
        patch
    }

    /// Lets go of the trees of full twigs that lie below position `written`.
    pub(crate) fn release(&mut self, written: u64) {
        let (first, growing) = (twig_of(written), twig_of(self.shape.next_sn));
        self.trees.retain(|twig, _| *twig >= first || *twig == growing);
    }
}

/// Adds an item to a patch unless it says more about the twig already.
fn note<T>(items: &mut Vec<(u64, T)>, twig: u64, item: T) {
    if let Err(at) = items.binary_search_by_key(&twig, |(twig, _)| *twig) {
        items.insert(at, (twig, item));
    }
}
