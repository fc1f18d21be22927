//! A validator's batches, and which of them a new block takes.

use crate::{model::model_tx, wire::Batch};
use alloy_primitives::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Batches a node has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// In order of arrival.
    waiting: BTreeMap<u64, Batch>,
    arrivals: u64,
    /// Everything that ever came, to know what can be executed.
    seen: BTreeSet<(u32, u64)>,
}

/// The transaction that stands for a batch.
pub(crate) fn tx_of(batch: Batch) -> Bytes {
    let mut name = batch.author.to_be_bytes().to_vec();
    name.extend_from_slice(&batch.number.to_be_bytes());
    model_tx(batch.txs, &name)
}

/// Which batch a transaction stands for.
pub(crate) fn batch_of(tx: &Bytes) -> Option<Batch> {
    let number = |range: core::ops::Range<usize>| tx.get(range);
    let u32_at = |at: usize| number(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let tail = number(9..17).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes)?;
    Some(Batch { txs: u32_at(1)?, author: u32_at(5)?, number: tail })
}

impl Pool {
    pub(crate) fn add(&mut self, batch: Batch) {
        if self.seen.insert((batch.author, batch.number)) {
            self.arrivals += 1;
            self.waiting.insert(self.arrivals, batch);
        }
    }

    /// The oldest that no ancestor has taken, up to so many transactions.
    pub(crate) fn take(&self, taken: &BTreeSet<(u32, u64)>, limit: u64) -> Vec<Bytes> {
        let mut left = limit;
        let free = self.waiting.values().filter(|batch| !taken.contains(&(batch.author, batch.number)));
        free.map_while(|batch| {
            left = left.checked_sub(u64::from(batch.txs))?;
            Some(tx_of(*batch))
        })
        .collect()
    }

    pub(crate) fn has(&self, tx: &Bytes) -> bool {
        batch_of(tx).is_some_and(|batch| self.seen.contains(&(batch.author, batch.number)))
    }

    pub(crate) fn committed(&mut self, txs: &[Bytes]) {
        let gone: BTreeSet<_> = txs.iter().filter_map(batch_of).map(|batch| (batch.author, batch.number)).collect();
        self.waiting.retain(|_, batch| !gone.contains(&(batch.author, batch.number)));
        self.seen.extend(gone);
    }
}
