//! Restart: the log decides the state of a replica after a crash.

use super::{
    config::Config,
    message::{NewView, Record, Vote},
    replica::{Changes, Pbft, Phase},
};
use crate::core::{Base, Budgets, Clock, Index, Jobs, Out, Outs, Patient as _, ReplicaSet, Slot, Want};
use std::{collections::BTreeMap, sync::Arc};

impl Pbft {
    /// The state that a log describes, on top of an executed `base`.
    pub(super) fn restored(me: Index, config: Arc<Config>, base: Base, log: &[Record]) -> Self {
        let mut replica = Self {
            me,
            config,
            view: 0,
            phase: Phase::Active,
            // Whatever the base, its checkpoint needs a proof before others believe it: peers send one.
            stable: Base::default(),
            proof: Vec::new(),
            slots: BTreeMap::new(),
            batches: BTreeMap::new(),
            next: 1,
            decided: base.slot,
            committed: base.slot,
            ahead: 0,
            accused: ReplicaSet::default(),
            checkpoints: BTreeMap::new(),
            changes: Changes::default(),
            jobs: Jobs::default(),
            pending: None,
            hold: false,
            clock: Clock::default(),
            budgets: Budgets::default(),
        };
        for record in log {
            replica.replay(record);
        }
        replica.catch_up_votes();
        replica
    }

    fn replay(&mut self, record: &Record) {
        match record {
            Record::Batch(batch) => drop(self.batches.insert(batch.digest(), batch.clone())),
            Record::PrePrepared(Vote { view, slot, digest }) if *slot > self.stable.slot => {
                self.slots.entry(*slot).or_default().accept(*view, *digest);
            }
            Record::Prepared(Vote { view, slot, digest }) if *slot > self.stable.slot => {
                self.slots.entry(*slot).or_default().prepared = Some((*view, *digest));
            }
            Record::Decided(slot, digest) if *slot > self.stable.slot => {
                self.slots.entry(*slot).or_default().decided = Some(*digest);
            }
            Record::Left(view) => {
                (self.view, self.phase) = (*view, Phase::Changing);
                self.slots.values_mut().for_each(|state| state.missing = None);
            }
            Record::Entered(opening) => {
                (self.view, self.phase) = (opening.body.view, Phase::Active);
                self.restore_choices(&opening.body);
                self.changes.opening = Some(opening.clone());
            }
            Record::Learned(opening) => {
                self.supersede_slots(&opening.body);
                self.changes.opening = Some(opening.clone());
            }
            Record::Stable { slot, digest, proof } => {
                let base = Base { slot: *slot, digest: *digest };
                self.stable = base;
                self.proof.clone_from(proof);
                self.slots = self.slots.split_off(&(base.slot + 1));
                self.checkpoints.values_mut().for_each(|own| own.retain(|signed| signed.body.slot > base.slot));
                self.checkpoints.retain(|_, own| !own.is_empty());
            }
            Record::Announced(signed) if signed.body.slot > self.stable.slot => {
                let own = self.checkpoints.entry(self.me).or_default();
                if own.last().is_none_or(|last| last.body.slot < signed.body.slot) {
                    own.push(signed.clone());
                }
            }
            Record::PrePrepared(_) | Record::Prepared(_) | Record::Decided(..) | Record::Announced(_) => {}
        }
    }

    /// Restores what entering a view did: its choices are due in their slots.
    fn restore_choices(&mut self, body: &NewView) {
        self.slots.values_mut().for_each(|state| state.missing = None);
        self.supersede_slots(body);
        #[cfg(feature = "mutations")]
        if self.config.breaks(super::config::Mutation::ForgetChoices) {
            return;
        }
        let chosen = (body.stable.slot + 1..).zip(&body.choices);
        for (slot, digest) in chosen.filter(|(slot, _)| *slot > self.stable.slot) {
            let state = self.slots.entry(slot).or_default();
            if state.accepted_in(body.view).is_none() {
                state.missing = Some((body.view, *digest));
            }
        }
    }

    /// Counts the own votes, and finds the place to go on at.
    fn catch_up_votes(&mut self) {
        let (me, view) = (self.me, self.view);
        let leads = self.config.primary(view) == me;
        let mut last = self.stable.slot;
        for (slot, state) in &mut self.slots {
            if let Some(digest) = state.accepted_in(view) {
                last = last.max(*slot);
                if !leads {
                    state.prepares.add(me, view, digest);
                }
            }
            if state.missing.is_some() {
                last = last.max(*slot);
            }
            if let Some(digest) = state.prepared_in(view) {
                state.commits.add(me, view, digest);
            }
        }
        // A number is never used twice: every proposal is logged before it leaves.
        self.next = last + 1;
        self.drop_unneeded();
        self.find_ahead();
        self.decided = self.decided.max(self.stable.slot);
        while self.slots.get(&(self.decided + 1)).is_some_and(|state| state.decided.is_some()) {
            self.decided += 1;
        }
    }

    /// Records that restore this state: what [`Pbft::restored`] reads back.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut records: Vec<Record> = self.batches.values().cloned().map(Record::Batch).collect();
        if self.stable.slot > 0 {
            let (Base { slot, digest }, proof) = (self.stable, self.proof.clone());
            records.push(Record::Stable { slot, digest, proof });
        }
        for (slot, state) in &self.slots {
            let vote = |(view, digest)| Vote { view, slot: *slot, digest };
            records.extend(state.accepted.map(vote).map(Record::PrePrepared));
            records.extend(state.prepared.map(vote).map(Record::Prepared));
            records.extend(state.decided.map(|digest| Record::Decided(*slot, digest)));
        }
        records.extend(self.changes.opening.iter().cloned().map(Record::Entered));
        records.extend(self.checkpoints.get(&self.me).into_iter().flatten().cloned().map(Record::Announced));
        if self.phase == Phase::Changing {
            records.push(Record::Left(self.view));
        }
        records
    }

    /// Tells the host what the log implies, and others that this replica is back.
    pub(super) fn resume(&mut self, out: &mut Outs<Self>) {
        let view = self.view;
        let above: Vec<Slot> = self.slots.range(self.committed + 1..).map(|(slot, _)| *slot).collect();
        for slot in above {
            let state = &self.slots[&slot];
            if let Some((of, digest)) = state.accepted {
                out.push(Out::Proposed { slot, view: of, batch: self.batches.get(&digest).cloned() });
            }
            if state.prepared_in(view).is_some() {
                out.push(Out::OrderVoted { slot, view });
            }
            if let Some(digest) = state.decided {
                out.push(Out::Decided { slot, batch: self.batches.get(&digest).cloned() });
            }
        }
        if self.committed < self.stable.slot {
            out.push(Out::Want(Want::state(self.stable, &self.proof)));
        }
        // Choices of the view that were not accepted before the crash.
        let due: Vec<_> = self.slots.iter().filter_map(|(slot, s)| Some((*slot, s.missing?.1))).collect();
        for (slot, digest) in due {
            if self.has(digest) {
                self.accept(view, slot, digest, out);
            }
        }
        if self.phase == Phase::Changing {
            self.ask_for_change(out);
        }
        self.repeat(out);
        self.set_timers(out);
    }
}
