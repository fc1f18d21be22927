//! A replica's state, and which rule handles which input.

use super::{
    choose::Choice,
    config::Config,
    execute::States,
    message::{Msg, NewView, PrePrepare, Record, Stable, StateShare, Status, ViewChange, Vote, is_member},
    slots::{SlotState, Step},
    wait::FastPath,
};
use crate::core::{
    Base, Batch, Budgets, Checked, Complaints, ConfigError, Crypto, Group, Index, Input, Micros, NULL, Out, Outs,
    Patient as _, Protocol, Reach, ReplicaSet, Signed, Slot, View,
};
use alloy_primitives::{B256, Bytes};
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
    /// A collector's turn has come, or the fast path's time is over.
    Collect(Slot, Step),
    /// An execution collector's turn has come.
    State(Slot),
    /// No collector has answered: the primary is the last one.
    Help(Slot),
}

/// True if a replica is in its view, or waits for it to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Active,
    Changing,
}

/// Work that the host owes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Job {
    /// The primary's signature under its proposal.
    Propose(Vote, Batch),
    /// Own share of σ or τ over an accepted vote.
    Share(Vote, Group),
    /// Own share over a prepared vote, and the collector that sent its certificate.
    Commit(Vote, Index),
    /// Own share of π, and of a checkpoint.
    State(Slot, B256),
    Checkpoint(Slot, B256),
    ViewChange(ViewChange),
    NewView(NewView),
    /// Combined signatures.
    Collect(Vote, Step, Group),
    Certify(Slot, B256),
    Stabilise(Slot, B256),
}

/// An SBFT replica.
#[derive(Clone, Debug)]
pub struct Sbft {
    pub(super) me: Index,
    pub(super) config: Arc<Config>,
    pub(super) view: View,
    pub(super) phase: Phase,
    /// Checkpoint below the window.
    pub(super) stable: Stable,
    /// A proven checkpoint above the decided prefix: its state has to be fetched, or is executed soon.
    pub(super) certified: Option<Stable>,
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
    /// Shares over executed states, and over checkpoints by replica and slot.
    pub(super) states: BTreeMap<Slot, States>,
    pub(super) checkpoints: BTreeMap<Index, BTreeMap<Slot, StateShare>>,
    /// Replicas that the host has evidence against, and those whose shares were wrong.
    pub(super) accused: ReplicaSet,
    pub(super) banned: ReplicaSet,
    /// Newest view change of each replica, and how many of each were verified since the last repetition.
    pub(super) changes: BTreeMap<Index, Signed<ViewChange>>,
    pub(super) verified: BTreeMap<Index, u8>,
    /// Newest NEW-VIEW that was entered, and its choices.
    pub(super) opening: Option<Signed<NewView>>,
    pub(super) choice: Choice,
    pub(super) jobs: BTreeMap<u64, Job>,
    pub(super) next_job: u64,
    /// Number of the oldest client's request without a place in the order.
    pub(super) pending: Option<u64>,
    /// The pipeline is behind.
    pub(super) hold: bool,
    /// View changes since the last progress.
    pub(super) attempts: u32,
    pub(super) complaints: Complaints,
    /// Fast path of the slots that this replica collected for, and slots left without the signature of all.
    pub(super) fast_path: FastPath,
    pub(super) without_all: u32,
    /// Timers that run.
    pub(super) progress_runs: bool,
    pub(super) new_view_runs: bool,
    pub(super) budgets: Budgets,
    /// `Some(true)` if repetition runs at its full rate.
    pub(super) resend_runs: Option<bool>,
}

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
                if let Some(job) = self.jobs.remove(&job) {
                    self.signed(now, job, signature, out);
                }
            }
            Input::Combined { job, result } => {
                if let Some(job) = self.jobs.remove(&job) {
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
        if !self.is_active() || self.leader() != self.me || self.hold {
            return 0;
        }
        let window = (self.stable.checkpoint.slot + self.config.window() + 1).saturating_sub(self.next);
        let in_flight = (self.next - 1).saturating_sub(self.decided);
        window.min(self.config.active().saturating_sub(in_flight))
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
        let stable = self.stable.checkpoint.slot;
        Some(Reach { view: self.view, stable, last: stable + self.config.window() })
    }

    /// The VIEW-CHANGE names a checkpoint above all that the replica may have signed for, and keeps it out of lower views.
    fn speak(&mut self, view: View, out: &mut Outs<Self>) {
        self.leave(view.max(self.view + 1), out);
        self.set_timers(out);
    }
}

impl Sbft {
    /// Returns true if the view is open.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// The stable checkpoint.
    #[must_use]
    pub fn stable(&self) -> Base {
        self.stable.checkpoint.into()
    }

    /// Every slot up to this one is decided.
    #[must_use]
    pub const fn decided(&self) -> Slot {
        self.decided
    }

