//! A world of nodes: delivers its events in order and checks the invariants.

use crate::{
    ledger::Ledger,
    machine::{EngineOf, Machine},
    model::ModelMachine,
    node::Node,
    rng::{Rng, mix},
    setup::{Behaviour, Crash, Load, Setup},
    shared::{Event, Local, Shared},
};
use phalanx_engine_api::FatalCause;
use phalanx_world::Queue;
use std::sync::Arc;

/// A simulation in progress.
#[derive(Debug)]
pub struct World<M: Machine = ModelMachine> {
    pub(crate) shared: Shared,
    pub(crate) nodes: Vec<Node<M>>,
}

impl World {
    /// Creates a world of model engines at time zero.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let machine = |index| {
            let mut machine = ModelMachine::new(index, &setup);
            let engine = machine.start();
            (machine, engine)
        };
        let machines = (0..setup.nodes()).map(machine).collect();
        Self::assemble(setup, machines)
    }
}

impl<M: Machine> World<M> {
    /// Creates a world at time zero on the given machines: one per validator, then one per fullnode.
    ///
    /// # Errors
    /// Errors of the machines.
    pub fn on(setup: Setup, mut machine: impl FnMut(u32, &Setup) -> Result<M, FatalCause>) -> Result<Self, FatalCause> {
        let opened = |index| {
            let mut machine = machine(index, &setup)?;
            let workshop = machine.open()?;
            Ok((machine, workshop))
        };
        let machines = (0..setup.nodes()).map(opened).collect::<Result<_, FatalCause>>()?;
        Ok(Self::assemble(setup, machines))
    }

    fn assemble(setup: Setup, machines: Vec<(M, M::Workshop)>) -> Self {
        let setup = Arc::new(setup);
        let n = setup.bft.n;
        let mut shared = Shared {
            queue: Queue::new(),
            rng: Rng::new(setup.seed),
            ledger: Ledger::default(),
            egress: vec![0; n as usize],
            trace: mix(setup.seed),
            messages: 0,
            bytes: 0,
            setup: setup.clone(),
        };
        let node = |(index, (machine, workshop))| Node::new(index, &setup, machine, workshop);
        let nodes = (0..).zip(machines).map(node).collect();
        for crash in &setup.crashes {
            if let Crash::At { node, at, back } = *crash {
                shared.queue.after(at, Event::Down { node, pause: back.saturating_sub(at) });
            }
        }
        if let Load::Batches { interval_us, .. } = setup.load {
            for node in 0..n {
                // Phases are spread evenly, as with independent validators.
                let phase = interval_us * u64::from(node) / u64::from(n);
                shared.queue.after(phase, Event::MakeBatch(node));
            }
        }
        let mut world = Self { shared, nodes };
        for node in &mut world.nodes {
            node.start(&mut world.shared);
        }
        world
    }

    /// Runs all events until `end`, in µs.
    pub fn run_until(&mut self, end: u64) {
        while let Some(event) = self.shared.queue.next(end) {
            self.happen(event);
        }
    }

    /// Runs events until all honest nodes have committed `height`, or until `end`. Returns true if they have.
    pub fn run_to_height(&mut self, height: u64, end: u64) -> bool {
        loop {
            if self.common_height() >= height {
                return true;
            }
            match self.shared.queue.next(end) {
                Some(event) => self.happen(event),
                None => return false,
            }
        }
    }

    /// Height up to which all honest nodes have committed.
    #[must_use]
    pub fn common_height(&self) -> u64 {
        self.shared.ledger.common_height(self.honest())
    }

    /// Indices of the nodes that follow the protocol.
    pub fn honest(&self) -> impl Iterator<Item = u32> + '_ {
        let setup = &self.shared.setup;
        (0..setup.nodes()).filter(|node| setup.behaviour(*node) == Behaviour::Honest)
    }

    /// Microseconds since the beginning.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.shared.queue.now()
    }

    /// Orders, commits and violations of honest nodes.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// The ledger, to call [`Ledger::close`].
    pub const fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.shared.ledger
    }

    /// Hash of all events so far. Equal setups have equal traces.
    #[must_use]
    pub const fn trace(&self) -> u64 {
        self.shared.trace
    }

    /// Number of messages sent so far, and of their bytes.
    #[must_use]
    pub const fn traffic(&self) -> (u64, u64) {
        (self.shared.messages, self.shared.bytes)
    }

    /// Engine of a node; `None` while its power is cut.
    #[must_use]
    pub fn engine(&self, node: u32) -> Option<&EngineOf<M>> {
        self.nodes.get(node as usize)?.engine()
    }

    /// Number of power cuts of all nodes so far.
    #[must_use]
    pub fn power_cuts(&self) -> u64 {
        self.nodes.iter().map(|node| u64::from(node.epoch)).sum()
    }

    /// Number of blocks that a node has staged or committed so far. [`Crash::Write`] can cut after each.
    #[must_use]
    pub fn writes(&self, node: u32) -> u64 {
        self.nodes.get(node as usize).map_or(0, |node| node.writes)
    }

    /// Number of actions of a node so far. [`Crash::Step`] can cut after each.
    #[must_use]
    pub fn steps(&self, node: u32) -> u64 {
        self.nodes.get(node as usize).map_or(0, |node| node.steps)
    }

    fn happen(&mut self, event: Event) {
        let Self { shared, nodes } = self;
        match event {
            Event::Deliver { to, from, wire } => {
                shared.note(to, wire.label() ^ (u64::from(from) << 40));
                if let Some(node) = nodes.get_mut(to as usize) {
                    node.deliver(from, &wire, shared);
                }
            }
            Event::Local { node, epoch, local } => {
                let label = match &*local {
                    Local::View(view) => 21 ^ (view << 8),
                    Local::Retry => 22,
                    Local::Work(work) => 23 ^ (work.cost_us << 8),
                    Local::Build(due) => 24 ^ (due.place.view << 8),
                    Local::Tick => 25,
                };
                shared.note(node, label);
                if let Some(node) = nodes.get_mut(node as usize) {
                    node.local(epoch, *local, shared);
                }
            }
            Event::MakeBatch(node) => {
                shared.note(node, 26);
                if let Some(node) = nodes.get_mut(node as usize) {
                    node.make_batch(shared);
                }
            }
            Event::Down { node, pause } => {
                shared.note(node, 27);
                if let Some(node) = nodes.get_mut(node as usize) {
                    node.cut(pause, shared);
                }
            }
            Event::Up(node) => {
                shared.note(node, 28);
                if let Some(node) = nodes.get_mut(node as usize) {
                    node.restart(shared);
                }
            }
        }
    }
}
