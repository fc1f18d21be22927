//! Inputs of a host: frames, timers, durable records and clients' requests, and what they make possible.

use super::Host;
use crate::{action::Action, action::HostTimer, frame::Frame};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{Checked, Index, Message as _, Micros, Protocol};
use std::sync::Arc;

impl<P: Protocol> Host<P> {
    /// Reports that every record up to this number is durable.
    pub fn durable(&mut self, now: Micros, number: u64) {
        self.now = now;
        self.outbox.note_durable(number);
        self.perform();
    }

    /// Handles a frame that the channel proves to be from `from`. One with a wrong signature, or with a batch that no replica orders, is
    /// dropped, and its sender is named: a correct replica verifies before it hands on.
    pub fn on_frame(&mut self, now: Micros, from: Index, frame: Frame<P::Msg>) {
        self.now = now;
        match frame {
            Frame::Protocol(message) => self.on_message(from, message),
            Frame::StateVote(vote) => self.on_votes(from, vec![vote], true),
            Frame::Certificate(votes) => self.on_votes(from, votes, false),
            Frame::WantBlocks(want) => self.serve(from, want),
            Frame::Blocks(blocks) => self.on_blocks(from, blocks),
            Frame::Request(tx) => drop(self.add(tx, Some(from))),
            Frame::WantReach(start) => self.tell_reach(from, start),
            Frame::Reached(reached) => self.on_reached(from, reached),
            Frame::Pruned(slot) => self.on_pruned(from, slot),
        }
        self.perform();
    }

    fn on_message(&mut self, from: Index, message: P::Msg) {
        let (now, domain, scheme) = (self.now, self.config.domain, Arc::clone(&self.scheme));
        let heard = !self.is_silent() || message.informs();
        if !heard || self.protocol.as_ref().is_none_or(|protocol| !protocol.wants(from, &message)) {
            return;
        }
        let sound = message.batches().iter().flat_map(|batch| batch.transactions()).all(|tx| self.takes(tx));
        match Checked::new(message, domain, |claims| scheme.accepts(claims)).filter(|_| sound) {
            Some(checked) => self.call(|protocol, out| protocol.on_message(now, from, checked, out)),
            None => self.outbox.act(Action::Forged(from)),
        }
    }

    /// Handles a timer that was set and not cancelled.
    pub fn on_timer(&mut self, now: Micros, timer: HostTimer<P::Timer>) {
        self.now = now;
        match timer {
            HostTimer::Protocol(timer) => self.call(|protocol, out| protocol.on_timer(now, timer, out)),
            HostTimer::Batch => self.propose_waiting(),
            HostTimer::Transfer => self.lose_patience(),
            HostTimer::Votes => self.repeat_votes(),
            HostTimer::Requests => self.repeat_requests(),
            HostTimer::Silence => self.ask_reach(),
        }
        self.perform();
    }

    /// Takes a client's transaction. A full host drops it, and one that replicas do not order or that fits into no batch.
    pub fn submit(&mut self, now: Micros, tx: Bytes) {
        self.now = now;
        if self.add(tx, None) {
            self.perform();
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

    /// Performs every effect whose record is durable, and proposes what there is room for.
    pub(super) fn perform(&mut self) {
        loop {
            while let Some(effect) = self.outbox.next_effect() {
                self.effect(effect);
            }
            if !self.hand_over() && !self.propose(false) {
                return self.try_end();
            }
        }
    }
}
