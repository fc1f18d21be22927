//! A history: replicas whose messages, timers, signatures, executions and restarts come in an order that a seed draws.

use super::{
    change::{changed, hashes},
    trace::Trace,
};
use alloy_primitives::{Address, B256, Bytes, keccak256};
use alloy_rlp::Decodable as _;
use phalanx_bft::{Base, Batch, Checked, Index, Input, NULL, Out, Outs, Slot, To, View, Want};
use phalanx_world::{Facts, kind, work};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Answers to one replica within a period: 8 MiB, and each takes 256 bytes of them at least.
const MOST_ANSWERS: usize = (8 << 20) / 256 + 1;

struct Node<P: Facts> {
    replica: P,
    log: Vec<P::Record>,
    timers: BTreeMap<P::Timer, u64>,
    /// Decided slots that are not executed yet, and outcomes.
    decided: BTreeMap<Slot, B256>,
    outcomes: BTreeMap<Slot, B256>,
    /// Signatures that are being made.
    owed: VecDeque<Input>,
    wanted: Option<Base>,
    hold: bool,
}

impl<P: Facts> Node<P> {
    fn base(&self) -> Base {
        self.outcomes
            .last_key_value()
            .map_or_else(Base::default, |(slot, digest)| Base { slot: *slot, digest: *digest })
    }
}

pub(super) struct History<P: Facts> {
    config: Arc<P::Config>,
    window: u64,
    rng: ChaCha8Rng,
    now: u64,
    nodes: Vec<Node<P>>,
    wire: VecDeque<(u16, u16, P::Msg)>,
    /// Replica whose messages are lost.
    cut: Option<u16>,
    requests: u64,
    seen: Vec<B256>,
    /// Messages of each kind so far.
    kinds: BTreeMap<u8, u32>,
    /// Records that a restart restores, each as it was.
    binds: fn(&P::Record) -> bool,
    votes: BTreeMap<(u16, u8, View, Slot), B256>,
    pub(super) trace: Trace,
}

impl<P: Facts + Clone> History<P> {
    pub(super) fn begin(config: P::Config, window: u64, binds: fn(&P::Record) -> bool, seed: u64) -> Self {
        let n = P::quorums(&config).n();
        let config = Arc::new(config);
        let open = |node: usize, out: &mut Outs<P>| Node {
            replica: P::open(Index(node as u16), Arc::clone(&config), Base::default(), &[], out),
            log: Vec::new(),
            timers: BTreeMap::new(),
            decided: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            owed: VecDeque::new(),
            wanted: None,
            hold: false,
        };
        let mut outs: Vec<Outs<P>> = (0..n).map(|_| Vec::new()).collect();
        let nodes = outs.iter_mut().enumerate().map(|(node, out)| open(node, out)).collect();
        let mut history = Self {
            config: Arc::clone(&config),
            window,
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: 0,
            nodes,
            wire: VecDeque::new(),
            cut: None,
            requests: 0,
            seen: Vec::new(),
            kinds: BTreeMap::new(),
            binds,
            votes: BTreeMap::new(),
            trace: Trace::default(),
        };
        outs.into_iter().enumerate().for_each(|(node, out)| history.absorb(node, out));
        history
    }

    pub(super) fn run(mut self, steps: usize) -> Trace {
        (0..steps).for_each(|_| self.step());
        self.trace
    }

