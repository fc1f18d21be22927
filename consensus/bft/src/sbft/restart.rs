//! Restart: the log decides the state of a replica after a crash.

use super::{
    config::Config,
    message::{Msg, PrePrepare, Prepared, Proposal, Record, Vote},
    replica::{Changes, Checkpoints, Job, Phase, Sbft},
    slots::SlotState,
    wait::FastPath,
};
use crate::core::{
    Base, Budgets, Clock, Crypto, Group, Index, Jobs, NULL, Out, Outs, Patient as _, ReplicaSet, Signed, Slot,
    Statement as _, To,
};
use alloy_primitives::B256;
use std::{collections::BTreeMap, sync::Arc};

impl Sbft {
    /// The state that a log describes, on top of an executed `base`.
    pub(super) fn restored(me: Index, config: Arc<Config>, base: Base, log: &[Record]) -> Self {
        let mut replica = Self {
            me,
            config,
            view: 0,
            phase: Phase::Active,
            // Whatever the base, its checkpoint needs a proof before others believe it: peers send one.
            checkpoints: Checkpoints::default(),
            slots: BTreeMap::new(),
            batches: BTreeMap::new(),
            next: 1,
            decided: base.slot,
            committed: base.slot,
            states: BTreeMap::new(),
            accused: ReplicaSet::default(),
            banned: ReplicaSet::default(),
            changes: Changes::default(),
            jobs: Jobs::default(),
            pending: None,
            hold: false,
            clock: Clock::default(),
            fast_path: FastPath::default(),
            budgets: Budgets::default(),
        };
        for record in log {
            replica.replay(record);
        }
        replica.find_place();
        replica
    }

    fn replay(&mut self, record: &Record) {
        let stable = self.checkpoints.stable.checkpoint.slot;
        match record {
            Record::Batch(batch) => drop(self.batches.insert(batch.digest(), batch.clone())),
            Record::Accepted { vote, signature } if vote.slot > stable => {
                let signer = self.config.primary(vote.view);
                let signed = Signed { signer, signature: signature.clone(), body: Proposal(*vote) };
                let state = self.slots.entry(vote.slot).or_default();
                state.accepted = Some((vote.view, vote.digest));
                // Of the current view: what ends a view drops it.
                state.signed = (!signature.is_empty()).then_some(signed);
            }
            Record::Prepared(certificate) if certificate.vote.slot > stable => {
                self.slots.entry(certificate.vote.slot).or_default().prepared = Some(certificate.clone());
            }
            Record::Decided(decision) if decision.vote.slot > stable => {
                let state = self.slots.entry(decision.vote.slot).or_default();
                (state.decided, state.learned) = (Some(decision.clone()), None);
            }
            Record::Left(view) => {
                (self.view, self.phase) = (*view, Phase::Changing);
                self.slots.values_mut().for_each(SlotState::end_view);
            }
            Record::Entered(opening) => {
                (self.view, self.phase) = (opening.body.view, Phase::Active);
                self.slots.values_mut().for_each(SlotState::end_view);
                self.changes.choice = self.chosen(&opening.body);
                self.changes.opening = Some(opening.clone());
            }
            // Batches stay until all records are read: the slots that name them may follow.
            Record::Stable(stable) => self.move_window(stable.clone()),
            Record::Accepted { .. } | Record::Prepared(_) | Record::Decided(_) => {}
        }
    }

    /// Restores what entering a view did: its choices are due in their slots.
    fn restore_choices(&mut self) {
        #[cfg(feature = "mutations")]
        if self.config.breaks(super::Mutation::ForgetChoices) {
            self.changes.choice = super::choose::Choice::default();
            return;
        }
        let view = self.view;
        for (slot, digest) in self.due() {
            self.slots.entry(slot).or_default().missing = Some((view, digest));
        }
        for decision in self.changes.choice.slots.iter().filter_map(|(_, decision)| decision.as_ref()) {
            if let Some(state) = self.slots.get_mut(&decision.vote.slot)
                && state.decided.is_none()
            {
                state.learned = Some(decision.clone());
            }
        }
    }

    /// Fetches anew what slots name and the log does not have: a batch that is not at hand is no null filler.
    fn demote_absent(&mut self) {
        let view = self.view;
        let active = self.phase == Phase::Active;
        let batches = &self.batches;
        let absent = |digest: B256| digest != NULL && !batches.contains_key(&digest);
        for state in self.slots.range_mut(self.committed + 1..).map(|(_, state)| state) {
            if let Some(decision) = state.decided.take_if(|decision| absent(decision.vote.digest)) {
                state.learned = Some(decision);
            }
            if let Some(digest) = state.accepted_in(view).filter(|digest| active && absent(*digest)) {
                state.missing = Some((view, digest));
            }
        }
    }

