//! A replica's state, and which rule handles which input.

use super::{
    certificate::Qc,
    config::Config,
    execute::Planned,
    message::{Msg, Prepare},
    quota::Quota,
    record::Record,
    slot::Instance,
    statement::{Ack, Checkpoint, PrepVote, Timeout, is_possible},
    sync::Ask,
};
use crate::{
    core::{
        Base, Batch, Budgets, Checked, ConfigError, Crypto, Index, Input, Jobs, Micros, Out, Outs, Protocol, Reach,
        ReplicaSet, Signed, Slot, Statement, To, View,
    },
    lanes::{Ballot, Certificate, Cut, Header, LaneVote, Lanes, cut_digest},
};
use alloy_primitives::B256;
use std::{collections::BTreeMap, sync::Arc};

/// Timers of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Patience with the leader of a slot.
    Patience(Slot),
    /// The votes of all replicas may still come.
    Fast(Slot),
    /// The data of optimistic tips may still come from its owners.
    Tips,
    /// More lanes may grow before this replica proposes.
    Cover,
    /// Others may have missed something.
    Resend,
}

/// A signature that the host owes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Car(Header, Batch, Vec<Ballot>),
    LaneVote(LaneVote),
    /// The own proposal.
    Lead(PrepVote, Cut, Vec<Certificate>),
    Vote(PrepVote),
    Ack(Ack),
    Timeout(Timeout),
    Checkpoint(Checkpoint),
}

/// Kinds of own messages that are repeated while a slot is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    Prepare,
    Vote,
    Confirm,
    Ack,
    Timeout,
    Tc,
}

/// A slot, and the cuts that its digests stand for.
#[derive(Clone, Debug)]
pub(super) struct SlotState {
    pub(super) instance: Instance,
    /// Proposal of the present view or a later one that this replica has not voted for.
    pub(super) pending: Option<Prepare>,
    /// The leader's own vote in the newest proposal, unless it came before a restart.
    pub(super) lead: Option<Signed<PrepVote>>,
    pub(super) cuts: BTreeMap<B256, Cut>,
    /// True if a proposal of some view was seen: the ticket of the next slot.
    pub(super) seen: bool,
    /// View that the patience timer runs for.
    pub(super) patience: Option<View>,
    /// View that this replica has proposed for.
    pub(super) led: Option<View>,
    /// View in which a cut was asked for.
    pub(super) asked: Option<View>,
    /// Latest own messages of each kind.
    pub(super) said: BTreeMap<Said, (To, Msg)>,
}

/// An Autobahn replica.
#[derive(Clone, Debug)]
pub struct Autobahn {
    pub(super) me: Index,
    pub(super) config: Arc<Config>,
    pub(super) lanes: Lanes,
    /// Slots above the last but one stable checkpoint, less k.
    pub(super) slots: BTreeMap<Slot, SlotState>,
    /// Every slot up to this one is decided, with its cars in the order.
    pub(super) done: Slot,
    /// Number of blocks up to that slot.
    pub(super) height: u64,
    /// Highest decided slot.
    pub(super) top: Slot,
    /// Blocks of the slots above, as far as they can be foreseen.
    pub(super) plan: Vec<Planned>,
    pub(super) asks: BTreeMap<(Index, B256), Ask>,
    /// Replicas that certified the newest known tip of each lane.
    pub(super) sources: BTreeMap<Index, Vec<Index>>,
    pub(super) jobs: Jobs<Job>,
    pub(super) tips_run: bool,
    pub(super) cover_runs: bool,
    pub(super) cover_ended: bool,
    /// `Some(true)` if repetition runs at its full rate.
    pub(super) resend_runs: Option<bool>,
    /// Highest slot and uncertified own car at the last repetition.
    pub(super) last_repeated: (Slot, B256),
    pub(super) budgets: Budgets,
    pub(super) quota: Quota,
    /// Replicas of which evidence is out.
    pub(super) accused: ReplicaSet,
    /// The pipeline is behind: no own proposals.
    pub(super) hold: bool,
    /// Stable checkpoint with its proof, and the one before.
    pub(super) stable: Checkpoint,
    pub(super) proof: Vec<Signed<Checkpoint>>,
    pub(super) older: Checkpoint,
    /// A proven checkpoint above what this replica can reach, and repetitions since it came.
    pub(super) beyond: Option<(Vec<Signed<Checkpoint>>, u32)>,
    /// Newest checkpoint of each replica above the stable one.
    pub(super) checkpoints: BTreeMap<Index, Signed<Checkpoint>>,
    /// Checkpoint slots that are done: height and frontier.
    pub(super) marks: BTreeMap<Slot, (u64, Cut)>,
    /// Outcomes that may belong to a checkpoint.
    pub(super) outcomes: BTreeMap<u64, B256>,
}

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
                self.tips_run = false;
                self.ask_tips(out);
            }
            Timer::Cover => (self.cover_runs, self.cover_ended) = (false, true),
            Timer::Resend => {
                self.resend_runs = None;
                self.quota.renew();
                self.repeat(out);
            }
        }
        self.settle(out);
    }

    fn on_input(&mut self, now: Micros, input: Input, out: &mut Outs<Self>) {
        match input {
            Input::Batch(batch) => self.load(batch, out),
            // Each replica has its own lane: no other one has to serve its clients.
            Input::Pending(_) | Input::Combined { .. } => {}
            Input::Committed { slot, digest } => self.on_committed(slot, digest, out),
            Input::Signed { job, signature } => {
                if let Some(job) = self.jobs.end(job) {
                    self.signed(now, job, signature, out);
                }
            }
            Input::Hold(hold) => self.hold = hold,
            Input::Installed(base) => self.install(base, out),
        }
        self.settle(out);
    }

    fn room(&self) -> u64 {
        u64::from(!self.hold && self.lanes.has_room())
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
        let stable = self.stable.slot;
        Some(Reach { view: 0, stable, last: stable + self.config.window() })
    }

    /// The cars of its lane: their positions are used.
    fn remind(&mut self, now: Micros, to: Index, out: &mut Outs<Self>) {
        self.send_lane(now, to, out);
    }
}

