//! Slots: messages to the agreement of a slot, and its steps to messages. Lanes: cars and votes on them.

use super::{
    certificate::{Complaint, Qc, Tc},
    config::{Config, Spread, Tips},
    message::{Commit, Msg, Prepare},
    record::Record,
    replica::{Autobahn, Job, Said, Timer},
    slot::{Instance, Step},
    statement::{Ack, PrepVote},
};
use crate::{
    core::{Batch, Index, Micros, Out, Outs, Protocol as _, Signed, Slot, To},
    lanes::{Ballot, Car, Certificate, Cut, LaneVote, Missing, Taken, Tip, cut_digest},
};
use alloy_primitives::{B256, Bytes};
use std::collections::BTreeSet;

impl Autobahn {
    /// Puts a batch into the own lane.
    pub(super) fn load(&mut self, batch: Batch, out: &mut Outs<Self>) {
        if self.room() == 0 || batch.bytes() > self.config.batch_bytes {
            out.push(Out::Returned(batch));
            return;
        }
        let proof = self.lanes.proof();
        let header = self.lanes.make(&batch);
        self.sign(Job::Car(header, batch, proof), out);
    }

    /// Goes on with a statement that the host has signed.
    pub(super) fn signed(&mut self, _now: Micros, job: Job, signature: Bytes, out: &mut Outs<Self>) {
        let signer = self.me;
        match job {
            Job::Car(body, batch, proof) => {
                let car = Car { header: Signed { signer, signature, body }, batch, proof };
                let vote = self.lanes.give(car.clone());
                out.push(Out::Persist(Record::Car(car.clone())));
                out.push(Out::Persist(Record::LaneVote(vote)));
                out.push(Out::Send(To::All, Msg::Car(car)));
                self.sign(Job::LaneVote(vote), out);
            }
            Job::LaneVote(body) if body.lane == self.me => {
                self.count_lane_vote(body, Ballot { signer, signature }, out);
            }
            Job::LaneVote(body) => {
                let signed = Signed { signer, signature, body };
                out.push(Out::Send(To::One(body.lane), Msg::LaneVote(signed)));
            }
            Job::Lead(body, cut, proofs) => self.propose(Signed { signer, signature, body }, cut, proofs, out),
            Job::Vote(body) => {
                let to = self.collectors(body.slot, body.view);
                let signed = Signed { signer, signature, body };
                self.say(body.slot, Said::Vote, to, Msg::Vote(signed.clone()), out);
                self.on_vote(signed, out);
            }
            Job::Ack(body) => {
                let to = self.collectors(body.slot, body.view);
                let signed = Signed { signer, signature, body };
                self.say(body.slot, Said::Ack, to, Msg::Ack(signed.clone()), out);
                self.on_ack(signed, out);
            }
            Job::Timeout(body) => {
                let Some(state) = self.slots.get(&body.slot) else { return };
                let qc = state.instance.locked.iter().filter(|qc| qc.mark() == body.qc).cloned().collect();
                let cut = state.cuts.get(&body.prop.digest).cloned().unwrap_or_default();
                let prop = body.prop.get();
                let lead = state.lead.iter().filter(|lead| prop == Some((lead.body.view, lead.body.digest)));
                let lead = lead.cloned().collect();
                let complaint = Complaint { timeout: Signed { signer, signature, body }, qc, cut, lead };
                // A view that ended while the signature was made needs no complaint any longer.
                if complaint.is_whole(&self.config) {
                    self.say(body.slot, Said::Timeout, To::All, Msg::Timeout(complaint.clone()), out);
                    self.drive(body.slot, out, |instance, config, steps| {
                        instance.on_complaint(config, complaint, steps);
                    });
                }
            }
            Job::Checkpoint(body) => self.announce(Signed { signer, signature, body }, out),
        }
    }

    fn collectors(&self, slot: Slot, view: u64) -> To {
        match self.config.spread {
            Spread::Linear => To::One(self.config.leader(slot, view)),
            Spread::AllToAll => To::All,
        }
    }

    pub(super) fn on_car(&mut self, now: Micros, car: Car, out: &mut Outs<Self>) {
        if car.batch.timestamp_ms() > self.config.epoch_ms + now / 1000 + self.config.ahead_ms {
            return;
        }
        let lane = car.header.body.lane;
        self.note_sources(&car.certificate());
        let digest = car.header.body.digest();
        let known = self.lanes.car(digest).is_some();
        let taken = self.lanes.take(car.clone());
        if !known && matches!(taken, Taken::Waits(_)) && self.lanes.car(digest).is_some() {
            out.push(Out::Persist(Record::Car(car.clone())));
        }
        self.on_taken(lane, taken, Some(car), out);
    }

