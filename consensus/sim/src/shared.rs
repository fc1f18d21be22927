//! State that all nodes of a world share (time, links, random numbers, the ledger), and the events in its queue.

use crate::{
    bft::Due,
    ledger::Ledger,
    rng::{Rng, mix},
    setup::Setup,
    wire::Wire,
    work::Work,
};
use phalanx_world::Queue;
use std::sync::Arc;

/// An event of the simulation.
#[derive(Debug)]
pub(crate) enum Event {
    Deliver {
        to: u32,
        from: u32,
        wire: Arc<Wire>,
    },
    /// An event within one life of a node: a restart voids it. Boxed, because most events are deliveries and the queue
    /// moves them.
    Local {
        node: u32,
        epoch: u32,
        local: Box<Local>,
    },
    MakeBatch(u32),
    Down {
        node: u32,
        pause: u64,
    },
    Up(u32),
}

#[derive(Debug)]
pub(crate) enum Local {
    View(u64),
    Retry,
    Work(Work),
    Build(Due),
    Tick,
}

/// State that all nodes share: time, links, random numbers, the ledger.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) setup: Arc<Setup>,
    pub(crate) queue: Queue<Event>,
    pub(crate) rng: Rng,
    pub(crate) ledger: Ledger,
    /// Time at which each node's network card is free again, in µs.
    pub(crate) egress: Vec<u64>,
    pub(crate) trace: u64,
    /// Number of messages sent between nodes.
    pub(crate) messages: u64,
    /// Number of bytes sent between nodes.
    pub(crate) bytes: u64,
}

impl Shared {
    pub(crate) const fn now(&self) -> u64 {
        self.queue.now()
    }

    /// Sends a message to another validator, over a link with faults.
    pub(crate) fn send(&mut self, from: u32, to: u32, wire: &Arc<Wire>) {
        let setup = &self.setup;
        let now = self.queue.now();
        let mut base = setup.topology.between(from, to) + setup.crypto.sign_us + setup.crypto.verify_us;
        let bytes = wire.bytes();
        self.messages += 1;
        self.bytes += bytes;
        if setup.faults.bandwidth > 0
            && let Some(free) = self.egress.get_mut(from as usize)
        {
            *free = (*free).max(now) + bytes * 1000 / setup.faults.bandwidth;
            base += *free - now;
        }
        for delay in setup.faults.copies(now, base, from, to, &mut self.rng).into_iter().flatten() {
            self.queue.after(delay, Event::Deliver { to, from, wire: wire.clone() });
        }
    }

    /// Sends from a validator to one of its fullnodes, over a link without faults.
    pub(crate) fn send_down(&mut self, from: u32, to: u32, wire: Wire) {
        let delay = self.setup.topology.fullnode();
        self.queue.after(delay, Event::Deliver { to, from, wire: Arc::new(wire) });
    }

    pub(crate) fn note(&mut self, node: u32, label: u64) {
        self.trace = mix(self.trace ^ mix(self.queue.now()) ^ mix(label ^ (u64::from(node) << 56)).rotate_left(17));
    }
}
