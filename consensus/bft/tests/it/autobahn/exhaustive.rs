//! Every reachable state of one slot with one Byzantine replica, on the real agreement of a slot.
//!
//! The correct replicas are real [`Instance`]s. The Byzantine one votes for both values in all views, proposes either value to any
//! replica as a leader, and reports any value of any view; it names certificates only where enough votes are out. Every correct
//! replica may lose patience at any time, every complaint may come late or never. In no state may two values both have the votes
//! that decide.
//!
//! Messages are never lost, only late: what has been sent is a set that grows, and a state is that set and the replicas. A
//! leader's ticket is chosen out of all that the complaints allow. Votes are counted where they are sent.

use alloy_primitives::{B256, Bytes};
use phalanx_bft::{
    Domain, Index, Quorums, Signed, View,
    autobahn::{Complaint, Config, Instance, Mark, Mutation, Phase, Qc, Step, Tc, Timeout, winner},
    lanes::Ballot,
};
use phalanx_world::{Space, explore, fingerprint, most};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::Hash as _,
};

const SLOT: u64 = 1;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Sent {
    Vote(View, B256),
    Ack(View, B256),
    /// View, highest certificate, vote of the highest view.
    Timeout(View, Mark, Mark),
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) replicas: BTreeMap<u16, Instance>,
    sent: BTreeMap<u16, BTreeSet<Sent>>,
    /// Values that correct leaders have proposed, with their tickets.
    proposals: BTreeSet<(View, B256, Option<u64>)>,
    tickets: BTreeMap<u64, Tc>,
}

pub(super) struct Search {
    config: Config,
    byzantine: u16,
    views: View,
    values: [B256; 2],
    /// False for the fast path alone: no certificate reaches a correct replica.
    slow: bool,
    /// True if the search begins when all have voted for one value in view 0: it may be decided on the fast path.
    decided: bool,
}

impl Search {
    pub(super) fn new(n: usize, f: usize, byzantine: u16, views: View, mutation: Option<Mutation>) -> Self {
        let config = Config { mutation, ..Config::new(Quorums::new(n, f).expect("a legal size"), Domain::default()) };
        Self {
            config,
            byzantine,
            views,
            values: [B256::repeat_byte(1), B256::repeat_byte(2)],
            slow: true,
            decided: false,
        }
    }

    const fn fast_only(mut self) -> Self {
        self.slow = false;
        self
    }

    pub(super) const fn after_a_fast_decision(mut self) -> Self {
        self.decided = true;
        self
    }

    const fn quorum(&self) -> usize {
        match self.config.mutation {
            Some(Mutation::TwoFPlusOne) => 2 * self.config.quorums.f() + 1,
            _ => self.config.quorums.available(),
        }
    }

    fn count(&self, state: &State, sent: &Sent) -> usize {
        state.sent.values().filter(|of| of.contains(sent)).count() + 1
    }

    fn qc(&self, view: View, digest: B256) -> Qc {
        let ballots = (0..self.quorum() as u16).map(|at| Ballot { signer: Index(at), signature: Bytes::new() });
        Qc { slot: SLOT, view, digest, phase: Phase::Prepare, ballots: ballots.collect() }
    }

    /// Certificates that enough votes are out for.
    fn qcs(&self, state: &State, below: View) -> Vec<Mark> {
        let pairs = (0..below).flat_map(|view| self.values.iter().map(move |digest| (view, *digest)));
        pairs
            .filter(|(view, digest)| self.count(state, &Sent::Vote(*view, *digest)) >= self.quorum())
            .map(|(view, digest)| Mark { view, digest })
            .collect()
    }

