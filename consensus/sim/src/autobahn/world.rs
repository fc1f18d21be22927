//! The events of a run: batches, messages, timers and signatures, in the order of their times.

use super::{
    certify::Votes,
    clients::{Part, Waiting, parts_of},
    constants,
    setting::{Answers, Blip, LINKS, Order, Outcome, Setting},
};
use crate::{load::Series, rng::mix};
use alloy_primitives::{B256, Bytes, U256};
use phalanx_bft::{
    Base, Batch, Checked, Crypto, Domain, Index, Input, Message as _, Out, Quorums, Slot, To, Want, autobahn::Autobahn,
    baseline::HotStuff, pbft::Pbft, sbft::Sbft,
};
use phalanx_world::{Commit, Facts, Line, Next, Outbox, Queue, Timers};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    sync::Arc,
};

#[derive(Debug)]
pub(super) enum Event<P: Facts> {
    /// The batch of a replica is full, or old enough; first moment of its arrivals.
    Seal(u16, u64),
    /// Transactions are taken in.
    Pool(u16, u32),
    /// A message reaches a node.
    Arrive(u16, u16, Arc<P::Msg>),
    Handle(u16, u16, Arc<P::Msg>),
    /// Clients' transactions reach a leader.
    Forward(u16, Vec<u32>),
    Timer(u16, P::Timer, u64),
    Signed(u16, u64, bool),
    Executed(u16, Slot),
    /// A replica's vote on the state behind a slot, and all before, reaches a node.
    StateVote(u16, u16, Slot),
    /// The records of a node are durable.
    Durable(u16),
    /// A replica gets the state of a checkpoint.
    Install(u16, Base),
}

pub(super) struct Node<P: Facts> {
    pub(super) protocol: P,
    pub(super) ingest: Line,
    core: Line,
    egress: Line,
    timers: Timers<P::Timer>,
    pub(super) pool: VecDeque<u32>,
    /// Parts that came to this replica in its view: clients send again.
    pub(super) taken: BTreeSet<u32>,
    /// Own parts without a place in the order, with the time at which they were last sent to a leader.
    pub(super) mine: BTreeMap<u32, u64>,
    /// Digests of batches that it has taken in, or takes in.
    pub(super) seen: HashSet<B256>,
    decided: BTreeMap<Slot, Option<Batch>>,
    next: Slot,
    view: u64,
    /// Transactions that are due and find no client free.
    pub(super) waiting: Waiting,
    outbox: Outbox<P>,
}

pub(super) struct World<P: Facts> {
    pub(super) setting: Setting,
    quorums: Quorums,
    pub(super) queue: Queue<Event<P>>,
    pub(super) nodes: Vec<Node<P>>,
    pub(super) parts: Vec<Part>,
    /// Content of decided slots.
    history: BTreeMap<Slot, Option<Batch>>,
    pub(super) number: u64,
    given_up: Vec<u64>,
    /// Messages that a leader which leads no longer would have sent.
    held: Vec<(To, P::Msg)>,
    pub(super) series: Series,
    pub(super) answers: Vec<(u64, u64)>,
    votes: Votes,
    pub(super) in_flight: u64,
    pub(super) ready_txs: u64,
    messages: u64,
    bytes: u64,
    made: u64,
    checked: u64,
    trace: u64,
}

/// Runs a setting with its protocol.
///
/// # Errors
/// Names what is impossible about it.
pub fn run(setting: &Setting) -> Result<Outcome, &'static str> {
    setting.check()?;
    let quorums = Quorums::new(setting.n, (setting.n - 1) / 3).map_err(|_| "between 4 and 64 replicas")?;
    match setting.order {
        Order::Autobahn => run_protocol::<Autobahn>(setting, constants::autobahn(setting, quorums)),
        Order::VanillaHotStuff | Order::BatchedHotStuff => {
            run_protocol::<HotStuff>(setting, constants::hotstuff(setting, quorums))
        }
        Order::Pbft => run_protocol::<Pbft>(setting, constants::pbft(setting, quorums)),
        Order::Sbft => run_protocol::<Sbft>(setting, constants::sbft(setting, quorums)),
    }
}

fn run_protocol<P: Facts>(setting: &Setting, config: P::Config) -> Result<Outcome, &'static str> {
    P::check(&config).map_err(|_| "constants of the protocol out of range")?;
    let mut world = World::<P>::new(*setting, &Arc::new(config));
    let end = setting.total_ms * 1_000_000;
    while let Some(event) = world.queue.next(end) {
        world.handle(event);
    }
    Ok(world.outcome())
}

