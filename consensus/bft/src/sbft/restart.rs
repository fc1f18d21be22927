//! Restart: the log decides the state of a replica after a crash.

use super::{
    choose::Choice,
    config::Config,
    message::{Prepared, Record, Stable, Vote},
    replica::{Job, Phase, Sbft},
    slots::SlotState,
};
use crate::core::{Base, Budgets, Crypto, Group, Index, Out, Outs, ReplicaSet, Slot, Statement as _};
use alloy_primitives::B256;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

impl Sbft {
    /// The state that a log describes, on top of an executed `base`.
    pub(super) fn restored(me: Index, config: Arc<Config>, base: Base, log: &[Record]) -> Self {
        let mut replica = Self {
            me,
            config,
            view: 0,
            phase: Phase::Active,
            // Whatever the base, its checkpoint needs a proof before others believe it: peers send one.
            stable: Stable::default(),
            certified: None,
            slots: BTreeMap::new(),
            batches: BTreeMap::new(),
            next: 1,
            decided: base.slot,
            committed: base.slot,
            states: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            accused: ReplicaSet::default(),
            banned: ReplicaSet::default(),
            changes: BTreeMap::new(),
            opening: None,
            choice: Choice::default(),
            jobs: BTreeMap::new(),
            next_job: 0,
            pending: None,
            hold: false,
            attempts: 0,
            delays: VecDeque::new(),
            misses: 0,
            without_all: 0,
            progress_runs: false,
            new_view_runs: false,
            budgets: Budgets::default(),
            resend_runs: None,
        };
        for record in log {
            replica.replay(record);
        }
        replica.find_place();
        replica
    }

    fn replay(&mut self, record: &Record) {
        let stable = self.stable.checkpoint.slot;
        match record {
            Record::Batch(batch) => drop(self.batches.insert(batch.digest(), batch.clone())),
            Record::Accepted(Vote { view, slot, digest }) if *slot > stable => {
                let state = self.slots.entry(*slot).or_default();
                state.accepted = Some((*view, *digest));
                state.missing = state.missing.filter(|(due, _)| due != view);
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
                self.choice = self.chosen(&opening.body);
                self.opening = Some(opening.clone());
                self.restore_choices();
            }
            Record::Stable(stable) => self.advance_window(stable.clone()),
            Record::Accepted(_) | Record::Prepared(_) | Record::Decided(_) => {}
        }
    }

    /// Restores what entering a view did: its choices are due in their slots.
    fn restore_choices(&mut self) {
        #[cfg(feature = "mutations")]
        if self.config.breaks(super::Mutation::ForgetChoices) {
            self.choice = Choice::default();
            return;
        }
        let view = self.view;
        let chosen: Vec<(Slot, B256)> = self.choice.digests().filter(|(slot, _)| self.in_window(*slot)).collect();
        let decisions = self.choice.slots.iter().filter_map(|(_, decision)| decision.clone()).collect::<Vec<_>>();
        for (slot, digest) in chosen {
            let state = self.slots.entry(slot).or_default();
            if state.accepted_in(view).is_none() {
                state.missing = Some((view, digest));
            }
        }
        for decision in decisions {
            if let Some(state) = self.slots.get_mut(&decision.vote.slot)
                && state.decided.is_none()
            {
                state.learned = Some(decision);
            }
        }
    }

    /// Finds the place to go on at.
    fn find_place(&mut self) {
        // A number is never used twice: every proposal is logged before it leaves.
        self.next = self.first_free();
        self.batches.retain(|digest, _| self.slots.values().any(|state| state.needs(*digest)));
        self.decided = self.decided.max(self.stable.checkpoint.slot);
        while self.slots.get(&(self.decided + 1)).is_some_and(|state| state.decided.is_some()) {
            self.decided += 1;
        }
    }

    /// Records that restore this state: what [`Sbft::restored`] reads back.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut records: Vec<Record> = self.batches.values().cloned().map(Record::Batch).collect();
        if self.stable.checkpoint.slot > 0 {
            records.push(Record::Stable(self.stable.clone()));
        }
        records.extend(self.opening.iter().cloned().map(Record::Entered));
        for (slot, state) in &self.slots {
            let vote = |(view, digest)| Vote { view, slot: *slot, digest };
            records.extend(state.accepted.map(vote).map(Record::Accepted));
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
            if let Some((of, digest)) = state.accepted {
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
            let digest = state.accepted_in(view)?;
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
}
