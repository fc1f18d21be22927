//! Questions: cars and cuts that a replica lacks, off the path of the agreement.
//!
//! A certified tip proves its whole history, so one question names it all. A question goes to one replica at a time, a replica that
//! certified the tip first, and to the next one with each repetition.

use super::{
    message::{Msg, Sync, WantCut},
    record::Record,
    replica::Autobahn,
    state::Ask,
};
use crate::{
    core::{Index, Out, Outs, Slot, To},
    lanes::{Certificate, Cut, Missing, cut_digest},
};
use alloy_primitives::B256;

impl Autobahn {
    /// Notes which replicas have a lane's cars.
    pub(super) fn note_sources(&mut self, certificate: &Certificate) {
        let signers: Vec<Index> = certificate.ballots.iter().map(|ballot| ballot.signer).collect();
        if !signers.is_empty() {
            self.questions.sources.insert(certificate.lane, signers);
        }
    }

    /// Asks for missing cars, unless they are asked for.
    pub(super) fn ask(&mut self, missing: Missing, first: Option<Index>, out: &mut Outs<Self>) {
        let key = (missing.lane, missing.tip.digest);
        // Questions are bounded: each lane has few branches that a correct replica can name.
        if self.questions.asked.contains_key(&key) || self.questions.asked.len() >= 4 * self.config.quorums.n() + 16 {
            return;
        }
        let ask = Ask { missing, first, attempts: 0, ticks: 0 };
        self.questions.asked.insert(key, ask);
        self.send_ask(ask, out);
    }

    fn send_ask(&self, ask: Ask, out: &mut Outs<Self>) {
        let Missing { lane, tip, above } = ask.missing;
        let known = self.questions.sources.get(&lane).into_iter().flatten().copied();
        let all = self.config.quorums.replicas().map(|at| Index((at.0 + lane.0) % self.config.quorums.n() as u16));
        let order: Vec<Index> = ask.first.into_iter().chain(known).chain(all).filter(|at| *at != self.me).collect();
        if let Some(to) = order.get(ask.attempts % order.len().max(1)) {
            out.push(Out::Send(To::One(*to), Msg::Sync(Sync { lane, tip, above })));
        }
    }

    /// Repeats questions, each to the next replica, and drops those whose answer is of no use any longer.
    pub(super) fn repeat_asks(&mut self, out: &mut Outs<Self>) {
        let (lanes, lost) = (&self.lanes, self.lanes.lost());
        self.questions.asked.retain(|(lane, digest), ask| {
            let tip = ask.missing.tip;
            lost == Some(tip) || tip.position > lanes.committed(*lane).position && lanes.car(*digest).is_none()
        });
        // The own lane goes on once its newest car is back, and has votes again.
        if let Some(tip) = lost {
            self.ask(Missing { lane: self.me, tip, above: tip.position - 1 }, None, out);
        }
        // Optimistic tips that no proposal names any longer stay unanswered.
        self.questions.asked.retain(|_, ask| ask.ticks < 64);
        let mut due = Vec::new();
        for ask in self.questions.asked.values_mut() {
            ask.ticks += 1;
            if ask.ticks.is_power_of_two() || ask.ticks.is_multiple_of(8) {
                ask.attempts += 1;
                due.push(*ask);
            }
        }
        due.into_iter().for_each(|ask| self.send_ask(ask, out));
    }

    pub(super) fn want_cut(&self, slot: Slot, digest: B256, out: &mut Outs<Self>) {
        out.push(Out::Send(To::All, Msg::WantCut(WantCut { slot, digest })));
    }

    /// Asks for the cut that a proposal needs, unless that was done in this view.
    pub(super) fn ask_cut(&mut self, want: WantCut, out: &mut Outs<Self>) {
        let view = self.view_of(want.slot);
        let state = self.slot(want.slot);
        if state.asked != Some(view) {
            state.asked = Some(view);
            self.want_cut(want.slot, want.digest, out);
        }
    }

    /// Digest of the cut that a slot needs and lacks.
    pub(super) fn lacks_cut(&self, slot: Slot) -> Option<B256> {
        let state = self.slots.get(&slot)?;
        let decided = state.instance.committed.as_ref().map(|qc| qc.digest);
        let digest = decided.or_else(|| state.instance.bound(&self.config))?;
        (!state.cuts.contains_key(&digest)).then_some(digest)
    }

    /// Notes a cut that was asked for.
    pub(super) fn note_cut(&mut self, slot: Slot, cut: Cut, out: &mut Outs<Self>) {
        let digest = cut_digest(&cut);
        if self.lacks_cut(slot) == Some(digest)
            || self.slots.get(&slot).is_some_and(|s| s.instance.bound(&self.config) == Some(digest))
        {
            let decided = self.slots.get(&slot).is_some_and(|state| state.instance.committed.is_some());
            self.slot(slot).cuts.insert(digest, cut.clone());
            if decided {
                out.push(Out::Persist(Record::Cut(slot, cut)));
            }
        }
    }
}