    /// Highest view whose NEW-VIEW was entered.
    #[must_use]
    pub fn opened(&self) -> View {
        self.opening.as_ref().map_or(0, |opening| opening.body.view)
    }

    /// The digest decided in a slot of the window.
    #[must_use]
    pub fn decision(&self, slot: Slot) -> Option<B256> {
        self.slots.get(&slot).and_then(|state| state.decided.as_ref()).map(|decision| decision.vote.digest)
    }

    /// The group whose signature decided a slot of the window: all or σ on the fast path, τ on the slow one.
    #[must_use]
    pub fn decided_by(&self, slot: Slot) -> Option<Group> {
        self.slots.get(&slot).and_then(|state| state.decided.as_ref()).map(|decision| decision.group)
    }

    /// Returns true if the current view has the batch in a slot, or a slot of the window is decided with it.
    #[must_use]
    pub fn is_in_flight(&self, digest: B256) -> bool {
        let decided = |state: &SlotState| state.decided.as_ref().is_some_and(|own| own.vote.digest == digest);
        let named = |state: &SlotState| state.accepted_in(self.view) == Some(digest) || decided(state);
        self.slots.values().any(named)
            || self.jobs.values().any(|job| matches!(job, Job::Propose(vote, _) if vote.digest == digest))
    }

    /// Replicas whose shares were wrong.
    #[must_use]
    pub const fn banned(&self) -> ReplicaSet {
        self.banned
    }

    /// Time that the next slot gives the fast path.
    #[must_use]
    pub fn fast_wait(&self) -> Micros {
        self.fast_path.wait(self.config.fast_wait)
    }

    /// Returns true if the slot is in the window of slots in flight.
    pub(super) fn in_window(&self, slot: Slot) -> bool {
        let stable = self.stable.checkpoint.slot;
        slot > stable && slot <= stable + self.config.window()
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

    /// Has the host do cryptographic work.
    pub(super) fn work(&mut self, job: Job, crypto: Crypto, out: &mut Outs<Self>) {
        let number = self.next_job;
        self.next_job += 1;
        self.jobs.insert(number, job);
        out.push(Out::Work { job: number, crypto });
    }

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

    /// Drops the shares of replicas, and takes no more of them. The own share may be among the wrong ones where a key file is
    /// damaged: then this replica collects from the others alone.
    fn ban(&mut self, liars: &ReplicaSet) {
        for liar in liars.iter() {
            self.banned.insert(liar);
            self.checkpoints.remove(&liar);
        }
        let banned = self.banned;
        self.slots.values_mut().for_each(|state| state.collect.drop_shares(&banned));
        self.states.values_mut().for_each(|state| state.shares.retain(|signer, _| !banned.contains(*signer)));
    }

    /// Returns true if something waits for its place in the order.
    pub(super) fn is_waiting(&self) -> bool {
        let known = |state: &SlotState| {
            state.accepted.is_some() || state.decided.is_some() || state.learned.is_some() || state.missing.is_some()
        };
        self.pending.is_some() || self.slots.range(self.decided + 1..).any(|(_, state)| known(state))
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
            && self.changes.values().filter(|known| known.body.view >= self.view).count()
                >= self.config.quorums.available();
        let new_view = self.patience(self.attempts.saturating_sub(1));
        switch(&mut self.new_view_runs, quorum, Timer::NewView, new_view, out);
        let behind = self.certified.is_some() || self.committed < self.stable.checkpoint.slot;
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
        Status { view: self.view, active: self.is_active(), stable: self.stable.checkpoint.slot, decided: self.decided }
    }

    /// Returns true if a proposal's outside is right.
    fn wants_proposal(&self, proposal: &PrePrepare) -> bool {
        let vote = proposal.signed.body.0;
        vote.view == self.view
            && self.phase == Phase::Active
            && proposal.signed.signer == self.config.primary(vote.view)
            && vote.digest == proposal.batch.digest()
            && proposal.batch.bytes() <= self.config.batch_bytes
            && self.in_window(vote.slot)
            && vote.slot > self.filled()
            // A second proposal of the slot is news as evidence only.
            && self.slots.get(&vote.slot).is_none_or(|state| match state.proposed() {
                Some(first) => first.body.0 != vote,
                None => state.accepted_in(vote.view).is_none(),
            })
    }

    /// Last slot that the view's NEW-VIEW has filled.
    pub(super) fn filled(&self) -> Slot {
        let current = self.opened() == self.view;
        if current { self.choice.last() } else { 0 }
    }
}

fn switch(runs: &mut bool, wanted: bool, timer: Timer, after: Micros, out: &mut Outs<Sbft>) {
    if wanted && !*runs {
        out.push(Out::Timer(timer, after));
    } else if !wanted && *runs {
        out.push(Out::Cancel(timer));
    }
    *runs = wanted;
}
