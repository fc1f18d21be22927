//! A twig: 2048 neighbouring positions, the tree over their leaves, and their active bits.

use core::ops::Range;

use std::sync::Arc;

use phalanx_merkle_proof::{BITMAP_BYTES, EMPTY, Hash, HashFn, LEFT_LEVELS, TWIG_LEAVES};

use crate::parallel::Par;

/// Active bits of a twig.
pub(crate) type Bitmap = [u8; BITMAP_BYTES];

/// Twig of a position.
#[inline]
pub(crate) const fn twig_of(sn: u64) -> u64 {
    sn / TWIG_LEAVES as u64
}

/// Place of a position in its twig.
#[inline]
pub(crate) const fn place_of(sn: u64) -> usize {
    (sn % TWIG_LEAVES as u64) as usize
}

/// Sets or clears the bits of a range of places.
pub(crate) fn fill_bits(bitmap: &mut Bitmap, places: Range<usize>, set: bool) {
    let (words, _) = bitmap.as_chunks_mut::<8>();
    let (first, last) = (places.start / 64, places.end.div_ceil(64));
    for (at, word) in words.iter_mut().enumerate().take(last).skip(first) {
        let (from, to) = (places.start.saturating_sub(at * 64), (places.end - at * 64).min(64));
        let mask = u64::MAX << from & u64::MAX >> (64 - to);
        let bits = u64::from_le_bytes(*word);
        *word = if set { bits | mask } else { bits & !mask }.to_le_bytes();
    }
}

#[inline]
pub(crate) const fn clear_bit(bitmap: &mut Bitmap, place: usize) {
    bitmap[place / 8] &= !(1 << (place % 8));
}

/// Places from `from` on whose bits are set.
#[inline]
pub(crate) fn bits_from(bitmap: &Bitmap, from: usize) -> impl Iterator<Item = usize> {
    let (words, _) = bitmap.as_chunks::<8>();
    words.iter().enumerate().skip(from / 64).flat_map(move |(at, word)| {
        let mask = if at == from / 64 { u64::MAX << (from % 64) } else { u64::MAX };
        let mut word = u64::from_le_bytes(*word) & mask;
        core::iter::from_fn(move || {
            let place = (word != 0).then(|| at * 64 + word.trailing_zeros() as usize)?;
            word &= word - 1;
            Some(place)
        })
    })
}

/// Cost that a leaf adds to hashing its twig, in nanoseconds.
pub(crate) const LEAF_NANOS: usize = 60;

/// Neighbouring leaves that trees share by reference.
const GROUP: usize = 128;

/// Lowest level whose digests are kept. The levels between it and the leaves hold seven eighths of all digests; any of
/// these takes at most 7 hashes.
const KEPT_LEVEL: u8 = 4;

/// Number of digests on that level.
const KEPT: usize = TWIG_LEAVES >> KEPT_LEVEL;

const _: () = assert!(GROUP.is_multiple_of(1 << KEPT_LEVEL) && TWIG_LEAVES.is_multiple_of(GROUP));

/// Left tree of a twig: 72 KiB if full, and 12 KiB more for another tree that differs by a few leaves at the end.
#[derive(Clone, Debug)]
pub(crate) struct TwigTree {
    /// All groups but the last are full.
    leaves: Vec<Arc<Vec<Hash>>>,
    /// Digests above, in heap order: the root is 1, the children of `i` are `2 i` and `2 i + 1`.
    kept: Box<[Hash; 2 * KEPT]>,
}

impl TwigTree {
    pub(crate) fn new() -> Self {
        Self { leaves: Vec::with_capacity(TWIG_LEAVES / GROUP), kept: Box::new([EMPTY; 2 * KEPT]) }
    }

    /// Creates a tree whose first leaves are unknown: a pruned log may begin inside a twig, which no proof needs again.
    /// The unknown leaves are empty, and the digests above them meaningless.
    fn from_place(place: usize) -> Self {
        let group = |begin: usize| {
            let mut group = Vec::with_capacity(GROUP);
            group.resize((place - begin).min(GROUP), EMPTY);
            Arc::new(group)
        };
        let mut tree = Self::new();
        tree.leaves.extend((0..place).step_by(GROUP).map(group));
        tree
    }

    pub(crate) const fn root(&self) -> &Hash {
        &self.kept[1]
    }

    pub(crate) fn leaves(&self) -> Vec<Hash> {
        self.leaves.iter().flat_map(|group| group.iter().copied()).collect()
    }

