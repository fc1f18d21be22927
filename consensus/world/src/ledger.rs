//! Facts about a world that no fault may contradict, and figures that its tests read.

use crate::facts::Vote;
use alloy_primitives::B256;
use phalanx_bft::{Index, Micros, Slot, View};
use std::collections::BTreeMap;

/// Checks that hold over all replicas and times.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Digest of the batch in each decided slot.
    pub decided: BTreeMap<Slot, B256>,
    pub(crate) outcomes: BTreeMap<Slot, B256>,
    /// Votes that correct replicas have sent, by replica, kind, view and slot.
    pub votes: BTreeMap<(Index, u8, View, Slot), B256>,
    /// Number of order votes.
    pub order_votes: usize,
    /// Messages sent to each receiver, by the first byte of their encoding: the kind.
    pub sent: BTreeMap<u8, usize>,
    /// Time of the first and the last decision of each slot by a correct replica, and the number of those that decided.
    pub times: BTreeMap<Slot, (Micros, Micros, usize)>,
    /// Time of the first certificate that clients of a slot get, and the number of them.
    pub answers: BTreeMap<Slot, (Micros, usize)>,
    /// Evidence: the replica that has it, and the one that it convicts.
    pub evidence: Vec<(Index, Index)>,
    /// First rule that was broken.
    pub violation: Option<String>,
}

impl Ledger {
    pub(crate) fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    /// Notes a vote that a correct replica sends, and checks that it contradicts no earlier one.
    pub(crate) fn note(&mut self, me: Index, vote: Vote) {
        let (kind, view, slot, digest) = vote;
        let before = *self.votes.entry((me, kind, view, slot)).or_insert(digest);
        self.must(before == digest, || format!("{me} voted twice: {vote:?}, before {before}"));
    }
}
