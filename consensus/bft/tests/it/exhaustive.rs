//! Every reachable state of one slot with one Byzantine replica, on the real state machine.
//!
//! The correct replicas are the real ones. The Byzantine replica, wherever it sits, votes for everything at any time, proposes any
//! batch to any replica as a primary, reports any prepared batch in a view change, and opens its view by any NEW-VIEW that passes.
//! Correct primaries propose a batch of their own where the slot is empty. Every correct replica may lose patience at any time. In
//! no state may two batches both have the order votes that decide.
//!
//! The search stays small by reductions that lose nothing:
//! - PREPAREs of one batch arrive together, when they complete its quorum: receiving fewer changes no state.
//! - COMMITs are counted where they are sent: receiving them changes no vote.
//! - View changes go to the primary of their view, all at once: a replica that would join a view by them may lose patience
//!   instead.
//! - A NEW-VIEW that a replica has skipped is learned in the searches with crashes alone.
//! - The Byzantine report vouches for every batch in the highest view, since no rule counts vouching against a batch.

use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Base, Batch, Checked, Domain, Index, Input, NULL, Out, Protocol as _, Quorums, Signed, View,
    pbft::{
        Checkpoint, Config, Leaving, Msg, Mutation, NewView, Pbft, PrePrepare, Record, Report, Timer, ViewChange, Vote,
    },
};
use phalanx_world::{Space, explore, fingerprint, most, signed, work};
use std::{collections::BTreeSet, hash::Hash as _, sync::Arc};

const SLOT: u64 = 1;

/// Votes that count as a decision.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// A quorum of COMMITs of one view.
    OneView,
    /// A quorum of COMMITs of any views: how early state votes must not be added up.
    MixedViews,
}

struct Search {
    config: Arc<Config>,
    byzantine: BTreeSet<Index>,
    views: View,
    rule: Rule,
    batches: [Batch; 2],
    /// Crashes of correct replicas in one history. With any, batches that were asked for come late as well.
    crashes: usize,
}

#[derive(Clone)]
struct State {
    replicas: Vec<Option<Arc<Pbft>>>,
    /// Votes, view changes and new views that each correct replica has sent.
    sent: Vec<BTreeSet<Sent>>,
    changes: Vec<Vec<Arc<Signed<ViewChange>>>>,
    openings: Vec<Arc<Signed<NewView>>>,
    /// Durable records of each correct replica, and batches that it has asked for.
    logs: Vec<Arc<Vec<Record>>>,
    asked: Vec<BTreeSet<B256>>,
    crashes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Sent {
    Proposal(View, B256),
    Prepare(View, B256),
    Commit(View, B256),
}

impl Search {
    fn new(n: usize, f: usize, byzantine: &[u16], views: View, mutation: Option<Mutation>, rule: Rule) -> Self {
        let config = Config { mutation, ..Config::new(Quorums::new(n, f).expect("a legal size"), Domain::default()) };
        let batch = |byte| Batch::new(1, Address::ZERO, vec![Bytes::from(vec![byte])]);
        let byzantine = byzantine.iter().copied().map(Index).collect();
        Self { config: Arc::new(config), byzantine, views, rule, batches: [batch(1), batch(2)], crashes: 0 }
    }

    const fn with_crashes(mut self, crashes: usize) -> Self {
        self.crashes = crashes;
        self
    }

    fn n(&self) -> usize {
        self.config.quorums.n()
    }

    /// The batch of a correct primary.
    const fn own(&self, view: View) -> &Batch {
        &self.batches[(view % 2) as usize]
    }

    /// The states after a correct replica has done something, if that `counts`: it goes on, or it crashes with any prefix of its
    /// new records durable, and all effects before the next record.
    fn with(
        &self,
        state: &State,
        node: usize,
        act: impl FnOnce(&mut Pbft, &mut Vec<Out<Pbft>>),
        counts: impl FnOnce(&Pbft, &[Out<Pbft>]) -> bool,
    ) -> Vec<State> {
        let mut out = Vec::new();
        let mut replica = Pbft::clone(state.replicas[node].as_ref().expect("a correct replica"));
        act(&mut replica, &mut out);
        if !counts(&replica, &out) {
            return Vec::new();
        }
        let mut states = Vec::new();
        if state.crashes < self.crashes {
            let records: Vec<usize> =
                (0..out.len()).filter(|at| matches!(out[*at], Out::Persist(_))).chain([out.len()]).collect();
            for (durable, end) in records.into_iter().enumerate() {
                let mut crashed = state.clone();
                crashed.crashes += 1;
                let log = Arc::make_mut(&mut crashed.logs[node]);
                for effect in &out[..end] {
                    match effect {
                        Out::Persist(record) => log.push(record.clone()),
                        Out::Send(_, message) => self.keep(&mut crashed.sent[node], message),
                        _ => {}
                    }
                }
                debug_assert!(crashed.logs[node].len() >= durable);
                self.restart(&mut crashed, node);
                states.push(crashed);
            }
        }
        let mut state = state.clone();
        state.replicas[node] = Some(Arc::new(replica));
        self.note(&mut state, node, out);
        states.push(state);
        states
    }

