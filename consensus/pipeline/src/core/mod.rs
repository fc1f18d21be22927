//! The state machine of the pipeline.
//!
//! Every input updates the knowledge, then [`Pipeline::advance`] does everything that the knowledge permits. Rules test
//! levels, not edges: "executed and order vote durable" fires whichever comes last, so the order of arrival does not
//! matter.

mod commit;
mod decide;
mod step;
mod track;
mod votes;

use crate::{
    config::{Config, Mode, Role},
    event::{Backpressure, BlockMeta, Certificate, ConsensusEvent, Downstream, Effect, PayloadRef},
};
use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{
    BlockEnv, BlockId, EngineEvent, EngineStatus, ExecId, ExecOutcome, Failure, FatalCause, Operation, Payload,
    RetryCause, Ticket,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};
use track::{EarlyVote, Phase, Staging, Tracked, Work};

/// Maximum number of orders, and of certificates, kept for blocks not seen yet. They are proved, so at most one per
/// height and round exists.
const EARLY_PROOFS: usize = 128;

/// The pipeline of one node.
#[derive(Clone, Debug)]
pub struct Pipeline {
    config: Config,
    chain: u64,
    /// Blocks above the committed height.
    blocks: BTreeMap<BlockId, Tracked>,
    /// The same blocks, parents before children.
    by_height: BTreeSet<(u64, BlockId)>,
    works: BTreeMap<ExecId, Work>,
    payloads: BTreeMap<B256, Arc<Payload>>,
    committed: Tip,
    /// Committed blocks, newest last, to recognise repetitions.
    recent: VecDeque<Recent>,
    /// Newest block whose whole path is decided.
    decided: Option<(u64, BlockId)>,
    /// Decided blocks with gaps below, and their heights.
    unlinked: BTreeMap<BlockId, u64>,
    early_orders: BTreeMap<BlockId, (u64, Bytes)>,
    early_certificates: BTreeMap<BlockId, (u64, Certificate)>,
    early_votes: BTreeMap<u32, VecDeque<EarlyVote>>,
    requested_payloads: BTreeSet<B256>,
    /// Highest decided height that was requested.
    requested_heights: u64,
    /// Highest decided height that was announced.
    announced: u64,
    committing: Option<(Ticket, BlockId)>,
    commit_later: bool,
    finalised: u64,
    finalise_to: u64,
    pressure: Backpressure,
    timer_set: bool,
    rest: Rest,
    halted: bool,
    ticket: u64,
}

/// The committed block.
#[derive(Clone, Copy, Debug)]
struct Tip {
    height: u64,
    block: BlockId,
    exec: ExecId,
}

/// A committed block.
#[derive(Clone, Debug)]
struct Recent {
    height: u64,
    id: BlockId,
    /// Place and result, if the block was committed since the node opened.
    known: Option<(BlockMeta, ExecOutcome)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Running,
    /// Rest was requested.
    Resting(Ticket),
    Rested,
}

impl Pipeline {
    /// Creates a pipeline on top of the engine's committed block. Staged blocks are found again when they are proposed
    /// again.
    #[must_use]
    pub fn new(config: Config, status: &EngineStatus) -> Self {
        let committed =
            Tip { height: status.committed.height, block: status.committed.meta.block, exec: status.committed.exec };
        Self {
            config,
            chain: status.chain,
            blocks: BTreeMap::new(),
            by_height: BTreeSet::new(),
            works: BTreeMap::new(),
            payloads: BTreeMap::new(),
            committed,
            recent: VecDeque::from([Recent { height: committed.height, id: committed.block, known: None }]),
            decided: None,
            unlinked: BTreeMap::new(),
            early_orders: BTreeMap::new(),
            early_certificates: BTreeMap::new(),
            early_votes: BTreeMap::new(),
            requested_payloads: BTreeSet::new(),
            requested_heights: committed.height,
            announced: committed.height,
            committing: None,
            commit_later: false,
            finalised: status.finalised,
            finalise_to: status.finalised,
            pressure: Backpressure::default(),
            timer_set: false,
            rest: Rest::Running,
            halted: false,
            ticket: 0,
        }
    }

    /// Height and name of the committed block.
    #[must_use]
    pub const fn committed(&self) -> (u64, BlockId) {
        (self.committed.height, self.committed.block)
    }

    /// True if the pipeline has stopped for good.
    #[must_use]
    pub const fn is_halted(&self) -> bool {
        self.halted
    }

    /// Number of tracked blocks: at most depth × siblings, and the decided path.
    #[must_use]
    pub fn tracked(&self) -> usize {
        self.blocks.len()
    }

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
                    bounded(&mut self.early_certificates, id, (height, certificate));
                    self.announce(height);
                } else {
                    self.certified_late(id, height, certificate, out);
                }
            }
            ConsensusEvent::Abandoned(id) => self.abandon(id, out),
            ConsensusEvent::Finalised(height) => self.finalise_to = self.finalise_to.max(height),
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
        self.requested_payloads.clear();
        self.requested_heights = self.committed.height;
        self.commit_later = false;
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
            if let Some((height, proof)) = self.early_orders.remove(&meta.id) {
                self.order(meta.id, height, Some(proof), out);
            }
            if let Some((_, certificate)) = self.early_certificates.remove(&meta.id) {
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
        let decided = self.early_orders.contains_key(&meta.id)
            || self.early_certificates.contains_key(&meta.id)
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
            self.requested_payloads.remove(&digest);
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
                if self.committing.is_some_and(|(asked, _)| asked == ticket) {
                    self.committing = None;
                    self.commit_later = true;
                }
            }
            Operation::Finalise | Operation::KeepOnly | Operation::Rewind => {}
        }
    }

    const fn next(&mut self) -> Ticket {
        self.ticket += 1;
        Ticket(self.ticket)
    }

    fn announce(&mut self, height: u64) {
        self.announced = self.announced.max(height);
    }

    /// Halts because of a fork between the committed and the decided chain.
    fn fork(&mut self, height: u64, id: BlockId, out: &mut Vec<Effect>) {
        self.halt(FatalCause::Fork { height }, Some(id), None, out);
    }
}

/// Inserts into a map that holds at most [`EARLY_PROOFS`] entries; the highest are evicted, since they can be fetched
/// again.
fn bounded<T>(map: &mut BTreeMap<BlockId, (u64, T)>, id: BlockId, value: (u64, T)) {
    map.insert(id, value);
    if map.len() > EARLY_PROOFS
        && let Some(highest) = map.iter().max_by_key(|(_, (height, _))| *height).map(|(id, _)| *id)
    {
        map.remove(&highest);
    }
}
