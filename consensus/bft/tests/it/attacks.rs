//! Attacks of one traitor, and crashes at awkward moments: neither safety nor liveness gives way.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::world::sign;
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Base, Batch, Checked, Crypto, Domain, Index, Input, NULL, Out, Protocol as _, Quorums, Signed, Slot, To, View,
    pbft::{
        Checkpoint, Config, Decision, Msg, NewView, Pbft, PrePrepare, Record, Report, Status, Timer, ViewChange, Vote,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Replicas under full control: nothing is delivered unless the test says so.
struct Lab {
    config: Arc<Config>,
    replicas: BTreeMap<u16, Pbft>,
    logs: BTreeMap<u16, Vec<Record>>,
    /// Messages in flight: sender, receiver, message.
    wire: Vec<(u16, u16, Msg)>,
    decided: BTreeMap<u16, BTreeMap<Slot, B256>>,
    conflicts: usize,
    evidence: usize,
    timers: BTreeMap<u16, BTreeMap<Timer, u64>>,
    batches: BTreeMap<B256, Batch>,
}

impl Lab {
    fn new(n: usize, f: usize, interval: u64, correct: &[u16]) -> Self {
        let config = Config { interval, ..Config::new(Quorums::new(n, f).unwrap(), Domain::default()) };
        let mut lab = Self {
            config: Arc::new(config),
            replicas: BTreeMap::new(),
            logs: BTreeMap::new(),
            wire: Vec::new(),
            decided: BTreeMap::new(),
            conflicts: 0,
            evidence: 0,
            timers: BTreeMap::new(),
            batches: BTreeMap::new(),
        };
        for node in correct {
            lab.open(*node, Base::default());
        }
        lab
    }

    fn open(&mut self, node: u16, base: Base) {
        let log = self.logs.entry(node).or_default().clone();
        let mut out = Vec::new();
        let replica = Pbft::open(Index(node), self.config.clone(), base, &log, &mut out);
        self.replicas.insert(node, replica);
        self.timers.insert(node, BTreeMap::new());
        self.absorb(node, out);
    }

    fn absorb(&mut self, node: u16, out: Vec<Out<Pbft>>) {
        for effect in out {
            match effect {
                Out::Persist(record) => {
                    if let Record::Batch(batch) = &record {
                        self.batches.insert(batch.digest(), batch.clone());
                    }
                    self.logs.get_mut(&node).unwrap().push(record);
                }
                Out::Send(To::All, message) => {
                    for to in 0..self.config.quorums.n() as u16 {
                        if to != node {
                            self.wire.push((node, to, message.clone()));
                        }
                    }
                }
                Out::Send(To::One(to), message) => self.wire.push((node, to.0, message)),
                Out::Work { job, crypto: Crypto::Sign(bytes) } => {
                    let signature = sign(Index(node), &bytes);
                    self.input(node, Input::Signed { job, signature });
                }
                Out::Decided { slot, batch } => {
                    let digest = batch.map_or(NULL, |batch| batch.digest());
                    self.decided.entry(node).or_default().insert(slot, digest);
                }
                Out::Conflict { .. } => self.conflicts += 1,
                Out::Evidence { .. } => self.evidence += 1,
                Out::Timer(timer, after) => drop(self.timers.get_mut(&node).unwrap().insert(timer, after)),
                Out::Cancel(timer) => drop(self.timers.get_mut(&node).unwrap().remove(&timer)),
                _ => {}
            }
        }
    }

    fn input(&mut self, node: u16, input: Input) {
        let mut out = Vec::new();
        self.replicas.get_mut(&node).unwrap().on_input(0, input, &mut out);
        self.absorb(node, out);
    }

    fn timer(&mut self, node: u16, timer: Timer) {
        self.timers.get_mut(&node).unwrap().remove(&timer);
        let mut out = Vec::new();
        self.replicas.get_mut(&node).unwrap().on_timer(0, timer, &mut out);
        self.absorb(node, out);
    }

    fn tell(&mut self, from: u16, to: u16, message: Msg) {
        let message = Checked::new(message, Domain::default(), |_| true).unwrap();
        let mut out = Vec::new();
        if let Some(replica) = self.replicas.get_mut(&to) {
            replica.on_message(0, Index(from), message, &mut out);
        }
        self.absorb(to, out);
    }

    /// Delivers what passes, keeps nothing else.
    fn flow(&mut self, passes: impl Fn(u16, u16, &Msg) -> bool) {
        for _ in 0..100 {
            let wire = std::mem::take(&mut self.wire);
            if wire.is_empty() {
                return;
            }
            for (from, to, message) in wire {
                if passes(from, to, &message) {
                    self.tell(from, to, message);
                }
            }
        }
    }

    fn signed<T: phalanx_bft::Statement + alloy_rlp::Decodable>(&self, signer: u16, body: T) -> Signed<T> {
        let signature = sign(Index(signer), &body.signed_bytes(Domain::default()));
        Signed { signer: Index(signer), signature, body }
    }

    /// The last VIEW-CHANGE that a correct replica has sent.
    fn change(&self, node: u16) -> Signed<ViewChange> {
        let sent = self.wire.iter().rev().find_map(|(from, _, message)| match message {
            Msg::ViewChange(signed) if *from == node && signed.signer.0 == node => Some(signed.clone()),
            _ => None,
        });
        sent.expect("a view change was sent")
    }

    fn empty_change(&self, signer: u16, view: View) -> Signed<ViewChange> {
        let checkpoints = vec![Checkpoint { slot: 0, digest: B256::ZERO }];
        let body = ViewChange { view, stable: 0, checkpoints, prepared: Vec::new(), preprepared: Vec::new() };
        self.signed(signer, body)
    }

    fn new_view(
        &self,
        view: View,
        changes: Vec<Signed<ViewChange>>,
        stable: Checkpoint,
        choices: Vec<B256>,
    ) -> Signed<NewView> {
        let signer = self.config.primary(view).0;
        self.signed(signer, NewView { view, changes, stable, choices })
    }
}

fn batch(byte: u8) -> Batch {
    Batch::new(1, Address::ZERO, vec![Bytes::from(vec![byte])])
}

const GENESIS: Checkpoint = Checkpoint { slot: 0, digest: B256::ZERO };

/// A crash while a replica enters a view leaves the choices of its NEW-VIEW in force.
#[test]
fn a_crash_while_entering_a_view_forgets_no_choice() {
    enter_and_crash(true);
}

fn enter_and_crash(crash: bool) {
    let mut lab = Lab::new(4, 1, 8, &[0, 2, 3]);
    let (d, other) = (batch(1), batch(2));
    // View 0: everyone prepares d; replica 0 decides it with the COMMITs of 0, 2 and the traitor 1.
    lab.input(0, Input::Batch(d.clone()));
    let vote = Vote { view: 0, slot: 1, digest: d.digest() };
    lab.flow(|_, to, message| !matches!(message, Msg::Commit(_)) || to == 0);
    lab.tell(1, 0, Msg::Prepare(vote));
    lab.tell(1, 0, Msg::Commit(vote));
    lab.wire.clear();
    assert_eq!(lab.decided[&0][&1], d.digest());
    // View 1, led by the traitor: an honest NEW-VIEW that chooses d.
    lab.timer(2, Timer::Progress);
    lab.timer(3, Timer::Progress);
    let changes = vec![lab.empty_change(1, 1), lab.change(2), lab.change(3)];
    let mut changes = changes;
    changes[0].body.prepared = changes[1].body.prepared.clone();
    changes[0].body.preprepared = changes[1].body.preprepared.clone();
    changes[0] = lab.signed(1, changes[0].body.clone());
    let opening = lab.new_view(1, changes, GENESIS, vec![d.digest()]);
    lab.wire.clear();
    for node in [2, 3] {
        lab.tell(1, node, Msg::NewView(opening.clone()));
        assert!(lab.replicas[&node].is_active() && lab.replicas[&node].view() == 1);
        // The power fails: Entered is durable, the acceptance behind it is not, and nothing behind it has left.
        let log = lab.logs.get_mut(&node).unwrap();
        let entered = log.iter().position(|record| matches!(record, Record::Entered(1, ..))).unwrap();
        if crash {
            log.truncate(entered + 1);
        }
    }
    lab.wire.clear();
    for node in [2, 3] {
        lab.open(node, Base::default());
        assert!(lab.replicas[&node].is_active() && lab.replicas[&node].view() == 1);
    }
    lab.wire.clear();
    // The traitor proposes something else in the slot that its own NEW-VIEW has filled.
    for node in [2, 3] {
        lab.tell(1, node, Msg::PrePrepare(PrePrepare { view: 1, slot: 1, batch: other.clone() }));
    }
    lab.flow(|_, _, message| matches!(message, Msg::Prepare(_) | Msg::Commit(_)));
    for node in [2, 3] {
        lab.tell(1, node, Msg::Commit(Vote { view: 1, slot: 1, digest: other.digest() }));
    }
    let all: BTreeSet<B256> = lab.decided.values().filter_map(|slots| slots.get(&1)).copied().collect();
    assert_eq!(all.len(), 1, "slot 1 has two decisions: {:?}", lab.decided);
}

/// A restart keeps a choice whose batch is still to be fetched.
#[test]
fn a_restart_forgets_no_choice_whose_batch_is_missing() {
    let mut lab = Lab::new(4, 1, 8, &[0, 2, 3]);
    let (d, other) = (batch(1), batch(2));
    lab.input(0, Input::Batch(d.clone()));
    lab.wire.clear();
    // 3 never sees d; a NEW-VIEW chooses it.
    let report = Report { slot: 1, digest: d.digest(), view: 0 };
    let mut changes = Vec::new();
    for signer in [0, 1, 2] {
        let mut change = lab.empty_change(signer, 1);
        change.body.prepared = vec![report];
        change.body.preprepared = vec![report];
        changes.push(lab.signed(signer, change.body));
    }
    let opening = lab.new_view(1, changes, GENESIS, vec![d.digest()]);
    lab.tell(1, 3, Msg::NewView(opening));
    lab.open(3, Base::default());
    lab.wire.clear();
    lab.tell(1, 3, Msg::PrePrepare(PrePrepare { view: 1, slot: 1, batch: other.clone() }));
    let accepts = lab.wire.iter().any(|(_, _, m)| matches!(m, Msg::Prepare(vote) if vote.digest == other.digest()));
    assert!(!accepts, "3 prepares a batch in view 1 that NEW-VIEW did not choose");
}

/// A proposal from the future does not keep later batches out.
#[test]
fn a_batch_from_the_future_does_not_stop_the_chain() {
    future(u64::MAX);
}

fn future(time: u64) {
    let mut lab = Lab::new(4, 1, 8, &[1, 2, 3]);
    // The traitor 0 leads view 0, proposes one batch with the largest timestamp, and is silent from then on.
    let future = Batch::new(time, Address::ZERO, Vec::new());
    let vote = Vote { view: 0, slot: 1, digest: future.digest() };
    for node in [1, 2, 3] {
        lab.tell(0, node, Msg::PrePrepare(PrePrepare { view: 0, slot: 1, batch: future.clone() }));
    }
    lab.flow(|from, _, _| from != 0);
    assert_eq!(lab.decided[&1][&1], vote.digest);
    for node in [1, 2, 3] {
        lab.input(node, Input::Committed { slot: 1, digest: B256::repeat_byte(1) });
        lab.input(node, Input::Pending(true));
    }
    // Every correct replica leads in turn, everything is delivered, and every timer fires only when nothing else happens.
    for round in 0..12u64 {
        for node in [1, 2, 3] {
            if lab.replicas[&node].is_active() {
                lab.timer(node, Timer::Progress)
            } else {
                lab.timer(node, Timer::NewView)
            }
        }
        lab.flow(|from, _, _| from != 0);
        for node in [1, 2, 3u16] {
            if lab.replicas[&node].room() > 0 {
                lab.input(
                    node,
                    Input::Batch(Batch::new(1_700_000_000_000 + round, Address::ZERO, vec![Bytes::from(vec![9])])),
                );
            }
        }
        lab.flow(|from, _, _| from != 0);
        for node in [1, 2, 3] {
            lab.timer(node, Timer::Resend);
        }
        lab.flow(|from, _, _| from != 0);
    }
    let view = lab.replicas[&1].view();
    assert!(lab.decided[&1].len() > 1, "nothing is decided behind the batch from the future, up to view {view}");
}

/// 3 is the traitor. 0 has proposed d in view 0, and only 0 has it. NEW-VIEW 2 (by 2, from 0, 2 and 3's invented report)
/// chooses d; 1 enters and lacks d. NEW-VIEW 4 (by 0, from 0, 2 and 3, who reports nothing now) leaves the slot free; 1 enters it
/// straight from view 2.
fn stale_choice() -> (Lab, Batch) {
    let mut lab = Lab::new(4, 1, 8, &[0, 1, 2]);
    let d = batch(1);
    for node in [0, 1, 2] {
        lab.input(node, Input::Pending(true));
    }
    lab.input(0, Input::Batch(d.clone()));
    lab.wire.clear();
    for view in [2, 4] {
        for node in [0, 2u16] {
            while lab.replicas[&node].view() < view
                || lab.replicas[&node].view() == view && lab.replicas[&node].is_active()
            {
                let timer = if lab.replicas[&node].is_active() { Timer::Progress } else { Timer::NewView };
                lab.timer(node, timer);
            }
        }
        let (leader, other) = if view == 2 { (2, 0) } else { (0, 2) };
        let change = lab.change(other);
        let mut lie = lab.empty_change(3, view);
        if view == 2 {
            lie.body.prepared = vec![Report { slot: 1, digest: d.digest(), view: 0 }];
            lie.body.preprepared = lie.body.prepared.clone();
        }
        let lie = lab.signed(3, lie.body);
        lab.wire.clear();
        lab.tell(other, leader, Msg::ViewChange(change));
        lab.tell(3, leader, Msg::ViewChange(lie));
        if view == 2 {
            // 2 fetches d from 0.
            lab.tell(0, 2, Msg::Fetched(d.clone()));
        }
        assert!(lab.replicas[&leader].is_active() && lab.replicas[&leader].view() == view);
        // Everyone enters. What else is sent is lost, or late.
        lab.flow(|from, _, m| from == leader && matches!(m, Msg::NewView(_)));
        assert_eq!((lab.replicas[&1].view(), lab.replicas[&1].is_active()), (view, true));
    }
    lab.wire.clear();
    (lab, d)
}

/// A choice that is still to be fetched ends with its view.
#[test]
fn a_missing_choice_of_an_old_view_is_not_accepted_in_a_newer_one() {
    let (mut lab, d) = stale_choice();
    lab.tell(0, 1, Msg::Fetched(d));
    let votes: Vec<&Msg> = lab.wire.iter().map(|(_, _, m)| m).filter(|m| matches!(m, Msg::Prepare(_))).collect();
    assert!(votes.is_empty(), "1 votes in view 4 for a batch that no replica proposed there: {:?}", votes[0]);
}

/// A traitor brings no second batch to be prepared in one view, and view changes go on to choose.
#[test]
fn two_batches_are_never_prepared_in_one_view() {
    prepared_twice(true);
}

fn prepared_twice(late: bool) {
    let (mut lab, d) = stale_choice();
    let e = batch(2);
    if late {
        lab.tell(0, 1, Msg::Fetched(d.clone()));
        lab.tell(3, 1, Msg::Prepare(Vote { view: 4, slot: 1, digest: d.digest() }));
    }
    lab.wire.clear();
    lab.input(0, Input::Batch(e.clone()));
    let vote = Vote { view: 4, slot: 1, digest: e.digest() };
    for node in [0, 2] {
        lab.tell(3, node, Msg::Prepare(vote));
        lab.tell(3, node, Msg::Commit(vote));
    }
    lab.flow(|_, _, _| true);
    // The traitor is silent from here on, the network perfect.
    for round in 0..20 {
        for node in [0, 1, 2] {
            let timer = if lab.replicas[&node].is_active() { Timer::Progress } else { Timer::NewView };
            lab.timer(node, timer);
        }
        lab.flow(|_, _, _| true);
        for node in [0, 1, 2u16] {
            if lab.replicas[&node].room() > 0 {
                lab.input(node, Input::Batch(batch(200 + round)));
            }
            lab.timer(node, Timer::Resend);
        }
        lab.flow(|_, _, _| true);
    }
    let views: Vec<_> = lab.replicas.values().map(|r| (r.view(), r.is_active())).collect();
    let prepared: BTreeSet<B256> = lab
        .logs
        .values()
        .flatten()
        .filter_map(|record| match record {
            Record::Prepared(vote) if (vote.view, vote.slot) == (4, 1) => Some(vote.digest),
            _ => None,
        })
        .collect();
    let slots = lab.decided[&0].len();
    assert!(
        prepared.len() <= 1,
        "view 4 has {} prepared batches in slot 1; {slots} slot decided in 20 rounds, views {views:?}",
        prepared.len()
    );
    assert!(slots > 1);
}

/// Numbers near their maximum are refused without a panic.
#[test]
fn numbers_near_their_maximum_do_not_panic() {
    const MAX: u64 = u64::MAX;
    let result = |message: fn(&Lab) -> Msg| {
        std::panic::catch_unwind(|| {
            let mut lab = Lab::new(4, 1, 4, &[1]);
            let message = message(&lab);
            lab.tell(3, 1, message);
        })
        .is_ok()
    };
    let status = result(|_| Msg::Status(Status { view: MAX, active: true, stable: MAX, decided: MAX }));
    let change = result(|lab| {
        let checkpoints = vec![Checkpoint { slot: MAX, digest: B256::ZERO }];
        let body = ViewChange { view: 1, stable: MAX, checkpoints, prepared: Vec::new(), preprepared: Vec::new() };
        Msg::ViewChange(lab.signed(3, body))
    });
    let commit = result(|_| Msg::Commit(Vote { view: MAX, slot: MAX, digest: NULL }));
    let decided = result(|_| Msg::Decided(Decision { slot: MAX, digest: NULL }));
    assert!(status && change && commit && decided, "status {status} change {change} commit {commit} decided {decided}");
}

/// Entering a newer view from an open one gives the new primary its full time.
#[test]
fn a_newer_view_starts_patience_anew() {
    let mut lab = Lab::new(4, 1, 4, &[2]);
    lab.input(2, Input::Pending(true));
    assert!(lab.timers[&2].contains_key(&Timer::Progress));
    lab.timers.get_mut(&2).unwrap().clear();
    let changes = vec![lab.empty_change(0, 1), lab.empty_change(1, 1), lab.empty_change(3, 1)];
    let opening = lab.new_view(1, changes, GENESIS, Vec::new());
    lab.tell(1, 2, Msg::NewView(opening));
    assert!(lab.timers[&2].contains_key(&Timer::Progress), "the timer of the old view goes on running");
}
