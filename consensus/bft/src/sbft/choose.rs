//! The decision of a view change: which batch each slot gets in the new view.
//!
//! Correctness across views and across both paths lives here (SBFT, section V-G). A slow decision leaves τ of its view at f+c+1
//! correct replicas, a fast one leaves its batch accepted at 2f+c+1 of them; n-f view changes meet at least one of the former,
//! f+c+1 of the latter. Batches are counted by value, in a view or later: equal pairs of view and batch lose a fast decision
//! that a later view repeats at some replicas only.

use super::{
    config::Config,
    message::{Certificate, Decision, NewView, Stable, ViewChange, Vote, is_member},
};
use crate::core::{Index, NULL, ReplicaSet, Signed, Slot, View};
use alloy_primitives::B256;
use std::collections::BTreeMap;

/// The state that a new view starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Checkpoint below the first slot.
    pub(super) stable: Stable,
    /// Batches of the slots behind it, with the proof of those that are decided.
    pub(super) slots: Vec<(B256, Option<Decision>)>,
}

impl Choice {
    /// Chosen digests by slot.
    pub(super) fn digests(&self) -> impl Iterator<Item = (Slot, B256)> + '_ {
        (self.stable.checkpoint.slot + 1..).zip(self.slots.iter().map(|(digest, _)| *digest))
    }

    /// The last slot that the choice fills.
    pub(super) const fn last(&self) -> Slot {
        self.stable.checkpoint.slot + self.slots.len() as u64
    }
}

impl ViewChange {
    /// Returns true if the report has the shape that every correct replica gives it: bounded, ascending, below its view.
    pub(super) fn is_well_formed(&self, config: &Config) -> bool {
        let stable = self.stable.checkpoint.slot;
        let genesis = stable == 0 && self.stable == Stable::default();
        if self.view == 0 || stable >= Slot::MAX / 2 || !(genesis || is_checkpoint(config, stable)) {
            return false;
        }
        let known = |vote: &Vote| vote.slot > stable && vote.slot <= stable + config.window() && vote.view < self.view;
        self.accepted.iter().all(known)
            && self.accepted.is_sorted_by(|a, b| a.slot < b.slot)
            && self.prepared.iter().all(|certificate| known(&certificate.vote))
            && self.prepared.is_sorted_by(|a, b| a.vote.slot < b.vote.slot)
            && self.decided.iter().all(|decision| known(&decision.vote) && decision.is_of_deciding_group())
            && self.decided.is_sorted_by(|a, b| a.vote.slot < b.vote.slot)
    }

    fn accepted(&self, slot: Slot) -> Option<&Vote> {
        self.accepted.binary_search_by_key(&slot, |vote| vote.slot).ok().map(|at| &self.accepted[at])
    }

    fn prepared(&self, slot: Slot) -> Option<&Certificate> {
        self.prepared.binary_search_by_key(&slot, |own| own.vote.slot).ok().map(|at| &self.prepared[at])
    }

    fn decided(&self, slot: Slot) -> Option<&Decision> {
        self.decided.binary_search_by_key(&slot, |own| own.vote.slot).ok().map(|at| &self.decided[at])
    }
}

/// Returns true if a checkpoint may be at this slot.
pub(super) const fn is_checkpoint(config: &Config, slot: Slot) -> bool {
    slot.is_multiple_of(config.interval)
}

/// Returns true if a NEW-VIEW comes from its primary, with well-formed view changes of n-f replicas or more. Cheap, and bounds the
/// number of signatures to verify.
pub(super) fn is_bounded(config: &Config, signed: &Signed<NewView>) -> bool {
    let (NewView { view, changes }, quorums) = (&signed.body, config.quorums);
    *view > 0
        && signed.signer == config.primary(*view)
        && (quorums.available()..=quorums.n()).contains(&changes.len())
        && changes.is_sorted_by(|a, b| a.signer < b.signer)
        && changes.iter().all(|change| change.body.view == *view && is_member(change.signer, quorums.n()))
        && changes.iter().all(|change| change.body.is_well_formed(config))
}