    /// Bytes that the tree takes; of shared leaves, its share.
    pub(crate) fn memory(&self) -> usize {
        let share = |group: &Arc<Vec<Hash>>| group.capacity() * size_of::<Hash>() / Arc::strong_count(group);
        size_of_val(&*self.kept) + self.leaves.iter().map(share).sum::<usize>()
    }

    fn len(&self) -> usize {
        self.leaves.last().map_or(0, |last| (self.leaves.len() - 1) * GROUP + last.len())
    }

    /// Appends leaves, and hashes the levels above them.
    ///
    /// # Panics
    /// If there is no room for all leaves.
    pub(crate) fn extend<'l>(&mut self, hash: HashFn, leaves: impl IntoIterator<Item = &'l [Hash]>) {
        let place = self.len();
        let mut end = place;
        for mut leaves in leaves {
            while !leaves.is_empty() {
                if self.leaves.len() == end / GROUP {
                    self.leaves.push(Arc::new(Vec::with_capacity(GROUP)));
                }
                let group = Arc::make_mut(&mut self.leaves[end / GROUP]);
                group.reserve_exact(GROUP - group.len());
                let (now, later) = leaves.split_at(leaves.len().min(GROUP - group.len()));
                group.extend_from_slice(now);
                (end, leaves) = (end + now.len(), later);
            }
        }
        if end == place {
            return;
        }
        for (at, group) in self.leaves.iter().enumerate().skip(place / GROUP) {
            // In the group that was begun: the new leaves, and those under the same kept digest.
            let whole = (place.saturating_sub(at * GROUP) >> KEPT_LEVEL) << KEPT_LEVEL;
            lift(hash, &group[whole..], &mut self.kept[KEPT + ((at * GROUP + whole) >> KEPT_LEVEL)..]);
        }
        let (mut first, mut last) = (KEPT + (place >> KEPT_LEVEL), KEPT + ((end - 1) >> KEPT_LEVEL));
        for level in KEPT_LEVEL + 1..=LEFT_LEVELS as u8 {
            (first, last) = (first / 2, last / 2);
            let (parents, children) = self.kept.split_at_mut(last + 1);
            // The children of first..=last begin at 2 first, which is behind `last` on every level but the root's pair.
            let skip = 2 * first - (last + 1);
            hash.nodes(level, &children[skip..skip + 2 * (last - first + 1)], &mut parents[first..=last]);
        }
    }

    /// Digest at `level` (leaves are 0) and `index` within the twig.
    pub(crate) fn node(&self, hash: HashFn, level: u8, index: usize) -> Hash {
        match level {
            KEPT_LEVEL.. => self.kept[(TWIG_LEAVES >> level) + index],
            0 => self.leaves.get(index / GROUP).and_then(|group| group.get(index % GROUP)).copied().unwrap_or(EMPTY),
            _ => {
                let [left, right] = [2 * index, 2 * index + 1].map(|child| self.node(hash, level - 1, child));
                hash.node(level, &left, &right)
            }
        }
    }
}

/// Hashes at most a group of leaves up to the lowest kept level, into the beginning of `kept`.
fn lift(hash: HashFn, leaves: &[Hash], kept: &mut [Hash]) {
    let [one, two, three, four] = [1, 2, 3, 4].map(|level| leaves.len().div_ceil(1 << level));
    let (mut odd, mut even) = ([EMPTY; GROUP / 2], [EMPTY; GROUP / 4]);
    hash.nodes(1, leaves, &mut odd[..one]);
    hash.nodes(2, &odd[..one], &mut even[..two]);
    hash.nodes(3, &even[..two], &mut odd[..three]);
    hash.nodes(KEPT_LEVEL, &odd[..three], &mut kept[..four]);
}

/// Leaves in the pieces in which they were hashed: together they are large, and no use needs them contiguous.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    pieces: Vec<Vec<Hash>>,
    /// First leaf of each piece.
    begins: Vec<usize>,
    len: usize,
}

impl Leaves {
    pub(crate) fn with_capacity(pieces: usize) -> Self {
        Self { pieces: Vec::with_capacity(pieces), begins: Vec::with_capacity(pieces), len: 0 }
    }

