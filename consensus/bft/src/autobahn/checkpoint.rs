//! Checkpoints: a quorum has the state after a slot, so that what is older can go.

use super::{
    message::Msg,
    record::Record,
    replica::{Autobahn, Job},
    statement::Checkpoint,
};
use crate::core::{Base, Index, Out, Outs, ReplicaSet, Signed, Slot, To, Want};
use alloy_primitives::B256;

/// Repetitions after which a replica that cannot reach a proven checkpoint fetches the state.
const PATIENCE: u32 = 3;

impl Autobahn {
    /// Notes that a slot is done: it may be one with a checkpoint.
    pub(super) fn pass(&mut self, slot: Slot, out: &mut Outs<Self>) {
        if slot.is_multiple_of(self.config.interval) {
            self.checkpoints.marks.insert(slot, (self.height, self.lanes.frontier()));
            self.sign_checkpoint(slot, out);
        }
        if self.checkpoints.beyond.as_ref().is_some_and(|(proof, _)| proof.first().is_some_and(|s| s.body.slot <= slot))
        {
            let proof = self.checkpoints.beyond.take().map(|(proof, _)| proof).unwrap_or_default();
            self.make_stable(proof, out);
        }
    }

    pub(super) fn on_committed(&mut self, height: u64, digest: B256, out: &mut Outs<Self>) {
        // Only the newest outcomes can end a slot with a checkpoint that is not announced yet.
        self.checkpoints.outcomes.insert(height, digest);
        let wanted: Vec<Slot> =
            self.checkpoints.marks.iter().filter(|(_, mark)| mark.0 == height).map(|(slot, _)| *slot).collect();
        wanted.into_iter().for_each(|slot| self.sign_checkpoint(slot, out));
        let lowest = self.checkpoints.marks.values().map(|mark| mark.0).min().unwrap_or(self.height).min(self.height);
        while self.checkpoints.outcomes.first_key_value().is_some_and(|(height, _)| *height < lowest)
            && self.checkpoints.outcomes.len() > 1
        {
            self.checkpoints.outcomes.pop_first();
        }
    }

    fn sign_checkpoint(&mut self, slot: Slot, out: &mut Outs<Self>) {
        let Some((height, frontier)) = self.checkpoints.marks.get(&slot).cloned() else { return };
        let Some(digest) = self.checkpoints.outcomes.get(&height).copied().or((height == 0).then_some(B256::ZERO))
        else {
            return;
        };
        if slot > self.checkpoints.stable.slot
            && self.checkpoints.newest.get(&self.me).is_none_or(|own| own.body.slot < slot)
        {
            self.sign(Job::Checkpoint(Checkpoint { slot, height, digest, frontier }), out);
        }
    }

    pub(super) fn announce(&mut self, signed: Signed<Checkpoint>, out: &mut Outs<Self>) {
        if self.wants_checkpoint(&signed) {
            out.push(Out::Persist(Record::Announced(signed.clone())));
            out.push(Out::Send(To::All, Msg::Checkpoint(signed.clone())));
            self.on_checkpoint(signed, out);
        }
    }

    pub(super) fn repeat_checkpoint(&mut self, out: &mut Outs<Self>) {
        out.extend(self.checkpoints.newest.get(&self.me).map(|own| Out::Send(To::All, Msg::Checkpoint(own.clone()))));
        if let Some((proof, waited)) = &mut self.checkpoints.beyond {
            *waited += 1;
            if *waited >= PATIENCE {
                let proof = proof.clone();
                self.checkpoints.beyond = None;
                self.make_stable(proof, out);
            }
        }
    }

    pub(super) fn wants_checkpoint(&self, signed: &Signed<Checkpoint>) -> bool {
        let body = &signed.body;
        body.slot > self.checkpoints.stable.slot
            && body.slot.is_multiple_of(self.config.interval)
            && body.frontier.len() == self.config.quorums.n()
            && self.checkpoints.newest.get(&signed.signer).is_none_or(|known| known.body.slot < body.slot)
    }

