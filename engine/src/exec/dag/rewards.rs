//! What the transactions of a wave earn the beneficiary, where one of them looks at its balance.
//!
//! Were each reward paid into the balance at once, whoever comes after such a look would have to wait until it is over, and a
//! block in which a few pay the beneficiary for their place would run in as many pieces. So a reward is noted, and whoever
//! looks pays first what was noted before its place. It waits for all before it; nobody waits for it on that account.

use crate::plan::graph::looks;
use alloy_primitives::U256;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use phalanx_access::{Access, KeyId};

/// The rewards of a wave.
///
/// A transaction notes its own, before its successors in the DAG begin; those who look are ordered among each other. So the
/// graph orders every access, and the atomics need not.
#[derive(Debug)]
pub(crate) struct Rewards {
    /// The beneficiary's balance.
    id: KeyId,
    notes: Vec<Note>,
    /// How many of the notes have been paid, or were never made.
    paid: AtomicUsize,
}

#[derive(Debug, Default)]
struct Note {
    low: AtomicU64,
    high: AtomicU64,
    is_made: AtomicBool,
}

impl Note {
    fn get(&self) -> Option<U256> {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        self.is_made.load(Ordering::Relaxed).then(|| U256::from_limbs([word(&self.low), word(&self.high), 0, 0]))
    }
}

impl Rewards {
    /// No rewards yet of so many transactions, for the balance `id`.
    pub(crate) fn new(id: KeyId, txs: usize) -> Self {
        let mut notes = Vec::new();
        notes.resize_with(txs, Note::default);
        Self { id, notes, paid: AtomicUsize::new(0) }
    }

    /// The beneficiary's balance.
    pub(crate) const fn id(&self) -> KeyId {
        self.id
    }

    /// Whether a transaction with such a set looks at the balance.
    pub(crate) fn are_seen_by(&self, set: &[(KeyId, Access)]) -> bool {
        looks(set, self.id)
    }

    /// Notes what a transaction has earned.
    pub(crate) fn note(&self, index: usize, amount: U256) {
        let (note, [low, high, ..]) = (&self.notes[index], amount.as_limbs());
        debug_assert!(amount.bit_len() <= 128, "gas and prices are multiplied in 128 bits");
        note.low.store(*low, Ordering::Relaxed);
        note.high.store(*high, Ordering::Relaxed);
        note.is_made.store(true, Ordering::Relaxed);
    }

    /// What a transaction has earned; `None` if the beneficiary was left alone.
    pub(crate) fn of(&self, index: usize) -> Option<U256> {
        self.notes[index].get()
    }

    /// What was noted before transaction `until` and not paid, which is paid from now on; `None` if there is nothing to pay,
    /// which is not the same as a reward of zero before EIP-161. Amortised O(1) per transaction.
    pub(crate) fn take(&self, until: usize) -> Option<U256> {
        let from = self.paid.swap(until, Ordering::Relaxed);
        let notes = self.notes.get(from..until).unwrap_or_default();
        notes.iter().filter_map(Note::get).reduce(|sum, amount| sum + amount)
    }

    /// [`Self::take`] after the last transaction.
    pub(crate) fn take_rest(&self) -> Option<U256> {
        self.take(self.notes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_paid_once() {
        let rewards = Rewards::new(KeyId(0), 5);
        assert_eq!((rewards.take(1), rewards.of(0)), (None, None));
        rewards.note(1, U256::from(u128::MAX));
        rewards.note(2, U256::ZERO);
        rewards.note(4, U256::from(7));
        assert_eq!(rewards.of(1), Some(U256::from(u128::MAX)));
        assert_eq!(rewards.take(2), Some(U256::from(u128::MAX)));
        assert_eq!(rewards.take(3), Some(U256::ZERO), "which makes an account before EIP-161");
        assert_eq!(rewards.take(4), None);
        assert_eq!(rewards.take_rest(), Some(U256::from(7)));
        assert_eq!(rewards.take_rest(), None);
    }
}