    /// Repeats a message of each of these kinds, once it gets an answer, until it gets none; a period later it gets one again. Returns the
    /// kinds that got any.
    pub(super) fn questions(mut self, kinds: &[u8], steps: usize, period: u64) -> Vec<u8> {
        let mut left = kinds.to_vec();
        for _ in 0..steps {
            self.step();
            let is_left = |message: &P::Msg| left.contains(&alloy_rlp::encode(message)[0]);
            let Some((from, to, message)) = self.wire.iter().rfind(|(.., message)| is_left(message)).cloned() else {
                continue;
            };
            let mut copy = self.nodes[usize::from(to)].replica.clone();
            let domain = P::domain(&self.config);
            let mut answers = |now: u64| {
                let checked = Checked::new(message.clone(), domain, |_| true).expect("every signature counts as right");
                let mut out = Vec::new();
                copy.on_message(now, Index(from), checked, &mut out);
                out.iter().any(|effect| matches!(effect, Out::Send(To::One(to), _) if to.0 == from))
            };
            if answers(self.now) {
                assert!((0..MOST_ANSWERS).any(|_| !answers(self.now)), "answers have no end: {message:?}");
                assert!(answers(self.now + period), "the next period has no answer: {message:?}");
                left.retain(|kind| *kind != alloy_rlp::encode(&message)[0]);
            }
        }
        kinds.iter().copied().filter(|kind| !left.contains(kind)).collect()
    }

    fn step(&mut self) {
        self.now += self.rng.random_range(0..300);
        let node = self.rng.random_range(0..self.nodes.len());
        match self.rng.random_range(0..200) {
            0..130 => match self.wire.is_empty() {
                true => self.fire(),
                false => self.deliver(),
            },
            130..140 => drop(self.wire.pop_front()),
            140..160 => self.execute(node),
            160..174 => self.request(node),
            174..178 => {
                let pending = self.rng.random_ratio(2, 3).then_some(self.requests);
                self.input(node, Input::Pending(pending));
            }
            178..182 => {
                self.nodes[node].hold ^= true;
                self.input(node, Input::Hold(self.nodes[node].hold));
            }
            182..190 => self.fire(),
            190..193 => self.restart(node),
            193..196 => self.probe_log(node),
            196..198 => {
                if let Some(base) =
                    self.nodes[node].wanted.take().filter(|base| base.slot > self.nodes[node].base().slot)
                {
                    self.nodes[node].outcomes.insert(base.slot, base.digest);
                    self.input(node, Input::Installed(base));
                }
            }
            _ => {
                let last = self.nodes.len() as u16 - 1;
                self.cut = if self.cut.is_none() { Some(self.rng.random_range(0..=last)) } else { None };
            }
        }
        if let Some(signed) = self.nodes[node].owed.pop_front() {
            self.input(node, signed);
        }
    }

    /// The next timer comes due.
    fn fire(&mut self) {
        let due = |node: &Node<P>| node.timers.iter().map(|(timer, at)| (*at, *timer)).min_by_key(|(at, _)| *at);
        let next = self.nodes.iter().enumerate().filter_map(|(at, node)| Some((due(node)?, at)));
        let Some(((at, timer), node)) = next.min_by_key(|((at, _), node)| (*at, *node)) else { return };
        self.now = self.now.max(at);
        self.nodes[node].timers.remove(&timer);
        self.act(node, |replica, now, out| replica.on_timer(now, timer, out));
    }

    /// Delivery of one of the oldest messages, or of a copy of it. A copy of its receiver takes a changed one before.
    fn deliver(&mut self) {
        let at = self.rng.random_range(0..self.wire.len().min(6));
        let again = self.rng.random_ratio(1, 30);
        let found = if again { self.wire.get(at).cloned() } else { self.wire.remove(at) };
        let Some((from, to, message)) = found else { return };
        let encoded = alloy_rlp::encode(&message);
        hashes(&encoded, &mut self.seen);
        // The rarer a kind, the more changes of it are tried.
        let times = self.kinds.entry(encoded[0]).or_insert(0);
        *times += 1;
        for _ in 0..1 + 40 / *times {
            self.probe(from, to, &encoded, &message);
        }
        let domain = P::domain(&self.config);
        let checked = Checked::new(message, domain, |_| true).expect("every signature counts as right");
        self.act(usize::from(to), |replica, now, out| replica.on_message(now, Index(from), checked, out));
    }

