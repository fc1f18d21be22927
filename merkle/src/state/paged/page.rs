//! Slots of an index: five bytes of a key's hash and five of its position, in pages by key order.

use std::{iter::repeat_n, sync::Arc};

/// Maximum number of keys in a page before it is split.
pub(super) const PAGE: usize = 512;

/// Five bytes of a key's hash and the low five bytes of its position.
pub(crate) type Slot = [u8; 10];

/// First five bytes of a key's hash. Keys are ordered by it; keys that share it are in no order.
pub(crate) type Frag = u64;

/// Bits of a fragment.
pub(super) const FRAG_BITS: u32 = 40;

/// Bits of a fragment behind those that name its group.
pub(super) const REST_BITS: u32 = 28;

/// Number of groups.
pub(super) const GROUPS: usize = 1 << (FRAG_BITS - REST_BITS);

/// Fragment of a prefix.
#[inline]
pub(crate) const fn frag(prefix: u64) -> Frag {
    prefix >> (64 - FRAG_BITS)
}

/// Slots of a range of fragments.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// Lowest fragment of the range, without its group.
    pub(super) bound: u32,
    /// Number of slots; the other cells are spare.
    pub(super) len: u32,
    pub(super) cells: Arc<[Slot]>,
}

impl Page {
    pub(super) fn new(bound: u32, slots: &[Slot]) -> Self {
        Self { bound, len: slots.len() as u32, cells: slots.into() }
    }

    #[inline]
    pub(super) fn slots(&self) -> &[Slot] {
        &self.cells[..self.len as usize]
    }

    pub(super) fn insert(&mut self, at: usize, slot: Slot) {
        let len = self.len as usize;
        if len == self.cells.len() {
            // In small steps: spare memory counts per key.
            self.cells = self.cells.iter().copied().chain(repeat_n([0; 10], len / 32 + 4)).collect();
        }
        let cells = Arc::make_mut(&mut self.cells);
        cells.copy_within(at..len, at + 1);
        cells[at] = slot;
        self.len += 1;
    }

    pub(super) fn set(&mut self, at: usize, slot: Slot) {
        Arc::make_mut(&mut self.cells)[at] = slot;
    }

    pub(super) fn remove(&mut self, at: usize) {
        Arc::make_mut(&mut self.cells).copy_within(at + 1..self.len as usize, at);
        self.len -= 1;
    }

    /// Splits the page in the middle; `None` if its slots share a fragment.
    pub(super) fn split(&mut self) -> Option<Self> {
        let slots = self.slots();
        let middle = frag_of(&slots[slots.len() / 2]);
        // Slots that share a fragment stay together, however many an adversary found.
        let (lower, upper) = slots.split_at(slots.partition_point(|slot| frag_of(slot) < middle));
        if lower.is_empty() {
            return None;
        }
        let upper = Self::new(rest(middle), upper);
        *self = Self::new(self.bound, lower);
        Some(upper)
    }
}

/// Index of a fragment's group.
#[inline]
pub(super) const fn group(frag: Frag) -> usize {
    (frag >> REST_BITS) as usize
}

/// Bits of a fragment behind those of its group.
#[inline]
pub(super) const fn rest(frag: Frag) -> u32 {
    (frag & ((1 << REST_BITS) - 1)) as u32
}

#[inline]
pub(super) const fn frag_of(slot: &Slot) -> Frag {
    let [a, b, c, d, e, ..] = *slot;
    u64::from_be_bytes([0, 0, 0, a, b, c, d, e])
}

#[inline]
const fn low(word: u64) -> [u8; 5] {
    let [_, _, _, a, b, c, d, e] = word.to_be_bytes();
    [a, b, c, d, e]
}

#[inline]
pub(super) const fn slot(frag: Frag, sn: u64) -> Slot {
    let ([a, b, c, d, e], [f, g, h, i, j]) = (low(frag), low(sn));
    [a, b, c, d, e, f, g, h, i, j]
}

/// Slot of a key, given the prefix of its hash and its position.
pub(crate) const fn slot_of(prefix: u64, sn: u64) -> Slot {
    slot(frag(prefix), sn)
}

/// Number of items for which `is_below` holds, which are the first ones of `len`; searched from a guess on in steps that double,
/// so that one or two lines are read of what lies outside the caches.
#[inline]
pub(super) fn count_below(len: usize, guess: usize, mut step: usize, is_below: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (0, len);
    let mut at = guess.min(to);
    if at < to && is_below(at) {
        from = at + 1;
        while from + step < to && is_below(from + step) {
            from += step + 1;
            step *= 2;
        }
        to = to.min(from + step);
    } else {
        to = at;
        while to > 0 {
            at = to.saturating_sub(step);
            if is_below(at) {
                from = at + 1;
                break;
            }
            to = at;
            step *= 2;
        }
    }
    while from < to {
        let middle = from.midpoint(to);
        if is_below(middle) { from = middle + 1 } else { to = middle }
    }
    from
}
