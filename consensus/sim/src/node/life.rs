//! Start, power cut, restart.

use super::{Line, Node, Todo};
use crate::{
    Behaviour, Crash, Load, Setup,
    bft::{Block, Replica},
    model::{Disk, ModelEngine},
    wire::{Batch, Wire},
    world::{Event, Local, Shared},
};
use phalanx_engine_api::{BlockId, Engine as _};
use phalanx_pipeline::{Committee, Config, ConsensusEvent, PayloadRef, Pipeline};
use std::sync::Arc;

/// Number of the simulated chain.
const CHAIN: u64 = 7;
/// How often a node looks whether it has fallen behind, µs.
const TICK: u64 = 250_000;

impl Node {
    pub(super) fn engine(index: u32, setup: &Setup, disk: Disk) -> ModelEngine {
        let engine = ModelEngine::open(CHAIN, setup.limits, setup.costs, disk);
        if let Behaviour::Diverge(height) = setup.behaviour(index) {
            engine.diverge_at(height);
        }
        engine
    }

    pub(super) fn pipeline(fullnode: bool, setup: &Setup, engine: &ModelEngine) -> Pipeline {
        let committee = Committee::equal(setup.bft.n);
        let config = if fullnode { Config::fullnode(committee) } else { Config::validator(committee) };
        Pipeline::new(Config { mode: setup.mode, limits: setup.limits, ..config }, &engine.status())
    }

    /// Begins a life: the first, or one after a power cut.
    pub(crate) fn start(&mut self, shared: &mut Shared) {
        if self.upstream.is_none() {
            let ordered = self.history.last_key_value().map(|(height, (block, _))| (block.view, *height, block.id));
            let records: Vec<_> = self
                .log
                .iter()
                .filter_map(|line| if let Line::Bft(record) = line { Some(record.clone()) } else { None })
                .collect();
            let mut replica =
                Replica::new(self.index, shared.setup.bft, ordered.unwrap_or((0, 0, BlockId::default())), &records);
            let mut out = Vec::new();
            replica.start(&mut out);
            self.replica = Some(replica);
            self.todo.extend(out.into_iter().map(Todo::Out));
        }
        if !shared.setup.timed {
            let (node, epoch) = (self.index, self.epoch);
            shared.queue.after(TICK, Event::Local { node, epoch, local: Box::new(Local::Tick) });
        }
        self.pump(shared);
    }

    /// Cuts the power. What was not synced may be lost, a suffix of it, and the last record may be torn.
    pub(crate) fn cut(&mut self, pause: u64, shared: &mut Shared) {
        if !self.up {
            return;
        }
        self.up = false;
        self.epoch += 1;
        self.todo.clear();
        let mut disk = self.engine.unplug();
        let lost = shared.rng.below(disk.unsynced() as u64 + 1) as usize;
        disk.power_cut(lost, shared.rng.chance(500));
        self.unplugged = Some(disk);
        let keep = self.synced + shared.rng.below((self.log.len() - self.synced) as u64 + 1) as usize;
        self.log.truncate(keep);
        self.synced = self.log.len();
        shared.queue.after(pause.max(1), Event::Up(self.index));
    }

    /// Power is back: engine from its disk, history from the log, and the pipeline on what the engine has committed. What
    /// the engine lacks is replayed from the log; what the log lacks comes from others.
    pub(crate) fn come_back(&mut self, shared: &mut Shared) {
        let Some(disk) = self.unplugged.take() else { return };
        self.up = true;
        self.engine = Self::engine(self.index, &shared.setup, disk);
        self.pipeline = Self::pipeline(self.upstream.is_some(), &shared.setup, &self.engine);
        self.history.clear();
        for line in &self.log {
            if let Line::Ordered(block, cert) = line {
                self.history.insert(block.env.height, (block.clone(), *cert));
            }
        }
        self.certificates.clear();
        self.known.clear();
        self.carried.clear();
        self.incomplete.clear();
        self.voted.clear();
        self.hold = false;
        self.touched = true;
        let committed = self.engine.status().committed;
        if shared.setup.behaviour(self.index) == Behaviour::Honest {
            shared.ledger.back(self.index, committed.height, committed.exec);
        }
        let behind: Vec<_> = self.history.range(committed.height + 1..).map(|(_, (block, _))| block.clone()).collect();
        for block in behind {
            self.replay(&block, true);
        }
        self.start(shared);
        self.catch_up(shared);
    }

    /// Tells the pipeline of a block that it may have missed.
    pub(super) fn replay(&mut self, block: &Arc<Block>, ordered: bool) {
        self.known.insert(block.id, block.clone());
        let payload = PayloadRef::Here(block.payload.clone());
        self.todo.push_back(Todo::Consensus(ConsensusEvent::Proposed { meta: block.meta(), env: block.env, payload }));
        if ordered {
            let (tip, height) = (block.id, block.env.height);
            self.todo.push_back(Todo::Consensus(ConsensusEvent::Ordered { tip, height, proof: Default::default() }));
        }
    }

    /// Whether the power is cut right here.
    pub(super) fn step(&mut self, shared: &mut Shared) -> bool {
        self.steps += 1;
        let here = |crash: &Crash| match *crash {
            Crash::Step { node, step, pause } if node == self.index && step == self.steps => Some(pause),
            _ => None,
        };
        let pause = shared.setup.crashes.iter().find_map(here);
        if let Some(pause) = pause {
            self.cut(pause, shared);
        }
        pause.is_some()
    }

    /// Something of this life.
    pub(crate) fn local(&mut self, epoch: u32, local: Local, shared: &mut Shared) {
        if !self.up || epoch != self.epoch {
            return;
        }
        let mut out = Vec::new();
        match local {
            Local::View(view) => {
                if let Some(replica) = &mut self.replica {
                    replica.on_timeout(view, &mut out);
                }
            }
            Local::Retry => {
                let mut effects = Vec::new();
                self.pipeline.on_timer(&mut effects);
                self.todo.extend(effects.into_iter().map(Todo::Effect));
            }
            Local::Work(work) => {
                // A cut before or after the disk has written, but before anybody heard of it.
                if self.step(shared) {
                    return;
                }
                self.engine.finish(&work);
                self.touched = true;
                if self.step(shared) {
                    return;
                }
                self.poll();
            }
            Local::Build(slot) => self.build(&slot, &mut out, shared),
            Local::Tick => {
                self.tick(shared);
                let node = self.index;
                shared.queue.after(TICK, Event::Local { node, epoch, local: Box::new(Local::Tick) });
            }
        }
        self.todo.extend(out.into_iter().map(Todo::Out));
        self.pump(shared);
    }

    /// Packs what clients have sent since the last batch, and broadcasts it.
    pub(crate) fn make_batch(&mut self, shared: &mut Shared) {
        let Load::Batches { tps, interval_us, .. } = shared.setup.load else { return };
        let n = u64::from(shared.setup.bft.n);
        let total = u128::from(tps) * u128::from(shared.now()) / (1_000_000 * u128::from(n));
        let txs = total as u64 - self.sent;
        let number = self.batches;
        self.batches += 1;
        self.sent = total as u64;
        shared.queue.after(interval_us, Event::MakeBatch(self.index));
        if txs == 0 || !self.up {
            return;
        }
        let batch = Batch { author: self.index, number, txs: txs as u32 };
        self.pool.add(batch);
        let wire = Arc::new(Wire::Batch(batch));
        for to in (0..shared.setup.bft.n).filter(|to| *to != self.index) {
            shared.send(self.index, to, &wire);
        }
        self.complete();
        self.pump(shared);
    }
}
