//! Clients' requests: from the pool into batches, or to the replica that proposes.

use super::Host;
use crate::{action::HostTimer, frame::Frame};
use alloy_primitives::Bytes;
use phalanx_bft::{Batch, Index, Input, Protocol, To, View};

/// Requests that wait, as seen from outside the pool.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// View whose proposals the pool knows.
    pub(super) view: View,
    /// True while the timer of a batch runs, and that of requests.
    batch_runs: bool,
    runs: bool,
    /// Oldest request when requests were last looked at.
    stuck: Option<u64>,
}

impl<P: Protocol> Host<P> {
    /// Adds a client's transaction, or one that a replica forwards, which fills no more than its share of the pool. Returns true if it is new.
    pub(super) fn add(&mut self, tx: Bytes, from: Option<Index>) -> bool {
        let new = self.has_room_for(&tx)
            && match from {
                None => self.pool.add(tx.clone()),
                Some(from) => self.pool.add_forwarded(tx.clone(), from, self.config.quorums.n()),
            };
        if new {
            if let Some(leader) = self.protocol.as_ref().map(Protocol::leader)
                && leader != self.me
            {
                self.outbox.send(To::One(leader), Frame::Request(tx));
            }
            self.tell_pending();
        }
        new
    }

    /// Returns true for a transaction that replicas order, and that fits into a batch.
    fn has_room_for(&self, tx: &[u8]) -> bool {
        tx.len() + 8 <= self.config.batch_bytes && self.takes(tx)
    }

    /// Tells the protocol of the oldest request that has no place in the order.
    pub(super) fn tell_pending(&mut self) {
        // Nothing has a place above the end of the epoch, so that no leader is suspected for it.
        let (now, oldest) = (self.now, self.pool.oldest().filter(|_| self.epoch.end.is_none()));
        self.call(|protocol, out| protocol.on_input(now, Input::Pending(oldest), out));
        if oldest.is_some() && !self.requests.runs {
            self.requests.runs = true;
            self.requests.stuck = oldest;
            self.outbox.set(HostTimer::Requests, self.config.resend);
        }
    }

    /// Sends the oldest requests to all, if none has been served since the last look: they may never have reached the leader, and
    /// a leader that ignores them has to lose the patience of all.
    pub(super) fn repeat_requests(&mut self) {
        self.requests.runs = false;
        if !P::OWN_REQUESTS
            && self.epoch.end.is_none()
            && self.pool.oldest().is_some()
            && self.pool.oldest() == self.requests.stuck
        {
            self.forward(To::All);
        }
        self.tell_pending();
    }

    /// Proposes what has waited long enough for a batch.
    pub(super) fn propose_waiting(&mut self) {
        self.requests.batch_runs = false;
        self.propose(true);
    }

    /// Proposes full batches, or a partial one if `now`. Returns true if it proposed.
    pub(super) fn propose(&mut self, now: bool) -> bool {
        let Some(protocol) = &self.protocol else { return false };
        if protocol.leader() != self.me || self.is_silent() || self.epoch.end.is_some() {
            return false;
        }
        let (view, mut partial, mut proposed) = (protocol.view(), now, false);
        while self.protocol.as_ref().is_some_and(|protocol| protocol.room() > 0)
            && self.pool.free() >= if partial { 1 } else { self.config.batch_txs }
        {
            let before = self.pool.free();
            partial = false;
            let txs = self.pool.take(view, self.config.batch_txs, self.config.batch_bytes);
            let (time, timestamp_ms) = (self.now, self.config.epoch_ms + self.now / 1000);
            let batch = Batch::new(timestamp_ms, self.config.beneficiary, txs);
            self.call(|protocol, out| protocol.on_input(time, Input::Batch(batch), out));
            // A batch that came back is tried again with the next request or timer.
            if self.pool.free() >= before {
                break;
            }
            proposed = true;
        }
        if self.pool.free() > 0 && !self.requests.batch_runs {
            self.requests.batch_runs = true;
            self.outbox.set(HostTimer::Batch, self.config.batch_delay);
        }
        proposed
    }
}
