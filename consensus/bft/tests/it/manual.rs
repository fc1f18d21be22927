//! Replicas under full control: a test delivers every message and fires every timer.

use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{Base, Batch, Checked, Claim, Index, Input, NULL, Out, Outs, Slot, To, View};
use phalanx_world::{Facts, work};
use std::{collections::BTreeMap, sync::Arc};

/// A protocol with patience for its primary.
pub(crate) trait Subject: Facts {
    const PROGRESS: Self::Timer;
    fn complaint(view: View) -> Self::Msg;
    fn resend(config: &Self::Config) -> u64;
}

/// Replicas under full control: nothing is delivered unless the test says so.
pub(crate) struct Manual<P: Subject> {
    pub(crate) config: Arc<P::Config>,
    pub(crate) replicas: BTreeMap<u16, P>,
    pub(crate) logs: BTreeMap<u16, Vec<P::Record>>,
    /// Messages in flight: sender, receiver, message.
    pub(crate) wire: Vec<(u16, u16, P::Msg)>,
    pub(crate) decided: BTreeMap<u16, BTreeMap<Slot, B256>>,
    pub(crate) certificates: BTreeMap<u16, Vec<(Slot, B256)>>,
    pub(crate) conflicts: usize,
    pub(crate) evidence: usize,
    pub(crate) timers: BTreeMap<u16, BTreeMap<P::Timer, u64>>,
    /// Replicas whose shares are wrong.
    pub(crate) liars: Vec<u16>,
    /// Number of combined signatures that a wrong share has spoilt.
    pub(crate) spoilt: usize,
    pub(crate) now: u64,
    verify: fn(&[Claim]) -> bool,
}

impl<P: Subject> Manual<P> {
    pub(crate) fn begin(
        config: P::Config,
        verify: fn(&[Claim]) -> bool,
        correct: impl IntoIterator<Item = u16>,
    ) -> Self {
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
            verify,
        };
        correct.into_iter().for_each(|node| lab.open(node, Base::default()));
        lab
    }

    pub(crate) fn open(&mut self, node: u16, base: Base) {
        let log = self.logs.entry(node).or_default().clone();
        let mut out = Vec::new();
        let replica = P::open(Index(node), Arc::clone(&self.config), base, &log, &mut out);
        self.replicas.insert(node, replica);
        self.timers.insert(node, BTreeMap::new());
        self.absorb(node, out);
    }

    fn absorb(&mut self, node: u16, out: Outs<P>) {
        for effect in out {
            match effect {
                Out::Persist(record) => self.logs.entry(node).or_default().push(record),
                Out::Send(To::All, message) => {
                    let others = (0..P::quorums(&self.config).n() as u16).filter(|to| *to != node);
                    self.wire.extend(others.map(|to| (node, to, message.clone())));
                }
                Out::Send(To::One(to), message) => self.wire.push((node, to.0, message)),
                Out::Work { job, crypto } => {
                    let input = work(Index(node), job, crypto, self.liars.contains(&node));
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
                Out::Timer(timer, after) => drop(self.timers.entry(node).or_default().insert(timer, after)),
                Out::Cancel(timer) => drop(self.timers.entry(node).or_default().remove(&timer)),
                _ => {}
            }
        }
    }

    fn act(&mut self, node: u16, act: impl FnOnce(&mut P, u64, &mut Outs<P>)) {
        let mut out = Vec::new();
        if let Some(replica) = self.replicas.get_mut(&node) {
            act(replica, self.now, &mut out);
        }
        self.absorb(node, out);
    }

    pub(crate) fn input(&mut self, node: u16, input: Input) {
        self.act(node, |replica, now, out| replica.on_input(now, input, out));
    }

    /// Fires a timer, whether it runs or not. All others complain when a replica's patience is over.
    pub(crate) fn timer(&mut self, node: u16, timer: P::Timer) {
        self.now += P::resend(&self.config);
        if timer == P::PROGRESS {
            let (view, n) = (self.replicas[&node].view(), P::quorums(&self.config).n() as u16);
            (0..n).filter(|other| *other != node).for_each(|other| self.tell(other, node, P::complaint(view)));
        }
        self.timers.entry(node).or_default().remove(&timer);
        self.act(node, |replica, now, out| replica.on_timer(now, timer, out));
    }

    /// Fires every running timer that passes, once.
    pub(crate) fn timers(&mut self, passes: impl Fn(&P::Timer) -> bool) {
        let due = self.timers.iter().flat_map(|(node, timers)| timers.keys().map(|timer| (*node, *timer)));
        let due: Vec<_> = due.filter(|(_, timer)| passes(timer)).collect();
        due.into_iter().for_each(|(node, timer)| self.timer(node, timer));
    }

    /// Delivers a message whose signatures are right.
    pub(crate) fn tell(&mut self, from: u16, to: u16, message: P::Msg) {
        if let Some(message) = Checked::new(message, P::domain(&self.config), self.verify) {
            self.act(to, |replica, now, out| replica.on_message(now, Index(from), message, out));
        }
    }

    /// Delivers what passes, keeps nothing else.
    pub(crate) fn flow(&mut self, passes: impl Fn(u16, u16, &P::Msg) -> bool) {
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

    /// Different batches that correct replicas have decided in a slot.
    pub(crate) fn decisions(&self, slot: Slot) -> Vec<B256> {
        let mut all: Vec<B256> = self.decided.values().filter_map(|slots| slots.get(&slot)).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

pub(crate) fn batch(byte: u8) -> Batch {
    Batch::new(1, Address::ZERO, vec![Bytes::from(vec![byte])])
}
