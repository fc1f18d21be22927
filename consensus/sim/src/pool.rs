//! Batches of a validator, and the choice of those that a new block takes.

use crate::machine::Batch;
use alloy_primitives::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Author and number of a batch.
pub(crate) type BatchName = (u32, u64);

impl Batch {
    pub(crate) const fn name(&self) -> BatchName {
        (self.author, self.number)
    }
}

/// Batches that a node holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// Pending batches in order of arrival.
    waiting: BTreeMap<u64, (Batch, Arc<[Bytes]>)>,
    arrivals: u64,
    /// Names of all batches that ever arrived, to tell which blocks can be executed.
    seen: BTreeSet<BatchName>,
}

impl Pool {
    pub(crate) fn add(&mut self, batch: Batch, txs: &Arc<[Bytes]>) {
        if self.seen.insert(batch.name()) {
            self.arrivals += 1;
            self.waiting.insert(self.arrivals, (batch, Arc::clone(txs)));
        }
    }

    /// Oldest batches that no ancestor has taken, up to `limit` transactions.
    pub(crate) fn take(&self, taken: &BTreeSet<BatchName>, limit: u64) -> Vec<Bytes> {
        let mut left = limit;
        let free = self.waiting.values().filter(|(batch, _)| !taken.contains(&batch.name()));
        free.map_while(|(batch, txs)| {
            left = left.checked_sub(u64::from(batch.txs))?;
            Some(txs.iter().cloned())
        })
        .flatten()
        .collect()
    }

    pub(crate) fn has(&self, batch: &Batch) -> bool {
        self.seen.contains(&batch.name())
    }

    pub(crate) fn committed(&mut self, gone: BTreeSet<BatchName>) {
        self.waiting.retain(|_, (batch, _)| !gone.contains(&batch.name()));
        self.seen.extend(gone);
    }
}
