//! From a block's changes to its root: first its positions, then compaction, then the leaves of all entries.

use core::ops::Range;

use phalanx_merkle_proof::{EMPTY, Hash, Shape, TWIG_LEAVES, TWIG_LEVEL};

use super::{
    deactivations::{Deactivations, REGIONS, Regions},
    patch::{Patches, TreePatch},
    twig::{Bitmap, Grown, Leaves, bits_from, clear_bit, digests, fill_bits, grow, place_of, twig_of, twigs_of},
    upper::change,
    view::TreeView,
};
use crate::parallel::Par;

/// Cost of switching one position, in nanoseconds.
const SWITCH_NANOS: usize = 4;

impl<'t, P: Patches<'t>> TreeView<'t, P> {
    /// Begins a block that appends `entries` and deactivates the positions in `off`, which are active and divided by
    /// `regions` ([`Self::regions`]).
    ///
    /// O(changes + twigs in use), on all threads; per twig in use four bytes are written.
    pub(crate) fn plan(self, entries: u64, regions: &Regions, off: &[Deactivations]) -> Plan<'t, P> {
        let before = self.shape();
        let gone: usize = off.iter().map(Deactivations::len).sum();
        let shape =
            Shape { next_sn: before.next_sn + entries, active: before.active + entries - gone as u64, ..before };
        let appended = before.next_sn..shape.next_sn;
        let nanos = (gone + entries as usize) * SWITCH_NANOS;
        let switch = |region| self.switch(regions, region, &appended, off);
        let dirty = match regions.count() {
            1 => self.par.observe_as_shared(REGIONS.min(regions.twigs(0).count()), nanos, || switch(0)),
            count => self.par.map_range(count, nanos / count.max(1), switch).concat(),
        };
        Plan { view: self, before, shape, dirty }
    }
}

impl<'t, P: Patches<'t>> TreeView<'t, P> {
    /// Number of twigs that the block's first leaves fill, whatever else it appends.
    pub(crate) fn filled_by(&self, leaves: &Leaves) -> usize {
        twigs_of(self.shape().next_sn, leaves.len()).1
    }

    /// Hashes those twigs. Their trees stay in memory if `keep`.
    pub(crate) fn grow_full(&self, leaves: &Leaves, keep: bool) -> Vec<Grown> {
        let (next_sn, full) = (self.shape().next_sn, 0..self.filled_by(leaves));
        grow(self.par, self.base.params.hash, self.twig_tree(twig_of(next_sn)), next_sn, leaves, full, keep)
    }

    /// Twigs of a region with a switched position, in order, with their active bits afterwards.
    fn switch(&self, regions: &Regions, region: usize, on: &Range<u64>, off: &[Deactivations]) -> Vec<(u64, Bitmap)> {
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

/// In [`TreeView::switch`], instead of an index among the dirty twigs: not dirty, or no index yet.
const CLEAN: u32 = u32::MAX;
const DIRTY: u32 = u32::MAX - 1;

/// Block in preparation: its positions are known, their leaves are not.
///
/// [`TreeView::plan`] begins it, [`Plan::compact`] appends moved entries at most once, [`Plan::finish`] takes it by value.
pub(crate) struct Plan<'t, P> {
    view: TreeView<'t, P>,
    before: Shape,
    shape: Shape,
    /// Ascending by twig.
    dirty: Vec<(u64, Bitmap)>,
}

impl<'t, P: Patches<'t>> Plan<'t, P> {
    /// Sets the observer of the remaining work.
    pub(crate) fn observed_by(self, par: Par<'t>) -> Self {
        Self { view: TreeView { par, ..self.view }, ..self }
    }

    /// Compacts: appends old live entries anew, as [`Compaction`](phalanx_merkle_proof::Compaction) says, and returns
    /// their old positions. The first of them becomes the next position, and so on.
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
        // Twigs that are dirty by compaction alone, ascending.
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
            // Two sorted runs, which a stable sort merges.
            self.dirty.extend(fresh);
            self.dirty.sort_by_key(|(twig, _)| *twig);
        }
        // The new positions, behind the block's own entries.
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

    /// Raises the floor to a known value, where the moved entries are among the block's own.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        self.shape.floor = self.shape.floor.max(floor);
    }

    /// Hashes the block, given the leaves of all its positions, of which [`TreeView::grow_full`] has already grown
    /// some. Trees of twigs that fill up stay in memory if `keep`.
    pub(crate) fn finish(self, leaves: &Leaves, mut grown: Vec<Grown>, keep: bool) -> TreePatch {
        let Self { view, before, shape, dirty } = self;
        let params = &view.base.params;
        let hash = params.hash;
        let first = twig_of(before.next_sn);
        let rest = grown.len()..twigs_of(before.next_sn, leaves.len()).0;
        grown.extend(grow(view.par, hash, view.twig_tree(first), before.next_sn, leaves, rest, keep));
        // Twigs below the floor are empty from here on.
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