    /// Tickets of a view that a leader may have: complaints of correct replicas, and one of the Byzantine one.
    fn tickets(&self, state: &State, view: View) -> Vec<Tc> {
        let mut complaints: Vec<Timeout> = Vec::new();
        let mut of: Vec<(u16, Timeout)> = Vec::new();
        for (node, sent) in &state.sent {
            for sent in sent {
                if let Sent::Timeout(at, qc, prop) = sent
                    && *at + 1 == view
                {
                    of.push((*node, Timeout { slot: SLOT, view: *at, qc: *qc, prop: *prop }));
                }
            }
        }
        let none = Mark::default();
        let props = (0..view).flat_map(|v| self.values.iter().map(move |digest| Mark { view: v, digest: *digest }));
        for prop in props.chain([none]) {
            for qc in self.qcs(state, view).into_iter().chain([none]) {
                complaints.push(Timeout { slot: SLOT, view: view - 1, qc, prop });
            }
        }
        let mut tickets = Vec::new();
        for mask in 0..1u32 << of.len() {
            let chosen: Vec<(u16, Timeout)> =
                of.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, known)| *known).collect();
            if chosen.len() == self.quorum() {
                tickets.push(self.ticket(chosen));
            } else if chosen.len() + 1 == self.quorum() {
                for lie in &complaints {
                    let with: Vec<_> = chosen.iter().copied().chain([(self.byzantine, *lie)]).collect();
                    tickets.push(self.ticket(with));
                }
            }
        }
        tickets
    }

    fn ticket(&self, chosen: Vec<(u16, Timeout)>) -> Tc {
        let highest = chosen.iter().filter_map(|(_, timeout)| timeout.qc.get()).max();
        let signed = |(node, body): (u16, Timeout)| Signed { signer: Index(node), signature: Bytes::new(), body };
        let qc = highest.map(|(view, digest)| self.qc(view, digest));
        Tc { timeouts: chosen.into_iter().map(signed).collect(), qc: qc.into_iter().collect() }
    }

    /// A ticket with the same consequence as many others.
    fn plainest(&self, view: View, bound: Option<B256>) -> Tc {
        let prop = bound.map_or(Mark::default(), |digest| Mark { view: 0, digest });
        let body = Timeout { slot: SLOT, view: view - 1, qc: Mark::default(), prop };
        let tc = self.ticket((0..self.quorum() as u16).map(|node| (node, body)).collect());
        assert_eq!(winner(&self.config, &tc), bound);
        tc
    }

    /// Keeps what a replica sends.
    fn note(state: &mut State, node: u16, steps: Vec<Step>) {
        let sent = state.sent.get_mut(&node).expect("a correct replica");
        for step in steps {
            match step {
                Step::Ack(ack, _) => drop(sent.insert(Sent::Ack(ack.view, ack.digest))),
                Step::Complain(timeout) => drop(sent.insert(Sent::Timeout(timeout.view, timeout.qc, timeout.prop))),
                _ => {}
            }
        }
    }

    fn vote(&self, state: &State, node: u16, view: View, digest: B256, tc: Option<&Tc>) -> Option<State> {
        let mut next = state.clone();
        let replica = next.replicas.get_mut(&node).expect("a correct replica");
        let mut steps = Vec::new();
        if let Some(tc) = tc {
            replica.on_tc(&self.config, tc.clone(), &mut steps);
            replica.adopt(&self.config, tc.clone());
        }
        let vote = (replica.view() == view).then(|| replica.accept(&self.config, digest)).flatten()?;
        next.sent.get_mut(&node).expect("a correct replica").insert(Sent::Vote(vote.view, vote.digest));
        Self::note(&mut next, node, steps);
        Some(next)
    }

    fn act(
        &self,
        state: &State,
        node: u16,
        next: &mut Vec<State>,
        act: impl FnOnce(&mut Instance, &Config, &mut Vec<Step>),
    ) {
        let mut after = state.clone();
        let mut steps = Vec::new();
        act(after.replicas.get_mut(&node).expect("a correct replica"), &self.config, &mut steps);
        if !steps.is_empty() {
            Self::note(&mut after, node, steps);
            next.push(after);
        }
    }
}

impl Space for Search {
    type State = State;

    fn initial(&self) -> State {
        let correct = (0..self.config.quorums.n() as u16).filter(|node| *node != self.byzantine);
        let mut state = State {
            replicas: correct.clone().map(|node| (node, Instance::new(Index(node), SLOT))).collect(),
            sent: correct.clone().map(|node| (node, BTreeSet::new())).collect(),
            proposals: BTreeSet::new(),
            tickets: BTreeMap::new(),
        };
        if self.decided {
            state.proposals.insert((0, self.values[0], None));
            for node in correct {
                state = self.vote(&state, node, 0, self.values[0], None).expect("the first vote");
            }
        }
        state
    }

    fn key(&self, state: &State) -> u128 {
        fingerprint(|hasher| state.hash(hasher))
    }