    /// Hands a copy of a replica a message with one change, and the message itself behind it.
    fn probe(&mut self, from: u16, to: u16, encoded: &[u8], message: &P::Msg) {
        let n = self.nodes.len() as u16;
        let mut sender = from;
        let bytes = match self.rng.random_range(0..8) {
            0 => {
                sender = self.rng.random_range(0..=n);
                Some(encoded.to_vec())
            }
            _ => changed(encoded, &self.seen, self.window, &mut self.rng),
        };
        let Some(bytes) = bytes else { return };
        let mut rest = bytes.as_slice();
        let Ok(lie) = P::Msg::decode(&mut rest) else { return self.trace.note(&[encoded[0]]) };
        let mut copy = self.nodes[usize::from(to)].replica.clone();
        let wanted = copy.wants(Index(sender), &lie);
        *if wanted { &mut self.trace.taken } else { &mut self.trace.refused } += 1;
        self.trace.note(&[encoded[0], u8::from(wanted)]);
        let mut told = vec![(sender, lie.clone()), (from, message.clone())];
        // Or all others say so.
        if self.rng.random_ratio(1, 3) {
            told = (0..n).rev().map(|sender| (sender, lie.clone())).collect();
        }
        let (mut out, domain) = (Vec::new(), P::domain(&self.config));
        for (sender, message) in told {
            let checked = Checked::new(message, domain, |_| true).expect("every signature counts as right");
            copy.on_message(self.now, Index(sender), checked, &mut out);
        }
        self.note_probe(&out);
    }

    /// Opens a copy of a replica from the log up to a record.
    fn probe_log(&mut self, node: usize) {
        let length = self.rng.random_range(0..=self.nodes[node].log.len());
        let mut out = Vec::new();
        let of = &self.nodes[node];
        let copy = P::open(Index(node as u16), Arc::clone(&self.config), of.base(), &of.log[..length], &mut out);
        self.note_probe(&out);
        self.trace.note(format!("{} {}", copy.view(), copy.room()).as_bytes());
        copy.journal().iter().for_each(|record| self.trace.note(&alloy_rlp::encode(record)));
    }

    /// Effects of a copy count in the hash alone.
    fn note_probe(&mut self, out: &Outs<P>) {
        let mut trace = self.trace;
        out.iter().for_each(|effect| trace.effect(effect));
        let Trace { records, messages, decisions, .. } = self.trace;
        self.trace = Trace { records, messages, decisions, ..trace };
    }

    fn request(&mut self, node: usize) {
        self.requests += 1;
        let tx = Bytes::from([self.requests.to_be_bytes().as_slice(), &[0; 40]].concat());
        // Now and then one that no replica accepts.
        let time = if self.rng.random_ratio(1, 20) { 1 << 40 } else { self.now / 1000 };
        let node = if P::OWN_REQUESTS { node } else { usize::from(self.nodes[node].replica.leader().0) };
        if self.nodes[node].replica.room() > 0 || self.rng.random_ratio(1, 10) {
            self.input(node, Input::Batch(Batch::new(time, Address::ZERO, vec![tx])));
        }
    }

    /// The next decided slot is executed and durable.
    fn execute(&mut self, node: usize) {
        let base = self.nodes[node].base();
        let slot = base.slot + 1;
        if let Some(content) = self.nodes[node].decided.remove(&slot) {
            let digest = keccak256([base.digest.as_slice(), content.as_slice()].concat());
            self.nodes[node].outcomes.insert(slot, digest);
            self.input(node, Input::Committed { slot, digest });
        }
    }

    fn restart(&mut self, node: usize) {
        if self.rng.random_ratio(1, 2) {
            self.nodes[node].log = self.nodes[node].replica.journal();
        }
        let (mut out, of) = (Vec::new(), &mut self.nodes[node]);
        let base = of.base();
        of.replica = P::open(Index(node as u16), Arc::clone(&self.config), base, &of.log, &mut out);
        (of.timers, of.owed, of.hold) = (BTreeMap::new(), VecDeque::new(), false);
        of.decided.clear();
        self.absorb(node, out);
        let outcomes: Vec<(Slot, B256)> = self.nodes[node].outcomes.iter().map(|(slot, of)| (*slot, *of)).collect();
        for (slot, digest) in outcomes.into_iter().rev().take(8).rev() {
            self.input(node, Input::Committed { slot, digest });
        }
    }

