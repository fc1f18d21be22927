//! One twig: 2048 neighbouring positions of the log, the digests over them, and which of them hold current values.

use phalanx_merkle_proof::{BITMAP_BYTES, EMPTY, Hash, HashFn, LEFT_LEVELS, TWIG_LEAVES};

use crate::par;

/// The active bits of a twig.
pub(crate) type Bitmap = [u8; BITMAP_BYTES];

/// The twig of a position.
#[inline]
pub(crate) const fn twig_of(sn: u64) -> u64 {
    sn / TWIG_LEAVES as u64
}

/// The place of a position in its twig.
#[inline]
pub(crate) const fn place_of(sn: u64) -> usize {
    (sn % TWIG_LEAVES as u64) as usize
}

#[inline]
pub(crate) const fn set_bit(bitmap: &mut Bitmap, place: usize) {
    bitmap[place / 8] |= 1 << (place % 8);
}

#[inline]
pub(crate) const fn clear_bit(bitmap: &mut Bitmap, place: usize) {
    bitmap[place / 8] &= !(1 << (place % 8));
}

/// The first place from `from` on whose bit is set.
#[inline]
pub(crate) fn next_bit(bitmap: &Bitmap, from: usize) -> Option<usize> {
    let (words, _) = bitmap.as_chunks::<8>();
    let mut mask = u64::MAX << (from % 64);
    for (at, word) in words.iter().enumerate().skip(from / 64) {
        let word = u64::from_le_bytes(*word) & mask;
        if word != 0 {
            return Some(at * 64 + word.trailing_zeros() as usize);
        }
        mask = u64::MAX;
    }
    None
}

/// All digests of a twig's left tree in heap order: the root at 1, children of `i` at `2 i` and `2 i + 1`, leaves from
/// 2048 on. 128 KiB.
#[derive(Clone, Debug)]
pub(crate) struct TwigTree(Box<[Hash]>);

impl TwigTree {
    pub(crate) fn new() -> Self {
        Self(vec![EMPTY; 2 * TWIG_LEAVES].into_boxed_slice())
    }

    pub(crate) const fn root(&self) -> &Hash {
        &self.0[1]
    }

    /// The first leaves.
    pub(crate) fn leaves(&self, count: usize) -> &[Hash] {
        &self.0[TWIG_LEAVES..TWIG_LEAVES + count]
    }

    /// Appends leaves from `place` on, and hashes what lies above them.
    ///
    /// # Panics
    /// If they do not fit.
    pub(crate) fn extend<'l>(&mut self, hash: HashFn, place: usize, leaves: impl IntoIterator<Item = &'l [Hash]>) {
        let mut end = TWIG_LEAVES + place;
        for leaves in leaves {
            self.0[end..][..leaves.len()].copy_from_slice(leaves);
            end += leaves.len();
        }
        if end == TWIG_LEAVES + place {
            return;
        }
        let (mut first, mut last) = (TWIG_LEAVES + place, end - 1);
        for level in 1..=LEFT_LEVELS as u8 {
            (first, last) = (first / 2, last / 2);
            let (parents, children) = self.0.split_at_mut(last + 1);
            // Children of first..=last begin at 2 first, which is behind `last` on every level but the root's pair.
            let skip = 2 * first - (last + 1);
            hash.nodes(level, &children[skip..skip + 2 * (last - first + 1)], &mut parents[first..=last]);
        }
    }

    /// The digest at `level` (leaves are 0) and `index` within the twig.
    pub(crate) const fn node(&self, level: u8, index: usize) -> &Hash {
        &self.0[(TWIG_LEAVES >> level) + index]
    }
}

/// Leaves as those who hashed them have left them: together they are large, and nobody needs them in one piece.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    pieces: Vec<Vec<Hash>>,
    /// Where each piece begins.
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

    /// Those from `from` up to `to`, piece by piece.
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

/// What appending leaves made of one twig.
#[derive(Debug)]
pub(crate) struct Grown {
    pub(crate) left: Hash,
    /// The tree behind `left`: always there for a twig that still grows.
    pub(crate) tree: Option<TwigTree>,
}

/// Appends `leaves` at position `next_sn`, twigs in parallel. Element 0 is the twig of `next_sn`, whose tree so far is
/// `young`. Trees of full twigs are returned if `keep`.
pub(crate) fn grow(hash: HashFn, young: Option<&TwigTree>, next_sn: u64, leaves: &Leaves, keep: bool) -> Vec<Grown> {
    let begun = place_of(next_sn);
    let twigs = if leaves.len() == 0 { 0 } else { (begun + leaves.len()).div_ceil(TWIG_LEAVES) };
    par::map_range(twigs, leaves.len() / twigs.max(1) * 60, |twig| {
        let from = (twig * TWIG_LEAVES).saturating_sub(begun);
        let to = ((twig + 1) * TWIG_LEAVES - begun).min(leaves.len());
        let place = if twig == 0 { begun } else { 0 };
        let mut tree = young.filter(|_| twig == 0 && begun > 0).cloned().unwrap_or_else(TwigTree::new);
        tree.extend(hash, place, leaves.range(from, to));
        let full = place + to - from == TWIG_LEAVES;
        Grown { left: *tree.root(), tree: (keep || !full).then_some(tree) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_bit_is_the_next_set_bit() {
        let mut bitmap = [0; BITMAP_BYTES];
        let set = [0, 1, 63, 64, 700, 2047];
        set.iter().for_each(|place| set_bit(&mut bitmap, *place));
        for from in 0..TWIG_LEAVES {
            assert_eq!(next_bit(&bitmap, from), set.iter().copied().find(|place| *place >= from), "from {from}");
        }
        assert_eq!(next_bit(&[0; BITMAP_BYTES], 5), None);
    }

    /// In pieces of many lengths, some of them empty.
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
            let grown = grow(hash, young.as_ref(), done as u64, &pieces(&leaves[done..done + step]), true);
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
}
