//! Reachable states of one slot with one Byzantine replica, on the real state machine: every one, or the first ones up to a limit.
//!
//! The correct replicas are the real ones. The Byzantine replica, wherever it sits, signs everything at any time, proposes any
//! batch to any replica as a primary, and reports anything in a view change. Correct primaries propose a batch of their own where
//! the slot is empty. Every correct replica may lose patience at any time. In no state may two batches both have the shares of a
//! decision, on whatever path and in whatever view.
//!
//! The search stays small by reductions that lose nothing:
//! - Collectors are left out: a certificate may reach any replica at any time once enough shares over it are out. No collector,
//!   correct or not, can do more.
//! - Decisions are counted where their shares are sent. A replica that learns one reports its proof, which can only bring the next
//!   view to the decided batch; so none is delivered.
//! - View changes reach the primary of their view all at once: a replica that would join a view by them may lose patience instead.
//! - Correct replicas that lead no view are interchangeable, but for searches with crashes: of states that differ in their names
//!   alone, one is visited.

use super::lab::{batch, certificate, signed};
use alloy_primitives::B256;
use phalanx_bft::{
    Base, Batch, Checked, Domain, Index, Input, Out, Protocol as _, Quorums, Signed, View,
    sbft::{Config, Msg, Mutation, NewView, PrePrepare, Proposal, Record, Sbft, Timer, ViewChange, Vote},
};
use phalanx_world::{Space, explore, fingerprint, most, work};
use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    hash::Hash as _,
    sync::Arc,
};

const SLOT: u64 = 1;

pub(super) struct Search {
    config: Arc<Config>,
    byzantine: u16,
    views: View,
    batches: [Batch; 2],
    /// Crashes of correct replicas in one history.
    crashes: usize,
    /// Batch of slot 2 that the Byzantine primary of view 0 has shown to a single replica, and that no other ever gets. A view
    /// change that keeps it fills the slot with the null filler, if that is empty.
    lost: Option<Batch>,
}

#[derive(Clone)]
pub(super) struct State {
    pub(super) replicas: Vec<Option<Arc<Sbft>>>,
    /// Proposals and shares that each correct replica has sent.
    sent: Vec<BTreeSet<Sent>>,
    changes: Vec<Vec<Arc<Signed<ViewChange>>>>,
    openings: Vec<Arc<Signed<NewView>>>,
    logs: Vec<Arc<Vec<Record>>>,
    crashes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Sent {
    Proposal(View, B256),
    /// Share of τ, and of σ if true.
    Share(View, B256, bool),
    Commit(View, B256),
}

impl Search {
    pub(super) fn new(n: usize, byzantine: u16, views: View, mutation: Option<Mutation>) -> Self {
        let config = Config { mutation, ..Config::new(Quorums::new(n, 1).expect("a legal size"), Domain::default()) };
        Self { config: Arc::new(config), byzantine, views, batches: [batch(1), batch(2)], crashes: 0, lost: None }
    }

    const fn with_crashes(mut self, crashes: usize) -> Self {
        self.crashes = crashes;
        self
    }

    fn with_lost_batch(mut self) -> Self {
        assert_eq!(self.byzantine, 0, "the primary of view 0 proposes it");
        self.lost = Some(batch(3));
        self
    }

    /// The accepted vote for the lost batch.
    fn lost_vote(&self) -> Option<Vote> {
        self.lost.as_ref().map(|batch| Vote { view: 0, slot: SLOT + 1, digest: batch.digest() })
    }

    fn n(&self) -> usize {
        self.config.quorums.n()
    }

    /// Opens a replica from its log.
    fn start(&self, state: &mut State, node: usize) {
        let (mut out, log) = (Vec::new(), Arc::clone(&state.logs[node]));
        let me = Index(node as u16);
        let mut replica = Sbft::open(me, Arc::clone(&self.config), Base::default(), &log, &mut out);
        replica.on_input(0, Input::Pending(Some(0)), &mut out);
        state.replicas[node] = Some(Arc::new(replica));
        self.note(state, node, out);
    }

