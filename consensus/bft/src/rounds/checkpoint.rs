//! Checkpoints: when the log and the history move on.

use super::{
    block::{Kept, Offered},
    message::{Checkpoint, Msg},
    protocol::{Job, Rounds},
    record::Record,
    replica::Replica,
};
use crate::core::{Base, Out, Outs, Signed, Slot, Statement as _, View, Want};
use alloy_primitives::{B256, Bytes};
use std::sync::Arc;

/// Checkpoints of one replica that are kept above the stable one.
const MOST_CHECKPOINTS: usize = 8;

impl Rounds {
    /// Notes that a slot is executed and durable. A checkpoint among the slots is announced, also if a crash has kept the
    /// announcement from the log.
    pub(super) fn on_committed(&mut self, slot: Slot, digest: B256, out: &mut Outs<Self>) {
        self.committed = self.committed.max(slot);
        let announced = self.checkpoints.get(&self.me).is_some_and(|own| own.iter().any(|s| s.body.slot == slot));
        if slot.is_multiple_of(self.config.interval) && slot > self.stable.slot && !announced {
            match self.history.get(&slot) {
                Some((block, _)) => {
                    let body = Checkpoint { slot, view: block.place.view, id: block.id, digest };
                    self.sign(Job::Checkpoint(body), body.signed_bytes(self.config.domain), out);
                }
                // A certificate of the state has come before that of the order: the block has no name yet.
                None => drop(self.unnamed.insert(slot, digest)),
            }
        }
        self.try_stable(out);
    }

    /// Announces a signed checkpoint.
    pub(super) fn announce(&mut self, signed: Signed<Checkpoint>, out: &mut Outs<Self>) {
        if self.wants_checkpoint(&signed) {
            out.push(Out::Persist(Record::Announced(signed.clone())));
            Self::send(Msg::Checkpoint(signed.clone()), out);
            self.on_checkpoint(signed, out);
        }
    }

    /// Returns true if a checkpoint is above the stable one and not known.
    pub(super) fn wants_checkpoint(&self, signed: &Signed<Checkpoint>) -> bool {
        let slot = signed.body.slot;
        let known = self.checkpoints.get(&signed.signer);
        slot > self.stable.slot
            && slot.is_multiple_of(self.config.interval)
            && self.is_member(signed.signer)
            && !known.is_some_and(|known| {
                // A second checkpoint of a slot is news as evidence only, and once.
                let accused = self.accused.contains(signed.signer);
                known.iter().any(|other| other.body == signed.body || accused && other.body.slot == slot)
            })
    }

    /// Counts a checkpoint that [`Rounds::wants_checkpoint`] lets pass.
    pub(super) fn on_checkpoint(&mut self, signed: Signed<Checkpoint>, out: &mut Outs<Self>) {
        let known = self.checkpoints.entry(signed.signer).or_default();
        match known.binary_search_by_key(&signed.body.slot, |known| known.body.slot) {
            Ok(at) => {
                let other = known[at].clone();
                return self.accuse(signed.signer, &other, &signed, out);
            }
            Err(at) => known.insert(at, signed),
        }
        if known.len() > MOST_CHECKPOINTS {
            known.remove(0);
        }
        self.try_stable(out);
    }

    /// The highest checkpoint above the stable one, and up to `most`, that a quorum has signed.
    pub(super) fn certified(&self, most: Slot) -> Option<(Checkpoint, Vec<Signed<Checkpoint>>)> {
        let all = self.checkpoints.values().flatten().map(|signed| signed.body);
        let mut named: Vec<Checkpoint> = all.filter(|checkpoint| checkpoint.slot <= most).collect();
        named.sort_unstable();
        let quorum = named.chunk_by(|a, b| a == b).rfind(|same| same.len() >= self.config.quorums.quorum())?[0];
        let signed = self.checkpoints.values().flatten().filter(|signed| signed.body == quorum);
        Some((quorum, signed.cloned().collect()))
    }

    /// Moves the stable checkpoint to one that a quorum has, once the own order or state reaches it.
    pub(super) fn try_stable(&mut self, out: &mut Outs<Self>) {
        let reached = self.decided().max(self.committed);
        let Some((checkpoint, proof)) = self.certified(reached) else { return };
        let behind = checkpoint.slot > self.decided();
        let bytes = Bytes::from(alloy_rlp::encode(&proof));
        out.push(Out::Persist(Record::Stable(checkpoint, proof.clone())));
        (self.stable, self.proof) = (checkpoint, proof);
        self.history = self.history.split_off(&(checkpoint.slot + 1));
        self.unnamed = self.unnamed.split_off(&(checkpoint.slot + 1));
        for known in self.checkpoints.values_mut() {
            known.retain(|signed| signed.body.slot > checkpoint.slot);
        }
        self.checkpoints.retain(|_, known| !known.is_empty());
        if behind {
            self.jump(checkpoint, out);
        }
        out.push(Out::Stable { base: checkpoint.base(), proof: bytes });
    }

    /// Notes a state that the host fetched.
    pub(super) fn install(&mut self, base: Base, out: &mut Outs<Self>) {
        self.committed = self.committed.max(base.slot);
        self.try_stable(out);
    }

    /// The order goes on behind a checkpoint whose blocks this replica has not seen. Votes are counted anew.
    fn jump(&mut self, Checkpoint { slot, view, id, .. }: Checkpoint, out: &mut Outs<Self>) {
        self.core = Replica::new(self.me, self.core.settings, (view, slot, id), &self.kept(view));
        self.votes.clear();
        self.certificates.retain(|(_, of), _| *of > view);
        self.told.clear();
        self.due.clear();
        self.jobs.retain(|_, job| !matches!(job, Job::Vote(_)));
        self.start(out);
    }

    /// Asks the host for a state that a quorum has and this replica lacks.
    pub(super) fn want_state(&self, out: &mut Outs<Self>) {
        if self.committed < self.stable.slot {
            out.push(Out::Want(Want::state(self.stable.base(), &self.proof)));
        } else if let Some((checkpoint, proof)) = self.certified(Slot::MAX) {
            out.push(Out::Want(Want::state(checkpoint.base(), &proof)));
        }
    }

    /// Votes and proposals of views above `after`.
    pub(super) fn kept(&self, after: View) -> Vec<Kept<Offered>> {
        let core = &self.core;
        let voted = core.voted.range(after + 1..).filter_map(|(_, id)| core.blocks.get(id));
        let mut kept: Vec<_> = voted.map(|block| Kept::Voted(Arc::clone(block))).collect();
        kept.extend(core.order_voted.range(after + 1..).map(|(view, id)| Kept::OrderVoted(*view, *id)));
        kept.extend(core.gave_up.range(after + 1..).map(|view| Kept::Nullified(*view)));
        // A block that is due is asked for, and not yet proposed.
        let is_due = |view: &View, parent: &B256| self.due.get(view).is_some_and(|due| due.place.parent == *parent);
        for (view, parents) in core.proposed.range(after + 1..) {
            let made = parents.iter().filter(|parent| !is_due(view, parent));
            kept.extend(made.map(|parent| Kept::Proposed(*view, *parent)));
        }
        kept
    }
}
