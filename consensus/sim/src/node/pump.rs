//! Carries out the requests of protocol and pipeline, one step at a time.

use super::state::{Done, ExecMarks, Line, Node, Todo};
use crate::{
    bft::{Block, Cert, CertKind, Msg, Named as _, Out, Record},
    machine::{Machine, Workshop as _},
    setup::{Behaviour, Load},
    shared::{Event, Local, Shared},
    wire::{Certified, Wire},
};
use alloy_primitives::{B256, keccak256};
use phalanx_engine_api::{
    BlockId, EngineEvent, ExecOutcome, ExecutionEngine as _, ReadState as _, ViewAt, desk::JobKind,
};
use phalanx_pipeline::{BlockMeta, Called, ConsensusEvent, Downstream, Effect, PayloadRef, call};
use std::sync::Arc;

impl<M: Machine> Node<M> {
    /// Runs until no step is left, or the power is cut.
    pub(super) fn pump(&mut self, shared: &mut Shared) {
        loop {
            while let Some(todo) = self.todo.pop_front() {
                if self.step(shared) {
                    return;
                }
                self.one(todo, shared);
            }
            if core::mem::take(&mut self.touched) {
                self.begin_work(shared);
            }
            if self.todo.is_empty() {
                return;
            }
        }
    }

    fn one(&mut self, todo: Todo, shared: &mut Shared) {
        let mut effects = Vec::new();
        match todo {
            Todo::Out(out) => self.out(out, shared),
            Todo::Consensus(event) => self.pipeline.on_consensus(event, &mut effects),
            Todo::Engine(event) => {
                if let EngineEvent::Dropped { ids, .. } = &event {
                    let lost = ids.iter().filter_map(|id| self.exec_marks.remove(id));
                    self.wasted_us += lost.map(|marks| marks.execute.work()).sum::<u64>();
                }
                self.pipeline.on_engine(event, &mut effects);
            }
            Todo::Effect(effect) => {
                let Some(engine) = self.engine() else { return };
                match call(engine, effect) {
                    Called::Accepted => {}
                    Called::Refused(event) => self.todo.push_back(Todo::Engine(event)),
                    Called::NotForEngine(effect) => self.effect(effect, shared),
                }
                self.touched = true;
                self.poll();
            }
        }
        self.todo.extend(effects.into_iter().map(Todo::Effect));
    }

    pub(super) fn poll(&mut self) {
        let mut events = Vec::new();
        while self.engine().is_some_and(|engine| engine.poll(64, &mut events) > 0) {}
        self.todo.extend(events.into_iter().map(Todo::Engine));
    }

    fn begin_work(&mut self, shared: &mut Shared) {
        let now = shared.now();
        for work in self.workshop.as_ref().map_or_else(Vec::new, M::Workshop::start) {
            let span = crate::marks::Span { from: now, to: now + work.cost_us };
            let marks = self.exec_marks.entry(work.job.id).or_default();
            match work.job.kind {
                JobKind::Execute => marks.execute = span,
                JobKind::Root => marks.root = span,
                JobKind::Stage => marks.stage = span,
                JobKind::Commit => marks.flip = span,
            }
            let (node, epoch, cost) = (self.index, self.epoch, work.cost_us);
            shared.queue.after(cost, Event::Local { node, epoch, local: Box::new(Local::Work(work)) });
        }
    }

    fn out(&mut self, out: Out, shared: &mut Shared) {
        match out {
            Out::Persist(record) => self.persist(record),
            Out::Broadcast(msg) => {
                let wire = Arc::new(Wire::Bft(msg));
                self.broadcast(&wire, shared);
                // A message to itself is delivered at once, as a step of its own.
                if let Wire::Bft(msg) = &*wire {
                    self.protocol(self.index, msg, shared);
                }
            }
            Out::Send(to, msg) => {
                let to = u32::from(to.0);
                if shared.setup.behaviour(self.index) != Behaviour::Silent && to != self.index {
                    shared.send(self.index, to, &Arc::new(Wire::Bft(msg)));
                }
            }
            Out::Timer(view, us) => {
                let (node, epoch) = (self.index, self.epoch);
                shared.queue.after(us, Event::Local { node, epoch, local: Box::new(Local::View(view)) });
            }
            Out::Build(due) => self.schedule(due, shared),
            Out::Seen(block) => self.seen(&block, shared),
            Out::OrderVoted(id) => self.todo.push_back(Todo::Consensus(ConsensusEvent::OrderVoteDurable(BlockId(id)))),
            Out::Ordered(path, cert) => self.ordered(path, cert, shared),
        }
    }

