//! The tree before the first block, and the tree of an image.

use phalanx_merkle_proof::{EMPTY, Hash, Params, Shape};

use super::{
    base::{NO_BITS, Tree, TreeImage},
    twig::{Bitmap, TwigTree, digests, place_of, twig_of},
    upper::change,
    view::TreeView,
};
use crate::parallel::Par;

impl Tree {
    /// Restores the tree of an image; `None` if the image does not have this shape.
    pub(crate) fn from_image(params: Params, shape: Shape, image: TreeImage) -> Option<Self> {
        let TreeImage { first_twig, bitmaps, lefts, young } = image;
        let (twigs, grown) = (shape.twigs().checked_sub(first_twig)?, twig_of(shape.next_sn));
        let fits = first_twig == shape.first_twig() && bitmaps.len() as u64 == twigs && lefts.len() as u64 == twigs;
        if !fits || young.len() != place_of(shape.next_sn) {
            return None;
        }
        let mut tree = Self::starting_at(params, shape);
        let hash = params.hash;
        if !young.is_empty() {
            let mut twig = TwigTree::new();
            twig.extend(hash, [&young[..]]);
            (lefts.last() == Some(twig.root())).then_some(())?;
            tree.trees.insert(grown, twig);
        }
        let bitmaps: Vec<(u64, Bitmap)> = (first_twig..).zip(bitmaps).collect();
        let digests = digests(Par::UNOBSERVED, hash, &bitmaps, |twig| &lefts[(twig - first_twig) as usize]);
        for ((twig, bitmap), left) in bitmaps.into_iter().zip(lefts) {
            tree.bitmaps.set(twig, bitmap, NO_BITS);
            tree.lefts.set(twig, left, EMPTY);
        }
        let (mut upper, _) = change(Par::UNOBSERVED, hash, &shape, digests, |_, _| EMPTY);
        tree.upper.apply(&mut upper, &shape);
        Some(tree)
    }

    /// Creates the tree before the first block: its leaves are the sentinels'.
    pub(crate) fn new(params: Params, sentinels: &[Hash]) -> Self {
        let mut tree = Self::starting_at(params, Shape::default());
        let (view, entries) = (TreeView::from(&tree), sentinels.len() as u64);
        let regions = view.regions(entries);
        let patch = view.plan(entries, &regions, &[]).finish(&sentinels.to_vec().into(), Vec::new(), true);
        tree.apply(patch);
        tree
    }
}

/// Leaves of the sentinels, which a tree begins with.
pub(crate) fn sentinels(params: &Params) -> impl Iterator<Item = Hash> {
    let Params { hash, sentinels, .. } = *params;
    (0..sentinels.count()).map(move |index| hash.leaf(&sentinels.entry(index, &sentinels.name(index))))
}
