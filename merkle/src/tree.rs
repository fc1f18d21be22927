//! The commitment in memory: active bits, left roots and upper levels of every twig in use, and how a block changes them.
//! Pure: it knows leaves and positions, neither keys nor storage.

use core::ops::Range;
use std::collections::HashMap;

use phalanx_merkle_proof::{BITMAP_BYTES, EMPTY, Hash, HashFn, Params, Shape, TWIG_LEAVES, TWIG_LEVEL};

use crate::{
    off::{Off, REGIONS, Regions},
    par::Par,
    span::Span,
    twig::{Bitmap, Grown, Leaves, TwigTree, bits_from, clear_bit, fill_bits, grow, place_of, twig_of, twigs_of},
    upper::{Upper, UpperPatch, change, patched},
};

/// About what it takes to switch a position, in nanoseconds.
const SWITCHING: usize = 4;

/// Twigs that are hashed side by side, and about what each takes, in nanoseconds.
const TOGETHER: usize = 32;
const HASHING: usize = 200;

const NO_BITS: Bitmap = [0; BITMAP_BYTES];

/// The tree of all positions. 352 bytes per twig, and the trees of some.
#[derive(Debug)]
pub(crate) struct Tree {
    params: Params,
    shape: Shape,
    bitmaps: Span<Bitmap>,
    lefts: Span<Hash>,
    /// The growing twig's tree, and of full twigs those whose entries cannot be read back from a log yet.
    trees: HashMap<u64, TwigTree>,
    upper: Upper,
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

/// The difference between two trees: what a block makes of the one before it, or what was before it.
#[derive(Clone, Debug)]
pub(crate) struct TreePatch {
    pub(crate) shape: Shape,
    pub(crate) root: Hash,
    /// Twigs ascending, here and below.
    bitmaps: Vec<(u64, Bitmap)>,
    lefts: Vec<(u64, Hash)>,
    trees: Vec<(u64, Option<TwigTree>)>,
    upper: UpperPatch,
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

/// A tree, and patches upon it.
#[derive(Debug)]
pub(crate) struct TreeView<'t, P> {
    base: &'t Tree,
    /// In order of application.
    patches: &'t [P],
    par: Par<'t>,
}

impl<P> Clone for TreeView<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for TreeView<'_, P> {}

impl<'t> From<&'t Tree> for TreeView<'t, TreePatch> {
    fn from(base: &'t Tree) -> Self {
        Self { base, patches: &[], par: Par::UNTOLD }
    }
}

impl<'t, P: Patch> TreeView<'t, P> {
    pub(crate) const fn new(base: &'t Tree, patches: &'t [P]) -> Self {
        Self { base, patches, par: Par::UNTOLD }
    }

    /// Who changes the tree by this view says which parts of that are shared.
    pub(crate) const fn telling(self, par: Par<'t>) -> Self {
        Self { par, ..self }
    }