    pub(super) fn on_checkpoint(&mut self, signed: Signed<Checkpoint>, out: &mut Outs<Self>) {
        let body = signed.body.clone();
        self.checkpoints.newest.insert(signed.signer, signed);
        let equal: Vec<_> = self.checkpoints.newest.values().filter(|known| known.body == body).cloned().collect();
        if equal.len() >= self.config.quorums.quorum() {
            self.on_stable(equal, out);
        }
    }

    /// Returns true if a quorum has signed one checkpoint that is news.
    pub(super) fn wants_stable(&self, proof: &[Signed<Checkpoint>]) -> bool {
        let beyond =
            self.checkpoints.beyond.as_ref().and_then(|(known, _)| known.first()).map_or(0, |known| known.body.slot);
        proof.first().is_some_and(|signed| signed.body.slot > self.checkpoints.stable.slot.max(beyond))
            && self.is_proof(proof)
    }

    fn is_proof(&self, proof: &[Signed<Checkpoint>]) -> bool {
        let Some(first) = proof.first() else { return false };
        let mut signers = ReplicaSet::default();
        proof.len() >= self.config.quorums.quorum()
            && first.body.frontier.len() == self.config.quorums.n()
            && first.body.slot.is_multiple_of(self.config.interval)
            && proof.iter().all(|signed| {
                signed.body == first.body
                    && usize::from(signed.signer.0) < self.config.quorums.n()
                    && signers.insert(signed.signer)
            })
    }

    /// Takes a proven checkpoint: at once if this replica has got there, later if it may still do so.
    pub(super) fn on_stable(&mut self, proof: Vec<Signed<Checkpoint>>, out: &mut Outs<Self>) {
        let Some(slot) = proof.first().map(|signed| signed.body.slot) else { return };
        if slot <= self.done {
            self.make_stable(proof, out);
        } else {
            let waited = self.checkpoints.beyond.as_ref().map_or(0, |(_, waited)| *waited);
            self.checkpoints.beyond = Some((proof, waited));
        }
    }

    fn make_stable(&mut self, proof: Vec<Signed<Checkpoint>>, out: &mut Outs<Self>) {
        let Some(body) = proof.first().map(|signed| signed.body.clone()) else { return };
        if body.slot <= self.checkpoints.stable.slot {
            return;
        }
        let base = body.base();
        let behind = body.slot > self.done;
        // What others may still need of the interval before stays.
        self.checkpoints.older = std::mem::replace(&mut self.checkpoints.stable, body.clone());
        self.checkpoints.proof.clone_from(&proof);
        out.push(Out::Persist(Record::Stable(proof.clone())));
        if behind {
            self.jump(&body);
            out.push(Out::Want(Want::state(base, &proof)));
        }
        self.forget();
        out.push(Out::Stable { base, proof: encode(&proof) });
    }

    /// Goes on behind a checkpoint whose slots this replica has missed.
    pub(super) fn jump(&mut self, body: &Checkpoint) {
        (self.done, self.height, self.top) = (body.slot, body.height, self.top.max(body.slot));
        self.plan.clear();
        for (lane, tip) in (0..).map(Index).zip(&body.frontier) {
            self.lanes.commit(lane, *tip);
        }
    }

    /// Drops what is older than the checkpoint before the stable one.
    pub(super) fn forget(&mut self) {
        let stable = self.checkpoints.stable.slot;
        let kept = self.checkpoints.older.slot.saturating_sub(self.config.parallel).min(stable) + 1;
        self.slots = self.slots.split_off(&kept);
        for (_, state) in self.slots.range_mut(..=stable).filter(|(_, state)| state.instance.committed.is_none()) {
            (state.pending, state.patience) = (None, None);
            state.said.clear();
        }
        self.lanes.prune(&self.checkpoints.older.frontier);
        self.checkpoints.newest.retain(|_, known| known.body.slot > stable);
        self.checkpoints.marks = self.checkpoints.marks.split_off(&(stable + 1));
    }

    /// The host has the state of the stable checkpoint.
    pub(super) fn install(&mut self, base: Base, out: &mut Outs<Self>) {
        self.checkpoints.outcomes.insert(base.slot, base.digest);
        let _ = out;
    }
}

fn encode(proof: &[Signed<Checkpoint>]) -> alloy_primitives::Bytes {
    let mut bytes = Vec::new();
    alloy_rlp::encode_list(proof, &mut bytes);
    bytes.into()
}
