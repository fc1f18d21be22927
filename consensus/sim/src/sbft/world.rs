//! The events of a run: requests, messages, timers, combined signatures, executed blocks, answers.

use super::setting::{Outcome, Setting, Variant};
use crate::rng::{Rng, mix};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::Encodable as _;
use phalanx_bft::{
    Base, Batch, Checked, Crypto, Domain, Group, Index, Input, Message as _, Out, Protocol, Quorums, Slot, To,
    pbft::{self, Pbft},
    sbft::{self, FastWait, Paths, Replies, Sbft},
};
use phalanx_world::{Facts, Line, Queue, Timers, Verified};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Longest virtual time of a run, in ns.
const LONGEST: u64 = 3_600_000_000_000;

/// Longest time of a run without any answer, in µs.
const HOUR: u64 = 3_600_000_000;

/// Blocks in flight at most, and in the paper's rule for the length of a block.
const CONCURRENT: u64 = 4;

/// Longest block, in requests.
const MOST_REQUESTS: u64 = 1_024;

/// The primary of the whole run.
const PRIMARY: usize = 0;

enum Event<P: Protocol> {
    /// A client's request reaches the primary.
    Request(u32),
    /// The primary looks for requests to propose.
    Propose,
    Arrive(u16, Index, Arc<P::Msg>, u64),
    Timer(u16, P::Timer, u64),
    Input(u16, Input),
    /// A slot is executed at a replica.
    Executed(u16, Slot),
    /// Answers reach a client, and a client has checked enough of them.
    Answer(u32, u64),
    Done(u32, u64),
    /// A client without an answer loses patience.
    Patience(u32, u64),
}

struct Replica<P: Protocol> {
    protocol: P,
    processor: Line,
    /// Combination of shares runs beside the rest.
    cryptography: Line,
    execution: Line,
    egress: Line,
    timers: Timers<P::Timer>,
    decided: BTreeMap<Slot, Vec<u32>>,
    next: Slot,
}

#[derive(Clone, Copy, Default)]
struct Client {
    sent: u64,
    /// Number of the present request, and of those answered.
    number: u64,
    answers: usize,
    /// The next request that the primary has not executed.
    executed: u64,
}

struct World<P: Facts> {
    setting: Setting,
    quorums: Quorums,
    queue: Queue<Event<P>>,
    replicas: Vec<Replica<P>>,
    crashed: Vec<bool>,
    clients: Vec<Client>,
    /// Machines that clients share: two in each region.
    machines: Vec<Line>,
    waiting: VecDeque<u32>,
    /// Requests of executed slots, for answers with a certificate.
    executed: BTreeMap<Slot, Vec<u32>>,
    numbers: BTreeMap<Slot, Vec<u64>>,
    rng: Rng,
    messages: u64,
    proposed: u64,
    blocks: u64,
    fast: u64,
    ordered: u64,
    /// Latencies of measured requests, and the time of the first and last of them.
    latencies: Vec<u64>,
    began: u64,
    ended: u64,
    trace: u64,
}

/// Runs a setting.
///
/// # Errors
/// Names what is impossible about it.
pub fn run(setting: &Setting) -> Result<Outcome, &'static str> {
    setting.check()?;
    let quorums = Quorums::new(setting.n(), setting.f).map_err(|_| "n = 3f+2c+1 up to 256")?;
    match setting.variant {
        Variant::Alone => Ok(alone(setting)),
        Variant::Pbft => World::<Pbft>::new(*setting, pbft(quorums))?.run(),
        Variant::Linear | Variant::Fast | Variant::Sbft => World::<Sbft>::new(*setting, sbft(setting, quorums))?.run(),
    }
}

fn pbft(quorums: Quorums) -> pbft::Config {
    pbft::Config { timeout: HOUR, resend: HOUR, ..pbft::Config::new(quorums, Domain::default()) }
}

