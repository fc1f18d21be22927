//! Leaving a view, opening the next one, and repeating what others missed.

use super::{
    choose::{choose, is_valid},
    message::{
        Checkpoint, Decision, Fetch, Msg, NewView, PrePrepare, Record, Report, Status, ViewChange, Vote, is_member,
    },
    replica::{Job, Pbft, Phase, Timer},
    slots::SlotState,
};
use crate::core::{Base, Batch, Index, Out, Outs, Signed, Slot, Statement as _, To, View, Want};
use alloy_primitives::B256;
use std::collections::BTreeMap;

/// Slots whose messages are repeated for one STATUS.
const MOST_REPEATED: usize = 32;

impl Pbft {
    /// Leaves the current view for `view`.
    pub(super) fn leave(&mut self, view: View, out: &mut Outs<Self>) {
        self.view = view;
        self.phase = Phase::Changing;
        self.attempts += 1;
        (self.deciding, self.opening) = (None, None);
        for state in self.slots.values_mut() {
            (state.held, state.missing) = (None, None);
        }
        if self.new_view_runs {
            self.new_view_runs = false;
            out.push(Out::Cancel(Timer::NewView));
        }
        out.push(Out::Persist(Record::Left(view)));
        self.ask_for_change(out);
    }

    /// Has this replica's VIEW-CHANGE signed.
    pub(super) fn ask_for_change(&mut self, out: &mut Outs<Self>) {
        self.jobs.retain(|_, job| matches!(job, Job::Checkpoint(_)));
        let body = self.report();
        let bytes = body.signed_bytes(self.config.domain);
        self.sign(Job::ViewChange(body), bytes, out);
    }

    /// The journal of what this replica has seen.
    fn report(&self) -> ViewChange {
        let Base { slot, digest } = self.stable;
        // A replica that executes through many checkpoints reports the newest two.
        let mut above: Vec<Checkpoint> = self
            .announced
            .range(slot + 1..)
            .rev()
            .take(2)
            .map(|(slot, digest)| Checkpoint { slot: *slot, digest: *digest })
            .collect();
        above.reverse();
        let prepared = |(slot, state): (&Slot, &SlotState)| {
            state.prepared.map(|(view, digest)| Report { slot: *slot, digest, view })
        };
        let accepted = self.slots.iter().flat_map(|(slot, state)| {
            state.preprepared.iter().map(|(digest, view)| Report { slot: *slot, digest: *digest, view: *view })
        });
        ViewChange {
            view: self.view,
            stable: slot,
            checkpoints: std::iter::once(Checkpoint { slot, digest }).chain(above).collect(),
            prepared: self.slots.iter().filter_map(prepared).collect(),
            preprepared: accepted.collect(),
        }
    }

    /// Sends the signed VIEW-CHANGE.
    pub(super) fn send_change(&mut self, signed: Signed<ViewChange>, out: &mut Outs<Self>) {
        if signed.body.view != self.view || self.phase != Phase::Changing {
            return;
        }
        self.changes.insert(self.me, signed.clone());
        out.push(Out::Send(To::All, Msg::ViewChange(signed)));
        self.try_open(out);
    }

    pub(super) fn on_view_change(&mut self, signed: Signed<ViewChange>, out: &mut Outs<Self>) {
        let (signer, view) = (signed.signer, signed.body.view);
        let known = self.changes.get(&signer).is_some_and(|known| known.body.view >= view);
        let usable =
            is_member(signer, self.config.quorums.n()) && signer != self.me && signed.body.is_well_formed(&self.config);
        if known || !usable {
            return;
        }
        self.changes.insert(signer, signed);
        // Behind f+1 replicas stands a correct one: its view is worth joining.
        let ahead = self.changes.values().map(|change| change.body.view).filter(|view| *view > self.view);
        if ahead.clone().count() >= self.config.quorums.one_correct() {
            let smallest = ahead.min().expect("f+1 of them are ahead");
            self.leave(smallest, out);
        } else if view == self.view {
            self.try_open(out);
        }
    }

    /// Decides the new view as its primary, once enough view changes are there.
    fn try_open(&mut self, out: &mut Outs<Self>) {
        if self.phase != Phase::Changing || self.config.primary(self.view) != self.me || self.deciding.is_some() {
            return;
        }
        let changes = self.changes_of_view();
        if changes.len() < self.config.quorums.available() {
            return;
        }
        self.deciding = choose(&self.config, &changes);
        self.finish_deciding(out);
    }

    fn changes_of_view(&self) -> BTreeMap<Index, &ViewChange> {
        let of_view = self.changes.iter().filter(|(_, change)| change.body.view == self.view);
        of_view.map(|(signer, change)| (*signer, &change.body)).collect()
    }

