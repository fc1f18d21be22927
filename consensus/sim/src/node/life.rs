//! Start and restart of a node, its messages and the events of its life.

use super::state::{Line, Node, Todo};
use crate::{
    bft::{Named as _, Replica},
    machine::{Batch, Machine, Sent, Workshop as _},
    setup::{Behaviour, Load},
    shared::{Event, Local, Shared},
    wire::Wire,
};
use phalanx_bft::Index;
use phalanx_engine_api::ExecutionEngine as _;
use std::sync::Arc;

/// Interval at which a node checks whether it is behind, in µs.
const TICK: u64 = 250_000;

impl<M: Machine> Node<M> {
    /// Begins a life: the first, or the next after a power cut.
    pub(crate) fn start(&mut self, shared: &mut Shared) {
        if self.upstream.is_none() {
            let ordered =
                self.history.last_key_value().map(|(height, (block, _))| (block.place.view, *height, block.id));
            let records: Vec<_> = self
                .log
                .iter()
                .filter_map(|line| if let Line::Bft(record) = line { Some(record.clone()) } else { None })
                .collect();
            let mut replica =
                Replica::new(Index(self.index as u16), shared.setup.bft, ordered.unwrap_or_default(), &records);
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

    /// Restores power: the engine from its disk, history from the log, and the pipeline on the engine's committed
    /// block. Blocks that the engine lacks are replayed from the log; blocks that the log lacks come from peers.
    pub(crate) fn restart(&mut self, shared: &mut Shared) {
        if self.workshop.is_some() {
            return;
        }
        let workshop = match self.machine.open() {
            Ok(workshop) => workshop,
            Err(cause) => return shared.ledger.halt(self.index, cause, false),
        };
        self.pipeline = Self::pipeline(self.upstream.is_some(), &shared.setup, workshop.engine());
        let committed = workshop.engine().status().committed;
        self.workshop = Some(workshop);
        self.history.clear();
        for line in &self.log {
            if let Line::Ordered(block, cert) = line {
                self.history.insert(block.content.env.height, (block.clone(), *cert));
            }
        }
        self.certificates.clear();
        self.known.clear();
        self.carried.clear();
        self.incomplete.clear();
        self.voted.clear();
        self.hold = false;
        self.touched = true;
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

    /// Handles an event of the current life.
    pub(crate) fn local(&mut self, epoch: u32, local: Local, shared: &mut Shared) {
        if self.workshop.is_none() || epoch != self.epoch {
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
                // A cut before or after the disk has written, but before the write is reported.
                if self.step(shared) || self.written(work.job.kind, shared) {
                    return;
                }
                if let Some(workshop) = &self.workshop {
                    workshop.finish(&work);
                }
                self.touched = true;
                if self.step(shared) {
                    return;
                }
                self.poll();
            }
            Local::Build(due) => self.build(&due, &mut out, shared),
            Local::Tick => {
                self.tick(shared);
                let node = self.index;
                shared.queue.after(TICK, Event::Local { node, epoch, local: Box::new(Local::Tick) });
            }
        }
        self.todo.extend(out.into_iter().map(Todo::Out));
        self.pump(shared);
    }

    /// Packs the transactions that clients have sent since the last batch, and broadcasts the batch.
    pub(crate) fn make_batch(&mut self, shared: &mut Shared) {
        let Load::Batches { tps, interval_us, .. } = shared.setup.load else { return };
        let n = u64::from(shared.setup.bft.n);
        let total = u128::from(tps) * u128::from(shared.now()) / (1_000_000 * u128::from(n));
        let txs = total as u64 - self.sent;
        let number = self.batches;
        self.batches += 1;
        self.sent = total as u64;
        shared.queue.after(interval_us, Event::MakeBatch(self.index));
        if txs == 0 || self.workshop.is_none() {
            return;
        }
        let batch = Batch { author: self.index, number, txs: txs as u32 };
        let txs = self.sent(&Sent::Batch(batch)).into();
        self.pool.add(batch, &txs);
        let wire = Arc::new(Wire::Batch(batch, txs));
        for to in (0..shared.setup.bft.n).filter(|to| *to != self.index) {
            shared.send(self.index, to, &wire);
        }
        self.complete();
        self.pump(shared);
    }

    pub(crate) fn deliver(&mut self, from: u32, wire: &Wire, shared: &mut Shared) {
        if self.workshop.is_none() {
            return;
        }
        match wire {
            Wire::Bft(msg) => self.protocol(from, msg, shared),
            Wire::StateVote { height, id, digest } => self.state_vote(from, *height, (*id, *digest), shared),
            Wire::Certificate(certified) => self.certified(certified),
            Wire::Batch(batch, txs) => {
                self.pool.add(*batch, txs);
                self.complete();
            }
            Wire::WantChain(height) => self.serve(from, *height, shared),
            Wire::Chain { blocks, cert, certificates } => {
                let mut out = Vec::new();
                if let (Some(replica), Some(cert)) = (&mut self.replica, cert) {
                    replica.sync(blocks, *cert, &mut out);
                }
                self.todo.extend(out.into_iter().map(Todo::Out));
                if self.upstream.is_some() {
                    for block in blocks {
                        self.carried.insert(block.name(), block.content.payload.clone());
                        self.replay(block, false);
                    }
                }
                for certified in certificates {
                    self.certified(certified);
                }
            }
            Wire::Down(downstream, payload) => self.downstream(downstream, payload, shared),
        }
        self.pump(shared);
    }
}
