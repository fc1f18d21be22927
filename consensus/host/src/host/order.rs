//! The order: proposals get their blocks, order votes and decisions reach the pipeline, committed blocks the protocol.

use super::Host;
use crate::{action::Action, record::HostRecord};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{Batch, Input, Protocol, Slot, View};
use phalanx_engine_api::{ExecOutcome, FatalCause};
use phalanx_pipeline::{BlockMeta, ConsensusEvent, PayloadRef};
use std::sync::Arc;

impl<P: Protocol> Host<P> {
    pub(super) fn proposed(&mut self, slot: Slot, batch: Option<Batch>) {
        let new = self.chain.propose(slot, batch);
        self.tell_proposed(&new);
    }

    pub(super) fn order_voted(&mut self, slot: Slot, view: View) {
        self.chain.note_order_vote(slot, view);
        self.tell_order_votes();
    }

    /// Hands new blocks to the pipeline, in the order of their slots.
    fn tell_proposed(&mut self, new: &[Slot]) {
        for slot in new {
            let Some(block) = self.chain.block(*slot) else { continue };
            let payload = PayloadRef::Here(Arc::clone(&block.payload));
            self.outbox.notify(ConsensusEvent::Proposed { meta: block.meta, env: block.env, payload });
            self.came_back(*slot);
        }
        if !new.is_empty() {
            self.tell_order_votes();
        }
    }

    /// Notes that a block has its place in the chain. It may have had one before, and a result: that is logged anew, since a
    /// compaction may have dropped it.
    fn came_back(&mut self, slot: Slot) {
        let Some(block) = self.chain.block_mut(slot) else { return };
        if block.outcome.is_none()
            && let Some(outcome) = self.votes.own_outcome(slot, block.meta.id.0)
        {
            block.outcome = Some(outcome.clone());
            self.outbox.append(HostRecord::Outcome(slot, outcome));
        }
        self.handover.due.insert(slot);
    }

    fn tell_order_votes(&mut self) {
        for meta in self.chain.take_order_votes(self.epoch.end.unwrap_or(Slot::MAX)) {
            self.outbox.notify(ConsensusEvent::OrderVoteDurable(meta.id));
            self.say_vote(meta.height);
        }
    }

    pub(super) fn decided(&mut self, slot: Slot, batch: Option<Batch>) {
        if self.epoch.is_over(slot) {
            return;
        }
        let before = self.chain.decided();
        let contradicts = match slot <= before {
            true => self.chain.block(slot).is_some_and(|block| block.batch != batch),
            false => !self.votes.decide(slot, batch.clone()),
        };
        if contradicts {
            self.fatal = Some(FatalCause::Contradiction { height: slot });
        }
        if contradicts || slot <= before {
            return;
        }
        let new = self.chain.propose(slot, batch);
        self.tell_proposed(&new);
        // The contiguous prefix is ordered.
        while !self.epoch.is_over(self.chain.decided() + 1)
            && let Some(batch) = self.votes.take_decided(self.chain.decided() + 1)
        {
            let slot = self.chain.decided() + 1;
            let new = self.chain.decide(slot, batch.clone());
            self.tell_proposed(&new);
            if self.chain.decided() < slot {
                break;
            }
            if let Some(batch) = &batch {
                self.pool.order(slot, batch.transactions());
                self.note_end(slot, batch);
            }
            self.outbox.append(HostRecord::Block(slot, batch));
        }
        let decided = self.chain.decided();
        if decided > before
            && let Some(block) = self.chain.block(decided)
        {
            let (tip, height) = (block.meta.id, decided);
            self.outbox.notify(ConsensusEvent::Ordered { tip, height, proof: Bytes::new() });
            (before + 1..=decided).for_each(|slot| self.say_vote(slot));
            self.tell_pending();
        }
    }

    /// Notifies the protocol of a committed block of its epoch.
    pub(super) fn tell_committed(&mut self, slot: Slot, digest: B256) {
        let now = self.now;
        if let Some(slot) = self.slot_of(slot) {
            self.call(|protocol, out| protocol.on_input(now, Input::Committed { slot, digest }, out));
        }
    }

    /// A block is committed: the protocol moves on, and clients are answered. Its decision and its result are in the log.
    pub(super) fn committed(&mut self, meta: BlockMeta, outcome: ExecOutcome) {
        let (slot, digest) = (meta.height, outcome.digest());
        if slot > self.chain.decided() || self.chain.block(slot).is_none_or(|block| block.outcome.is_none()) {
            // No certificate left this host for it.
            self.fatal = Some(FatalCause::Contradiction { height: slot });
            return;
        }
        self.committed = slot;
        let below = slot.saturating_sub(self.config.retention);
        self.votes.prune(below);
        self.pool.prune(below);
        self.outbox.act(Action::Committed(meta, outcome));
        self.tell_committed(slot, digest);
    }
}
