//! Whether a wave is worth more than one worker.

use phalanx_parascheduler::{Dag, TxIndex};
use revm::context::TxEnv;

/// A wave that weighs less runs on one worker: to wake another takes what it would take off.
const SHARED_WEIGHT: u64 = 500_000;

/// So does one whose heaviest chain is all but a fifth of it: workers that take turns at a chain each meet the other's
/// values in the other's cache.
const SHARED_PARALLELISM: (u64, u64) = (5, 4);

/// A wave that is this many times as long as its longest chain is not looked at more closely, if it has `MANY` transactions.
const WIDE: usize = 8;
const MANY: usize = (SHARED_WEIGHT / TRANSFER) as usize;

/// What a plain transfer weighs.
const TRANSFER: u64 = 300;

/// About what a transaction may take, in gas: all pay for a transfer's 21,000, which hardly takes any. No sum of them is
/// past 64 bits.
fn weight(tx: &TxEnv) -> u64 {
    tx.gas_limit.saturating_sub(21_000).min(1 << 24) + TRANSFER
}

/// How the transactions of a wave are given to workers, where there is more than one. The engine decides it by itself; it
/// is public for whoever models the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One does them as fast as many: because it is little, or because each waits for the one before.
    One,
    /// All, who begin with what most depends on.
    All,
}

impl Width {
    /// Of the transactions of `dag`, which begins with the heaviest ones if that can matter. O(nodes + edges).
    pub fn of<'t>(dag: &mut Dag, critical_path: usize, tx: impl Fn(TxIndex) -> &'t TxEnv) -> Self {
        if dag.len() >= MANY && critical_path * WIDE <= dag.len() {
            return Self::All;
        }
        let weight = |index| weight(tx(index));
        let all: u64 = (0..dag.len() as u32).map(|index| weight(TxIndex(index))).sum();
        if all < SHARED_WEIGHT {
            return Self::One;
        }
        let tails = dag.tails(weight);
        let heaviest = tails.iter().max().copied().unwrap_or(0);
        let (times, parts) = SHARED_PARALLELISM;
        if all * parts <= heaviest * times {
            return Self::One;
        }
        dag.begin_with_heaviest(&tails);
        Self::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_access::{Access, AccessSets, KeyId};

    /// Transactions of so much gas, each of which writes the key that it is given.
    fn is_alone(txs: &[(u32, u64)]) -> bool {
        let mut sets = AccessSets::new();
        txs.iter().for_each(|(key, _)| sets.push([(KeyId(*key), Access::Write)]));
        let mut dag = Dag::build(&sets, txs.len());
        let txs: Vec<_> =
            txs.iter().map(|(_, gas_limit)| TxEnv { gas_limit: *gas_limit, ..TxEnv::default() }).collect();
        let critical_path = dag.critical_path();
        Width::of(&mut dag, critical_path, |index| &txs[index.index()]) == Width::One
    }

    #[test]
    fn short_waves_and_chains_are_for_one() {
        let apart = |count: u32, gas| (0..count).map(move |key| (key, gas)).collect::<Vec<_>>();
        let chain = |count: u32, gas| (0..count).map(move |_| (0, gas)).collect::<Vec<_>>();
        assert!(is_alone(&[]));
        assert!(is_alone(&apart(1_000, 21_000)) && !is_alone(&apart(2_000, 21_000)));
        assert!(is_alone(&apart(2, 200_000)) && !is_alone(&apart(20, 200_000)));
        assert!(is_alone(&chain(2_000, 21_000)) && is_alone(&chain(20, 200_000)));
        assert!(!is_alone(&apart(2, u64::MAX)) && is_alone(&chain(2, u64::MAX)));
    }

    #[test]
    fn a_chain_counts_by_its_weight() {
        let light: Vec<_> = (1..30).map(|key| (key, 30_000)).collect();
        let heavy = [(0, 2_000_000), (0, 2_000_000)];
        assert!(is_alone(&[&heavy[..], &light].concat()));
        assert!(!is_alone(&[&heavy[..], &[(1, 2_000_000)], &light].concat()));
    }
}
