//! Inputs of a replica, and which rule handles which.

use super::{
    config::Config,
    message::{Msg, PrePrepare, Record, StateShare, is_member},
    replica::{Job, Phase, Sbft, Timer},
};
use crate::core::{
    Base, Checked, ConfigError, Index, Input, Micros, Outs, Patient as _, Protocol, Reach, ReplicaSet, Signed, View,
};
use alloy_primitives::Bytes;
use std::sync::Arc;

impl Protocol for Sbft {
    type Config = Config;
    type Msg = Msg;
    type Record = Record;
    type Timer = Timer;

    fn check(config: &Config) -> Result<(), ConfigError> {
        config.check()
    }

    fn batch_bytes(config: &Config) -> usize {
        config.batch_bytes
    }

    fn open(me: Index, config: Arc<Config>, base: Base, log: &[Record], out: &mut Outs<Self>) -> Self {
        let mut replica = Self::restored(me, config, base, log);
        replica.resume(out);
        replica
    }

    fn wants(&self, from: Index, message: &Msg) -> bool {
        is_member(from, self.config.quorums.n())
            && from != self.me
            && match message {
                Msg::PrePrepare(proposal) => self.wants_proposal(proposal),
                Msg::Prepare(certificate) => self.wants_certificate(certificate),
                Msg::Decided(decision) => self.wants_decision(decision),
                Msg::Executed(executed, _) => self.wants_executed(executed),
                Msg::Stable(stable) => self.wants_stable(stable),
                Msg::Equivocation(one, other) => self.wants_evidence(one, other),
                Msg::ViewChange(change) => self.wants_change(change),
                Msg::NewView(signed) => self.wants_opening(signed),
                _ => true,
            }
    }

    fn on_message(&mut self, now: Micros, from: Index, message: Checked<Msg>, out: &mut Outs<Self>) {
        if !self.wants(from, message.get()) {
            return;
        }
        match message.into_inner() {
            Msg::PrePrepare(proposal) => self.on_pre_prepare(now, proposal, out),
            Msg::SignShare(share) => self.on_sign_share(now, from, share, out),
            Msg::Commit(share) => self.on_commit(now, from, share, out),
            Msg::Prepare(certificate) => self.on_prepare(from, certificate, out),
            Msg::Decided(decision) => self.on_decision(from, decision, out),
            Msg::SignState(share) => self.on_sign_state(from, share, out),
            Msg::Executed(executed, signature) => self.on_executed(executed, signature, out),
            Msg::SignCheckpoint(share) => self.on_checkpoint(from, share, out),
            Msg::Stable(stable) => self.on_stable(stable, out),
            Msg::Equivocation(one, other) => self.on_evidence([*one, *other], out),
            Msg::ViewChange(change) => self.on_view_change(change, out),
            Msg::NewView(signed) => self.enter(signed, out),
            Msg::Fetch(digest) => self.on_fetch(now, from, digest, out),
            Msg::Fetched(batch) => self.on_batch(batch, out),
            Msg::Status(status) => self.on_status(now, from, status, out),
            Msg::Complaint(view) => self.on_complaint(from, view, out),
        }
        self.set_timers(out);
    }

    fn on_timer(&mut self, now: Micros, timer: Timer, out: &mut Outs<Self>) {
        match timer {
            Timer::Complain => self.complaint_is_due(out),
            Timer::Progress => self.patience_is_over(out),
            Timer::NewView => {
                self.clock.new_view_runs = false;
                if self.phase == Phase::Changing {
                    self.leave(self.view + 1, out);
                }
            }
            Timer::Resend => {
                self.clock.resend_runs = None;
                self.repeat(out);
            }
            Timer::Collect(slot, step) => self.turn_comes(now, slot, step, out),
            Timer::State(slot) => self.state_turn_comes(slot, out),
            Timer::Help(slot) => self.ask_for_help(now, slot, out),
        }
        self.set_timers(out);
    }

