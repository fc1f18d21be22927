//! A cluster in virtual time: every node is a [`Node`] of a model engine and a host; log and disk lose what is not synced.

mod members;

use crate::{pins::note, watched::Watched};
use alloy_primitives::{B256, Bytes};
use members::LOOK;
use phalanx_adapter::Node;
use phalanx_bft::{Domain, Index, Micros, Protocol, Quorums, To, pbft::Pbft};
use phalanx_engine_api::{ExecutionEngine as _, Limits};
use phalanx_host::{Action, Anchor, Boundary, Certified, Content, Frame, Host, HostConfig, HostRecord, HostTimer};
use phalanx_keys::Simulated;
use phalanx_sim::model::{Costs, Disk, ModelEngine, Work, model_tx};
use phalanx_world::{Facts, Links, Pace, Queue, Timers, kind};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Domain of every world that has no other.
pub(crate) const DOMAIN: Domain = Domain { chain: 7, epoch: 0, instance: B256::repeat_byte(3) };

/// Bytes that no transaction begins with.
pub(crate) const JUNK: &[u8] = b"junk";

/// Nodes of PBFT.
pub(crate) type Cluster = Net<Pbft>;

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) n: usize,
    pub(crate) domain: Domain,
    pub(crate) delay: Micros,
    pub(crate) jitter: Micros,
    /// Messages lost, in per mille.
    pub(crate) lost: u32,
    pub(crate) persist: Micros,
    pub(crate) costs: Costs,
    pub(crate) interval: u64,
    pub(crate) timeout: Micros,
    pub(crate) batch_txs: usize,
    pub(crate) seed: u64,
    pub(crate) retention: u64,
    pub(crate) resend: Micros,
    /// Slower engines of single nodes.
    pub(crate) slow: BTreeMap<usize, Costs>,
    /// Byzantine: does nothing by itself; the test injects its frames.
    pub(crate) silent: BTreeSet<usize>,
    /// Byzantine: order whatever they get. The others order no transaction that begins with [`JUNK`].
    pub(crate) greedy: BTreeSet<usize>,
    /// True if logs are compacted at every stable checkpoint.
    pub(crate) compacts: bool,
    /// Members of the epochs after the first one, by index; those of the first are the first `n` nodes.
    pub(crate) epochs: Vec<Vec<usize>>,
}

impl Setup {
    pub(crate) fn new(n: usize) -> Self {
        Self {
            n,
            domain: DOMAIN,
            delay: 1_000,
            jitter: 0,
            lost: 0,
            persist: 0,
            costs: Costs::default(),
            interval: 128,
            timeout: 100_000,
            batch_txs: 1,
            seed: 1,
            retention: 1_024,
            resend: 20_000,
            slow: BTreeMap::new(),
            silent: BTreeSet::new(),
            greedy: BTreeSet::new(),
            compacts: false,
            epochs: Vec::new(),
        }
    }
}

#[derive(Debug)]
enum Event<P: Protocol> {
    Deliver(usize, (usize, u64), Box<Frame<P::Msg>>),
    /// A node without the proof of the next epoch looks for it at another.
    Look(usize),
    Timer(usize, HostTimer<P::Timer>, u64),
    Pipeline(usize, u64),
    Durable(usize, u64, u64),
    Work(usize, u64, Work),
    Submit(Bytes),
    Restart(usize),
}

struct Machine<P: Facts> {
    node: Option<Node<ModelEngine, Host<Watched<P>>>>,
    /// Number of starts.
    epoch: u64,
    /// Epoch of the members that the log is of, and the blocks that epochs begin above, durably.
    at: u64,
    kept: BTreeMap<u64, Boundary>,
    disk: Disk,
    log: Vec<HostRecord<P::Record>>,
    unsynced: BTreeMap<u64, HostRecord<P::Record>>,
    /// The log begins with records that include appends up to this number.
    compacted: u64,
    /// Durable records of the protocol since the start.
    recorded: u64,
    /// Blocks up to this slot are durably decided, and results up to this one durably named.
    decided: u64,
    named: BTreeSet<u64>,
    timers: Timers<HostTimer<P::Timer>>,
    pipeline_due: Option<Micros>,
}

