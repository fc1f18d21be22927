//! The part of every replica: propose, accept, prepare, decide.

use super::{
    message::{Certificate, Decision, Msg, PrePrepare, Prepared, Proposal, Record, Vote},
    replica::{Job, Phase, Sbft, Timer},
    slots::{Progress, SlotState, Step},
};
use crate::core::{Batch, Crypto, Group, Index, Micros, NULL, Out, Outs, Signed, Slot, Statement as _, To, View};
use alloy_primitives::{B256, Bytes};

impl Sbft {
    /// Proposes a batch for the next slot: once it is signed.
    pub(super) fn propose(&mut self, batch: Batch, out: &mut Outs<Self>) {
        if self.free_places() == 0 || batch.bytes() > self.config.batch_bytes {
            out.push(Out::Returned(batch));
            return;
        }
        let vote = Vote { view: self.view, slot: self.next, digest: batch.digest() };
        self.next += 1;
        let bytes = Proposal(vote).signed_bytes(self.config.domain);
        self.work(Job::Propose(vote, batch), Crypto::Sign(bytes), out);
    }

    /// Takes a proposal that `wants` lets pass.
    pub(super) fn on_pre_prepare(&mut self, now: Micros, proposal: PrePrepare, out: &mut Outs<Self>) {
        let vote = proposal.signed.body.0;
        let latest = self.config.epoch_ms + now / 1000 + self.config.ahead_ms;
        if proposal.batch.timestamp_ms() > latest {
            return;
        }
        let state = self.slots.entry(vote.slot).or_default();
        if let Some(first) = state.proposed().cloned() {
            // Another batch in the slot: the primary has signed both.
            if first.body != proposal.signed.body {
                self.accuse([first, proposal.signed], out);
            }
            return;
        }
        if state.accepted_in(vote.view).is_some() {
            return;
        }
        if self.hold {
            state.held = Some(Box::new(proposal));
            return;
        }
        state.signed = Some(proposal.signed);
        self.keep(proposal.batch, out);
        self.accept(vote, out);
    }

    /// Accepts proposals that came while the pipeline was behind.
    pub(super) fn accept_held(&mut self, now: Micros, out: &mut Outs<Self>) {
        let held: Vec<_> = self.slots.values_mut().filter_map(|state| state.held.take()).collect();
        for proposal in held {
            if self.wants_held(&proposal) {
                self.on_pre_prepare(now, *proposal, out);
            }
        }
    }

    fn wants_held(&self, proposal: &PrePrepare) -> bool {
        let vote = proposal.signed.body.0;
        vote.view == self.view && self.phase == Phase::Active && self.in_window(vote.slot)
    }

    /// Accepts a batch that is at hand for a slot of the current view, and has the own shares made.
    pub(super) fn accept(&mut self, vote: Vote, out: &mut Outs<Self>) {
        let Vote { view, slot, digest } = vote;
        // The restriction to slots near the executed prefix leaves the rest to the slow path.
        let fast = self.config.paths == super::Paths::Dual && slot <= self.committed + self.config.fast_reach();
        let state = self.slots.entry(slot).or_default();
        state.accepted = Some((view, digest));
        state.missing = None;
        let signed = state.signed.as_ref().filter(|signed| signed.body.0 == vote);
        let signature = signed.map(|signed| signed.signature.clone()).unwrap_or_default();
        out.push(Out::Persist(Record::Accepted { vote, signature }));
        out.push(Out::Proposed { slot, view, batch: self.batches.get(&digest).cloned() });
        self.ask_for_shares(vote, fast, out);
        let early = self.slots.get_mut(&slot).and_then(|state| state.early.take());
        if let Some(early) = early {
            let from = self.config.collectors(slot, view).next().unwrap_or(self.me);
            self.on_prepare(from, early, out);
        }
        self.decide_learned(slot, out);
    }