    /// What threads share.
    pub(crate) const fn par(&self) -> Par<'t> {
        self.par
    }

    fn newest<T>(&self, find: impl Fn(&'t TreePatch) -> Option<T>) -> Option<T> {
        self.patches.iter().rev().find_map(|patch| find(patch.patch()))
    }

    pub(crate) fn shape(&self) -> Shape {
        self.patches.last().map_or(self.base.shape, |patch| patch.patch().shape)
    }

    pub(crate) fn bitmap(&self, twig: u64) -> &'t Bitmap {
        self.newest(|patch| found(&patch.bitmaps, twig)).or_else(|| self.base.bitmaps.get(twig)).unwrap_or(&NO_BITS)
    }

    pub(crate) fn left(&self, twig: u64) -> &'t Hash {
        self.newest(|patch| found(&patch.lefts, twig)).or_else(|| self.base.lefts.get(twig)).unwrap_or(&EMPTY)
    }

    /// The tree of a twig, if it is in memory.
    pub(crate) fn twig_tree(&self, twig: u64) -> Option<&'t TwigTree> {
        match self.newest(|patch| found(&patch.trees, twig)) {
            Some(tree) => tree.as_ref(),
            None => self.base.trees.get(&twig),
        }
    }

    /// The digest at `level`, twigs or above.
    pub(crate) fn upper(&self, level: u8, index: u64) -> Hash {
        let up = usize::from(level - TWIG_LEVEL);
        self.newest(|patch| patched(&patch.upper, up, index))
            .copied()
            .unwrap_or_else(|| self.base.upper.node(up, index))
    }

    /// The regions of the twigs of a block that appends `entries`.
    pub(crate) fn regions(&self, entries: u64) -> Regions {
        let shape = self.shape();
        Regions::of(&Shape { next_sn: shape.next_sn + entries, ..shape }, rayon::current_num_threads())
    }

    /// Begins a block that appends `entries` and then stops the positions in `off` (each active, and by `regions`, which
    /// are [`Self::regions`]) from being current. O(changes + twigs in use), on all threads; the part in twigs is four bytes
    /// written per twig.
    pub(crate) fn plan(self, entries: u64, regions: &Regions, off: &[Off]) -> Plan<'t, P> {
        let before = self.shape();
        let gone: usize = off.iter().map(Off::len).sum();
        let shape =
            Shape { next_sn: before.next_sn + entries, active: before.active + entries - gone as u64, ..before };
        let appended = before.next_sn..shape.next_sn;
        let nanos = (gone + entries as usize) * SWITCHING;
        let switch = |region| self.switch(regions, region, &appended, off);
        let dirty = match regions.count() {
            1 => self.par.as_shared(REGIONS.min(regions.twigs(0).count()), nanos, || switch(0)),
            count => self.par.map_range(count, nanos / count.max(1), switch).concat(),
        };
        Plan { view: self, before, shape, dirty }
    }

    /// How many twigs a block fills with these leaves, its first ones, whatever else it appends.
    pub(crate) fn filled_by(&self, leaves: &Leaves) -> usize {
        twigs_of(self.shape().next_sn, leaves.len()).1
    }

    /// Those twigs. Their trees stay in memory if `keep`.
    pub(crate) fn grow_full(&self, leaves: &Leaves, keep: bool) -> Vec<Grown> {
        let (next_sn, full) = (self.shape().next_sn, 0..self.filled_by(leaves));
        grow(self.par, self.base.params.hash, self.twig_tree(twig_of(next_sn)), next_sn, leaves, full, keep)
    }

    /// The twigs of a region in which positions are switched on or off, in order, with their active bits after it.
    fn switch(&self, regions: &Regions, region: usize, on: &Range<u64>, off: &[Off]) -> Vec<(u64, Bitmap)> {
        let twigs = regions.twigs(region);
        let off = off.iter().flat_map(|off| off.region(region));
        let at = |sn: u64| (twig_of(sn) - twigs.start) as usize;
        let mut slots = vec![CLEAN; (twigs.end - twigs.start) as usize];
        off.clone().for_each(|sn| slots[at(*sn)] = DIRTY);
        let mut dirty = Vec::with_capacity(slots.iter().filter(|slot| **slot == DIRTY).count());
        for (twig, slot) in twigs.clone().zip(&mut slots) {
            let begin = twig * TWIG_LEAVES as u64;
            let (from, to) = (on.start.max(begin), on.end.min(begin + TWIG_LEAVES as u64));
            if *slot == DIRTY || from < to {
                *slot = dirty.len() as u32;
                let mut bitmap = *self.bitmap(twig);
                if from < to {
                    fill_bits(&mut bitmap, (from - begin) as usize..(to - begin) as usize, true);
                }
                dirty.push((twig, bitmap));
            }
        }
        off.for_each(|sn| clear_bit(&mut dirty[slots[at(*sn)] as usize].1, place_of(*sn)));
        dirty
    }
}

fn found<T>(items: &[(u64, T)], twig: u64) -> Option<&T> {
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

/// In [`TreeView::switch`], instead of a place among the dirty twigs: it is none of them, or has no place yet.
const CLEAN: u32 = u32::MAX;
const DIRTY: u32 = u32::MAX - 1;

/// A block in the making: positions are known, their leaves are not.
pub(crate) struct Plan<'t, P> {
    view: TreeView<'t, P>,
    before: Shape,
    shape: Shape,
    /// In order.
    dirty: Vec<(u64, Bitmap)>,
}

impl<'t, P: Patch> Plan<'t, P> {
    /// What is left is told by this.
    pub(crate) fn telling(self, par: Par<'t>) -> Self {
        Self { view: TreeView { par, ..self.view }, ..self }
    }

    /// Moves old positions up, as [`Compaction`](phalanx_merkle_proof::Compaction) says, and returns them: the first one
    /// becomes the next position, and so on.
    pub(crate) fn compact(&mut self) -> Vec<u64> {
        const LEAVES: u64 = TWIG_LEAVES as u64;
        let compaction = self.view.base.params.compaction;
        let (old, new) = (self.before.next_sn, self.shape.next_sn);
        let cap = if new == old { 0 } else { compaction.cap(new - old) };
        let mut moves = Vec::with_capacity(cap.min(new - old) as usize);
        let is_due = |moves: &Vec<u64>, shape: &Shape| {
            (moves.len() as u64) < cap && compaction.is_due(shape.active, shape.next_sn - shape.floor)
        };
        let mut twig = twig_of(self.shape.floor);
        // In order, twigs that are dirty by this alone.
        let mut fresh = Vec::new();
        while twig * LEAVES < old && is_due(&moves, &self.shape) {
            let begin = twig * LEAVES;
            let first = self.shape.floor.saturating_sub(begin) as usize;
            let dirty = self.dirty.binary_search_by_key(&twig, |(twig, _)| *twig);
            let mut bits = dirty.map_or_else(|_| *self.view.bitmap(twig), |at| self.dirty[at].1);
            let mut end = first;
            let active = bits_from(&bits, first).take_while(|place| begin + (*place as u64) < old);
            for place in active {
                if !is_due(&moves, &self.shape) {
                    break;
                }
                moves.push(begin + place as u64);
                end = place + 1;
                self.shape.next_sn += 1;
                self.shape.floor = begin + end as u64;
            }
            if end > first {
                fill_bits(&mut bits, first..end, false);
                match dirty {
                    Ok(at) => self.dirty[at].1 = bits,
                    Err(_) => fresh.push((twig, bits)),
                }
            }
            twig += 1;
        }
        if !fresh.is_empty() {
            // Two stretches in order, which a stable sort merges.
            self.dirty.extend(fresh);
            self.dirty.sort_by_key(|(twig, _)| *twig);
        }
        // Where they have moved to, behind what is appended.
        let mut sn = new;
        while sn < self.shape.next_sn {
            let twig = twig_of(sn);
            let end = self.shape.next_sn.min((twig + 1) * LEAVES);
            let places = place_of(sn)..(end - twig * LEAVES) as usize;
            match self.dirty.last_mut() {
                Some((last, bits)) if *last == twig => fill_bits(bits, places, true),
                _ => {
                    let mut bits = *self.view.bitmap(twig);
                    fill_bits(&mut bits, places, true);
                    self.dirty.push((twig, bits));
                }
            }
            sn = end;
        }
        moves
    }

