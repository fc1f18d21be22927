//! Chooses between one worker and all, for a wave or for a block without predictions.

use crate::{state::StateRef, trie};
use alloy_primitives::{Address, map::HashMap};
use phalanx_paralyze::{Snapshot as _, VmConfig};
use phalanx_parascheduler::{Dag, TxIndex};
use revm::context::TxEnv;

/// Minimum weight of a wave that several workers share: waking another takes as long as it would save.
const SHARED_WEIGHT: u64 = 500_000;

/// Minimum ratio of a wave's weight to its heaviest chain for several workers: workers that take turns at a chain find
/// its values in each other's caches.
const SHARED_PARALLELISM: (u64, u64) = (5, 4);

/// Minimum weight of a block without predictions that runs ahead of itself, which takes a third more work; the share of
/// one sender must be smaller as well.
const SPECULATED_WEIGHT: u64 = 4_000_000;
const SPECULATED_PARALLELISM: (u64, u64) = (3, 2);

/// Maximum number of transactions by which a block is judged.
const JUDGED: usize = 1024;

/// Ratio of a wave's length to its longest chain from which it is not examined more closely, if it has `MANY`
/// transactions.
const WIDE: usize = 8;
const MANY: usize = (SHARED_WEIGHT / TRANSFER) as usize;

/// Weight of a plain transfer.
const TRANSFER: u64 = 300;

/// Maximum weight of a brief block, which ends about as soon as a worker could wake: a call of a contract, or some
/// dozens of transfers.
const BRIEF_WEIGHT: u64 = 50_000;

/// Maximum number of transactions of a block that one thread executes, worker or caller: receipts of more are sealed by
/// several.
const SHORT: usize = trie::PIECE;

/// Approximate weight of a transaction, in gas, without a transfer's 21,000, which take hardly any time. No sum of
/// weights exceeds 64 bits.
fn weight(tx: &TxEnv) -> u64 {
    tx.gas_limit.saturating_sub(21_000).min(1 << 24) + TRANSFER
}

/// Weight without predictions, where `runs_code` tells which transactions call code: a transfer has its weight whatever
/// its limit.
fn weight_unseen(tx: &TxEnv, runs_code: impl Fn(&TxEnv) -> bool) -> u64 {
    let weight = weight(tx);
    if weight > TRANSFER && !runs_code(tx) { TRANSFER } else { weight }
}

/// True if a block is so short that its receipts need no other thread.
pub(crate) const fn is_short(txs: &[TxEnv]) -> bool {
    txs.len() <= SHORT
}

/// True if a block is so short, and so light, that its caller executes it. O([`SHORT`]).
fn is_brief<'t>(txs: impl ExactSizeIterator<Item = &'t TxEnv>, runs_code: impl Fn(&TxEnv) -> bool) -> bool {
    txs.len() <= SHORT && txs.map(|tx| weight_unseen(tx, &runs_code)).sum::<u64>() <= BRIEF_WEIGHT
}

/// Number of workers that share a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// A single worker, which is as fast as many: because there is little work, or because each transaction depends on
    /// the one before.
    One,
    /// All workers, beginning with the sources of the heaviest chains.
    All,
}

impl Width {
    /// Width for the transactions of `dag`, whose heaviest ones come first if that can matter. O(nodes + edges).
    pub(crate) fn of<'t>(dag: &mut Dag, critical_path: usize, tx: impl Fn(TxIndex) -> &'t TxEnv) -> Self {
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

    /// Width for transactions without predictions: a sender's transactions are a chain, and `runs_code` tells which of
    /// them call code. Of many, about a thousand, evenly spread, stand for all.
    pub(crate) fn of_senders<'t>(
        txs: impl IntoIterator<Item = &'t TxEnv, IntoIter: ExactSizeIterator>,
        runs_code: impl Fn(&TxEnv) -> bool,
    ) -> Self {
        let txs = txs.into_iter();
        let each_stands_for = txs.len().div_ceil(JUDGED).max(1);
        let (mut all, mut heaviest) = (0, 0);
        let mut sent: HashMap<Address, u64> = HashMap::default();
        for tx in txs.step_by(each_stands_for) {
            let weight = weight_unseen(tx, &runs_code);
            let sum = sent.entry(tx.caller).or_default();
            *sum += weight;
            all += weight;
            heaviest = heaviest.max(*sum);
        }
        let (times, parts) = SPECULATED_PARALLELISM;
        let is_little = all.saturating_mul(each_stands_for as u64) < SPECULATED_WEIGHT;
        if is_little || all * parts <= heaviest * times { Self::One } else { Self::All }
    }
}

/// The choice for blocks without predictions, unless something forces it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy<'a> {
    pub(crate) cfg: &'a VmConfig,
    pub(crate) state: StateRef<'a>,
    pub(crate) threads: usize,
    pub(crate) force_parallel: bool,
    pub(crate) schedule_seed: Option<u64>,
}