/// Finds the checkpoint and the batches of a new view. Every set of n-f view changes decides every slot.
pub(super) fn choose<'a>(config: &Config, changes: impl Iterator<Item = &'a ViewChange> + Clone) -> Choice {
    let stable = changes.clone().map(|change| &change.stable).max_by_key(|stable| stable.checkpoint.slot);
    let stable = stable.cloned().unwrap_or_default();
    let window = stable.checkpoint.slot + 1..=stable.checkpoint.slot + config.window();
    let reported = |change: &ViewChange| {
        let accepted = change.accepted.iter().copied();
        let prepared = change.prepared.iter().map(|certificate| certificate.vote);
        accepted.chain(prepared).chain(change.decided.iter().map(|decision| decision.vote)).map(|vote| vote.slot).max()
    };
    let last = changes.clone().filter_map(reported).max().unwrap_or(0).min(*window.end());
    let mut slots: Vec<_> = (*window.start()..=last).map(|slot| batch(config, changes.clone(), slot)).collect();
    // An invented report must not fill the window: free slots at the end stay free. A null filler that may be decided is no free
    // slot: only what no report keeps is free.
    let is_free = |chosen: &Option<(B256, Option<Decision>)>| {
        #[cfg(feature = "mutations")]
        if config.breaks(super::config::Mutation::FreedNull) {
            return chosen.as_ref().is_none_or(|(digest, decision)| *digest == NULL && decision.is_none());
        }
        chosen.is_none()
    };
    while slots.last().is_some_and(is_free) {
        slots.pop();
    }
    Choice { stable, slots: slots.into_iter().map(|chosen| chosen.unwrap_or((NULL, None))).collect() }
}

/// The batch of one slot, `None` if the reports show that none was decided.
fn batch<'a>(
    config: &Config,
    changes: impl Iterator<Item = &'a ViewChange> + Clone,
    slot: Slot,
) -> Option<(B256, Option<Decision>)> {
    if let Some(decision) = changes.clone().find_map(|change| change.decided(slot)) {
        return Some((decision.vote.digest, Some(decision.clone())));
    }
    let slow = changes.clone().filter_map(|change| change.prepared(slot)).map(|own| own.vote).max_by_key(|v| v.view);
    let mut fast = None;
    let mut reports: BTreeMap<B256, Vec<View>> = BTreeMap::new();
    for vote in changes.filter_map(|change| change.accepted(slot)) {
        reports.entry(vote.digest).or_default().push(vote.view);
    }
    for (digest, mut views) in reports {
        views.sort_unstable_by(|a, b| b.cmp(a));
        let view = kept_view(config, &views);
        // Where two batches are kept in one view, neither is decided: the reports of f+c replicas do not keep one.
        fast = fast.max(view.map(|view| (view, digest)));
    }
    #[cfg(feature = "mutations")]
    {
        use super::config::Mutation;
        if config.breaks(Mutation::SlowOnly) {
            fast = None;
        }
        if config.breaks(Mutation::FastFirst)
            && let (Some(slow), Some((view, digest))) = (slow, fast)
            && view == slow.view
        {
            return Some((digest, None));
        }
    }
    match (slow, fast) {
        (Some(slow), Some((view, digest))) if view > slow.view => Some((digest, None)),
        (Some(slow), _) => Some((slow.digest, None)),
        (None, fast) => fast.map(|(_, digest)| (digest, None)),
    }
}

/// The highest view such that f+c+1 reports name the batch in that view or later, from views in descending order.
fn kept_view(config: &Config, views: &[View]) -> Option<View> {
    #[cfg(feature = "mutations")]
    if config.breaks(super::config::Mutation::ExactPairs) {
        return views.chunk_by(|a, b| a == b).find(|equal| equal.len() >= config.kept()).map(|equal| equal[0]);
    }
    views.get(config.kept() - 1).copied()
}

/// View changes by signer, without those of other views.
pub(super) fn of_view(
    changes: &BTreeMap<Index, Signed<ViewChange>>,
    view: View,
) -> impl Iterator<Item = &Signed<ViewChange>> + Clone {
    changes.values().filter(move |change| change.body.view == view)
}

/// Signers of view changes for views above `view`.
pub(super) fn ahead(changes: &BTreeMap<Index, Signed<ViewChange>>, view: View) -> (ReplicaSet, Option<View>) {
    let ahead = || changes.iter().filter(move |(_, change)| change.body.view > view);
    (ahead().map(|(signer, _)| *signer).collect(), ahead().map(|(_, change)| change.body.view).min())
}
