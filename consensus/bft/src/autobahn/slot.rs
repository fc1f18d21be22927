//! Agreement on one slot: values are digests, data is somewhere else.
//!
//! A replica votes once per view, and in no view that it has complained about. What it has voted for and what it has a
//! certificate of go into its complaints, so that the next leader finds every value that may be decided.

use super::{
    certificate::{Complaint, Phase, Qc, Tc},
    choose::winner,
    config::{Config, Spread},
    statement::{Ack, Mark, PrepVote, Timeout},
};
use crate::{
    core::{Index, Slot, View},
    lanes::Ballot,
};
use alloy_primitives::{B256, Bytes};
use std::collections::BTreeMap;

/// An effect of a slot, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Log and sign the order vote, then send it to the collectors.
    Ack(Ack, Qc),
    /// Log and sign a complaint, then send it to all.
    Complain(Timeout),
    /// Send a certificate of n-f votes to all.
    Confirm(Qc),
    /// Send a timeout certificate to all.
    Spread(Tc),
    /// Wait for the votes of all replicas in this view.
    Wait(View),
    /// A view begins.
    Enter(View),
    /// The ticket of the view: log it, so that a restart does not lead back, and repeat it to replicas that have not got here.
    Ticket(Tc),
    /// The slot is decided; true if this replica has to tell the others.
    Commit(Qc, bool),
}

/// State of one slot at one replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    me: Index,
    slot: Slot,
    pub(super) view: View,
    /// Highest view that this replica has complained about.
    pub(super) gone: Option<View>,
    /// Value of the highest view that this replica has voted in.
    pub(super) voted: Mark,
    /// Certificate of the highest view.
    pub(super) locked: Option<Qc>,
    /// Highest view of an own order vote.
    pub(super) acked: Option<View>,
    /// Newest votes of each replica, where this one collects them.
    pub(super) votes: BTreeMap<Index, (Mark, Bytes)>,
    pub(super) acks: BTreeMap<Index, (Mark, Bytes)>,
    pub(super) complaints: BTreeMap<Index, Complaint>,
    /// View in which the wait for all votes has begun.
    waits: Option<View>,
    /// View for which this replica has spread the certificate.
    confirmed: Option<View>,
    /// Ticket of the view, but for view 0.
    pub(super) ticket: Option<Tc>,
    pub(super) committed: Option<Qc>,
}

impl Instance {
    /// A slot of which nothing is known.
    #[must_use]
    pub const fn new(me: Index, slot: Slot) -> Self {
        Self {
            me,
            slot,
            view: 0,
            gone: None,
            voted: Mark { view: 0, digest: B256::ZERO },
            locked: None,
            acked: None,
            votes: BTreeMap::new(),
            acks: BTreeMap::new(),
            complaints: BTreeMap::new(),
            waits: None,
            confirmed: None,
            ticket: None,
            committed: None,
        }
    }

    /// View that the replica is in.
    #[must_use]
    pub const fn view(&self) -> View {
        self.view
    }

    /// The decision.
    #[must_use]
    pub const fn decision(&self) -> Option<&Qc> {
        self.committed.as_ref()
    }

    /// Value of the highest view that this replica has voted in.
    #[must_use]
    pub const fn vote(&self) -> Mark {
        self.voted
    }

    /// The only value that the present view may propose, if it is not free.
    #[must_use]
    pub fn bound(&self, config: &Config) -> Option<B256> {
        self.ticket.as_ref().and_then(|tc| winner(config, tc))
    }

    /// Returns true if this replica may still vote in the present view.
    #[must_use]
    pub fn is_open(&self, config: &Config) -> bool {
        let voted = self.voted.get().is_some_and(|(view, _)| view >= self.view);
        let ticket = self.view == 0 || self.ticket.is_some();
        self.committed.is_none() && ticket && !voted && !self.has_left(self.view, config)
    }

    fn has_left(&self, view: View, config: &Config) -> bool {
        #[cfg(feature = "mutations")]
        if config.breaks(super::config::Mutation::VoteAfterComplaint) {
            return false;
        }
        let _ = config;
        self.gone.is_some_and(|gone| gone >= view)
    }

    /// Votes for a value in the present view. The caller has checked the cut; log the vote before it leaves.
    pub fn accept(&mut self, config: &Config, digest: B256) -> Option<PrepVote> {
        let bound = self.bound(config);
        if !self.is_open(config) || bound.is_some_and(|bound| bound != digest) {
            return None;
        }
        self.voted = Mark { view: self.view, digest };
        Some(PrepVote { slot: self.slot, view: self.view, digest })
    }

