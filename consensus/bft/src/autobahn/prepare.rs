//! PREPARE at a replica: which proposals are fit, and when their data allows a vote.

use super::{
    config::{Spread, Tips},
    message::Prepare,
    record::Record,
    replica::{Autobahn, Job},
    state::Timer,
    statement::PrepVote,
};
use crate::{
    core::{Index, Out, Outs, Slot},
    lanes::{Missing, cut_digest},
};
use std::sync::Arc;

impl Autobahn {
    /// Returns true if a PREPARE can lead to a vote, or to a ticket.
    pub(super) fn wants_prepare(&self, from: Index, prepare: &Prepare) -> bool {
        let PrepVote { slot, view, .. } = prepare.vote.body;
        let new = self.slots.get(&slot).is_none_or(|state| {
            state.instance.committed.is_none()
                && view >= state.instance.view()
                && state.pending.as_ref().is_none_or(|known| known.vote.body.view < view)
                && state.instance.vote().get().is_none_or(|(voted, _)| voted < view)
        });
        new && self.is_fit(from, prepare)
    }

    /// Returns true if a PREPARE comes from its leader with a ticket, and with no more certificates than it needs.
    pub(super) fn is_fit(&self, from: Index, prepare: &Prepare) -> bool {
        let PrepVote { slot, view, digest } = prepare.vote.body;
        let config = &self.config;
        let (n, one_correct) = (config.quorums.n(), config.quorums.one_correct());
        let ticket = match (&prepare.commit[..], &prepare.tc[..]) {
            (commit, []) if view == 0 => match commit {
                [] => slot <= config.parallel,
                [qc] => qc.slot + config.parallel == slot && qc.is_commit(config),
                _ => false,
            },
            ([], [tc]) if view > 0 => tc.of(config) == Some((slot, view - 1)),
            _ => false,
        };
        let proven =
            prepare.proofs.len() <= n && prepare.proofs.iter().all(|proof| proof.is_well_formed(one_correct, n));
        ticket
            && proven
            && self.in_window(slot)
            && prepare.vote.signer == from
            && config.leader(slot, view) == from
            && prepare.cut.len() == n
            && cut_digest(&prepare.cut) == digest
    }

    pub(super) fn on_prepare(&mut self, prepare: Prepare, out: &mut Outs<Self>) {
        let slot = prepare.vote.body.slot;
        if let Some(qc) = prepare.commit.first().filter(|qc| self.in_window(qc.slot)) {
            let qc = qc.clone();
            self.drive(qc.slot, out, |instance, _, steps| instance.on_commit(qc, steps));
        }
        if let Some(tc) = prepare.tc.first() {
            let tc = tc.clone();
            self.drive(slot, out, |instance, config, steps| {
                instance.on_tc(config, tc.clone(), steps);
                instance.adopt(config, tc);
            });
        }
        for proof in &prepare.proofs {
            self.note_sources(proof);
            self.lanes.certify(proof.clone());
        }
        let (vote, spread, n) = (prepare.vote.clone(), self.config.spread, self.config.quorums.n());
        let state = self.slot(slot);
        state.seen = true;
        if state.instance.view() > vote.body.view {
            return;
        }
        state.lead = Some(vote.clone());
        state.cuts.insert(vote.body.digest, prepare.cut.clone());
        state.pending = Some(prepare);
        state.bound_cuts(n);
        if spread == Spread::AllToAll {
            self.on_vote(vote, out);
        }
    }

    /// Votes for proposals whose data is here.
    pub(super) fn vote_pending(&mut self, out: &mut Outs<Self>) {
        let waiting: Vec<Slot> =
            self.slots.iter().filter(|(_, state)| state.pending.is_some()).map(|(slot, _)| *slot).collect();
        for slot in waiting {
            self.try_vote(slot, out);
        }
    }

    fn try_vote(&mut self, slot: Slot, out: &mut Outs<Self>) {
        let Some(state) = self.slots.get(&slot) else { return };
        let Some(prepare) = &state.pending else { return };
        let (vote, leader) = (prepare.vote.body, prepare.vote.signer);
        if !state.instance.is_open(&self.config) || vote.view != state.instance.view() {
            return;
        }
        // A value that an earlier view may have decided has the votes of correct replicas, which have its data.
        let missing = match state.instance.bound(&self.config) {
            Some(_) => Ok(Vec::new()),
            None => self.missing_tips(leader, prepare),
        };
        match missing {
            Err(()) => self.slot(slot).pending = None,
            Ok(missing) if !missing.is_empty() => {
                if !std::mem::replace(&mut self.timers.tips, true) {
                    out.push(Out::Timer(Timer::Tips, self.config.tip_wait));
                }
            }
            Ok(_) => {
                let config = Arc::clone(&self.config);
                let state = self.slot(slot);
                let cut = state.pending.take().map(|prepare| prepare.cut).unwrap_or_default();
                if let Some(vote) = state.instance.accept(&config, vote.digest) {
                    out.push(Out::Persist(Record::Cut(slot, cut)));
                    out.push(Out::Persist(Record::Voted(vote)));
                    self.sign(Job::Vote(vote), out);
                }
            }
        }
    }

    /// Asks leaders for the data that votes still wait for.
    pub(super) fn ask_tips(&mut self, out: &mut Outs<Self>) {
        let waiting = self.slots.values().filter_map(|state| {
            let prepare = state.pending.as_ref().filter(|_| state.instance.is_open(&self.config))?;
            let missing = self.missing_tips(prepare.vote.signer, prepare).unwrap_or_default();
            Some((prepare.vote.signer, missing))
        });
        let waiting: Vec<(Index, Vec<Missing>)> = waiting.collect();
        for (leader, missing) in waiting {
            missing.into_iter().for_each(|missing| self.ask(missing, Some(leader), out));
        }
    }

    /// Tips of a proposal whose data a vote has to wait for. Fails if a tip is not allowed at all.
    fn missing_tips(&self, leader: Index, prepare: &Prepare) -> Result<Vec<Missing>, ()> {
        let mut missing = Vec::new();
        for (lane, tip) in (0..).map(Index).zip(prepare.cut.iter().copied()) {
            let certified = tip == self.lanes.certified(lane)
                || prepare.proofs.iter().any(|proof| (proof.lane, proof.tip) == (lane, tip));
            if tip.position <= self.lanes.committed(lane).position || certified {
                continue;
            }
            let allowed = match self.config.tips {
                Tips::Certified => false,
                Tips::Own => lane == leader,
                Tips::Optimistic => true,
            };
            if !allowed {
                return Err(());
            }
            #[cfg(feature = "mutations")]
            if self.config.breaks(super::config::Mutation::VoteWithoutData) {
                continue;
            }
            match self.lanes.car(tip.digest).map(|car| car.header.body) {
                Some(header) if (header.lane, header.position) == (lane, tip.position) => {}
                Some(_) => return Err(()),
                None => missing.push(Missing { lane, tip, above: tip.position - 1 }),
            }
        }
        Ok(missing)
    }
}
