//! Repeating what others missed, against loss.

use super::{
    message::{Msg, PrePrepare, Proposal, Status, Vote},
    replica::{Phase, Sbft},
    slots::SlotState,
};
use crate::core::{Index, Micros, Out, Outs, Patient as _, SMALL, Signed, Slot, To};
use alloy_primitives::B256;
use alloy_rlp::Encodable as _;

/// Slots whose messages are repeated for one STATUS.
const MOST_REPEATED: usize = 32;

impl Sbft {
    /// Repeats what others may have missed, and asks for what this replica misses.
    pub(super) fn repeat(&mut self, out: &mut Outs<Self>) {
        self.changes.verified.clear();
        out.push(Out::Send(To::All, Msg::Status(self.status())));
        self.repeat_complaint(out);
        if self.phase == Phase::Changing
            && let Some(own) = self.changes.newest.get(&self.me).filter(|own| own.body.view == self.view)
        {
            out.push(Out::Send(To::All, Msg::ViewChange(own.clone())));
        }
        // A checkpoint whose collectors are silent is gathered by all.
        let own = self.checkpoints.shares.get(&self.me).into_iter().flat_map(|own| own.values()).cloned();
        out.extend(own.map(|share| Out::Send(To::All, Msg::SignCheckpoint(share))));
        self.fill_missing(out);
        let named = |state: &SlotState| {
            let learned = state.learned.as_ref().map(|learned| learned.vote.digest);
            state.missing.map(|(_, digest)| digest).or(learned)
        };
        let missing: Vec<B256> = self.slots.values().filter_map(named).filter(|digest| !self.has(*digest)).collect();
        out.extend(missing.into_iter().map(|digest| Out::Send(To::All, Msg::Fetch(digest))));
        self.want_state(out);
    }

    /// Answers a request for a batch.
    pub(super) fn on_fetch(&mut self, now: Micros, from: Index, digest: B256, out: &mut Outs<Self>) {
        if let Some(batch) = self.batches.get(&digest)
            && self.budgets.spend(from, now, self.config.resend, SMALL + batch.bytes())
        {
            out.push(Out::Send(To::One(from), Msg::Fetched(batch.clone())));
        }
    }

    /// Answers a replica that is behind, as far as its budget goes.
    pub(super) fn on_status(&mut self, now: Micros, from: Index, status: Status, out: &mut Outs<Self>) {
        let mut budgets = core::mem::take(&mut self.budgets);
        let mut send = |message: Msg| {
            let bytes = match &message {
                Msg::PrePrepare(proposal) => SMALL + proposal.batch.bytes(),
                Msg::NewView(_) | Msg::ViewChange(_) => SMALL + message.length(),
                _ => SMALL,
            };
            if budgets.spend(from, now, self.config.resend, bytes) {
                out.push(Out::Send(To::One(from), message));
            }
        };
        self.answer(from, status, &mut send);
        self.budgets = budgets;
    }

    fn answer(&self, from: Index, status: Status, send: &mut impl FnMut(Msg)) {
        if let Some(opening) = self
            .changes
            .opening
            .as_ref()
            .filter(|opening| opening.body.view > status.view || opening.body.view == status.view && !status.active)
        {
            send(Msg::NewView(opening.clone()));
        }
        let own = self.changes.newest.get(&self.me).filter(|own| own.body.view == self.view);
        if let Some(own) = own.filter(|_| self.phase == Phase::Changing)
            && (status.view < self.view || status.view == self.view && !status.active)
        {
            send(Msg::ViewChange(own.clone()));
        }
        let stable = self.checkpoints.certified.as_ref().unwrap_or(&self.checkpoints.stable);
        if status.stable < stable.checkpoint.slot {
            send(Msg::Stable(stable.clone()));
        }
        let after = status.decided.max(self.checkpoints.stable.checkpoint.slot).saturating_add(1);
        let repeated = || self.slots.range(after..).take(MOST_REPEATED);
        // A proof needs no second witness.
        for decision in repeated().filter_map(|(_, state)| state.decided.as_ref()) {
            send(Msg::Decided(decision.clone()));
        }
        if !self.is_active() || !status.active || status.view != self.view {
            return;
        }
        for (slot, state) in repeated() {
            self.answer_slot(from, *slot, state, send);
        }
    }

    /// Repeats what this replica contributes to a slot of the current view.
    fn answer_slot(&self, from: Index, slot: Slot, state: &SlotState, send: &mut impl FnMut(Msg)) {
        let (view, primary) = (self.view, self.config.primary(self.view));
        if let Some(certificate) = state.prepared_in(view) {
            send(Msg::Prepare(certificate.clone()));
        }
        let signed: Option<&Signed<Proposal>> = state.signed.as_ref();
        if let Some(signed) = signed.filter(|_| primary == self.me)
            && let Some(batch) = self.batches.get(&signed.body.0.digest)
        {
            send(Msg::PrePrepare(PrePrepare { signed: signed.clone(), batch: batch.clone() }));
        }
        let vote = state.accepted_in(view).map(|digest| Vote { view, slot, digest });
        let collects = vote.is_some() && (from == primary || self.config.collectors(slot, view).any(|to| to == from));
        if collects {
            self.own_share(slot).into_iter().for_each(|own| send(Msg::SignShare(own)));
            self.own_commit(slot).into_iter().for_each(|own| send(Msg::Commit(own)));
        }
    }
}
