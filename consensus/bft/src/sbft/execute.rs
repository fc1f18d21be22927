//! Executed states: certificates for clients, and checkpoints below which slots are dropped.
//!
//! π needs f+1 shares and may have a single correct signer, which is enough for a client: the state is right. A checkpoint needs
//! τ, so that f+c+1 correct replicas have the state before any drops the slots below.
//!
//! Shares of checkpoints are repeated, those of π are not: a client whose single answer is lost asks all replicas, and takes f+1
//! equal answers.

use super::{
    choose::is_checkpoint,
    message::{Checkpoint, Executed, Msg, Record, Stable, StateShare, is_member},
    replica::{Job, Sbft, Timer},
    slots::Progress,
};
use crate::core::{Base, Crypto, Group, Index, Out, Outs, Patient as _, Slot, Statement as _, To, Want};
use alloy_primitives::{B256, Bytes};
use std::collections::BTreeMap;

/// Checkpoints of one replica that are kept above the stable one. A correct replica has at most two in the window.
const MOST_CHECKPOINTS: usize = 3;

/// Longest share that is kept, in bytes.
const MOST_SHARE_BYTES: usize = 256;

/// Shares over the state after a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct States {
    pub(super) shares: BTreeMap<Index, (B256, Bytes)>,
    own: Option<B256>,
    /// State that a certificate names.
    certified: Option<B256>,
    progress: Progress,
}

impl Sbft {
    /// Notes that a slot is executed and durable, and signs its state.
    pub(super) fn on_committed(&mut self, slot: Slot, digest: B256, out: &mut Outs<Self>) {
        if self.proven_state(slot).is_some_and(|proven| proven != digest) {
            out.push(Out::Conflict { slot });
            return;
        }
        if slot > self.committed {
            self.reached(slot, out);
        }
        if !self.in_window(slot) {
            return;
        }
        let states = self.states.entry(slot).or_default();
        if states.own.is_none() {
            states.own = Some(digest);
            if self.config.replies == super::Replies::Certificate {
                let bytes = Executed { slot, digest }.signed_bytes(self.config.domain);
                self.work(Job::State(slot, digest), Crypto::Share { group: Group::State, bytes }, out);
            }
        }
        let announced = self.checkpoints.shares.get(&self.me).is_some_and(|own| own.contains_key(&slot));
        if is_checkpoint(&self.config, slot) && !announced {
            let bytes = Checkpoint { slot, digest }.signed_bytes(self.config.domain);
            self.work(Job::Checkpoint(slot, digest), Crypto::Share { group: Group::Slow, bytes }, out);
        }
    }

    /// The state after a slot that a certificate or a checkpoint proves, as far as it is known.
    fn proven_state(&self, slot: Slot) -> Option<B256> {
        let checkpoints = [Some(&self.checkpoints.stable), self.checkpoints.certified.as_ref()].into_iter().flatten();
        let checkpoint = checkpoints.map(|stable| stable.checkpoint).find(|own| own.slot == slot && slot > 0);
        let certified = || self.states.get(&slot).and_then(|states| states.certified);
        checkpoint.map(|checkpoint| checkpoint.digest).or_else(certified)
    }

    /// Sends the own share of π to the execution collectors.
    pub(super) fn send_state(&mut self, share: StateShare, out: &mut Outs<Self>) {
        let executors: Vec<Index> = self.config.executors(share.slot).collect();
        let others = executors.iter().filter(|to| **to != self.me);
        out.extend(others.map(|to| Out::Send(To::One(*to), Msg::SignState(share.clone()))));
        if executors.contains(&self.me) {
            self.add_state(self.me, share, out);
        }
    }

    pub(super) fn on_sign_state(&mut self, from: Index, share: StateShare, out: &mut Outs<Self>) {
        let mine = self.config.executors(share.slot).any(|index| index == self.me);
        if mine && self.in_window(share.slot) && share.share.len() <= MOST_SHARE_BYTES && !self.banned.contains(from) {
            self.add_state(from, share, out);
        }
    }

    fn add_state(&mut self, from: Index, share: StateShare, out: &mut Outs<Self>) {
        let StateShare { slot, digest, share } = share;
        if !self.in_window(slot) || self.banned.contains(from) {
            return;
        }
        self.states.entry(slot).or_default().shares.entry(from).or_insert((digest, share));
        self.certify(slot, out);
    }

    /// Combines π once f+1 replicas have the state that this replica has.
    fn certify(&mut self, slot: Slot, out: &mut Outs<Self>) {
        let Some(states) = self.states.get_mut(&slot) else { return };
        let Some(digest) = states.own else { return };
        let equal = states.shares.iter().filter(|(_, (of, _))| *of == digest);
        let shares: Vec<_> =
            equal.map(|(signer, (_, share))| (*signer, share.clone())).take(self.config.state()).collect();
        if shares.len() < self.config.state() || matches!(states.progress, Progress::Working | Progress::Done) {
            return;
        }
        let rank = self.config.executors(slot).position(|index| index == self.me).unwrap_or(0) as u64;
        if states.progress == Progress::Idle && rank > 0 && self.config.stagger > 0 {
            states.progress = Progress::Waiting;
            out.push(Out::Timer(Timer::State(slot), rank * self.config.stagger));
        } else if states.progress != Progress::Waiting {
            states.progress = Progress::Working;
            let bytes = Executed { slot, digest }.signed_bytes(self.config.domain);
            self.work(Job::Certify(slot, digest), Crypto::Combine { group: Group::State, bytes, shares }, out);
        }
    }