    /// Finds the place to go on at.
    fn find_place(&mut self) {
        self.restore_choices();
        self.demote_absent();
        // A number is never used twice: every proposal is logged before it leaves.
        self.next = self.first_free();
        self.drop_unneeded();
        self.decided = self.decided.max(self.checkpoints.stable.checkpoint.slot);
        while self.slots.get(&(self.decided + 1)).is_some_and(|state| state.decided.is_some()) {
            self.decided += 1;
        }
    }

    /// Records that restore this state: what [`Sbft::restored`] reads back.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        if self.checkpoints.stable.checkpoint.slot > 0 {
            records.push(Record::Stable(self.checkpoints.stable.clone()));
        }
        records.extend(self.batches.values().cloned().map(Record::Batch));
        records.extend(self.changes.opening.iter().cloned().map(Record::Entered));
        for (slot, state) in &self.slots {
            if let Some((view, digest)) = state.accepted {
                let vote = Vote { view, slot: *slot, digest };
                let signed = state.signed.as_ref().filter(|signed| signed.body.0 == vote);
                let signature = signed.map(|signed| signed.signature.clone()).unwrap_or_default();
                records.push(Record::Accepted { vote, signature });
            }
            records.extend(state.prepared.clone().map(Record::Prepared));
            records.extend(state.decided.clone().map(Record::Decided));
        }
        if self.phase == Phase::Changing {
            records.push(Record::Left(self.view));
        }
        records
    }

    /// Tells the host what the log implies, signs anew, and tells others that this replica is back.
    pub(super) fn resume(&mut self, out: &mut Outs<Self>) {
        let view = self.view;
        let active = self.phase == Phase::Active;
        for (slot, state) in self.slots.range(self.committed + 1..) {
            if let Some((of, digest)) = state.accepted.filter(|(_, digest)| self.has(*digest)) {
                out.push(Out::Proposed { slot: *slot, view: of, batch: self.batches.get(&digest).cloned() });
            }
            if state.prepared_in(view).is_some() {
                out.push(Out::OrderVoted { slot: *slot, view });
            }
            if let Some(decision) = &state.decided {
                let batch = self.batches.get(&decision.vote.digest).cloned();
                out.push(Out::Decided { slot: *slot, batch });
            }
        }
        // Shares are not in the log: they are made anew.
        let signed = |(slot, state): (&Slot, &SlotState)| {
            let digest = state.accepted_in(view).filter(|_| state.missing.is_none())?;
            Some((Vote { view, slot: *slot, digest }, state.prepared_in(view).map(|own| own.vote)))
        };
        let votes: Vec<_> = self.slots.iter().filter_map(signed).filter(|_| active).collect();
        for (vote, prepared) in votes {
            let fast =
                self.config.paths == super::Paths::Dual && vote.slot <= self.committed + self.config.fast_reach();
            self.ask_for_shares(vote, fast, out);
            if let Some(vote) = prepared {
                let bytes = Prepared(vote).signed_bytes(self.config.domain);
                let collector = self.config.primary(view);
                self.work(Job::Commit(vote, collector), Crypto::Share { group: Group::Slow, bytes }, out);
            }
        }
        self.repeat_proposals(out);
        self.fill_missing(out);
        let learned: Vec<Slot> =
            self.slots.iter().filter(|(_, state)| state.learned.is_some()).map(|(slot, _)| *slot).collect();
        learned.into_iter().for_each(|slot| self.decide_learned(slot, out));
        if self.phase == Phase::Changing {
            self.ask_for_change(out);
        }
        self.repeat(out);
        self.set_timers(out);
    }

    /// Repeats proposals that a crash may have kept from the others. Their numbers are used: nothing else can fill them.
    fn repeat_proposals(&self, out: &mut Outs<Self>) {
        if self.phase != Phase::Active || self.config.primary(self.view) != self.me {
            return;
        }
        for state in self.slots.range(self.decided + 1..).map(|(_, state)| state) {
            if let Some(signed) = &state.signed
                && let Some(batch) = self.batches.get(&signed.body.0.digest)
            {
                let proposal = PrePrepare { signed: signed.clone(), batch: batch.clone() };
                out.push(Out::Send(To::All, Msg::PrePrepare(proposal)));
            }
        }
    }
}
