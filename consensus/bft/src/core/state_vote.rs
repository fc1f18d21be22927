//! When votes on an executed state may be added up.
//!
//! A state vote may leave before the order is decided: it then leans on order votes. The prefix up to a slot is certain to be
//! decided as executed once a quorum has order-voted it **in one view**; votes that lean on different views promise nothing
//! together. So a certificate is a quorum of votes on one digest, each of which is final or early with one common view.

use super::{
    protocol::View,
    replica::{Index, Quorums},
};
use alloy_primitives::B256;
use std::collections::BTreeMap;

/// Basis of a state vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lean {
    /// The voter's order votes of this view are durable for every undecided slot up to the voted one.
    Early(View),
    /// The prefix up to the slot is decided at the voter.
    Final,
}

/// State votes of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateVotes {
    quorums: Quorums,
    /// The vote of each replica.
    votes: BTreeMap<Index, (B256, Lean)>,
    counts: BTreeMap<B256, Counts>,
}

/// Number of votes for one digest, by basis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    finals: usize,
    early: BTreeMap<View, usize>,
}

impl StateVotes {
    /// No votes yet.
    #[must_use]
    pub const fn new(quorums: Quorums) -> Self {
        Self { quorums, votes: BTreeMap::new(), counts: BTreeMap::new() }
    }

    /// Counts a vote, in O(log n). Returns true if it completes a certificate for `digest`.
    ///
    /// A replica has one digest per slot: votes of the same replica for others are ignored. A final vote replaces its early ones,
    /// an early one of a newer view replaces the older.
    pub fn add(&mut self, from: Index, digest: B256, lean: Lean) -> bool {
        if usize::from(from.0) >= self.quorums.n() {
            return false;
        }
        match self.votes.get(&from) {
            Some((known, _)) if *known != digest => return false,
            Some((_, known)) if *known >= lean => return false,
            _ => {}
        }
        let before = self.is_certified(digest);
        self.remove(from);
        self.votes.insert(from, (digest, lean));
        let counts = self.counts.entry(digest).or_default();
        match lean {
            Lean::Final => counts.finals += 1,
            Lean::Early(view) => *counts.early.entry(view).or_default() += 1,
        }
        !before && self.is_certified(digest)
    }

    /// Takes the vote of a replica away.
    pub fn remove(&mut self, from: Index) {
        let Some((digest, lean)) = self.votes.remove(&from) else { return };
        let counts = self.counts.entry(digest).or_default();
        match lean {
            Lean::Final => counts.finals -= 1,
            Lean::Early(view) => {
                let of_view = counts.early.entry(view).or_default();
                *of_view -= 1;
                if *of_view == 0 {
                    counts.early.remove(&view);
                }
            }
        }
        if counts.finals == 0 && counts.early.is_empty() {
            self.counts.remove(&digest);
        }
    }

    /// Returns true if no vote is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.votes.is_empty()
    }

    /// Returns true if a quorum has voted for `digest`, each vote final or early with one common view.
    #[must_use]
    pub fn is_certified(&self, digest: B256) -> bool {
        self.common_view(digest).is_some()
    }

    /// Replicas whose votes certify `digest` together: all final ones, and the early ones of one view.
    #[must_use]
    pub fn certifiers(&self, digest: B256) -> Option<Vec<Index>> {
        let view = self.common_view(digest)?;
        let counts = |lean: &Lean| *lean == Lean::Final || matches!(lean, Lean::Early(of) if Some(*of) == view);
        let voters = self.votes.iter().filter(|(_, (of, lean))| *of == digest && counts(lean));
        Some(voters.map(|(from, _)| *from).collect())
    }

    /// View of the early votes that complete a certificate, `Some(None)` if the final ones are enough.
    fn common_view(&self, digest: B256) -> Option<Option<View>> {
        let counts = self.counts.get(&digest)?;
        let missing = self.quorums.quorum().saturating_sub(counts.finals);
        if missing == 0 {
            return Some(None);
        }
        counts.early.iter().find(|(_, count)| **count >= missing).map(|(view, _)| Some(*view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: B256 = B256::with_last_byte(1);

    fn votes() -> StateVotes {
        StateVotes::new(Quorums::new(4, 1).unwrap())
    }

    #[test]
    fn early_votes_of_different_views_are_not_added_up() {
        let mut votes = votes();
        assert!(!votes.add(Index(0), D, Lean::Early(1)));
        assert!(!votes.add(Index(1), D, Lean::Early(3)));
        assert!(!votes.add(Index(2), D, Lean::Early(4)));
        assert!(!votes.is_certified(D));
        // Repeated for one view they are.
        assert!(!votes.add(Index(0), D, Lean::Early(4)));
        assert!(votes.add(Index(1), D, Lean::Early(4)));
    }

    #[test]
    fn final_votes_count_with_every_view() {
        let mut votes = votes();
        assert!(!votes.add(Index(0), D, Lean::Final));
        assert!(!votes.add(Index(1), D, Lean::Early(2)));
        assert!(votes.add(Index(2), D, Lean::Early(2)));
        assert!(!votes.add(Index(3), D, Lean::Final), "certified already");
    }

    #[test]
    fn a_replica_votes_for_one_digest() {
        let mut votes = votes();
        let other = B256::with_last_byte(2);
        for (index, digest) in [(0, D), (0, other), (1, other), (2, other), (9, other)] {
            assert!(!votes.add(Index(index), digest, Lean::Final));
        }
        assert!(!votes.is_certified(other));
    }
}
