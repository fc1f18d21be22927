//! Restart: the log decides the state of a replica after a crash.

use super::{
    config::Config,
    message::{Record, Vote},
    replica::{Pbft, Phase},
};
use crate::core::{Base, Index, Out, Outs, Slot, Want};
use std::{collections::BTreeMap, sync::Arc};

impl Pbft {
    /// The state that a log describes, on top of an executed `base`.
    pub(super) fn restored(me: Index, config: Arc<Config>, base: Base, log: &[Record]) -> Self {
        let mut replica = Self {
            me,
            config,
            view: 0,
            phase: Phase::Active,
            stable: if log.is_empty() { base } else { Base::default() },
            proof: Vec::new(),
            slots: BTreeMap::new(),
            batches: BTreeMap::new(),
            next: 1,
            decided: base.slot,
            committed: base.slot,
            announced: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            changes: BTreeMap::new(),
            opening: None,
            deciding: None,
            jobs: BTreeMap::new(),
            next_job: 0,
            pending: false,
            hold: false,
            attempts: 0,
            progress_runs: false,
            new_view_runs: false,
            resend_runs: None,
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
            Record::Entered(view, base, choices) => {
                (self.view, self.phase) = (*view, Phase::Active);
                self.slots.values_mut().for_each(|state| state.missing = None);
                for (slot, digest) in (base.slot + 1..).zip(choices).filter(|(slot, _)| *slot > self.stable.slot) {
                    self.slots.entry(slot).or_default().missing = Some((*view, *digest));
                }
            }
            Record::Stable(base, proof) => {
                self.stable = *base;
                self.proof.clone_from(proof);
                self.slots = self.slots.split_off(&(base.slot + 1));
                self.announced = self.announced.split_off(&base.slot);
            }
            Record::Announced(checkpoint) => drop(self.announced.insert(checkpoint.slot, checkpoint.digest)),
            Record::PrePrepared(_) | Record::Prepared(_) | Record::Decided(..) => {}
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
        self.batches.retain(|digest, _| self.slots.values().any(|state| state.needs(*digest)));
        self.decided = self.decided.max(self.stable.slot);
        while self.slots.get(&(self.decided + 1)).is_some_and(|state| state.decided.is_some()) {
            self.decided += 1;
        }
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
            out.push(Out::Want(Want::State(self.stable)));
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
