//! A pipeline on a model engine, driven by hand.

use alloy_primitives::{B256, Bytes, keccak256};
use phalanx_engine_api::{BlockEnv, BlockId, EngineEvent, ExecutionEngine as _, Limits, Payload};
use phalanx_pipeline::{BlockMeta, Called, Committee, Config, ConsensusEvent, Effect, PayloadRef, Pipeline, call};
use phalanx_sim::model::{Costs, Disk, ModelEngine, model_tx};
use std::sync::Arc;

/// A proposal.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) meta: BlockMeta,
    pub(crate) env: BlockEnv,
    pub(crate) payload: Arc<Payload>,
}

impl Block {
    /// `view` is part of the name and not of the content.
    pub(crate) fn new(parent: BlockId, height: u64, view: u64, content: u64) -> Self {
        let mut name = parent.0.to_vec();
        name.extend_from_slice(&view.to_be_bytes());
        name.extend_from_slice(&content.to_be_bytes());
        let meta = BlockMeta { id: BlockId(keccak256(name)), parent, height };
        let env = BlockEnv { height, timestamp_ms: height, ..BlockEnv::default() };
        let payload = Payload::new(vec![model_tx(1, &content.to_be_bytes())]).into();
        Self { meta, env, payload }
    }

    pub(crate) fn proposed(&self) -> ConsensusEvent {
        let payload = PayloadRef::Here(self.payload.clone());
        ConsensusEvent::Proposed { meta: self.meta, env: self.env, payload }
    }

    pub(crate) fn named(&self) -> ConsensusEvent {
        let payload = PayloadRef::Named(self.payload.digest());
        ConsensusEvent::Proposed { meta: self.meta, env: self.env, payload }
    }

    pub(crate) const fn ordered(&self) -> ConsensusEvent {
        ConsensusEvent::Ordered { tip: self.meta.id, height: self.meta.height, proof: Bytes::from_static(b"proof") }
    }

    pub(crate) const fn vote(&self, from: u32, digest: B256) -> ConsensusEvent {
        ConsensusEvent::StateVote { from, id: self.meta.id, digest, signature: Bytes::new() }
    }
}

/// A node of four, of which this is number 0.
pub(crate) struct Node {
    pub(crate) pipeline: Pipeline,
    pub(crate) engine: ModelEngine,
    /// Effects that did not address the engine, in order.
    pub(crate) effects: Vec<Effect>,
    /// Number of submissions.
    pub(crate) submitted: usize,
}

impl Node {
    pub(crate) fn new(config: impl FnOnce(&mut Config)) -> Self {
        Self::on(Disk::default(), config)
    }

    pub(crate) fn on(disk: Disk, config: impl FnOnce(&mut Config)) -> Self {
        let engine = ModelEngine::open(1, Limits::default(), Costs::default(), disk);
        let mut settings = Config::validator(Committee::equal(4));
        config(&mut settings);
        let pipeline = Pipeline::new(settings, &engine.status());
        Self { pipeline, engine, effects: Vec::new(), submitted: 0 }
    }

    pub(crate) fn consensus(&mut self, event: ConsensusEvent) {
        let mut effects = Vec::new();
        self.pipeline.on_consensus(event, &mut effects);
        self.carry_out(effects);
    }

    pub(crate) fn timer(&mut self) {
        let mut effects = Vec::new();
        self.pipeline.on_timer(&mut effects);
        self.carry_out(effects);
    }

    /// Begins and finishes at most one piece of work of the engine.
    pub(crate) fn work(&mut self, choice: usize) -> bool {
        let started = self.engine.start();
        // Work that stays unfinished here would never end: all of it is finished, the chosen piece first.
        let count = started.len();
        for turn in 0..count {
            self.engine.finish(&started[(turn + choice) % count]);
        }
        self.poll();
        count > 0
    }

    /// Runs until nothing happens any more.
    pub(crate) fn settle(&mut self) {
        while self.work(0) {}
    }

    pub(crate) fn poll(&mut self) {
        let mut events = Vec::new();
        while self.engine.poll(8, &mut events) > 0 {}
        for event in events {
            self.completed(event);
        }
    }

    pub(crate) fn completed(&mut self, event: EngineEvent) {
        let mut effects = Vec::new();
        self.pipeline.on_engine(event, &mut effects);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let halt = effects.iter().position(|effect| matches!(effect, Effect::Halt(_)));
        assert!(halt.is_none_or(|at| at + 1 == effects.len()), "something follows a halt: {effects:?}");
        for effect in effects {
            self.submitted += usize::from(matches!(effect, Effect::Submit(..)));
            match call(&self.engine, effect) {
                Called::Accepted => {}
                Called::Refused(event) => self.completed(event),
                Called::NotForEngine(effect) => self.effects.push(effect),
            }
        }
    }

    /// State votes of this node so far.
    pub(crate) fn votes(&self) -> Vec<(BlockId, B256)> {
        let vote = |effect: &Effect| match effect {
            Effect::StateVote { meta, digest, .. } => Some((meta.id, *digest)),
            _ => None,
        };
        self.effects.iter().filter_map(vote).collect()
    }

    pub(crate) fn acks(&self) -> Vec<(u64, BlockId)> {
        let ack = |effect: &Effect| match effect {
            Effect::Ack { meta, .. } => Some((meta.height, meta.id)),
            _ => None,
        };
        self.effects.iter().filter_map(ack).collect()
    }

    /// Digests of the blocks of a chain.
    pub(crate) fn digests(chain: &[Block]) -> Vec<B256> {
        let mut node = Self::new(|config| config.committee = Committee::equal(1));
        for block in chain {
            node.consensus(block.proposed());
            node.consensus(block.ordered());
            node.settle();
        }
        node.votes().into_iter().map(|(_, digest)| digest).collect()
    }
}

/// A chain on the genesis block.
pub(crate) fn chain(length: u64) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for height in 1..=length {
        let parent = blocks.last().map_or(BlockId::default(), |block| block.meta.id);
        blocks.push(Block::new(parent, height, height, height));
    }
    blocks
}
