//! Inputs of a replica, and which rule handles which.

use super::{
    config::Config,
    message::{Msg, Record, is_member},
    replica::{Job, Pbft, Phase, Timer},
};
use crate::core::{
    Base, Checked, ConfigError, Index, Input, Micros, Outs, Patient as _, Protocol, Reach, Signed, View,
};
use std::sync::Arc;

impl Protocol for Pbft {
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
                Msg::Checkpoint(signed) => self.wants_checkpoint(signed),
                Msg::ViewChange(leaving) => self.wants_change(leaving),
                Msg::NewView(signed) => self.wants_opening(signed),
                _ => true,
            }
    }

    fn on_message(&mut self, now: Micros, from: Index, message: Checked<Msg>, out: &mut Outs<Self>) {
        if !self.wants(from, message.get()) {
            return;
        }
        match message.into_inner() {
            Msg::PrePrepare(proposal) => self.on_pre_prepare(now, from, proposal, out),
            Msg::Prepare(vote) => self.on_prepare(from, vote, out),
            Msg::Commit(vote) => self.on_commit(from, vote, out),
            Msg::Checkpoint(signed) => self.on_checkpoint(signed, out),
            Msg::ViewChange(leaving) => self.on_view_change(leaving, out),
            Msg::NewView(signed) => self.on_new_view(signed, out),
            Msg::Fetch(fetch) => self.on_fetch(now, from, fetch, out),
            Msg::Fetched(batch) => self.on_batch(batch, out),
            Msg::Decided(decision) => self.on_decided(from, decision, out),
            Msg::Status(status) => self.on_status(now, from, status, out),
            Msg::Complaint(view) => self.on_complaint(from, view, out),
        }
        self.set_timers(out);
    }

    fn on_timer(&mut self, _now: Micros, timer: Timer, out: &mut Outs<Self>) {
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
                let (signer, job) = (self.me, self.jobs.end(job));
                match job {
                    Some(Job::Checkpoint(body)) => self.announce(Signed { signer, signature, body }, out),
                    Some(Job::ViewChange(body)) => self.send_change(Signed { signer, signature, body }, out),
                    Some(Job::NewView(body)) => self.open_view(Signed { signer, signature, body }, out),
                    None => {}
                }
            }
            // No shares are combined here.
            Input::Combined { .. } => {}
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
        let stable = self.stable.slot;
        Some(Reach { view: self.view, stable, last: stable + self.config.window() })
    }

    /// The VIEW-CHANGE names a checkpoint above all that the replica may have prepared, and keeps it out of lower views.
    fn speak(&mut self, view: View, out: &mut Outs<Self>) {
        self.leave(view.max(self.view + 1), out);
        self.set_timers(out);
    }
}
