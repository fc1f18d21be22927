//! A replica's state, and what all rules use.

use super::{
    certificate::Qc,
    config::Config,
    message::Msg,
    quota::Quota,
    state::{Checkpoints, Planned, Questions, Said, SlotState, Timers},
    statement::{Ack, Checkpoint, PrepVote, Timeout},
};
use crate::{
    core::{Batch, Budgets, Crypto, Index, Jobs, Out, Outs, ReplicaSet, Slot, Statement as _, To, View},
    lanes::{Ballot, Certificate, Cut, Header, LaneVote, Lanes, Tip},
};
use std::{collections::BTreeMap, sync::Arc};

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
    pub(super) questions: Questions,
    pub(super) checkpoints: Checkpoints,
    pub(super) timers: Timers,
    pub(super) jobs: Jobs<Job>,
    pub(super) budgets: Budgets,
    pub(super) quota: Quota,
    /// Replicas of which evidence is out.
    pub(super) accused: ReplicaSet,
    /// The pipeline is behind: no own proposals.
    pub(super) hold: bool,
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
        &self.checkpoints.stable
    }

    /// Number of cars, slots and cuts in memory.
    #[must_use]
    pub fn size(&self) -> (usize, usize, usize) {
        let cuts = self.slots.values().map(|state| state.cuts.len()).sum();
        (self.lanes.cars().count(), self.slots.len(), cuts)
    }

    /// Number of batches that fit into the own lane now.
    pub(super) fn free_places(&self) -> u64 {
        u64::from(!self.hold && self.lanes.has_room())
    }

    /// Returns true if a replica is another member.
    pub(super) fn is_other(&self, replica: Index) -> bool {
        usize::from(replica.0) < self.config.quorums.n() && replica != self.me
    }

    pub(super) fn in_window(&self, slot: Slot) -> bool {
        slot > self.checkpoints.stable.slot && slot <= self.checkpoints.stable.slot + self.config.window()
    }

    /// The slot, which is in the window.
    pub(super) fn slot(&mut self, slot: Slot) -> &mut SlotState {
        let me = self.me;
        self.slots.entry(slot).or_insert_with(|| SlotState::new(me, slot))
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

    pub(super) fn proofs(&self, cut: &[Tip]) -> Vec<Certificate> {
        let certificates = (0..)
            .map(Index)
            .zip(cut)
            .filter_map(|(lane, tip)| self.lanes.certificate(lane).filter(|certificate| certificate.tip == *tip));
        certificates.collect()
    }
}