impl<P: Facts> Machine<P> {
    /// Notes a record that is durable.
    fn note(&mut self, record: &HostRecord<P::Record>) {
        match record {
            HostRecord::Protocol(_) => self.recorded += 1,
            HostRecord::Block(slot, _) => self.decided = self.decided.max(*slot),
            HostRecord::Outcome(slot, _) => drop(self.named.insert(*slot)),
            HostRecord::Base(tip) => self.decided = self.decided.max(tip.slot),
            HostRecord::Silent(_) | HostRecord::Epoch(_) => {}
        }
    }
}

/// Log and disk of a node.
pub(crate) struct Folder<P: Protocol> {
    log: Vec<HostRecord<P::Record>>,
    disk: Disk,
}

impl<P: Protocol> Default for Folder<P> {
    fn default() -> Self {
        Self { log: Vec::new(), disk: Disk::default() }
    }
}

/// Message that is held back: sender with its epoch, receiver, frame.
type Held<P> = ((usize, u64), usize, Frame<<P as Protocol>::Msg>);

pub(crate) struct Net<P: Facts> {
    pub(crate) setup: Setup,
    links: Links,
    queue: Queue<Event<P>>,
    machines: Vec<Machine<P>>,
    rng: ChaCha8Rng,
    /// Frames between the sides of a cut that holds them, with senders and receivers; `None` if they are lost.
    held: Option<Vec<Held<P>>>,
    /// Hash over all actions: equal seeds, equal traces.
    pub(crate) trace: u64,
    /// Highest slot in each epoch that a state vote was sent for.
    pub(crate) state_voted: BTreeMap<u64, u64>,
    /// Outcome of each committed height, and the time at which each node committed it first.
    pub(crate) committed: BTreeMap<u64, B256>,
    pub(crate) times: BTreeMap<(usize, u64), Micros>,
    pub(crate) halted: BTreeSet<usize>,
    diverging: Option<(usize, u64)>,
    /// Nodes that named a forger, and the forger.
    pub(crate) forgers: BTreeSet<(usize, usize)>,
    /// Nodes that lack what no other one retains, with their last height.
    pub(crate) behind: BTreeMap<usize, u64>,
    /// Nodes that evidence is out against.
    pub(crate) accused: BTreeSet<usize>,
    /// Frames delivered, by kind.
    pub(crate) delivered: BTreeMap<&'static str, u64>,
    /// Answers of the test for a silent node: called with (silent node, sender, frame).
    pub(crate) liar: Option<Liar<P>>,
    /// Called with each message that comes in, and its receiver before.
    pub(crate) inspector: Option<Inspector<P>>,
    /// What each node has voted for, over all its starts.
    voted: BTreeMap<(usize, u8, u64, u64), B256>,
}

pub(crate) type Inspector<P> = Box<dyn FnMut(&P, Index, &<P as Protocol>::Msg)>;

pub(crate) type Liar<P> =
    Box<dyn FnMut(usize, usize, &Frame<<P as Protocol>::Msg>) -> Vec<(usize, Frame<<P as Protocol>::Msg>)>>;

