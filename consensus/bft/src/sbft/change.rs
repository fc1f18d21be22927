//! Leaving a view, and opening the next one.

use super::{
    choose::{Choice, ahead, choose, is_bounded, of_view},
    message::{Msg, NewView, Record, ViewChange, Vote, is_member},
    replica::{Job, Phase, Sbft, Timer},
    slots::{Progress, SlotState, Step},
};
use crate::core::{Crypto, Out, Outs, Patient as _, Signed, Slot, Statement as _, To, View, switch};
use alloy_primitives::B256;
use std::collections::BTreeSet;

/// Maximum number of view changes of a replica that are verified between two repetitions. Each may have two certificates per slot,
/// and one that is dropped here comes again.
const MOST_VERIFIED: u8 = 2;

impl Sbft {
    /// Leaves the current view for `view`.
    pub(super) fn leave(&mut self, view: View, out: &mut Outs<Self>) {
        self.view = view;
        self.phase = Phase::Changing;
        self.clock.attempts += 1;
        self.calm_down(out);
        switch(&mut self.clock.new_view_runs, false, Timer::NewView, 0, out);
        self.end_view(out);
        out.push(Out::Persist(Record::Left(view)));
        self.ask_for_change(out);
    }

    /// Drops proposals, shares and turns of the view that ends: nothing of it may be used in the next one.
    fn end_view(&mut self, out: &mut Outs<Self>) {
        for (slot, state) in &mut self.slots {
            if state.own.help_runs {
                out.push(Out::Cancel(Timer::Help(*slot)));
            }
            for step in Step::ALL {
                if core::mem::take(state.collect.step(step)) == Progress::Waiting {
                    out.push(Out::Cancel(Timer::Collect(*slot, step)));
                }
            }
            state.end_view();
        }
    }

    /// Has this replica's VIEW-CHANGE signed.
    pub(super) fn ask_for_change(&mut self, out: &mut Outs<Self>) {
        self.jobs.retain(|job| !matches!(job, Job::ViewChange(_) | Job::NewView(_)));
        let body = self.report();
        let bytes = body.signed_bytes(self.config.domain);
        self.work(Job::ViewChange(body), Crypto::Sign(bytes), out);
    }

    /// This replica's knowledge of every slot of its window.
    fn report(&self) -> ViewChange {
        let accepted = |(slot, state): (&Slot, &SlotState)| {
            state.accepted.map(|(view, digest)| Vote { view, slot: *slot, digest })
        };
        let proven = |state: &SlotState| state.decided.clone().or_else(|| state.learned.clone());
        ViewChange {
            view: self.view,
            stable: self.checkpoints.stable.clone(),
            accepted: self.slots.iter().filter_map(accepted).collect(),
            prepared: self.slots.values().filter_map(|state| state.prepared.clone()).collect(),
            decided: self.slots.values().filter_map(proven).filter(|own| own.vote.view < self.view).collect(),
        }
    }

    /// Sends the signed VIEW-CHANGE.
    pub(super) fn send_change(&mut self, change: Signed<ViewChange>, out: &mut Outs<Self>) {
        if change.body.view != self.view || self.phase != Phase::Changing {
            return;
        }
        // The window may have moved on since the report was made.
        if change.body.stable != self.checkpoints.stable {
            return self.ask_for_change(out);
        }
        self.changes.newest.insert(self.me, change.clone());
        out.push(Out::Send(To::All, Msg::ViewChange(change)));
        self.try_open(out);
    }

    /// Returns true if a VIEW-CHANGE is newer than the known one and has the shape of a correct one.
    pub(super) fn wants_change(&self, change: &Signed<ViewChange>) -> bool {
        let known = self.changes.newest.get(&change.signer).is_some_and(|known| known.body.view >= change.body.view);
        let often = self.changes.verified.get(&change.signer).is_some_and(|times| *times >= MOST_VERIFIED);
        !known
            && !often
            && change.signer != self.me
            && is_member(change.signer, self.config.quorums.n())
            && change.body.is_well_formed(&self.config)
    }

    pub(super) fn on_view_change(&mut self, change: Signed<ViewChange>, out: &mut Outs<Self>) {
        let view = change.body.view;
        *self.changes.verified.entry(change.signer).or_default() += 1;
        self.on_stable(change.body.stable.clone(), out);
        self.changes.newest.insert(change.signer, change);
        // Behind f+1 replicas stands a correct one: its view is worth joining.
        let (signers, smallest) = ahead(&self.changes.newest, self.view);
        if let Some(smallest) = smallest.filter(|_| signers.len() >= self.config.quorums.one_correct()) {
            self.leave(smallest, out);
        } else if view == self.view {
            self.try_open(out);
        } else {
            self.try_leave(out);
        }
    }

    /// Opens the new view as its primary, once enough view changes are there.
    fn try_open(&mut self, out: &mut Outs<Self>) {
        if self.phase != Phase::Changing
            || self.config.primary(self.view) != self.me
            || self.jobs.any(|job| matches!(job, Job::NewView(_)))
        {
            return;
        }
        let changes: Vec<Signed<ViewChange>> = of_view(&self.changes.newest, self.view).cloned().collect();
        if changes.len() < self.config.quorums.available() {
            return;
        }
        let body = NewView { view: self.view, changes };
        let bytes = body.signed_bytes(self.config.domain);
        self.work(Job::NewView(body), Crypto::Sign(bytes), out);
    }