    fn persist(&mut self, record: Record) {
        self.log.push(Line::Bft(record));
        self.synced = self.log.len();
    }

    fn seen(&mut self, block: &Arc<Block>, shared: &mut Shared) {
        let now = shared.now();
        if let Some(known) = self.known.insert(block.name(), block.clone()) {
            debug_assert_eq!(known.id, block.id);
        }
        let whole = !matches!(shared.setup.load, Load::Batches { .. }) || self.is_whole(block.content.payload.txs());
        let marks = self.marks.entry(block.name()).or_default();
        if marks.seen == 0 {
            marks.made = block.content.env.timestamp_ms * 1000;
            marks.seen = now;
            marks.distance = shared.setup.topology.between(self.index, u32::from(block.place.author.0));
        }
        let payload = if whole {
            marks.payload = now;
            PayloadRef::Here(block.content.payload.clone())
        } else {
            self.incomplete.push(block.clone());
            PayloadRef::Named(block.content.payload.digest())
        };
        let meta = block.meta();
        self.todo.push_back(Todo::Consensus(ConsensusEvent::Proposed { meta, env: block.content.env, payload }));
        if self.replica.as_ref().is_some_and(|replica| replica.has_order_voted(block.place.view, block.id)) {
            self.todo.push_back(Todo::Consensus(ConsensusEvent::OrderVoteDurable(block.name())));
        }
        if shared.setup.behaviour(self.index) == Behaviour::Traitor {
            self.betray(block, shared);
        }
    }

    /// Votes for everything, at every stage, and certifies wrong states.
    fn betray(&self, block: &Block, shared: &mut Shared) {
        let (view, id, height) = (block.place.view, block.id, block.content.env.height);
        let digest = keccak256(id);
        for wire in [
            Wire::Bft(Msg::Vote(view, id)),
            Wire::Bft(Msg::OrderVote(view, id)),
            Wire::Bft(Msg::Nullify(view)),
            Wire::StateVote { height, id: block.name(), digest },
        ] {
            self.broadcast(&Arc::new(wire), shared);
        }
    }

    fn ordered(&mut self, path: Vec<Arc<Block>>, cert: Cert, shared: &mut Shared) {
        debug_assert_eq!(cert.kind, CertKind::Order);
        let honest = shared.setup.behaviour(self.index) == Behaviour::Honest;
        for block in path {
            let height = block.content.env.height;
            if honest {
                shared.ledger.order(height, block.name());
            }
            let marks = self.marks.entry(block.name()).or_default();
            if marks.ordered == 0 {
                marks.ordered = shared.now();
            }
            let own = (block.id == cert.id).then_some(cert);
            self.log.push(Line::Ordered(block.clone(), own));
            self.history.insert(height, (block.clone(), own));
            if height > self.pipeline.committed().0 {
                // With batches, payloads may still be missing; without, they are complete.
                if matches!(shared.setup.load, Load::Batches { .. }) {
                    if own.is_some() {
                        let (tip, proof) = (block.name(), Default::default());
                        self.todo.push_back(Todo::Consensus(ConsensusEvent::Ordered { tip, height, proof }));
                    }
                } else {
                    self.replay(&block, own.is_some());
                }
            }
        }
    }

