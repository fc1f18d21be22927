//! ParaBloom (FAFO, section 2.4): 64 pairs of Bloom filters, stored bit by bit instead of filter by filter.

use crate::slot::Slot;
use core::fmt;
use phalanx_access::Access;

/// Number of bits of a filter. 64 frames × 2 filters × 2048 bits are 32 KiB, one L1 data cache.
pub const BITS: usize = 2048;

/// Number of hash functions per key: consecutive 11-bit slices of its digest.
///
/// Each further one costs a sixth of the throughput, and a false positive costs almost nothing: the transaction goes to the
/// next frame, which fills instead. Under a uniform load of two keys each, 2, 3 and 4 gave 78, 64 and 54 million transactions
/// per second, and 126.3, 126.8 and 126.7 transactions per frame.
pub const HASHES: usize = 2;

/// Number of bits of a frame's third filter, which holds only senders and has one hash function.
const SENDER_BITS: usize = 1024;

/// Digest bits that decide the place of a key.
type Probe = u32;

const INDEX_BITS: u32 = BITS.trailing_zeros();
const SENDER_SHIFT: u32 = HASHES as u32 * INDEX_BITS;
const _: () = assert!(BITS.is_power_of_two() && SENDER_BITS.is_power_of_two());
const _: () = assert!(SENDER_SHIFT + SENDER_BITS.trailing_zeros() <= Probe::BITS);

/// Frames in which a key was seen, or may have been: a bit per frame, never a false negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Seen {
    /// Frames with a member that reads or writes the key (filter A).
    pub observed: u64,
    /// Frames with a member that credits or writes the key (filter B).
    pub changed: u64,
}

impl Seen {
    /// Returns the frames in which a new access of the key conflicts with a member, by [`Access::conflicts`].
    ///
    /// A read conflicts with changes of the key, a credit with observations, a write with both: the filter to test is the
    /// *other* bit of the two-bit access lattice.
    #[inline]
    pub const fn conflicts(self, access: Access) -> u64 {
        (self.changed & spread(access, Access::Read)) | (self.observed & spread(access, Access::Credit))
    }
}

/// Returns all ones if `access` includes `part`, else zero.
#[inline]
const fn spread(access: Access, part: Access) -> u64 {
    0u64.wrapping_sub((access as u8 & part as u8 != 0) as u64)
}

/// Approximate access sets of 64 frames.
///
/// Word *i* holds bit *i* of every frame's filter, and the words of the two filters lie side by side. So a key costs
/// [`HASHES`] loads of 16 bytes and yields its conflicts with all frames at once. A sweep clears any number of frames at once.
/// Lists of keys, to clear them one by one, took more of the caches than the filters, and a fifth of the time.
///
/// To place a sender behind its earlier transactions costs more than a conflict. And a frame that only pays an account must not
/// count as a frame that holds its nonce. So a small third filter holds the senders alone: 8 KiB that make false positives
/// eight times rarer.
pub struct ParaBloom {
    words: Box<[Seen; BITS]>,
    senders: Box<[u64; SENDER_BITS]>,
}

impl ParaBloom {
    /// Creates the filters of 64 empty frames.
    pub fn new() -> Self {
        Self { words: Box::new([Seen::default(); BITS]), senders: Box::new([0; SENDER_BITS]) }
    }

    /// Returns the frames in which the key with this digest was seen. O([`HASHES`]).
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

    /// Returns the frames that hold a transaction of the sender with this digest. `seen` is the result of [`Self::seen`].
    #[inline]
    pub fn pending(&self, sender: u64, seen: Seen) -> u64 {
        seen.observed & seen.changed & self.senders[sender_index(sender as Probe)]
    }

    /// Adds an access of the key with this digest to a frame, and returns true if it set a bit. O([`HASHES`]).
    ///
    /// A key that sets no bit does not fill the filters, so many members that read one contract's code count once.
    #[inline]
    pub fn insert(&mut self, slot: Slot, digest: u64, access: Access) -> bool {
        self.mark(digest, slot.bit() & spread(access, Access::Read), slot.bit() & spread(access, Access::Credit)) != 0
    }

    /// Adds a sender to a frame: a write of the key that carries its nonce, and an entry for [`Self::pending`]. Returns true if
    /// the write set a bit.
    #[inline]
    pub fn insert_sender(&mut self, slot: Slot, digest: u64) -> bool {
        self.senders[sender_index(digest as Probe)] |= slot.bit();
        self.mark(digest, slot.bit(), slot.bit()) != 0
    }

    /// Sets a key's bits and returns the bits that were not set.
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

    /// Empties the filters of a set of frames. O([`BITS`]), for any number of frames.
    pub fn clear(&mut self, frames: u64) {
        for word in self.words.iter_mut() {
            word.observed &= !frames;
            word.changed &= !frames;
        }
        for word in self.senders.iter_mut() {
            *word &= !frames;
        }
    }
}

/// Indices of a key's bits.
#[inline]
fn indices(probe: Probe) -> [usize; HASHES] {
    core::array::from_fn(|i| (probe >> (i as u32 * INDEX_BITS)) as usize % BITS)
}

/// Index of a sender's bit, from digest bits that [`indices`] does not use.
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
        let bits: u32 = self.words.iter().map(|word| word.observed.count_ones() + word.changed.count_ones()).sum();
        f.debug_struct("ParaBloom").field("bits", &bits).finish_non_exhaustive()
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
    fn clearing_frames_leaves_the_others() {
        let mut bloom = ParaBloom::new();
        for key in 0..200 {
            bloom.insert(Slot::new(3), digest(key), Write);
            bloom.insert_sender(Slot::new(4), digest(key));
            bloom.insert(Slot::new(9), digest(key), Credit);
        }
        bloom.clear(Slot::new(3).bit() | Slot::new(4).bit());
        for key in 0..200 {
            assert_eq!(bloom.seen(digest(key)), Seen { observed: 0, changed: Slot::new(9).bit() });
        }
        bloom.clear(Slot::new(9).bit());
        assert!(bloom.words.iter().all(|word| *word == Seen::default()));
        assert!(bloom.senders.iter().all(|word| *word == 0));
    }

    #[test]
    fn an_access_that_widens_a_known_key_sets_a_bit() {
        let mut bloom = ParaBloom::new();
        let fresh = [Read, Read, Credit, Write].map(|access| bloom.insert(Slot::new(0), digest(1), access));
        assert_eq!(fresh, [true, false, true, false]);
        assert!(!bloom.insert_sender(Slot::new(0), digest(1)) && bloom.insert_sender(Slot::new(1), digest(1)));
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
        bloom.clear(slot.bit());
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