    /// Has NEW-VIEW signed, once every chosen batch is at hand: condition A3.
    fn finish_deciding(&mut self, out: &mut Outs<Self>) {
        let Some(choice) = &self.deciding else { return };
        let missing: Vec<B256> = choice.digests.iter().copied().filter(|digest| !self.has(*digest)).collect();
        if !missing.is_empty() {
            out.extend(missing.into_iter().map(|digest| Out::Send(To::All, Msg::Fetch(Fetch { digest }))));
            return;
        }
        if self.jobs.values().any(|job| matches!(job, Job::NewView(_))) {
            return;
        }
        let of_view = self.changes.values().filter(|change| change.body.view == self.view);
        let (stable, choices) = (choice.stable, choice.digests.clone());
        let body = NewView { view: self.view, changes: of_view.cloned().collect(), stable, choices };
        // View changes that came since may undo the decision.
        if choose(&self.config, &self.changes_of_view()) != self.deciding {
            self.deciding = None;
            return self.try_open(out);
        }
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

    pub(super) fn on_new_view(&mut self, signed: Signed<NewView>, out: &mut Outs<Self>) {
        let view = signed.body.view;
        let is_ahead = view > self.view || view == self.view && self.phase == Phase::Changing;
        if is_ahead && signed.signer != self.me && is_valid(&self.config, &signed) {
            self.enter(signed, out);
        }
    }

    fn enter(&mut self, signed: Signed<NewView>, out: &mut Outs<Self>) {
        let NewView { view, stable, ref choices, .. } = signed.body;
        self.attempts += u32::from(view > self.view);
        (self.view, self.phase, self.deciding) = (view, Phase::Active, None);
        self.jobs.retain(|_, job| matches!(job, Job::Checkpoint(_)));
        let base = Base { slot: stable.slot, digest: stable.digest };
        if base.slot > self.stable.slot {
            self.make_stable(base, Vec::new(), out);
        }
        // Leftovers of an older view that was not left: nothing of it may be accepted in this one.
        for state in self.slots.values_mut() {
            (state.held, state.missing) = (None, None);
        }
        self.restart_progress(out);
        out.push(Out::Persist(Record::Entered(view, base, choices.clone())));
        let chosen: Vec<(Slot, B256)> = (stable.slot + 1..).zip(choices.iter().copied()).collect();
        self.next = chosen.last().map_or(stable.slot, |(slot, _)| *slot).max(self.stable.slot) + 1;
        self.opening = Some(signed);
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
        let chosen = self.deciding.as_ref().is_some_and(|choice| choice.digests.contains(&digest));
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

    /// Repeats what others may have missed, and asks for what this replica misses.
    pub(super) fn repeat(&mut self, out: &mut Outs<Self>) {
        out.push(Out::Send(To::All, Msg::Status(self.status())));
        if self.phase == Phase::Changing
            && let Some(own) = self.changes.get(&self.me).filter(|own| own.body.view == self.view)
        {
            out.push(Out::Send(To::All, Msg::ViewChange(own.clone())));
        }
        let own = self.checkpoints.get(&self.me).into_iter().flatten().cloned();
        out.extend(own.map(|signed| Out::Send(To::All, Msg::Checkpoint(signed))));
        let missing = self.slots.values().filter_map(|state| state.missing);
        out.extend(missing.map(|(_, digest)| Out::Send(To::All, Msg::Fetch(Fetch { digest }))));
        let learned: Vec<Slot> =
            self.slots.iter().filter(|(_, s)| s.learned.is_some()).map(|(slot, _)| *slot).collect();
        learned.into_iter().for_each(|slot| self.decide_learned(slot, out));
        self.finish_deciding(out);
        if self.committed < self.stable.slot {
            out.push(Out::Want(Want::State(self.stable)));
        } else if let Some((base, _)) = self.certified() {
            out.push(Out::Want(Want::State(base)));
        }
    }

    /// Answers a replica that is behind.
    pub(super) fn on_status(&self, from: Index, status: Status, out: &mut Outs<Self>) {
        let mut send = |message| out.push(Out::Send(To::One(from), message));
        let behind = status.view < self.view || status.view == self.view && !status.active;
        match (&self.opening, self.changes.get(&self.me)) {
            (Some(opening), _) if behind => send(Msg::NewView(opening.clone())),
            (None, Some(own)) if behind && own.body.view == self.view => send(Msg::ViewChange(own.clone())),
            _ => {}
        }
        if status.stable < self.stable.slot {
            self.proof.iter().cloned().map(Msg::Checkpoint).for_each(&mut send);
        }
        let after = status.decided.max(self.stable.slot).saturating_add(1);
        let repeated = || self.slots.range(after..).take(MOST_REPEATED);
        for (slot, digest) in repeated().filter_map(|(slot, state)| Some((*slot, state.decided?))) {
            send(Msg::Decided(Decision { slot, digest }));
        }
        if !self.is_active() || !status.active || status.view != self.view {
            return;
        }
        let leads = self.config.primary(self.view) == self.me;
        for (slot, state) in repeated() {
            let (slot, view) = (*slot, self.view);
            if let Some(digest) = state.accepted_in(view) {
                match self.batches.get(&digest) {
                    Some(batch) if leads => send(Msg::PrePrepare(PrePrepare { view, slot, batch: batch.clone() })),
                    _ if leads => {}
                    _ => send(Msg::Prepare(Vote { view, slot, digest })),
                }
            }
            if let Some(digest) = state.prepared_in(view) {
                send(Msg::Commit(Vote { view, slot, digest }));
            }
        }
    }
}
