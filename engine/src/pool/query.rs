//! Questions about a pool: a sender's transactions, and the events since an earlier question.

use super::{Pool, PoolEvents, PooledTx};
use alloy_primitives::Address;
use std::sync::Arc;

impl Pool {
    /// Nonce that a sender's next transaction must have to run after those that are here without a gap; `None` if there
    /// are none. O(transactions of the sender).
    pub fn next_nonce(&self, sender: &Address) -> Option<u64> {
        let queue = self.senders.get(sender)?;
        let first = queue.account().nonce;
        let end = (first..).find(|nonce| queue.get(*nonce).is_none()).unwrap_or(u64::MAX);
        (end > first).then_some(end)
    }

    /// Transactions of a sender in order of nonce, handed-out and future ones included.
    pub fn of_sender(&self, sender: &Address) -> impl Iterator<Item = &Arc<PooledTx>> {
        let queue = self.senders.get(sender);
        let first = queue.map_or(0, |queue| queue.account().nonce);
        let nonces = first..first.saturating_add(self.config.window);
        queue.into_iter().flat_map(move |queue| nonces.clone().filter_map(|nonce| queue.get(nonce)))
    }

    /// Senders that delegate: their code can move nonce and balance in a transaction of any other sender. O(senders).
    pub fn delegated(&self) -> impl Iterator<Item = Address> {
        self.senders.iter().filter(|(_, queue)| queue.account().is_delegated).map(|(_, queue)| *queue.address())
    }

    /// Events after a cursor: zero for all that are remembered, then [`PoolEvents::next`] of the last answer. The pool
    /// remembers the last 8,192 events. Takes time linear in the answer.
    pub fn events_after(&self, cursor: u64) -> PoolEvents {
        self.events.after(cursor)
    }
}
