//! Leaving a view, and opening the next one.

use super::{
    choose::{choose, is_bounded, is_proven, is_valid},
    message::{Fetch, Leaving, Msg, NewView, Record, Report, ViewChange, is_member},
    replica::{Job, Pbft, Phase, Timer},
    slots::SlotState,
};
use crate::core::{Base, Batch, Index, Out, Outs, Patient as _, Signed, Slot, Statement as _, To, View, switch};
use alloy_primitives::B256;
use std::collections::BTreeMap;

impl Pbft {
    /// Leaves the current view for `view`.
    pub(super) fn leave(&mut self, view: View, out: &mut Outs<Self>) {
        self.view = view;
        self.phase = Phase::Changing;
        self.clock.attempts += 1;
        self.changes.deciding = None;
        self.calm_down(out);
        self.forget_leftovers();
        switch(&mut self.clock.new_view_runs, false, Timer::NewView, 0, out);
        out.push(Out::Persist(Record::Left(view)));
        self.ask_for_change(out);
    }

    /// Drops proposals and choices of the view that ends: nothing of it may be accepted in the next one.
    fn forget_leftovers(&mut self) {
        #[cfg(feature = "mutations")]
        if self.config.breaks(super::config::Mutation::LateChoice) {
            return;
        }
        for state in self.slots.values_mut() {
            (state.held, state.missing) = (None, None);
        }
    }

    /// Has this replica's VIEW-CHANGE signed.
    pub(super) fn ask_for_change(&mut self, out: &mut Outs<Self>) {
        self.jobs.retain(|job| matches!(job, Job::Checkpoint(_)));
        let body = self.report();
        let bytes = body.signed_bytes(self.config.domain);
        self.sign(Job::ViewChange(body), bytes, out);
    }

    /// The journal of what this replica has seen.
    fn report(&self) -> ViewChange {
        let prepared = |(slot, state): (&Slot, &SlotState)| {
            state.prepared.map(|(view, digest)| Report { slot: *slot, digest, view })
        };
        // The newest NEW-VIEW vouches for its choices, also where a batch is still to be fetched.
        let mut vouched: BTreeMap<(Slot, B256), View> = BTreeMap::new();
        if let Some(opening) = &self.changes.opening {
            let choices = (opening.body.stable.slot + 1..).zip(&opening.body.choices);
            vouched.extend(choices.map(|(slot, digest)| ((slot, *digest), opening.body.view)));
        }
        for (slot, state) in &self.slots {
            if let Some((view, digest)) = state.accepted {
                let newest = vouched.entry((*slot, digest)).or_insert(view);
                *newest = view.max(*newest);
            }
        }
        let above = vouched.range((self.stable.slot + 1, B256::ZERO)..);
        ViewChange {
            view: self.view,
            stable: self.stable.into(),
            prepared: self.slots.iter().filter_map(prepared).collect(),
            preprepared: above
                .map(|((slot, digest), view)| Report { slot: *slot, digest: *digest, view: *view })
                .collect(),
        }
    }

    /// Sends the signed VIEW-CHANGE.
    pub(super) fn send_change(&mut self, change: Signed<ViewChange>, out: &mut Outs<Self>) {
        if change.body.view != self.view || self.phase != Phase::Changing {
            return;
        }
        // The window may have moved on since the report was made.
        if change.body.stable != self.stable.into() {
            return self.ask_for_change(out);
        }
        let leaving = Leaving { change, proof: self.proof.clone() };
        self.changes.newest.insert(self.me, leaving.clone());
        out.push(Out::Send(To::All, Msg::ViewChange(leaving)));
        self.try_open(out);
    }

    /// Returns true if a VIEW-CHANGE is newer than the known one and has the shape of a correct one.
    pub(super) fn wants_change(&self, leaving: &Leaving) -> bool {
        let Leaving { change, proof } = leaving;
        let known =
            self.changes.newest.get(&change.signer).is_some_and(|known| known.change.body.view >= change.body.view);
        !known
            && change.signer != self.me
            && is_member(change.signer, self.config.quorums.n())
            && is_proven(&self.config, &change.body.stable, proof)
            && change.body.is_well_formed(&self.config)
    }

    pub(super) fn on_view_change(&mut self, leaving: Leaving, out: &mut Outs<Self>) {
        let view = leaving.change.body.view;
        for checkpoint in &leaving.proof {
            if self.wants_checkpoint(checkpoint) {
                self.on_checkpoint(checkpoint.clone(), out);
            }
        }
        self.changes.newest.insert(leaving.change.signer, leaving);
        // Behind f+1 replicas stands a correct one: its view is worth joining.
        let ahead = self.changes.newest.values().map(|known| known.change.body.view).filter(|view| *view > self.view);
        if ahead.clone().count() >= self.config.quorums.one_correct() {
            let smallest = ahead.min().expect("f+1 of them are ahead");
            self.leave(smallest, out);
        } else if view == self.view {
            self.try_open(out);
        } else {
            self.try_leave(out);
        }
    }

    /// Decides the new view as its primary, once enough view changes are there.
    fn try_open(&mut self, out: &mut Outs<Self>) {
        if self.phase != Phase::Changing || self.config.primary(self.view) != self.me || self.changes.deciding.is_some()
        {
            return;
        }
        let changes = self.changes_of_view();
        if changes.len() < self.config.quorums.available() {
            return;
        }
        self.changes.deciding = choose(&self.config, &changes);
        self.finish_deciding(out);
    }

    fn changes_of_view(&self) -> BTreeMap<Index, &ViewChange> {
        let of_view = self.changes.newest.iter().filter(|(_, known)| known.change.body.view == self.view);
        of_view.map(|(signer, known)| (*signer, &known.change.body)).collect()
    }