    fn on_input(&mut self, now: Micros, input: Input, out: &mut Outs<Self>) {
        match input {
            Input::Batch(batch) => self.propose(batch, out),
            Input::Pending(pending) => {
                if pending != self.pending {
                    self.progress(out);
                }
                self.pending = pending;
            }
            Input::Committed { slot, digest } => self.on_committed(slot, digest, out),
            Input::Signed { job, signature } => {
                if let Some(job) = self.jobs.end(job) {
                    self.signed(now, job, signature, out);
                }
            }
            Input::Combined { job, result } => {
                if let Some(job) = self.jobs.end(job) {
                    self.combined(now, job, result, out);
                }
            }
            Input::Hold(hold) => {
                self.hold = hold;
                if !hold {
                    self.accept_held(now, out);
                }
            }
            Input::Installed(base) => self.install(base, out),
        }
        self.set_timers(out);
    }

    fn room(&self) -> u64 {
        self.free_places()
    }

    fn view(&self) -> View {
        self.view
    }

    fn leader(&self) -> Index {
        self.config.primary(self.view)
    }

    fn journal(&self) -> Vec<Record> {
        self.records()
    }

    fn reach(&self) -> Option<Reach> {
        let stable = self.checkpoints.stable.checkpoint.slot;
        Some(Reach { view: self.view, stable, last: stable + self.config.window() })
    }

    /// The VIEW-CHANGE names a checkpoint above all that the replica may have signed for, and keeps it out of lower views.
    fn speak(&mut self, view: View, out: &mut Outs<Self>) {
        self.leave(view.max(self.view + 1), out);
        self.set_timers(out);
    }
}

impl Sbft {
    /// Takes a signature that the host has made.
    fn signed(&mut self, now: Micros, job: Job, signature: Bytes, out: &mut Outs<Self>) {
        let signer = self.me;
        match job {
            Job::Propose(vote, batch) => self.send_proposal(now, vote, batch, signature, out),
            Job::Share(vote, group) => self.add_own_share(now, vote, group, signature, out),
            Job::Commit(vote, collector) => self.send_commit(now, vote, collector, signature, out),
            Job::State(slot, digest) => self.send_state(StateShare { slot, digest, share: signature }, out),
            Job::Checkpoint(slot, digest) => self.send_checkpoint(StateShare { slot, digest, share: signature }, out),
            Job::ViewChange(body) => self.send_change(Signed { signer, signature, body }, out),
            Job::NewView(body) => self.open_view(Signed { signer, signature, body }, out),
            Job::Collect(..) | Job::Certify(..) | Job::Stabilise(..) => {}
        }
    }

    /// Takes a group's signature, or bans the replicas whose shares were wrong.
    fn combined(&mut self, now: Micros, job: Job, result: Result<Bytes, ReplicaSet>, out: &mut Outs<Self>) {
        if let Err(liars) = &result {
            // A failure without a liar would fail again.
            if liars.is_empty() {
                return;
            }
            self.ban(liars);
        }
        match job {
            Job::Collect(vote, step, group) => self.collected(now, vote, step, group, result.ok(), out),
            Job::Certify(slot, digest) => self.state_combined(slot, digest, result.ok(), out),
            Job::Stabilise(slot, digest) => self.checkpoint_combined(slot, digest, result.ok(), out),
            _ => {}
        }
    }

    /// Returns true if a proposal's outside is right.
    fn wants_proposal(&self, proposal: &PrePrepare) -> bool {
        let vote = proposal.signed.body.0;
        vote.view == self.view
            && self.phase == Phase::Active
            && proposal.signed.signer == self.config.primary(vote.view)
            && vote.digest == proposal.batch.digest()
            && proposal.batch.bytes() <= self.config.batch_bytes
            && self.may_hold(vote.slot, proposal.batch.bytes())
            && self.in_window(vote.slot)
            && vote.slot > self.filled()
            // A second proposal of the slot is news as evidence only.
            && self.slots.get(&vote.slot).is_none_or(|state| match state.proposed() {
                Some(first) => first.body.0 != vote,
                None => state.accepted_in(vote.view).is_none(),
            })
    }
}