    fn input(&mut self, node: usize, input: Input) {
        self.trace.input(&input);
        self.act(node, |replica, now, out| replica.on_input(now, input, out));
    }

    fn act(&mut self, node: usize, act: impl FnOnce(&mut P, u64, &mut Outs<P>)) {
        let mut out = Vec::new();
        act(&mut self.nodes[node].replica, self.now, &mut out);
        self.absorb(node, out);
        self.check_log(node);
    }

    fn absorb(&mut self, node: usize, out: Outs<P>) {
        let (me, n, mut stable, mut done) = (node as u16, self.nodes.len() as u16, false, Vec::new());
        for effect in out {
            self.trace.effect(&effect);
            let of = &mut self.nodes[node];
            match effect {
                Out::Persist(record) => of.log.push(record),
                Out::Send(to, message) => {
                    self.check_vote(node, &message);
                    for to in (0..n).filter(|other| *other != me && (to == To::All || to == To::One(Index(*other)))) {
                        if ![Some(me), Some(to)].contains(&self.cut) {
                            self.wire.push_back((me, to, message.clone()));
                        }
                    }
                }
                Out::Timer(timer, after) => drop(of.timers.insert(timer, self.now + after)),
                Out::Cancel(timer) => drop(of.timers.remove(&timer)),
                Out::Work { job, crypto } => {
                    let lies = self.rng.random_ratio(1, 200);
                    done.push(work(Index(me), job, crypto, lies));
                }
                Out::Decided { slot, batch } => {
                    of.decided.insert(slot, batch.map_or(NULL, |batch| batch.digest()));
                }
                Out::Stable { .. } => stable = true,
                Out::Want(Want::State { base, .. }) => of.wanted = Some(base),
                _ => {}
            }
        }
        if stable && self.rng.random_ratio(1, 2) {
            self.nodes[node].log = self.nodes[node].replica.journal();
        }
        for input in done {
            match self.rng.random_ratio(1, 6) {
                true => self.nodes[node].owed.push_back(input),
                false => self.input(node, input),
            }
        }
        // Links hold so much, and lose the oldest.
        while self.wire.len() > 400 {
            self.wire.pop_front();
        }
    }

    /// No vote contradicts one before, also across restarts, and an order vote is in the log before it leaves.
    fn check_vote(&mut self, node: usize, message: &P::Msg) {
        let Some((of, view, slot, digest)) = P::vote(message) else { return };
        let before = *self.votes.entry((node as u16, of, view, slot)).or_insert(digest);
        assert_eq!(before, digest, "replica {node} votes twice: {message:?}");
        let node = &self.nodes[node];
        if of == kind::ORDER && slot > node.base().slot && slot > node.replica.stable() {
            let logged = node.log.iter().any(|record| P::locks(record, view, slot, Some(digest)));
            assert!(logged, "an order vote leaves before its record: {message:?}");
        }
    }

    /// A replica that opens the log has the journal of the one that wrote it.
    fn check_log(&mut self, node: usize) {
        if self.rng.random_ratio(7, 8) {
            return;
        }
        let of = &self.nodes[node];
        let again = P::open(Index(node as u16), Arc::clone(&self.config), of.base(), &of.log, &mut Vec::new());
        let [now, then] = [&of.replica, &again].map(|replica| -> BTreeSet<String> {
            let binding = replica.journal().into_iter().filter(self.binds);
            binding.map(|record| format!("{record:?}")).collect()
        });
        let other: Vec<&String> = now.symmetric_difference(&then).collect();
        assert!(other.is_empty(), "a restart of replica {node} restores another state: {other:#?}");
    }
}
