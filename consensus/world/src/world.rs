//! A network of replicas in virtual time, with faults drawn from a seed.
//!
//! Effects behind a record wait until it is durable; a power cut loses records that are not, and the effects behind them. After
//! every event the ledger checks that no two correct replicas decide differently and that no vote contradicts an earlier one of
//! the same replica, whether or not a crash lies between.

use crate::{
    conditions::Conditions,
    crypto::is_genuine,
    facts::Facts,
    ledger::Ledger,
    links::Links,
    queue::Queue,
    replica::{Replica, content},
    signatures,
};
use alloy_primitives::{Address, Bytes, keccak256};
use phalanx_bft::{Batch, Checked, Index, Input, Message as _, Micros, Outs, Protocol, Slot};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) enum Event<P: Protocol> {
    Deliver { to: usize, from: Index, message: P::Msg },
    Timer { node: usize, timer: P::Timer, number: u64 },
    Durable { node: usize, epoch: u64 },
    Executed { node: usize, epoch: u64, slot: Slot },
    Request(Batch, Vec<usize>),
    Restart { node: usize },
}

/// A network of replicas in virtual time, in µs.
pub struct World<P: Facts> {
    /// Parameters that the world began with; tests change some on the way.
    pub setup: Conditions<P::Config>,
    /// Links between replicas.
    pub links: Links,
    pub(crate) queue: Queue<Event<P>>,
    pub(crate) nodes: Vec<Replica<P>>,
    /// Random numbers of links and traitors.
    pub rng: ChaCha8Rng,
    /// Facts that no fault may contradict.
    pub ledger: Ledger,
    /// Number of messages delivered.
    pub delivered: u64,
    /// Hash over all deliveries: equal seeds, equal traces.
    pub trace: u64,
    pub(crate) calm: bool,
}

impl<P: Facts> World<P> {
    /// Starts all replicas of a world at time zero.
    pub fn new(setup: Conditions<P::Config>) -> Self {
        let n = P::quorums(&setup.config).n();
        let mut world = Self {
            links: setup.links.clone(),
            rng: ChaCha8Rng::seed_from_u64(setup.seed),
            setup,
            queue: Queue::new(),
            nodes: (0..n).map(|_| Replica::new()).collect(),
            ledger: Ledger::default(),
            delivered: 0,
            trace: 0,
            calm: false,
        };
        (0..n).for_each(|node| world.start(node));
        world
    }

    /// Virtual time.
    #[must_use]
    pub const fn now(&self) -> Micros {
        self.queue.now()
    }

    /// Returns true for a replica that neither lies nor is silent.
    #[must_use]
    pub fn is_correct(&self, node: usize) -> bool {
        let index = Index(node as u16);
        !self.setup.traitors.contains(&index) && !self.setup.silent.contains(&index)
    }

    /// Starts a replica from what is durable.
    fn start(&mut self, node: usize) {
        let (base, log) = (self.nodes[node].base(), self.nodes[node].durable.clone());
        let mut out = Vec::new();
        let protocol = P::open(Index(node as u16), Arc::clone(&self.setup.config), base, &log, &mut out);
        self.nodes[node].protocol = Some(protocol);
        self.effects(node, out);
        // As a host does: a crash may have come between an execution and what follows from it.
        for (slot, digest) in self.nodes[node].outcomes.clone() {
            self.call(node, |protocol, now, out| protocol.on_input(now, Input::Committed { slot, digest }, out));
        }
        self.after(node);
    }

    /// Cuts the power: what is not durable is lost.
    pub fn crash(&mut self, node: usize, downtime: Micros) {
        if self.nodes[node].protocol.is_some() {
            self.nodes[node].cut();
            self.queue.after(downtime, Event::Restart { node });
        }
    }

    /// A client's batch reaches every replica at once.
    pub fn request(&mut self, after: Micros, number: u64) -> Batch {
        self.request_at(after, number, (0..self.nodes.len()).collect())
    }

    /// A client's batch reaches these replicas alone.
    pub fn request_at(&mut self, after: Micros, number: u64, nodes: Vec<usize>) -> Batch {
        let batch = Batch::new(1, Address::ZERO, vec![Bytes::from(number.to_be_bytes().to_vec())]);
        self.queue.after(after, Event::Request(batch.clone(), nodes));
        batch
    }

    /// Ends loss and cuts, and calms the traitors.
    pub fn heal(&mut self) {
        self.links.heal();
        self.calm = true;
    }

