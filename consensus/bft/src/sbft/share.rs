//! Statements that the host has signed: the own proposal, and the own shares, which go to the collectors.

use super::{
    message::{CommitShare, Msg, PrePrepare, Proposal, Record, Vote},
    replica::{Phase, Sbft, Timer},
};
use crate::core::{Batch, Group, Index, Micros, Out, Outs, Signed, Slot, To};
use alloy_primitives::Bytes;

impl Sbft {
    /// Sends a signed proposal, and accepts it.
    pub(super) fn send_proposal(
        &mut self,
        now: Micros,
        vote: Vote,
        batch: Batch,
        signature: Bytes,
        out: &mut Outs<Self>,
    ) {
        if vote.view != self.view || self.phase != Phase::Active || !self.in_window(vote.slot) {
            out.push(Out::Returned(batch));
            return;
        }
        let signed = Signed { signer: self.me, signature, body: Proposal(vote) };
        self.keep(batch.clone(), out);
        self.slots.entry(vote.slot).or_default().signed = Some(signed.clone());
        // Durable before it leaves: no number is used twice.
        self.accept(vote, out);
        out.push(Out::Send(To::All, Msg::PrePrepare(PrePrepare { signed, batch })));
        self.collect(now, vote.slot, out);
    }

    /// Sends both shares to the collectors once they are made.
    pub(super) fn add_own_share(&mut self, now: Micros, vote: Vote, group: Group, share: Bytes, out: &mut Outs<Self>) {
        if !self.votes_now(vote) {
            return;
        }
        let Some(state) = self.slots.get_mut(&vote.slot) else { return };
        match group {
            Group::Fast => state.own.fast = Some(share),
            _ => state.own.slow = Some(share),
        }
        let Some(own) = self.own_share(vote.slot) else { return };
        let collectors: Vec<Index> = self.config.collectors(vote.slot, vote.view).collect();
        self.to_collectors(&collectors, &Msg::SignShare(own.clone()), out);
        let state = self.slots.entry(vote.slot).or_default();
        if state.decided.is_none() && !state.own.help_runs {
            state.own.help_runs = true;
            out.push(Out::Timer(Timer::Help(vote.slot), self.config.help));
        }
        if collectors.contains(&self.me) {
            self.add_share(now, self.me, own, out);
        }
    }

    /// COMMIT: to the collectors, and to the one that sent the certificate.
    pub(super) fn send_commit(
        &mut self,
        now: Micros,
        vote: Vote,
        collector: Index,
        share: Bytes,
        out: &mut Outs<Self>,
    ) {
        if !self.votes_now(vote) {
            return;
        }
        let Some(state) = self.slots.get_mut(&vote.slot) else { return };
        state.own.commit = Some(share.clone());
        let mut collectors: Vec<Index> = self.config.collectors(vote.slot, vote.view).collect();
        let primary = self.config.primary(vote.view);
        if !collectors.contains(&collector) && collector == primary {
            collectors.push(primary);
        }
        let commit = CommitShare { vote, share };
        self.to_collectors(&collectors, &Msg::Commit(commit.clone()), out);
        if self.shares_before_durable() {
            let prepared = self.slots.get(&vote.slot).and_then(|state| state.prepared.clone());
            out.extend(prepared.map(|certificate| Out::Persist(Record::Prepared(certificate))));
            out.push(Out::OrderVoted { slot: vote.slot, view: vote.view });
        }
        if collectors.contains(&self.me) {
            self.add_commit(now, self.me, commit, out);
        }
    }

    /// Sends a share to every collector but this replica.
    fn to_collectors(&self, collectors: &[Index], message: &Msg, out: &mut Outs<Self>) {
        let others = collectors.iter().filter(|to| **to != self.me);
        out.extend(others.map(|to| Out::Send(To::One(*to), message.clone())));
    }

    /// Returns true if the replica may sign for this vote: it has accepted it in the view that it is in.
    fn votes_now(&self, vote: Vote) -> bool {
        let accepted = self.slots.get(&vote.slot).and_then(|state| state.accepted_in(vote.view));
        vote.view == self.view && self.phase == Phase::Active && accepted == Some(vote.digest)
    }

    /// Turns to the primary with a slot that no collector has brought to an end.
    pub(super) fn ask_for_help(&mut self, now: Micros, slot: Slot, out: &mut Outs<Self>) {
        let Some(state) = self.slots.get_mut(&slot) else { return };
        state.own.help_runs = false;
        if state.decided.is_some() || self.phase != Phase::Active {
            return;
        }
        (state.own.help_runs, state.own.helped) = (true, true);
        out.push(Out::Timer(Timer::Help(slot), self.config.help));
        self.send_shares_to_primary(now, slot, out);
    }

    /// Gives the primary the own shares of a slot.
    pub(super) fn send_shares_to_primary(&mut self, now: Micros, slot: Slot, out: &mut Outs<Self>) {
        let (primary, own, commit) = (self.config.primary(self.view), self.own_share(slot), self.own_commit(slot));
        if primary == self.me {
            if let Some(own) = own {
                self.add_share(now, primary, own, out);
            }
            if let Some(commit) = commit {
                self.add_commit(now, primary, commit, out);
            }
        } else {
            out.extend(own.map(|own| Out::Send(To::One(primary), Msg::SignShare(own))));
            out.extend(commit.map(|commit| Out::Send(To::One(primary), Msg::Commit(commit))));
        }
    }
}
