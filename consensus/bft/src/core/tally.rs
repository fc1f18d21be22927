//! Counting votes in bounded memory.

use super::{
    protocol::View,
    replica::{Index, ReplicaSet},
};
use alloy_primitives::B256;

/// Votes of one kind for one slot: at most one per replica, that of the highest view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// An entry per value voted for, in ascending order, so that equal votes give equal tallies.
    entries: Vec<(View, B256, ReplicaSet)>,
}

impl Tally {
    /// Counts a vote. Returns true if it is new: a second vote in a view, or one of an older view, changes nothing.
    pub fn add(&mut self, from: Index, view: View, digest: B256) -> bool {
        if let Some(at) = self.entries.iter().position(|(_, _, voters)| voters.contains(from)) {
            if self.entries[at].0 >= view {
                return false;
            }
            self.entries[at].2.remove(from);
            if self.entries[at].2.is_empty() {
                self.entries.remove(at);
            }
        }
        match self.entries.binary_search_by(|(v, d, _)| (*v, *d).cmp(&(view, digest))) {
            Ok(at) => self.entries[at].2.insert(from),
            Err(at) => {
                let mut voters = ReplicaSet::default();
                let new = voters.insert(from);
                if new {
                    self.entries.insert(at, (view, digest, voters));
                }
                new
            }
        }
    }

    /// Number of votes for `digest` in `view`.
    #[must_use]
    pub fn count(&self, view: View, digest: B256) -> usize {
        self.entries.iter().find(|(v, d, _)| *v == view && *d == digest).map_or(0, |(_, _, voters)| voters.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_has_one_vote_and_a_newer_view_moves_it() {
        let (a, b) = (B256::with_last_byte(1), B256::with_last_byte(2));
        let mut tally = Tally::default();
        assert!(tally.add(Index(1), 0, a));
        assert!(!tally.add(Index(1), 0, a), "counted twice");
        assert!(!tally.add(Index(1), 0, b), "a second vote in the view");
        assert!(tally.add(Index(2), 0, a));
        assert_eq!((tally.count(0, a), tally.count(0, b)), (2, 0));
        assert!(tally.add(Index(1), 3, b));
        assert!(!tally.add(Index(1), 2, a), "an older view");
        assert_eq!((tally.count(0, a), tally.count(3, b)), (1, 1));
    }

    #[test]
    fn memory_is_bounded_by_the_number_of_replicas() {
        let mut tally = Tally::default();
        for view in 0..1000 {
            for index in 0..7 {
                tally.add(Index(index), view, B256::with_last_byte(view as u8 ^ index as u8));
            }
        }
        assert!(tally.entries.len() <= 7);
    }
}
