//! Decided blocks that a host still has: for clients, for its log, and for replicas that go on from a snapshot.

use super::Host;
use crate::{
    certified::Certified,
    chain::{Retained, decode_result},
    proof::StateProof,
    record::HostRecord,
};
use alloy_primitives::Bytes;
use phalanx_bft::{Protocol, Slot};
use std::sync::Arc;

impl<P: Protocol> Host<P> {
    /// A committed block that is retained.
    #[must_use]
    pub fn retained(&self, slot: Slot) -> Option<Retained> {
        let block = self.chain.block(slot).filter(|_| slot <= self.committed)?;
        let result = decode_result(block.outcome.as_ref()?)?;
        Some(Retained { meta: block.meta, env: block.env, payload: Arc::clone(&block.payload), result })
    }

    /// A committed block as others can go on from the state after it, with the certificate that the engine's commit has kept. `None` if
    /// the block is not retained, is of an earlier epoch, or the certificate is a checkpoint of the protocol. The block that the epoch
    /// begins above has a certificate of its own.
    #[must_use]
    pub fn certified(&self, slot: Slot, certificate: &Bytes) -> Option<Certified> {
        if let Some(begins) = self.epoch.begins.as_ref().filter(|begins| slot <= begins.slot()) {
            return (slot == begins.slot() && slot <= self.committed).then(|| begins.block.clone());
        }
        let block = self.chain.block(slot).filter(|_| slot <= self.committed)?;
        let parent = self.chain.execution(slot.checked_sub(1)?)?;
        let StateProof::Votes(votes) = StateProof::decode(certificate)? else { return None };
        let names = votes.first().is_some_and(|vote| (vote.body.slot, vote.body.block) == (slot, block.meta.id.0));
        names.then_some(())?;
        Some(Certified {
            slot,
            block: block.meta.id.0,
            parent: parent.0,
            timestamp_ms: block.env.timestamp_ms,
            beneficiary: block.env.beneficiary,
            payload: block.payload.digest(),
            result: block.outcome.clone()?,
            certificate: certificate.clone(),
        })
    }

    /// Records that replace the log, and the number of the last append that they include.
    ///
    /// A shell writes them to a new file, makes it durable in the place of the old one, drops appends up to that number, and
    /// reports [`Host::durable`] with it. `None` before the engine has told where it is.
    #[must_use]
    pub fn compacted(&self) -> Option<(u64, Vec<HostRecord<P::Record>>)> {
        let protocol = self.protocol.as_ref()?;
        let base = self.chain.base();
        let mut records: Vec<_> = self.epoch.begins.clone().map(HostRecord::Epoch).into_iter().collect();
        records.push(HostRecord::Base(base));
        records.extend(self.chain.outcome(base.slot).map(|outcome| HostRecord::Outcome(base.slot, outcome.clone())));
        for (slot, block) in self.chain.from(0) {
            if *slot <= self.chain.decided() {
                records.push(HostRecord::Block(*slot, block.batch.clone()));
            }
            records.extend(block.outcome.iter().map(|outcome| HostRecord::Outcome(*slot, outcome.clone())));
        }
        records.extend(protocol.journal().into_iter().map(HostRecord::Protocol));
        records.extend(self.silence.is_some().then_some(HostRecord::Silent(true)));
        Some((self.outbox.appended(), records))
    }
}
