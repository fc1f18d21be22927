//! Handing out of ready transactions in the order of the policy.

use super::{
    Pool, PooledTx,
    lane::{Key, SenderId},
};
use alloy_primitives::{Address, map::HashMap};
use std::{collections::BinaryHeap, sync::Arc};

/// Maximum number of senders whose next transaction does not fit, before a batch counts as full: bounds the search.
const MAX_MISFITS: usize = 64;

/// Bounds of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Maximum number of transactions.
    pub max_txs: usize,
    /// Maximum gas, by gas limits.
    pub max_gas: u64,
    /// Maximum number of transactions of one sender. Below `max_txs`, a flood of one sender leaves room for others in
    /// every batch, whatever it pays.
    pub max_of_sender: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self { max_txs: 8192, max_gas: u64::MAX, max_of_sender: usize::MAX }
    }
}

/// Iterator over the ready transactions that are not handed out, best first; each sender's in order of nonce. A
/// sender's next transaction takes part once the one before it was returned. O(senders) for the first, O(log n) for
/// each other.
#[derive(Debug)]
pub struct Ready<'p> {
    pool: &'p Pool,
    /// Next transaction of each sender, by nonce.
    heads: BinaryHeap<(Key, SenderId, u64)>,
}

impl<'p> Iterator for Ready<'p> {
    type Item = &'p Arc<PooledTx>;

    fn next(&mut self) -> Option<&'p Arc<PooledTx>> {
        let Self { pool, heads } = self;
        let (_, id, nonce) = heads.pop()?;
        let next = nonce.checked_add(1).and_then(|nonce| pool.senders[id].waiting(nonce));
        if let Some(next) = next
            && let Some(key) = pool.fees.place(pool.config.policy, next)
        {
            heads.push((key, id, next.nonce()));
        }
        pool.senders[id].waiting(nonce)
    }
}

impl Pool {
    /// Iterates over the transactions that could be handed out now, best first, without handing them out.
    pub fn ready(&self) -> Ready<'_> {
        let heads = self.heads.iter().map(|(key, id)| (key, id, self.senders[id].cursor())).collect();
        Ready { pool: self, heads }
    }

    /// True if a transaction could be handed out now. O(1), but for senders that are listed and have none.
    pub fn has_ready(&self) -> bool {
        self.heads.iter().any(|(_, id)| self.senders[id].head().is_some())
    }

    /// Hands out the best ready transactions. They stay in the pool, but are not handed out again and can neither be
    /// replaced nor evicted nor expire. Their successors can be handed out next. [`Self::settle`] ends this.
    ///
    /// A transaction that is too large for the remaining gas is passed over, with its sender's later ones. O(log n)
    /// per transaction handed out.
    pub fn take(&mut self, batch: &Batch) -> Vec<Arc<PooledTx>> {
        let mut taken = Vec::new();
        if batch.max_of_sender == 0 {
            return taken;
        }
        let (mut gas, mut misfits) = (batch.max_gas, 0);
        // Senders that are passed over for the rest of the batch, and the count per sender if it matters.
        let mut out = Vec::new();
        let mut counts: HashMap<SenderId, usize> = HashMap::default();
        while taken.len() < batch.max_txs
            && misfits < MAX_MISFITS
            && let Some(id) = self.heads.first()
            && let Some(head) = self.senders[id].head()
        {
            let Some(left) = gas.checked_sub(head.tx().gas_limit) else {
                misfits += 1;
                out.push(id);
                self.heads.set(id, None);
                continue;
            };
            gas = left;
            taken.push(Arc::clone(head));
            self.senders[id].hand_out(1);
            self.list(id);
            if batch.max_of_sender < batch.max_txs {
                let count = counts.entry(id).or_default();
                *count += 1;
                if *count == batch.max_of_sender {
                    out.push(id);
                    self.heads.set(id, None);
                }
            }
        }
        out.into_iter().for_each(|id| self.list(id));
        taken
    }

    /// Next transaction of `sender` to hand out.
    pub fn next_of(&self, sender: &Address) -> Option<&Arc<PooledTx>> {
        self.senders.get(sender)?.head()
    }
}
