//! Inputs of the pipeline, and which rule handles which.

use super::{
    state::{Pipeline, Rest, bounded},
    track::{Phase, Staging, Tracked, Work},
};
use crate::{
    config::{Mode, Role},
    event::{BlockMeta, Certificate, ConsensusEvent, Downstream, Effect, PayloadRef},
};
use alloy_primitives::B256;
use phalanx_engine_api::{BlockEnv, BlockId, EngineEvent, ExecId, Failure, Operation, Payload, RetryCause, Ticket};
use std::sync::Arc;

impl Pipeline {
    /// Processes an event of consensus.
    pub fn on_consensus(&mut self, event: ConsensusEvent, out: &mut Vec<Effect>) {
        if self.halted {
            return;
        }
        if self.rest != Rest::Running {
            if let ConsensusEvent::SyncDone(status) = event {
                *self = Self { ticket: self.ticket, ..Self::new(self.config.clone(), &status) };
                out.push(Effect::Resume);
            }
            return;
        }
        match event {
            ConsensusEvent::Proposed { meta, env, payload } => self.on_proposed(meta, env, &payload, out),
            ConsensusEvent::Payload(payload) => self.keep_payload(payload),
            ConsensusEvent::OrderVoteDurable(id) => {
                if let Some(block) = self.blocks.get_mut(&id) {
                    block.order_voted = true;
                }
            }
            ConsensusEvent::Ordered { tip, height, proof } => self.order(tip, height, Some(proof), out),
            ConsensusEvent::StateVote { from, id, digest, signature } => {
                let certified = |p: &Self| p.blocks.get(&id).is_some_and(|block| block.certificate.is_some());
                let before = certified(self);
                self.on_vote(from, id, digest, signature, out);
                if before == certified(self) {
                    return;
                }
            }
            ConsensusEvent::StateCertificate { id, height, digest, bytes } => {
                let certificate = Certificate { digest, bytes };
                if self.blocks.contains_key(&id) {
                    self.certify(id, certificate, out);
                } else if height > self.committed.height {
                    bounded(&mut self.early.certificates, id, (height, certificate));
                    self.announce(height);
                } else {
                    self.certified_late(id, height, certificate, out);
                }
            }
            ConsensusEvent::Abandoned(id) => self.abandon(id, out),
            ConsensusEvent::Finalised(height) => self.finalised.wanted = self.finalised.wanted.max(height),
            ConsensusEvent::SyncStart | ConsensusEvent::Stop => {
                let ticket = self.next();
                self.rest = Rest::Resting(ticket);
                out.push(Effect::Quiesce(ticket));
                return;
            }
            ConsensusEvent::SyncDone(_) => {}
        }
        self.advance(out);
    }

    /// Processes a completion of the engine, or a refusal as [`EngineEvent::Failed`].
    pub fn on_engine(&mut self, event: EngineEvent, out: &mut Vec<Effect>) {
        if self.halted {
            return;
        }
        match event {
            EngineEvent::Executed { .. } | EngineEvent::Rewound { .. } => return,
            EngineEvent::Rooted { ticket, outcome } => {
                if let Some(work) = self.works.get_mut(&outcome.id)
                    && work.ticket == ticket
                {
                    work.phase = Phase::Rooted(outcome);
                }
            }
            EngineEvent::Staged { ticket, id } => {
                if let Some(work) = self.works.get_mut(&id)
                    && (work.staging == Staging::Asked(ticket) || work.ticket == ticket)
                {
                    work.staging = Staging::Done;
                }
            }
            EngineEvent::Committed { ticket, height, .. } => self.on_committed(ticket, height, out),
            EngineEvent::Dropped { ids, txs } => {
                for id in ids {
                    if let Some(work) = self.works.get_mut(&id) {
                        // The engine lost the execution: submit it again, later.
                        *work = Work { phase: Phase::Later, ..Work::default() };
                    }
                }
                out.push(Effect::Return(txs));
            }
            EngineEvent::Quiesced { ticket } => {
                if self.rest == Rest::Resting(ticket) {
                    self.rest = Rest::Rested;
                    out.push(Effect::AtRest);
                }
                return;
            }
            EngineEvent::Failed { ticket, id, operation, why } => self.on_failed(ticket, id, operation, why, out),
        }
        if self.rest == Rest::Running {
            self.advance(out);
        }
    }

