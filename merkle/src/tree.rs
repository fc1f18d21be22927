//! The commitment in memory: active bits, left roots and upper levels of every twig, and how a block changes them. Pure:
//! it knows leaves and positions, neither keys nor storage.

use std::collections::HashMap;

use phalanx_merkle_proof::{BITMAP_BYTES, Hash, Params, TWIG_LEAVES};

use crate::{
    par,
    twig::{Bitmap, Grown, TwigTree, clear_bit, grow, place_of, set_bit, twig_of},
    upper::{Upper, UpperChange},
};

/// The tree of all positions. 352 bytes per twig, and the trees of some.
#[derive(Debug)]
pub(crate) struct Tree {
    params: Params,
    next_sn: u64,
    active: u64,
    bitmaps: Vec<Bitmap>,
    lefts: Vec<Hash>,
    /// The growing twig's tree, and of full twigs those whose entries cannot be read back from a log yet.
    trees: HashMap<u64, TwigTree>,
    upper: Upper,
}

/// What a block makes of a [`Tree`].
#[derive(Debug)]
pub(crate) struct TreeChange {
    /// From the twig of the old `next_sn` on.
    grown: Vec<Grown>,
    /// Twigs ascending.
    bitmaps: Vec<(u64, Bitmap)>,
    upper: UpperChange,
    pub(crate) next_sn: u64,
    pub(crate) active: u64,
    pub(crate) root: Hash,
}

impl Tree {
    pub(crate) fn new(params: Params) -> Self {
        Self {
            params,
            next_sn: 0,
            active: 0,
            bitmaps: Vec::new(),
            lefts: Vec::new(),
            trees: HashMap::new(),
            upper: Upper::default(),
        }
    }

    pub(crate) const fn next_sn(&self) -> u64 {
        self.next_sn
    }

    pub(crate) const fn active(&self) -> u64 {
        self.active
    }

    pub(crate) fn root(&self) -> Hash {
        self.params.root(self.next_sn, self.active, &self.upper.top())
    }

    pub(crate) fn bitmap(&self, twig: u64) -> &Bitmap {
        &self.bitmaps[twig as usize]
    }

    pub(crate) fn left(&self, twig: u64) -> &Hash {
        &self.lefts[twig as usize]
    }

    pub(crate) const fn upper(&self) -> &Upper {
        &self.upper
    }

    /// The tree of a twig, if it is in memory.
    pub(crate) fn twig_tree(&self, twig: u64) -> Option<&TwigTree> {
        self.trees.get(&twig)
    }

    /// What the tree becomes when `leaves` are appended and the positions in `off` (each active, or among the appended
    /// ones) stop being current. Trees of twigs that fill up stay in memory if `keep`.
    pub(crate) fn change(&self, leaves: &[Hash], off: &[u64], keep: bool) -> TreeChange {
        let hash = self.params.hash;
        let next_sn = self.next_sn + leaves.len() as u64;
        let active = self.active + leaves.len() as u64 - off.len() as u64;
        let first = twig_of(self.next_sn);
        let grown = grow(hash, self.trees.get(&first), self.next_sn, leaves, keep);
        let bitmaps = self.dirty_bitmaps(next_sn, off);
        let twigs = par::map(&bitmaps, 350, |(twig, bitmap)| {
            let fresh = twig.checked_sub(first).and_then(|i| grown.get(i as usize));
            let left = fresh.map_or_else(|| self.left(*twig), |grown| &grown.left);
            (*twig, hash.twig(left, &hash.bits(bitmap)))
        });
        let upper = self.upper.change(hash, next_sn.div_ceil(TWIG_LEAVES as u64), twigs);
        let root = self.params.root(next_sn, active, &upper.top);
        TreeChange { grown, bitmaps, upper, next_sn, active, root }
    }

    /// The bitmaps that appending up to `next_sn` and switching off `off` changes. O(changes + twigs); the part in
    /// twigs is four bytes written per twig.
    fn dirty_bitmaps(&self, next_sn: u64, off: &[u64]) -> Vec<(u64, Bitmap)> {
        const CLEAN: u32 = u32::MAX;
        let mut slot = vec![CLEAN; next_sn.div_ceil(TWIG_LEAVES as u64) as usize];
        let mut dirty: Vec<(u64, Bitmap)> = Vec::with_capacity(slot.len().min(off.len() + 2));
        let mut touch = |twig: u64, dirty: &mut Vec<(u64, Bitmap)>| {
            let slot = &mut slot[twig as usize];
            if *slot == CLEAN {
                *slot = dirty.len() as u32;
                dirty.push((twig, self.bitmaps.get(twig as usize).copied().unwrap_or([0; BITMAP_BYTES])));
            }
            *slot as usize
        };
        let mut sn = self.next_sn;
        while sn < next_sn {
            let (at, end) = (touch(twig_of(sn), &mut dirty), next_sn.min((twig_of(sn) + 1) * TWIG_LEAVES as u64));
            (sn..end).for_each(|sn| set_bit(&mut dirty[at].1, place_of(sn)));
            sn = end;
        }
        for sn in off {
            let at = touch(twig_of(*sn), &mut dirty);
            clear_bit(&mut dirty[at].1, place_of(*sn));
        }
        dirty.sort_unstable_by_key(|(twig, _)| *twig);
        dirty
    }

    pub(crate) fn apply(&mut self, change: TreeChange) {
        let first = twig_of(self.next_sn);
        for (i, grown) in change.grown.into_iter().enumerate() {
            let twig = first + i as u64;
            if twig as usize == self.lefts.len() {
                self.lefts.push(grown.left);
                self.bitmaps.push([0; BITMAP_BYTES]);
            } else {
                self.lefts[twig as usize] = grown.left;
            }
            match grown.tree {
                Some(tree) => self.trees.insert(twig, tree),
                None => self.trees.remove(&twig),
            };
        }
        for (twig, bitmap) in change.bitmaps {
            self.bitmaps[twig as usize] = bitmap;
            // A full twig without a current value is never proven from again.
            if bitmap == [0; BITMAP_BYTES] && twig < twig_of(change.next_sn) {
                self.trees.remove(&twig);
            }
        }
        self.upper.apply(change.upper);
        (self.next_sn, self.active) = (change.next_sn, change.active);
    }

    /// Lets go of the trees of full twigs that lie below position `written`.
    pub(crate) fn release(&mut self, written: u64) {
        let (first, growing) = (twig_of(written), twig_of(self.next_sn));
        self.trees.retain(|twig, _| *twig >= first || *twig == growing);
    }
}