    /// Votes for a car, or asks for what it waits for.
    pub(super) fn on_taken(&mut self, lane: Index, taken: Taken, car: Option<Car>, out: &mut Outs<Self>) {
        match taken {
            Taken::Nothing => {}
            Taken::Vote(vote) => {
                let car = car.or_else(|| self.lanes.car(vote.tip.digest).cloned());
                out.extend(car.map(|car| Out::Persist(Record::Car(car))));
                out.push(Out::Persist(Record::LaneVote(vote)));
                self.vote_on_car(vote, out);
            }
            Taken::Again(vote) => self.vote_on_car(vote, out),
            Taken::Waits(missing) => self.ask(missing, Some(lane), out),
        }
    }

    fn vote_on_car(&mut self, vote: LaneVote, out: &mut Outs<Self>) {
        self.sign(Job::LaneVote(vote), out);
    }

    pub(super) fn count_lane_vote(&mut self, vote: LaneVote, ballot: Ballot, out: &mut Outs<Self>) {
        if let Some(certificate) = self.lanes.count(vote, ballot) {
            out.push(Out::Send(To::All, Msg::Certificate(certificate)));
        }
    }

    pub(super) fn on_certificate(&mut self, certificate: Certificate) {
        self.note_sources(&certificate);
        self.lanes.certify(certificate);
    }

    /// Lets the agreement of a slot act, and performs its steps.
    pub(super) fn drive(
        &mut self,
        slot: Slot,
        out: &mut Outs<Self>,
        act: impl FnOnce(&mut Instance, &Config, &mut Vec<Step>),
    ) {
        let config = std::sync::Arc::clone(&self.config);
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
        let (vote, spread) = (prepare.vote.clone(), self.config.spread);
        let state = self.slot(slot);
        state.seen = true;
        if state.instance.view() > vote.body.view {
            return;
        }
        state.lead = Some(vote.clone());
        state.cuts.insert(vote.body.digest, prepare.cut.clone());
        state.pending = Some(prepare);
        self.bound_cuts(slot);
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
                if !std::mem::replace(&mut self.tips_run, true) {
                    out.push(Out::Timer(Timer::Tips, self.config.tip_wait));
                }
            }
            Ok(_) => {
                let config = std::sync::Arc::clone(&self.config);
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
            let old: Vec<Slot> = self.slots.range(past).map(|(slot, _)| *slot).collect();
            old.into_iter().for_each(|slot| self.forget_complaint(slot, from));
        }
        if self.slot(slot).instance.committed.is_some() {
            return self.send_decision(now, from, slot, out);
        }
        if !complaint.cut.is_empty() {
            self.slot(slot).cuts.insert(complaint.timeout.body.prop.digest, complaint.cut.clone());
            self.bound_cuts(slot);
        }
        self.drive(slot, out, |instance, config, steps| instance.on_complaint(config, complaint, steps));
    }

    pub(super) fn on_tc(&mut self, tc: Tc, out: &mut Outs<Self>) {
        if let Some((slot, _)) = tc.of(&self.config) {
            self.drive(slot, out, |instance, config, steps| instance.on_tc(config, tc, steps));
        }
    }

    /// Drops a complaint and its cut.
    fn forget_complaint(&mut self, slot: Slot, from: Index) {
        let Some(state) = self.slots.get_mut(&slot) else { return };
        if let Some(complaint) = state.instance.complaints.remove(&from) {
            let digest = complaint.timeout.body.prop.digest;
            if !state.named().contains(&digest) {
                state.cuts.remove(&digest);
            }
        }
    }

    /// Cuts per slot stay few, however many views a slot has: those that something names, and n more.
    fn bound_cuts(&mut self, slot: Slot) {
        let n = self.config.quorums.n();
        let state = self.slot(slot);
        if state.cuts.len() > 2 * n + 4 {
            let named = state.named();
            let free: Vec<B256> = state.cuts.keys().filter(|digest| !named.contains(*digest)).copied().collect();
            let many = state.cuts.len() - (2 * n + 4);
            free.iter().take(many).for_each(|digest| drop(state.cuts.remove(digest)));
        }
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

impl super::replica::SlotState {
    /// Digests of cuts that something names: a proposal, a vote, a certificate, a ticket, a complaint.
    fn named(&self) -> BTreeSet<B256> {
        let Instance { locked, committed, ticket, complaints, .. } = &self.instance;
        let pending = self.pending.iter().map(|prepare| prepare.vote.body.digest);
        let certified = locked.iter().chain(committed).map(|qc| qc.digest);
        let of_ticket = ticket.iter().flat_map(|tc| &tc.timeouts).map(|timeout| timeout.body.prop.digest);
        let of_complaints = complaints.values().map(|complaint| complaint.timeout.body.prop.digest);
        let voted = [self.instance.vote().digest];
        pending.chain(certified).chain(of_ticket).chain(of_complaints).chain(voted).collect()
    }

    /// The cut that the slot probably gets.
    fn newest_cut(&self) -> Option<&[Tip]> {
        let decided = self.instance.committed.as_ref().map(|qc| qc.digest);
        let pending = self.pending.as_ref().map(|prepare| prepare.vote.body.digest);
        let digest = decided.or(pending).unwrap_or(self.instance.vote().digest);
        self.cuts.get(&digest).map(Vec::as_slice)
    }
}
