//! When votes on an executed state may be added up.
//!
//! A state vote may leave before the order is decided: it then leans on order votes. The prefix up to a slot is certain to be
//! decided as executed once a quorum has order-voted it **in one view**; votes that lean on different views promise nothing
//! together. So a certificate is a quorum of votes on one digest, each of which is final or early with one common view.

use super::{
    protocol::View,
    replica::{Index, Quorums, ReplicaSet},
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
    votes: BTreeMap<B256, Votes>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Votes {
    finals: ReplicaSet,
    /// Newest early vote of each replica.
    early: BTreeMap<Index, View>,
}

impl StateVotes {
    /// No votes yet.
    #[must_use]
    pub const fn new(quorums: Quorums) -> Self {
        Self { quorums, votes: BTreeMap::new() }
    }

    /// Counts a vote. Returns true if it completes a certificate for `digest`.
    ///
    /// A replica has one digest per slot: votes of the same replica for others are ignored. A final vote replaces its early ones,
    /// an early one of a newer view replaces the older.
    pub fn add(&mut self, from: Index, digest: B256, lean: Lean) -> bool {
        let other =
            self.votes.iter().any(|(d, v)| *d != digest && (v.finals.contains(from) || v.early.contains_key(&from)));
        if other || usize::from(from.0) >= self.quorums.n() {
            return false;
        }
        let before = self.is_certified(digest);
        let votes = self.votes.entry(digest).or_default();
        match lean {
            Lean::Final => {
                votes.finals.insert(from);
                votes.early.remove(&from);
            }
            Lean::Early(view) if !votes.finals.contains(from) => {
                let newest = votes.early.entry(from).or_insert(view);
                *newest = view.max(*newest);
            }
            Lean::Early(_) => {}
        }
        !before && self.is_certified(digest)
    }

    /// Returns true if a quorum has voted for `digest`, each vote final or early with one common view.
    #[must_use]
    pub fn is_certified(&self, digest: B256) -> bool {
        let Some(votes) = self.votes.get(&digest) else { return false };
        let finals = votes.finals.len();
        let of_view = |view| votes.early.values().filter(|v| **v == view).count();
        finals + votes.early.values().map(|view| of_view(*view)).max().unwrap_or(0) >= self.quorums.quorum()
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
