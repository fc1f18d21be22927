//! The shape of the tree, which follows from [`Shape`] alone.

/// Number of positions in a twig.
pub const TWIG_LEAVES: usize = 2048;

/// Levels of nodes between a leaf and the root of its twig's left tree.
pub const LEFT_LEVELS: usize = 11;

/// Length of a twig's active bits, in bytes.
pub const BITMAP_BYTES: usize = TWIG_LEAVES / 8;

/// Level of a twig's digest: leaves are level 0, left trees end at level 11.
pub const TWIG_LEVEL: u8 = LEFT_LEVELS as u8 + 1;

const _: () = assert!(1 << LEFT_LEVELS == TWIG_LEAVES);

/// Levels of nodes above `twigs` twigs: the least `n` with `2^n >= twigs`.
#[inline]
pub const fn upper_levels(twigs: u64) -> usize {
    (64 - twigs.saturating_sub(1).leading_zeros()) as usize
}

/// Shift of a level: the positions below a node are `index << shift` to `(index + 1) << shift`.
#[inline]
pub(crate) const fn shift(level: u8) -> u8 {
    if level < TWIG_LEVEL { level } else { level - 1 }
}

/// Shape of a log, which a root binds besides the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Number of positions ever used.
    pub next_sn: u64,
    /// Position below which none is active. Twigs wholly below it are empty.
    pub floor: u64,
    /// Number of active positions, sentinels included.
    pub active: u64,
}

impl Shape {
    /// Number of twigs ever begun.
    #[inline]
    pub const fn twigs(&self) -> u64 {
        self.next_sn.div_ceil(TWIG_LEAVES as u64)
    }

    /// Lowest twig that is not empty.
    #[inline]
    pub const fn first_twig(&self) -> u64 {
        self.floor / TWIG_LEAVES as u64
    }

    /// Level of the digest above all twigs.
    #[inline]
    pub const fn top_level(&self) -> u8 {
        TWIG_LEVEL + upper_levels(self.twigs()) as u8
    }

    /// Returns true if the node at `level` and `index` is empty: nothing was written below it yet, or all of it lies in
    /// twigs below the floor. Indices below [`TWIG_LEVEL`] count nodes of the whole log.
    #[inline]
    pub const fn is_empty(&self, level: u8, index: u64) -> bool {
        let shift = shift(level);
        let begin = (index as u128) << shift;
        let end = begin + (1 << shift);
        let first = self.first_twig() as u128 * TWIG_LEAVES as u128;
        begin >= self.next_sn as u128 || end <= first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_levels_is_the_rounded_up_logarithm() {
        for (twigs, levels) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1 << 20, 20), ((1 << 20) + 1, 21)] {
            assert_eq!(upper_levels(twigs), levels, "{twigs} twigs");
        }
        assert_eq!(upper_levels(u64::MAX), 64);
    }

    #[test]
    fn a_node_is_empty_exactly_when_no_twig_in_use_is_below_it() {
        for (floor, next_sn) in [(0, 1u64), (0, 2048), (2047, 2049), (2048, 2049), (5000, 9000), (8191, 8193)] {
            let shape = Shape { next_sn, floor, active: 0 };
            for level in 0..=shape.top_level() {
                for index in 0..20u64 {
                    let positions = index << shift(level)..(index + 1) << shift(level);
                    let used = positions.into_iter().any(|sn| sn < next_sn && sn / 2048 >= floor / 2048);
                    assert_eq!(shape.is_empty(level, index), !used, "{shape:?} level {level} index {index}");
                }
            }
        }
        let huge = Shape { next_sn: u64::MAX, floor: u64::MAX - 1, active: 0 };
        assert!(!huge.is_empty(huge.top_level(), 0));
    }
}