impl<P: Facts> Net<P> {
    pub(crate) fn new(setup: Setup) -> Self {
        let machine = || Machine {
            node: None,
            epoch: 0,
            at: 0,
            kept: BTreeMap::new(),
            disk: Disk::default(),
            log: Vec::new(),
            unsynced: BTreeMap::new(),
            compacted: 0,
            recorded: 0,
            decided: 0,
            named: BTreeSet::new(),
            timers: Timers::new(),
            pipeline_due: None,
        };
        let mut cluster = Self {
            links: Links { jitter: setup.jitter, lost: setup.lost, ..Links::after(setup.delay) },
            queue: Queue::new(),
            machines: (0..setup.epochs.iter().flatten().map(|node| node + 1).fold(setup.n, usize::max))
                .map(|_| machine())
                .collect(),
            rng: ChaCha8Rng::seed_from_u64(setup.seed),
            held: None,
            trace: 0,
            state_voted: BTreeMap::new(),
            committed: BTreeMap::new(),
            times: BTreeMap::new(),
            halted: BTreeSet::new(),
            diverging: None,
            forgers: BTreeSet::new(),
            behind: BTreeMap::new(),
            accused: BTreeSet::new(),
            delivered: BTreeMap::new(),
            liar: None,
            inspector: None,
            voted: BTreeMap::new(),
            setup,
        };
        (0..cluster.setup.n).for_each(|node| cluster.start(node));
        if !cluster.setup.epochs.is_empty() {
            (0..cluster.machines.len()).for_each(|node| cluster.queue.after(LOOK, Event::Look(node)));
        }
        cluster
    }

    /// Separates a group from all others, or joins all if it is empty. Frames between the sides are held or lost.
    pub(crate) fn separate(&mut self, group: BTreeSet<usize>, holds: bool) {
        self.links.cut = group;
        let held = core::mem::replace(&mut self.held, holds.then(Vec::new));
        for (sender, to, frame) in held.into_iter().flatten() {
            self.transmit(sender, to, frame);
        }
    }

    /// Sends a frame of a node in an epoch over one link.
    fn transmit(&mut self, sender: (usize, u64), to: usize, frame: Frame<P::Msg>) {
        if let Some(held) = self.held.as_mut().filter(|_| !self.links.connected(sender.0, to)) {
            held.push((sender, to, frame));
            return;
        }
        for delay in self.links.copies(sender.0, to, &mut self.rng) {
            self.queue.after(delay, Event::Deliver(to, sender, Box::new(frame.clone())));
        }
    }

    pub(crate) const fn now(&self) -> Micros {
        self.queue.now()
    }

    /// Constants of a node's host.
    pub(crate) fn config(&self, node: usize) -> HostConfig {
        let epoch = self.machines[node].at;
        let n = self.setup.members(epoch).len();
        let quorums = Quorums::new(n, (n - 1) / 3).expect("a legal size");
        HostConfig {
            batch_txs: self.setup.batch_txs,
            batch_delay: 500,
            resend: self.setup.resend,
            retention: self.setup.retention,
            start: self.machines[node].epoch,
            content: if self.setup.greedy.contains(&node) {
                Content::default()
            } else {
                Content::new(|tx| !tx.starts_with(JUNK))
            },
            ..HostConfig::new(quorums, Domain { epoch: self.setup.domain.epoch + epoch, ..self.setup.domain })
        }
    }

    /// Number of nodes, members or not.
    pub(crate) const fn machines(&self) -> usize {
        self.machines.len()
    }

    pub(crate) fn is_up(&self, node: usize) -> bool {
        self.machines[node].node.is_some()
    }

    fn start(&mut self, node: usize) {
        let Some(me) = self.pass(node) else { return };
        let config = self.config(node);
        let (quorums, domain) = (config.quorums, config.domain);
        let Setup { interval, timeout, resend, .. } = self.setup;
        let protocol = P::config(quorums, domain, Pace { interval, timeout, resend });
        self.machines[node].recorded = 0;
        let scheme = Simulated::new(me, 64);
        let log = self.machines[node].log.clone();
        let host = Host::new(me, config, Arc::new(protocol), Arc::new(scheme), log).expect("legal constants");
        let disk = core::mem::take(&mut self.machines[node].disk);
        let costs = self.setup.slow.get(&node).copied().unwrap_or(self.setup.costs);
        let engine = Arc::new(ModelEngine::open(7, Limits { depth: 64, ..Limits::default() }, costs, disk));
        if let Some((_, height)) = self.diverging.filter(|(of, _)| *of == node) {
            engine.diverge_at(height);
        }
        let (opened, _) = Node::open(engine, host, self.now()).unwrap_or_else(|cause| panic!("node {node}: {cause}"));
        self.machines[node].node = Some(opened);
        self.settle(node);
    }