    fn successors(&self, state: &State, next: &mut Vec<State>) {
        for view in 0..=self.views {
            let leader = self.config.leader(SLOT, view).0;
            // Tickets with equal consequences are one.
            let mut tickets: BTreeMap<Option<B256>, Tc> = BTreeMap::new();
            if view > 0 {
                for tc in self.tickets(state, view) {
                    let bound = winner(&self.config, &tc);
                    tickets.entry(bound).or_insert_with(|| self.plainest(view, bound));
                }
            }
            // A replica may enter a view whose proposal it never sees.
            for tc in tickets.values() {
                for node in state.replicas.keys() {
                    let before = state.replicas[node].view();
                    self.act(state, *node, next, |replica, config, steps| {
                        if before < view {
                            replica.on_tc(config, tc.clone(), steps);
                        }
                    });
                }
            }
            if leader == self.byzantine {
                for node in state.replicas.keys() {
                    for digest in self.values {
                        if view == 0 {
                            next.extend(self.vote(state, *node, view, digest, None));
                        } else {
                            let fits = tickets.iter().filter(|(bound, _)| bound.is_none_or(|bound| bound == digest));
                            next.extend(fits.filter_map(|(_, tc)| self.vote(state, *node, view, digest, Some(tc))));
                        }
                    }
                }
            } else if !state.proposals.iter().any(|(of, ..)| *of == view) {
                // A correct leader proposes once, a value of its own where it is free.
                let own = self.values[(view % 2) as usize];
                let mut propose = |digest: B256, tc: Option<&Tc>| {
                    if let Some(mut led) = self.vote(state, leader, view, digest, tc) {
                        let key = tc.map(|_| view);
                        led.proposals.insert((view, digest, key));
                        led.tickets.extend(tc.map(|tc| (view, tc.clone())));
                        next.push(led);
                    }
                };
                if view == 0 {
                    propose(own, None);
                }
                for (bound, tc) in &tickets {
                    propose(bound.unwrap_or(own), Some(tc));
                }
            }
            for (of, digest, ticket) in state.proposals.iter().filter(|(of, ..)| *of == view) {
                let tc = ticket.and_then(|key| state.tickets.get(&key));
                let voters = state.replicas.keys().filter(|node| **node != leader);
                next.extend(voters.filter_map(|node| self.vote(state, *node, *of, *digest, tc)));
            }
        }
        for (node, replica) in &state.replicas {
            for mark in self.qcs(state, self.views + 1).into_iter().filter(|_| self.slow) {
                self.act(state, *node, next, |replica, config, steps| {
                    replica.on_confirm(config, self.qc(mark.view, mark.digest), steps);
                });
            }
            if replica.view() <= self.views {
                let view = replica.view();
                self.act(state, *node, next, |replica, config, steps| {
                    replica.on_patience_end(config, view, steps);
                });
            }
        }
    }

    /// Values that enough votes are out for.
    fn decidable(&self, state: &State) -> BTreeSet<B256> {
        let n = self.config.quorums.n();
        let mut decidable = BTreeSet::new();
        for view in 0..=self.views {
            for digest in self.values {
                if self.count(state, &Sent::Vote(view, digest)) >= n
                    || self.count(state, &Sent::Ack(view, digest)) >= self.quorum()
                {
                    decidable.insert(digest);
                }
            }
        }
        decidable
    }
}

/// `PHALANX_STATES` bounds the searches over both paths, of each place of the Byzantine replica: two views have some 75,000 states.
#[test]
fn no_two_values_are_decided_wherever_the_byzantine_replica_sits() {
    let most = most(4_000);
    for byzantine in 0..4 {
        let searches = [
            ("two views", Search::new(4, 1, byzantine, 1, None), most),
            ("fast decision", Search::new(4, 1, byzantine, 2, None).fast_only().after_a_fast_decision(), usize::MAX),
            ("three views", Search::new(4, 1, byzantine, 2, None), most),
        ];
        for (name, search, most) in searches {
            let visits = explore(&search, most);
            println!("n = 4, Byzantine {byzantine}, {name}: {visits}");
            assert!(visits.agree(), "Byzantine {byzantine}, {name}");
        }
    }
}