fn sbft(setting: &Setting, quorums: Quorums) -> sbft::Config {
    sbft::Config {
        timeout: HOUR,
        resend: HOUR,
        help: 1_000_000,
        stagger: 100_000,
        fast_wait: FastWait { least: 10_000, most: 500_000 },
        paths: if setting.variant == Variant::Linear { Paths::Linear } else { Paths::Dual },
        all_wait: Some(10_000),
        replies: if setting.variant == Variant::Sbft { Replies::Certificate } else { Replies::Each },
        ..sbft::Config::new(quorums, Domain::default())
    }
}

/// A single machine that executes the requests of its clients, one after the other.
fn alone(setting: &Setting) -> Outcome {
    let each = setting.workload.execute_ns as f64 / 1e6;
    let mean_ms = each * setting.clients as f64;
    Outcome {
        per_second: setting.workload.operations as f64 * 1e3 / each,
        median_ms: mean_ms,
        mean_ms,
        little: 1.0,
        messages: 0.0,
        fast: 0.0,
        block: 1.0,
        trace: 0,
    }
}

impl<P: Facts> World<P> {
    fn new(setting: Setting, config: P::Config) -> Result<Self, &'static str> {
        let (quorums, config) = (P::quorums(&config), Arc::new(config));
        P::check(&config).map_err(|_| "constants of the protocol out of range")?;
        let replica = |me| Replica {
            protocol: P::open(Index(me), Arc::clone(&config), Base::default(), &[], &mut Vec::new()),
            processor: Line::default(),
            cryptography: Line::default(),
            execution: Line::default(),
            egress: Line::default(),
            timers: Timers::new(),
            decided: BTreeMap::new(),
            next: 1,
        };
        let n = setting.n();
        // Crashed backups are spread over all regions.
        let mut crashed = vec![false; n];
        (0..setting.crashed).for_each(|at| crashed[1 + at * (n - 1) / setting.crashed] = true);
        let mut world = Self {
            setting,
            quorums,
            queue: Queue::new(),
            replicas: (0..n as u16).map(replica).collect(),
            crashed,
            clients: vec![Client::default(); setting.clients as usize],
            machines: vec![Line::default(); 2 * setting.topology.regions().len()],
            waiting: VecDeque::new(),
            executed: BTreeMap::new(),
            numbers: BTreeMap::new(),
            rng: Rng::new(setting.seed),
            messages: 0,
            proposed: 0,
            blocks: 0,
            fast: 0,
            ordered: 0,
            latencies: Vec::new(),
            began: 0,
            ended: 0,
            trace: 0,
        };
        for client in 0..setting.clients as u32 {
            // Clients begin one after the other.
            let at = u64::from(client) * 50_000_000 / setting.clients;
            world.clients[client as usize].sent = at;
            let way = at + world.delay(client as usize, PRIMARY);
            world.queue.after(way, Event::Request(client));
            world.queue.after(at + setting.costs.patience_ns, Event::Patience(client, 0));
        }
        Ok(world)
    }

    fn run(mut self) -> Result<Outcome, &'static str> {
        let all = self.setting.clients * (self.setting.requests + self.setting.requests.div_ceil(4));
        let mut answered = 0;
        while answered < all
            && let Some(event) = self.queue.next(LONGEST)
        {
            answered += u64::from(self.happen(event));
        }
        if answered < all {
            return Err("no progress: the protocol stands still");
        }
        self.latencies.sort_unstable();
        let count = self.latencies.len().max(1) as f64;
        let mean_ms = self.latencies.iter().sum::<u64>() as f64 / count / 1e6;
        let seconds = (self.ended - self.began).max(1) as f64 / 1e9;
        let requests = self.latencies.len() as f64 / seconds;
        Ok(Outcome {
            per_second: requests * self.setting.workload.operations as f64,
            median_ms: self.latencies.get(self.latencies.len() / 2).map_or(0.0, |ns| *ns as f64 / 1e6),
            mean_ms,
            little: self.setting.clients as f64 / (requests * mean_ms / 1e3),
            messages: self.messages as f64 / self.blocks.max(1) as f64,
            fast: self.fast as f64 / self.blocks.max(1) as f64,
            block: self.ordered as f64 / self.blocks.max(1) as f64,
            trace: self.trace,
        })
    }

    fn delay(&mut self, from: usize, to: usize) -> u64 {
        let delay = self.setting.topology.delay_ns(from, to);
        delay + delay * self.rng.below(self.setting.costs.jitter + 1) / 1_000
    }

    const fn note(&mut self, value: u64) {
        self.trace = mix(self.trace ^ value ^ self.queue.now().rotate_left(24));
    }

    /// Handles an event. Returns true if a request is answered.
    fn happen(&mut self, event: Event<P>) -> bool {
        let (now, costs) = (self.queue.now(), self.setting.costs);
        match event {
            Event::Request(client) => {
                self.waiting.push_back(client);
                // The primary checks the client's signature.
                let ready = self.replicas[PRIMARY].processor.serve(now, costs.message_ns + costs.rsa_ns.1);
                self.queue.after(ready - now, Event::Propose);
            }
            Event::Propose => self.propose(),
            Event::Arrive(to, from, message, bytes) => {
                self.note(message.label() ^ u64::from(to) << 40);
                self.messages += 1;
                let check = match P::verified(&message) {
                    Verified::Nothing => 0,
                    Verified::Vote => costs.vote_ns,
                    Verified::Statement => costs.rsa_ns.1,
                    Verified::Group => costs.pairing(costs.verify_ns),
                };
                let check = check + proposed::<P>(&message) * costs.rsa_ns.1;
                let transfer = bytes * 1_000_000_000 / costs.bandwidth;
                let cost = costs.message_ns + check + transfer;
                let Some(message) = Checked::new(P::Msg::clone(&message), Domain::default(), |_| true) else {
                    return false;
                };
                self.call(usize::from(to), cost, |protocol, now, out| protocol.on_message(now, from, message, out));
            }
            Event::Timer(node, timer, number) => {
                let node = usize::from(node);
                if self.replicas[node].timers.fires(timer, number) {
                    self.call(node, 0, |protocol, now, out| protocol.on_timer(now, timer, out));
                }
            }
            Event::Input(node, input) => {
                self.call(usize::from(node), 0, |protocol, now, out| protocol.on_input(now, input, out));
            }
            Event::Executed(node, slot) => self.on_executed(usize::from(node), slot),
            Event::Answer(client, number) => {
                let needed = if self.setting.variant == Variant::Sbft { 1 } else { self.quorums.one_correct() };
                let state = &mut self.clients[client as usize];
                let fresh = state.number == number && state.answers < needed;
                // An answer is signed like a vote; what comes too late is read and dropped.
                let cost = match self.setting.variant {
                    _ if !fresh => costs.message_ns,
                    Variant::Sbft => costs.message_ns + costs.pairing(costs.verify_ns),
                    _ => costs.vote_ns,
                };
                state.answers += usize::from(fresh);
                let done = fresh && state.answers == needed;
                let machines = self.machines.len();
                let checked = self.machines[client as usize % machines].serve(now, cost);
                if done {
                    self.queue.after(checked - now, Event::Done(client, number));
                }
            }
            Event::Done(client, number) => return self.done(client, number),
            Event::Patience(client, number) => self.lose_patience(client, number),
        }
        false
    }

    /// A client asks all replicas, whose answers take a round trip.
    fn lose_patience(&mut self, client: u32, number: u64) {
        let costs = self.setting.costs;
        let state = self.clients[client as usize];
        if state.number != number {
            return;
        }
        if state.executed <= number {
            self.queue.after(costs.patience_ns, Event::Patience(client, number));
            return;
        }
        let way = 2 * self.delay(client as usize, PRIMARY) + costs.rsa_ns.0;
        let checks = self.quorums.one_correct() as u64 * costs.vote_ns;
        self.queue.after(way + checks, Event::Done(client, number));
    }

    /// A client is answered, and sends its next request.
    fn done(&mut self, client: u32, number: u64) -> bool {
        let now = self.queue.now();
        let state = &mut self.clients[client as usize];
        if state.number != number {
            return false;
        }
        let sent = state.sent;
        *state = Client { sent: now, number: number + 1, answers: 0, ..*state };
        self.queue.after(self.setting.costs.patience_ns, Event::Patience(client, number + 1));
        let warm = self.setting.requests.div_ceil(4);
        if number >= warm {
            if self.latencies.is_empty() {
                self.began = sent;
            }
            self.latencies.push(now - sent);
            self.ended = now;
        }
        let way = self.delay(client as usize, PRIMARY);
        self.queue.after(way, Event::Request(client));
        true
    }

    fn may_propose(&self) -> bool {
        let in_flight = self.proposed - self.blocks;
        !self.waiting.is_empty() && in_flight < CONCURRENT && self.replicas[PRIMARY].protocol.room() > 0
    }

    /// Proposes waiting requests by the paper's rule, as far as the window goes.
    fn propose(&mut self) {
        while self.may_propose() {
            let length = self.waiting.len() as u64;
            let length = (length / (CONCURRENT / 2)).clamp(1, MOST_REQUESTS).min(length);
            let requests: Vec<u32> = self.waiting.drain(..length as usize).collect();
            let txs = requests.iter().map(|client| {
                let number = self.clients[*client as usize].number;
                Bytes::from([&client.to_be_bytes()[..], &number.to_be_bytes()].concat())
            });
            let batch = Batch::new(0, Address::ZERO, txs.collect());
            self.proposed += 1;
            self.call(PRIMARY, 0, |protocol, now, out| protocol.on_input(now, Input::Batch(batch), out));
        }
    }

    /// Lets a replica handle something that takes `cost`; its effects leave afterwards.
    fn call(&mut self, node: usize, cost: u64, act: impl FnOnce(&mut P, u64, &mut Vec<Out<P>>)) {
        if self.crashed[node] {
            return;
        }
        let now = self.queue.now();
        let mut out = Vec::new();
        act(&mut self.replicas[node].protocol, now / 1_000, &mut out);
        self.replicas[node].processor.serve(now, cost);
        self.perform(node, out);
        if node == PRIMARY && self.may_propose() {
            self.queue.after(0, Event::Propose);
        }
    }

    fn perform(&mut self, node: usize, out: Vec<Out<P>>) {
        let (now, costs) = (self.queue.now(), self.setting.costs);
        for effect in out {
            match effect {
                Out::Send(To::All, message) => {
                    let message = Arc::new(message);
                    for to in (0..self.replicas.len()).filter(|to| *to != node) {
                        self.send(node, to, &message);
                    }
                }
                Out::Send(To::One(to), message) => self.send(node, usize::from(to.0), &Arc::new(message)),
                Out::Work { job, crypto } => self.work(node, job, crypto),
                Out::Timer(timer, after) => {
                    let number = self.replicas[node].timers.set(timer);
                    self.queue.after(after * 1_000, Event::Timer(node as u16, timer, number));
                }
                Out::Cancel(timer) => self.replicas[node].timers.cancel(timer),
                Out::Persist(record) if node == PRIMARY => self.fast += u64::from(P::is_fast(&record)),
                Out::Decided { slot, batch } => {
                    let txs = batch.iter().flat_map(|batch| batch.transactions());
                    let requests: Vec<(u32, u64)> = txs.filter_map(|tx| parse(tx)).collect();
                    if node == PRIMARY {
                        self.blocks += 1;
                        self.ordered += requests.len() as u64;
                    }
                    let clients = requests.iter().map(|(client, _)| *client).collect();
                    self.numbers.entry(slot).or_insert_with(|| requests.iter().map(|(_, number)| *number).collect());
                    self.replicas[node].decided.insert(slot, clients);
                    self.execute(node);
                }
                Out::Certificate { slot, answers: true, .. } => {
                    let clients = self.executed.get(&slot).cloned().unwrap_or_default();
                    let cost = clients.len() as u64 * (costs.prove_ns + costs.message_ns);
                    let proved = self.replicas[node].processor.serve(now, cost);
                    self.answer(node, slot, &clients, proved);
                }
                _ => {}
            }
        }
    }

    fn work(&mut self, node: usize, job: u64, crypto: Crypto) {
        let (now, costs) = (self.queue.now(), self.setting.costs);
        let signature = Bytes::from_static(&[0; 48]);
        let replica = &mut self.replicas[node];
        let (done, input) = match crypto {
            Crypto::Sign(_) => (replica.processor.serve(now, costs.rsa_ns.0), Input::Signed { job, signature }),
            Crypto::Share { .. } => {
                let cost = costs.pairing(costs.share_ns);
                (replica.processor.serve(now, cost), Input::Signed { job, signature })
            }
            Crypto::Combine { group, shares, .. } => {
                let ready = replica.processor.serve(now, 0);
                // The sum of all needs no interpolation.
                let each = if group == Group::All { costs.sum_ns } else { costs.combine_ns };
                let cost = costs.pairing(shares.len() as u64 * each + costs.verify_ns);
                (replica.cryptography.serve(ready, cost), Input::Combined { job, result: Ok(signature) })
            }
        };
        self.queue.after(done - now, Event::Input(node as u16, input));
    }

    fn send(&mut self, from: usize, to: usize, message: &Arc<P::Msg>) {
        if self.crashed[from] {
            return;
        }
        let (now, costs) = (self.queue.now(), self.setting.costs);
        let bytes = message.length() as u64 + proposed::<P>(message) * self.setting.workload.bytes;
        let sender = &mut self.replicas[from];
        let handed = sender.processor.serve(now, costs.message_ns / 10);
        let left = sender.egress.serve(handed, bytes * 1_000_000_000 / costs.bandwidth);
        let way = self.delay(from, to);
        if !self.crashed[to] {
            let arrive = Event::Arrive(to as u16, Index(from as u16), Arc::clone(message), bytes);
            self.queue.after(left + way - now, arrive);
        }
    }

    /// Executes decided slots in order.
    fn execute(&mut self, node: usize) {
        let now = self.queue.now();
        let each = self.setting.workload.execute_ns;
        let replica = &mut self.replicas[node];
        while let Some(clients) = replica.decided.remove(&replica.next) {
            let slot = replica.next;
            replica.next += 1;
            let ready = replica.processor.serve(now, 0);
            let done = replica.execution.serve(ready, clients.len() as u64 * each);
            self.executed.insert(slot, clients);
            self.queue.after(done - now, Event::Executed(node as u16, slot));
        }
    }

    fn on_executed(&mut self, node: usize, slot: Slot) {
        if node == PRIMARY {
            let numbers = self.numbers.get(&slot).into_iter().flatten();
            for (client, number) in self.executed.get(&slot).into_iter().flatten().zip(numbers) {
                self.clients[*client as usize].executed = number + 1;
            }
        }
        let digest = B256::from(U256::from(slot));
        self.call(node, 0, |protocol, now, out| protocol.on_input(now, Input::Committed { slot, digest }, out));
        if self.setting.variant != Variant::Sbft && !self.crashed[node] {
            // Each replica signs an answer to each client.
            let clients = self.executed.get(&slot).cloned().unwrap_or_default();
            let costs = self.setting.costs;
            let cost = clients.len() as u64 * (costs.rsa_ns.0 + costs.message_ns);
            let signed = self.replicas[node].processor.serve(self.queue.now(), cost);
            self.answer(node, slot, &clients, signed);
        }
    }

    fn answer(&mut self, node: usize, slot: Slot, clients: &[u32], at: u64) {
        let now = self.queue.now();
        let numbers = self.numbers.get(&slot).cloned().unwrap_or_default();
        for (client, number) in clients.iter().zip(numbers) {
            let way = self.delay(node, *client as usize);
            self.queue.after(at - now + way, Event::Answer(*client, number));
        }
    }
}

/// Requests in a proposal.
fn proposed<P: Facts>(message: &P::Msg) -> u64 {
    let requests = message.batches().into_iter().map(|batch| batch.transactions().len() as u64).sum();
    if P::leads(message) { requests } else { 0 }
}

/// Client and number of a request.
fn parse(tx: &[u8]) -> Option<(u32, u64)> {
    let (client, number) = tx.split_at_checked(4)?;
    Some((u32::from_be_bytes(client.try_into().ok()?), u64::from_be_bytes(number.try_into().ok()?)))
}
