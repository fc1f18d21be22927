//! Checkpoints: when the log and the window move on.

use super::{
    message::{Checkpoint, Msg, Record, is_member},
    replica::{Job, Pbft},
};
use crate::core::{Base, Out, Outs, Signed, Slot, Statement as _, To};
use alloy_primitives::{B256, Bytes};

/// Checkpoints of one replica that are kept above the stable one. A correct replica has at most two in the window.
const MOST_CHECKPOINTS: usize = 3;

impl Pbft {
    /// Notes that a slot is executed and durable.
    pub(super) fn on_committed(&mut self, slot: Slot, digest: B256, out: &mut Outs<Self>) {
        if slot <= self.committed {
            return;
        }
        self.reached(slot, out);
        if slot.is_multiple_of(self.config.interval) && slot > self.stable.slot {
            let body = Checkpoint { slot, digest };
            self.sign(Job::Checkpoint(body), body.signed_bytes(self.config.domain), out);
        }
    }

    /// Announces a signed checkpoint.
    pub(super) fn announce(&mut self, signed: Signed<Checkpoint>, out: &mut Outs<Self>) {
        let Checkpoint { slot, digest } = signed.body;
        if slot <= self.stable.slot {
            return;
        }
        self.announced.insert(slot, digest);
        out.push(Out::Persist(Record::Announced(signed.body)));
        out.push(Out::Send(To::All, Msg::Checkpoint(signed.clone())));
        self.on_checkpoint(signed, out);
    }

    pub(super) fn on_checkpoint(&mut self, signed: Signed<Checkpoint>, out: &mut Outs<Self>) {
        let Checkpoint { slot, digest } = signed.body;
        let usable = slot > self.stable.slot
            && slot.is_multiple_of(self.config.interval)
            && is_member(signed.signer, self.config.quorums.n());
        if !usable {
            return;
        }
        let known = self.checkpoints.entry(signed.signer).or_default();
        match known.binary_search_by_key(&slot, |known| known.body.slot) {
            Ok(at) => {
                if known[at].body.digest != digest {
                    let (against, mut proof) = (signed.signer, alloy_rlp::encode(&known[at]));
                    proof.extend(alloy_rlp::encode(&signed));
                    out.push(Out::Evidence { against, proof: Bytes::from(proof) });
                }
                return;
            }
            Err(at) => known.insert(at, signed),
        }
        if known.len() > MOST_CHECKPOINTS {
            known.remove(0);
        }
        if let Some((base, proof)) = self.certified()
            && base.slot <= self.decided
        {
            self.make_stable(base, proof, out);
        }
    }

    /// The highest checkpoint above the stable one that a quorum has signed.
    pub(super) fn certified(&self) -> Option<(Base, Vec<Signed<Checkpoint>>)> {
        let mut named: Vec<Checkpoint> = self.checkpoints.values().flatten().map(|signed| signed.body).collect();
        named.sort_unstable_by_key(|checkpoint| (checkpoint.slot, checkpoint.digest));
        let quorum = named.chunk_by(|a, b| a == b).rfind(|same| same.len() >= self.config.quorum())?[0];
        let signed = self.checkpoints.values().flatten().filter(|signed| signed.body == quorum);
        Some((Base { slot: quorum.slot, digest: quorum.digest }, signed.cloned().collect()))
    }

    /// Moves the window to a checkpoint, and drops what is below.
    pub(super) fn make_stable(&mut self, base: Base, proof: Vec<Signed<Checkpoint>>, out: &mut Outs<Self>) {
        if base.slot <= self.stable.slot {
            return;
        }
        self.stable = base;
        self.slots = self.slots.split_off(&(base.slot + 1));
        self.batches.retain(|digest, _| self.slots.values().any(|state| state.needs(*digest)));
        self.announced = self.announced.split_off(&base.slot);
        for known in self.checkpoints.values_mut() {
            known.retain(|signed| signed.body.slot > base.slot);
        }
        self.checkpoints.retain(|_, known| !known.is_empty());
        self.next = self.next.max(base.slot + 1);
        self.decided = self.decided.max(base.slot);
        while self.slots.get(&(self.decided + 1)).is_some_and(|state| state.decided.is_some()) {
            self.decided += 1;
        }
        let bytes = Bytes::from(alloy_rlp::encode(&proof));
        out.push(Out::Persist(Record::Stable(base, proof.clone())));
        self.proof = proof;
        out.push(Out::Stable { base, proof: bytes });
    }

    /// Notes a state that the host fetched.
    pub(super) fn install(&mut self, base: Base, out: &mut Outs<Self>) {
        if base.slot > self.committed {
            self.reached(base.slot, out);
        }
    }

    /// Notes that the state has reached a slot, by execution or by transfer.
    fn reached(&mut self, slot: Slot, out: &mut Outs<Self>) {
        self.committed = slot;
        self.attempts = 0;
        self.restart_progress(out);
        self.decided = self.decided.max(slot);
        while self.slots.get(&(self.decided + 1)).is_some_and(|state| state.decided.is_some()) {
            self.decided += 1;
        }
        if let Some((certified, proof)) = self.certified().filter(|(certified, _)| certified.slot <= self.decided) {
            self.make_stable(certified, proof, out);
        }
    }
}