    /// Enters the view of a logged statement. A ticket stays only while its view lasts.
    pub(super) fn restore(&mut self, view: View) {
        if view > self.view {
            (self.view, self.ticket) = (view, None);
        }
    }

    fn collects(&self, config: &Config, view: View) -> bool {
        config.spread == Spread::AllToAll || config.leader(self.slot, view) == self.me
    }

    /// Returns true if the vote of a replica in a view is not known, nor one of a later view.
    #[must_use]
    pub fn lacks_vote(&self, from: Index, view: View) -> bool {
        self.votes.get(&from).is_none_or(|(known, _)| known.view < view)
    }

    /// Returns true if the order vote of a replica in a view is not known, nor one of a later view.
    #[must_use]
    pub fn lacks_ack(&self, from: Index, view: View) -> bool {
        self.acks.get(&from).is_none_or(|(known, _)| known.view < view)
    }

    /// Counts a vote.
    pub fn on_vote(&mut self, config: &Config, from: Index, vote: &PrepVote, signature: Bytes, steps: &mut Vec<Step>) {
        if note(&mut self.votes, from, Mark { view: vote.view, digest: vote.digest }, signature) {
            self.count(config, false, steps);
        }
    }

    /// Ends the wait for the votes of all.
    pub fn on_wait_end(&mut self, config: &Config, steps: &mut Vec<Step>) {
        if self.waits == Some(self.view) {
            self.count(config, true, steps);
        }
    }

    fn count(&mut self, config: &Config, waited: bool, steps: &mut Vec<Step>) {
        let view = self.view;
        if self.committed.is_some() || !self.collects(config, view) {
            return;
        }
        let Some((digest, ballots)) = most(&self.votes, view).filter(|(_, b)| b.len() >= config.quorum()) else {
            return;
        };
        let qc = Qc { slot: self.slot, view, digest, phase: Phase::Prepare, ballots };
        if config.fast.is_some() && qc.ballots.len() == config.quorums.n() {
            return self.commit(qc, config.spread == Spread::Linear, steps);
        }
        if self.confirmed == Some(view) {
            return;
        }
        if config.fast.is_some() && !waited {
            if self.waits != Some(view) {
                self.waits = Some(view);
                steps.push(Step::Wait(view));
            }
            return;
        }
        self.confirmed = Some(view);
        if config.spread == Spread::Linear {
            steps.push(Step::Confirm(qc.clone()));
        }
        self.on_confirm(config, qc, steps);
    }

    /// Takes a certificate of n-f votes, and answers it by the order vote.
    pub fn on_confirm(&mut self, config: &Config, qc: Qc, steps: &mut Vec<Step>) {
        let view = qc.view;
        let late = view < self.view || self.has_left(view, config) || self.acked.is_some_and(|acked| acked >= view);
        if late || self.committed.is_some() {
            return;
        }
        if view > self.view {
            (self.view, self.ticket) = (view, None);
            steps.push(Step::Enter(view));
        }
        self.acked = Some(view);
        self.locked = Some(qc.clone());
        steps.push(Step::Ack(Ack { slot: self.slot, view, digest: qc.digest }, qc));
    }

    /// Counts an order vote.
    pub fn on_ack(&mut self, config: &Config, from: Index, ack: &Ack, signature: Bytes, steps: &mut Vec<Step>) {
        let (mark, view) = (Mark { view: ack.view, digest: ack.digest }, ack.view);
        if !note(&mut self.acks, from, mark, signature) || self.committed.is_some() || !self.collects(config, view) {
            return;
        }
        if let Some((digest, ballots)) = most(&self.acks, view).filter(|(_, b)| b.len() >= config.quorum()) {
            let qc = Qc { slot: self.slot, view, digest, phase: Phase::Confirm, ballots };
            self.commit(qc, config.spread == Spread::Linear, steps);
        }
    }

    /// Takes a decision.
    pub fn on_commit(&mut self, qc: Qc, steps: &mut Vec<Step>) {
        if self.committed.is_none() {
            self.commit(qc, false, steps);
        }
    }

    fn commit(&mut self, qc: Qc, tell: bool, steps: &mut Vec<Step>) {
        self.committed = Some(qc.clone());
        self.votes.clear();
        self.acks.clear();
        self.complaints.clear();
        self.ticket = None;
        steps.push(Step::Commit(qc, tell));
    }

    /// Loses patience with a view.
    pub fn on_patience_end(&mut self, config: &Config, view: View, steps: &mut Vec<Step>) {
        if view == self.view && self.committed.is_none() && self.gone.is_none_or(|gone| gone < view) {
            self.complain(config, view, steps);
        }
    }

