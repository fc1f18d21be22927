//! A replica's state, and what all rules use.

use super::{
    choose::Choice,
    config::Config,
    message::{Checkpoint, Leaving, NewView, Record, Status, ViewChange},
    slots::SlotState,
};
use crate::core::{Base, Batch, Budgets, Clock, Crypto, Index, Jobs, NULL, Out, Outs, ReplicaSet, Signed, Slot, View};
use alloy_primitives::B256;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

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

/// Knowledge of view changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Newest view change of each replica.
    pub(super) newest: BTreeMap<Index, Leaving>,
    /// Newest NEW-VIEW that is known, entered or not; repeated for replicas that do not know it.
    pub(super) opening: Option<Signed<NewView>>,
    /// Decision of a view change whose batches are being fetched, or whose signature is due.
    pub(super) deciding: Option<Choice>,
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
    pub(super) changes: Changes,
    pub(super) jobs: Jobs<Job>,
    /// Number of the oldest client's request without a place in the order.
    pub(super) pending: Option<u64>,
    /// The pipeline is behind.
    pub(super) hold: bool,
    pub(super) clock: Clock,
    pub(super) budgets: Budgets,
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
        self.changes.opening.as_ref().map_or(0, |opening| opening.body.view)
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

    /// Number of batches that this replica can propose now.
    pub(super) fn free_places(&self) -> u64 {
        let leads = self.is_active() && self.config.primary(self.view) == self.me && !self.hold;
        // Half of what others hold, since they may be behind.
        let full = || self.next > self.decided + 1 && self.undecided_bytes() > self.config.undecided_bytes / 2;
        if leads && !full() { (self.stable.slot + self.config.window() + 1).saturating_sub(self.next) } else { 0 }
    }

    /// Length of the batches of undecided slots, in bytes: what a primary makes this replica hold.
    fn undecided_bytes(&self) -> usize {
        let open = || self.slots.range(self.decided + 1..).map(|(_, state)| state);
        let held = open().filter_map(|state| state.held.as_ref()).map(|(_, batch)| batch.bytes());
        let named: BTreeSet<B256> = open().flat_map(SlotState::named).collect();
        let kept = named.iter().filter_map(|digest| self.batches.get(digest)).map(Batch::bytes);
        kept.chain(held).sum()
    }

    /// Returns true if a proposal of this length fits beside those of undecided slots. That of the first one does, so that they come to
    /// an end.
    pub(super) fn may_hold(&self, slot: Slot, bytes: usize) -> bool {
        slot <= self.decided + 1 || self.undecided_bytes() + bytes <= self.config.undecided_bytes
    }

    /// Drops batches that no slot names any longer.
    pub(super) fn drop_unneeded(&mut self) {
        let named: BTreeSet<B256> = self.slots.values().flat_map(SlotState::named).collect();
        self.batches.retain(|digest, _| named.contains(digest));
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
        self.jobs.begin(job, Crypto::Sign(bytes), out);
    }

    /// Returns true if something waits for its place in the order.
    pub(super) fn is_waiting(&self) -> bool {
        let accepted =
            |state: &SlotState| state.accepted.is_some() || state.decided.is_some() || state.missing.is_some();
        self.pending.is_some() || self.slots.range(self.decided + 1..).any(|(_, state)| accepted(state))
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