impl Autobahn {
    /// Every slot up to this one is decided, with all its cars here.
    #[must_use]
    pub const fn done(&self) -> Slot {
        self.done
    }

    /// Number of blocks up to that slot.
    #[must_use]
    pub const fn height(&self) -> u64 {
        self.height
    }

    /// The lanes.
    #[must_use]
    pub const fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Leader of the next slot, as far as this replica knows.
    #[must_use]
    pub fn next_leader(&self) -> Index {
        let slot = self.top.max(self.done) + 1;
        self.config.leader(slot, self.view_of(slot))
    }

    /// Highest view of the slots in memory.
    #[must_use]
    pub fn highest_view(&self) -> View {
        self.slots.values().map(|state| state.instance.view()).max().unwrap_or(0)
    }

    /// View of a slot.
    #[must_use]
    pub fn view_of(&self, slot: Slot) -> View {
        self.slots.get(&slot).map_or(0, |state| state.instance.view())
    }

    /// Certificate that decides a slot, as far as it is retained.
    #[must_use]
    pub fn decision(&self, slot: Slot) -> Option<&Qc> {
        self.slots.get(&slot).and_then(|state| state.instance.decision())
    }

    /// The stable checkpoint.
    #[must_use]
    pub const fn stable(&self) -> &Checkpoint {
        &self.stable
    }

    /// Number of cars, slots and cuts in memory.
    #[must_use]
    pub fn size(&self) -> (usize, usize, usize) {
        let cuts = self.slots.values().map(|state| state.cuts.len()).sum();
        (self.lanes.cars().count(), self.slots.len(), cuts)
    }

    /// Returns true if a replica is another member.
    fn is_other(&self, replica: Index) -> bool {
        usize::from(replica.0) < self.config.quorums.n() && replica != self.me
    }