/// Counting equal pairs of value and view loses a value that some replicas voted for again.
#[test]
fn exact_pairs_are_caught() {
    let search =
        |byzantine| Search::new(4, 1, byzantine, 2, Some(Mutation::ExactPairs)).fast_only().after_a_fast_decision();
    let broken = (0..4).any(|byzantine| explore(&search(byzantine), usize::MAX).broken);
    assert!(broken, "a fast decision is lost in no state");
}

#[test]
fn quorums_of_2f_plus_1_are_caught_where_n_is_not_3f_plus_1() {
    // The Byzantine replica leads.
    assert!(explore(&Search::new(6, 1, 1, 0, Some(Mutation::TwoFPlusOne)), 200_000).broken);
}

#[test]
fn forgotten_certificates_and_votes_after_a_complaint_are_caught() {
    for mutation in [Mutation::ForgetQc, Mutation::VoteAfterComplaint] {
        let search = |byzantine| Search::new(4, 1, byzantine, 1, Some(mutation));
        assert!((0..4).any(|byzantine| explore(&search(byzantine), 400_000).broken), "{mutation:?}");
    }
}

/// The rule itself: all ways in which three of four replicas report one fast decision, and one of them lies.
#[test]
fn a_fast_decision_wins_in_every_set_of_complaints() {
    let config = Config::new(Quorums::new(4, 1).expect("a legal size"), Domain::default());
    let exact = Config { mutation: Some(Mutation::ExactPairs), ..config };
    let (value, other) = (B256::repeat_byte(1), B256::repeat_byte(2));
    let (mut cases, mut lost) = (0, 0);
    // Decided in view 0; two correct replicas report the value in any view since, the third may report anything.
    for first in 0..4 {
        for second in 0..4 {
            let lies =
                (0..4).flat_map(|view| [value, other].map(|digest| Mark { view, digest })).chain([Mark::default()]);
            for lie in lies {
                let reports = [Mark { view: first, digest: value }, Mark { view: second, digest: value }, lie];
                let timeouts = (0..).zip(reports).map(|(node, prop)| {
                    let body = Timeout { slot: SLOT, view: 3, qc: Mark::default(), prop };
                    Signed { signer: Index(node), signature: Bytes::new(), body }
                });
                let tc = Tc { timeouts: timeouts.collect(), qc: Vec::new() };
                assert_eq!(tc.of(&config), Some((SLOT, 3)));
                assert_eq!(winner(&config, &tc), Some(value));
                cases += 1;
                lost += usize::from(winner(&exact, &tc) != Some(value));
            }
        }
    }
    println!("exact pairs lose the value in {lost} of {cases} cases");
    assert!(lost > 0);
}

/// A complaint that names more than it shows is refused.
#[test]
fn complaints_carry_what_they_name() {
    let config = Config::new(Quorums::new(4, 1).expect("a legal size"), Domain::default());
    let cut = vec![Default::default(); 4];
    let digest = phalanx_bft::lanes::cut_digest(&cut);
    let qc = |view, ballots: u16| Qc {
        slot: SLOT,
        view,
        digest,
        phase: Phase::Prepare,
        ballots: (0..ballots).map(|at| Ballot { signer: Index(at), signature: Bytes::new() }).collect(),
    };
    let whole = |qc_mark: Mark, prop: Mark, qc: Vec<Qc>, cut: &[phalanx_bft::lanes::Tip]| {
        let body = Timeout { slot: SLOT, view: 2, qc: qc_mark, prop };
        let timeout = Signed { signer: Index(0), signature: Bytes::new(), body };
        Complaint { timeout, qc, cut: cut.to_vec(), lead: Vec::new() }.is_whole(&config)
    };
    let mark = |view| Mark { view, digest };
    let none = Mark::default();
    assert!(whole(none, none, vec![], &[]) && whole(mark(1), mark(2), vec![qc(1, 3)], &cut));
    assert!(!whole(mark(1), none, vec![], &[]), "no certificate");
    assert!(!whole(mark(1), none, vec![qc(1, 2)], &[]), "two votes");
    assert!(!whole(mark(1), none, vec![qc(0, 3)], &[]), "another view");
    assert!(!whole(none, mark(1), vec![], &[]), "no cut");
    assert!(!whole(none, mark(3), vec![], &cut), "a view above the complaint's");
    assert!(!whole(none, none, vec![qc(1, 3)], &[]), "a certificate that is not named");
}