    /// Has the own shares over an accepted vote made.
    pub(super) fn ask_for_shares(&mut self, vote: Vote, fast: bool, out: &mut Outs<Self>) {
        let bytes = vote.signed_bytes(self.config.domain);
        if fast {
            self.work(Job::Share(vote, Group::Fast), Crypto::Share { group: Group::Fast, bytes: bytes.clone() }, out);
        } else if let Some(state) = self.slots.get_mut(&vote.slot) {
            state.own.fast = Some(Bytes::new());
        }
        self.work(Job::Share(vote, Group::Slow), Crypto::Share { group: Group::Slow, bytes }, out);
    }

    /// Returns true if a certificate of the current view is news.
    pub(super) fn wants_certificate(&self, certificate: &Certificate) -> bool {
        let Vote { view, slot, .. } = certificate.vote;
        view == self.view
            && self.phase == Phase::Active
            && self.in_window(slot)
            && self.slots.get(&slot).is_none_or(|state| state.prepared_in(view).is_none())
    }

    /// PREPARE: the order vote of the slow path.
    pub(super) fn on_prepare(&mut self, from: Index, certificate: Certificate, out: &mut Outs<Self>) {
        if !self.wants_certificate(&certificate) {
            return;
        }
        let vote = certificate.vote;
        let Vote { view, slot, digest } = vote;
        let state = self.slots.entry(slot).or_default();
        match state.accepted_in(view) {
            Some(accepted) if accepted == digest => {}
            // A collector may be faster than the primary.
            None => {
                state.early = Some(certificate);
                return;
            }
            Some(_) => return,
        }
        state.prepared = Some(certificate.clone());
        if !self.shares_before_durable() {
            out.push(Out::Persist(Record::Prepared(certificate)));
            out.push(Out::OrderVoted { slot, view });
        }
        let bytes = Prepared(vote).signed_bytes(self.config.domain);
        self.work(Job::Commit(vote, from), Crypto::Share { group: Group::Slow, bytes }, out);
    }

    /// True if a rule is broken on purpose: COMMIT leaves before its record is durable.
    #[cfg(feature = "mutations")]
    pub(super) fn shares_before_durable(&self) -> bool {
        self.config.breaks(super::Mutation::ShareBeforeDurable)
    }

    #[cfg(not(feature = "mutations"))]
    #[expect(clippy::unused_self, reason = "the tests break a rule here")]
    pub(super) const fn shares_before_durable(&self) -> bool {
        false
    }

    /// Returns true if a decision is news. A signature of a deciding group is enough, whatever its view.
    pub(super) fn wants_decision(&self, decision: &Decision) -> bool {
        let Vote { slot, digest, .. } = decision.vote;
        decision.is_of_deciding_group()
            && self.in_window(slot)
            && self.slots.get(&slot).is_none_or(|state| {
                let known = state.decided.as_ref().or(state.learned.as_ref());
                known.is_none_or(|known| known.vote.digest != digest)
            })
    }

    /// Learns a decision; it waits for its batch.
    pub(super) fn on_decision(&mut self, from: Index, decision: Decision, out: &mut Outs<Self>) {
        if !self.wants_decision(&decision) {
            return;
        }
        let Vote { slot, digest, .. } = decision.vote;
        let state = self.slots.entry(slot).or_default();
        if state.decided.is_some() || state.learned.is_some() {
            out.push(Out::Conflict { slot });
            return;
        }
        state.learned = Some(decision);
        if self.has(digest) {
            self.decide_learned(slot, out);
        } else if from != self.me {
            out.push(Out::Send(To::One(from), Msg::Fetch(digest)));
        }
    }

