//! Handing out: ready transactions in the order of the policy.

use super::{Pool, PooledTx, lanes::Best, queue::Queue};
use alloy_primitives::{Address, map::AddressMap};
use core::cmp::{Ordering, Reverse};
use std::{collections::BinaryHeap, sync::Arc};

/// Senders whose next transaction did not fit into a batch before the batch is as good as full: it bounds the search.
const MAX_MISFITS: usize = 64;

/// How much is taken at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Most transactions.
    pub max_txs: usize,
    /// Most gas, by gas limits.
    pub max_gas: u64,
    /// Most transactions of one sender. With fewer than `max_txs`, whoever floods the pool leaves room for others in every
    /// batch, whatever it pays.
    pub max_of_sender: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self { max_txs: 8192, max_gas: u64::MAX, max_of_sender: usize::MAX }
    }
}

/// A successor of one that was given out already.
#[derive(Debug)]
struct Successor<'p> {
    worth: i128,
    tx: &'p Arc<PooledTx>,
}

impl Successor<'_> {
    fn key(&self) -> (i128, Reverse<u64>) {
        (self.worth, Reverse(self.tx.rank()))
    }
}

impl PartialEq for Successor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Successor<'_> {}

impl PartialOrd for Successor<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Successor<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Ready transactions that are not handed out, best first; every sender's in order of nonce. A sender's next one takes part
/// once the one before it was given. O(log n) for each.
#[derive(Debug)]
pub struct Ready<'p> {
    pool: &'p Pool,
    heads: Best<'p>,
    successors: BinaryHeap<Successor<'p>>,
    last: Option<&'p Arc<PooledTx>>,
    max_of_sender: u64,
}

impl<'p> Ready<'p> {
    pub(super) fn new(pool: &'p Pool, max_of_sender: usize) -> Self {
        let heads = pool.heads.best();
        let max_of_sender = max_of_sender as u64;
        Self { pool, heads, successors: BinaryHeap::new(), last: None, max_of_sender }
    }

    /// Leaves the sender of the last one out from now on.
    pub const fn skip_sender(&mut self) {
        self.last = None;
    }

    /// Lets the successor of the last one take part.
    fn follow_up(&mut self) {
        let Some(last) = self.last.take() else { return };
        let Some(queue) = self.pool.queues.get(&last.sender()) else { return };
        let given = last.nonce() - queue.cursor() + 1;
        let next = last.nonce().checked_add(1).and_then(|nonce| queue.waiting(nonce));
        if let Some(tx) = next.filter(|tx| given < self.max_of_sender && self.pool.heads.fees().admit(tx)) {
            self.successors.push(Successor { worth: self.pool.heads.worth(tx), tx });
        }
    }
}

impl<'p> Iterator for Ready<'p> {
    type Item = &'p Arc<PooledTx>;

    fn next(&mut self) -> Option<&'p Arc<PooledTx>> {
        if self.max_of_sender == 0 {
            return None;
        }
        self.follow_up();
        let head = self.heads.peek();
        let successor = self.successors.peek().map(Successor::key);
        let next = if successor > head.map(|head| (head.worth, Reverse(head.rank))) {
            self.successors.pop().map(|successor| successor.tx)
        } else {
            self.heads.next().and_then(|head| self.pool.queues.get(&head.sender)).and_then(Queue::head)
        };
        self.last = next;
        next
    }
}

impl Pool {
    /// What could be handed out now, best first, without handing it out.
    pub fn ready(&self) -> Ready<'_> {
        Ready::new(self, usize::MAX)
    }

    /// Hands out the best ready transactions. They stay in the pool, are handed to nobody else, can neither be replaced nor
    /// evicted nor expire, and their successors can be handed out next; until [`Self::settle`] says otherwise.
    ///
    /// One that is too large for the gas that is left is passed over, with those of its sender. O(log n) for each handed
    /// out.
    pub fn take(&mut self, batch: &Batch) -> Vec<Arc<PooledTx>> {
        let mut taken = Vec::new();
        let mut counts: AddressMap<u64> = AddressMap::default();
        let (mut gas, mut misfits) = (batch.max_gas, 0);
        let mut ready = Ready::new(self, batch.max_of_sender);
        while taken.len() < batch.max_txs
            && misfits < MAX_MISFITS
            && let Some(tx) = ready.next()
        {
            match gas.checked_sub(tx.tx().gas_limit) {
                Some(left) => {
                    gas = left;
                    *counts.entry(tx.sender()).or_default() += 1;
                    taken.push(Arc::clone(tx));
                }
                None => {
                    misfits += 1;
                    ready.skip_sender();
                }
            }
        }
        for (sender, count) in counts {
            self.edit(sender, |queue| queue.hand_out(count));
        }
        taken
    }

    /// The transaction that `sender` would have handed out next.
    pub fn next_of(&self, sender: &Address) -> Option<&Arc<PooledTx>> {
        self.queues.get(sender)?.head()
    }
}