    /// Opens a replica from its log.
    fn restart(&self, state: &mut State, node: usize) {
        let (mut out, log) = (Vec::new(), Arc::clone(&state.logs[node]));
        let me = Index(node as u16);
        let mut replica = Pbft::open(me, Arc::clone(&self.config), Base::default(), &log, &mut out);
        replica.on_input(0, Input::Pending(Some(0)), &mut out);
        state.asked[node].clear();
        state.replicas[node] = Some(Arc::new(replica));
        self.note(state, node, out);
    }

    /// Keeps a vote or proposal that was sent.
    fn keep(&self, sent: &mut BTreeSet<Sent>, message: &Msg) {
        match message {
            Msg::PrePrepare(PrePrepare { view, batch, .. }) => drop(sent.insert(Sent::Proposal(*view, batch.digest()))),
            Msg::Prepare(Vote { view, digest, .. }) => drop(sent.insert(Sent::Prepare(*view, *digest))),
            Msg::Commit(Vote { view, digest, .. }) => drop(sent.insert(Sent::Commit(*view, *digest))),
            _ => {}
        }
    }

    fn known(&self, digest: B256) -> Batch {
        self.batches.iter().find(|batch| batch.digest() == digest).expect("only known batches are chosen").clone()
    }

    /// Keeps what was sent; signs, fetches and proposes at once.
    fn note(&self, state: &mut State, node: usize, out: Vec<Out<Pbft>>) {
        let me = Index(node as u16);
        for effect in out {
            let mut more = Vec::new();
            let replica = Arc::make_mut(state.replicas[node].as_mut().expect("a correct replica"));
            match effect {
                Out::Persist(record) if self.crashes > 0 => Arc::make_mut(&mut state.logs[node]).push(record),
                Out::Send(_, message @ (Msg::PrePrepare(_) | Msg::Prepare(_) | Msg::Commit(_))) => {
                    self.keep(&mut state.sent[node], &message);
                }
                Out::Send(_, Msg::ViewChange(leaving)) => state.changes[node].push(Arc::new(leaving.change)),
                Out::Send(_, Msg::NewView(signed)) => state.openings.push(Arc::new(signed)),
                Out::Send(_, Msg::Fetch(fetch)) if self.crashes > 0 => drop(state.asked[node].insert(fetch.digest)),
                Out::Send(_, Msg::Fetch(fetch)) => {
                    let fetched = trusted(Msg::Fetched(self.known(fetch.digest)));
                    replica.on_message(0, self.other(me), fetched, &mut more);
                }
                Out::Work { job, crypto } => replica.on_input(0, work(me, job, crypto, false), &mut more),
                _ => {}
            }
            self.note(state, node, more);
        }
        // A correct primary proposes as soon as it can, unless the view change has filled the slot.
        let replica = state.replicas[node].as_ref().expect("a correct replica");
        let view = replica.view();
        if replica.room() == self.config.window() && state.sent[node].iter().all(|sent| !is_proposal(sent, view)) {
            let mut out = Vec::new();
            let batch = self.own(view).clone();
            Arc::make_mut(state.replicas[node].as_mut().expect("a correct replica")).on_input(
                0,
                Input::Batch(batch),
                &mut out,
            );
            self.note(state, node, out);
        }
    }

    fn other(&self, me: Index) -> Index {
        Index(u16::from(me.0 == 0))
    }

    /// Reports that the Byzantine replica may make for a view: everything vouched for, and one batch or none prepared.
    fn reports(&self, view: View) -> Vec<ViewChange> {
        let mut digests: Vec<B256> = self.batches.iter().map(Batch::digest).chain([NULL]).collect();
        digests.sort_unstable();
        let vouched = |digest: &B256| Report { slot: SLOT, digest: *digest, view: view - 1 };
        let prepared =
            digests.iter().flat_map(|digest| (0..view).map(|view| vec![Report { slot: SLOT, digest: *digest, view }]));
        std::iter::once(Vec::new())
            .chain(prepared)
            .map(|prepared| ViewChange {
                view,
                stable: Checkpoint::default(),
                prepared,
                preprepared: digests.iter().map(vouched).collect(),
            })
            .collect()
    }