    /// The states after a correct replica has done something, if that counts: it goes on, or it crashes with any prefix of its new
    /// records durable, and all effects before the next record.
    fn with(
        &self,
        state: &State,
        node: usize,
        act: impl FnOnce(&mut Sbft, &mut Vec<Out<Sbft>>),
        counts: impl FnOnce(&Sbft) -> bool,
    ) -> Vec<State> {
        let mut out = Vec::new();
        let mut replica = Sbft::clone(state.replicas[node].as_ref().expect("a correct replica"));
        act(&mut replica, &mut out);
        if !counts(&replica) {
            return Vec::new();
        }
        // Signatures are made at once. What follows from them comes behind what is due already.
        let mut due = VecDeque::from(core::mem::take(&mut out));
        let mut kept = Vec::new();
        while let Some(effect) = due.pop_front() {
            let Out::Work { job, crypto } = effect else {
                out.push(effect);
                continue;
            };
            let mut more = Vec::new();
            replica.on_input(0, work(Index(node as u16), job, crypto, false), &mut more);
            due.extend(more);
            // A collector keeps its own share to itself.
            kept.push((out.len(), shares(&replica)));
        }
        let mut states = Vec::new();
        if state.crashes < self.crashes {
            let ends = (0..out.len()).filter(|at| matches!(out[*at], Out::Persist(_))).chain([out.len()]);
            for end in ends {
                let mut crashed = state.clone();
                crashed.crashes += 1;
                let log = Arc::make_mut(&mut crashed.logs[node]);
                for effect in &out[..end] {
                    match effect {
                        Out::Persist(record) => log.push(record.clone()),
                        Out::Send(_, message) => keep(&mut crashed.sent[node], message),
                        _ => {}
                    }
                }
                let made = kept.iter().filter(|(at, _)| *at <= end).flat_map(|(_, own)| own);
                crashed.sent[node].extend(made.copied());
                self.start(&mut crashed, node);
                states.push(crashed);
            }
        }
        let mut state = state.clone();
        state.replicas[node] = Some(Arc::new(replica));
        self.note(&mut state, node, out);
        states.push(state);
        states
    }

    /// Keeps what was sent; signs, fetches and proposes at once.
    fn note(&self, state: &mut State, node: usize, out: Vec<Out<Sbft>>) {
        let me = Index(node as u16);
        for effect in out {
            let mut more = Vec::new();
            let replica = Arc::make_mut(state.replicas[node].as_mut().expect("a correct replica"));
            match effect {
                Out::Persist(record) if self.crashes > 0 => Arc::make_mut(&mut state.logs[node]).push(record),
                Out::Send(_, Msg::ViewChange(change)) => {
                    let known = state.changes[node].iter().any(|known| known.body.view == change.body.view);
                    state.changes[node].extend((!known).then(|| Arc::new(change)));
                }
                Out::Send(_, Msg::NewView(opening)) => state.openings.push(Arc::new(opening)),
                Out::Send(_, Msg::Fetch(digest)) => {
                    // The lost batch stays lost.
                    let known = self.batches.iter().find(|batch| batch.digest() == digest);
                    if let Some(fetched) = known.map(|batch| trusted(Msg::Fetched(batch.clone()))) {
                        replica.on_message(0, Index(u16::from(node == 0)), fetched, &mut more);
                    }
                }
                Out::Send(_, message) => keep(&mut state.sent[node], &message),
                Out::Work { job, crypto } => replica.on_input(0, work(me, job, crypto, false), &mut more),
                _ => {}
            }
            self.note(state, node, more);
        }
        // A collector keeps its own share to itself, and a correct primary proposes as soon as it can.
        let replica = state.replicas[node].as_ref().expect("a correct replica");
        let view = replica.view();
        if replica.is_active() {
            for own in shares(replica) {
                state.sent[node].insert(own);
            }
        }
        let replica = state.replicas[node].as_mut().expect("a correct replica");
        let free = replica.room() > 0 && replica.free_slot() == SLOT;
        if free && !state.sent[node].iter().any(|sent| matches!(sent, Sent::Proposal(of, _) if *of == view)) {
            let mut out = Vec::new();
            let own = self.batches[(view % 2) as usize].clone();
            Arc::make_mut(replica).on_input(0, Input::Batch(own), &mut out);
            self.note(state, node, out);
        }
    }

    /// Certificates of τ that enough shares are out for.
    fn certificates(&self, state: &State) -> Vec<Vote> {
        self.voted(state, self.config.slow(), |sent| match sent {
            Sent::Share(view, digest, _) => Some((*view, *digest)),
            _ => None,
        })
    }

    fn voted(&self, state: &State, needed: usize, of: impl Fn(&Sent) -> Option<(View, B256)>) -> Vec<Vote> {
        let all: BTreeSet<(View, B256)> = state.sent.iter().flatten().filter_map(&of).collect();
        let count =
            |vote: &(View, B256)| state.sent.iter().filter(|sent| sent.iter().any(|s| of(s) == Some(*vote))).count();
        // The Byzantine replica signs all.
        let enough = all.into_iter().filter(|vote| count(vote) + 1 >= needed);
        enough.map(|(view, digest)| Vote { view, slot: SLOT, digest }).collect()
    }