impl Policy<'_> {
    /// True if a transaction is more than a transfer.
    fn runs_code(&self, tx: &TxEnv) -> bool {
        self.cfg.plain_receiver(tx).is_none_or(|to| self.state.code_hash(&to).is_some())
    }

    /// True if transactions without predictions had better run serially than ahead of each other.
    pub(crate) fn prefers_serial<'t>(
        &self,
        txs: impl IntoIterator<Item = &'t TxEnv, IntoIter: ExactSizeIterator>,
    ) -> bool {
        // A seed is for tests of speculative execution.
        self.schedule_seed.is_none()
            && (self.threads == 1
                || !self.force_parallel && Width::of_senders(txs, |tx| self.runs_code(tx)) == Width::One)
    }

    /// True if [`Self::prefers_serial`], and no test forces workers.
    pub(crate) fn prefers_caller(&self, txs: &[TxEnv]) -> bool {
        !self.force_parallel && self.prefers_serial(txs)
    }

    /// True if a whole block is so short that no worker is woken for it. Implies [`Self::prefers_serial`].
    pub(crate) fn is_brief(&self, txs: &[TxEnv]) -> bool {
        self.schedule_seed.is_none() && !self.force_parallel && is_brief(txs.iter(), |tx| self.runs_code(tx))
    }

    /// True if Block-STM had nothing to run ahead: a block of one transaction, or one that [`Self::is_brief`].
    pub(crate) fn has_nothing_ahead<'t>(
        &self,
        txs: impl IntoIterator<Item = &'t TxEnv, IntoIter: ExactSizeIterator>,
    ) -> bool {
        let txs = txs.into_iter();
        let is_forced = self.schedule_seed.is_some() || self.force_parallel;
        !is_forced && (txs.len() <= 1 || is_brief(txs, |tx| self.runs_code(tx)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;
    use phalanx_access::{Access, AccessSets, KeyId};

    /// Width of transactions, each with the key that it writes and its gas.
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
    fn one_sender_is_a_chain() {
        let of = |txs: &[(u8, u64)]| {
            let tx =
                |(sender, gas_limit)| TxEnv { caller: Address::repeat_byte(sender), gas_limit, ..TxEnv::default() };
            let txs: Vec<_> = txs.iter().copied().map(tx).collect();
            // An even one only transfers.
            Width::of_senders(&txs, |tx| tx.caller[0] % 2 == 1)
        };
        assert_eq!(of(&[]), Width::One);
        assert_eq!(of(&[(1, 30_000_000)]), Width::One);
        assert_eq!(of(&[(1, 1_000_000), (3, 1_000_000)]), Width::One, "too little");
        assert_eq!(of(&[(1, 3_000_000), (3, 3_000_000)]), Width::All);
        assert_eq!(of(&[(1, 3_000_000), (2, 30_000_000)]), Width::One, "what a transfer may use says nothing");
        assert_eq!(of(&[(1, 3_000_000), (3, 2_000_000), (1, 3_000_000)]), Width::One);
        assert_eq!(of(&[(1, 3_000_000), (3, 3_000_000), (1, 2_000_000)]), Width::All);
    }

    #[test]
    fn what_is_brief_is_little_as_well() {
        let of = |gas_limits: &[u64]| {
            let tx = |gas_limit: &u64| TxEnv { gas_limit: *gas_limit, ..TxEnv::default() };
            let txs: Vec<_> = gas_limits.iter().map(tx).collect();
            // An odd limit is that of a transfer.
            let runs_code = |tx: &TxEnv| tx.gas_limit.is_multiple_of(2);
            let brief = is_brief(txs.iter(), runs_code);
            assert!(!brief || Width::of_senders(&txs, runs_code) == Width::One);
            brief
        };
        assert!(of(&[]) && of(&[21_000]) && of(&[70_000]) && of(&[u64::MAX]));
        assert!(!of(&[72_000]) && !of(&[50_000, 50_000]) && !of(&[u64::MAX - 1]));
        assert!(of(&[1_000_001; SHORT]) && !of(&[21_000; SHORT + 1]));
    }

    #[test]
    fn many_are_judged_by_some() {
        let tx = |index: u64| TxEnv {
            caller: Address::from_word(U256::from(index).into()),
            gas_limit: 21_000,
            ..TxEnv::default()
        };
        let of = |count: u64, senders: u64| {
            let txs: Vec<_> = (0..count).map(|index| tx(index * 7 % senders)).collect();
            Width::of_senders(&txs, |_| unreachable!("such gas pays for a transfer alone"))
        };
        let enough = SPECULATED_WEIGHT / TRANSFER;
        assert_eq!(of(enough - 1_000, u64::MAX), Width::One);
        assert_eq!(of(enough + 1_000, u64::MAX), Width::All);
        assert_eq!(of(enough * 4, 1), Width::One);
        // The first transactions do not represent the rest.
        let txs: Vec<_> = (0..enough).map(|_| tx(1)).chain((0..enough * 3).map(tx)).collect();
        assert_eq!(Width::of_senders(&txs, |_| false), Width::All);
    }

    #[test]
    fn a_chain_counts_by_its_weight() {
        let light: Vec<_> = (1..30).map(|key| (key, 30_000)).collect();
        let heavy = [(0, 2_000_000), (0, 2_000_000)];
        assert!(is_alone(&[&heavy[..], &light].concat()));
        assert!(!is_alone(&[&heavy[..], &[(1, 2_000_000)], &light].concat()));
    }
}