    pub(super) fn state_turn_comes(&mut self, slot: Slot, out: &mut Outs<Self>) {
        if let Some(states) = self.states.get_mut(&slot)
            && states.progress == Progress::Waiting
        {
            states.progress = Progress::Due;
            self.certify(slot, out);
        }
    }

    /// Tells the host, whose clients wait for it, and all replicas.
    pub(super) fn state_combined(&mut self, slot: Slot, digest: B256, signature: Option<Bytes>, out: &mut Outs<Self>) {
        let Some(states) = self.states.get_mut(&slot) else { return };
        let Some(signature) = signature else {
            states.progress = Progress::Due;
            return self.certify(slot, out);
        };
        states.progress = Progress::Done;
        out.push(Out::Certificate { slot, digest, signature: signature.clone(), answers: true });
        out.push(Out::Send(To::All, Msg::Executed(Executed { slot, digest }, signature)));
    }

    /// Returns true if a certificate of a state is news.
    pub(super) fn wants_executed(&self, executed: &Executed) -> bool {
        let known = self.states.get(&executed.slot);
        self.in_window(executed.slot) && known.is_none_or(|states| states.progress != Progress::Done)
    }

    pub(super) fn on_executed(&mut self, executed: Executed, signature: Bytes, out: &mut Outs<Self>) {
        let Executed { slot, digest } = executed;
        let states = self.states.entry(slot).or_default();
        if states.own.is_some_and(|own| own != digest) {
            out.push(Out::Conflict { slot });
            return;
        }
        if states.progress == Progress::Waiting {
            out.push(Out::Cancel(Timer::State(slot)));
        }
        (states.progress, states.certified) = (Progress::Done, Some(digest));
        out.push(Out::Certificate { slot, digest, signature, answers: false });
        #[cfg(feature = "mutations")]
        if self.config.breaks(super::Mutation::StableByState) {
            self.drop_up_to(slot);
        }
    }

    /// Broken on purpose: drops slots without a checkpoint.
    #[cfg(feature = "mutations")]
    pub(super) fn drop_up_to(&mut self, slot: Slot) {
        self.slots = self.slots.split_off(&(slot + 1));
        self.drop_unneeded();
    }

    /// Sends the own share of a checkpoint to the execution collectors.
    pub(super) fn send_checkpoint(&mut self, share: StateShare, out: &mut Outs<Self>) {
        if share.slot <= self.checkpoints.stable.checkpoint.slot {
            return;
        }
        let others: Vec<Index> = self.config.executors(share.slot).filter(|to| *to != self.me).collect();
        out.extend(others.into_iter().map(|to| Out::Send(To::One(to), Msg::SignCheckpoint(share.clone()))));
        self.on_checkpoint(self.me, share, out);
    }

    pub(super) fn on_checkpoint(&mut self, from: Index, share: StateShare, out: &mut Outs<Self>) {
        let StateShare { slot, digest, .. } = share;
        let wanted = slot > self.checkpoints.stable.checkpoint.slot
            && is_checkpoint(&self.config, slot)
            && is_member(from, self.config.quorums.n())
            && share.share.len() <= MOST_SHARE_BYTES
            && !self.banned.contains(from);
        if !wanted {
            return;
        }
        let known = self.checkpoints.shares.entry(from).or_default();
        known.entry(slot).or_insert(share);
        if known.len() > MOST_CHECKPOINTS {
            known.pop_first();
        }
        self.stabilise(slot, digest, out);
    }

    /// Combines a checkpoint's shares once 2f+c+1 replicas have it.
    fn stabilise(&mut self, slot: Slot, digest: B256, out: &mut Outs<Self>) {
        let equal = self.checkpoints.shares.iter().filter_map(|(signer, known)| Some((*signer, known.get(&slot)?)));
        let equal = equal.filter(|(_, share)| share.digest == digest);
        let shares: Vec<_> =
            equal.map(|(signer, share)| (signer, share.share.clone())).take(self.config.slow()).collect();
        let works = self.jobs.any(|job| matches!(job, Job::Stabilise(of, _) if *of == slot));
        let certified = self.checkpoints.certified.as_ref().is_some_and(|stable| stable.checkpoint.slot >= slot);
        if shares.len() >= self.config.slow() && !works && !certified && slot > self.checkpoints.stable.checkpoint.slot
        {
            let bytes = Checkpoint { slot, digest }.signed_bytes(self.config.domain);
            self.work(Job::Stabilise(slot, digest), Crypto::Combine { group: Group::Slow, bytes, shares }, out);
        }
    }

