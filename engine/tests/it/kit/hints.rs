//! Hints: true ones, and false ones derived from them.

use phalanx::{
    access::{
        Access::{self, Credit, Read, Write},
        AccessSets,
    },
    paralyze::StateKey,
    revm::primitives::{Address, U256},
};
use rand::{Rng as _, SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;

/// Hints that an executor receives.
#[derive(Clone, Debug)]
pub(crate) enum Hint {
    /// No sets at all.
    None,
    /// ParaLyze's predictions, by rule and by simulation.
    Predict,
    /// Accesses of a sequential run.
    Perfect,
    /// The access list that the block commits to.
    AccessList,
    /// Access sets of the transactions that no rule predicts.
    Exceptions,
    /// An empty set per transaction.
    Empty,
    /// Every transaction writes every key of the block.
    Everything,
    /// This percentage of the keys replaced by others of the block.
    Wrong { percent: u32, seed: u64 },
    /// Each set falsified in a way of its own, made to mislead.
    Lies { seed: u64 },
}

impl Hint {
    /// Derives the sets from true ones.
    pub(crate) fn sets(&self, perfect: &AccessSets<StateKey>) -> Option<AccessSets<StateKey>> {
        Some(match self {
            Self::None | Self::Predict | Self::AccessList | Self::Exceptions => return None,
            Self::Perfect => perfect.clone(),
            Self::Empty => each(perfect, |_| Vec::new()),
            Self::Everything => {
                let all: Vec<_> = perfect.entries().iter().map(|(key, _)| (*key, Write)).collect();
                each(perfect, |_| all.clone())
            }
            Self::Wrong { percent, seed } => {
                let mut rng = ChaCha8Rng::seed_from_u64(*seed);
                let all = perfect.entries();
                each(perfect, |set| {
                    let mut replace = |entry: &(StateKey, Access)| {
                        if rng.random_ratio(*percent, 100) {
                            let (key, _) = all[rng.random_range(0..all.len())];
                            (key, any_access(&mut rng))
                        } else {
                            *entry
                        }
                    };
                    set.iter().map(&mut replace).collect()
                })
            }
            Self::Lies { seed } => {
                let mut rng = ChaCha8Rng::seed_from_u64(*seed);
                let all = perfect.entries();
                let whole = rng.random_bool(0.3).then(|| rng.random_range(0..KINDS_OF_LIES));
                each(perfect, |set| {
                    let kind = whole.unwrap_or_else(|| rng.random_range(0..KINDS_OF_LIES));
                    lie(kind, set.to_vec(), all, &mut rng)
                })
            }
        })
    }
}

fn each(
    perfect: &AccessSets<StateKey>,
    mut change: impl FnMut(&[(StateKey, Access)]) -> Vec<(StateKey, Access)>,
) -> AccessSets<StateKey> {
    let mut sets = AccessSets::new();
    for set in perfect.iter() {
        sets.push(change(set));
    }
    sets
}

fn any_access(rng: &mut ChaCha8Rng) -> Access {
    [Read, Credit, Write][rng.random_range(0..3)]
}

const KINDS_OF_LIES: u32 = 13;

/// Falsifies a set.
fn lie(
    kind: u32,
    mut set: Vec<(StateKey, Access)>,
    all: &[(StateKey, Access)],
    rng: &mut ChaCha8Rng,
) -> Vec<(StateKey, Access)> {
    let one = if set.is_empty() { 0 } else { rng.random_range(0..set.len()) };
    let foreign =
        |rng: &mut ChaCha8Rng| if all.is_empty() { Vec::new() } else { vec![all[rng.random_range(0..all.len())]] };
    match kind {
        0 => {}
        1 => set.clear(),
        2 => set.iter_mut().for_each(|(_, access)| *access = Read),
        3 => set.iter_mut().for_each(|(_, access)| *access = Credit),
        4 => set.iter_mut().for_each(|(_, access)| *access = Write),
        5 => set = foreign(rng),
        6 => set.extend(foreign(rng)),
        7 if !set.is_empty() => _ = set.remove(one),
        8 if !set.is_empty() => set[one].1 = any_access(rng),
        // Every key twice, in any order.
        9 => {
            let twice: Vec<_> = set.iter().map(|(key, _)| (*key, any_access(rng))).collect();
            set.extend(twice);
            set.shuffle(rng);
        }
        10 => set.retain(|(key, _)| !matches!(key, StateKey::Slot(..))),
        11 => set.retain(|(key, _)| !matches!(key, StateKey::Code(_))),
        // Accounts without their code, code without accounts, slots of absent accounts.
        _ => {
            let absent = Address::repeat_byte(rng.random());
            set.push((StateKey::Code(absent), Write));
            set.push((StateKey::Slot(absent, U256::from(rng.random::<u64>())), any_access(rng)));
            let codes: Vec<_> = set.iter().map(|(key, _)| (StateKey::Code(*key.address()), any_access(rng))).collect();
            set.extend(codes);
            set.reverse();
        }
    }
    set
}
