//! Replicas under full control: a test delivers every message and fires every timer.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::world::{sign, work};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Base, Batch, Checked, Domain, Index, Input, NULL, Out, Protocol as _, Quorums, Signed, Slot, To, View,
    pbft::{Checkpoint, Config, Leaving, Msg, Mutation, NewView, Pbft, Record, Timer, ViewChange},
};
use std::{collections::BTreeMap, sync::Arc};

/// Replicas under full control: nothing is delivered unless the test says so.
pub(crate) struct Lab {
    pub(crate) config: Arc<Config>,
    pub(crate) replicas: BTreeMap<u16, Pbft>,
    pub(crate) logs: BTreeMap<u16, Vec<Record>>,
    /// Messages in flight: sender, receiver, message.
    pub(crate) wire: Vec<(u16, u16, Msg)>,
    pub(crate) decided: BTreeMap<u16, BTreeMap<Slot, B256>>,
    pub(crate) conflicts: usize,
    pub(crate) evidence: usize,
    pub(crate) timers: BTreeMap<u16, BTreeMap<Timer, u64>>,
    pub(crate) batches: BTreeMap<B256, Batch>,
    pub(crate) now: u64,
}

impl Lab {
    pub(crate) fn new(n: usize, f: usize, interval: u64, correct: &[u16]) -> Self {
        Self::broken(None, n, f, interval, correct)
    }

    pub(crate) fn broken(mutation: Option<Mutation>, n: usize, f: usize, interval: u64, correct: &[u16]) -> Self {
        let config = Config { interval, mutation, ..Config::new(Quorums::new(n, f).unwrap(), Domain::default()) };
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
            now: 0,
        };
        for node in correct {
            lab.open(*node, Base::default());
        }
        lab
    }

    pub(crate) fn open(&mut self, node: u16, base: Base) {
        let log = self.logs.entry(node).or_default().clone();
        let mut out = Vec::new();
        let replica = Pbft::open(Index(node), self.config.clone(), base, &log, &mut out);
        self.replicas.insert(node, replica);
        self.timers.insert(node, BTreeMap::new());
        self.absorb(node, out);
    }

    pub(crate) fn absorb(&mut self, node: u16, out: Vec<Out<Pbft>>) {
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
                Out::Work { job, crypto } => self.input(node, work(Index(node), job, crypto, false)),
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

    pub(crate) fn input(&mut self, node: u16, input: Input) {
        let mut out = Vec::new();
        self.replicas.get_mut(&node).unwrap().on_input(self.now, input, &mut out);
        self.absorb(node, out);
    }

    /// Fires a timer, whether it runs or not. All others complain when a replica's patience is over.
    pub(crate) fn timer(&mut self, node: u16, timer: Timer) {
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

    pub(crate) fn tell(&mut self, from: u16, to: u16, message: Msg) {
        let message = Checked::new(message, Domain::default(), |_| true).unwrap();
        let mut out = Vec::new();
        if let Some(replica) = self.replicas.get_mut(&to) {
            replica.on_message(self.now, Index(from), message, &mut out);
        }
        self.absorb(to, out);
    }

    /// Delivers what passes, keeps nothing else.
    pub(crate) fn flow(&mut self, passes: impl Fn(u16, u16, &Msg) -> bool) {
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

    pub(crate) fn signed<T: phalanx_bft::Statement + alloy_rlp::Decodable>(&self, signer: u16, body: T) -> Signed<T> {
        let signature = sign(Index(signer), &body.signed_bytes(Domain::default()));
        Signed { signer: Index(signer), signature, body }
    }

    /// The last VIEW-CHANGE that a correct replica has sent.
    pub(crate) fn change(&self, node: u16) -> Signed<ViewChange> {
        let sent = self.wire.iter().rev().find_map(|(from, _, message)| match message {
            Msg::ViewChange(leaving) if *from == node && leaving.change.signer.0 == node => {
                Some(leaving.change.clone())
            }
            _ => None,
        });
        sent.expect("a view change was sent")
    }

    pub(crate) fn empty_change(&self, signer: u16, view: View) -> Signed<ViewChange> {
        self.signed(signer, ViewChange { view, ..ViewChange::default() })
    }

    pub(crate) fn new_view(
        &self,
        view: View,
        changes: Vec<Signed<ViewChange>>,
        stable: Checkpoint,
        choices: Vec<B256>,
    ) -> Signed<NewView> {
        let signer = self.config.primary(view).0;
        self.signed(signer, NewView { view, changes, stable, proof: Vec::new(), choices })
    }
}

/// VIEW-CHANGE on the genesis state.
pub(crate) const fn leaving(change: Signed<ViewChange>) -> Msg {
    Msg::ViewChange(Leaving { change, proof: Vec::new() })
}

pub(crate) fn batch(byte: u8) -> Batch {
    Batch::new(1, Address::ZERO, vec![Bytes::from(vec![byte])])
}

pub(crate) const GENESIS: Checkpoint = Checkpoint { slot: 0, digest: B256::ZERO };
