//! A limit on complaints per signer: complaints carry certificates and cuts, and a faulty replica could fill memory with them.
//!
//! A correct replica complains about slots that are open, and a slot is open at it only while the one k before is undecided or
//! newly decided. So complaints about slots far below a replica's newest one are of no use any longer: what it misses there comes
//! with decisions. Views of a slot follow each other with doubling patience, which bounds their number per period.

use crate::core::{Index, Slot};
use std::collections::BTreeMap;

/// Complaints of one signer that are verified between two repetitions, for each slot in flight.
const MOST: u32 = 16;

/// Complaints of each replica.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    /// Slots up to the newest one of a signer whose complaints count.
    window: u64,
    signers: BTreeMap<Index, Signer>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Signer {
    newest: Slot,
    taken: u32,
}

impl Quota {
    /// No complaints yet, with k slots in flight.
    pub(super) const fn new(parallel: u64) -> Self {
        Self { window: 2 * parallel, signers: BTreeMap::new() }
    }

    /// Returns true if another complaint of the signer may be verified.
    pub(super) fn allows(&self, from: Index, slot: Slot) -> bool {
        self.signers.get(&from).is_none_or(|signer| {
            slot + self.window > signer.newest && u64::from(signer.taken) < u64::from(MOST) * self.window
        })
    }

    /// Notes a complaint. Returns the slots whose complaints of the signer count no longer.
    pub(super) fn note(&mut self, from: Index, slot: Slot) -> core::ops::RangeInclusive<Slot> {
        let signer = self.signers.entry(from).or_default();
        signer.taken = signer.taken.saturating_add(1);
        let before = signer.newest.saturating_sub(self.window);
        signer.newest = signer.newest.max(slot);
        before + 1..=signer.newest.saturating_sub(self.window)
    }

    /// Begins a period.
    pub(super) fn renew(&mut self) {
        self.signers.values_mut().for_each(|signer| signer.taken = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_count_near_the_newest_slot_and_up_to_a_number() {
        let mut quota = Quota::new(2);
        assert!(quota.allows(Index(1), 9));
        assert_eq!(quota.note(Index(1), 9), 1..=5);
        assert!(quota.allows(Index(1), 6) && !quota.allows(Index(1), 5), "2k slots up to the newest one");
        assert!(quota.note(Index(1), 7).is_empty(), "an older slot moves nothing");
        assert_eq!(quota.note(Index(1), 11), 6..=7);
        assert!(quota.allows(Index(2), 1), "each signer has its own");
        for _ in 0..61 {
            let _ = quota.note(Index(1), 11);
        }
        assert!(!quota.allows(Index(1), 11));
        quota.renew();
        assert!(quota.allows(Index(1), 11));
    }
}