impl<P: Facts> World<P> {
    fn new(setting: Setting, config: &Arc<P::Config>) -> Self {
        let quorums = P::quorums(config);
        let mut world = Self {
            setting,
            quorums,
            queue: Queue::new(),
            nodes: Vec::new(),
            parts: Vec::new(),
            history: BTreeMap::new(),
            number: 0,
            given_up: Vec::new(),
            held: Vec::new(),
            series: Series::default(),
            answers: Vec::new(),
            votes: Votes::new(quorums),
            in_flight: 0,
            ready_txs: 0,
            messages: 0,
            bytes: 0,
            made: 0,
            checked: 0,
            trace: 0,
        };
        let mut outs = Vec::new();
        for me in 0..setting.n as u16 {
            let mut out = Vec::new();
            let protocol = P::open(Index(me), Arc::clone(config), Base::default(), &[], &mut out);
            world.nodes.push(Node {
                protocol,
                ingest: Line::default(),
                core: Line::default(),
                egress: Line::default(),
                timers: Timers::new(),
                pool: VecDeque::new(),
                taken: BTreeSet::new(),
                seen: HashSet::new(),
                mine: BTreeMap::new(),
                decided: BTreeMap::new(),
                next: 1,
                view: 0,
                waiting: Waiting::default(),
                outbox: Outbox::new(Commit::Group),
            });
            outs.push(out);
            // Replicas do not begin in step.
            let first = world.period() * u64::from(me) / setting.n as u64 + 1;
            world.queue.after(first, Event::Seal(me, 0));
        }
        (0..).zip(outs).for_each(|(node, out)| world.absorb(node, out));
        world
    }

    const fn note(&mut self, what: u64) {
        self.trace = mix(self.trace ^ what ^ self.queue.now().rotate_left(17));
    }

    fn handle(&mut self, event: Event<P>) {
        let now = self.queue.now();
        match event {
            Event::Seal(node, since) => self.seal(node, since),
            Event::Pool(node, part) => self.serve(node, vec![part]),
            Event::Forward(node, parts) => {
                let txs: u64 = parts.iter().map(|part| self.parts[*part as usize].txs).sum();
                self.nodes[usize::from(node)].ingest.serve(now, txs * self.setting.costs.ingest_ns);
                self.nodes[usize::from(node)].take(parts);
                self.fill(node);
            }
            Event::Arrive(to, from, message) => {
                let costs = self.setting.costs;
                // Data that came before is recognised by its digest.
                let mut batches = message.batches();
                let seen = &mut self.nodes[usize::from(to)].seen;
                batches.retain(|batch| seen.insert(batch.digest()));
                let txs = self.txs(&batches);
                let checks = P::signatures(&message, self.quorums);
                self.checked += checks;
                let node = &mut self.nodes[usize::from(to)];
                let taken = if txs > 0 { node.ingest.serve(now, txs * costs.ingest_ns) } else { now };
                // Data is handled once it is taken in, beside the messages without data.
                let cost = costs.message_ns + checks * costs.signature_ns.1;
                let done = if txs > 0 { taken + cost } else { node.core.serve(now, cost) };
                self.queue.after(done - now, Event::Handle(to, from, message));
            }
            Event::Handle(to, from, message) => {
                self.note(message.label() ^ u64::from(to) << 8 ^ u64::from(from));
                if let Some(checked) = Checked::new(P::Msg::clone(&message), Domain::default(), |_| true) {
                    self.call(to, |protocol, now, out| protocol.on_message(now, Index(from), checked, out));
                }
            }
            Event::Timer(node, timer, number) => {
                if self.nodes[usize::from(node)].timers.fires(timer, number) {
                    self.call(node, |protocol, now, out| protocol.on_timer(now, timer, out));
                }
            }
            Event::Signed(node, job, combined) => {
                let signature = Bytes::from_static(&[0; 64]);
                let input = match combined {
                    true => Input::Combined { job, result: Ok(signature) },
                    false => Input::Signed { job, signature },
                };
                self.call(node, |protocol, now, out| protocol.on_input(now, input, out));
            }
            Event::Install(node, base) => {
                let state = &mut self.nodes[usize::from(node)];
                let missing = self
                    .history
                    .range(state.next..=base.slot.max(state.next))
                    .map(|(slot, batch)| (*slot, batch.clone()));
                state.decided.extend(missing);
                self.execute(node);
                self.call(node, |protocol, now, out| protocol.on_input(now, Input::Installed(base), out));
            }
            Event::StateVote(node, from, slot) => {
                for slot in self.votes.note(node, from, slot) {
                    let parts: Vec<u32> = self.history.get(&slot).into_iter().flatten().flat_map(parts_of).collect();
                    parts.into_iter().for_each(|part| self.answer(part));
                }
            }
            Event::Durable(node) => {
                self.nodes[usize::from(node)].outbox.written();
                self.flush(node);
            }
            Event::Executed(node, slot) => {
                let digest = B256::from(U256::from(slot));
                self.call(node, |protocol, now, out| protocol.on_input(now, Input::Committed { slot, digest }, out));
            }
        }
    }

