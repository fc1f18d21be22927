//! A replica's knowledge of one slot.

use super::choose::MOST_PREPREPARED;
use crate::core::{Batch, Tally, View};
use alloy_primitives::B256;
use std::collections::BTreeMap;

/// A slot in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SlotState {
    /// Proposal that this replica made or accepted, of the highest view.
    pub(super) accepted: Option<(View, B256)>,
    /// Batch that a quorum accepted, of the highest view: this replica's order vote. Entry of P.
    pub(super) prepared: Option<(View, B256)>,
    /// Highest view in which each batch was accepted, at most [`MOST_PREPREPARED`] of them. Entries of Q.
    pub(super) preprepared: BTreeMap<B256, View>,
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
    pub(super) fn accept(&mut self, view: View, digest: B256) {
        self.accepted = Some((view, digest));
        self.missing = None;
        self.preprepared.insert(digest, view);
        if self.preprepared.len() > MOST_PREPREPARED {
            let oldest = self.preprepared.iter().min_by_key(|(_, view)| **view).map(|(digest, _)| *digest);
            oldest.and_then(|digest| self.preprepared.remove(&digest));
        }
    }

    /// The digest accepted in `view`.
    pub(super) fn accepted_in(&self, view: View) -> Option<B256> {
        self.accepted.filter(|(of, _)| *of == view).map(|(_, digest)| digest)
    }

    /// The digest prepared in `view`.
    pub(super) fn prepared_in(&self, view: View) -> Option<B256> {
        self.prepared.filter(|(of, _)| *of == view).map(|(_, digest)| digest)
    }

    /// Returns true if some report or vote may still name the batch.
    pub(super) fn needs(&self, digest: B256) -> bool {
        self.preprepared.contains_key(&digest)
            || self.prepared.is_some_and(|(_, prepared)| prepared == digest)
            || self.decided == Some(digest)
            || self.learned == Some(digest)
            || self.missing.is_some_and(|(_, missing)| missing == digest)
    }
}
