//! Every reachable state of the protocol at n = 4 with a Byzantine leader in two views in a row.
//!
//! Validator 0 leads views 1 and 2, proposes A and B in the first and C, D and E in the second, on whatever it likes, and
//! votes for everything. Three honest replicas, the real ones, get proposals, votes and nullifies in every order, and lose
//! patience at any time. In no state may two blocks that exclude each other both have order votes enough to be ordered.
//!
//! The reductions keep the search small and lose nothing. Validator 0's votes are present from the beginning: a
//! schedule in which they come late equals one in which an honest vote comes late. A vote that completes no quorum is
//! delivered when it is sent, and a proposal only when it is voted for: the time makes no difference. Order votes are
//! counted where they are sent: receiving them changes no vote. Certificates are not relayed: they repeat what votes
//! say.

use alloy_primitives::{Address, B256};
use phalanx_bft::{
    Batch, Index,
    rounds::{Act, Note, Place, Settings},
};
use phalanx_world::{Space, explore, fingerprint, most};
use std::{collections::BTreeSet, hash::Hash as _, sync::Arc};

type Block = phalanx_bft::rounds::Block<Batch>;
type Msg = Note<Batch>;
type Out = Act<Batch>;
type Replica = phalanx_bft::rounds::Replica<Batch>;

const SETTINGS: Settings = Settings { n: 4, f: 1, term: 3, timeout_us: 1, optimistic_proposals: false };
const HONEST: usize = 3;
const VIEWS: u64 = 2;

/// Meaning of an order vote.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// The protocol's order vote.
    Kept,
    /// A first vote already: one round less, and unsafe.
    Broken,
}

/// A, B, C, D on A, E on B.
fn proposals() -> Vec<Arc<Block>> {
    let genesis = (B256::ZERO, 0);
    let make = |view, (parent, parent_view): (B256, u64), height, variant: u64| {
        let place = Place { view, parent, parent_view, author: Index(0), height };
        Arc::new(Block::new(place, Batch::new(variant, Address::ZERO, Vec::new())))
    };
    let (a, b, c) = (make(1, genesis, 1, 1), make(1, genesis, 1, 2), make(2, genesis, 1, 3));
    let (d, e) = (make(2, (a.id, 1), 2, 4), make(2, (b.id, 1), 2, 5));
    vec![a, b, c, d, e]
}

/// True if the two blocks, by position, exclude each other.
fn exclude(x: usize, y: usize) -> bool {
    x != y && ![(0, 3), (1, 4)].contains(&(x.min(y), x.max(y)))
}

#[derive(Clone)]
struct State {
    replicas: Vec<Replica>,
    /// Votes and nullifies sent by each.
    sent: Vec<Vec<Msg>>,
    /// Messages that each has received: `[to][from]`, a bit each.
    got: Vec<[u64; HONEST]>,
    /// Proposals that each has received.
    seen: Vec<u8>,
}

impl State {
    fn initial(proposals: &[Arc<Block>]) -> Self {
        let mut state = Self {
            replicas: (1..=HONEST as u16)
                .map(|me| Replica::new(Index(me), SETTINGS, (0, 0, B256::ZERO), &[]))
                .collect(),
            sent: vec![Vec::new(); HONEST],
            got: vec![[0; HONEST]; HONEST],
            seen: vec![0; HONEST],
        };
        for at in 0..HONEST {
            let mut out = Vec::new();
            state.replicas[at].start(&mut out);
            for block in proposals {
                state.replicas[at].on_message(Index(0), &Msg::Vote(block.place.view, block.id), &mut out);
            }
            for view in 1..=VIEWS {
                state.replicas[at].on_message(Index(0), &Msg::Nullify(view), &mut out);
            }
            state.note(at, out);
        }
        state
    }

    /// Keeps sent messages for the others; messages to itself arrive at once.
    fn note(&mut self, at: usize, out: Vec<Out>) {
        let mut todo = out;
        while !todo.is_empty() {
            let mut next = Vec::new();
            for out in todo {
                let Out::Broadcast(msg @ (Msg::Vote(..) | Msg::Nullify(_))) = out else { continue };
                if !self.sent[at].contains(&msg) {
                    self.replicas[at].on_message(Index(at as u16 + 1), &msg, &mut next);
                    self.sent[at].push(msg);
                }
            }
            todo = next;
        }
    }

    fn with(&self, at: usize, act: impl FnOnce(&mut Replica, &mut Vec<Out>)) -> Self {
        let mut state = self.clone();
        let mut out = Vec::new();
        act(&mut state.replicas[at], &mut out);
        state.note(at, out);
        state
    }