    /// Reports of the Byzantine replica for a view: any accepted batch in any view, and any certificate that there is.
    fn reports(&self, state: &State, view: View) -> Vec<ViewChange> {
        let mut accepted = vec![Vec::new()];
        for batch in &self.batches {
            accepted.extend((0..view).map(|view| vec![Vote { view, slot: SLOT, digest: batch.digest() }]));
        }
        if let Some(lost) = self.lost_vote() {
            accepted.extend(accepted.clone().into_iter().map(|first| [first, vec![lost]].concat()));
        }
        let mut prepared = vec![Vec::new()];
        let known = self.certificates(state).into_iter().filter(|vote| vote.view < view);
        prepared.extend(known.map(|vote| vec![certificate(vote)]));
        let mut reports = Vec::new();
        for accepted in &accepted {
            for prepared in &prepared {
                let (accepted, prepared) = (accepted.clone(), prepared.clone());
                reports.push(ViewChange { view, accepted, prepared, ..ViewChange::default() });
            }
        }
        reports
    }

    /// NEW-VIEWs that may open a view: from every set of n-f view changes or more, those of correct replicas as they are.
    fn openings(&self, state: &State, view: View) -> Vec<Arc<Signed<NewView>>> {
        let primary = usize::from(self.config.primary(view).0);
        let of_view = |node: usize| state.changes[node].iter().find(|change| change.body.view == view);
        let correct: Vec<_> = (0..self.n()).filter_map(|node| Some((node, of_view(node)?))).collect();
        let lies: Vec<_> = self.reports(state, view).into_iter().map(|body| signed(self.byzantine, body)).collect();
        let mut choices = HashSet::new();
        let mut openings = Vec::new();
        for mask in 0..1u32 << correct.len() {
            let chosen = correct.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, change)| change);
            let honest: Vec<_> = chosen.collect();
            // A correct primary has its own view change.
            if primary != usize::from(self.byzantine) && honest.iter().all(|(node, _)| *node != primary) {
                continue;
            }
            for lie in core::iter::once(None).chain(lies.iter().map(Some)) {
                let mut changes: Vec<_> = honest.iter().map(|(_, change)| (***change).clone()).collect();
                changes.extend(lie.cloned());
                if changes.len() < self.config.quorums.available() {
                    continue;
                }
                changes.sort_unstable_by_key(|change| change.signer);
                let opening = signed(primary as u16, NewView { view, changes });
                // Replicas act by the choice alone.
                if choices.insert(Sbft::choices(&self.config, &opening)) {
                    openings.push(Arc::new(opening));
                }
            }
        }
        openings
    }

    /// Delivers a proposal: the correct primary's, or anything from a Byzantine one.
    fn propose(&self, state: &State, node: usize, view: View, next: &mut Vec<State>) {
        let primary = self.config.primary(view);
        for batch in &self.batches {
            let sent = Sent::Proposal(view, batch.digest());
            if primary.0 == self.byzantine || state.sent[usize::from(primary.0)].contains(&sent) {
                let vote = Vote { view, slot: SLOT, digest: batch.digest() };
                let proposal = PrePrepare { signed: signed(primary.0, Proposal(vote)), batch: batch.clone() };
                let message = trusted(Msg::PrePrepare(proposal));
                let before = state.replicas[node].as_ref().and_then(|replica| replica.accepted_vote(SLOT));
                let deliver = |replica: &mut Sbft, out: &mut Vec<_>| replica.on_message(0, primary, message, out);
                next.extend(self.with(state, node, deliver, |replica| {
                    replica.accepted_vote(SLOT) != before && replica.accepted_vote(SLOT) == Some(vote)
                }));
            }
        }
    }

    /// True if a replica may be any other one of which this is true: a correct one that leads no view and has no batch of its own.
    fn is_plain(&self, node: usize) -> bool {
        let leads = (0..=self.views).any(|view| usize::from(self.config.primary(view).0) == node);
        self.crashes == 0 && !leads && node != usize::from(self.byzantine) && self.lost.is_none()
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
            crashes: 0,
        };
        for node in (0..n).filter(|node| *node != usize::from(self.byzantine)) {
            self.start(&mut state, node);
        }
        if let (Some(vote), Some(batch)) = (self.lost_vote(), self.lost.clone()) {
            let message = trusted(Msg::PrePrepare(PrePrepare { signed: signed(0, Proposal(vote)), batch }));
            let mut out = Vec::new();
            let replica = Arc::make_mut(state.replicas[1].as_mut().expect("a correct replica"));
            replica.on_message(0, Index(0), message, &mut out);
            self.note(&mut state, 1, out);
        }
        state
    }

    /// Views, reports, and everything sent.
    fn key(&self, state: &State) -> u128 {
        let of_node = |node: &usize| {
            fingerprint(|hasher| {
                if let Some(replica) = &state.replicas[*node] {
                    (replica.view(), replica.is_active(), replica.opened()).hash(hasher);
                    (replica.accepted_vote(SLOT), replica.prepared_views(SLOT)).hash(hasher);
                    replica.accepted_vote(SLOT + 1).hash(hasher);
                    replica.free_slot().hash(hasher);
                }
                if self.crashes > 0 {
                    format!("{:?}", state.logs[*node]).hash(hasher);
                    state.crashes.hash(hasher);
                }
                state.sent[*node].hash(hasher);
                state.changes[*node].iter().for_each(|change| change.body.hash(hasher));
            })
        };
        let (plain, named): (Vec<usize>, Vec<usize>) = (0..self.n()).partition(|node| self.is_plain(*node));
        let named: Vec<u128> = named.iter().map(of_node).collect();
        let mut plain: Vec<u128> = plain.iter().map(of_node).collect();
        plain.sort_unstable();
        let choices = |opening: &Arc<Signed<NewView>>| (opening.body.view, Sbft::choices(&self.config, opening));
        let openings: BTreeSet<_> = state.openings.iter().map(choices).collect();
        fingerprint(|hasher| (&named, &plain, &openings).hash(hasher))
    }

    fn successors(&self, state: &State, next: &mut Vec<State>) {
        for node in 0..self.n() {
            let Some(replica) = &state.replicas[node] else { continue };
            let (view, me) = (replica.view(), Index(node as u16));
            if replica.is_active() {
                self.propose(state, node, view, next);
                for vote in self.certificates(state).into_iter().filter(|vote| vote.view == view) {
                    let from = Index(u16::from(node == 0));
                    let message = trusted(Msg::Prepare(certificate(vote)));
                    let before = replica.prepared_views(SLOT);
                    let deliver = |replica: &mut Sbft, out: &mut Vec<_>| replica.on_message(0, from, message, out);
                    next.extend(self.with(state, node, deliver, |replica| replica.prepared_views(SLOT) != before));
                }
            }
            if view < self.views {
                let timer = if replica.is_active() { Timer::Progress } else { Timer::NewView };
                // Complaints promise nothing: a replica may leave its view whenever it wants.
                let leave = |replica: &mut Sbft, out: &mut Vec<Out<Sbft>>| {
                    for other in (0..self.n() as u16).map(Index).filter(|other| *other != me) {
                        replica.on_message(0, other, trusted(Msg::Complaint(view)), out);
                    }
                    replica.on_timer(0, timer, out);
                };
                next.extend(self.with(state, node, leave, |_| true));
            }
            for of in view.max(1)..=self.views {
                if of == view && replica.is_active() {
                    continue;
                }
                let primary = self.config.primary(of);
                // A correct primary opens a view once, a Byzantine one for every replica as it likes.
                let byzantine = primary.0 == self.byzantine;
                let opened: Vec<_> = state.openings.iter().filter(|opening| opening.body.view == of).cloned().collect();
                let openings = match (byzantine, opened.is_empty()) {
                    (false, false) => opened,
                    (false, true) if primary != me => continue,
                    _ => self.openings(state, of),
                };
                for opening in openings {
                    let message = trusted(Msg::NewView((*opening).clone()));
                    let deliver = |replica: &mut Sbft, out: &mut Vec<Out<Sbft>>| {
                        // The own NEW-VIEW is entered like that of another.
                        replica.on_message(0, Index(u16::from(node == 0)), message, out);
                    };
                    let mut entered =
                        self.with(state, node, deliver, |replica| replica.is_active() && replica.view() == of);
                    if primary == me {
                        entered.iter_mut().for_each(|state| state.openings.push(Arc::clone(&opening)));
                    }
                    next.extend(entered);
                }
            }
        }
    }

    /// Batches that enough shares for a decision are out for.
    fn decidable(&self, state: &State) -> BTreeSet<B256> {
        let fast = self.voted(state, self.config.fast(), |sent| match sent {
            Sent::Share(view, digest, true) => Some((*view, *digest)),
            _ => None,
        });
        let slow = self.voted(state, self.config.slow(), |sent| match sent {
            Sent::Commit(view, digest) => Some((*view, *digest)),
            _ => None,
        });
        fast.into_iter().chain(slow).map(|vote| vote.digest).collect()
    }
}