    fn complain(&mut self, config: &Config, view: View, steps: &mut Vec<Step>) {
        self.gone = Some(view);
        if view > self.view {
            (self.view, self.ticket) = (view, None);
            steps.push(Step::Enter(view));
        }
        #[cfg(feature = "mutations")]
        if config.breaks(super::config::Mutation::ForgetQc) {
            let (slot, prop) = (self.slot, self.voted);
            steps.push(Step::Complain(Timeout { slot, view, qc: Mark::default(), prop }));
            return;
        }
        let _ = config;
        let qc = self.locked.as_ref().map(Qc::mark).unwrap_or_default();
        steps.push(Step::Complain(Timeout { slot: self.slot, view, qc, prop: self.voted }));
    }

    /// Returns true if a complaint is newer than the known one of its signer.
    #[must_use]
    pub fn wants_complaint(&self, from: Index, view: View) -> bool {
        view >= self.view
            && self.complaints.get(&from).is_none_or(|known| known.timeout.body.view < view)
            && self.committed.is_none()
    }

    /// Takes a complaint, the own one as well. Joins f+1 of them, and forms a certificate of n-f.
    pub fn on_complaint(&mut self, config: &Config, complaint: Complaint, steps: &mut Vec<Step>) {
        let (from, view) = (complaint.timeout.signer, complaint.timeout.body.view);
        if !self.wants_complaint(from, view) {
            return;
        }
        self.complaints.insert(from, complaint);
        let mut views: Vec<View> = self.complaints.values().map(|known| known.timeout.body.view).collect();
        views.sort_unstable_by(|a, b| b.cmp(a));
        // Behind f+1 complaints stands a correct replica.
        if let Some(joined) = views.get(config.quorums.f()).copied()
            && joined >= self.view
            && self.gone.is_none_or(|gone| gone < joined)
        {
            self.complain(config, joined, steps);
        }
        if let Some(tc) = self.certify(config, view) {
            steps.push(Step::Spread(tc.clone()));
            self.on_tc(config, tc, steps);
        }
    }

    fn certify(&self, config: &Config, view: View) -> Option<Tc> {
        let of_view = self.complaints.values().filter(|known| known.timeout.body.view == view);
        let chosen: Vec<&Complaint> = of_view.take(config.quorum()).collect();
        if chosen.len() < config.quorum() {
            return None;
        }
        let qc = chosen.iter().flat_map(|known| &known.qc).max_by_key(|qc| qc.view);
        let timeouts = chosen.iter().map(|known| known.timeout.clone()).collect();
        Some(Tc { timeouts, qc: qc.into_iter().cloned().collect() })
    }

    /// Judges the proposal of a view by the leader's ticket: the own one may be of other replicas, and allow another value.
    pub fn adopt(&mut self, config: &Config, tc: Tc) {
        let fits = tc.of(config).is_some_and(|(slot, view)| slot == self.slot && view + 1 == self.view);
        if fits && self.committed.is_none() {
            self.ticket = Some(tc);
        }
    }

    /// Takes a timeout certificate that is valid, and enters the view behind it.
    pub fn on_tc(&mut self, config: &Config, tc: Tc, steps: &mut Vec<Step>) {
        let Some((_, view)) = tc.of(config) else { return };
        let next = view + 1;
        let fresh = next > self.view || next == self.view && self.ticket.is_none();
        if !fresh || self.committed.is_some() {
            return;
        }
        let enters = next > self.view;
        (self.view, self.ticket) = (next, Some(tc.clone()));
        self.complaints.retain(|_, known| known.timeout.body.view >= next);
        if enters {
            steps.push(Step::Enter(next));
        }
        steps.push(Step::Ticket(tc));
        self.count(config, false, steps);
    }
}

/// Notes the newest vote of a replica. Returns true if it is news.
fn note(votes: &mut BTreeMap<Index, (Mark, Bytes)>, from: Index, mark: Mark, signature: Bytes) -> bool {
    let news = votes.get(&from).is_none_or(|(known, _)| known.view < mark.view);
    if news {
        votes.insert(from, (mark, signature));
    }
    news
}

/// The value with most votes in a view, and its votes.
fn most(votes: &BTreeMap<Index, (Mark, Bytes)>, view: View) -> Option<(B256, Vec<Ballot>)> {
    let mut by_value: BTreeMap<B256, Vec<Ballot>> = BTreeMap::new();
    for (signer, (mark, signature)) in votes.iter().filter(|(_, (mark, _))| mark.view == view) {
        by_value.entry(mark.digest).or_default().push(Ballot { signer: *signer, signature: signature.clone() });
    }
    by_value.into_iter().max_by_key(|(_, ballots)| ballots.len())
}
