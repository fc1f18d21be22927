//! Silence of a replica that has lost its log, or that may have: it learns what is decided, and votes again once nothing that it may have
//! said matters.
//!
//! Old votes are bounded by what the others know. After its start the replica requests the reach of the votes of n-f others:
//!
//! - **Slots.** It has voted up to one window above its stable checkpoint, which a quorum had signed. So one of the correct replicas that
//!   answer had executed it, and that one's window reaches at least as far. Every slot of an old vote is at most one window above the
//!   highest answer. It stays silent until a checkpoint above all these is stable: a VIEW-CHANGE of its own then names that checkpoint.
//! - **Views.** A correct replica enters or leaves for a view only if n-f replicas have left for the one before, or a correct one has gone
//!   ahead. So one of the correct replicas that answer was at least in the view before its own. It leaves for the second view above the
//!   highest answer, and votes in no lower one. Where every slot has views of its own, the slots suffice.
//!
//! Any n-f others will do, so that the lowest answers count, and a liar cannot hold it back. Until then it is one of the f faults: if more
//! replicas lose their logs at once, none of these answers, and they stay silent.

use phalanx_bft::{Index, Reach, Slot, View};
use std::collections::BTreeMap;

/// Silence of a replica.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// First answer of each replica to a question of this start.
    answers: BTreeMap<Index, Reach>,
}

impl Silence {
    /// Notes an answer.
    pub(crate) fn note(&mut self, from: Index, reach: Reach) {
        self.answers.entry(from).or_insert(reach);
    }

    /// The view to leave for, and the slot that the stable checkpoint has to reach, once `needed` others have answered. `window` is that of
    /// the slots in flight.
    pub(crate) fn bounds(&self, needed: usize, window: Slot) -> Option<(View, Slot)> {
        let lowest = |of: fn(&Reach) -> u64| {
            let mut values: Vec<u64> = self.answers.values().map(of).collect();
            values.sort_unstable();
            values.get(needed.saturating_sub(1)).copied()
        };
        let (view, last) = (lowest(|reach| reach.view)?, lowest(|reach| reach.last)?);
        Some((view.saturating_add(2), last.saturating_add(window)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_answers_of_enough_others_count() {
        let mut silence = Silence::default();
        for (from, view, last) in [(0, 5, 40), (1, 3, 90)] {
            silence.note(Index(from), Reach { view, stable: 0, last });
            assert_eq!(silence.bounds(3, 8), None, "fewer than n-f have answered");
        }
        silence.note(Index(2), Reach { view: 4, stable: 0, last: 50 });
        assert_eq!(silence.bounds(3, 8), Some((7, 98)), "the second view above, a window above");
        // A first answer stays: a later one is none to the question of this start.
        silence.note(Index(1), Reach { view: 0, stable: 0, last: 0 });
        assert_eq!(silence.bounds(3, 8), Some((7, 98)));
        silence.note(Index(3), Reach { view: u64::MAX, stable: 0, last: u64::MAX });
        assert_eq!(silence.bounds(3, 8), Some((7, 98)), "a liar holds no replica back");
        assert_eq!(silence.bounds(4, 8), Some((u64::MAX, u64::MAX)));
    }
}
