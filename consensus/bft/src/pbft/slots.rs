//! A replica's knowledge of one slot.

use crate::core::{Batch, Tally, View};
use alloy_primitives::B256;

/// A slot in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SlotState {
    /// Proposal that this replica made or accepted, of the highest view. Entry of Q.
    pub(super) accepted: Option<(View, B256)>,
    /// Batch that a quorum accepted, of the highest view: this replica's order vote. Entry of P.
    pub(super) prepared: Option<(View, B256)>,
    pub(super) prepares: Tally,
    pub(super) commits: Tally,
    /// Decisions that others claim, and the one that a correct replica stands behind.
    pub(super) claims: Tally,
    pub(super) learned: Option<B256>,
    pub(super) decided: Option<B256>,
    /// Proposal that waits for the pipeline.
    pub(super) held: Option<(View, Batch)>,
    /// Batch that the view change chose and that is still to be fetched.
    pub(super) missing: Option<(View, B256)>,
}

impl SlotState {
    /// Accepts a proposal of `view`.
    pub(super) const fn accept(&mut self, view: View, digest: B256) {
        self.accepted = Some((view, digest));
        self.missing = None;
    }

    /// Forgets what a NEW-VIEW proves to be undecided: every batch of an older view than `view`, but the one that it chose.
    ///
    /// A valid NEW-VIEW chooses a batch that an older view has decided, so a report of another one could only block later
    /// choices. That bounds the journal: one batch per slot in Q.
    pub(super) fn supersede(&mut self, view: View, choice: Option<B256>) {
        let keeps = |entry: &(View, B256)| entry.0 >= view || Some(entry.1) == choice;
        self.accepted = self.accepted.filter(keeps);
        self.prepared = self.prepared.filter(keeps);
    }

    /// The digest accepted in `view`.
    pub(super) fn accepted_in(&self, view: View) -> Option<B256> {
        self.accepted.filter(|(of, _)| *of == view).map(|(_, digest)| digest)
    }

    /// The digest prepared in `view`.
    pub(super) fn prepared_in(&self, view: View) -> Option<B256> {
        self.prepared.filter(|(of, _)| *of == view).map(|(_, digest)| digest)
    }

    /// Batches that some report or vote may still name.
    pub(super) fn named(&self) -> impl Iterator<Item = B256> {
        let entries = [self.accepted, self.prepared, self.missing].into_iter().flatten().map(|(_, digest)| digest);
        entries.chain(self.decided).chain(self.learned)
    }
}
