//! Places of frames, and sets of them in a machine word.

/// Number of frames that are open at a time: one per bit of a machine word. So a set of frames is a `u64`, and an operation on
/// all of them is one instruction.
pub const FRAMES: usize = 64;

/// Index of a frame's place, below [`FRAMES`], so that indexing by it needs no bounds check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u8);

impl Slot {
    /// Creates the slot with this index, modulo [`FRAMES`].
    #[inline]
    pub const fn new(index: u8) -> Self {
        Self(index % FRAMES as u8)
    }

    /// Returns the lowest slot of a set, or [`None`] if the set is empty.
    #[inline]
    pub const fn lowest(set: u64) -> Option<Self> {
        if set == 0 { None } else { Some(Self::new(set.trailing_zeros() as u8)) }
    }

    /// Returns the highest slot of a set, or [`None`] if the set is empty.
    #[inline]
    pub(crate) const fn highest(set: u64) -> Option<Self> {
        if set == 0 { None } else { Some(Self::new(set.ilog2() as u8)) }
    }

    /// The slot as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize % FRAMES
    }

    /// Set that holds this slot alone.
    #[inline]
    pub const fn bit(self) -> u64 {
        1 << (self.0 % FRAMES as u8)
    }
}

/// Iterates over the slots of a set, lowest first.
#[inline]
pub(crate) fn each(mut set: u64) -> impl Iterator<Item = Slot> {
    core::iter::from_fn(move || {
        let slot = Slot::lowest(set)?;
        set &= set - 1;
        Some(slot)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_lists_its_slots_in_order() {
        let listed: Vec<_> = each(1 << 63 | 0b1010).map(Slot::index).collect();
        assert_eq!(listed, [1, 3, 63]);
        assert_eq!(each(0).count(), 0);
        assert_eq!(each(u64::MAX).fold(0, |set, slot| set | slot.bit()), u64::MAX);
        assert_eq!(Slot::new(200).index(), 200 % 64);
    }
}
