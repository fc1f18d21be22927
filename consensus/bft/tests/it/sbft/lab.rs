//! SBFT replicas under full control: a test delivers every message and fires every timer.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::world::{is_genuine, sign, work};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Base, Batch, Checked, Domain, Group, Index, Input, NULL, Out, Protocol as _, Quorums, Signed, Slot, Statement as _,
    To, View,
    sbft::{
        Certificate, Config, Decision, Msg, NewView, PrePrepare, Prepared, Proposal, Record, Sbft, Timer, ViewChange,
        Vote,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// Replicas under full control: nothing is delivered unless the test says so.
pub(super) struct Lab {
    pub(super) config: Arc<Config>,
    pub(super) replicas: BTreeMap<u16, Sbft>,
    pub(super) logs: BTreeMap<u16, Vec<Record>>,
    /// Messages in flight: sender, receiver, message.
    pub(super) wire: Vec<(u16, u16, Msg)>,
    pub(super) decided: BTreeMap<u16, BTreeMap<Slot, B256>>,
    pub(super) certificates: BTreeMap<u16, Vec<(Slot, B256)>>,
    pub(super) conflicts: usize,
    pub(super) evidence: usize,
    pub(super) timers: BTreeMap<u16, BTreeMap<Timer, u64>>,
    /// Replicas whose shares are wrong.
    pub(super) liars: Vec<u16>,
    /// Number of combined signatures that a wrong share has spoilt.
    pub(super) spoilt: usize,
    pub(super) now: u64,
}

pub(super) fn batch(byte: u8) -> Batch {
    Batch::new(1, Address::ZERO, vec![Bytes::from(vec![byte])])
}

pub(super) fn config(n: usize, f: usize) -> Config {
    Config { interval: 4, ..Config::new(Quorums::new(n, f).unwrap(), Domain::default()) }
}

/// τ over a vote.
pub(super) fn certificate(vote: Vote) -> Certificate {
    Certificate { vote, signature: sign(Group::Slow.signer(), &vote.signed_bytes(Domain::default())) }
}

/// A decision of the fast path, or of the slow one.
pub(super) fn decision(vote: Vote, fast: bool) -> Decision {
    let bytes = match fast {
        true => vote.signed_bytes(Domain::default()),
        false => Prepared(vote).signed_bytes(Domain::default()),
    };
    let group = if fast { Group::Fast } else { Group::Slow };
    Decision { vote, group, signature: sign(group.signer(), &bytes) }
}

pub(super) fn signed<T: phalanx_bft::Statement + alloy_rlp::Decodable>(signer: u16, body: T) -> Signed<T> {
    let signature = sign(Index(signer), &body.signed_bytes(Domain::default()));
    Signed { signer: Index(signer), signature, body }
}

pub(super) fn proposal(view: View, slot: Slot, primary: u16, batch: &Batch) -> Msg {
    let vote = Vote { view, slot, digest: batch.digest() };
    Msg::PrePrepare(PrePrepare { signed: signed(primary, Proposal(vote)), batch: batch.clone() })
}

impl Lab {
    pub(super) fn new(config: Config, correct: impl IntoIterator<Item = u16>) -> Self {
        let mut lab = Self {
            config: Arc::new(config),
            replicas: BTreeMap::new(),
            logs: BTreeMap::new(),
            wire: Vec::new(),
            decided: BTreeMap::new(),
            certificates: BTreeMap::new(),
            conflicts: 0,
            evidence: 0,
            timers: BTreeMap::new(),
            liars: Vec::new(),
            spoilt: 0,
            now: 0,
        };
        correct.into_iter().for_each(|node| lab.open(node, Base::default()));
        lab.wire.clear();
        lab
    }

    pub(super) fn open(&mut self, node: u16, base: Base) {
        let log = self.logs.entry(node).or_default().clone();
        let mut out = Vec::new();
        let replica = Sbft::open(Index(node), Arc::clone(&self.config), base, &log, &mut out);
        self.replicas.insert(node, replica);
        self.timers.insert(node, BTreeMap::new());
        self.absorb(node, out);
    }

    fn absorb(&mut self, node: u16, out: Vec<Out<Sbft>>) {
        for effect in out {
            match effect {
                Out::Persist(record) => self.logs.get_mut(&node).unwrap().push(record),
                Out::Send(To::All, message) => {
                    let others = (0..self.config.quorums.n() as u16).filter(|to| *to != node);
                    self.wire.extend(others.map(|to| (node, to, message.clone())));
                }
                Out::Send(To::One(to), message) => self.wire.push((node, to.0, message)),
                Out::Work { job, crypto } => {
                    let lies = self.liars.contains(&node);
                    let input = work(Index(node), job, crypto, lies);
                    self.spoilt += usize::from(matches!(input, Input::Combined { result: Err(_), .. }));
                    self.input(node, input);
                }
                Out::Decided { slot, batch } => {
                    let digest = batch.map_or(NULL, |batch| batch.digest());
                    self.decided.entry(node).or_default().insert(slot, digest);
                }
                Out::Certificate { slot, digest, answers: true, .. } => {
                    self.certificates.entry(node).or_default().push((slot, digest));
                }
                Out::Conflict { .. } => self.conflicts += 1,
                Out::Evidence { .. } => self.evidence += 1,
                Out::Timer(timer, after) => drop(self.timers.get_mut(&node).unwrap().insert(timer, after)),
                Out::Cancel(timer) => drop(self.timers.get_mut(&node).unwrap().remove(&timer)),
                _ => {}
            }
        }
    }

    pub(super) fn input(&mut self, node: u16, input: Input) {
        let mut out = Vec::new();
        self.replicas.get_mut(&node).unwrap().on_input(self.now, input, &mut out);
        self.absorb(node, out);
    }

    /// Fires a timer, whether it runs or not. All others complain when a replica's patience is over.
    pub(super) fn timer(&mut self, node: u16, timer: Timer) {
        self.now += self.config.resend;
        if timer == Timer::Progress {
            let (view, n) = (self.replicas[&node].view(), self.config.quorums.n() as u16);
            (0..n).filter(|other| *other != node).for_each(|other| self.tell(other, node, Msg::Complaint(view)));
        }
        self.timers.get_mut(&node).unwrap().remove(&timer);
        let mut out = Vec::new();
        self.replicas.get_mut(&node).unwrap().on_timer(self.now, timer, &mut out);
        self.absorb(node, out);
    }

    /// Fires every running timer that passes, once.
    pub(super) fn timers(&mut self, passes: impl Fn(&Timer) -> bool) {
        let due = self.timers.iter().flat_map(|(node, timers)| timers.keys().map(|timer| (*node, *timer)));
        let due: Vec<_> = due.filter(|(_, timer)| passes(timer)).collect();
        due.into_iter().for_each(|(node, timer)| self.timer(node, timer));
    }

    /// Delivers a message whose signatures are right.
    pub(super) fn tell(&mut self, from: u16, to: u16, message: Msg) {
        let genuine = |claims: &[phalanx_bft::Claim]| claims.iter().all(is_genuine);
        let Some(message) = Checked::new(message, Domain::default(), genuine) else { return };
        let mut out = Vec::new();
        if let Some(replica) = self.replicas.get_mut(&to) {
            replica.on_message(self.now, Index(from), message, &mut out);
        }
        self.absorb(to, out);
    }

    /// Delivers what passes, keeps nothing else.
    pub(super) fn flow(&mut self, passes: impl Fn(u16, u16, &Msg) -> bool) {
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

    /// The last VIEW-CHANGE that a correct replica has sent.
    pub(super) fn change(&self, node: u16) -> Signed<ViewChange> {
        let sent = self.wire.iter().rev().find_map(|(from, _, message)| match message {
            Msg::ViewChange(change) if *from == node && change.signer.0 == node => Some(change.clone()),
            _ => None,
        });
        sent.expect("a view change was sent")
    }

    pub(super) fn new_view(&self, view: View, mut changes: Vec<Signed<ViewChange>>) -> Msg {
        changes.sort_by_key(|change| change.signer);
        Msg::NewView(signed(self.config.primary(view).0, NewView { view, changes }))
    }

    /// Different batches that correct replicas have decided in a slot.
    pub(super) fn decisions(&self, slot: Slot) -> Vec<B256> {
        let mut all: Vec<B256> = self.decided.values().filter_map(|slots| slots.get(&slot)).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