    /// Opens the view as its primary.
    pub(super) fn open_view(&mut self, signed: Signed<NewView>, out: &mut Outs<Self>) {
        if signed.body.view == self.view && self.phase == Phase::Changing {
            self.enter(signed, out);
        }
    }

    /// Returns true if a NEW-VIEW opens the view that the replica is in, or a later one.
    pub(super) fn wants_opening(&self, signed: &Signed<NewView>) -> bool {
        let view = signed.body.view;
        let later = view > self.view || view == self.view && self.phase == Phase::Changing;
        later && is_bounded(&self.config, signed)
    }

    /// Enters a view with the choices that follow from its NEW-VIEW.
    pub(super) fn enter(&mut self, signed: Signed<NewView>, out: &mut Outs<Self>) {
        if !self.wants_opening(&signed) {
            return;
        }
        let view = signed.body.view;
        self.clock.attempts += u32::from(view > self.view);
        (self.view, self.phase) = (view, Phase::Active);
        self.jobs.retain(|job| !matches!(job, Job::ViewChange(_) | Job::NewView(_)));
        self.changes.choice = self.chosen(&signed.body);
        self.end_view(out);
        self.restart_progress(out);
        // In force before it leaves, and before anything of the view is signed.
        out.push(Out::Persist(Record::Entered(signed.clone())));
        if signed.signer == self.me {
            out.push(Out::Send(To::All, Msg::NewView(signed.clone())));
        }
        self.changes.opening = Some(signed);
        self.on_stable(self.changes.choice.stable.clone(), out);
        self.next = self.changes.choice.last().max(self.checkpoints.stable.checkpoint.slot) + 1;
        self.fill_window(out);
        self.drop_unneeded();
    }

    /// Accepts the choices of the view that are in the window, and learns their decisions. Those above it follow when it moves on.
    pub(super) fn fill_window(&mut self, out: &mut Outs<Self>) {
        for (slot, digest) in self.due() {
            self.fill(slot, digest, out);
        }
        let Some(from) = self.changes.opening.as_ref().map(|opening| opening.signer).filter(|_| self.is_in_choice())
        else {
            return;
        };
        let proven = self.changes.choice.slots.iter().filter_map(|(_, decision)| decision.as_ref());
        let decisions: Vec<_> = proven.filter(|decision| self.wants_decision(decision)).cloned().collect();
        for decision in decisions {
            self.on_decision(from, decision, out);
        }
    }

    /// True if the replica is in the view that its choice belongs to.
    fn is_in_choice(&self) -> bool {
        self.phase == Phase::Active && self.opened() == self.view
    }

    /// Choices of the view in the window that are neither accepted nor being fetched.
    pub(super) fn due(&self) -> Vec<(Slot, B256)> {
        let open = |slot: &Slot| {
            self.slots.get(slot).is_none_or(|state| {
                state.accepted_in(self.view).is_none() && state.missing.is_none_or(|(of, _)| of != self.view)
            })
        };
        let choices = self.changes.choice.digests().filter(|(slot, _)| self.in_window(*slot) && open(slot));
        choices.filter(|_| self.is_in_choice()).collect()
    }

    /// Drops batches that no slot names any longer: those of views that led nowhere.
    pub(super) fn drop_unneeded(&mut self) {
        let named: BTreeSet<B256> = self.slots.values().flat_map(SlotState::named).collect();
        self.batches.retain(|digest, _| named.contains(digest));
    }

    /// Choices of a NEW-VIEW.
    pub(super) fn chosen(&self, body: &NewView) -> Choice {
        choose(&self.config, body.changes.iter().map(|change| &change.body))
    }

    /// Accepts a choice of the view, or fetches its batch.
    fn fill(&mut self, slot: Slot, digest: B256, out: &mut Outs<Self>) {
        let view = self.view;
        if self.has(digest) {
            self.accept(Vote { view, slot, digest }, out);
            return;
        }
        self.slots.entry(slot).or_default().missing = Some((view, digest));
        // A replica that reports the batch has it, if it is correct; repetition asks all.
        let holds = |change: &&Signed<ViewChange>| {
            let accepted = change.body.accepted.iter().any(|vote| (vote.slot, vote.digest) == (slot, digest));
            accepted && change.signer != self.me
        };
        let holder = self.changes.opening.as_ref().and_then(|opening| opening.body.changes.iter().find(holds));
        out.extend(holder.map(|change| Out::Send(To::One(change.signer), Msg::Fetch(digest))));
    }

    /// Accepts choices of the view whose batches are at hand.
    pub(super) fn fill_missing(&mut self, out: &mut Outs<Self>) {
        let missing = |(slot, state): (&Slot, &SlotState)| {
            state.missing.filter(|(view, _)| *view == self.view).map(|(_, digest)| (*slot, digest))
        };
        let due: Vec<(Slot, B256)> = self.slots.iter().filter_map(missing).collect();
        for (slot, digest) in due {
            if self.is_active() && self.has(digest) {
                self.accept(Vote { view: self.view, slot, digest }, out);
            }
        }
    }

    /// The first slot that the view's primary may propose for after a restart.
    pub(super) fn first_free(&self) -> Slot {
        let accepted = self.slots.iter().rev().find(|(_, state)| state.accepted_in(self.view).is_some());
        let last = accepted.map_or(0, |(slot, _)| *slot);
        last.max(self.filled()).max(self.checkpoints.stable.checkpoint.slot) + 1
    }
}
