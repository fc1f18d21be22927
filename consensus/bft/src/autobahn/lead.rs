//! Proposals: when a leader may propose a cut, and which one.

use super::{
    config::Tips,
    message::{Msg, Prepare, WantCut},
    record::Record,
    replica::{Autobahn, Job},
    state::{Said, Timer},
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
        if grown >= self.config.coverage || view > 0 || grown > 0 && self.timers.cover_ended {
            self.timers.cover_ended = false;
            if std::mem::take(&mut self.timers.cover) {
                out.push(Out::Cancel(Timer::Cover));
            }
            return Some(cut);
        }
        if grown > 0 && !self.timers.cover {
            self.timers.cover = true;
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

    /// Returns true if a certified car waits for a cut: the leader of the slot has something to propose.
    pub(super) fn is_uncovered(&self, slot: Slot) -> bool {
        let covered = self.covered(slot);
        self.config.quorums.replicas().zip(covered).any(|(lane, covered)| self.lanes.certified(lane).position > covered)
    }

    /// Highest position of a lane that earlier proposals cover.
    pub(super) fn covered(&self, slot: Slot) -> Vec<u64> {
        let mut covered: Vec<u64> = self.lanes.frontier().iter().map(|tip| tip.position).collect();
        let first = self.done + 1;
        if first < slot {
            for cut in self.slots.range(first..slot).filter_map(|(_, state)| state.newest_cut()) {
                for (known, tip) in covered.iter_mut().zip(cut) {
                    *known = (*known).max(tip.position);
                }
            }
        }
        covered
    }
}