    /// Sets of view changes that a primary may see: those of correct replicas, and one of each Byzantine one.
    fn change_sets(&self, state: &State, view: View, primary: usize) -> Vec<Vec<Arc<Signed<ViewChange>>>> {
        let of_view = |node: usize| state.changes[node].iter().find(|change| change.body.view == view).cloned();
        let correct: Vec<_> = (0..self.n()).filter(|node| *node != primary).filter_map(of_view).collect();
        let liar = *self.byzantine.first().expect("one Byzantine replica");
        let mut lies: Vec<Option<Arc<Signed<ViewChange>>>> = vec![None];
        if usize::from(liar.0) != primary {
            lies.extend(
                self.reports(view).into_iter().map(|body| Some(Arc::new(signed(liar, body, Domain::default())))),
            );
        }
        let mut sets = Vec::new();
        for mask in 0..1u32 << correct.len() {
            for lie in &lies {
                let chosen = correct.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, c)| c.clone());
                let set: Vec<_> = chosen.chain(lie.clone()).collect();
                if set.len() + 1 >= self.config.quorums.available() {
                    sets.push(set);
                }
            }
        }
        sets
    }

    /// Delivers a proposal: the correct primary's, or anything from a Byzantine one.
    fn propose(&self, state: &State, node: usize, view: View, primary: Index, next: &mut Vec<State>) {
        for batch in &self.batches {
            let proposal = Sent::Proposal(view, batch.digest());
            if self.byzantine.contains(&primary) || state.sent[usize::from(primary.0)].contains(&proposal) {
                let message = Msg::PrePrepare(PrePrepare { view, slot: SLOT, batch: batch.clone() });
                let deliver =
                    |replica: &mut Pbft, out: &mut Vec<_>| replica.on_message(0, primary, trusted(message), out);
                next.extend(self.with(state, node, deliver, |_, out| out.iter().any(is_vote)));
            }
        }
    }

    /// Delivers all PREPAREs of the accepted batch.
    fn prepare(&self, state: &State, node: usize, view: View, next: &mut Vec<State>) {
        let primary = self.config.primary(view);
        let accepted = state.sent[node].iter().find_map(|sent| match sent {
            Sent::Prepare(of, digest) | Sent::Proposal(of, digest) if *of == view => Some(*digest),
            _ => None,
        });
        // A primary votes for what its NEW-VIEW says.
        let opened = state.openings.iter().find(|o| o.body.view == view).and_then(|o| o.body.choices.first().copied());
        let Some(digest) = accepted.or(opened) else { return };
        let vote = Vote { view, slot: SLOT, digest };
        let deliver = |replica: &mut Pbft, out: &mut Vec<Out<Pbft>>| {
            for from in (0..self.n()).filter(|from| *from != node).map(|from| Index(from as u16)) {
                let votes = self.byzantine.contains(&from)
                    || state.sent[usize::from(from.0)].contains(&Sent::Prepare(view, digest));
                if votes && from != primary {
                    replica.on_message(0, from, trusted(Msg::Prepare(vote)), out);
                }
            }
        };
        next.extend(self.with(state, node, deliver, |_, out| out.iter().any(is_vote)));
    }

    fn enter(&self, state: &State, node: usize, opening: &Arc<Signed<NewView>>, next: &mut Vec<State>) {
        let replica = state.replicas[node].as_ref().expect("a correct replica");
        let (view, from) = (opening.body.view, opening.signer);
        let learns = self.crashes > 0 && view > replica.opened();
        if (view < replica.view() || view == replica.view() && replica.is_active()) && !learns {
            return;
        }
        let message = trusted(Msg::NewView((**opening).clone()));
        let deliver = |replica: &mut Pbft, out: &mut Vec<_>| replica.on_message(0, from, message, out);
        next.extend(self.with(state, node, deliver, |entered, _| entered.opened() == view));
    }

    /// Every NEW-VIEW that a Byzantine primary may send; replicas refuse those that do not follow.
    fn lies(&self, state: &State, view: View, liar: Index) -> Vec<Arc<Signed<NewView>>> {
        let digests = self.batches.iter().map(Batch::digest).chain([NULL]);
        let choices: Vec<Vec<B256>> = std::iter::once(Vec::new()).chain(digests.map(|digest| vec![digest])).collect();
        let mut lies = Vec::new();
        for set in self.change_sets(state, view, usize::from(liar.0)) {
            for own in self.reports(view) {
                let mut changes: Vec<_> = set.iter().map(|change| (**change).clone()).collect();
                changes.push(signed(liar, own, Domain::default()));
                changes.sort_unstable_by_key(|change| change.signer);
                for choices in &choices {
                    let (changes, choices) = (changes.clone(), choices.clone());
                    let (stable, proof) = (Checkpoint::default(), Vec::new());
                    let body = NewView { view, changes, stable, proof, choices };
                    lies.push(Arc::new(signed(liar, body, Domain::default())));
                }
            }
        }
        lies
    }

    /// Batches that enough order votes are out for.
    fn voted(&self, state: &State, rule: Rule) -> BTreeSet<B256> {
        let voted: BTreeSet<(View, B256)> = state
            .sent
            .iter()
            .flatten()
            .filter_map(|sent| match sent {
                Sent::Commit(view, digest) => Some((*view, *digest)),
                _ => None,
            })
            .collect();
        let count = |view: View, digest: B256| {
            let votes = |sent: &&BTreeSet<Sent>| match rule {
                Rule::OneView => sent.contains(&Sent::Commit(view, digest)),
                Rule::MixedViews => sent.iter().any(|s| matches!(s, Sent::Commit(_, d) if *d == digest)),
            };
            state.sent.iter().filter(votes).count() + self.byzantine.len()
        };
        let quorum = match self.config.mutation {
            Some(Mutation::TwoFPlusOne) => 2 * self.config.quorums.f() + 1,
            _ => self.config.quorums.quorum(),
        };
        voted.into_iter().filter(|(view, digest)| count(*view, *digest) >= quorum).map(|(_, digest)| digest).collect()
    }
}

