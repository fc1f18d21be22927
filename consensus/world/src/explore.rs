//! Searches: every reachable state of real state machines, or the first ones up to a limit, and random schedules through them.

use alloy_primitives::B256;
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// States that follow from each other, in some of which values are decided.
pub trait Space {
    /// A state: correct replicas, and all that was sent.
    type State;

    /// The state in which nothing has happened.
    fn initial(&self) -> Self::State;

    /// Digest of all that decides the future of a state.
    fn key(&self, state: &Self::State) -> u128;

    /// Appends the states that one step leads to.
    fn successors(&self, state: &Self::State, next: &mut Vec<Self::State>);

    /// Values that enough votes are out for.
    fn decidable(&self, state: &Self::State) -> BTreeSet<B256>;

    /// Returns true if these decidable values contradict each other.
    fn is_broken(&self, state: &Self::State, decidable: &BTreeSet<B256>) -> bool {
        let _ = state;
        decidable.len() > 1
    }
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visits {
    /// Number of states.
    pub states: usize,
    /// Number of states with a decidable value.
    pub decided: usize,
    /// True if values contradict each other in the last state.
    pub broken: bool,
    /// False if the search ended before all were visited.
    pub complete: bool,
}

impl Visits {
    /// Returns true if decisions were seen, and none contradicted another.
    #[must_use]
    pub const fn agree(&self) -> bool {
        !self.broken && self.decided > 0
    }
}

impl fmt::Display for Visits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.complete { "" } else { " and more" };
        write!(f, "{} states{more}, {} with a decision", self.states, self.decided)
    }
}

/// Visits every state, or `most` of them, and ends where values contradict each other.
pub fn explore<S: Space>(space: &S, most: usize) -> Visits {
    let (mut visited, mut decided) = (HashSet::new(), 0);
    let (mut stack, mut next) = (vec![space.initial()], Vec::new());
    while let Some(state) = stack.pop() {
        if visited.len() >= most {
            return Visits { states: visited.len(), decided, broken: false, complete: false };
        }
        if !visited.insert(space.key(&state)) {
            continue;
        }
        let able = space.decidable(&state);
        decided += usize::from(!able.is_empty());
        if space.is_broken(&state, &able) {
            return Visits { states: visited.len(), decided, broken: true, complete: false };
        }
        space.successors(&state, &mut next);
        stack.append(&mut next);
    }
    Visits { states: visited.len(), decided, broken: false, complete: true }
}

/// Follows one random schedule until nothing is left to do, or values contradict each other. Returns its last state, whether a
/// value was decidable on the way, and whether two were.
pub fn walk<S: Space>(space: &S, rng: &mut ChaCha8Rng) -> (S::State, bool, bool) {
    let (mut state, mut decided, mut next) = (space.initial(), false, Vec::new());
    loop {
        let able = space.decidable(&state);
        decided |= !able.is_empty();
        space.successors(&state, &mut next);
        let broken = space.is_broken(&state, &able);
        if broken || next.is_empty() {
            return (state, decided, broken);
        }
        state = next.swap_remove(rng.random_range(0..next.len()));
        next.clear();
    }
}

/// 128 bits of hash of what a function puts in, which has to be the same in both of its calls.
pub fn fingerprint(put: impl Fn(&mut DefaultHasher)) -> u128 {
    let hash = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        put(&mut hasher);
        hasher.finish()
    };
    u128::from(hash(1)) << 64 | u128::from(hash(2))
}

/// States that a search visits at most: `usual`, or what `PHALANX_STATES` demands, a number or `all`.
///
/// # Panics
/// If the variable is neither.
#[must_use]
pub fn most(usual: usize) -> usize {
    match std::env::var("PHALANX_STATES") {
        Ok(all) if all == "all" => usize::MAX,
        Ok(number) => number.parse().expect("PHALANX_STATES is a number, or all"),
        Err(_) => usual,
    }
}
