//! The normal case: PRE-PREPARE, PREPARE, COMMIT.

use super::{
    message::{Decision, Fetch, Msg, PrePrepare, Record, Vote},
    replica::{Pbft, Phase},
};
use crate::core::{Batch, Index, Micros, NULL, Out, Outs, Slot, To, View};
use alloy_primitives::B256;

impl Pbft {
    /// Proposes a batch for the next slot.
    pub(super) fn propose(&mut self, batch: Batch, out: &mut Outs<Self>) {
        if self.free_places() == 0 || batch.bytes() > self.config.batch_bytes {
            out.push(Out::Returned(batch));
            return;
        }
        let (slot, view) = (self.next, self.view);
        self.next += 1;
        self.keep(batch.clone(), out);
        self.accept(view, slot, batch.digest(), out);
        out.push(Out::Send(To::All, Msg::PrePrepare(PrePrepare { view, slot, batch })));
    }

    pub(super) fn on_pre_prepare(&mut self, now: Micros, from: Index, proposal: PrePrepare, out: &mut Outs<Self>) {
        let PrePrepare { view, slot, batch } = proposal;
        let latest = self.config.epoch_ms + now / 1000 + self.config.ahead_ms;
        let wanted = view == self.view
            && self.phase == Phase::Active
            && from == self.config.primary(view)
            && self.in_window(slot)
            && batch.bytes() <= self.config.batch_bytes
            && batch.timestamp_ms() <= latest
            && self.may_hold(slot, batch.bytes());
        let state = self.slots.get(&slot);
        let open = state
            .is_none_or(|s| s.accepted.is_none_or(|(of, _)| of < view) && s.missing.is_none_or(|(of, _)| of < view));
        if !wanted || !open {
            return;
        }
        if self.hold {
            self.slots.entry(slot).or_default().held.get_or_insert((view, batch));
            return;
        }
        let digest = batch.digest();
        self.keep(batch, out);
        self.accept(view, slot, digest, out);
    }

    /// Accepts proposals that came while the pipeline was behind.
    pub(super) fn accept_held(&mut self, now: Micros, out: &mut Outs<Self>) {
        let held: Vec<_> =
            self.slots.iter_mut().filter_map(|(slot, state)| Some((*slot, state.held.take()?))).collect();
        let from = self.config.primary(self.view);
        for (slot, (view, batch)) in held {
            self.on_pre_prepare(now, from, PrePrepare { view, slot, batch }, out);
        }
    }

    /// Accepts a batch that is at hand for a slot of the current view.
    pub(super) fn accept(&mut self, view: View, slot: Slot, digest: B256, out: &mut Outs<Self>) {
        let vote = Vote { view, slot, digest };
        let (me, leads) = (self.me, self.config.primary(view) == self.me);
        let state = self.slots.entry(slot).or_default();
        state.accept(view, digest);
        out.push(Out::Persist(Record::PrePrepared(vote)));
        let batch = self.batches.get(&digest).cloned();
        // The primary's proposal, PRE-PREPARE or NEW-VIEW, is its PREPARE.
        if !leads {
            state.prepares.add(me, view, digest);
            out.push(Out::Send(To::All, Msg::Prepare(vote)));
        }
        out.push(Out::Proposed { slot, view, batch });
        self.advance(slot, out);
    }

    pub(super) fn on_prepare(&mut self, from: Index, vote: Vote, out: &mut Outs<Self>) {
        let Vote { view, slot, digest } = vote;
        // The primary's proposal is its PREPARE.
        if !self.is_wanted(view, slot) || from == self.config.primary(view) {
            return;
        }
        if self.slots.entry(slot).or_default().prepares.add(from, view, digest) {
            self.advance(slot, out);
        }
    }

    pub(super) fn on_commit(&mut self, from: Index, vote: Vote, out: &mut Outs<Self>) {
        let Vote { view, slot, digest } = vote;
        if self.is_wanted(view, slot) && self.slots.entry(slot).or_default().commits.add(from, view, digest) {
            self.advance(slot, out);
        }
    }

    /// Learns a decision that f+1 replicas claim: one of them is correct.
    pub(super) fn on_decided(&mut self, from: Index, decision: Decision, out: &mut Outs<Self>) {
        let Decision { slot, digest } = decision;
        if !self.in_window(slot) {
            return;
        }
        let state = self.slots.entry(slot).or_default();
        if state.decided.is_some() || !state.claims.add(from, 0, digest) {
            return;
        }
        if state.claims.count(0, digest) == self.config.quorums.one_correct() {
            state.learned = Some(digest);
            self.decide_learned(slot, out);
        }
    }

    /// Decides what was learned, once the batch is at hand.
    pub(super) fn decide_learned(&mut self, slot: Slot, out: &mut Outs<Self>) {
        let learned = self.slots.get(&slot).filter(|state| state.decided.is_none()).and_then(|state| state.learned);
        match learned {
            Some(digest) if self.has(digest) => self.decide(slot, digest, out),
            Some(digest) => out.push(Out::Send(To::All, Msg::Fetch(Fetch { digest }))),
            None => {}
        }
    }

    /// Returns true if votes of the view count. Those of a view to come wait for it: one per replica and slot.
    fn is_wanted(&self, view: View, slot: Slot) -> bool {
        view >= self.view && self.in_window(slot)
    }

    /// Votes and decides as far as a slot allows.
    pub(super) fn advance(&mut self, slot: Slot, out: &mut Outs<Self>) {
        let (view, me, quorum) = (self.view, self.me, self.config.quorum());
        let Some(state) = self.slots.get_mut(&slot) else { return };
        let Some(digest) = state.accepted_in(view) else { return };
        let vote = Vote { view, slot, digest };
        let unprepared = state.prepared_in(view).is_none();
        if unprepared && self.phase == Phase::Active && state.prepares.count(view, digest) + 1 >= quorum {
            state.prepared = Some((view, digest));
            state.commits.add(me, view, digest);
            #[cfg(feature = "mutations")]
            let late = self.config.breaks(super::config::Mutation::VoteBeforeDurable);
            #[cfg(not(feature = "mutations"))]
            let late = false;
            if !late {
                out.push(Out::Persist(Record::Prepared(vote)));
            }
            out.push(Out::OrderVoted { slot, view });
            out.push(Out::Send(To::All, Msg::Commit(vote)));
            if late {
                out.push(Out::Persist(Record::Prepared(vote)));
            }
        }
        if state.prepared_in(view) == Some(digest) && state.commits.count(view, digest) >= quorum {
            self.decide(slot, digest, out);
        }
    }

    /// Notes a decision. A slot that is decided stays decided: later views repeat its batch.
    fn decide(&mut self, slot: Slot, digest: B256, out: &mut Outs<Self>) {
        let Some(state) = self.slots.get_mut(&slot) else { return };
        if let Some(before) = state.decided {
            if before != digest {
                out.push(Out::Conflict { slot });
            }
            return;
        }
        state.decided = Some(digest);
        out.push(Out::Persist(Record::Decided(slot, digest)));
        let batch = if digest == NULL { None } else { self.batches.get(&digest).cloned() };
        out.push(Out::Decided { slot, batch });
        self.extend_decided(0, out);
    }
}
