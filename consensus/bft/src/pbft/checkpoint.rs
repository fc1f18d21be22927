//! Checkpoints: when the log and the window move on.

use super::{
    message::{Checkpoint, Msg, Record, is_member},
    replica::{Job, Pbft},
};
use crate::core::{Base, Out, Outs, Patient as _, Signed, Slot, Statement as _, To};
use alloy_primitives::{B256, Bytes};

/// Checkpoints of one replica that are kept above the stable one. A correct replica has at most two in the window.
const MOST_CHECKPOINTS: usize = 3;

impl From<Base> for Checkpoint {
    fn from(Base { slot, digest }: Base) -> Self {
        Self { slot, digest }
    }
}

impl Pbft {
    /// Notes that a slot is executed and durable. A checkpoint among the slots is announced, also if a crash has kept the
    /// announcement from the log.
    pub(super) fn on_committed(&mut self, slot: Slot, digest: B256, out: &mut Outs<Self>) {
        if slot > self.committed {
            self.reached(slot, out);
        }
        let announced = self.checkpoints.get(&self.me).is_some_and(|own| own.iter().any(|s| s.body.slot == slot));
        if slot.is_multiple_of(self.config.interval) && slot > self.stable.slot && !announced {
            let body = Checkpoint { slot, digest };
            self.sign(Job::Checkpoint(body), body.signed_bytes(self.config.domain), out);
        }
    }

    /// Announces a signed checkpoint.
    pub(super) fn announce(&mut self, signed: Signed<Checkpoint>, out: &mut Outs<Self>) {
        if self.wants_checkpoint(&signed) {
            out.push(Out::Persist(Record::Announced(signed.clone())));
            out.push(Out::Send(To::All, Msg::Checkpoint(signed.clone())));
            self.on_checkpoint(signed, out);
        }
    }

    /// Returns true if a checkpoint is above the stable one and not known.
    pub(super) fn wants_checkpoint(&self, signed: &Signed<Checkpoint>) -> bool {
        let Checkpoint { slot, .. } = signed.body;
        let known = self.checkpoints.get(&signed.signer);
        slot > self.stable.slot
            && slot.is_multiple_of(self.config.interval)
            && is_member(signed.signer, self.config.quorums.n())
            && !known.is_some_and(|known| {
                // A second checkpoint of a slot is news as evidence only, and once.
                let accused = self.accused.contains(signed.signer);
                known.iter().any(|other| other.body == signed.body || accused && other.body.slot == slot)
            })
    }

    /// Counts a checkpoint that [`Pbft::wants_checkpoint`] lets pass.
    pub(super) fn on_checkpoint(&mut self, signed: Signed<Checkpoint>, out: &mut Outs<Self>) {
        let signer = signed.signer;
        let known = self.checkpoints.entry(signer).or_default();
        match known.binary_search_by_key(&signed.body.slot, |known| known.body.slot) {
            Ok(at) => {
                // One proof of a replica's guilt is enough.
                if self.accused.insert(signer) {
                    let mut proof = alloy_rlp::encode(&known[at]);
                    proof.extend(alloy_rlp::encode(&signed));
                    out.push(Out::Evidence { against: signer, proof: Bytes::from(proof) });
                }
                return;
            }
            Err(at) => known.insert(at, signed),
        }
        if known.len() > MOST_CHECKPOINTS {
            known.remove(0);
        }
        self.find_ahead();
        if let Some((base, proof)) = self.certified(self.decided) {
            self.make_stable(base, proof, out);
        }
    }

    /// Finds the highest slot that f+1 replicas have reached: one of them is correct.
    pub(super) fn find_ahead(&mut self) {
        let mut reached: Vec<Slot> =
            self.checkpoints.values().filter_map(|known| known.last()).map(|signed| signed.body.slot).collect();
        reached.sort_unstable_by(|a, b| b.cmp(a));
        self.ahead = reached.get(self.config.quorums.f()).copied().unwrap_or(0);
    }

    /// The highest checkpoint above the stable one, up to the slot `most`, that a quorum has signed. A replica that only follows the others
    /// is behind their newest one at all times.
    pub(super) fn certified(&self, most: Slot) -> Option<(Base, Vec<Signed<Checkpoint>>)> {
        let known = self.checkpoints.values().flatten().map(|signed| signed.body);
        let mut named: Vec<Checkpoint> = known.filter(|checkpoint| checkpoint.slot <= most).collect();
        named.sort_unstable_by_key(|checkpoint| (checkpoint.slot, checkpoint.digest));
        let quorum = named.chunk_by(|a, b| a == b).rfind(|same| same.len() >= self.config.quorum())?[0];
        let signed = self.checkpoints.values().flatten().filter(|signed| signed.body == quorum);
        Some((Base { slot: quorum.slot, digest: quorum.digest }, signed.cloned().collect()))
    }

    /// Moves the window to a checkpoint that `proof` proves, and drops what is below.
    pub(super) fn make_stable(&mut self, base: Base, proof: Vec<Signed<Checkpoint>>, out: &mut Outs<Self>) {
        if base.slot <= self.stable.slot {
            return;
        }
        let bytes = Bytes::from(alloy_rlp::encode(&proof));
        let Base { slot, digest } = base;
        out.push(Out::Persist(Record::Stable { slot, digest, proof: proof.clone() }));
        self.advance_window(base, proof);
        self.extend_decided(base.slot, out);
        out.push(Out::Stable { base, proof: bytes });
    }

    /// Moves the window, without effects.
    pub(super) fn advance_window(&mut self, base: Base, proof: Vec<Signed<Checkpoint>>) {
        (self.stable, self.proof) = (base, proof);
        self.slots = self.slots.split_off(&(base.slot + 1));
        self.drop_unneeded();
        for known in self.checkpoints.values_mut() {
            known.retain(|signed| signed.body.slot > base.slot);
        }
        self.checkpoints.retain(|_, known| !known.is_empty());
        self.find_ahead();
        self.next = self.next.max(base.slot + 1);
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
        self.extend_decided(slot, out);
        if let Some((certified, proof)) = self.certified(self.decided) {
            self.make_stable(certified, proof, out);
        }
    }

    /// Extends the decided prefix, at least to `least`. That is progress if no client waits: a client that does has to be
    /// served itself.
    pub(super) fn extend_decided(&mut self, least: Slot, out: &mut Outs<Self>) {
        let before = self.decided;
        self.decided = self.decided.max(least);
        while self.slots.get(&(self.decided + 1)).is_some_and(|state| state.decided.is_some()) {
            self.decided += 1;
        }
        if self.decided > before && self.pending.is_none() {
            self.progress(out);
        }
    }
}