    /// Handles events until `until`.
    pub fn run(&mut self, until: Micros) {
        while let Some(event) = self.queue.next(until) {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event<P>) {
        match event {
            Event::Deliver { to, from, message } => {
                self.delivered += 1;
                self.trace = self.trace.rotate_left(7) ^ message.label() ^ (to as u64) << 8 ^ u64::from(from.0);
                // Through bytes, as in a real network.
                let bytes = alloy_rlp::encode(&message);
                let decoded: P::Msg =
                    alloy_rlp::Decodable::decode(&mut bytes.as_slice()).expect("encoded messages decode");
                assert!(decoded == message, "a message changes on the way: {message:?}");
                signatures::check(&decoded, P::domain(&self.setup.config));
                self.deliver(usize::from(from.0), to, decoded);
            }
            Event::Timer { node, timer, number } => {
                if self.nodes[node].timers.fires(timer, number) {
                    self.call(node, |protocol, now, out| protocol.on_timer(now, timer, out));
                }
            }
            Event::Durable { node, epoch } => {
                if self.nodes[node].epoch == epoch {
                    self.written(node);
                    self.effects(node, Vec::new());
                    self.after(node);
                }
            }
            Event::Executed { node, epoch, slot } => {
                if self.nodes[node].epoch == epoch {
                    self.executed(node, slot);
                }
            }
            Event::Request(batch, nodes) => {
                for node in nodes {
                    self.nodes[node].take(batch.clone());
                    self.after(node);
                }
            }
            Event::Restart { node } => self.start(node),
        }
    }

    /// Hands a message to a replica as if another one had sent it, if its signatures are right. Returns true if the replica wants it.
    pub fn deliver(&mut self, from: usize, to: usize, message: P::Msg) -> bool {
        let from = Index(from as u16);
        let wanted = self.nodes[to].protocol.as_ref().is_some_and(|protocol| protocol.wants(from, &message));
        let domain = P::domain(&self.setup.config);
        if let Some(checked) = Checked::new(message, domain, |claims| claims.iter().all(is_genuine)) {
            self.call(to, |protocol, now, out| protocol.on_message(now, from, checked, out));
        }
        wanted
    }

    /// Lets a replica that is up act, and performs what follows.
    pub fn call(&mut self, node: usize, act: impl FnOnce(&mut P, Micros, &mut Outs<P>)) {
        let (mut out, now) = (Vec::new(), self.now());
        if let Some(protocol) = &mut self.nodes[node].protocol {
            act(protocol, now, &mut out);
        }
        self.effects(node, out);
        self.after(node);
    }

    /// The host's part between events: proposes, reports waiting clients, executes.
    fn after(&mut self, node: usize) {
        if self.nodes[node].protocol.is_none() {
            return;
        }
        if let Some(batch) = self.nodes[node].proposal() {
            return self.call(node, |protocol, now, out| protocol.on_input(now, Input::Batch(batch), out));
        }
        let (oldest, now) = (self.nodes[node].oldest(), self.now());
        if let Some(protocol) = self.nodes[node].protocol.as_mut().filter(|_| !P::OWN_REQUESTS) {
            let mut out = Vec::new();
            protocol.on_input(now, Input::Pending(oldest), &mut out);
            self.effects(node, out);
        }
        let state = &mut self.nodes[node];
        let next = state.base().slot + 1;
        if !state.executing && state.decided.contains_key(&next) {
            state.executing = true;
            let epoch = state.epoch;
            self.queue.after(self.setup.execute, Event::Executed { node, epoch, slot: next });
        }
    }

    fn executed(&mut self, node: usize, slot: Slot) {
        let correct = self.is_correct(node);
        let state = &mut self.nodes[node];
        state.executing = false;
        let last = state.base();
        if let Some(batch) = state.executable(slot) {
            let digest = keccak256([last.digest.as_slice(), content(batch.as_ref()).as_slice()].concat());
            state.keep(slot, batch, digest);
            if correct {
                let before = *self.ledger.outcomes.entry(slot).or_insert(digest);
                self.ledger.must(before == digest, || format!("slot {slot} has two outcomes"));
            }
            self.call(node, |protocol, now, out| protocol.on_input(now, Input::Committed { slot, digest }, out));
        }
        self.after(node);
    }

    /// Draws a number below a bound.
    pub fn random(&mut self, below: u64) -> u64 {
        self.rng.random_range(0..below)
    }
}
