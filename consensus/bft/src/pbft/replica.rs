//! A replica's state, and which rule handles which input.

use super::{
    choose::Choice,
    config::Config,
    message::{Checkpoint, Leaving, Msg, NewView, Record, Status, ViewChange, is_member},
    slots::SlotState,
};
use crate::core::{
    Base, Batch, Budgets, Checked, Complaints, ConfigError, Index, Input, Micros, NULL, Out, Outs, Patient as _,
    Protocol, Reach, ReplicaSet, Signed, Slot, View,
};
use alloy_primitives::B256;
use std::{collections::BTreeMap, sync::Arc};

/// Repetition is slower by this factor while a replica waits for nothing: it may have missed that there is something.
const IDLE_RATE: u64 = 16;

/// Doublings of the timeout at most.
const MOST_DOUBLINGS: u32 = 10;

/// Timers of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Something accepted, or a client's request, has waited for its place in the order for half of the patience with a primary.
    Complain,
    /// The same has waited for all of that patience.
    Progress,
    /// A quorum waits for the primary to open a view.
    NewView,
    /// Others may have missed something.
    Resend,
}

/// True if a replica is in its view, or waits for it to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Active,
    Changing,
}

/// A signature that the host owes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Job {
    Checkpoint(Checkpoint),
    ViewChange(ViewChange),
    NewView(NewView),
}

