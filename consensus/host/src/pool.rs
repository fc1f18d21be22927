//! Clients' transactions that wait for a block, and the memory of those that have one.

use alloy_primitives::{B256, Bytes, keccak256};
use phalanx_bft::{Slot, View};
use std::collections::{BTreeMap, VecDeque};

/// Transactions that wait, at most.
const MOST_WAITING: usize = 1 << 20;

/// State of a known transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Waits for a proposal.
    Waiting,
    /// In a proposal of this view, own or not.
    Proposed(View),
    /// In the committed block of this slot.
    Committed(Slot),
}

/// A first-in-first-out pool. A transaction stays until a block with it is committed, so that a lost proposal loses nothing.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    queue: VecDeque<(B256, Bytes)>,
    known: BTreeMap<B256, Known>,
    waiting: usize,
}

impl Pool {
    /// Adds a transaction. Returns false if it is known, or the pool is full.
    pub(crate) fn add(&mut self, tx: Bytes) -> bool {
        let hash = keccak256(&tx);
        if self.queue.len() >= MOST_WAITING || self.known.contains_key(&hash) {
            return false;
        }
        self.known.insert(hash, Known::Waiting);
        self.waiting += 1;
        self.queue.push_back((hash, tx));
        true
    }

    /// Number of transactions without a committed block.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Number of transactions without a proposal.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes up to `most` transactions without a proposal, oldest first, for one of `view`.
    pub(crate) fn take(&mut self, view: View, most: usize) -> Vec<Bytes> {
        let mut taken = Vec::new();
        for (hash, tx) in &self.queue {
            if taken.len() == most {
                break;
            }
            let known = self.known.entry(*hash).or_insert(Known::Waiting);
            if *known == Known::Waiting {
                *known = Known::Proposed(view);
                taken.push(tx.clone());
            }
        }
        self.waiting -= taken.len();
        taken
    }

    /// Notes the transactions of a proposal.
    pub(crate) fn propose(&mut self, view: View, txs: &[Bytes]) {
        for tx in txs {
            if let Some(known) = self.known.get_mut(&keccak256(tx)) {
                match known {
                    Known::Waiting => self.waiting -= 1,
                    Known::Proposed(_) => {}
                    Known::Committed(_) => continue,
                }
                *known = Known::Proposed(view);
            }
        }
    }

    /// Lets proposals of views below this one wait again.
    pub(crate) fn enter(&mut self, view: View) {
        for known in self.known.values_mut() {
            if matches!(known, Known::Proposed(of) if *of < view) {
                *known = Known::Waiting;
                self.waiting += 1;
            }
        }
    }

    /// Notes the transactions of a committed block, known or not.
    pub(crate) fn commit(&mut self, slot: Slot, txs: &[Bytes]) {
        for tx in txs {
            if self.known.insert(keccak256(tx), Known::Committed(slot)) == Some(Known::Waiting) {
                self.waiting -= 1;
            }
        }
        let known = &self.known;
        self.queue.retain(|(hash, _)| !matches!(known.get(hash), Some(Known::Committed(_))));
    }

    /// Forgets committed transactions of slots below this one.
    pub(crate) fn prune(&mut self, below: Slot) {
        self.known.retain(|_, known| !matches!(known, Known::Committed(slot) if *slot < below));
    }
}