impl Space for Search {
    type State = State;

    fn initial(&self) -> State {
        let n = self.n();
        let mut state = State {
            replicas: vec![None; n],
            sent: vec![BTreeSet::new(); n],
            changes: vec![Vec::new(); n],
            openings: Vec::new(),
            logs: vec![Arc::default(); n],
            asked: vec![BTreeSet::new(); n],
            crashes: 0,
        };
        for node in (0..n).filter(|node| !self.byzantine.contains(&Index(*node as u16))) {
            let mut out = Vec::new();
            let mut replica = Pbft::open(Index(node as u16), Arc::clone(&self.config), Base::default(), &[], &mut out);
            replica.on_input(0, Input::Pending(Some(0)), &mut out);
            state.replicas[node] = Some(Arc::new(replica));
            self.note(&mut state, node, out);
        }
        state
    }

    /// Views, journals, and everything sent.
    fn key(&self, state: &State) -> u128 {
        fingerprint(|hasher| {
            for node in 0..self.n() {
                if let Some(replica) = &state.replicas[node] {
                    (replica.view(), replica.is_active(), replica.opened()).hash(hasher);
                }
                if self.crashes > 0 {
                    format!("{:?}", state.logs[node]).hash(hasher);
                    (&state.asked[node], state.crashes).hash(hasher);
                }
                state.sent[node].hash(hasher);
                state.changes[node].hash(hasher);
            }
            let openings: BTreeSet<_> = state.openings.iter().map(|o| (o.body.view, &o.body.choices)).collect();
            openings.hash(hasher);
        })
    }

    fn successors(&self, state: &State, next: &mut Vec<State>) {
        for node in 0..self.n() {
            let Some(replica) = &state.replicas[node] else { continue };
            let (view, me) = (replica.view(), Index(node as u16));
            let primary = self.config.primary(view);
            if replica.is_active() {
                self.propose(state, node, view, primary, next);
                self.prepare(state, node, view, next);
            }
            if view < self.views {
                let timer = if replica.is_active() { Timer::Progress } else { Timer::NewView };
                // Complaints promise nothing: a replica may leave its view whenever it wants.
                let leave = |replica: &mut Pbft, out: &mut Vec<Out<Pbft>>| {
                    for other in (0..self.n() as u16).map(Index).filter(|other| *other != me) {
                        replica.on_message(0, other, trusted(Msg::Complaint(view)), out);
                    }
                    replica.on_timer(0, timer, out);
                };
                next.extend(self.with(state, node, leave, |_, _| true));
            }
            if !replica.is_active() && primary == me {
                for set in self.change_sets(state, view, node) {
                    let deliver = |replica: &mut Pbft, out: &mut Vec<Out<Pbft>>| {
                        for change in set {
                            let leaving = Leaving { change: (*change).clone(), proof: Vec::new() };
                            replica.on_message(0, leaving.change.signer, trusted(Msg::ViewChange(leaving)), out);
                        }
                    };
                    let opened = self.with(state, node, deliver, |_, out| !out.is_empty());
                    next.extend(opened.into_iter().filter(|opened| {
                        opened.openings.len() > state.openings.len() || opened.crashes > state.crashes
                    }));
                }
            }
            for digest in &state.asked[node] {
                let (from, fetched) = (self.other(me), trusted(Msg::Fetched(self.known(*digest))));
                let deliver = |replica: &mut Pbft, out: &mut Vec<_>| replica.on_message(0, from, fetched, out);
                next.extend(self.with(state, node, deliver, |_, out| !out.is_empty()));
            }
            for opening in &state.openings {
                self.enter(state, node, opening, next);
            }
            for of in view.max(1)..=self.views {
                let liar = self.config.primary(of);
                if self.byzantine.contains(&liar) && (of > view || !replica.is_active()) {
                    for opening in self.lies(state, of, liar) {
                        self.enter(state, node, &opening, next);
                    }
                }
            }
        }
    }

