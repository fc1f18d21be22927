//! Finds slots in a long sorted list. Slots of mappings are hashes, so few share their first bits.

use alloy_primitives::U256;
use core::ops::Range;

/// Minimum length of a list with a directory; shorter ones are searched directly.
const MIN_SLOTS: usize = 32;

/// Begin of each group of slots that share their first bits: as many groups as there are slots, or fewer.
#[derive(Debug, Default)]
pub(super) struct Directory {
    bits: u32,
    /// Begins of the groups, with a final end; empty for a short list.
    starts: Box<[u32]>,
}

impl Directory {
    /// Builds the directory of sorted slots, fewer than 2^32. O(slots).
    pub(super) fn new<'s>(slots: impl ExactSizeIterator<Item = &'s U256>) -> Self {
        if slots.len() < MIN_SLOTS {
            return Self::default();
        }
        let (bits, len) = (slots.len().ilog2(), slots.len() as u32);
        let mut starts = Vec::with_capacity((1 << bits) + 1);
        for (place, slot) in (0..).zip(slots) {
            let group = group(slot, bits);
            while starts.len() <= group {
                starts.push(place);
            }
        }
        starts.resize((1 << bits) + 1, len);
        Self { bits, starts: starts.into() }
    }

    /// True if the list is too short for a directory.
    pub(super) const fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Range of `slot` among `len` slots.
    #[inline]
    pub(super) fn range(&self, slot: &U256, len: usize) -> Range<usize> {
        if self.is_empty() {
            return 0..len;
        }
        let group = group(slot, self.bits);
        self.starts[group] as usize..self.starts[group + 1] as usize
    }
}

#[inline]
const fn group(slot: &U256, bits: u32) -> usize {
    (slot.as_limbs()[3] >> (u64::BITS - bits)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn every_slot_is_where_it_says() {
        let hashed = |count: u64| (0..count).map(|n| U256::from_be_bytes(keccak256(n.to_be_bytes()).0));
        let low = |count: u64| (0..count).map(U256::from);
        let ends = [U256::ZERO, U256::MAX];
        for count in [0, 1, 31, 32, 33, 1000] {
            for mut slots in [
                hashed(count).collect::<Vec<_>>(),
                low(count).collect(),
                hashed(count).chain(low(count)).chain(ends).collect(),
            ] {
                slots.sort_unstable();
                slots.dedup();
                let directory = Directory::new(slots.iter());
                assert_eq!(directory.is_empty(), slots.len() < MIN_SLOTS);
                for (place, slot) in slots.iter().enumerate() {
                    assert!(directory.range(slot, slots.len()).contains(&place));
                }
                for other in hashed(2000).skip(1000).chain(ends) {
                    let range = directory.range(&other, slots.len());
                    assert!(range.end <= slots.len());
                    let found = slots[range].binary_search(&other).is_ok();
                    assert_eq!(found, slots.binary_search(&other).is_ok());
                }
            }
        }
    }
}
