//! Messages to the agreement of a slot, and its steps to messages.

use super::{
    certificate::{Complaint, Qc, Tc},
    config::Config,
    message::{Commit, Msg},
    record::Record,
    replica::{Autobahn, Job},
    slot::{Instance, Step},
    state::{Said, Timer},
    statement::{Ack, PrepVote},
};
use crate::{
    core::{Micros, Out, Outs, Signed, Slot, To},
    lanes::{Cut, cut_digest},
};
use std::sync::Arc;

impl Autobahn {
    /// Lets the agreement of a slot act, and performs its steps.
    pub(super) fn drive(
        &mut self,
        slot: Slot,
        out: &mut Outs<Self>,
        act: impl FnOnce(&mut Instance, &Config, &mut Vec<Step>),
    ) {
        let config = Arc::clone(&self.config);
        let mut steps = Vec::new();
        act(&mut self.slot(slot).instance, &config, &mut steps);
        self.perform(slot, steps, out);
    }

    pub(super) fn perform(&mut self, slot: Slot, steps: Vec<Step>, out: &mut Outs<Self>) {
        for step in steps {
            match step {
                Step::Ack(ack, qc) => {
                    out.push(Out::Persist(Record::Acked(qc)));
                    self.sign(Job::Ack(ack), out);
                }
                Step::Complain(timeout) => {
                    out.push(Out::Persist(Record::Complained(slot, timeout.view)));
                    self.sign(Job::Timeout(timeout), out);
                }
                Step::Confirm(qc) => self.say(slot, Said::Confirm, To::All, Msg::Confirm(qc), out),
                Step::Spread(tc) => self.say(slot, Said::Tc, To::All, Msg::Tc(tc), out),
                Step::Wait(_) => {
                    let fast = self.config.fast.unwrap_or_default();
                    out.push(Out::Timer(Timer::Fast(slot), fast));
                }
                Step::Enter(view) => {
                    let state = self.slot(slot);
                    let newer = |kind: &Said| matches!(kind, Said::Timeout | Said::Tc);
                    state.said.retain(|kind, _| newer(kind));
                    state.pending = state.pending.take().filter(|prepare| prepare.vote.body.view >= view);
                }
                Step::Ticket(tc) => {
                    out.push(Out::Persist(Record::Ticket(tc.clone())));
                    self.slot(slot).said.insert(Said::Tc, (To::All, Msg::Tc(tc)));
                }
                Step::Commit(qc, tell) => self.committed(slot, qc, tell, out),
            }
        }
    }

    fn committed(&mut self, slot: Slot, qc: Qc, tell: bool, out: &mut Outs<Self>) {
        self.top = self.top.max(slot);
        let state = self.slot(slot);
        state.said.clear();
        state.pending = None;
        let cut = state.cuts.get(&qc.digest).cloned();
        if state.patience.take().is_some() {
            out.push(Out::Cancel(Timer::Patience(slot)));
        }
        out.push(Out::Cancel(Timer::Fast(slot)));
        out.extend(cut.clone().map(|cut| Out::Persist(Record::Cut(slot, cut))));
        out.push(Out::Persist(Record::Committed(qc.clone())));
        if tell {
            out.push(Out::Send(To::All, Msg::Commit(Commit { qc: qc.clone(), cut: Cut::new() })));
        }
        match cut {
            Some(cut) => drop(std::mem::replace(&mut self.slot(slot).cuts, [(qc.digest, cut)].into())),
            None => self.want_cut(slot, qc.digest, out),
        }
    }

    pub(super) fn on_vote(&mut self, signed: Signed<PrepVote>, out: &mut Outs<Self>) {
        let Signed { signer, signature, body } = signed;
        if self.in_window(body.slot) {
            self.drive(body.slot, out, |instance, config, steps| {
                instance.on_vote(config, signer, &body, signature, steps);
            });
        }
    }

    pub(super) fn on_ack(&mut self, signed: Signed<Ack>, out: &mut Outs<Self>) {
        let Signed { signer, signature, body } = signed;
        if self.in_window(body.slot) {
            self.drive(body.slot, out, |instance, config, steps| {
                instance.on_ack(config, signer, &body, signature, steps);
            });
        }
    }

    pub(super) fn on_confirm(&mut self, qc: Qc, out: &mut Outs<Self>) {
        self.slot(qc.slot).seen = true;
        self.drive(qc.slot, out, |instance, config, steps| instance.on_confirm(config, qc, steps));
    }

    pub(super) fn on_commit(&mut self, commit: Commit, out: &mut Outs<Self>) {
        let Commit { qc, cut } = commit;
        let slot = qc.slot;
        // The cut of a slot that is decided already is logged where it is noted.
        let open = self.slot(slot).instance.committed.is_none();
        if open && cut.len() == self.config.quorums.n() && cut_digest(&cut) == qc.digest {
            self.slot(slot).cuts.insert(qc.digest, cut.clone());
        }
        if qc.is_commit(&self.config) {
            self.drive(slot, out, |instance, _, steps| instance.on_commit(qc, steps));
        }
        self.note_cut(slot, cut, out);
    }

    pub(super) fn on_complaint(&mut self, now: Micros, complaint: Complaint, out: &mut Outs<Self>) {
        let (slot, from) = (complaint.timeout.body.slot, complaint.timeout.signer);
        let past = self.quota.note(from, slot);
        if !past.is_empty() {
            self.slots.range_mut(past).for_each(|(_, state)| state.forget_complaint(from));
        }
        if self.slot(slot).instance.committed.is_some() {
            return self.send_decision(now, from, slot, out);
        }
        if !complaint.cut.is_empty() {
            let n = self.config.quorums.n();
            let state = self.slot(slot);
            state.cuts.insert(complaint.timeout.body.prop.digest, complaint.cut.clone());
            state.bound_cuts(n);
        }
        self.drive(slot, out, |instance, config, steps| instance.on_complaint(config, complaint, steps));
    }

    pub(super) fn on_tc(&mut self, tc: Tc, out: &mut Outs<Self>) {
        if let Some((slot, _)) = tc.of(&self.config) {
            self.drive(slot, out, |instance, config, steps| instance.on_tc(config, tc, steps));
        }
    }
}