    /// Decides what was learned, once the batch is at hand.
    pub(super) fn decide_learned(&mut self, slot: Slot, out: &mut Outs<Self>) {
        let Some(learned) = self.slots.get(&slot).and_then(|state| state.learned.as_ref()) else { return };
        let digest = learned.vote.digest;
        if !self.has(digest) {
            return;
        }
        let Some(state) = self.slots.get_mut(&slot) else { return };
        let Some(decision) = state.learned.take() else { return };
        let fast = decision.group != Group::Slow;
        state.decided = Some(decision.clone());
        if core::mem::take(&mut state.own.help_runs) {
            out.push(Out::Cancel(Timer::Help(slot)));
        }
        for step in Step::ALL {
            let progress = state.collect.step(step);
            if *progress == Progress::Waiting {
                *progress = Progress::Idle;
                out.push(Out::Cancel(Timer::Collect(slot, step)));
            }
        }
        out.push(Out::Persist(Record::Decided(decision)));
        let batch = if digest == NULL { None } else { self.batches.get(&digest).cloned() };
        out.push(Out::Decided { slot, batch });
        self.extend_decided(0, out);
        self.after_fast(slot, fast, out);
    }

    /// Broken on purpose: a fast decision drops slots that no certificate covers.
    #[cfg(feature = "mutations")]
    fn after_fast(&mut self, slot: Slot, fast: bool, _: &mut Outs<Self>) {
        if fast && self.config.breaks(super::Mutation::StableUnproven) {
            self.drop_up_to(slot.saturating_sub(self.config.fast_reach()));
        }
    }

    #[cfg(not(feature = "mutations"))]
    #[expect(clippy::unused_self, reason = "the tests break a rule here")]
    const fn after_fast(&self, _: Slot, _: bool, _: &mut Outs<Self>) {}

    /// Returns true if a proof of equivocation is right, concerns the present primary, and is news.
    pub(super) fn wants_evidence(&self, first: &Signed<Proposal>, second: &Signed<Proposal>) -> bool {
        let (a, b) = (first.body.0, second.body.0);
        first.signer == second.signer
            && (a.view, a.slot) == (b.view, b.slot)
            && a.digest != b.digest
            && first.signer == self.config.primary(a.view)
            && a.view == self.view
            && self.phase == Phase::Active
    }

    /// A primary that signs two batches in a slot loses its view.
    pub(super) fn on_evidence(&mut self, both: [Signed<Proposal>; 2], out: &mut Outs<Self>) {
        if self.wants_evidence(&both[0], &both[1]) {
            self.accuse(both, out);
        }
    }

    fn accuse(&mut self, both: [Signed<Proposal>; 2], out: &mut Outs<Self>) {
        let against = both[0].signer;
        // One proof of a replica's guilt is enough for the host; each view that it leads is left.
        if self.accused.insert(against) {
            let mut proof = alloy_rlp::encode(&both[0]);
            proof.extend(alloy_rlp::encode(&both[1]));
            out.push(Out::Evidence { against, proof: proof.into() });
        }
        let view: View = both[0].body.0.view;
        let [one, other] = both.map(Box::new);
        out.push(Out::Send(To::All, Msg::Equivocation(one, other)));
        if view == self.view && self.phase == Phase::Active {
            self.leave(view + 1, out);
        }
    }

    /// Takes a batch that was asked for.
    pub(super) fn on_batch(&mut self, batch: Batch, out: &mut Outs<Self>) {
        let digest: B256 = batch.digest();
        let wanted = |state: &SlotState| {
            state.missing.is_some_and(|(_, missing)| missing == digest)
                || state.learned.as_ref().is_some_and(|learned| learned.vote.digest == digest)
        };
        let slots: Vec<Slot> = self.slots.iter().filter(|(_, state)| wanted(state)).map(|(slot, _)| *slot).collect();
        if slots.is_empty() || self.has(digest) {
            return;
        }
        self.keep(batch, out);
        for slot in slots {
            if self.slots.get(&slot).is_some_and(|state| state.missing == Some((self.view, digest))) {
                self.accept(Vote { view: self.view, slot, digest }, out);
            }
            self.decide_learned(slot, out);
        }
    }
}