    /// Batches that enough order votes of one view are out for.
    fn decidable(&self, state: &State) -> BTreeSet<B256> {
        self.voted(state, Rule::OneView)
    }

    fn is_broken(&self, state: &State, decidable: &BTreeSet<B256>) -> bool {
        decidable.union(&self.voted(state, self.rule)).count() > 1
    }
}

const fn is_vote(out: &Out<Pbft>) -> bool {
    matches!(out, Out::Send(_, Msg::Prepare(_) | Msg::Commit(_)))
}

const fn is_proposal(sent: &Sent, view: View) -> bool {
    matches!(sent, Sent::Proposal(of, _) if *of == view)
}

fn trusted(message: Msg) -> Checked<Msg> {
    Checked::new(message, Domain::default(), |_| true).expect("nothing is refused")
}

/// Visits every state with the Byzantine replica in one place, or the first ones up to a limit.
fn agrees(byzantine: u16, limit: usize) {
    let visits = explore(&Search::new(4, 1, &[byzantine], 2, None, Rule::OneView), limit);
    println!("n = 4, Byzantine {byzantine}: {visits}");
    assert!(visits.agree());
}

#[test]
fn no_reachable_state_decides_two_batches_behind_a_byzantine_first_primary() {
    agrees(0, most(60_000));
}

#[test]
fn no_reachable_state_decides_two_batches_behind_a_byzantine_second_primary() {
    agrees(1, most(60_000));
}

#[test]
fn no_reachable_state_decides_two_batches_behind_a_byzantine_third_primary() {
    agrees(2, most(20_000));
}

#[test]
fn no_reachable_state_decides_two_batches_beside_a_byzantine_backup() {
    agrees(3, usize::MAX);
}

#[test]
fn no_reachable_state_decides_two_batches_where_n_is_not_3f_plus_1() {
    let visits = explore(&Search::new(5, 1, &[0], 1, None, Rule::OneView), usize::MAX);
    println!("n = 5: {visits}");
    assert!(visits.agree());
    // Two liars among eight, one view: quorums of six.
    let visits = explore(&Search::new(8, 2, &[0, 1], 0, None, Rule::OneView), usize::MAX);
    println!("n = 8: {visits}");
    assert!(visits.agree());
}

#[test]
fn the_search_finds_quorums_of_2f_plus_1_at_n_8() {
    let search = Search::new(8, 2, &[0, 1], 0, Some(Mutation::TwoFPlusOne), Rule::OneView);
    assert!(explore(&search, usize::MAX).broken);
}

#[test]
fn the_search_finds_each_rule_of_the_view_change_that_is_dropped() {
    // Behind the first primary, no state shows that the null request comes too soon.
    for (mutation, byzantine) in [(Mutation::NoA1, 0), (Mutation::NoA2, 0), (Mutation::NullTooSoon, 1)] {
        let search = Search::new(4, 1, &[byzantine], 2, Some(mutation), Rule::OneView);
        assert!(explore(&search, usize::MAX).broken, "{mutation:?} is not noticed");
    }
}

#[test]
fn the_search_finds_early_votes_that_are_mixed_over_views() {
    assert!(explore(&Search::new(4, 1, &[0], 3, None, Rule::MixedViews), 3_000_000).broken);
}

/// Visits states in which a correct replica crashes after any prefix of its records, and in which fetched batches come late.
fn survives(byzantine: u16) -> bool {
    let search = Search::new(4, 1, &[byzantine], 1, None, Rule::OneView).with_crashes(1);
    let visits = explore(&search, most(15_000));
    println!("Byzantine {byzantine}, a crash: {visits}");
    assert!(visits.broken || visits.decided > 0);
    !visits.broken
}

#[test]
fn no_crash_after_any_record_and_no_late_batch_lets_two_batches_be_decided() {
    assert!((0..3).all(survives));
}