/// A PBFT replica.
#[derive(Clone, Debug)]
pub struct Pbft {
    pub(super) me: Index,
    pub(super) config: Arc<Config>,
    pub(super) view: View,
    pub(super) phase: Phase,
    /// Checkpoint below the window, and what proves it: nothing for the genesis state.
    pub(super) stable: Base,
    pub(super) proof: Vec<Signed<Checkpoint>>,
    /// Slots of the window that something is known of.
    pub(super) slots: BTreeMap<Slot, SlotState>,
    /// Batches that slots name.
    pub(super) batches: BTreeMap<B256, Batch>,
    /// Next slot that this replica proposes for as primary.
    pub(super) next: Slot,
    /// Every slot up to this one is decided.
    pub(super) decided: Slot,
    /// Every slot up to this one is executed and durable.
    pub(super) committed: Slot,
    /// Newest signed checkpoints above the stable one, of each replica, ascending.
    pub(super) checkpoints: BTreeMap<Index, Vec<Signed<Checkpoint>>>,
    /// Highest slot that f+1 replicas have a checkpoint of, and replicas that evidence is known against.
    pub(super) ahead: Slot,
    pub(super) accused: ReplicaSet,
    /// Newest view change of each replica.
    pub(super) changes: BTreeMap<Index, Leaving>,
    /// Newest NEW-VIEW that is known, entered or not; repeated for replicas that do not know it.
    pub(super) opening: Option<Signed<NewView>>,
    /// Decision of a view change whose batches are being fetched, or whose signature is due.
    pub(super) deciding: Option<Choice>,
    pub(super) jobs: BTreeMap<u64, Job>,
    pub(super) next_job: u64,
    /// Number of the oldest client's request without a place in the order.
    pub(super) pending: Option<u64>,
    /// The pipeline is behind.
    pub(super) hold: bool,
    /// View changes since the last progress.
    pub(super) attempts: u32,
    pub(super) complaints: Complaints,
    /// Timers that run.
    pub(super) progress_runs: bool,
    pub(super) new_view_runs: bool,
    pub(super) budgets: Budgets,
    /// `Some(true)` if repetition runs at its full rate.
    pub(super) resend_runs: Option<bool>,
}

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
            Timer::Progress => {
                self.progress_runs = false;
                self.patience_is_over(out);
            }
            Timer::NewView => {
                self.new_view_runs = false;
                if self.phase == Phase::Changing {
                    self.leave(self.view + 1, out);
                }
            }
            Timer::Resend => {
                self.resend_runs = None;
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
                let (signer, job) = (self.me, self.jobs.remove(&job));
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
        let leads = self.is_active() && self.leader() == self.me && !self.hold;
        if leads { (self.stable.slot + self.config.window() + 1).saturating_sub(self.next) } else { 0 }
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

impl Pbft {
    /// Returns true if the view is open.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// The stable checkpoint.
    #[must_use]
    pub const fn stable(&self) -> Base {
        self.stable
    }

    /// Every slot up to this one is decided.
    #[must_use]
    pub const fn decided(&self) -> Slot {
        self.decided
    }

    /// Highest view whose NEW-VIEW this replica knows; zero if it knows none.
    #[must_use]
    pub fn opened(&self) -> View {
        self.opening.as_ref().map_or(0, |opening| opening.body.view)
    }

    /// Returns true if the batch is proposed or decided in some slot of the window.
    #[must_use]
    pub fn is_in_flight(&self, digest: B256) -> bool {
        let named = |state: &SlotState| state.accepted_in(self.view) == Some(digest) || state.decided == Some(digest);
        self.slots.values().any(named)
    }

    /// The digest decided in a slot of the window.
    #[must_use]
    pub fn decision(&self, slot: Slot) -> Option<B256> {
        self.slots.get(&slot).and_then(|state| state.decided)
    }

    /// The batch with this digest, `None` for the null filler and for batches that are not at hand.
    #[must_use]
    pub fn batch(&self, digest: B256) -> Option<Batch> {
        self.batches.get(&digest).cloned()
    }

    /// Returns true if the slot is in the window of slots in flight.
    pub(super) fn in_window(&self, slot: Slot) -> bool {
        slot > self.stable.slot && slot <= self.stable.slot + self.config.window()
    }

    /// Returns true if the content of a slot is at hand.
    pub(super) fn has(&self, digest: B256) -> bool {
        digest == NULL || self.batches.contains_key(&digest)
    }

    /// Keeps a batch, and logs it the first time.
    pub(super) fn keep(&mut self, batch: Batch, out: &mut Outs<Self>) {
        self.batches.entry(batch.digest()).or_insert_with(|| {
            out.push(Out::Persist(Record::Batch(batch.clone())));
            batch
        });
    }

    pub(super) fn sign(&mut self, job: Job, bytes: Vec<u8>, out: &mut Outs<Self>) {
        let number = self.next_job;
        self.next_job += 1;
        self.jobs.insert(number, job);
        out.push(Out::Work { job: number, crypto: crate::core::Crypto::Sign(bytes) });
    }

    /// Returns true if something waits for its place in the order.
    pub(super) fn is_waiting(&self) -> bool {
        let accepted =
            |state: &SlotState| state.accepted.is_some() || state.decided.is_some() || state.missing.is_some();
        self.pending.is_some() || self.slots.range(self.decided + 1..).any(|(_, state)| accepted(state))
    }

    /// The current patience with a primary.
    fn patience(&self, attempts: u32) -> Micros {
        self.config.timeout << attempts.min(MOST_DOUBLINGS)
    }

    /// Sets and cancels timers by the state.
    pub(super) fn set_timers(&mut self, out: &mut Outs<Self>) {
        let progress = self.phase == Phase::Active && self.is_waiting();
        let patience = self.patience(self.attempts);
        switch(&mut self.progress_runs, progress, Timer::Progress, patience, out);
        let complain = progress && self.is_quiet();
        switch(&mut self.complaints.runs, complain, Timer::Complain, Complaints::due_after(patience), out);
        let quorum = self.phase == Phase::Changing
            && self.changes.values().filter(|known| known.change.body.view >= self.view).count()
                >= self.config.quorums.available();
        let new_view = self.patience(self.attempts.saturating_sub(1));
        switch(&mut self.new_view_runs, quorum, Timer::NewView, new_view, out);
        // A checkpoint above the decided prefix is reached soon, or its state has to be fetched.
        let behind = self.ahead > self.decided || self.committed < self.stable.slot;
        let announced = self.checkpoints.contains_key(&self.me);
        let resend = behind || self.is_waiting() || self.phase == Phase::Changing || announced;
        if self.resend_runs.is_none() || resend && self.resend_runs == Some(false) {
            let rest = if resend { 1 } else { IDLE_RATE };
            out.push(Out::Timer(Timer::Resend, self.config.resend * rest));
            self.resend_runs = Some(resend);
        }
    }

    /// Notes that the primary does its work: patience is as short as at first, and starts anew.
    pub(super) fn progress(&mut self, out: &mut Outs<Self>) {
        self.attempts = 0;
        self.restart_progress(out);
    }

    /// Starts patience anew.
    pub(super) fn restart_progress(&mut self, out: &mut Outs<Self>) {
        self.calm_down(out);
        if self.progress_runs {
            self.progress_runs = false;
            out.push(Out::Cancel(Timer::Progress));
        }
    }

    /// This replica's progress.
    pub(super) fn status(&self) -> Status {
        Status {
            view: self.view,
            active: self.is_active(),
            opened: self.opened(),
            stable: self.stable.slot,
            decided: self.decided,
        }
    }
}

fn switch(runs: &mut bool, wanted: bool, timer: Timer, after: Micros, out: &mut Outs<Pbft>) {
    if wanted && !*runs {
        out.push(Out::Timer(timer, after));
    } else if !wanted && *runs {
        out.push(Out::Cancel(timer));
    }
    *runs = wanted;
}