    pub(super) fn call(&mut self, node: u16, act: impl FnOnce(&mut P, u64, &mut Vec<Out<P>>)) {
        let (now, mut out) = (self.queue.now() / 1_000, Vec::new());
        act(&mut self.nodes[usize::from(node)].protocol, now, &mut out);
        self.absorb(node, out);
        let state = &mut self.nodes[usize::from(node)];
        if !P::OWN_REQUESTS && state.protocol.view() > state.view {
            // A new leader: what has no place in the order goes there. It may have come there before the view did.
            state.view = state.protocol.view();
            if state.protocol.leader().0 != node {
                state.pool.clear();
            }
            state.taken = state.pool.iter().copied().collect();
            let mine = state.mine.keys().copied().collect();
            self.serve(node, mine);
        }
        self.fill(node);
    }

    /// Performs effects in order; those behind a record wait until it is durable.
    pub(super) fn absorb(&mut self, node: u16, out: Vec<Out<P>>) {
        if self.setting.costs.persist_ns == 0 {
            return self.perform(node, out);
        }
        self.nodes[usize::from(node)].outbox.extend(out);
        self.flush(node);
    }

    /// Performs what waits for no record, and writes the next records.
    fn flush(&mut self, node: u16) {
        loop {
            match self.nodes[usize::from(node)].outbox.step() {
                Next::Nothing => return,
                Next::Write => self.queue.after(self.setting.costs.persist_ns, Event::Durable(node)),
                Next::Perform(effect) => self.perform(node, vec![effect]),
            }
        }
    }

    fn perform(&mut self, node: u16, out: Vec<Out<P>>) {
        let now = self.queue.now();
        for effect in out {
            match effect {
                Out::Send(to, message) => self.send(node, to, message),
                Out::Work { job, crypto } => {
                    self.made += 1;
                    let combined = matches!(crypto, Crypto::Combine { .. });
                    let cost = match crypto {
                        Crypto::Sign(_) => self.setting.costs.signature_ns.0,
                        Crypto::Share { .. } => self.setting.costs.share_ns.0,
                        Crypto::Combine { .. } => self.setting.costs.share_ns.1,
                    };
                    let done = self.nodes[usize::from(node)].core.serve(now, cost);
                    self.queue.after(done - now, Event::Signed(node, job, combined));
                }
                Out::Timer(timer, after) => {
                    let number = self.nodes[usize::from(node)].timers.set(timer);
                    self.queue.after(after * 1_000, Event::Timer(node, timer, number));
                }
                Out::Cancel(timer) => self.nodes[usize::from(node)].timers.cancel(timer),
                Out::Want(Want::State { base, .. }) => {
                    // Another replica hands over what it has decided.
                    let after = LINKS[0][2] * 1_000;
                    self.queue.after(after, Event::Install(node, base));
                }
                Out::Decided { slot, batch } => {
                    self.history.entry(slot).or_insert_with(|| batch.clone());
                    self.nodes[usize::from(node)].decided.insert(slot, batch);
                    self.execute(node);
                }
                Out::Returned(batch) => {
                    for part in parts_of(&batch).collect::<Vec<_>>().into_iter().rev() {
                        self.nodes[usize::from(node)].pool.push_front(part);
                    }
                }
                _ => {}
            }
        }
    }

    /// Sends a vote on the state behind a slot to all. One that a partition stops is repeated when that ends.
    fn vote_on_state(&mut self, node: u16, slot: Slot) {
        for to in 0..self.setting.n as u16 {
            let way = if to == node { 0 } else { self.travel(node, to, 200) };
            let rest = match self.setting.blip {
                Some(Blip::Halves { until_ms, .. }) if self.is_apart(node, to) => {
                    until_ms * 1_000_000 - self.queue.now() + self.setting.resend_ms * 1_000_000
                }
                _ => 0,
            };
            self.queue.after(rest + way, Event::StateVote(to, node, slot));
        }
    }

    /// Notes what is ready to execute, in the order of heights.
    fn execute(&mut self, node: u16) {
        loop {
            let state = &mut self.nodes[usize::from(node)];
            let slot = state.next;
            let Some(batch) = state.decided.remove(&slot) else { return };
            state.next += 1;
            self.queue.after(0, Event::Executed(node, slot));
            for part in batch.iter().flat_map(parts_of).collect::<Vec<_>>() {
                self.nodes[usize::from(node)].mine.remove(&part);
                if self.setting.answers == Answers::Ready && self.parts[part as usize].origin == node {
                    self.answer(part);
                }
            }
            if self.setting.answers == Answers::Certified {
                self.vote_on_state(node, slot);
            }
            self.tell_pending(node);
        }
    }

