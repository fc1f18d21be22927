//! A replica's knowledge of one slot, as a voter and as a collector.

use super::{
    message::{Certificate, Decision, PrePrepare, SignShare, Vote},
    wait::Noted,
};
use crate::core::{Index, Micros, ReplicaSet, Signed, View};
use alloy_primitives::{B256, Bytes};
use std::collections::BTreeMap;

/// A slot in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SlotState {
    /// Proposal that this replica made or accepted, of the highest view.
    pub(super) accepted: Option<(View, B256)>,
    /// τ of the highest view: this replica's order vote.
    pub(super) prepared: Option<Certificate>,
    /// τ of the current view over a batch that is not accepted yet.
    pub(super) early: Option<Certificate>,
    /// Decision, and one whose batch is still to be fetched.
    pub(super) decided: Option<Decision>,
    pub(super) learned: Option<Decision>,
    /// Proposal that waits for the pipeline.
    pub(super) held: Option<Box<PrePrepare>>,
    /// Batch that the view change chose and that is still to be fetched.
    pub(super) missing: Option<(View, B256)>,
    /// Own shares over what was accepted in the current view.
    pub(super) own: Own,
    /// The primary's signature under the accepted proposal, to prove that it made another one.
    pub(super) signed: Option<Signed<super::message::Proposal>>,
    /// Work as a collector.
    pub(super) collect: Collect,
}

/// Own shares of one view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Own {
    /// Share of σ, empty without part in the fast path.
    pub(super) fast: Option<Bytes>,
    pub(super) slow: Option<Bytes>,
    pub(super) commit: Option<Bytes>,
    /// True if the primary is asked for help when the slot is not decided in time.
    pub(super) help_runs: bool,
    /// True once the primary was asked.
    pub(super) helped: bool,
}

/// Signatures that a collector combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// σ over the vote.
    Fast,
    /// τ over the vote.
    Slow,
    /// τ over the prepared vote.
    Commit,
}

impl Step {
    pub(super) const ALL: [Self; 3] = [Self::Fast, Self::Slow, Self::Commit];
}

/// Progress of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    /// Too few shares.
    #[default]
    Idle,
    /// Enough shares; another collector, or the fast path, has its time first.
    Waiting,
    /// Shares may be combined once there are enough.
    Due,
    /// Shares are being combined.
    Working,
    /// The signature was sent.
    Done,
}

/// A collector's knowledge of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Collect {
    /// View of the steps.
    pub(super) view: View,
    /// Newest shares of each replica.
    pub(super) shares: BTreeMap<Index, SignShare>,
    pub(super) commits: BTreeMap<Index, (Vote, Bytes)>,
    pub(super) steps: [Progress; 3],
    /// Time from which the slow path could have gone on.
    pub(super) slow_since: Option<Micros>,
    /// Lesson of this slot for the fast path of later ones.
    pub(super) noted: Noted,
}

impl Collect {
    pub(super) const fn step(&mut self, step: Step) -> &mut Progress {
        &mut self.steps[step as usize]
    }

    /// Forgets the steps of another view.
    pub(super) fn turn_to(&mut self, view: View) {
        if self.view != view {
            (self.view, self.steps, self.slow_since) = (view, Default::default(), None);
            self.noted = Noted::Nothing;
        }
    }

    /// Drops the shares of replicas.
    pub(super) fn drop_shares(&mut self, of: &ReplicaSet) {
        self.shares.retain(|signer, _| !of.contains(*signer));
        self.commits.retain(|signer, _| !of.contains(*signer));
    }

    /// The vote of `view` with the most shares for a step, and the shares.
    pub(super) fn best(&self, view: View, step: Step) -> Option<(Vote, Vec<(Index, Bytes)>)> {
        let mut by_vote: BTreeMap<Vote, Vec<(Index, Bytes)>> = BTreeMap::new();
        let mut add = |vote: Vote, signer: Index, share: &Bytes| {
            if vote.view == view && !share.is_empty() {
                by_vote.entry(vote).or_default().push((signer, share.clone()));
            }
        };
        match step {
            Step::Fast => self.shares.iter().for_each(|(signer, own)| add(own.vote, *signer, &own.fast)),
            Step::Slow => self.shares.iter().for_each(|(signer, own)| add(own.vote, *signer, &own.slow)),
            Step::Commit => self.commits.iter().for_each(|(signer, (vote, share))| add(*vote, *signer, share)),
        }
        by_vote.into_iter().max_by_key(|(_, shares)| shares.len())
    }
}

impl SlotState {
    /// The digest accepted in `view`.
    pub(super) fn accepted_in(&self, view: View) -> Option<B256> {
        self.accepted.filter(|(of, _)| *of == view).map(|(_, digest)| digest)
    }

    /// τ of `view`.
    pub(super) fn prepared_in(&self, view: View) -> Option<&Certificate> {
        self.prepared.as_ref().filter(|own| own.vote.view == view)
    }

    /// The proposal of the current view that was accepted or waits for the pipeline, as its primary has signed it.
    pub(super) fn proposed(&self) -> Option<&Signed<super::message::Proposal>> {
        self.signed.as_ref().or_else(|| self.held.as_ref().map(|held| &held.signed))
    }

    /// Forgets what belongs to the view that ends.
    pub(super) fn end_view(&mut self) {
        (self.held, self.missing, self.early, self.signed) = (None, None, None, None);
        self.own = Own::default();
    }

    /// Batches that some report or share may still name.
    pub(super) fn named(&self) -> impl Iterator<Item = B256> {
        let entries = [self.accepted, self.missing].into_iter().flatten().map(|(_, digest)| digest);
        let decisions = [&self.decided, &self.learned].into_iter().flatten().map(|decision| decision.vote.digest);
        entries.chain(decisions).chain(self.prepared.as_ref().map(|own| own.vote.digest))
    }
}
