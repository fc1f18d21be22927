//! A network of Autobahn replicas in virtual time, with faults drawn from a seed.
//!
//! Effects behind a record wait until it is durable; a power cut loses records that are not, and the effects behind them. The
//! ledger checks that no two correct replicas order different blocks, and that no correct replica signs two statements that
//! contradict each other, whether or not a crash lies between.

use crate::world::{is_genuine, sign, signatures};
use alloy_primitives::{Address, B256, Bytes, keccak256};
use phalanx_bft::{
    Base, Batch, Checked, Crypto, Index, Input, Message as _, Micros, Out, Protocol as _, Signed, Slot, To, Want,
    autobahn::{Autobahn, Complaint, Config, Mark, Msg, PrepVote, Prepare, Record, Timeout, Timer, convict},
    lanes::{Car, Header, cut_digest},
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Parameters of a world.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) seed: u64,
    pub(crate) delay: Micros,
    pub(crate) jitter: Micros,
    pub(crate) lost: u32,
    pub(crate) doubled: u32,
    pub(crate) persist: Micros,
    pub(crate) execute: Micros,
    pub(crate) silent: BTreeSet<usize>,
    pub(crate) traitors: BTreeSet<usize>,
}

impl Setup {
    pub(crate) const fn new(config: Config) -> Self {
        Self {
            config,
            seed: 0,
            delay: 1_000,
            jitter: 0,
            lost: 0,
            doubled: 0,
            persist: 0,
            execute: 0,
            silent: BTreeSet::new(),
            traitors: BTreeSet::new(),
        }
    }
}

#[derive(Debug)]
enum Event {
    Deliver { to: usize, from: usize, message: Msg },
    Timer { node: usize, epoch: u64, timer: Timer, number: u64 },
    Durable { node: usize, epoch: u64 },
    Executed { node: usize, epoch: u64, height: u64 },
    Request { node: usize, batch: Batch },
    Restart { node: usize },
}

#[derive(Default)]
struct Node {
    replica: Option<Autobahn>,
    epoch: u64,
    durable: Vec<Record>,
    writing: Option<Record>,
    outbox: VecDeque<Out<Autobahn>>,
    busy: bool,
    timers: BTreeMap<Timer, u64>,
    decided: BTreeMap<u64, Batch>,
    outcomes: BTreeMap<u64, (B256, Batch)>,
    executing: bool,
    pool: VecDeque<Batch>,
}

/// Checks that hold over all replicas and times.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) blocks: BTreeMap<u64, B256>,
    signed: BTreeMap<(usize, &'static str, u64, u64), B256>,
    /// Time of the first and last decision of each height, and of the first proposal.
    pub(crate) times: BTreeMap<u64, (Micros, Micros, usize)>,
    pub(crate) order_votes: usize,
    /// Highest certified car of each correct lane.
    pub(crate) certified: BTreeMap<usize, u64>,
    pub(crate) messages: BTreeMap<&'static str, usize>,
    pub(crate) top_view: u64,
    /// Replicas that each correct replica has evidence against.
    pub(crate) evidence: BTreeSet<(usize, usize)>,
    pub(crate) violation: Option<String>,
}

impl Ledger {
    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(what());
        }
    }
}

pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) now: Micros,
    queue: BTreeMap<(Micros, u64), Event>,
    next: u64,
    nodes: Vec<Node>,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) cut: BTreeSet<usize>,
    pub(crate) ledger: Ledger,
    pub(crate) trace: u64,
    pub(crate) calm: bool,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let n = setup.config.quorums.n();
        let rng = ChaCha8Rng::seed_from_u64(setup.seed);
        let mut world = Self {
            setup,
            now: 0,
            queue: BTreeMap::new(),
            next: 0,
            nodes: (0..n).map(|_| Node::default()).collect(),
            rng,
            cut: BTreeSet::new(),
            ledger: Ledger::default(),
            trace: 0,
            calm: false,
        };
        (0..n).for_each(|node| world.start(node));
        world
    }

    pub(crate) fn is_correct(&self, node: usize) -> bool {
        !self.setup.traitors.contains(&node) && !self.setup.silent.contains(&node)
    }

    pub(crate) fn replica(&self, node: usize) -> &Autobahn {
        self.nodes[node].replica.as_ref().expect("a running replica")
    }

    pub(crate) fn is_up(&self, node: usize) -> bool {
        self.nodes[node].replica.is_some()
    }

    fn push(&mut self, after: Micros, event: Event) {
        self.queue.insert((self.now + after, self.next), event);
        self.next += 1;
    }

    fn start(&mut self, node: usize) {
        let state = &self.nodes[node];
        let (slot, digest) = state.outcomes.last_key_value().map_or((0, B256::ZERO), |(at, (d, _))| (*at, *d));
        let (config, log) = (Arc::new(self.setup.config.clone()), state.durable.clone());
        let mut out = Vec::new();
        let replica = Autobahn::open(Index(node as u16), config, Base { slot, digest }, &log, &mut out);
        self.nodes[node].replica = Some(replica);
        self.effects(node, out);
        self.after(node);
    }

    /// Cuts the power: what is not durable is lost.
    pub(crate) fn crash(&mut self, node: usize, downtime: Micros) {
        let state = &mut self.nodes[node];
        if state.replica.take().is_none() {
            return;
        }
        state.epoch += 1;
        state.writing = None;
        state.outbox.clear();
        state.timers.clear();
        state.decided.clear();
        state.executing = false;
        self.push(downtime, Event::Restart { node });
    }

    /// A batch arrives at a replica.
    pub(crate) fn request(&mut self, after: Micros, node: usize, number: u64) {
        let batch = Batch::new(1, Address::ZERO, vec![Bytes::from(number.to_be_bytes().to_vec())]);
        self.push(after, Event::Request { node, batch });
    }

    /// Ends loss, cuts and jitter.
    pub(crate) fn heal(&mut self) {
        (self.setup.lost, self.setup.doubled, self.setup.jitter) = (0, 0, self.setup.jitter.min(self.setup.delay));
        self.cut.clear();
        self.calm = true;
    }

    pub(crate) fn run(&mut self, until: Micros) {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > until {
                break;
            }
            self.now = entry.key().0;
            let event = entry.remove();
            self.handle(event);
        }
        self.now = until;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Deliver { to, from, message } => {
                self.trace = self.trace.rotate_left(7) ^ message.label() ^ (to as u64) << 8 ^ from as u64;
                let bytes = alloy_rlp::encode(&message);
                let decoded: Msg =
                    alloy_rlp::Decodable::decode(&mut bytes.as_slice()).expect("encoded messages decode");
                assert_eq!(decoded, message);
                let domain = self.setup.config.domain;
                signatures::check(&decoded, domain);
                if let Some(checked) = Checked::new(decoded, domain, |claims| claims.iter().all(is_genuine)) {
                    let from = Index(from as u16);
                    self.call(to, |replica, now, out| replica.on_message(now, from, checked, out));
                }
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
                    self.nodes[node].durable.push(record);
                    self.effects(node, Vec::new());
                    self.after(node);
                }
            }
            Event::Executed { node, epoch, height } => {
                if self.nodes[node].epoch == epoch {
                    self.executed(node, height);
                }
            }
            Event::Request { node, batch } => {
                self.nodes[node].pool.push_back(batch);
                self.after(node);
            }
            Event::Restart { node } => self.start(node),
        }
    }

    /// Hands a message to a replica as if another one had sent it. Returns true if the replica wanted it.
    pub(crate) fn tell(&mut self, from: usize, to: usize, message: Msg) -> bool {
        let from = Index(from as u16);
        let wanted = self.replica(to).wants(from, &message);
        let domain = self.setup.config.domain;
        if let Some(checked) = Checked::new(message, domain, |claims| claims.iter().all(is_genuine)) {
            self.call(to, |replica, now, out| replica.on_message(now, from, checked, out));
        }
        wanted
    }

    pub(crate) fn call(&mut self, node: usize, act: impl FnOnce(&mut Autobahn, Micros, &mut Vec<Out<Autobahn>>)) {
        let (mut out, now) = (Vec::new(), self.now);
        if let Some(replica) = &mut self.nodes[node].replica {
            act(replica, now, &mut out);
        }
        self.effects(node, out);
        self.after(node);
    }

    fn effects(&mut self, node: usize, out: Vec<Out<Autobahn>>) {
        self.nodes[node].outbox.extend(out);
        if std::mem::replace(&mut self.nodes[node].busy, true) {
            return;
        }
        while self.nodes[node].writing.is_none()
            && let Some(effect) = self.nodes[node].outbox.pop_front()
        {
            match effect {
                Out::Persist(record) if self.setup.persist == 0 => {
                    self.nodes[node].durable.push(through_bytes(&record))
                }
                Out::Persist(record) => {
                    let record = through_bytes(&record);
                    self.nodes[node].writing = Some(record);
                    let epoch = self.nodes[node].epoch;
                    self.push(self.setup.persist, Event::Durable { node, epoch });
                }
                effect => self.effect(node, effect),
            }
        }
        self.nodes[node].busy = false;
    }

    fn effect(&mut self, node: usize, effect: Out<Autobahn>) {
        let correct = self.is_correct(node);
        match effect {
            Out::Persist(_) => unreachable!("records are split off before"),
            Out::Send(to, message) => self.send(node, to, message),
            Out::Timer(timer, after) => {
                let (number, epoch) = (self.next, self.nodes[node].epoch);
                self.nodes[node].timers.insert(timer, number);
                self.push(after, Event::Timer { node, epoch, timer, number });
            }
            Out::Cancel(timer) => drop(self.nodes[node].timers.remove(&timer)),
            Out::Work { crypto: Crypto::Share { .. } | Crypto::Combine { .. }, .. } => {
                unreachable!("no group signs")
            }
            Out::Work { job, crypto: Crypto::Sign(bytes) } => {
                let signature = sign(Index(node as u16), &bytes);
                self.call(node, |replica, now, out| replica.on_input(now, Input::Signed { job, signature }, out));
            }
            Out::Decided { slot: height, batch } => {
                let batch = batch.expect("cuts have no null filler");
                if correct {
                    let before = *self.ledger.blocks.entry(height).or_insert(batch.digest());
                    self.ledger.must(before == batch.digest(), || format!("height {height}: {node} has another block"));
                    let times = self.ledger.times.entry(height).or_insert((self.now, self.now, 0));
                    (times.1, times.2) = (self.now, times.2 + 1);
                }
                self.nodes[node].decided.insert(height, batch);
            }
            Out::Conflict { slot } => self.ledger.must(!correct, || format!("{node}: two decisions in slot {slot}")),
            Out::OrderVoted { .. } => self.ledger.order_votes += 1,
            Out::Want(Want::State { base, .. }) => self.install(node, base),
            Out::Returned(batch) => self.nodes[node].pool.push_front(batch),
            Out::Stable { .. } => self.compact(node),
            Out::Evidence { against, proof } if correct => {
                let domain = self.setup.config.domain;
                let convicted = convict(&proof, domain, |claims| claims.iter().all(is_genuine));
                let (against, liar) = (usize::from(against.0), !self.is_correct(usize::from(against.0)));
                self.ledger
                    .must(convicted == Some(Index(against as u16)), || format!("{node}: evidence proves nothing"));
                self.ledger.must(liar, || format!("{node} has evidence against {against}, which is correct"));
                self.ledger.evidence.insert((node, against));
            }
            Out::Evidence { .. } | Out::Proposed { .. } | Out::Certificate { .. } => {}
        }
    }

    /// Replaces the log by the journal of the present state, which includes the records that still wait, as a host does.
    pub(crate) fn compact(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        let Some(replica) = &state.replica else { return };
        state.durable = replica.journal().iter().map(through_bytes).collect();
        state.outbox.retain(|effect| !matches!(effect, Out::Persist(_)));
    }

    /// Records that a restart reads.
    pub(crate) fn log(&self, node: usize) -> &[Record] {
        &self.nodes[node].durable
    }

    /// State transfer: another replica that has executed as far hands over its outcomes.
    fn install(&mut self, node: usize, base: Base) {
        let holder = (0..self.nodes.len())
            .find(|at| *at != node && self.is_correct(*at) && self.nodes[*at].outcomes.contains_key(&base.slot));
        let Some(holder) = holder else { return };
        let outcomes: Vec<_> =
            self.nodes[holder].outcomes.range(..=base.slot).map(|(at, outcome)| (*at, outcome.clone())).collect();
        if self.is_correct(node) {
            let equal = outcomes.last().is_some_and(|(_, (digest, _))| *digest == base.digest);
            self.ledger.must(equal, || format!("a checkpoint names another state at height {}", base.slot));
        }
        self.nodes[node].outcomes.extend(outcomes);
        self.nodes[node].decided = self.nodes[node].decided.split_off(&(base.slot + 1));
        self.call(node, |replica, now, out| replica.on_input(now, Input::Installed(base), out));
    }

    fn send(&mut self, node: usize, to: To, message: Msg) {
        if self.setup.silent.contains(&node) {
            return;
        }
        *self.ledger.messages.entry(name(&message)).or_default() += match to {
            To::All => self.nodes.len() - 1,
            To::One(_) => 1,
        };
        if self.is_correct(node) {
            self.note_signed(node, &message);
        }
        let all: Vec<usize> = match to {
            To::All => (0..self.nodes.len()).filter(|to| *to != node).collect(),
            To::One(to) => vec![usize::from(to.0)],
        };
        for to in all {
            let messages = match self.setup.traitors.contains(&node) {
                true => self.betray(node, to, &message),
                false => vec![message.clone()],
            };
            messages.into_iter().for_each(|message| self.transmit(node, to, message));
        }
    }

    fn note_signed(&mut self, node: usize, message: &Msg) {
        let (kind, a, b, digest) = match message {
            Msg::Car(car) => ("car", car.header.body.position, 0, car.header.body.digest()),
            Msg::LaneVote(vote) => {
                ("lane vote", u64::from(vote.body.lane.0), vote.body.tip.position, vote.body.tip.digest)
            }
            Msg::Prepare(prepare) => {
                ("proposal", prepare.vote.body.slot, prepare.vote.body.view, prepare.vote.body.digest)
            }
            Msg::Vote(vote) => ("vote", vote.body.slot, vote.body.view, vote.body.digest),
            Msg::Ack(ack) => ("order vote", ack.body.slot, ack.body.view, ack.body.digest),
            Msg::Certificate(certificate) => {
                let known = self.ledger.certified.entry(usize::from(certificate.lane.0)).or_default();
                *known = certificate.tip.position.max(*known);
                return;
            }
            Msg::Timeout(complaint) => {
                self.ledger.top_view = self.ledger.top_view.max(complaint.timeout.body.view + 1);
                return;
            }
            _ => return,
        };
        let before = *self.ledger.signed.entry((node, kind, a, b)).or_insert(digest);
        self.ledger.must(before == digest, || format!("{node} signed two of {kind} {a}/{b}"));
    }

    fn transmit(&mut self, from: usize, to: usize, message: Msg) {
        let apart = self.cut.contains(&from) != self.cut.contains(&to);
        if apart || self.rng.random_ratio(self.setup.lost, 1000) {
            return;
        }
        let copies = 1 + usize::from(self.rng.random_ratio(self.setup.doubled, 1000));
        for _ in 0..copies {
            let jitter = if self.setup.jitter == 0 { 0 } else { self.rng.random_range(0..=self.setup.jitter) };
            self.push(self.setup.delay + jitter, Event::Deliver { to, from, message: message.clone() });
        }
    }

    pub(crate) fn signed<T: phalanx_bft::Statement + alloy_rlp::Decodable>(&self, node: usize, body: T) -> Signed<T> {
        let signer = Index(node as u16);
        Signed { signer, signature: sign(signer, &body.signed_bytes(self.setup.config.domain)), body }
    }

    /// Messages that a traitor sends instead: forks of its lane, other cuts, votes for anything, invented complaints, or nothing.
    fn betray(&mut self, me: usize, to: usize, message: &Msg) -> Vec<Msg> {
        let roll = self.rng.random_range(0..8);
        if self.calm && roll < 4 {
            return Vec::new();
        }
        match (message, roll) {
            (_, 0) => Vec::new(),
            (Msg::Car(car), 1..5) => {
                let batch = Batch::new(
                    1,
                    Address::ZERO,
                    vec![Bytes::from(vec![(to % 2) as u8, car.header.body.position as u8])],
                );
                let body = Header { batch: batch.digest(), ..car.header.body };
                let fork = Car { header: self.signed(me, body), batch, proof: car.proof.clone() };
                vec![Msg::Car(fork)]
            }
            (Msg::Prepare(prepare), 1..5) => {
                let mut cut = prepare.cut.clone();
                let at = self.rng.random_range(0..cut.len());
                match self.rng.random_range(0..3) {
                    0 => cut[at] = Default::default(),
                    1 => cut[at].position += 1,
                    _ => cut[at].digest = B256::repeat_byte(to as u8),
                }
                let body = PrepVote { digest: cut_digest(&cut), ..prepare.vote.body };
                vec![Msg::Prepare(Prepare { vote: self.signed(me, body), cut, ..prepare.clone() })]
            }
            (Msg::Vote(vote), 1..4) => {
                let body = PrepVote { digest: B256::repeat_byte(to as u8), ..vote.body };
                vec![Msg::Vote(self.signed(me, body)), message.clone()]
            }
            (Msg::Timeout(complaint), 1..5) => {
                let body = Timeout { qc: Mark::default(), prop: Mark::default(), ..complaint.timeout.body };
                let timeout = self.signed(me, body);
                vec![Msg::Timeout(Complaint { timeout, qc: Vec::new(), cut: Vec::new(), lead: Vec::new() })]
            }
            (Msg::Cars(_) | Msg::Cut(_) | Msg::Commit(_) | Msg::Certificate(_), 1..5) => Vec::new(),
            _ => vec![message.clone()],
        }
    }

    /// The host's part between events: fills the lane, executes.
    fn after(&mut self, node: usize) {
        let Some(replica) = &self.nodes[node].replica else { return };
        let waiting = !self.nodes[node].outbox.is_empty();
        self.ledger.top_view = self.ledger.top_view.max(replica.view_of(replica.done() + 1));
        if replica.room() > 0
            && !waiting
            && let Some(batch) = self.nodes[node].pool.pop_front()
        {
            return self.call(node, |replica, now, out| replica.on_input(now, Input::Batch(batch), out));
        }
        let state = &self.nodes[node];
        let next = state.outcomes.last_key_value().map_or(0, |(at, _)| *at) + 1;
        if !state.executing && state.decided.contains_key(&next) {
            self.nodes[node].executing = true;
            let epoch = self.nodes[node].epoch;
            self.push(self.setup.execute, Event::Executed { node, epoch, height: next });
        }
    }

    fn executed(&mut self, node: usize, height: u64) {
        let state = &mut self.nodes[node];
        state.executing = false;
        let last = state.outcomes.last_key_value().map_or((0, B256::ZERO), |(at, (digest, _))| (*at, *digest));
        if height == last.0 + 1
            && let Some(batch) = state.decided.remove(&height)
        {
            let digest = keccak256([last.1.as_slice(), batch.digest().as_slice()].concat());
            state.outcomes.insert(height, (digest, batch));
            self.call(node, |replica, now, out| {
                replica.on_input(now, Input::Committed { slot: height, digest }, out);
            });
        }
        self.after(node);
    }

    /// Transactions that a replica has executed.
    pub(crate) fn transactions(&self, node: usize) -> BTreeSet<Bytes> {
        self.nodes[node].outcomes.values().flat_map(|(_, batch)| batch.transactions().iter().cloned()).collect()
    }

    pub(crate) fn height(&self, node: usize) -> u64 {
        self.nodes[node].outcomes.last_key_value().map_or(0, |(at, _)| *at)
    }

    pub(crate) fn waiting(&self, node: usize) -> usize {
        self.nodes[node].pool.len()
    }

    /// Progress of each replica, for failures.
    pub(crate) fn describe(&self) -> String {
        let mut text =
            format!("at {} µs, traitors {:?}, silent {:?}\n", self.now, self.setup.traitors, self.setup.silent);
        for (node, state) in self.nodes.iter().enumerate() {
            let Some(replica) = &state.replica else { continue };
            let lanes: Vec<String> = (0..self.nodes.len() as u16)
                .map(|lane| {
                    let (lane, lanes) = (Index(lane), replica.lanes());
                    let place = |tip: phalanx_bft::lanes::Tip| tip.position;
                    format!(
                        "{}/{}/{}",
                        place(lanes.committed(lane)),
                        place(lanes.certified(lane)),
                        place(lanes.newest(lane))
                    )
                })
                .collect();
            let done: Slot = replica.done();
            text += &format!(
                "{node}: done {done} height {} executed {} view {} stable {} pool {} room {} lanes {lanes:?}\n",
                replica.height(),
                self.height(node),
                replica.view_of(done + 1),
                replica.stable().slot,
                state.pool.len(),
                replica.room(),
            );
        }
        text
    }
}

/// A record as a log gives it back.
fn through_bytes(record: &Record) -> Record {
    let bytes = alloy_rlp::encode(record);
    let decoded = alloy_rlp::Decodable::decode(&mut bytes.as_slice()).expect("encoded records decode");
    assert_eq!(*record, decoded);
    decoded
}

pub(crate) const fn name(message: &Msg) -> &'static str {
    match message {
        Msg::Car(_) => "car",
        Msg::LaneVote(_) => "lane vote",
        Msg::Certificate(_) => "certificate",
        Msg::Prepare(_) => "prepare",
        Msg::Vote(_) => "vote",
        Msg::Confirm(_) => "confirm",
        Msg::Ack(_) => "ack",
        Msg::Commit(_) => "commit",
        Msg::Timeout(_) => "timeout",
        Msg::Tc(_) => "tc",
        Msg::Sync(_) => "sync",
        Msg::Cars(_) => "cars",
        Msg::WantCut(_) => "want cut",
        Msg::Cut(_) => "cut",
        Msg::Status(_) => "status",
        Msg::Checkpoint(_) => "checkpoint",
        Msg::Stable(_) => "stable",
    }
}