    /// Cuts the power: unsynced records and a random part of the unsynced disk are lost.
    pub(crate) fn crash(&mut self, node: usize, downtime: Micros) {
        let Some(dead) = self.machines[node].node.take() else { return };
        let mut disk = dead.engine().unplug();
        let lost = self.rng.random_range(0..=disk.unsynced());
        disk.power_cut(lost, self.rng.random());
        let machine = &mut self.machines[node];
        machine.disk = disk;
        machine.epoch += 1;
        machine.unsynced.clear();
        machine.compacted = 0;
        machine.timers.clear();
        machine.pipeline_due = None;
        self.queue.after(downtime, Event::Restart(node));
    }

    /// Ends a node with all that it has; it begins anew as one that has lost its log.
    pub(crate) fn wipe(&mut self, node: usize, downtime: Micros) {
        self.crash(node, downtime);
        self.set_back(node, Folder::default());
    }

    /// Log and disk of a node as they are durable now.
    pub(crate) fn copy(&self, node: usize) -> Folder<P> {
        let machine = &self.machines[node];
        let disk = machine.node.as_ref().map_or_else(|| machine.disk.clone(), |live| live.engine().unplug());
        Folder { log: machine.log.clone(), disk }
    }

    /// Gives a node that is down another folder; it begins as one whose log may lack what it has said.
    pub(crate) fn set_back(&mut self, node: usize, folder: Folder<P>) {
        let machine = &mut self.machines[node];
        (machine.log, machine.disk) = (folder.log, folder.disk);
        (machine.decided, machine.named) = (0, BTreeSet::new());
        // A car that was under way when a log was lost is known to no other node: the lane may have two at a place.
        self.voted.retain(|(of, kind, ..), _| *of != node || *kind < kind::CAR);
        let machine = &mut self.machines[node];
        let log = core::mem::take(&mut machine.log);
        log.iter().for_each(|record| machine.note(record));
        machine.log = log;
        machine.log.push(HostRecord::Silent(true));
    }

    /// The state of a running node, as durable as it is, and its newest block with the certificate; `None` without votes for it.
    pub(crate) fn snapshot(&self, node: usize) -> Option<(Certified, Disk)> {
        let live = self.machines[node].node.as_ref()?;
        let disk = live.engine().unplug();
        let stored = ModelEngine::open(7, Limits::default(), Costs::default(), disk.clone());
        let tip = stored.status().committed;
        let block = live.peek().certified(tip.height, &tip.meta.state_certificate?)?;
        Some((block, disk))
    }

    /// Gives a node that is down the state and the log of one that has joined by a snapshot.
    pub(crate) fn join(&mut self, node: usize, anchor: &Anchor, disk: Disk) {
        self.set_back(node, Folder { log: HostRecord::joined(None, anchor, false), disk });
        self.behind.remove(&node);
    }

    /// True for a node that is up and votes.
    pub(crate) fn speaks(&self, node: usize) -> bool {
        self.machines[node].node.as_ref().is_some_and(|live| !live.peek().is_silent())
    }

    pub(crate) fn diverge(&mut self, node: usize, height: u64) {
        self.diverging = Some((node, height));
        if let Some(node) = &self.machines[node].node {
            node.engine().diverge_at(height);
        }
    }

    pub(crate) fn submit(&mut self, after: Micros, number: u64) {
        self.queue.after(after, Event::Submit(model_tx(1, &number.to_be_bytes())));
    }

    pub(crate) fn inject(&mut self, to: usize, from: usize, frame: Frame<P::Msg>, after: Micros) {
        let sender = (from, self.machines[to].at);
        self.queue.after(after, Event::Deliver(to, sender, Box::new(frame)));
    }

