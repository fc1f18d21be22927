//! ParaBloom (FAFO, section 2.4): 64 pairs of Bloom filters, stored bit by bit instead of filter by filter.

use core::fmt;

use crate::slot::{FRAMES, Slot};
use phalanx_access::Access;

/// Bits of one filter. 64 frames × 2 filters × 2048 bits are 32 KiB, one L1 data cache.
pub const BITS: usize = 2048;

/// Hash functions per key, consecutive 11-bit slices of its digest.
///
/// Two, because each further one costs an eighth of the throughput or more and a false positive costs almost nothing:
/// the transaction goes to the next frame, which fills instead. Under a uniform load of two keys each, k = 2, 3, 4, 5
/// gave 64, 52, 45, 40 million transactions per second and 126.3, 126.8, 126.7, 126.6 transactions per frame.
pub const HASHES: usize = 2;

/// Bits of a frame's third filter, which holds only senders and has a single hash function.
const SENDER_BITS: usize = 1024;

/// The digest bits that decide where a key lies, kept to clear them again.
type Probe = u32;

const INDEX_BITS: u32 = BITS.trailing_zeros();
const SENDER_SHIFT: u32 = HASHES as u32 * INDEX_BITS;
const _: () = assert!(BITS.is_power_of_two() && SENDER_BITS.is_power_of_two());
const _: () = assert!(SENDER_SHIFT + SENDER_BITS.trailing_zeros() <= Probe::BITS);

/// In which frames a key was seen, or may have been: one bit per frame, never a false negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Seen {
    /// Frames with a member that reads or writes the key (filter A).
    pub observed: u64,
    /// Frames with a member that credits or writes the key (filter B).
    pub changed: u64,
}

impl Seen {
    /// The frames in which a new access of the key conflicts with a member.
    ///
    /// A read conflicts with what changes the key, a credit with what observes it, a write with both: the filter to
    /// test is the *other* bit of the two-bit access lattice.
    #[inline]
    pub const fn conflicts(self, access: Access) -> u64 {
        (self.changed & spread(access, Access::Read)) | (self.observed & spread(access, Access::Credit))
    }
}

/// All ones if `access` includes `part`, else zero.
#[inline]
const fn spread(access: Access, part: Access) -> u64 {
    0u64.wrapping_sub((access as u8 & part as u8 != 0) as u64)
}

/// The approximate access sets of 64 frames.
///
/// Word *i* holds bit *i* of every frame's filter, and the words of the two filters lie side by side, so one key costs
/// [`HASHES`] loads of 16 bytes and yields its conflicts with all frames at once. Every frame remembers what was
/// inserted, so clearing it costs time in proportion to its keys instead of a sweep of all 4096 words.
///
/// Placing a sender behind its earlier transactions is dearer than a conflict, and a frame that only pays an account
/// must not count as one that holds its nonce. So a small third filter holds the senders alone: 8 KiB that make false
/// alarms eight times rarer.
pub struct ParaBloom {
    words: Box<[Seen; BITS]>,
    senders: Box<[u64; SENDER_BITS]>,
    held: Box<[Vec<Probe>; FRAMES]>,
}

impl ParaBloom {
    /// Filters of 64 empty frames.
    pub fn new() -> Self {
        Self {
            words: Box::new([Seen::default(); BITS]),
            senders: Box::new([0; SENDER_BITS]),
            held: Box::new([const { Vec::new() }; FRAMES]),
        }
    }

    /// In which frames the key with this digest was seen. O([`HASHES`]).
    #[inline]
    pub fn seen(&self, digest: u64) -> Seen {
        let mut seen = Seen { observed: u64::MAX, changed: u64::MAX };
        for index in indices(digest as Probe) {
            let word = self.words[index];
            seen.observed &= word.observed;
            seen.changed &= word.changed;
        }
        seen
    }

    /// The frames that hold a transaction of the sender with this digest, given what [`Self::seen`] said of it.
    #[inline]
    pub fn pending(&self, sender: u64, seen: Seen) -> u64 {
        seen.observed & seen.changed & self.senders[sender_index(sender as Probe)]
    }

    /// Adds an access of the key with this digest to a frame. O([`HASHES`]).
    #[inline]
    pub fn insert(&mut self, slot: Slot, digest: u64, access: Access) {
        let observed = slot.bit() & spread(access, Access::Read);
        let changed = slot.bit() & spread(access, Access::Credit);
        if self.mark(digest, observed, changed) != 0 {
            self.held[slot.index()].push(digest as Probe);
        }
    }

    /// Adds a sender to a frame: a write of the key that carries its nonce, and known to [`Self::pending`].
    #[inline]
    pub fn insert_sender(&mut self, slot: Slot, digest: u64) {
        let word = &mut self.senders[sender_index(digest as Probe)];
        let fresh = slot.bit() & !*word;
        *word |= slot.bit();
        if self.mark(digest, slot.bit(), slot.bit()) | fresh != 0 {
            self.held[slot.index()].push(digest as Probe);
        }
    }