    fn is_mute(&self, node: u16, message: &P::Msg) -> bool {
        let Some(Blip::Leader { at_ms, views, .. }) = self.setting.blip else { return false };
        let begun = self.queue.now() >= at_ms * 1_000_000;
        node == 0 && begun && (self.given_up.len() as u64) < views && P::leads(message)
    }

    pub(super) fn is_apart(&self, a: u16, b: u16) -> bool {
        let Some(Blip::Halves { from_ms, until_ms }) = self.setting.blip else { return false };
        let apart = (from_ms * 1_000_000..until_ms * 1_000_000).contains(&self.queue.now());
        // Halves of the country: each has both replicas that are close to each other.
        apart && (a % 4 < 2) != (b % 4 < 2)
    }

    /// Time for a message to leave and to arrive, in ns.
    pub(super) fn travel(&mut self, from: u16, to: u16, bytes: u64) -> u64 {
        let (now, costs) = (self.queue.now(), self.setting.costs);
        let left = self.nodes[usize::from(from)].egress.serve(now, bytes * 1_000_000_000 / costs.bandwidth);
        let latency = LINKS[usize::from(from) % 4][usize::from(to) % 4] * 500;
        left - now + latency
    }

    fn send(&mut self, from: u16, to: To, message: P::Msg) {
        if self.is_mute(from, &message) {
            self.held.push((to, message));
            return;
        }
        if let Some(tenure) = P::gives_up(&message)
            && !self.given_up.contains(&tenure)
            && self
                .setting
                .blip
                .is_none_or(|blip| !matches!(blip, Blip::Leader { at_ms, .. } if self.queue.now() < at_ms * 1_000_000))
        {
            self.given_up.push(tenure);
            if let Some(Blip::Leader { views, late: true, .. }) = self.setting.blip
                && self.given_up.len() as u64 >= views
            {
                std::mem::take(&mut self.held).into_iter().for_each(|(to, message)| self.send(0, to, message));
            }
        }
        let costs = self.setting.costs;
        let txs = self.txs(&message.batches());
        let bytes = 200 + 100 * P::signatures(&message, self.quorums) + txs * costs.tx_bytes;
        // A leader that spreads data along with its block is slowed down by it.
        let mut serial = 0;
        if self.setting.order == Order::VanillaHotStuff && P::leads(&message) {
            let now = self.queue.now();
            serial = self.nodes[usize::from(from)].core.serve(now, txs * costs.block_tx_ns) - now;
        }
        let message = Arc::new(message);
        let receivers: Vec<u16> = match to {
            To::All => (0..self.setting.n as u16).filter(|to| *to != from).collect(),
            To::One(to) => vec![to.0],
        };
        for to in receivers {
            self.messages += 1;
            self.bytes += bytes;
            let after = self.travel(from, to, bytes);
            if !self.is_apart(from, to) {
                self.queue.after(serial + after, Event::Arrive(to, from, Arc::clone(&message)));
            }
        }
    }

    fn outcome(self) -> Outcome {
        let Setting { total_ms, warm_up_ms, .. } = self.setting;
        let (begin, end) = (warm_up_ms * 1_000_000, total_ms * 1_000_000);
        let measured = self.parts.iter().filter(|part| part.sent >= begin && part.sent + 1_000_000_000 < end);
        let (mut sent, mut ready) = (0, 0);
        for part in measured {
            sent += part.txs;
            ready += if part.ready { part.txs } else { 0 };
        }
        let seconds = self.series.seconds();
        let (from, to) = ((warm_up_ms / 1_000) as usize, (total_ms / 1_000 - 1) as usize);
        let window = seconds.get(from..to.min(seconds.len()).max(from)).unwrap_or_default();
        let answered: u64 = window.iter().map(|second| second.answered).sum();
        let waited: u128 = window.iter().map(|second| second.waited_ns).sum();
        let whole = total_ms as f64 / 1_000.0;
        let busiest = |of: fn(&Node<P>) -> u64| self.nodes.iter().map(of).max().unwrap_or(0) as f64 / end as f64;
        Outcome {
            tps: self.ready_txs as f64 / ((total_ms - warm_up_ms) as f64 / 1_000.0),
            latency_ms: waited as f64 / 1e6 / answered.max(1) as f64,
            answered: ready as f64 / f64::max(sent as f64, 1.0),
            messages: self.messages as f64 / whole,
            bytes: self.bytes as f64 / whole,
            signatures: (self.made as f64 / whole, self.checked as f64 / whole),
            busy: (busiest(|node| node.ingest.busy_ns), busiest(|node| node.core.busy_ns)),
            views: self.given_up.len() as u64,
            trace: self.trace,
            series: self.series,
            answers: self.answers,
        }
    }
}
