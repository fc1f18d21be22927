//! A replica's knowledge, for tests that search its states.

use super::{
    config::Config,
    message::{NewView, Vote},
    replica::Sbft,
};
use crate::core::{Signed, Slot, View};
use alloy_primitives::B256;

impl Sbft {
    /// Choices that follow from a NEW-VIEW: the stable slot, and the digests behind it.
    #[must_use]
    pub fn choices(config: &Config, opening: &Signed<NewView>) -> (Slot, Vec<B256>) {
        let choice = super::choose::choose(config, opening.body.changes.iter().map(|change| &change.body));
        (choice.stable.checkpoint.slot, choice.digests().map(|(_, digest)| digest).collect())
    }

    /// The newest accepted vote of a slot.
    #[must_use]
    pub fn accepted_vote(&self, slot: Slot) -> Option<Vote> {
        let (view, digest) = self.slots.get(&slot)?.accepted?;
        Some(Vote { view, slot, digest })
    }

    /// The newest prepared vote of a slot: its view and digest, and those of a certificate that waits for its batch.
    #[must_use]
    pub fn prepared_views(&self, slot: Slot) -> [Option<(View, B256)>; 2] {
        let of = |known: &super::message::Certificate| (known.vote.view, known.vote.digest);
        let state = self.slots.get(&slot);
        [state.and_then(|s| s.prepared.as_ref()).map(of), state.and_then(|s| s.early.as_ref()).map(of)]
    }

    /// Votes of the current view whose shares are made: the accepted one, true with part in the fast path, and the prepared one.
    #[must_use]
    pub fn own_votes(&self, slot: Slot) -> (Option<(Vote, bool)>, Option<Vote>) {
        let share = self.own_share(slot).map(|own| (own.vote, !own.fast.is_empty()));
        (share, self.own_commit(slot).map(|own| own.vote))
    }

    /// The next slot that the replica would propose for.
    #[must_use]
    pub const fn free_slot(&self) -> Slot {
        self.next
    }
}
