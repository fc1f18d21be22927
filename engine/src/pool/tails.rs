//! Eviction order of a full pool.

use super::{
    fees::Fees,
    lane::{Lane, SenderId},
    queue::Queue,
    senders::Senders,
};

/// Senders by the worth of their last transactions, the lowest first.
#[derive(Debug)]
pub(super) struct Tails {
    /// Senders by their last ready transaction.
    pub(super) ready: Lane,
    /// Senders by their last future transaction.
    pub(super) future: Lane,
}

impl Tails {
    /// Lists all senders. O(senders).
    pub(super) fn new(fees: &Fees, senders: &Senders) -> Self {
        let mut tails = Self { ready: Lane::default(), future: Lane::default() };
        tails.refill(fees, senders);
        tails
    }

    /// Lists all senders at new fees. O(senders).
    pub(super) fn refill(&mut self, fees: &Fees, senders: &Senders) {
        let Self { ready, future } = self;
        ready.refill(senders.iter().filter_map(|(id, queue)| Some((id, fees.tail(queue.ready_tail())?))));
        future.refill(senders.iter().filter_map(|(id, queue)| Some((id, fees.tail(queue.future_tail())?))));
    }

    /// Updates a sender's keys.
    pub(super) fn set(&mut self, fees: &Fees, id: SenderId, queue: &Queue) {
        self.ready.set(id, fees.tail(queue.ready_tail()));
        self.future.set(id, fees.tail(queue.future_tail()));
    }
}
