//! The shape of the tree follows from the number of positions alone; nothing about it is negotiable.

/// Positions in a twig.
pub const TWIG_LEAVES: usize = 2048;

/// Levels of nodes between a leaf and the root of its twig's left tree.
pub const LEFT_LEVELS: usize = 11;

/// Bytes of a twig's active bits.
pub const BITMAP_BYTES: usize = TWIG_LEAVES / 8;

/// The level of a twig's digest: leaves are level 0, left trees end at level 11.
pub const TWIG_LEVEL: u8 = LEFT_LEVELS as u8 + 1;

const _: () = assert!(1 << LEFT_LEVELS == TWIG_LEAVES);

/// Levels of nodes above `twigs` twigs: the least `n` with `2^n >= twigs`.
#[inline]
pub const fn upper_levels(twigs: u64) -> usize {
    (64 - twigs.saturating_sub(1).leading_zeros()) as usize
}

/// The siblings on the way from position `sn` to the top in a tree of `next_sn` positions, bottom up, as `(level of
/// the sibling, its index in that level)`; `None` where the sibling is empty and takes no part in a proof.
///
/// Indices below [`TWIG_LEVEL`] count nodes of the whole log, not of one twig.
pub fn siblings(sn: u64, next_sn: u64) -> impl Iterator<Item = (u8, bool, Option<u64>)> {
    let twigs = next_sn.div_ceil(TWIG_LEAVES as u64);
    let left = (0..LEFT_LEVELS).map(move |level| sibling(level as u8, sn >> level, (next_sn - 1) >> level));
    let (twig, last) = (sn / TWIG_LEAVES as u64, twigs.saturating_sub(1));
    let upper = (0..upper_levels(twigs)).map(move |up| sibling(TWIG_LEVEL + up as u8, twig >> up, last >> up));
    left.chain(upper)
}

/// `(level, whether the path comes from the right, sibling)`; the sibling is empty past the last node of its level.
const fn sibling(level: u8, index: u64, last: u64) -> (u8, bool, Option<u64>) {
    let other = index ^ 1;
    (level, index & 1 == 1, if other <= last { Some(other) } else { None })
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
    fn a_sibling_is_present_exactly_when_its_range_has_begun() {
        for next_sn in [1u64, 2, 3, 2047, 2048, 2049, 6000, 8192, 8193] {
            for sn in (0..next_sn).step_by(97) {
                for (level, _, other) in siblings(sn, next_sn) {
                    let shift = if level < TWIG_LEVEL { level } else { level - 1 };
                    let begins = ((sn >> shift) ^ 1) << shift;
                    assert_eq!(other.is_some(), begins < next_sn, "sn {sn} of {next_sn}, level {level}");
                }
            }
        }
    }
}