    /// Delivers messages that complete no quorum.
    fn settle(&mut self) {
        for to in 0..HONEST {
            for from in (0..HONEST).filter(|from| *from != to) {
                for number in 0..self.sent[from].len() {
                    if self.got[to][from] >> number & 1 == 0 && !self.completes(to, &self.sent[from][number]) {
                        let msg = self.sent[from][number].clone();
                        let mut out = Vec::new();
                        self.replicas[to].on_message(Index(from as u16 + 1), &msg, &mut out);
                        assert!(out.is_empty(), "nothing follows from {msg:?}");
                        self.got[to][from] |= 1 << number;
                    }
                }
            }
        }
    }

    /// True if this message makes three such votes: validator 0's, this one and one more.
    fn completes(&self, to: usize, msg: &Msg) -> bool {
        let has = |from: usize| {
            let number = self.sent[from].iter().position(|sent| sent == msg);
            number.is_some_and(|number| from == to || self.got[to][from] >> number & 1 == 1)
        };
        (0..HONEST).filter(|from| has(*from)).count() == 1
    }

    fn successors(&self, proposals: &[Arc<Block>], next: &mut Vec<Self>) {
        for to in 0..HONEST {
            for (number, block) in proposals.iter().enumerate() {
                if self.replicas[to].view() == block.place.view && self.seen[to] >> number & 1 == 0 {
                    let mut state =
                        self.with(to, |replica, out| replica.on_message(Index(0), &Msg::Proposal(block.clone()), out));
                    state.seen[to] |= 1 << number;
                    if state.sent[to].len() > self.sent[to].len() {
                        state.settle();
                        next.push(state);
                    }
                }
            }
            for from in (0..HONEST).filter(|from| *from != to) {
                for (number, msg) in self.sent[from].iter().enumerate() {
                    if self.got[to][from] >> number & 1 == 0 {
                        let mut state =
                            self.with(to, |replica, out| replica.on_message(Index(from as u16 + 1), msg, out));
                        state.got[to][from] |= 1 << number;
                        state.settle();
                        next.push(state);
                    }
                }
            }
            let view = self.replicas[to].view();
            if view <= VIEWS {
                let mut state = self.with(to, |replica, out| replica.on_timeout(view, out));
                // After an order vote there is no timeout.
                if state.sent[to].len() > self.sent[to].len() {
                    state.settle();
                    next.push(state);
                }
            }
        }
    }

    /// Digest of everything that decides the future: votes sent and votes received, in any order.
    fn key(&self) -> u128 {
        fingerprint(|hasher| {
            for at in 0..HONEST {
                self.replicas[at].view().hash(hasher);
                self.seen[at].hash(hasher);
                for (from, got) in self.got[at].iter().enumerate() {
                    for (number, msg) in self.sent[from].iter().enumerate() {
                        (label(msg), got >> number & 1).hash(hasher);
                    }
                }
            }
        })
    }

    /// True if enough order votes are out, validator 0's among them.
    fn orderable(&self, block: &Block, rule: Rule) -> bool {
        let votes = (0..HONEST).filter(|at| {
            let against = rule == Rule::Broken && self.sent[*at].contains(&Msg::Vote(block.place.view, block.id));
            self.replicas[*at].has_order_voted(block.place.view, block.id) || against
        });
        votes.count() + 1 >= SETTINGS.quorum()
    }
}

fn label(msg: &Msg) -> (u8, u64, B256) {
    match msg {
        Msg::Vote(view, id) => (0, *view, *id),
        Msg::Nullify(view) => (1, *view, B256::ZERO),
        other => panic!("not kept: {other:?}"),
    }
}

/// Blocks of two views, and what counts as an order vote.
struct Search {
    proposals: Vec<Arc<Block>>,
    rule: Rule,
}

impl Search {
    fn new(rule: Rule) -> Self {
        Self { proposals: proposals(), rule }
    }
}

impl Space for Search {
    type State = State;

    fn initial(&self) -> State {
        State::initial(&self.proposals)
    }

    fn key(&self, state: &State) -> u128 {
        state.key()
    }

    fn successors(&self, state: &State, next: &mut Vec<State>) {
        state.successors(&self.proposals, next);
    }

    /// Blocks that enough order votes are out for.
    fn decidable(&self, state: &State) -> BTreeSet<B256> {
        self.proposals.iter().filter(|block| state.orderable(block, self.rule)).map(|block| block.id).collect()
    }

    fn is_broken(&self, _: &State, able: &BTreeSet<B256>) -> bool {
        let able = |number: &usize| able.contains(&self.proposals[*number].id);
        let all = 0..self.proposals.len();
        all.clone().filter(able).any(|x| all.clone().filter(able).any(|y| exclude(x, y)))
    }
}

#[test]
fn no_reachable_state_orders_two_blocks() {
    let visits = explore(&Search::new(Rule::Kept), most(60_000));
    println!("{visits}");
    assert!(visits.agree());
}

#[test]
fn the_search_finds_the_fork_that_a_broken_rule_permits() {
    // First votes counted as order votes: two rounds instead of three.
    assert!(explore(&Search::new(Rule::Broken), usize::MAX).broken);
}
