//! A single lane as a replica sees it.

use super::car::{Ballot, Car, Tip};
use alloy_primitives::B256;
use std::collections::BTreeMap;

/// A lane: what is committed, what this replica has voted for, and the highest certified car.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    /// Last committed car.
    pub(super) committed: Tip,
    /// Cars that this replica has voted for, by position, without a gap above the committed car. Votes at its position and below
    /// may be for another branch. They stay until a checkpoint covers them: a restart begins there, and a position has one vote.
    pub(super) voted: BTreeMap<u64, B256>,
    /// Highest certified car, and what certifies it. Nothing certifies a committed car: nothing has to.
    pub(super) certified: Tip,
    pub(super) ballots: Vec<Ballot>,
    /// The newest car whose parent is not here yet.
    pub(super) waiting: Option<Car>,
}

impl Lane {
    /// The newest car that this replica has, with its whole history.
    pub(super) fn newest(&self) -> Tip {
        let voted = self.voted.last_key_value().map(|(position, digest)| Tip { position: *position, digest: *digest });
        voted.filter(|tip| tip.position > self.committed.position).unwrap_or(self.committed)
    }

    /// Returns true if this replica has the car and its whole history, or the car is committed.
    pub(super) fn has(&self, tip: Tip) -> bool {
        tip == self.committed
            || tip.position > self.committed.position && self.voted.get(&tip.position) == Some(&tip.digest)
    }

    /// Notes a certificate. Returns true if it is news.
    pub(super) fn certify(&mut self, tip: Tip, ballots: Vec<Ballot>) -> bool {
        let news = tip.position > self.certified.position && tip.position > self.committed.position;
        if news {
            (self.certified, self.ballots) = (tip, ballots);
        }
        news
    }

    /// Moves the committed car up. Votes stay.
    pub(super) fn commit(&mut self, tip: Tip) {
        // Votes on another branch lead nowhere, and the first position above decides which branch they are on.
        self.committed = tip;
        if self.certified.position <= tip.position {
            (self.certified, self.ballots) = (tip, Vec::new());
        }
        if self.waiting.as_ref().is_some_and(|car| car.header.body.position <= tip.position) {
            self.waiting = None;
        }
    }
}
