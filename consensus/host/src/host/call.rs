//! Calls of the protocol, and what they emit: records at once, the rest behind them.

use super::Host;
use crate::{frame::Frame, record::HostRecord};
use phalanx_bft::{Message as _, Out, Protocol, To, View};

/// Requests that are forwarded at a time.
const MOST_FORWARDED: usize = 64;

impl<P: Protocol> Host<P> {
    pub(super) fn call(&mut self, act: impl FnOnce(&mut P, &mut Vec<Out<P>>)) {
        let Some(protocol) = &mut self.protocol else { return };
        let mut out = Vec::new();
        act(protocol, &mut out);
        let view = protocol.view();
        if view > self.requests.view {
            self.enter(view);
        }
        self.enqueue(out);
    }

    /// Notes a new view: its leader has to know the requests that wait.
    fn enter(&mut self, view: View) {
        self.requests.view = view;
        self.pool.enter(view);
        if let Some(leader) = self.protocol.as_ref().map(Protocol::leader)
            && leader != self.me
        {
            self.forward(To::One(leader));
        }
    }

    /// Sends the oldest requests that wait.
    pub(super) fn forward(&mut self, to: To) {
        for tx in self.pool.oldest_txs(MOST_FORWARDED) {
            self.outbox.send(to, Frame::Request(tx));
        }
    }

    /// Appends records at once, and lets what follows wait for them. Proposals are noted at once as well, so that none of their
    /// transactions is proposed again while a record is not durable yet.
    pub(super) fn enqueue(&mut self, out: Vec<Out<P>>) {
        let out: Vec<_> = out.into_iter().filter(|effect| self.may_pass(effect)).collect();
        for effect in out {
            let effect = self.epoch.raise(effect);
            match &effect {
                Out::Proposed { view, batch: Some(batch), .. } => self.pool.propose(*view, batch.transactions()),
                // Whatever view comes: a decided batch keeps its slot.
                Out::Decided { batch: Some(batch), .. } => self.pool.propose(View::MAX, batch.transactions()),
                Out::Returned(batch) => self.pool.give_back(batch.transactions()),
                _ => {}
            }
            match effect {
                Out::Persist(record) => self.outbox.append(HostRecord::Protocol(record)),
                effect => self.outbox.defer(effect),
            }
        }
    }

    /// Returns true if an effect of the protocol may leave: a silent replica asks, and tells what is decided.
    fn may_pass(&self, effect: &Out<P>) -> bool {
        match effect {
            Out::Send(_, message) => !self.is_silent() || message.informs(),
            Out::OrderVoted { .. } => !self.is_silent(),
            _ => true,
        }
    }
}
