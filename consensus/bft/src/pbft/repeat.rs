//! Repeating what others missed, against loss.

use super::{
    message::{Decision, Fetch, Msg, PrePrepare, Status, Vote},
    replica::{Pbft, Phase},
};
use crate::core::{Index, Micros, Out, Outs, Patient as _, SMALL, Slot, To, Want};
use alloy_rlp::Encodable as _;

/// Slots whose messages are repeated for one STATUS.
const MOST_REPEATED: usize = 32;

impl Pbft {
    /// Repeats what others may have missed, and asks for what this replica misses.
    pub(super) fn repeat(&mut self, out: &mut Outs<Self>) {
        out.push(Out::Send(To::All, Msg::Status(self.status())));
        self.repeat_complaint(out);
        if self.phase == Phase::Changing
            && let Some(own) = self.changes.newest.get(&self.me).filter(|own| own.change.body.view == self.view)
        {
            out.push(Out::Send(To::All, Msg::ViewChange(own.clone())));
        }
        let own = self.checkpoints.get(&self.me).into_iter().flatten().cloned();
        out.extend(own.map(|signed| Out::Send(To::All, Msg::Checkpoint(signed))));
        let missing = self.slots.values().filter_map(|state| state.missing);
        out.extend(missing.map(|(_, digest)| Out::Send(To::All, Msg::Fetch(Fetch { digest }))));
        let learned: Vec<Slot> =
            self.slots.iter().filter(|(_, s)| s.learned.is_some()).map(|(slot, _)| *slot).collect();
        learned.into_iter().for_each(|slot| self.decide_learned(slot, out));
        self.finish_deciding(out);
        if self.committed < self.stable.slot {
            out.push(Out::Want(Want::state(self.stable, &self.proof)));
        } else if let Some((base, proof)) = self.certified(Slot::MAX) {
            out.push(Out::Want(Want::state(base, &proof)));
        }
    }

    /// Answers a request for a batch.
    pub(super) fn on_fetch(&mut self, now: Micros, from: Index, fetch: Fetch, out: &mut Outs<Self>) {
        if let Some(batch) = self.batches.get(&fetch.digest)
            && self.budgets.spend(from, now, self.config.resend, SMALL + batch.bytes())
        {
            out.push(Out::Send(To::One(from), Msg::Fetched(batch.clone())));
        }
    }

    /// Answers a replica that is behind, as far as its budget goes.
    pub(super) fn on_status(&mut self, now: Micros, from: Index, status: Status, out: &mut Outs<Self>) {
        let mut budgets = std::mem::take(&mut self.budgets);
        let mut send = |message: Msg| {
            let bytes = match &message {
                Msg::PrePrepare(proposal) => SMALL + proposal.batch.bytes(),
                Msg::Prepare(_) | Msg::Commit(_) | Msg::Decided(_) => SMALL,
                other => SMALL + other.length(),
            };
            if budgets.spend(from, now, self.config.resend, bytes) {
                out.push(Out::Send(To::One(from), message));
            }
        };
        self.answer(status, &mut send);
        self.budgets = budgets;
    }

    fn answer(&self, status: Status, send: &mut impl FnMut(Msg)) {
        if let Some(opening) = self.changes.opening.as_ref().filter(|opening| opening.body.view > status.opened) {
            send(Msg::NewView(opening.clone()));
        }
        let own = self.changes.newest.get(&self.me).filter(|own| own.change.body.view == self.view);
        if let Some(own) = own.filter(|_| self.phase == Phase::Changing)
            && (status.view < self.view || status.view == self.view && !status.active)
        {
            send(Msg::ViewChange(own.clone()));
        }
        if status.stable < self.stable.slot {
            self.proof.iter().cloned().map(Msg::Checkpoint).for_each(&mut *send);
        }
        let after = status.decided.max(self.stable.slot).saturating_add(1);
        let repeated = || self.slots.range(after..).take(MOST_REPEATED);
        for (slot, digest) in repeated().filter_map(|(slot, state)| Some((*slot, state.decided?))) {
            send(Msg::Decided(Decision { slot, digest }));
        }
        if !self.is_active() || !status.active || status.view != self.view {
            return;
        }
        let leads = self.config.primary(self.view) == self.me;
        for (slot, state) in repeated() {
            let (slot, view) = (*slot, self.view);
            if let Some(digest) = state.accepted_in(view) {
                match self.batches.get(&digest) {
                    Some(batch) if leads => send(Msg::PrePrepare(PrePrepare { view, slot, batch: batch.clone() })),
                    _ if leads => {}
                    _ => send(Msg::Prepare(Vote { view, slot, digest })),
                }
            }
            if let Some(digest) = state.prepared_in(view) {
                send(Msg::Commit(Vote { view, slot, digest }));
            }
        }
    }
}
