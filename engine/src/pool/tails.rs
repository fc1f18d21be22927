//! Who goes first when a pool is full.

use super::{
    fees::Fees,
    lane::{Lane, SenderId},
    queue::Queue,
    senders::Senders,
};

/// Senders by what their last transactions are worth, the least first.
#[derive(Debug)]
pub(super) struct Tails {
    /// Those whose last ready transaction may be evicted.
    pub(super) ready: Lane,
    /// Those whose last transaction is not ready.
    pub(super) future: Lane,
}

impl Tails {
    /// Of all senders. O(senders).
    pub(super) fn new(fees: &Fees, senders: &Senders) -> Self {
        let mut tails = Self { ready: Lane::default(), future: Lane::default() };
        tails.refill(fees, senders);
        tails
    }

    /// Takes up other fees. O(senders).
    pub(super) fn refill(&mut self, fees: &Fees, senders: &Senders) {
        let Self { ready, future } = self;
        ready.refill(senders.iter().filter_map(|(id, queue)| Some((id, fees.tail(queue.ready_tail())?))));
        future.refill(senders.iter().filter_map(|(id, queue)| Some((id, fees.tail(queue.future_tail())?))));
    }

    /// Follows a sender's queue.
    pub(super) fn set(&mut self, fees: &Fees, id: SenderId, queue: &Queue) {
        self.ready.set(id, fees.tail(queue.ready_tail()));
        self.future.set(id, fees.tail(queue.future_tail()));
    }
}
