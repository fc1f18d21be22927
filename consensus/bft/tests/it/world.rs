//! A network of replicas in virtual time, with faults drawn from a seed.
//!
//! Effects behind a record wait until it is durable; a power cut loses records that are not, and the effects behind them. After
//! every event the ledger checks that no two correct replicas decide differently and that no vote contradicts an earlier one of
//! the same replica, whether or not a crash lies between.

mod crypto;
mod ledger;
pub(crate) mod signatures;
mod subject;
mod unrest;

pub(crate) use crypto::{is_genuine, sign, work};
pub(crate) use ledger::Ledger;
pub(crate) use subject::{Conditions, Lie, Subject, Vote};

use alloy_primitives::{Address, B256, Bytes, keccak256};
use phalanx_bft::{
    Base, Batch, Checked, Index, Input, Message as _, Micros, NULL, Out, Protocol, Slot, To, Want, pbft::Pbft,
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// The world of PBFT.
pub(crate) type World = Net<Pbft>;
pub(crate) type Setup = Conditions<Pbft>;

#[derive(Debug)]
enum Event<P: Protocol> {
    Deliver { to: usize, from: Index, message: P::Msg },
    Timer { node: usize, epoch: u64, timer: P::Timer, number: u64 },
    Durable { node: usize, epoch: u64 },
    Executed { node: usize, epoch: u64, slot: Slot },
    Request(Batch, Vec<usize>),
    Restart { node: usize },
}

struct Node<P: Protocol> {
    replica: Option<P>,
    epoch: u64,
    /// Log that a restart reads, and every record that was ever durable.
    durable: Vec<P::Record>,
    written: Vec<P::Record>,
    /// Record that is being written, and the effects behind it.
    writing: Option<P::Record>,
    outbox: VecDeque<Out<P>>,
    /// True while effects are performed.
    busy: bool,
    timers: BTreeMap<P::Timer, u64>,
    /// Decided batches that wait for execution, and the executed outcomes.
    decided: BTreeMap<Slot, Option<Batch>>,
    outcomes: BTreeMap<Slot, B256>,
    executing: bool,
    contents: BTreeMap<Slot, B256>,
    /// Batches that clients want, by arrival.
    pool: Vec<(u64, Batch)>,
    arrived: u64,
}

impl<P: Protocol> Node<P> {
    fn write(&mut self, record: P::Record) {
        self.durable.push(record.clone());
        self.written.push(record);
    }
}

pub(crate) struct Net<P: Subject> {
    pub(crate) setup: Conditions<P>,
    pub(crate) now: Micros,
    queue: BTreeMap<(Micros, u64), Event<P>>,
    next: u64,
    nodes: Vec<Node<P>>,
    rng: ChaCha8Rng,
    /// Replicas that hear only each other, until the world heals.
    pub(crate) cut: BTreeSet<usize>,
    pub(crate) ledger: Ledger,
    pub(crate) delivered: u64,
    /// Hash over all deliveries: equal seeds, equal traces.
    pub(crate) trace: u64,
    calm: bool,
}

impl<P: Subject> Net<P> {
    pub(crate) fn new(setup: Conditions<P>) -> Self {
        let n = P::quorums(&setup.config).n();
        let node = || Node {
            replica: None,
            epoch: 0,
            durable: Vec::new(),
            written: Vec::new(),
            writing: None,
            outbox: VecDeque::new(),
            busy: false,
            timers: BTreeMap::new(),
            decided: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            executing: false,
            contents: BTreeMap::new(),
            pool: Vec::new(),
            arrived: 0,
        };
        let rng = ChaCha8Rng::seed_from_u64(setup.seed);
        let mut world = Self {
            setup,
            now: 0,
            queue: BTreeMap::new(),
            next: 0,
            nodes: (0..n).map(|_| node()).collect(),
            rng,
            cut: BTreeSet::new(),
            ledger: Ledger::default(),
            delivered: 0,
            trace: 0,
            calm: false,
        };
        (0..n).for_each(|node| world.start(node));
        world
    }

    fn is_correct(&self, node: usize) -> bool {
        !self.setup.traitors.contains(&Index(node as u16)) && !self.setup.silent.contains(&Index(node as u16))
    }

    fn push(&mut self, after: Micros, event: Event<P>) {
        self.queue.insert((self.now + after, self.next), event);
        self.next += 1;
    }

    /// Starts a replica from what is durable.
    fn start(&mut self, node: usize) {
        let (slot, digest) = self.nodes[node].outcomes.last_key_value().map_or((0, B256::ZERO), |(s, d)| (*s, *d));
        let config = Arc::clone(&self.setup.config);
        let mut out = Vec::new();
        let log = self.nodes[node].durable.clone();
        let replica = P::open(Index(node as u16), config, Base { slot, digest }, &log, &mut out);
        self.nodes[node].replica = Some(replica);
        self.effects(node, out);
        // As a host does: a crash may have come between an execution and what follows from it.
        for (slot, digest) in self.nodes[node].outcomes.clone() {
            self.call(node, |replica, now, out| replica.on_input(now, Input::Committed { slot, digest }, out));
        }
        self.after(node);
    }

    /// Cuts the power: what is not durable is lost.
    pub(crate) fn crash(&mut self, node: usize, downtime: Micros) {
        if self.nodes[node].replica.is_none() {
            return;
        }
        let state = &mut self.nodes[node];
        state.replica = None;
        state.epoch += 1;
        state.writing = None;
        state.outbox.clear();
        state.timers.clear();
        state.decided.clear();
        state.executing = false;
        self.push(downtime, Event::Restart { node });
    }

    /// A client's batch reaches every replica at once.
    pub(crate) fn request(&mut self, after: Micros, number: u64) -> Batch {
        self.request_at(after, number, (0..self.nodes.len()).collect())
    }

    /// A client's batch reaches these replicas alone.
    pub(crate) fn request_at(&mut self, after: Micros, number: u64, nodes: Vec<usize>) -> Batch {
        let batch = Batch::new(1, Address::ZERO, vec![Bytes::from(number.to_be_bytes().to_vec())]);
        self.push(after, Event::Request(batch.clone(), nodes));
        batch
    }

    /// Ends loss, cuts and crashes.
    pub(crate) fn heal(&mut self) {
        (self.setup.lost, self.setup.doubled, self.setup.jitter) = (0, 0, self.setup.jitter.min(self.setup.delay));
        self.cut.clear();
        self.calm = true;
    }

    /// Handles events until `until`. Returns false if there is none left.
    pub(crate) fn run(&mut self, until: Micros) -> bool {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > until {
                self.now = until;
                return true;
            }
            self.now = entry.key().0;
            let event = entry.remove();
            self.handle(event);
        }
        self.now = until;
        false
    }

    fn handle(&mut self, event: Event<P>) {
        match event {
            Event::Deliver { to, from, message } => {
                self.delivered += 1;
                self.trace = self.trace.rotate_left(7) ^ message.label() ^ (to as u64) << 8 ^ u64::from(from.0);
                self.deliver(to, from, message);
            }
            Event::Timer { node, epoch, timer, number } => {
                let state = &mut self.nodes[node];
                if state.epoch == epoch && state.timers.get(&timer) == Some(&number) {
                    state.timers.remove(&timer);
                    self.call(node, |replica, now, out| replica.on_timer(now, timer, out));
                }
            }
            Event::Durable { node, epoch } => {
                if self.nodes[node].epoch == epoch
                    && let Some(record) = self.nodes[node].writing.take()
                {
                    self.nodes[node].write(record);
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
                    let number = self.nodes[node].arrived;
                    self.nodes[node].arrived += 1;
                    self.nodes[node].pool.push((number, batch.clone()));
                    self.after(node);
                }
            }
            Event::Restart { node } => self.start(node),
        }
    }

    fn deliver(&mut self, to: usize, from: Index, message: P::Msg) {
        // Through bytes, as in a real network.
        let bytes = alloy_rlp::encode(&message);
        let decoded: P::Msg = alloy_rlp::Decodable::decode(&mut bytes.as_slice()).expect("encoded messages decode");
        assert_eq!(decoded, message);
        signatures::check(&decoded, P::domain(&self.setup.config));
        let Some(checked) =
            Checked::new(decoded, P::domain(&self.setup.config), |claims| claims.iter().all(is_genuine))
        else {
            return;
        };
        self.call(to, |replica, now, out| replica.on_message(now, from, checked, out));
    }

    fn call(&mut self, node: usize, act: impl FnOnce(&mut P, Micros, &mut Vec<Out<P>>)) {
        let mut out = Vec::new();
        let now = self.now;
        if let Some(replica) = &mut self.nodes[node].replica {
            act(replica, now, &mut out);
        }
        self.effects(node, out);
        self.after(node);
    }

    /// Queues effects behind earlier ones, and performs what waits for no record.
    fn effects(&mut self, node: usize, out: Vec<Out<P>>) {
        self.nodes[node].outbox.extend(out);
        if !std::mem::replace(&mut self.nodes[node].busy, true) {
            self.perform(node);
            self.nodes[node].busy = false;
        }
    }

    fn perform(&mut self, node: usize) {
        while self.nodes[node].writing.is_none()
            && let Some(effect) = self.nodes[node].outbox.pop_front()
        {
            match effect {
                Out::Persist(record) if self.setup.persist == 0 => self.nodes[node].write(record),
                Out::Persist(record) => {
                    self.nodes[node].writing = Some(record);
                    let epoch = self.nodes[node].epoch;
                    self.push(self.setup.persist, Event::Durable { node, epoch });
                }
                effect => self.effect(node, effect),
            }
        }
    }

    fn effect(&mut self, node: usize, effect: Out<P>) {
        let me = Index(node as u16);
        let correct = self.is_correct(node);
        match effect {
            Out::Persist(_) => unreachable!("records are split off before"),
            Out::Send(to, message) => self.send(node, to, message),
            Out::Timer(timer, after) => {
                let number = self.next;
                self.nodes[node].timers.insert(timer, number);
                let epoch = self.nodes[node].epoch;
                self.push(after, Event::Timer { node, epoch, timer, number });
            }
            Out::Cancel(timer) => drop(self.nodes[node].timers.remove(&timer)),
            Out::Work { job, crypto } => {
                let lies = self.setup.traitors.contains(&me) && self.rng.random_ratio(1, 4);
                let input = work(me, job, crypto, lies);
                self.call(node, |replica, now, out| replica.on_input(now, input, out));
            }
            Out::Decided { slot, batch } => {
                let digest = batch.as_ref().map_or(NULL, Batch::digest);
                if correct {
                    let known = self.nodes[node].replica.as_ref().and_then(|replica| replica.decision(slot));
                    let whole = known.is_none_or(|known| known == digest);
                    self.ledger.must(whole, || format!("{me} decided {known:?} in slot {slot} without its batch"));
                    let before = *self.ledger.decided.entry(slot).or_insert(digest);
                    self.ledger.must(before == digest, || {
                        format!("slot {slot}: {me} decided {digest}, before it was {before}")
                    });
                    let times = self.ledger.times.entry(slot).or_insert((self.now, self.now, 0));
                    (times.1, times.2) = (self.now, times.2 + 1);
                }
                self.nodes[node].decided.insert(slot, batch);
            }
            Out::Conflict { slot } => self.ledger.must(!correct, || format!("{me} has two decisions in slot {slot}")),
            Out::OrderVoted { slot, view } => {
                self.ledger.order_votes += 1;
                if correct {
                    let durable = self.nodes[node].written.iter().any(|record| P::locks(record, view, slot, None));
                    self.ledger
                        .must(durable, || format!("{me} announced an order vote in slot {slot} that is not durable"));
                }
            }
            Out::Want(Want::State { base, .. }) => self.install(node, base),
            Out::Evidence { against, .. } => {
                self.ledger.evidence += 1;
                let right = !correct || self.setup.traitors.contains(&against);
                self.ledger.must(right, || format!("{me} has evidence against {against}, which is correct"));
            }
            Out::Certificate { slot, digest, answers, .. } => self.certified(node, slot, digest, answers),
            Out::Stable { .. } => self.compact(node),
            Out::Returned(_) | Out::Proposed { .. } => {}
        }
    }

    /// Replaces the log by the journal of the present state, which includes the records that still wait, as a host does.
    fn compact(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        let Some(replica) = &state.replica else { return };
        state.durable = replica.journal();
        for effect in std::mem::take(&mut state.outbox) {
            match effect {
                Out::Persist(record) => state.written.push(record),
                other => state.outbox.push_back(other),
            }
        }
    }

    /// A certificate for clients names the outcome that correct replicas have.
    fn certified(&mut self, node: usize, slot: Slot, digest: B256, answers: bool) {
        let known = self.ledger.outcomes.get(&slot).copied();
        self.ledger
            .must(known == Some(digest), || format!("slot {slot}: {digest} is certified, executed is {known:?}"));
        if answers && self.is_correct(node) {
            let answers = self.ledger.answers.entry(slot).or_insert((self.now, 0));
            answers.1 += 1;
        }
    }

    /// State transfer: another replica that has executed as far hands over its outcomes.
    fn install(&mut self, node: usize, base: Base) {
        let reaches = |at: &usize| *at != node && self.is_correct(*at) && self.connected(node, *at);
        let holder = (0..self.nodes.len()).filter(reaches).find(|at| self.nodes[*at].outcomes.contains_key(&base.slot));
        let Some(holder) = holder else { return };
        let outcomes: BTreeMap<Slot, B256> =
            self.nodes[holder].outcomes.range(..=base.slot).map(|(slot, digest)| (*slot, *digest)).collect();
        if self.is_correct(node) {
            let matches = outcomes.get(&base.slot) == Some(&base.digest);
            self.ledger.must(matches, || format!("a checkpoint names another state in slot {}", base.slot));
        }
        let contents = self.nodes[holder].contents.clone();
        let contents: BTreeMap<Slot, B256> = contents.into_iter().filter(|(slot, _)| *slot <= base.slot).collect();
        self.nodes[node].pool.retain(|(_, batch)| !contents.values().any(|digest| *digest == batch.digest()));
        self.nodes[node].contents.extend(contents);
        self.nodes[node].outcomes.extend(outcomes);
        self.nodes[node].decided = self.nodes[node].decided.split_off(&(base.slot + 1));
        self.call(node, |replica, now, out| replica.on_input(now, Input::Installed(base), out));
    }

    fn connected(&self, a: usize, b: usize) -> bool {
        self.cut.contains(&a) == self.cut.contains(&b)
    }

    fn send(&mut self, node: usize, to: To, message: P::Msg) {
        let me = Index(node as u16);
        if self.setup.silent.contains(&me) {
            return;
        }
        if self.is_correct(node)
            && let Some(vote) = P::vote(&message)
        {
            let (kind, view, slot, digest) = vote;
            let before = *self.ledger.votes.entry((me, kind, view, slot)).or_insert(digest);
            self.ledger.must(before == digest, || format!("{me} voted twice: {vote:?}, before {before}"));
            if kind == 2 {
                let locks = |record: &P::Record| P::locks(record, view, slot, Some(digest));
                let state = &self.nodes[node];
                let durable = state.written.iter().any(locks) || state.outcomes.contains_key(&slot);
                self.ledger.must(durable, || format!("{me} sent {vote:?}, which is not durable"));
            }
        }
        let all: Vec<usize> = match to {
            To::All => (0..self.nodes.len()).filter(|to| *to != node).collect(),
            To::One(to) => vec![usize::from(to.0)],
        };
        let traitor = self.setup.traitors.contains(&me);
        for to in all {
            if traitor {
                for message in self.betray(me, to, &message) {
                    self.transmit(node, to, message);
                }
            } else {
                self.transmit(node, to, message.clone());
            }
        }
    }

    fn transmit(&mut self, from: usize, to: usize, message: P::Msg) {
        if !self.connected(from, to) || self.rng.random_ratio(self.setup.lost, 1000) {
            return;
        }
        let copies = 1 + usize::from(self.rng.random_ratio(self.setup.doubled, 1000));
        for _ in 0..copies {
            let jitter = if self.setup.jitter == 0 { 0 } else { self.rng.random_range(0..=self.setup.jitter) };
            let far = self.setup.far.get(&Index(from as u16)).copied().unwrap_or(0);
            let after = self.setup.delay + far + jitter;
            self.push(after, Event::Deliver { to, from: Index(from as u16), message: message.clone() });
        }
    }

    /// Messages that a traitor sends instead: lies, or nothing.
    fn betray(&mut self, me: Index, to: usize, message: &P::Msg) -> Vec<P::Msg> {
        if self.calm && self.rng.random_ratio(1, 2) {
            return Vec::new();
        }
        let batch = Batch::new(1, Address::ZERO, vec![Bytes::from(vec![(to % 2) as u8])]);
        let digest = if self.rng.random_ratio(1, 3) { NULL } else { batch.digest() };
        match self.rng.random_range(0..6) {
            0 => Vec::new(),
            1..4 => {
                let lie = Lie { batch, digest, random: self.rng.random() };
                P::betray(me, message, lie, P::domain(&self.setup.config))
            }
            _ => vec![message.clone()],
        }
    }

    /// The host's part between events: proposes, tells of waiting clients, executes.
    fn after(&mut self, node: usize) {
        let Some(replica) = &self.nodes[node].replica else { return };
        let (room, pool) = (replica.room(), &self.nodes[node].pool);
        // What has its place in the decided prefix waits for execution only.
        let ordered = self.nodes[node].decided.range(..=replica.decided()).map(|(_, batch)| batch.as_ref());
        let ordered: Vec<&Batch> = ordered.flatten().collect();
        let waits = pool.iter().find(|(_, batch)| !ordered.contains(&batch)).map(|(number, _)| *number);
        if room > 0
            && let Some((_, batch)) = pool.iter().find(|(_, batch)| !replica.is_in_flight(batch.digest())).cloned()
        {
            self.call(node, |replica, now, out| replica.on_input(now, Input::Batch(batch), out));
            return;
        }
        let mut out = Vec::new();
        if let Some(replica) = &mut self.nodes[node].replica {
            replica.on_input(self.now, Input::Pending(waits), &mut out);
        }
        self.effects(node, out);
        self.execute(node);
    }

    fn execute(&mut self, node: usize) {
        let state = &self.nodes[node];
        let next = state.outcomes.last_key_value().map_or(0, |(slot, _)| *slot) + 1;
        if !state.executing && state.decided.contains_key(&next) {
            self.nodes[node].executing = true;
            let epoch = self.nodes[node].epoch;
            self.push(self.setup.execute, Event::Executed { node, epoch, slot: next });
        }
    }

    fn executed(&mut self, node: usize, slot: Slot) {
        let correct = self.is_correct(node);
        let state = &mut self.nodes[node];
        state.executing = false;
        let last = state.outcomes.last_key_value().map_or((0, B256::ZERO), |(slot, digest)| (*slot, *digest));
        if let Some(batch) = state.decided.remove(&slot)
            && slot == last.0 + 1
        {
            let content = batch.as_ref().map_or(NULL, Batch::digest);
            let digest = keccak256([last.1.as_slice(), content.as_slice()].concat());
            state.outcomes.insert(slot, digest);
            state.contents.insert(slot, content);
            state.pool.retain(|(_, waiting)| Some(waiting) != batch.as_ref());
            if correct {
                let before = *self.ledger.outcomes.entry(slot).or_insert(digest);
                self.ledger.must(before == digest, || format!("slot {slot} has two outcomes"));
            }
            self.call(node, |replica, now, out| replica.on_input(now, Input::Committed { slot, digest }, out));
        }
        self.after(node);
    }

    /// Batches that some correct replica has not executed.
    pub(crate) fn unexecuted(&self) -> usize {
        let of =
            |node: usize| if self.nodes[node].replica.is_some() { self.nodes[node].pool.len() } else { usize::MAX };
        (0..self.nodes.len()).filter(|node| self.is_correct(*node)).map(of).max().unwrap_or(0)
    }

    /// Lowest executed slot of all correct replicas.
    pub(crate) fn height(&self) -> Slot {
        let of = |node: &Node<P>| node.outcomes.last_key_value().map_or(0, |(slot, _)| *slot);
        (0..self.nodes.len()).filter(|node| self.is_correct(*node)).map(|node| of(&self.nodes[node])).min().unwrap_or(0)
    }

    /// Progress of each replica, for failures.
    pub(crate) fn describe(&self) -> String {
        let mut text =
            format!("at {} µs, traitors {:?}, silent {:?}\n", self.now, self.setup.traitors, self.setup.silent);
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(replica) = &node.replica else { continue };
            text += &format!(
                "{index}: view {} active {} stable {} decided {} executed {:?} pool {} room {}\n",
                replica.view(),
                replica.is_active(),
                replica.stable(),
                replica.decided(),
                node.outcomes.last_key_value().map(|(slot, _)| slot),
                node.pool.len(),
                replica.room()
            );
        }
        text
    }

    pub(crate) fn replica(&self, node: usize) -> Option<&P> {
        self.nodes[node].replica.as_ref()
    }

    pub(crate) fn random(&mut self, below: u64) -> u64 {
        self.rng.random_range(0..below)
    }
}