    fn effect(&mut self, effect: Effect, shared: &mut Shared) {
        match effect {
            Effect::SetTimer(us) => {
                let (node, epoch) = (self.index, self.epoch);
                shared.queue.after(us, Event::Local { node, epoch, local: Box::new(Local::Retry) });
            }
            Effect::FetchDecided(heights) => {
                let have: Vec<_> = self.history.range(heights).map(|(_, (block, _))| block.clone()).collect();
                if have.is_empty() {
                    self.catch_up(shared);
                }
                for block in have {
                    self.replay(&block, true);
                }
            }
            Effect::StateVote { meta, digest, .. } => self.send_state_vote(meta, digest, shared),
            Effect::Certified(meta, certificate) => {
                let (id, height, digest, bytes) = (meta.id, meta.height, certificate.digest, certificate.bytes);
                self.certificates.insert(height, Certified { id, height, digest, bytes });
                self.marks.entry(id).or_default().certify.to = shared.now();
                if shared.setup.behaviour(self.index) == Behaviour::Honest {
                    shared.ledger.certify(height, id);
                }
            }
            Effect::Forward(downstream) => self.forward(&downstream, shared),
            Effect::Ack { meta, outcome } => self.acknowledged(meta, &outcome, shared),
            Effect::Pressure(pressure) => self.hold = pressure.hold_votes,
            Effect::Halt(incident) => {
                let expected = shared.setup.behaviour(self.index) != Behaviour::Honest;
                shared.ledger.halt(self.index, incident.cause, expected);
            }
            // Payloads come with blocks or as batches; the other effects need no answer.
            _ => {}
        }
    }

    fn send_state_vote(&mut self, meta: BlockMeta, digest: B256, shared: &mut Shared) {
        self.voted.insert(meta.height, (meta.id, digest));
        self.marks.entry(meta.id).or_default().certify.from = shared.now();
        let wire = Arc::new(Wire::StateVote { height: meta.height, id: meta.id, digest });
        self.broadcast(&wire, shared);
        let (from, id, signature) = (self.index, meta.id, Default::default());
        self.todo.push_back(Todo::Consensus(ConsensusEvent::StateVote { from, id, digest, signature }));
    }

    fn forward(&self, downstream: &Downstream, shared: &mut Shared) {
        let (meta, digest) = match downstream {
            Downstream::Proposed { meta, payload, .. } | Downstream::Committed { meta, payload, .. } => (meta, payload),
        };
        let Some(block) = self.known.get(&meta.id).filter(|block| block.content.payload.digest() == *digest) else {
            return;
        };
        for to in &self.followers {
            shared.send_down(self.index, *to, Wire::Down(downstream.clone(), block.content.payload.clone()));
        }
    }

    fn acknowledged(&mut self, meta: BlockMeta, outcome: &ExecOutcome, shared: &mut Shared) {
        let now = shared.now();
        let carried = self.carried.remove(&meta.id);
        let payload =
            self.known.get(&meta.id).map(|block| block.content.payload.clone()).or(carried).unwrap_or_default();
        let txs = payload.txs();
        if shared.setup.behaviour(self.index) == Behaviour::Honest {
            shared.ledger.commit(self.index, meta, outcome, txs);
            if !shared.setup.timed
                && let Some(engine) = self.engine()
                && let Ok(view) = engine.view(ViewAt::Committed)
            {
                shared.ledger.visible(self.index, view.height(), engine.status().committed.height);
            }
        }
        self.pool.committed(self.batches(txs));
        let exec = self.exec_marks.remove(&outcome.id).unwrap_or_default();
        self.used_us += exec.execute.work();
        let marks = self.marks.remove(&meta.id).unwrap_or_default();
        if shared.setup.timed {
            let ExecMarks { execute, root, stage, flip } = exec;
            let marks = crate::marks::BlockMarks { execute, root, stage, flip, committed: now, ..marks };
            self.done.push(Done { meta, payload, statuses: outcome.txs.clone(), marks });
        }
        self.known.retain(|_, block| block.content.env.height > meta.height);
        self.incomplete.retain(|block| block.content.env.height > meta.height);
        self.voted.retain(|height, _| *height > meta.height);
        // Drops the marks of blocks that lost.
        if meta.height.is_multiple_of(64) && self.upstream.is_none() {
            let known = &self.known;
            self.marks.retain(|id, _| known.contains_key(id));
        }
    }
}
