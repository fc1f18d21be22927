//! Hints: true, wrong and adversarial access sets.

use super::args::HintsKind;
use phalanx::{
    access::{Access, AccessSets},
    paralyze::StateKey,
    revm::primitives::{Address, B256, Bytes, U256, keccak256, map::HashSet},
};
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

/// Hints for an executor.
#[derive(Debug)]
pub(crate) enum Told {
    /// The engine predicts by its own rules.
    Predict,
    /// No access sets.
    Nothing,
    /// Access sets.
    Sets(AccessSets<StateKey>),
    /// Access sets of the transactions that no rule predicts.
    Exceptions(Vec<u8>),
    /// The block access list, with its hash.
    AccessList(Bytes, B256),
}

impl Told {
    /// Size of the artefact, if the hints are one.
    pub(crate) fn bytes(&self) -> Option<usize> {
        match self {
            Self::Exceptions(bytes) => Some(bytes.len()),
            Self::AccessList(rlp, _) => Some(rlp.len()),
            Self::Predict | Self::Nothing | Self::Sets(_) => None,
        }
    }
}

/// Hints of `kind`, each with its name; `truth` are the true sets.
///
/// `adversarial` is two. In `disjoint` every set is one write of an unused slot: the DAG has no edge, all transactions run at
/// once, and every real access is an escape. In `chain` every set is the true one and a write of one common slot: the DAG is
/// a single chain, however independent the transactions are.
pub(crate) fn make(kind: HintsKind, truth: &AccessSets<StateKey>, seed: u64) -> Vec<(String, Told)> {
    let name = kind.to_string();
    match kind {
        // A list is no set.
        HintsKind::None | HintsKind::List => vec![(name, Told::Nothing)],
        HintsKind::Perfect => vec![(name, Told::Sets(truth.clone()))],
        HintsKind::Wrong(share) => vec![(name, Told::Sets(wrong(truth, share, seed)))],
        HintsKind::Adversarial => vec![
            (format!("{name}:disjoint"), Told::Sets(disjoint(truth))),
            (format!("{name}:chain"), Told::Sets(chain(truth))),
        ],
    }
}

/// Slot `index` of an account that no block touches.
fn nowhere(index: usize) -> StateKey {
    StateKey::Slot(Address::from_word(keccak256("nowhere")), U256::from(index))
}

fn disjoint(truth: &AccessSets<StateKey>) -> AccessSets<StateKey> {
    let mut sets = AccessSets::new();
    for index in 0..truth.len() {
        sets.push([(nowhere(index), Access::Write)]);
    }
    sets
}

fn chain(truth: &AccessSets<StateKey>) -> AccessSets<StateKey> {
    let mut sets = AccessSets::new();
    for set in truth.iter() {
        sets.push(set.iter().copied().chain([(nowhere(0), Access::Write)]));
    }
    sets
}

/// Replaces each key with probability `share` by a key of another transaction, or by an unused one.
fn wrong(truth: &AccessSets<StateKey>, share: f64, seed: u64) -> AccessSets<StateKey> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let pool: Vec<StateKey> = truth.entries().iter().map(|(key, _)| *key).collect();
    let kinds = [Access::Read, Access::Write, Access::Credit];
    let mut sets = AccessSets::new();
    for (index, set) in truth.iter().enumerate() {
        let own: HashSet<StateKey> = set.iter().map(|(key, _)| *key).collect();
        let mut foreign: HashSet<StateKey> = HashSet::default();
        let mut kept = Vec::with_capacity(set.len());
        for (place, entry) in set.iter().enumerate() {
            if !rng.random_bool(share) {
                kept.push(*entry);
                continue;
            }
            let candidate = pool.choose(&mut rng).copied().unwrap_or_else(|| nowhere(0));
            let taken = own.contains(&candidate) || foreign.contains(&candidate);
            // In a small block the drawn key may belong to the transaction itself.
            let key = if taken { nowhere(1 + (index << 24) + place) } else { candidate };
            foreign.insert(key);
            kept.push((key, kinds.choose(&mut rng).copied().unwrap_or(Access::Write)));
        }
        sets.push(kept);
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth() -> AccessSets<StateKey> {
        let mut sets = AccessSets::new();
        for tx in 0..200u64 {
            let key = |n: u64| StateKey::Basic(Address::left_padding_from(&n.to_be_bytes()));
            sets.push([(key(tx), Access::Write), (key(1_000 + tx), Access::Credit), (key(5_000), Access::Read)]);
        }
        sets
    }

    fn only(kind: HintsKind) -> AccessSets<StateKey> {
        match make(kind, &truth(), 7).remove(0).1 {
            Told::Sets(sets) => sets,
            told => panic!("{told:?}"),
        }
    }

    #[test]
    fn wrong_sets_are_as_long_and_as_wrong_as_asked() {
        let truth = truth();
        let missing = |sets: &AccessSets<StateKey>| {
            let pairs = truth.iter().zip(sets.iter());
            pairs
                .map(|(own, set)| own.iter().filter(|entry| !set.iter().any(|(key, _)| *key == entry.0)).count())
                .sum::<usize>()
        };
        for (share, range) in [(0.0, 0..=0), (0.1, 30..=100), (1.0, 600..=600)] {
            let sets = only(HintsKind::Wrong(share));
            assert!(range.contains(&missing(&sets)), "{share}: {}", missing(&sets));
            for (own, set) in truth.iter().zip(sets.iter()) {
                let distinct: HashSet<_> = set.iter().map(|(key, _)| *key).collect();
                assert_eq!((set.len(), distinct.len()), (own.len(), own.len()));
            }
        }
        assert_eq!(only(HintsKind::Wrong(0.5)).entries(), only(HintsKind::Wrong(0.5)).entries(), "one seed, one set");
    }

    #[test]
    fn adversarial_sets_hide_all_conflicts_or_add_one_to_all() {
        let made = make(HintsKind::Adversarial, &truth(), 7);
        let [(disjoint, Told::Sets(apart)), (chain, Told::Sets(chained))] = made.as_slice() else { panic!("{made:?}") };
        assert_eq!((disjoint.as_str(), chain.as_str()), ("adversarial:disjoint", "adversarial:chain"));
        let keys: HashSet<_> = apart.entries().iter().map(|(key, _)| *key).collect();
        assert_eq!((apart.len(), keys.len()), (200, 200));
        assert!(chained.iter().all(|set| set.last() == Some(&(nowhere(0), Access::Write))));
        assert!(truth().iter().zip(chained.iter()).all(|(own, set)| set.starts_with(own)));
    }
}