/// Shares that a replica has made in its view.
fn shares(replica: &Sbft) -> Vec<Sent> {
    let (share, commit) = replica.own_votes(SLOT);
    let share = share.map(|(vote, fast)| Sent::Share(vote.view, vote.digest, fast));
    share.into_iter().chain(commit.map(|vote| Sent::Commit(vote.view, vote.digest))).collect()
}

/// Keeps a proposal or share that was sent.
fn keep(sent: &mut BTreeSet<Sent>, message: &Msg) {
    match message {
        Msg::PrePrepare(proposal) if proposal.signed.body.0.slot == SLOT => {
            let vote = proposal.signed.body.0;
            sent.insert(Sent::Proposal(vote.view, vote.digest));
        }
        Msg::SignShare(share) if share.vote.slot == SLOT => {
            sent.insert(Sent::Share(share.vote.view, share.vote.digest, !share.fast.is_empty()));
        }
        Msg::Commit(share) if share.vote.slot == SLOT => {
            sent.insert(Sent::Commit(share.vote.view, share.vote.digest));
        }
        _ => {}
    }
}

fn trusted(message: Msg) -> Checked<Msg> {
    Checked::new(message, Domain::default(), |_| true).expect("nothing is refused")
}

fn agrees(n: usize, byzantine: u16, views: View, states: usize) {
    let visits = explore(&Search::new(n, byzantine, views, None), states);
    println!("n = {n}, Byzantine {byzantine}, {views} view changes: {visits}");
    assert!(visits.agree());
}

