//! Rewards of the beneficiary in a wave in which a transaction reads its balance.
//!
//! If each reward were paid at once, every transaction after such a read would have to wait for it. A block in which a
//! few transactions pay the beneficiary for their place would run in as many pieces. So rewards are recorded, and a
//! reader first pays the rewards recorded before its place. The reader waits for all transactions before it; none waits
//! for the reader because of rewards.

use crate::model::Fault;
use crate::plan::graph::looks;
use alloy_primitives::U256;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use phalanx_access::{Access, KeyId};

/// The rewards of a wave.
///
/// A transaction records its own reward before its successors in the DAG begin; readers are ordered among each other.
/// So the graph orders every access, and the atomics need not.
#[derive(Debug)]
pub(crate) struct Rewards {
    /// Id of the beneficiary's balance.
    id: KeyId,
    notes: Vec<Note>,
    /// Number of records that have been paid, or were never made.
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
    /// Creates empty records for `txs` transactions, and the balance `id`.
    pub(crate) fn new(id: KeyId, txs: usize) -> Self {
        let mut notes = Vec::new();
        notes.resize_with(txs, Note::default);
        Self { id, notes, paid: AtomicUsize::new(0) }
    }

    /// Id of the beneficiary's balance.
    pub(crate) const fn id(&self) -> KeyId {
        self.id
    }

    /// True if a transaction with this set reads the balance.
    pub(crate) fn are_seen_by(&self, set: &[(KeyId, Access)]) -> bool {
        looks(set, self.id)
    }

    /// Records the reward of a transaction.
    pub(crate) fn note(&self, index: usize, amount: U256) {
        let (note, [low, high, ..]) = (&self.notes[index], amount.as_limbs());
        debug_assert!(amount.bit_len() <= 128, "gas and prices are multiplied in 128 bits");
        note.low.store(*low, Ordering::Relaxed);
        note.high.store(*high, Ordering::Relaxed);
        note.is_made.store(true, Ordering::Relaxed);
    }

    /// Reward of a transaction; `None` if the beneficiary was not touched.
    pub(crate) fn of(&self, index: usize) -> Option<U256> {
        self.notes[index].get()
    }

    /// Sum of the unpaid rewards before transaction `until`, which count as paid from now on; `None` if there is
    /// nothing to pay, which differs from a reward of zero before EIP-161. Amortised O(1) per transaction.
    pub(crate) fn take(&self, until: usize) -> Option<U256> {
        let from = self.paid.swap(until, Ordering::Relaxed);
        let from = if Fault::RewardTwice.is_seeded() { 0 } else { from };
        let notes = self.notes.get(from..until).unwrap_or_default();
        notes.iter().filter_map(Note::get).reduce(|sum, amount| sum + amount)
    }

    /// Takes the rest, like [`Self::take`] after the last transaction.
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