    /// Raises the floor to where it is known to be: the moves are among the block's entries.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        self.shape.floor = self.shape.floor.max(floor);
    }

    /// Hashes the block, given the leaves of all its positions, of which [`TreeView::grow_full`] has `grown` some. Trees of
    /// twigs that fill up stay in memory if `keep`.
    pub(crate) fn finish(self, leaves: &Leaves, mut grown: Vec<Grown>, keep: bool) -> TreePatch {
        let Self { view, before, shape, dirty } = self;
        let params = &view.base.params;
        let hash = params.hash;
        let first = twig_of(before.next_sn);
        let rest = grown.len()..twigs_of(before.next_sn, leaves.len()).0;
        grown.extend(grow(view.par, hash, view.twig_tree(first), before.next_sn, leaves, rest, keep));
        // What falls below the floor is empty from here on.
        let fallen = before.first_twig()..shape.first_twig();
        let kept = dirty.partition_point(|(twig, _)| *twig < fallen.end);
        let mut twigs: Vec<(u64, Hash)> = fallen.map(|twig| (twig, EMPTY)).collect();
        let left = |twig: u64| {
            let fresh = twig.checked_sub(first).and_then(|i| grown.get(i as usize));
            fresh.map_or_else(|| view.left(twig), |grown| &grown.left)
        };
        twigs.extend(digests(view.par, hash, &dirty[kept..], left));
        let node = |up: usize, index| view.upper(TWIG_LEVEL + up as u8, index);
        let (upper, top) = change(view.par, hash, &shape, twigs, node);
        let root = params.root(&shape, &top);
        let (mut lefts, mut trees) = (Vec::with_capacity(grown.len()), Vec::with_capacity(grown.len()));
        for (twig, Grown { left, tree }) in (first..).zip(grown) {
            lefts.push((twig, left));
            trees.push((twig, tree));
        }
        TreePatch { shape, root, bitmaps: dirty, lefts, trees, upper }
    }
}

/// The digests of twigs of these active bits, in order; `left` gives the roots over what their positions hold.
fn digests<'d>(
    par: Par<'_>,
    hash: HashFn,
    twigs: &'d [(u64, Bitmap)],
    left: impl Fn(u64) -> &'d Hash + Sync,
) -> Vec<(u64, Hash)> {
    let some: Vec<&[(u64, Bitmap)]> = twigs.chunks(TOGETHER).collect();
    let of_some = par.map(&some, TOGETHER * HASHING, |some| {
        let mut digests = Vec::with_capacity(some.len());
        hash.twigs(some.iter().map(|(twig, bitmap)| (left(*twig), bitmap)), &mut digests);
        digests
    });
    twigs.iter().map(|(twig, _)| *twig).zip(of_some.into_iter().flatten()).collect()
}

impl Tree {
    /// The tree before the first block: sentinels only, given by their leaves.
    pub(crate) fn new(params: Params, sentinels: &[Hash]) -> Self {
        let mut tree = Self::starting_at(params, Shape::default());
        let (view, entries) = (TreeView::from(&tree), sentinels.len() as u64);
        let regions = view.regions(entries);
        let patch = view.plan(entries, &regions, &[]).finish(&sentinels.to_vec().into(), Vec::new(), true);
        tree.apply(patch);
        tree
    }

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

    /// The tree of an image; `None` if it is not of this shape.
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
        let digests = digests(Par::UNTOLD, hash, &bitmaps, |twig| &lefts[(twig - first_twig) as usize]);
        for ((twig, bitmap), left) in bitmaps.into_iter().zip(lefts) {
            tree.bitmaps.set(twig, bitmap, NO_BITS);
            tree.lefts.set(twig, left, EMPTY);
        }
        let (mut upper, _) = change(Par::UNTOLD, hash, &shape, digests, |_, _| EMPTY);
        tree.upper.apply(&mut upper, &shape);
        Some(tree)
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