    /// Has NEW-VIEW signed, once every chosen batch is at hand: condition A3.
    pub(super) fn finish_deciding(&mut self, out: &mut Outs<Self>) {
        let Some(choice) = &self.changes.deciding else { return };
        let missing: Vec<B256> = choice.digests.iter().copied().filter(|digest| !self.has(*digest)).collect();
        if !missing.is_empty() {
            out.extend(missing.into_iter().map(|digest| Out::Send(To::All, Msg::Fetch(Fetch { digest }))));
            return;
        }
        if self.jobs.any(|job| matches!(job, Job::NewView(_))) {
            return;
        }
        // View changes that came since may undo the decision.
        if choose(&self.config, &self.changes_of_view()) != self.changes.deciding {
            self.changes.deciding = None;
            return self.try_open(out);
        }
        let of_view: Vec<&Leaving> =
            self.changes.newest.values().filter(|known| known.change.body.view == self.view).collect();
        let (stable, choices) = (choice.stable, choice.digests.clone());
        let proven = of_view.iter().find(|known| known.change.body.stable == stable);
        let proof = proven.map_or_else(Vec::new, |known| known.proof.clone());
        let changes = of_view.into_iter().map(|known| known.change.clone()).collect();
        let body = NewView { view: self.view, changes, stable, proof, choices };
        let bytes = body.signed_bytes(self.config.domain);
        self.sign(Job::NewView(body), bytes, out);
    }

    /// Opens the view as its primary.
    pub(super) fn open_view(&mut self, signed: Signed<NewView>, out: &mut Outs<Self>) {
        if signed.body.view == self.view && self.phase == Phase::Changing {
            self.enter(signed.clone(), out);
            out.push(Out::Send(To::All, Msg::NewView(signed)));
        }
    }

    /// Returns true if a NEW-VIEW is newer than the known one and its outside is right.
    pub(super) fn wants_opening(&self, signed: &Signed<NewView>) -> bool {
        signed.body.view > self.opened() && is_bounded(&self.config, signed)
    }

    pub(super) fn on_new_view(&mut self, signed: Signed<NewView>, out: &mut Outs<Self>) {
        let view = signed.body.view;
        if !is_valid(&self.config, &signed) {
            return;
        }
        if view < self.view {
            self.supersede(&signed.body);
            out.push(Out::Persist(Record::Learned(signed.clone())));
            self.changes.opening = Some(signed);
        } else if signed.signer != self.me {
            self.enter(signed, out);
        }
    }

    /// Drops what a NEW-VIEW proves to be undecided, and batches that nothing names any longer.
    fn supersede(&mut self, body: &NewView) {
        self.supersede_slots(body);
        self.drop_unneeded();
    }

    pub(super) fn supersede_slots(&mut self, body: &NewView) {
        let first = body.stable.slot + 1;
        for (slot, state) in self.slots.range_mut(first..first.saturating_add(self.config.window())) {
            state.supersede(body.view, body.choices.get((*slot - first) as usize).copied());
        }
    }

    fn enter(&mut self, signed: Signed<NewView>, out: &mut Outs<Self>) {
        let NewView { view, stable, ref choices, ref proof, .. } = signed.body;
        self.clock.attempts += u32::from(view > self.view);
        // Batches that the choices name are at hand until the slots name them.
        let at_hand: BTreeMap<B256, Batch> =
            choices.iter().filter_map(|digest| Some((*digest, self.batches.get(digest)?.clone()))).collect();
        (self.view, self.phase, self.changes.deciding) = (view, Phase::Active, None);
        self.jobs.retain(|job| matches!(job, Job::Checkpoint(_)));
        let base = Base { slot: stable.slot, digest: stable.digest };
        self.make_stable(base, proof.clone(), out);
        self.forget_leftovers();
        self.supersede(&signed.body);
        self.restart_progress(out);
        let chosen: Vec<(Slot, B256)> = (stable.slot + 1..).zip(choices.iter().copied()).collect();
        self.next = chosen.last().map_or(stable.slot, |(slot, _)| *slot).max(self.stable.slot) + 1;
        out.push(Out::Persist(Record::Entered(signed.clone())));
        self.changes.opening = Some(signed);
        self.batches.extend(at_hand);
        let primary = self.config.primary(view);
        let above = self.stable.slot;
        for (slot, digest) in chosen.into_iter().filter(|(slot, _)| *slot > above) {
            if self.has(digest) {
                self.accept(view, slot, digest, out);
            } else {
                self.slots.entry(slot).or_default().missing = Some((view, digest));
                out.push(Out::Send(To::One(primary), Msg::Fetch(Fetch { digest })));
            }
        }
    }

    /// Takes a batch that was asked for.
    pub(super) fn on_batch(&mut self, batch: Batch, out: &mut Outs<Self>) {
        let digest = batch.digest();
        let is_missing = |state: &SlotState| state.missing.is_some_and(|(_, missing)| missing == digest);
        let is_learned = |state: &SlotState| state.decided.is_none() && state.learned == Some(digest);
        let slots = |wants: &dyn Fn(&SlotState) -> bool| -> Vec<Slot> {
            self.slots.iter().filter(|(_, state)| wants(state)).map(|(slot, _)| *slot).collect()
        };
        let (missing, learned) = (slots(&is_missing), slots(&is_learned));
        let chosen = self.changes.deciding.as_ref().is_some_and(|choice| choice.digests.contains(&digest));
        if missing.is_empty() && learned.is_empty() && !chosen {
            return;
        }
        self.keep(batch, out);
        for slot in missing {
            self.accept(self.view, slot, digest, out);
        }
        for slot in learned {
            self.decide_learned(slot, out);
        }
        self.finish_deciding(out);
    }
}