#[test]
fn no_reachable_state_of_four_replicas_decides_two_batches() {
    for byzantine in 0..4 {
        agrees(4, byzantine, 1, usize::MAX);
        agrees(4, byzantine, 2, most(10_000));
    }
}

#[test]
fn no_reachable_state_of_six_replicas_decides_two_batches() {
    for byzantine in [0, 1, 5] {
        agrees(6, byzantine, 1, most(6_000));
    }
}

#[test]
fn the_search_finds_each_rule_that_is_dropped() {
    for (n, mutation) in [
        (4, Mutation::ExactPairs),
        (4, Mutation::FastFirst),
        (4, Mutation::SlowOnly),
        (4, Mutation::FastAtSlow),
        (6, Mutation::SlowOnly),
        (6, Mutation::FastAtSlow),
    ] {
        let views = if n == 4 { 2 } else { 1 };
        let search = |byzantine| Search::new(n, byzantine, views, Some(mutation));
        let found = (0..n as u16).find(|byzantine| explore(&search(*byzantine), 400_000).broken);
        println!("n = {n}, {mutation:?}: found with Byzantine {found:?}");
        assert!(found.is_some(), "{mutation:?} is not noticed");
    }
}

/// A null filler below a batch that only one replica has: decided, it stays.
#[test]
fn no_reachable_state_decides_beside_a_null_filler() {
    let search = |mutation| Search::new(4, 0, 2, mutation).with_lost_batch();
    let visits = explore(&search(None), most(20_000));
    println!("a lost batch: {visits}");
    assert!(visits.agree());
    let freed = explore(&search(Some(Mutation::FreedNull)), 400_000);
    assert!(freed.broken, "a null filler that is freed is not noticed");
}

/// The search with crashes notices a COMMIT that leaves before its record is durable.
#[test]
fn a_crash_finds_a_share_that_is_not_durable() {
    let mutation = Some(Mutation::ShareBeforeDurable);
    let search = |byzantine| Search::new(4, byzantine, 1, mutation).with_crashes(1);
    let found = (0..4).find(|byzantine| explore(&search(*byzantine), 100_000).broken);
    println!("{mutation:?}: found with Byzantine {found:?}");
    assert!(found.is_some(), "a share that is not durable is not noticed");
}

#[test]
fn no_crash_after_any_record_lets_two_batches_be_decided() {
    for byzantine in 0..3 {
        let visits = explore(&Search::new(4, byzantine, 1, None).with_crashes(1), most(8_000));
        println!("Byzantine {byzantine}, a crash: {visits}");
        assert!(visits.agree());
    }
}
