//! Inputs of a replica, and which rule handles which.

use super::{
    certificate::Complaint,
    config::{Config, Spread},
    message::Msg,
    record::Record,
    replica::{Autobahn, Job},
    state::{Said, Timer},
};
use crate::{
    core::{Base, Checked, ConfigError, Index, Input, Micros, Out, Outs, Protocol, Reach, Signed, Slot, To, View},
    lanes::{Ballot, Car},
};
use alloy_primitives::Bytes;
use std::sync::Arc;

impl Protocol for Autobahn {
    type Config = Config;
    type Msg = Msg;
    type Record = Record;
    type Timer = Timer;

    const OWN_REQUESTS: bool = true;

    fn check(config: &Config) -> Result<(), ConfigError> {
        config.check()
    }

    fn batch_bytes(config: &Config) -> usize {
        config.batch_bytes
    }

    fn open(me: Index, config: Arc<Config>, base: Base, log: &[Record], out: &mut Outs<Self>) -> Self {
        let mut replica = Self::restored(me, config, log);
        replica.resume(base, out);
        replica
    }

    fn wants(&self, from: Index, message: &Msg) -> bool {
        self.needs(from, message) || self.is_other(from) && self.incriminates(from, message)
    }

    fn on_message(&mut self, now: Micros, from: Index, message: Checked<Msg>, out: &mut Outs<Self>) {
        if self.wants(from, message.get()) {
            self.examine(message.get(), out);
        }
        if self.needs(from, message.get()) {
            self.handle(now, from, message.into_inner(), out);
            self.settle(out);
        }
    }

    fn on_timer(&mut self, _now: Micros, timer: Timer, out: &mut Outs<Self>) {
        match timer {
            Timer::Patience(slot) => {
                if let Some(state) = self.slots.get_mut(&slot)
                    && let Some(view) = state.patience.take()
                {
                    let mut steps = Vec::new();
                    state.instance.on_patience_end(&self.config, view, &mut steps);
                    // Another timer runs when the next view begins.
                    state.patience = Some(view);
                    self.perform(slot, steps, out);
                }
            }
            Timer::Fast(slot) => self.drive(slot, out, |instance, config, steps| instance.on_wait_end(config, steps)),
            Timer::Tips => {
                self.timers.tips = false;
                self.ask_tips(out);
            }
            Timer::Cover => (self.timers.cover, self.timers.cover_ended) = (false, true),
            Timer::Resend => {
                self.timers.resend = None;
                self.quota.renew();
                self.repeat(out);
            }
        }
        self.settle(out);
    }

    fn on_input(&mut self, _now: Micros, input: Input, out: &mut Outs<Self>) {
        match input {
            Input::Batch(batch) => self.load(batch, out),
            // Each replica has its own lane: no other one has to serve its clients.
            Input::Pending(_) | Input::Combined { .. } => {}
            Input::Committed { slot, digest } => self.on_committed(slot, digest, out),
            Input::Signed { job, signature } => {
                if let Some(job) = self.jobs.end(job) {
                    self.signed(job, signature, out);
                }
            }
            Input::Hold(hold) => self.hold = hold,
            Input::Installed(base) => self.install(base, out),
        }
        self.settle(out);
    }

    fn room(&self) -> u64 {
        self.free_places()
    }

    /// Each replica serves its clients itself.
    fn leader(&self) -> Index {
        self.me
    }

    /// No batch is lost by a view change: lanes go on.
    fn view(&self) -> View {
        0
    }

    fn journal(&self) -> Vec<Record> {
        self.records()
    }

    /// Each slot has views of its own: what a replica has said in one binds it in no other.
    fn reach(&self) -> Option<Reach> {
        let stable = self.checkpoints.stable.slot;
        Some(Reach { view: 0, stable, last: stable + self.config.window() })
    }

    /// The cars of its lane: their positions are used.
    fn remind(&mut self, now: Micros, to: Index, out: &mut Outs<Self>) {
        self.send_lane(now, to, out);
    }
}

impl Autobahn {
    fn handle(&mut self, now: Micros, from: Index, message: Msg, out: &mut Outs<Self>) {
        match message {
            Msg::Car(car) => self.on_car(now, car, out),
            Msg::LaneVote(signed) => {
                let Signed { signer, signature, body } = signed;
                self.count_lane_vote(body, Ballot { signer, signature }, out);
            }
            Msg::Certificate(certificate) => self.on_certificate(certificate),
            Msg::Prepare(prepare) => self.on_prepare(prepare, out),
            Msg::Vote(signed) => self.on_vote(signed, out),
            Msg::Ack(signed) => self.on_ack(signed, out),
            Msg::Confirm(qc) => self.on_confirm(qc, out),
            Msg::Commit(commit) => self.on_commit(commit, out),
            Msg::Timeout(complaint) => self.on_complaint(now, complaint, out),
            Msg::Tc(tc) => self.on_tc(tc, out),
            Msg::Sync(sync) => self.on_sync(now, from, sync, out),
            Msg::Cars(cars) => self.on_cars(cars, out),
            Msg::WantCut(want) => self.on_want_cut(now, from, want, out),
            Msg::Cut(body) => self.note_cut(body.slot, body.cut, out),
            Msg::Status(status) => self.on_status(now, from, status, out),
            Msg::Checkpoint(signed) => self.on_checkpoint(signed, out),
            Msg::Stable(proof) => self.on_stable(proof, out),
        }
    }

    /// Goes on with a statement that the host has signed.
    fn signed(&mut self, job: Job, signature: Bytes, out: &mut Outs<Self>) {
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
}
