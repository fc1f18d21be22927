//! Proposals: when a leader may propose a cut, and which one.

use super::{
    config::Tips,
    message::{Msg, Prepare, WantCut},
    record::Record,
    replica::{Autobahn, Job, Said, Timer},
    statement::PrepVote,
};
use crate::{
    core::{Index, Out, Outs, Signed, Slot, To},
    lanes::{Certificate, Cut, Tip, cut_digest},
};
use std::sync::Arc;

impl Autobahn {
    /// Returns true if a slot has its ticket: the slot before has begun, and the one k before is decided.
    pub(super) fn may_begin(&self, slot: Slot) -> bool {
        let begun = |slot: Slot| {
            slot <= self.done || self.slots.get(&slot).is_some_and(|s| s.seen || s.instance.committed.is_some())
        };
        let decided = |slot: Slot| {
            slot <= self.done || self.slots.get(&slot).is_some_and(|state| state.instance.committed.is_some())
        };
        begun(slot - 1) && (slot <= self.config.parallel || decided(slot - self.config.parallel))
    }

    /// Proposes in every slot that this replica leads and may begin.
    pub(super) fn lead_next(&mut self, out: &mut Outs<Self>) {
        let first = self.done + 1;
        for slot in first..=(self.done.max(self.top) + self.config.parallel + 1) {
            if !self.in_window(slot) {
                break;
            }
            let state = self.slots.get(&slot);
            let view = state.map_or(0, |state| state.instance.view());
            let leads = self.config.leader(slot, view) == self.me
                && state.is_none_or(|s| s.led.is_none_or(|led| led < view) && s.instance.is_open(&self.config));
            if leads && !self.hold && (view > 0 || self.may_begin(slot)) {
                self.lead(slot, view, out);
            }
        }
    }

    fn lead(&mut self, slot: Slot, view: u64, out: &mut Outs<Self>) {
        let bound = self.slots.get(&slot).and_then(|state| state.instance.bound(&self.config));
        let cut = match bound {
            Some(digest) => match self.slots.get(&slot).and_then(|state| state.cuts.get(&digest)) {
                Some(cut) => cut.clone(),
                None => return self.ask_cut(WantCut { slot, digest }, out),
            },
            None => match self.own_cut(slot, view, out) {
                Some(cut) => cut,
                None => return,
            },
        };
        let (config, digest) = (Arc::clone(&self.config), cut_digest(&cut));
        // The certificates of this cut: lanes grow while the proposal is signed.
        let proofs = self.proofs(&cut);
        let state = self.slot(slot);
        state.led = Some(view);
        state.cuts.insert(digest, cut.clone());
        if let Some(vote) = state.instance.accept(&config, digest) {
            state.seen = true;
            out.push(Out::Persist(Record::Cut(slot, cut.clone())));
            out.push(Out::Persist(Record::Voted(vote)));
            self.sign(Job::Lead(vote, cut, proofs), out);
        }
    }

    /// The newest tips, if enough lanes have grown.
    fn own_cut(&mut self, slot: Slot, view: u64, out: &mut Outs<Self>) -> Option<Cut> {
        let covered = self.covered(slot);
        let cut: Cut = self.config.quorums.replicas().map(|lane| self.candidate(lane)).collect();
        let grown = cut.iter().zip(&covered).filter(|(tip, covered)| tip.position > **covered).count();
        if grown >= self.config.coverage || view > 0 || grown > 0 && self.cover_ended {
            self.cover_ended = false;
            if std::mem::take(&mut self.cover_runs) {
                out.push(Out::Cancel(Timer::Cover));
            }
            return Some(cut);
        }
        if grown > 0 && !self.cover_runs {
            self.cover_runs = true;
            out.push(Out::Timer(Timer::Cover, self.config.cover_wait));
        }
        None
    }

    /// The newest tip of a lane that may be proposed.
    fn candidate(&self, lane: Index) -> Tip {
        let certified = self.lanes.certified(lane);
        let optimistic = match self.config.tips {
            Tips::Certified => false,
            Tips::Own => lane == self.me,
            Tips::Optimistic => true,
        };
        let newest = self.lanes.newest(lane);
        if optimistic && newest.position > certified.position { newest } else { certified }
    }

    /// Sends the own proposal, whose vote is durable and signed.
    pub(super) fn propose(&mut self, vote: Signed<PrepVote>, cut: Cut, proofs: Vec<Certificate>, out: &mut Outs<Self>) {
        let PrepVote { slot, view, .. } = vote.body;
        if !self.in_window(slot) {
            return;
        }
        let before = slot.checked_sub(self.config.parallel).filter(|before| *before > 0);
        let commit = before.and_then(|before| self.decision(before)).filter(|_| view == 0);
        let commit = commit.into_iter().cloned().collect();
        let state = self.slot(slot);
        let tc = state.instance.ticket.iter().filter(|_| view > 0).cloned().collect();
        let prepare = Prepare { vote: vote.clone(), cut, proofs, commit, tc };
        // The view may have ended while the signature was made.
        if state.instance.view() == view && state.instance.committed.is_none() {
            state.lead = Some(vote.clone());
            self.say(slot, Said::Prepare, To::All, Msg::Prepare(prepare), out);
            self.on_vote(vote, out);
        }
    }

    pub(super) fn proofs(&self, cut: &[Tip]) -> Vec<Certificate> {
        let certificates = (0..)
            .map(Index)
            .zip(cut)
            .filter_map(|(lane, tip)| self.lanes.certificate(lane).filter(|certificate| certificate.tip == *tip));
        certificates.collect()
    }

    /// Sets and cancels timers by the state.
    pub(super) fn set_timers(&mut self, out: &mut Outs<Self>) {
        let first = self.done + 1;
        for slot in first..=(self.top.max(self.done) + self.config.parallel + 1) {
            if !self.in_window(slot) {
                break;
            }
            let state = self.slots.get(&slot);
            let (view, waits) = state.map_or((0, false), |state| {
                let begun = state.seen || state.instance.view() > 0 || state.instance.vote().get().is_some();
                (state.instance.view(), begun)
            });
            let done = state.is_some_and(|state| state.instance.committed.is_some());
            let runs = state.and_then(|state| state.patience);
            if done || runs == Some(view) || !(waits || self.may_begin(slot) && self.is_uncovered(slot)) {
                continue;
            }
            let patience = self.config.timeout << view.min(10);
            self.slot(slot).patience = Some(view);
            out.push(Out::Timer(Timer::Patience(slot), patience));
        }
        let busy = self.is_busy();
        if self.resend_runs.is_none() || busy && self.resend_runs == Some(false) {
            let rest = if busy { 1 } else { super::repeat::IDLE_RATE };
            out.push(Out::Timer(Timer::Resend, self.config.resend * rest));
            self.resend_runs = Some(busy);
        }
    }

    /// Returns true if a certified car waits for a cut: the leader of the slot has something to propose.
    fn is_uncovered(&self, slot: Slot) -> bool {
        let covered = self.covered(slot);
        self.config.quorums.replicas().zip(covered).any(|(lane, covered)| self.lanes.certified(lane).position > covered)
    }
}
