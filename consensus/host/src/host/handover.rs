//! Certificates of results, handed on to the pipeline: it commits their blocks then.
//!
//! A state must never get ahead of the log that decides it. So a certificate leaves the host only when the log has, durably, the
//! decision of every block up to its own, and the own result of each. Without the decision a restart would find a state that its log
//! does not know; without the result it could not name what it committed, to peers and to clients.

use super::Host;
use crate::{
    chain::encode_result,
    proof::{StateProof, certifies},
    record::HostRecord,
};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{Base, Out, Protocol, Slot};
use phalanx_engine_api::{BlockId, BlockResult, CommitMeta, CommittedTip, FatalCause};
use phalanx_pipeline::{BlockMeta, ConsensusEvent};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Certificates that the pipeline does not have yet.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// Slots whose certificate may be handed on now.
    pub(super) due: BTreeSet<Slot>,
    /// Slots whose certificate waits for own results. Their blocks are in the chain, which bounds them.
    waiting: BTreeSet<Slot>,
    /// Newest checkpoint that certifies a decided block, with its proof.
    pub(super) checkpoint: Option<(Base, Bytes)>,
}

impl<P: Protocol> Host<P> {
    /// Takes the own result of a block: logs it, votes for it, and hands on the certificates that waited for it.
    pub(super) fn computed(&mut self, meta: BlockMeta, result: &BlockResult) {
        let (slot, encoded) = (meta.height, encode_result(result));
        let block = self.chain.block_mut(slot).filter(|block| block.meta.id == meta.id);
        let logged = block.as_ref().is_some_and(|block| block.outcome.as_ref() == Some(&encoded));
        if let Some(block) = block {
            block.outcome = Some(encoded.clone());
        }
        if !logged {
            self.outbox.append(HostRecord::Outcome(slot, encoded.clone()));
        }
        self.votes.set_own(slot, meta.id.0, (B256::new(result.digest()), encoded));
        self.say_vote(slot);
        self.handover.due.insert(slot);
        self.handover.due.append(&mut self.handover.waiting);
    }

    /// Hands on the certificates that are due. Returns true if there was any.
    pub(super) fn hand_over(&mut self) -> bool {
        let any = !self.handover.due.is_empty();
        while let Some(slot) = self.handover.due.pop_first() {
            self.hand_over_one(slot);
        }
        any
    }

    fn hand_over_one(&mut self, slot: Slot) {
        if self.epoch.is_over(slot) {
            return;
        }
        let Some((id, digest, bytes)) = self.certificate(slot) else { return };
        match self.chain.block(slot) {
            Some(block) if block.meta.id == id => {}
            Some(_) if slot <= self.chain.decided() => {
                self.fatal = Some(FatalCause::Fork { height: slot });
                return;
            }
            // The block may still come: it is due again then.
            _ => return,
        }
        // A certificate of the state implies the order, before the protocol knows it.
        while self.chain.decided() < slot {
            let next = self.chain.decided() + 1;
            let Some(batch) = self.chain.block(next).map(|block| block.batch.clone()) else { return };
            self.decided(next, batch);
            if self.chain.decided() < next {
                // The protocol has decided another block.
                return;
            }
        }
        let mut blocks = self.chain.from(self.committed + 1).take_while(|(at, _)| **at <= slot);
        if !blocks.all(|(_, block)| block.outcome.is_some()) {
            self.handover.waiting.insert(slot);
            return;
        }
        self.outbox.notify(ConsensusEvent::StateCertificate { id, height: slot, digest, bytes });
    }

    /// Takes what the protocol has accepted in the log as decided, up to the engine's committed block, if it leads there and the
    /// engine's certificate proves it. Logs of versions that handed certificates on at once may lack these decisions.
    pub(super) fn adopt_undecided(&mut self, committed: &CommittedTip) -> bool {
        let CommitMeta { block, state_certificate, .. } = &committed.meta;
        let Some(StateProof::Votes(votes)) = state_certificate.as_ref().and_then(|bytes| StateProof::decode(bytes))
        else {
            return false;
        };
        let Some(digest) = votes.first().map(|vote| vote.body.digest) else { return false };
        let named = (committed.height, block.0, digest);
        if !certifies(&votes, named, self.config.quorums, self.config.domain, &*self.scheme) {
            return false;
        }
        let base = self.base_of(self.chain.decided(), B256::ZERO);
        let mut out = Vec::new();
        drop(P::open(self.me, Arc::clone(&self.protocol_config), base, &self.records, &mut out));
        let mut contents = BTreeMap::new();
        for effect in out {
            match self.epoch.raise(effect) {
                Out::Decided { slot, batch } => drop(contents.insert(slot, batch)),
                Out::Proposed { slot, batch, .. } => drop(contents.entry(slot).or_insert(batch)),
                _ => {}
            }
        }
        let slots = self.chain.decided() + 1..=committed.height;
        let Some(contents) = slots.clone().map(|slot| contents.remove(&slot)).collect::<Option<Vec<_>>>() else {
            return false;
        };
        if self.chain.execution_after(&contents) != committed.exec {
            return false;
        }
        for (slot, batch) in slots.zip(contents) {
            self.chain.decide(slot, batch.clone());
            self.outbox.append(HostRecord::Block(slot, batch));
        }
        true
    }

    /// Block, digest and proof of a slot's certificate.
    fn certificate(&self, slot: Slot) -> Option<(BlockId, B256, Bytes)> {
        let votes = self.votes.certificate(slot);
        if let Some(first) = votes.first().map(|vote| vote.body) {
            return Some((BlockId(first.block), first.digest, StateProof::Votes(votes.to_vec()).encode()));
        }
        let (base, proof) = self.handover.checkpoint.as_ref().filter(|(base, _)| base.slot == slot)?;
        let block = self.chain.block(slot)?;
        Some((block.meta.id, base.digest, StateProof::Checkpoint(proof.clone()).encode()))
    }
}