    /// Returns true if a message can lead to something else than evidence.
    fn needs(&self, from: Index, message: &Msg) -> bool {
        let (config, n) = (&self.config, self.config.quorums.n());
        let one_correct = config.quorums.one_correct();
        let is_open = |slot: Slot| self.slots.get(&slot).is_none_or(|state| state.instance.committed.is_none());
        self.is_other(from)
            && match message {
                Msg::Car(car) => {
                    car.header.body.lane == from
                        && car.is_well_formed(one_correct, n)
                        && car.batch.bytes() <= config.batch_bytes
                }
                Msg::LaneVote(signed) => signed.signer == from && signed.body.lane == self.me,
                Msg::Certificate(certificate) => {
                    certificate.is_well_formed(one_correct, n)
                        && certificate.tip.position > self.lanes.certified(certificate.lane).position
                }
                Msg::Prepare(prepare) => self.wants_prepare(from, prepare),
                Msg::Vote(signed) => {
                    let PrepVote { slot, view, .. } = signed.body;
                    let lacks = |state: &SlotState| state.instance.lacks_vote(from, view);
                    signed.signer == from
                        && self.in_window(slot)
                        && is_open(slot)
                        && self.slots.get(&slot).is_none_or(lacks)
                }
                Msg::Ack(signed) => {
                    let Ack { slot, view, .. } = signed.body;
                    let lacks = |state: &SlotState| state.instance.lacks_ack(from, view);
                    signed.signer == from
                        && self.in_window(slot)
                        && is_open(slot)
                        && self.slots.get(&slot).is_none_or(lacks)
                }
                Msg::Confirm(qc) => self.in_window(qc.slot) && is_open(qc.slot) && qc.is_prepared(config),
                Msg::Commit(commit) => {
                    self.in_window(commit.qc.slot) && is_open(commit.qc.slot) && commit.qc.is_commit(config)
                        || self.lacks_cut(commit.qc.slot) == Some(cut_digest(&commit.cut))
                }
                Msg::Timeout(complaint) => {
                    let body = &complaint.timeout.body;
                    complaint.timeout.signer == from
                        && self.in_window(body.slot)
                        && self.quota.allows(from, body.slot)
                        && is_possible(body)
                        && complaint.is_whole(config)
                        && self.slots.get(&body.slot).is_none_or(|state| {
                            state.instance.committed.is_some() || state.instance.wants_complaint(from, body.view)
                        })
                }
                Msg::Tc(tc) => tc.of(config).is_some_and(|(slot, view)| {
                    self.in_window(slot)
                        && is_open(slot)
                        && self.slots.get(&slot).is_none_or(|s| s.instance.view() <= view + 1)
                }),
                Msg::Sync(sync) => usize::from(sync.lane.0) < n,
                Msg::Cars(cars) => self.wants_cars(cars) || self.is_forgotten(cars),
                Msg::WantCut(_) => true,
                Msg::Cut(body) => self.lacks_cut(body.slot) == Some(cut_digest(&body.cut)),
                // One certificate per lane: each costs its verification.
                Msg::Status(status) => {
                    status.tips.is_sorted_by(|a, b| a.lane < b.lane)
                        && status.tips.iter().all(|tip| tip.is_well_formed(one_correct, n))
                }
                Msg::Checkpoint(signed) => signed.signer == from && self.wants_checkpoint(signed),
                Msg::Stable(proof) => self.wants_stable(proof),
            }
    }

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

    pub(super) fn in_window(&self, slot: Slot) -> bool {
        slot > self.stable.slot && slot <= self.stable.slot + self.config.window()
    }

    /// The slot, which is in the window.
    pub(super) fn slot(&mut self, slot: Slot) -> &mut SlotState {
        let me = self.me;
        self.slots.entry(slot).or_insert_with(|| SlotState {
            instance: Instance::new(me, slot),
            pending: None,
            lead: None,
            cuts: BTreeMap::new(),
            seen: false,
            patience: None,
            led: None,
            asked: None,
            said: BTreeMap::new(),
        })
    }

    pub(super) fn sign(&mut self, job: Job, out: &mut Outs<Self>) {
        let domain = self.config.domain;
        let bytes = match &job {
            Job::Car(header, ..) => header.signed_bytes(domain),
            Job::LaneVote(vote) => vote.signed_bytes(domain),
            Job::Lead(vote, ..) | Job::Vote(vote) => vote.signed_bytes(domain),
            Job::Ack(ack) => ack.signed_bytes(domain),
            Job::Timeout(timeout) => timeout.signed_bytes(domain),
            Job::Checkpoint(checkpoint) => checkpoint.signed_bytes(domain),
        };
        self.jobs.begin(job, Crypto::Sign(bytes), out);
    }

    /// Sends a message of a slot, and keeps it to repeat it.
    pub(super) fn say(&mut self, slot: Slot, kind: Said, to: To, message: Msg, out: &mut Outs<Self>) {
        if to != To::One(self.me) {
            self.slot(slot).said.insert(kind, (to, message.clone()));
            out.push(Out::Send(to, message));
        }
    }

    /// Does what has become possible, and sets timers.
    pub(super) fn settle(&mut self, out: &mut Outs<Self>) {
        self.vote_pending(out);
        self.advance(out);
        self.lead_next(out);
        self.set_timers(out);
    }
}