    pub(super) fn checkpoint_combined(
        &mut self,
        slot: Slot,
        digest: B256,
        signature: Option<Bytes>,
        out: &mut Outs<Self>,
    ) {
        let Some(signature) = signature else { return self.stabilise(slot, digest, out) };
        let stable = Stable { checkpoint: Checkpoint { slot, digest }, signature };
        if self.wants_stable(&stable) {
            if self.config.executors(slot).any(|index| index == self.me) {
                out.push(Out::Send(To::All, Msg::Stable(stable.clone())));
            }
            self.on_stable(stable, out);
        }
    }

    /// Returns true if a proven checkpoint is above the known ones.
    pub(super) fn wants_stable(&self, stable: &Stable) -> bool {
        let slot = stable.checkpoint.slot;
        let known = self
            .checkpoints
            .certified
            .as_ref()
            .map_or(self.checkpoints.stable.checkpoint.slot, |known| known.checkpoint.slot);
        slot > known && is_checkpoint(&self.config, slot)
    }

    /// Takes a proven checkpoint: the window moves on once its slots are decided, or its state is fetched.
    pub(super) fn on_stable(&mut self, stable: Stable, out: &mut Outs<Self>) {
        if !self.wants_stable(&stable) {
            return;
        }
        let Checkpoint { slot, digest } = stable.checkpoint;
        if self.states.get(&slot).and_then(|states| states.own).is_some_and(|own| own != digest) {
            out.push(Out::Conflict { slot });
            return;
        }
        self.checkpoints.certified = Some(stable);
        self.settle(out);
    }

    /// Moves the window to the proven checkpoint, if its slots are decided.
    pub(super) fn settle(&mut self, out: &mut Outs<Self>) {
        if self.checkpoints.certified.as_ref().is_some_and(|stable| stable.checkpoint.slot <= self.decided)
            && let Some(stable) = self.checkpoints.certified.take()
        {
            self.make_stable(stable, out);
        }
    }

    /// Moves the window to a proven checkpoint, and drops what is below.
    pub(super) fn make_stable(&mut self, stable: Stable, out: &mut Outs<Self>) {
        let slot = stable.checkpoint.slot;
        if slot <= self.checkpoints.stable.checkpoint.slot {
            return;
        }
        let (base, proof) = (Base::from(stable.checkpoint), proof(&stable));
        out.push(Out::Persist(Record::Stable(stable.clone())));
        for state in self.slots.range(..=slot).filter(|(_, state)| state.own.help_runs) {
            out.push(Out::Cancel(Timer::Help(*state.0)));
        }
        self.move_window(stable);
        self.drop_unneeded();
        self.extend_decided(slot, out);
        out.push(Out::Stable { base, proof });
        self.fill_window(out);
    }

    /// Moves the window, without effects. Batches stay.
    pub(super) fn move_window(&mut self, stable: Stable) {
        let slot = stable.checkpoint.slot;
        self.checkpoints.stable = stable;
        if self.checkpoints.certified.as_ref().is_some_and(|known| known.checkpoint.slot <= slot) {
            self.checkpoints.certified = None;
        }
        self.slots = self.slots.split_off(&(slot + 1));
        self.states = self.states.split_off(&(slot + 1));
        self.checkpoints.shares.values_mut().for_each(|known| known.retain(|of, _| *of > slot));
        self.checkpoints.shares.retain(|_, known| !known.is_empty());
        self.next = self.next.max(slot + 1);
    }

    /// Notes a state that the host fetched.
    pub(super) fn install(&mut self, base: Base, out: &mut Outs<Self>) {
        if base.slot > self.committed {
            self.reached(base.slot, out);
        }
    }

    /// Asks the host for the state of a proven checkpoint that the own execution does not reach.
    pub(super) fn want_state(&self, out: &mut Outs<Self>) {
        let behind = (self.committed < self.checkpoints.stable.checkpoint.slot).then_some(&self.checkpoints.stable);
        if let Some(stable) = self.checkpoints.certified.as_ref().or(behind) {
            out.push(Out::Want(Want::State { base: stable.checkpoint.into(), proof: proof(stable) }));
        }
    }

    /// Notes that the state has reached a slot, by execution or by transfer.
    fn reached(&mut self, slot: Slot, out: &mut Outs<Self>) {
        self.committed = slot;
        self.extend_decided(slot, out);
        self.settle(out);
    }

    /// Extends the decided prefix, at least to `least`. That is progress if no client waits: a client that does has to be
    /// served itself.
    pub(super) fn extend_decided(&mut self, least: Slot, out: &mut Outs<Self>) {
        let before = self.decided;
        self.decided = self.decided.max(least);
        while self.slots.get(&(self.decided + 1)).is_some_and(|state| state.decided.is_some()) {
            self.decided += 1;
        }
        if self.decided > before {
            if self.pending.is_none() {
                self.progress(out);
            }
            self.settle(out);
        }
    }
}

fn proof(stable: &Stable) -> Bytes {
    alloy_rlp::encode(stable).into()
}
