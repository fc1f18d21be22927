//! A replica's state, and what all rules use.

use super::{
    choose::Choice,
    config::Config,
    execute::States,
    message::{CommitShare, NewView, Record, SignShare, Stable, StateShare, Status, ViewChange, Vote},
    slots::{SlotState, Step},
    wait::FastPath,
};
use crate::core::{
    Base, Batch, Budgets, Clock, Crypto, Group, Index, Jobs, Micros, NULL, Out, Outs, ReplicaSet, Signed, Slot, View,
};
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

/// Proven checkpoints, and shares of those to come.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoints {
    /// Checkpoint below the window.
    pub(super) stable: Stable,
    /// A proven checkpoint above the decided prefix: its state has to be fetched, or is executed soon.
    pub(super) certified: Option<Stable>,
    /// Shares by replica and slot.
    pub(super) shares: BTreeMap<Index, BTreeMap<Slot, StateShare>>,
}

/// Knowledge of view changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Newest view change of each replica, and how many of each were verified since the last repetition.
    pub(super) newest: BTreeMap<Index, Signed<ViewChange>>,
    pub(super) verified: BTreeMap<Index, u8>,
    /// Newest NEW-VIEW that was entered, and its choices.
    pub(super) opening: Option<Signed<NewView>>,
    pub(super) choice: Choice,
}

/// An SBFT replica.
#[derive(Clone, Debug)]
pub struct Sbft {
    pub(super) me: Index,
    pub(super) config: Arc<Config>,
    pub(super) view: View,
    pub(super) phase: Phase,
    pub(super) checkpoints: Checkpoints,
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
    /// Shares over executed states.
    pub(super) states: BTreeMap<Slot, States>,
    /// Replicas that the host has evidence against, and those whose shares were wrong.
    pub(super) accused: ReplicaSet,
    pub(super) banned: ReplicaSet,
    pub(super) changes: Changes,
    pub(super) jobs: Jobs<Job>,
    /// Number of the oldest client's request without a place in the order.
    pub(super) pending: Option<u64>,
    /// The pipeline is behind.
    pub(super) hold: bool,
    pub(super) clock: Clock,
    /// Fast path of the slots that this replica collected for.
    pub(super) fast_path: FastPath,
    pub(super) budgets: Budgets,
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
        self.checkpoints.stable.checkpoint.into()
    }

    /// Every slot up to this one is decided.
    #[must_use]
    pub const fn decided(&self) -> Slot {
        self.decided
    }

    /// Highest view whose NEW-VIEW was entered.
    #[must_use]
    pub fn opened(&self) -> View {
        self.changes.opening.as_ref().map_or(0, |opening| opening.body.view)
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
            || self.jobs.any(|job| matches!(job, Job::Propose(vote, _) if vote.digest == digest))
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

    /// Number of batches that this replica can propose now.
    pub(super) fn free_places(&self) -> u64 {
        if !self.is_active() || self.config.primary(self.view) != self.me || self.hold {
            return 0;
        }
        let window = (self.checkpoints.stable.checkpoint.slot + self.config.window() + 1).saturating_sub(self.next);
        let in_flight = (self.next - 1).saturating_sub(self.decided);
        // Half of what others hold, since they may be behind.
        if in_flight > 0 && self.undecided_bytes() > self.config.undecided_bytes / 2 {
            return 0;
        }
        window.min(self.config.active().saturating_sub(in_flight))
    }

    /// Length of the batches of undecided slots, in bytes: what a primary makes this replica hold.
    fn undecided_bytes(&self) -> usize {
        let open = || self.slots.range(self.decided + 1..).map(|(_, state)| state);
        let held = open().filter_map(|state| state.held.as_ref()).map(|held| held.batch.bytes());
        let named: BTreeSet<B256> = open().flat_map(SlotState::named).collect();
        let kept = named.iter().filter_map(|digest| self.batches.get(digest)).map(Batch::bytes);
        kept.chain(held).sum()
    }

    /// Returns true if a proposal of this length fits beside those of undecided slots. That of the first one does, so that they come to
    /// an end.
    pub(super) fn may_hold(&self, slot: Slot, bytes: usize) -> bool {
        slot <= self.decided + 1 || self.undecided_bytes() + bytes <= self.config.undecided_bytes
    }

    /// Returns true if the slot is in the window of slots in flight.
    pub(super) fn in_window(&self, slot: Slot) -> bool {
        let stable = self.checkpoints.stable.checkpoint.slot;
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
        self.jobs.begin(job, crypto, out);
    }

    /// Drops the shares of replicas, and takes no more of them. The own share may be among the wrong ones where a key file is
    /// damaged: then this replica collects from the others alone.
    pub(super) fn ban(&mut self, liars: &ReplicaSet) {
        for liar in liars.iter() {
            self.banned.insert(liar);
            self.checkpoints.shares.remove(&liar);
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

    /// This replica's progress.
    pub(super) fn status(&self) -> Status {
        Status {
            view: self.view,
            active: self.is_active(),
            stable: self.checkpoints.stable.checkpoint.slot,
            decided: self.decided,
        }
    }

    /// Last slot that the view's NEW-VIEW has filled.
    pub(super) fn filled(&self) -> Slot {
        let current = self.opened() == self.view;
        if current { self.changes.choice.last() } else { 0 }
    }

    /// Own shares over the accepted vote of the current view.
    pub(super) fn own_share(&self, slot: Slot) -> Option<SignShare> {
        let state = self.slots.get(&slot)?;
        let vote = Vote { view: self.view, slot, digest: state.accepted_in(self.view)? };
        Some(SignShare { vote, fast: state.own.fast.clone()?, slow: state.own.slow.clone()? })
    }

    /// Own share over the prepared vote of the current view.
    pub(super) fn own_commit(&self, slot: Slot) -> Option<CommitShare> {
        let state = self.slots.get(&slot)?;
        Some(CommitShare { vote: state.prepared_in(self.view)?.vote, share: state.own.commit.clone()? })
    }
}
