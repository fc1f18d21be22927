//! Clients' requests: from the pool into batches, or to the replica that proposes.

use super::Host;
use crate::{
    action::{Action, HostTimer},
    frame::Frame,
};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{Batch, Index, Input, Micros, Protocol, To, View};

/// Requests that are forwarded at a time.
const MOST_FORWARDED: usize = 64;

impl<P: Protocol> Host<P> {
    /// Takes a client's transaction. A full host drops it, and one that replicas do not order or that fits into no batch.
    pub fn submit(&mut self, now: Micros, tx: Bytes) {
        self.now = now;
        if self.has_room_for(&tx) && self.pool.add(tx.clone()) {
            self.added(tx);
        }
    }

    /// Takes a transaction that can run after the committed block, as a pool beside this one knows: one that a committed block has
    /// skipped has its turn again.
    pub fn offer(&mut self, now: Micros, tx: Bytes) {
        self.pool.renew(&tx, self.committed);
        self.submit(now, tx);
    }

    /// Forgets transactions that the pool beside this one has dropped, so that no leader is suspected for them. A proposal that has one
    /// keeps it.
    pub fn withdraw(&mut self, now: Micros, hashes: &[B256]) {
        self.now = now;
        hashes.iter().for_each(|hash| self.pool.withdraw(hash));
        self.tell_pending();
        self.perform();
    }

    /// Takes a transaction that a replica forwards. One replica fills no more than its share of the pool.
    pub(super) fn submit_forwarded(&mut self, from: Index, tx: Bytes) {
        let n = self.config.quorums.n();
        if self.has_room_for(&tx) && self.pool.add_forwarded(tx.clone(), from, n) {
            self.added(tx);
        }
    }

    /// Returns true for a transaction that replicas order, and that fits into a batch.
    fn has_room_for(&self, tx: &[u8]) -> bool {
        tx.len() + 8 <= self.config.batch_bytes && self.takes(tx)
    }

    fn added(&mut self, tx: Bytes) {
        if let Some(protocol) = &self.protocol
            && protocol.leader() != self.me
        {
            self.actions.push(Action::Send(To::One(protocol.leader()), Frame::Request(tx)));
        }
        self.tell_pending();
        self.perform();
    }

    /// Tells the protocol of the oldest request that has no place in the order.
    pub(super) fn tell_pending(&mut self) {
        // Nothing has a place above the end of the epoch, so that no leader is suspected for it.
        let (now, oldest) = (self.now, self.pool.oldest().filter(|_| self.epoch.end.is_none()));
        self.call(|protocol, out| protocol.on_input(now, Input::Pending(oldest), out));
        if oldest.is_some() && !self.requests_run {
            self.requests_run = true;
            self.stuck = oldest;
            self.actions.push(Action::Timer(HostTimer::Requests, self.config.resend));
        }
    }

    /// Sends the oldest requests to all, if none has been served since the last look: they may never have reached the leader, and
    /// a leader that ignores them has to lose the patience of all.
    pub(super) fn repeat_requests(&mut self) {
        self.requests_run = false;
        if !P::OWN_REQUESTS
            && self.epoch.end.is_none()
            && self.pool.oldest().is_some()
            && self.pool.oldest() == self.stuck
        {
            self.forward(To::All);
        }
        self.tell_pending();
    }

    /// Notes a new view: its leader has to know the requests that wait.
    pub(super) fn enter(&mut self, view: View) {
        self.view = view;
        self.pool.enter(view);
        if let Some(leader) = self.protocol.as_ref().map(Protocol::leader)
            && leader != self.me
        {
            self.forward(To::One(leader));
        }
    }

    fn forward(&mut self, to: To) {
        let oldest = self.pool.oldest_txs(MOST_FORWARDED);
        self.actions.extend(oldest.into_iter().map(|tx| Action::Send(to, Frame::Request(tx))));
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
        if self.pool.free() > 0 && !self.batch_runs {
            self.batch_runs = true;
            self.actions.push(Action::Timer(HostTimer::Batch, self.config.batch_delay));
        }
        proposed
    }
}