    /// Retries temporary failures.
    pub fn on_timer(&mut self, out: &mut Vec<Effect>) {
        self.timer_set = false;
        if self.halted || self.rest != Rest::Running {
            return;
        }
        for work in self.works.values_mut() {
            if matches!(work.phase, Phase::Later) {
                work.phase = Phase::Idle;
            }
            if work.staging == Staging::Later {
                work.staging = Staging::No;
            }
        }
        self.requested.payloads.clear();
        self.requested.heights = self.committed.height;
        self.commits.later = false;
        self.advance(out);
    }

    fn on_proposed(&mut self, meta: BlockMeta, env: BlockEnv, payload: &PayloadRef, out: &mut Vec<Effect>) {
        if meta.height <= self.committed.height || env.height != meta.height {
            return;
        }
        if !self.blocks.contains_key(&meta.id) {
            if !self.may_track(&meta) {
                return;
            }
            self.blocks.insert(meta.id, Tracked::new(meta, env, payload.digest()));
            self.by_height.insert((meta.height, meta.id));
            if self.config.mode == Mode::Optimistic && self.config.role == Role::Validator {
                let payload = payload.digest();
                out.push(Effect::Forward(Downstream::Proposed { meta, env, payload }));
            }
            if let Some((height, proof)) = self.early.orders.remove(&meta.id) {
                self.order(meta.id, height, Some(proof), out);
            }
            if let Some((_, certificate)) = self.early.certificates.remove(&meta.id) {
                self.certify(meta.id, certificate, out);
            }
            self.count_early_votes(meta.id, out);
            self.link(out);
        }
        if let PayloadRef::Here(payload) = payload {
            self.keep_payload(payload.clone());
        }
    }

    /// True if the block may be tracked: decided blocks always within the depth, others as far as there is room.
    fn may_track(&self, meta: &BlockMeta) -> bool {
        if meta.height > self.committed.height + u64::from(self.config.limits.depth) {
            return false;
        }
        let parent_fits = match self.blocks.get(&meta.parent) {
            Some(parent) => parent.meta.height + 1 == meta.height,
            None => meta.height != self.committed.height + 1 || meta.parent == self.committed.block,
        };
        let decided = self.early.orders.contains_key(&meta.id)
            || self.early.certificates.contains_key(&meta.id)
            || self
                .blocks
                .values()
                .any(|block| block.meta.parent == meta.id && self.unlinked.contains_key(&block.meta.id));
        let from = (meta.height, BlockId(B256::ZERO));
        let to = (meta.height, BlockId(B256::repeat_byte(0xff)));
        let siblings = self.by_height.range(from..=to).count();
        // A decided block that does not fit below is a fork, which `link` detects.
        decided || (parent_fits && siblings < self.config.limits.siblings as usize)
    }

    fn keep_payload(&mut self, payload: Arc<Payload>) {
        let digest = payload.digest();
        if self.blocks.values().any(|block| block.payload == digest) {
            self.requested.payloads.remove(&digest);
            self.payloads.insert(digest, payload);
        }
    }

    fn on_failed(&mut self, ticket: Ticket, id: ExecId, operation: Operation, why: Failure, out: &mut Vec<Effect>) {
        let block = self.blocks.values().find(|block| block.exec == Some(id)).map(|block| block.meta.id);
        if let Failure::Fatal(cause) = why {
            self.halt(cause, block, None, out);
            return;
        }
        match operation {
            Operation::Submit => {
                if let Failure::Retry(RetryCause::MissingParent(parent)) = why
                    && let Some(work) = self.works.get_mut(&parent)
                {
                    *work = Work { phase: Phase::Later, ..Work::default() };
                }
                if let Some(work) = self.works.get_mut(&id).filter(|work| work.ticket == ticket) {
                    work.phase = if matches!(why, Failure::Invalid(_)) { Phase::Invalid } else { Phase::Later };
                }
            }
            Operation::Stage => {
                if let Some(work) = self.works.get_mut(&id).filter(|work| work.staging == Staging::Asked(ticket)) {
                    work.staging = Staging::Later;
                }
            }
            Operation::Commit => {
                if self.commits.in_flight.is_some_and(|(asked, _)| asked == ticket) {
                    self.commits.in_flight = None;
                    self.commits.later = true;
                }
            }
            Operation::Finalise | Operation::KeepOnly | Operation::Rewind => {}
        }
    }
}