    /// Sets a key's bits and returns those that were not set. A key that sets none neither fills the filters further nor
    /// needs clearing: many members that read one contract's code count once.
    #[inline]
    fn mark(&mut self, digest: u64, observed: u64, changed: u64) -> u64 {
        let mut fresh = 0;
        for index in indices(digest as Probe) {
            let word = &mut self.words[index];
            fresh |= (observed & !word.observed) | (changed & !word.changed);
            word.observed |= observed;
            word.changed |= changed;
        }
        fresh
    }

    /// How many distinct accesses a frame holds, less the few whose bits were all set before.
    #[inline]
    pub const fn keys(&self, slot: Slot) -> usize {
        self.held[slot.index()].len()
    }

    /// Empties a frame's filters. O(keys of the frame).
    pub fn clear(&mut self, slot: Slot) {
        let others = !slot.bit();
        for probe in self.held[slot.index()].drain(..) {
            for index in indices(probe) {
                let word = &mut self.words[index];
                word.observed &= others;
                word.changed &= others;
            }
            self.senders[sender_index(probe)] &= others;
        }
    }
}

/// Where a key's bits lie.
#[inline]
fn indices(probe: Probe) -> [usize; HASHES] {
    core::array::from_fn(|i| (probe >> (i as u32 * INDEX_BITS)) as usize % BITS)
}

/// Where a sender's bit lies, in digest bits that [`indices`] does not use.
#[inline]
const fn sender_index(probe: Probe) -> usize {
    (probe >> SENDER_SHIFT) as usize % SENDER_BITS
}

impl Default for ParaBloom {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ParaBloom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.held.iter().map(Vec::len).collect();
        f.debug_struct("ParaBloom").field("keys", &keys).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Credit, Read, Write};
    use phalanx_access::{Key, Salt};

    fn digest(key: u64) -> u64 {
        key.digest(&Salt::new(1))
    }

    #[test]
    fn conflicts_follow_the_one_conflict_rule() {
        for held in [Read, Credit, Write] {
            for new in [Read, Credit, Write] {
                let mut bloom = ParaBloom::new();
                bloom.insert(Slot::new(5), digest(1), held);
                let expected = if held.conflicts(new) { Slot::new(5).bit() } else { 0 };
                assert_eq!(bloom.seen(digest(1)).conflicts(new), expected, "{held:?} then {new:?}");
            }
        }
    }

    #[test]
    fn clearing_one_frame_leaves_the_others() {
        let mut bloom = ParaBloom::new();
        for key in 0..200 {
            bloom.insert(Slot::new(3), digest(key), Write);
            bloom.insert(Slot::new(9), digest(key), Credit);
        }
        assert!(bloom.keys(Slot::new(3)) > 150);
        bloom.clear(Slot::new(3));
        assert_eq!(bloom.keys(Slot::new(3)), 0);
        for key in 0..200 {
            assert_eq!(bloom.seen(digest(key)), Seen { observed: 0, changed: Slot::new(9).bit() });
        }
        bloom.clear(Slot::new(9));
        assert!(bloom.words.iter().all(|word| *word == Seen::default()));
    }

    #[test]
    fn an_access_that_widens_a_held_key_is_cleared_too() {
        let mut bloom = ParaBloom::new();
        for access in [Read, Read, Credit, Write] {
            bloom.insert(Slot::new(0), digest(1), access);
        }
        assert_eq!(bloom.keys(Slot::new(0)), 2);
        bloom.clear(Slot::new(0));
        assert!(bloom.words.iter().all(|word| *word == Seen::default()));
    }

    #[test]
    fn only_a_sender_is_pending() {
        let mut bloom = ParaBloom::new();
        let slot = Slot::new(8);
        bloom.insert(slot, digest(1), Write);
        assert_eq!(bloom.pending(digest(1), bloom.seen(digest(1))), 0);
        bloom.insert_sender(slot, digest(1));
        assert_eq!(bloom.pending(digest(1), bloom.seen(digest(1))), slot.bit());
        assert_eq!(bloom.seen(digest(1)).conflicts(Read), slot.bit());
        bloom.clear(slot);
        assert!(bloom.senders.iter().all(|word| *word == 0));
    }

    #[test]
    fn false_positives_stay_within_the_design_load() {
        let mut bloom = ParaBloom::new();
        for key in 0..256 {
            bloom.insert(Slot::new(0), digest(key), Write);
        }
        let hits = (1_000..101_000).filter(|key| bloom.seen(digest(*key)).observed != 0).count();
        // (1 - e^(-2 · 256 / 2048))^2 = 4.9 % for a frame at its limit, about a third of that over its life.
        assert!((3_500..6_500).contains(&hits), "{hits} of 100,000");
    }
}