    pub(crate) fn push(&mut self, piece: Vec<Hash>) {
        self.begins.push(self.len);
        self.len += piece.len();
        self.pieces.push(piece);
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Leaves from `from` up to `to`, piece by piece.
    fn range(&self, from: usize, to: usize) -> impl Iterator<Item = &[Hash]> {
        let first = self.begins.partition_point(|begin| *begin <= from).saturating_sub(1);
        let pieces = self.begins[first..].iter().zip(&self.pieces[first..]);
        pieces.take_while(move |(begin, _)| **begin < to).map(move |(begin, piece)| {
            let [from, to] = [from, to].map(|at| at.saturating_sub(*begin).min(piece.len()));
            &piece[from..to]
        })
    }
}

impl From<Vec<Hash>> for Leaves {
    fn from(leaves: Vec<Hash>) -> Self {
        let mut all = Self::with_capacity(1);
        all.push(leaves);
        all
    }
}

/// State of one twig after leaves were appended.
#[derive(Debug)]
pub(crate) struct Grown {
    pub(crate) left: Hash,
    /// Tree under `left`; always present for a growing twig.
    pub(crate) tree: Option<TwigTree>,
}

/// Number of twigs that `leaves` leaves from position `next_sn` on touch, and number that they fill.
pub(crate) const fn twigs_of(next_sn: u64, leaves: usize) -> (usize, usize) {
    let end = place_of(next_sn) + leaves;
    (if leaves == 0 { 0 } else { end.div_ceil(TWIG_LEAVES) }, end / TWIG_LEAVES)
}

/// Appends `leaves` at position `next_sn` and returns the twigs numbered `twigs`, hashed in parallel.
///
/// Twigs count from that of `next_sn`, whose tree so far is `young`. Trees of full twigs are returned if `keep`.
pub(crate) fn grow(
    par: Par<'_>,
    hash: HashFn,
    young: Option<&TwigTree>,
    next_sn: u64,
    leaves: &Leaves,
    twigs: Range<usize>,
    keep: bool,
) -> Vec<Grown> {
    let (begun, first) = (place_of(next_sn), twigs.start);
    let each = leaves.len() / twigs_of(next_sn, leaves.len()).0.max(1);
    par.map_range(twigs.len(), each * LEAF_NANOS, |twig| {
        let twig = first + twig;
        let from = (twig * TWIG_LEAVES).saturating_sub(begun);
        let to = ((twig + 1) * TWIG_LEAVES - begun).min(leaves.len());
        let place = if twig == 0 { begun } else { 0 };
        let mut tree = young.filter(|_| place > 0).cloned().unwrap_or_else(|| TwigTree::from_place(place));
        debug_assert_eq!(tree.len(), place, "the tree so far ends where the block begins");
        tree.extend(hash, leaves.range(from, to));
        let full = place + to - from == TWIG_LEAVES;
        Grown { left: *tree.root(), tree: (keep || !full).then_some(tree) }
    })
}

/// Twigs that are hashed together, and the cost of one in nanoseconds.
const BATCH: usize = 32;
const TWIG_NANOS: usize = 200;

/// Digests of twigs with these active bits, in order; `left` gives the roots over their leaves.
pub(super) fn digests<'d>(
    par: Par<'_>,
    hash: HashFn,
    twigs: &'d [(u64, Bitmap)],
    left: impl Fn(u64) -> &'d Hash + Sync,
) -> Vec<(u64, Hash)> {
    let some: Vec<&[(u64, Bitmap)]> = twigs.chunks(BATCH).collect();
    let of_some = par.map(&some, BATCH * TWIG_NANOS, |some| {
        let mut digests = Vec::with_capacity(some.len());
        hash.twigs(some.iter().map(|(twig, bitmap)| (left(*twig), bitmap)), &mut digests);
        digests
    });
    twigs.iter().map(|(twig, _)| *twig).zip(of_some.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_found_in_order_from_anywhere() {
        let mut bitmap = [0; BITMAP_BYTES];
        let set = [0, 1, 63, 64, 700, 2047];
        set.iter().for_each(|place| fill_bits(&mut bitmap, *place..place + 1, true));
        for from in 0..TWIG_LEAVES {
            let expected = set.iter().copied().filter(|place| *place >= from);
            assert!(bits_from(&bitmap, from).eq(expected), "from {from}");
        }
        assert_eq!(bits_from(&[0; BITMAP_BYTES], 5).count(), 0);
    }

    #[test]
    fn a_range_of_bits_is_filled_and_nothing_beside_it() {
        for from in [0, 1, 62, 63, 64, 65, 700, 2047, 2048] {
            for to in [0, 1, 63, 64, 65, 127, 128, 701, 2047, 2048].into_iter().filter(|to| *to >= from) {
                let (mut set, mut clear) = ([0; BITMAP_BYTES], [0xff; BITMAP_BYTES]);
                fill_bits(&mut set, from..to, true);
                fill_bits(&mut clear, from..to, false);
                assert!(bits_from(&set, 0).eq(from..to), "{from}..{to}");
                assert!(bits_from(&clear, 0).eq((0..from).chain(to..TWIG_LEAVES)), "{from}..{to}");
            }
        }
    }

    /// Cuts leaves into pieces of many lengths, some of them empty.
    fn pieces(leaves: &[Hash]) -> Leaves {
        let (mut all, mut rest) = (Leaves::default(), leaves);
        for len in [1, 0, 5, 1024, 0, 1000, 1, 2, 3000, usize::MAX] {
            let (piece, others) = rest.split_at(len.min(rest.len()));
            all.push(piece.to_vec());
            rest = others;
        }
        assert_eq!(all.len(), leaves.len());
        all
    }

    fn naive(hash: HashFn, leaves: &[Hash]) -> Hash {
        let mut level = leaves.to_vec();
        level.resize(TWIG_LEAVES, EMPTY);
        for at in 1..=LEFT_LEVELS as u8 {
            level = level.chunks(2).map(|pair| hash.node(at, &pair[0], &pair[1])).collect();
        }
        level[0]
    }

    #[test]
    fn growth_in_steps_equals_a_full_recomputation() {
        let hash = HashFn::Blake3;
        let leaves: Vec<Hash> = (0..7000u32).map(|i| hash.key(&i.to_be_bytes())).collect();
        let mut young: Option<TwigTree> = None;
        let mut done = 0;
        for step in [1, 1, 2, 3, 1000, 1041, 1, 2047, 2, 900, 2].into_iter().chain([0]) {
            let (sn, appended) = (done as u64, pieces(&leaves[done..done + step]));
            let (twigs, full) = twigs_of(sn, step);
            let grow = |twigs| grow(Par::UNOBSERVED, hash, young.as_ref(), sn, &appended, twigs, true);
            let mut grown = grow(0..full);
            grown.extend(grow(full..twigs));
            assert_eq!((grown.len(), grown.len().saturating_sub(full) <= 1), (twigs, true));
            let first = done / TWIG_LEAVES;
            done += step;
            for (i, twig) in grown.iter().enumerate() {
                let (from, to) = ((first + i) * TWIG_LEAVES, ((first + i + 1) * TWIG_LEAVES).min(done));
                assert_eq!(twig.left, naive(hash, &leaves[from..to]), "twig {} after {done}", first + i);
            }
            if let Some(last) = grown.into_iter().last() {
                young = last.tree;
            }
        }
        assert_eq!(done, 5000);
    }

    #[test]
    fn a_tree_has_all_its_digests_and_does_not_change_the_tree_it_was_cloned_from() {
        let hash = HashFn::Blake3;
        let leaves: Vec<Hash> = (0..TWIG_LEAVES as u32).map(|i| hash.key(&i.to_be_bytes())).collect();
        let check = |tree: &TwigTree, count: usize| {
            assert_eq!(tree.leaves(), leaves[..count], "{count}");
            let mut nodes = leaves[..count].to_vec();
            nodes.resize(TWIG_LEAVES, EMPTY);
            for level in 0..=LEFT_LEVELS as u8 {
                if level > 0 {
                    nodes = nodes.chunks(2).map(|pair| hash.node(level, &pair[0], &pair[1])).collect();
                }
                for (index, node) in nodes.iter().enumerate() {
                    assert_eq!(tree.node(hash, level, index), *node, "{count} leaves, level {level}, {index}");
                }
            }
        };
        let mut trees = vec![(TwigTree::new(), 0)];
        for count in [1, 2, 15, 16, 17, 127, 128, 129, 300, 1000, 1024, 1025, 2047, 2048] {
            let (before, place) = &trees[trees.len() - 1];
            let mut tree = before.clone();
            tree.extend(hash, pieces(&leaves[*place..count]).range(0, count - place));
            trees.push((tree, count));
        }
        trees.iter().for_each(|(tree, count)| check(tree, *count));
        for place in [1, 128, 200, 2047] {
            let grown = grow(Par::UNOBSERVED, hash, None, place as u64, &pieces(&leaves[place..]), 0..1, true);
            let tree = grown[0].tree.as_ref().expect("is kept");
            let known: Vec<Hash> = (place..TWIG_LEAVES).map(|at| tree.node(hash, 0, at)).collect();
            assert_eq!((known, tree.node(hash, 0, 0)), (leaves[place..].to_vec(), EMPTY), "{place} are not known");
        }
        let alone: usize = trees.iter().map(|(_, count)| count * 32 + 8192).sum();
        let shared: usize = trees.iter().map(|(tree, _)| tree.memory()).sum();
        assert!(shared < alone * 2 / 3 && shared > 2048 * 32, "{shared} of {alone}");
    }
}