    pub(crate) fn run(&mut self, until: Micros) {
        while let Some(event) = self.queue.next(until) {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event<P>) {
        let now = self.now();
        match event {
            // Members of one epoch have no connection with those of another.
            Event::Deliver(to, (_, epoch), _) if self.machines[to].at != epoch => {}
            Event::Deliver(to, (sender, epoch), frame) => {
                let Some(from) = self.setup.index(epoch, sender) else { return };
                let bytes = alloy_rlp::encode(&*frame);
                let decoded: Frame<P::Msg> =
                    alloy_rlp::Decodable::decode(&mut bytes.as_slice()).expect("frames decode");
                assert_eq!(decoded, *frame);
                let kind = match &*frame {
                    Frame::Protocol(_) => "protocol",
                    Frame::StateVote(_) => "vote",
                    Frame::Certificate(_) => "certificate",
                    Frame::WantBlocks(_) => "want",
                    Frame::Blocks(_) => "blocks",
                    Frame::Request(_) => "request",
                    Frame::WantReach(_) | Frame::Reached(_) => "reach",
                    Frame::Pruned(_) => "pruned",
                };
                *self.delivered.entry(kind).or_default() += 1;
                if self.setup.silent.contains(&to) {
                    if let Some(mut liar) = self.liar.take() {
                        for (victim, lie) in liar(to, usize::from(from.0), &frame) {
                            self.inject(victim, to, lie, self.setup.delay);
                        }
                        self.liar = Some(liar);
                    }
                    return;
                }
                if let (Some(inspector), Frame::Protocol(message)) = (&mut self.inspector, &decoded)
                    && let Some(receiver) = self.machines[to].node.as_ref().and_then(|live| live.peek().protocol())
                {
                    inspector(receiver.inner(), from, message);
                }
                self.call(to, |host| host.on_frame(now, from, decoded));
            }
            Event::Timer(node, timer, number) => {
                if self.machines[node].timers.fires(timer, number) {
                    self.call(node, |host| host.on_timer(now, timer));
                }
            }
            Event::Pipeline(node, epoch) => {
                if self.machines[node].epoch == epoch {
                    self.settle(node);
                }
            }
            Event::Durable(node, epoch, number) => {
                if self.machines[node].epoch == epoch {
                    self.synced(node, number);
                    self.call(node, |host| host.durable(now, number));
                }
            }
            Event::Work(node, epoch, work) => {
                if self.machines[node].epoch == epoch
                    && let Some(live) = &self.machines[node].node
                {
                    live.engine().finish(&work);
                    self.settle(node);
                }
            }
            Event::Submit(tx) => {
                // A client that waits long sends to all.
                for node in 0..self.machines.len() {
                    self.call(node, |host| host.submit(now, tx.clone()));
                }
            }
            Event::Restart(node) if self.machines[node].node.is_some() => {}
            Event::Restart(node) => self.start(node),
            Event::Look(node) => self.look(node),
        }
    }

    fn synced(&mut self, node: usize, number: u64) {
        let machine = &mut self.machines[node];
        let later = machine.unsynced.split_off(&(number + 1));
        let durable = core::mem::replace(&mut machine.unsynced, later).into_values();
        for record in durable {
            machine.note(&record);
            machine.log.push(record);
        }
    }

    fn call(&mut self, node: usize, act: impl FnOnce(&mut Host<Watched<P>>)) {
        if let Some(live) = &mut self.machines[node].node {
            act(live.consensus());
            self.settle(node);
        }
    }

    /// Lets a node work until nothing is left to do now.
    fn settle(&mut self, node: usize) {
        let now = self.now();
        loop {
            let machine = &mut self.machines[node];
            let Some(live) = &mut machine.node else { return };
            let mut active = match live.poll(now) {
                Ok(active) => active,
                Err(_) => {
                    self.halted.insert(node);
                    self.machines[node].node = None;
                    return;
                }
            };
            // A state never gets ahead of the log that decides and names it.
            let height = live.engine().status().committed.height;
            assert!(height <= machine.decided, "node {node} commits {height}, its log decides {}", machine.decided);
            assert!(height == 0 || machine.named.contains(&height), "node {node} commits {height} without its result");
            let (actions, works) = (live.consensus().take_actions(), live.engine().start());
            let due = live.due();
            active |= !actions.is_empty() || !works.is_empty();
            for work in works {
                let epoch = self.machines[node].epoch;
                self.queue.after(work.cost_us, Event::Work(node, epoch, work));
            }
            for action in actions {
                self.act(node, action);
                if self.machines[node].node.is_none() {
                    return;
                }
            }
            if due != self.machines[node].pipeline_due {
                self.machines[node].pipeline_due = due;
                let epoch = self.machines[node].epoch;
                if let Some(at) = due {
                    self.queue.after(at.saturating_sub(now), Event::Pipeline(node, epoch));
                }
            }
            if !active {
                return;
            }
        }
    }

    fn act(&mut self, node: usize, action: Action<Watched<P>>) {
        let (now, epoch) = (self.now(), self.machines[node].epoch);
        self.trace = note(self.trace, node, &action);
        match action {
            // It was written with the compacted log.
            Action::Append(number, record) if number <= self.machines[node].compacted => {
                self.machines[node].note(&record);
            }
            Action::Append(number, record) => {
                self.machines[node].unsynced.insert(number, record);
                if self.setup.persist == 0 {
                    self.synced(node, number);
                    if let Some(live) = &mut self.machines[node].node {
                        live.consensus().durable(now, number);
                    }
                } else {
                    self.queue.after(self.setup.persist, Event::Durable(node, epoch, number));
                }
            }
            Action::Send(_, Frame::Protocol(message)) if !self.leaves_in_time(node, &message) => {
                panic!("node {node} sends a message before its records are durable");
            }
            Action::Send(..) if self.setup.silent.contains(&node) => {}
            Action::Send(to, frame) => {
                self.note_vote(node, &frame);
                let mut all = self.setup.members(self.machines[node].at);
                match to {
                    To::All => all.retain(|to| *to != node),
                    To::One(to) => all = vec![all[usize::from(to.0)]],
                }
                let sender = (node, self.machines[node].at);
                all.into_iter().for_each(|to| self.transmit(sender, to, frame.clone()));
            }
            Action::Timer(timer, after) => {
                let number = self.machines[node].timers.set(timer);
                self.queue.after(after, Event::Timer(node, timer, number));
            }
            Action::Cancel(timer) => self.machines[node].timers.cancel(timer),
            Action::Committed(meta, outcome) => {
                let digest = outcome.digest();
                let before = *self.committed.entry(meta.height).or_insert(digest);
                let liar = self.diverging.is_some_and(|(of, height)| of == node && meta.height >= height);
                assert!(liar || before == digest, "node {node} commits another block at height {}", meta.height);
                self.times.entry((node, meta.height)).or_insert(now);
            }
            Action::Halted(_) => drop(self.halted.insert(node)),
            Action::Stable(_) if self.setup.compacts => self.compact(node),
            Action::Forged(peer) => {
                let peer_index = usize::from(peer.0);
                let lies = self.setup.silent.contains(&peer_index) || self.setup.greedy.contains(&peer_index);
                assert!(lies, "node {node} takes {peer}, which is correct, for a forger");
                self.forgers.insert((node, peer_index));
            }
            Action::Behind(height) => drop(self.behind.insert(node, height)),
            Action::Evidence(against, _) => drop(self.accused.insert(usize::from(against.0))),
            Action::Ended(boundary) => self.keep(node, *boundary),
            Action::Stable(_) | Action::Certified { .. } => {}
        }
    }

    /// Takes the next message of the protocol off its list. Returns true if the records before it are durable.
    fn leaves_in_time(&self, node: usize, message: &P::Msg) -> bool {
        let machine = &self.machines[node];
        let protocol = machine.node.as_ref().and_then(|live| live.peek().protocol());
        protocol.is_none_or(|protocol| protocol.next_to_leave(message) <= machine.recorded)
    }

    /// Notes the vote in a frame. A correct node votes once in a view of a slot, whatever power cuts come between.
    fn note_vote(&mut self, node: usize, frame: &Frame<P::Msg>) {
        if let Frame::StateVote(vote) = frame {
            let highest = self.state_voted.entry(self.machines[node].at).or_default();
            *highest = vote.body.slot.max(*highest);
        }
        let Frame::Protocol(message) = frame else { return };
        if let Some((kind, view, slot, digest)) = P::vote(message) {
            let slot = self.machines[node].at << 48 | slot;
            let first = *self.voted.entry((node, kind, view, slot)).or_insert(digest);
            assert_eq!(first, digest, "node {node} votes twice, kind {kind} in view {view} of slot {slot}");
        }
    }

    /// Writes the log anew, at once and durably.
    fn compact(&mut self, node: usize) {
        let now = self.now();
        let machine = &mut self.machines[node];
        let Some(live) = &mut machine.node else { return };
        let (number, records) = live.consensus().compacted().expect("open");
        (machine.log, machine.compacted) = (records, number);
        let later = machine.unsynced.split_off(&(number + 1));
        let written = core::mem::replace(&mut machine.unsynced, later);
        live.consensus().durable(now, number);
        written.into_values().for_each(|record| machine.note(&record));
    }

    /// Number of records in a node's log.
    pub(crate) fn records(&self, node: usize) -> usize {
        self.machines[node].log.len()
    }

    /// A node's host.
    pub(crate) fn host(&mut self, node: usize) -> &mut Host<Watched<P>> {
        self.machines[node].node.as_mut().expect("up").consensus()
    }

    /// Committed heights that a node keeps and cannot name the result of.
    pub(crate) fn unnamed(&mut self, node: usize) -> Vec<u64> {
        let height = self.height(node);
        let host = self.host(node);
        (host.base().slot + 1..=height).filter(|height| host.retained(*height).is_none()).collect()
    }

    /// A client's transaction reaches one node.
    pub(crate) fn submit_to(&mut self, node: usize, number: u64) {
        self.submit_tx(node, model_tx(1, &number.to_be_bytes()));
    }

    /// Bytes of a client reach one node.
    pub(crate) fn submit_tx(&mut self, node: usize, tx: Bytes) {
        let now = self.now();
        self.call(node, |host| host.submit(now, tx));
    }

    /// Committed height of a node's engine; zero while it is down.
    pub(crate) fn height(&self, node: usize) -> u64 {
        self.machines[node].node.as_ref().map_or(0, |live| live.engine().status().committed.height)
    }

    pub(crate) fn lowest(&self) -> u64 {
        (0..self.machines.len())
            .filter(|node| !self.halted.contains(node))
            .map(|node| self.height(node))
            .min()
            .unwrap_or(0)
    }

    /// State root of a node's engine.
    pub(crate) fn root(&self, node: usize) -> B256 {
        self.machines[node].node.as_ref().map_or(B256::ZERO, |live| live.engine().status().committed.state_root)
    }

    /// Progress of each node, for failures.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("at {} µs\n", self.now());
        for (index, machine) in self.machines.iter().enumerate() {
            let Some(node) = &machine.node else { continue };
            let host = node.peek();
            let protocol = host.protocol().expect("open");
            text += &format!(
                "{index}: committed {} decided {} protocol: view {} decided {} stable {}\n",
                node.engine().status().committed.height,
                host.decided_slot(),
                protocol.view(),
                protocol.inner().decided(),
                protocol.inner().stable(),
            );
        }
        text
    }

    pub(crate) fn random(&mut self, below: u64) -> u64 {
        self.rng.random_range(0..below)
    }

    pub(crate) fn heal(&mut self) {
        self.links.heal();
        self.separate(BTreeSet::new(), false);
    }
}
