//! Effects of a replica in a world, and the ledger's checks of them.

use crate::{
    crypto::work,
    facts::{Facts, kind},
    liar::Liar,
    outbox::Next,
    replica::content,
    world::{Event, World},
};
use alloy_primitives::B256;
use phalanx_bft::{Base, Index, Input, Out, Outs, Slot, To, Want};

impl<P: Facts> World<P> {
    /// Queues effects behind earlier ones, and performs what waits for no record.
    pub(crate) fn effects(&mut self, node: usize, out: Outs<P>) {
        self.nodes[node].outbox.extend(out);
        if !core::mem::replace(&mut self.nodes[node].busy, true) {
            self.perform(node);
            self.nodes[node].busy = false;
        }
    }

    /// Ends the write of a record, if one runs.
    pub(crate) fn written(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        state.outbox.written().iter().for_each(|record| state.write(record));
    }

    fn perform(&mut self, node: usize) {
        loop {
            match self.nodes[node].outbox.step() {
                Next::Nothing => return,
                Next::Write if self.setup.persist == 0 => self.written(node),
                Next::Write => {
                    let epoch = self.nodes[node].epoch;
                    self.queue.after(self.setup.persist, Event::Durable { node, epoch });
                }
                Next::Perform(effect) => self.effect(node, effect),
            }
        }
    }

    fn effect(&mut self, node: usize, effect: Out<P>) {
        let (me, correct, now) = (Index(node as u16), self.is_correct(node), self.now());
        match effect {
            Out::Persist(_) => unreachable!("the outbox keeps records"),
            Out::Send(to, message) => self.send(node, to, &message),
            Out::Timer(timer, after) => {
                let number = self.nodes[node].timers.set(timer);
                self.queue.after(after, Event::Timer { node, timer, number });
            }
            Out::Cancel(timer) => self.nodes[node].timers.cancel(timer),
            Out::Work { job, crypto } => {
                let lies = self.setup.traitors.contains(&me) && P::spoils(&mut self.liar(me, node));
                let input = work(me, job, crypto, lies);
                self.call(node, |protocol, now, out| protocol.on_input(now, input, out));
            }
            Out::Decided { slot, batch } => {
                let digest = content(batch.as_ref());
                if correct {
                    let known = self.nodes[node].protocol.as_ref().and_then(|protocol| protocol.decision(slot));
                    let whole = known.is_none_or(|known| known == digest);
                    self.ledger.must(whole, || format!("{me} decided {known:?} in slot {slot} without its batch"));
                    let before = *self.ledger.decided.entry(slot).or_insert(digest);
                    self.ledger.must(before == digest, || {
                        format!("slot {slot}: {me} decided {digest}, before it was {before}")
                    });
                    let times = self.ledger.times.entry(slot).or_insert((now, now, 0));
                    (times.1, times.2) = (now, times.2 + 1);
                }
                self.nodes[node].decided.insert(slot, batch);
            }
            Out::Conflict { slot } => self.ledger.must(!correct, || format!("{me} has two decisions in slot {slot}")),
            Out::OrderVoted { slot, view } => {
                self.ledger.order_votes += 1;
                if correct {
                    let durable = self.nodes[node].written.iter().any(|record| P::locks(record, view, slot, None));
                    self.ledger
                        .must(durable, || format!("{me} announced an order vote in slot {slot} that is not durable"));
                }
            }
            Out::Want(Want::State { base, .. }) => self.install(node, base),
            Out::Evidence { against, proof } => {
                self.ledger.evidence.push((me, against));
                let right = !correct || !self.is_correct(usize::from(against.0));
                self.ledger.must(right, || format!("{me} has evidence against {against}, which is correct"));
                let convicts = !correct || P::convicts(&proof, against, P::domain(&self.setup.config));
                self.ledger.must(convicts, || format!("{me} has evidence against {against} that proves nothing"));
            }
            Out::Certificate { slot, digest, answers, .. } => self.certified(node, slot, digest, answers),
            Out::Stable { .. } => self.nodes[node].compact(),
            Out::Returned(batch) if P::OWN_REQUESTS => self.nodes[node].pool.push_front((0, batch)),
            Out::Returned(_) | Out::Proposed { .. } => {}
        }
    }

    /// A certificate for clients names the outcome that correct replicas have.
    fn certified(&mut self, node: usize, slot: Slot, digest: B256, answers: bool) {
        let known = self.ledger.outcomes.get(&slot).copied();
        self.ledger
            .must(known == Some(digest), || format!("slot {slot}: {digest} is certified, executed is {known:?}"));
        if answers && self.is_correct(node) {
            let now = self.now();
            self.ledger.answers.entry(slot).or_insert((now, 0)).1 += 1;
        }
    }

    /// State transfer: another replica that has executed as far hands over its outcomes.
    fn install(&mut self, node: usize, base: Base) {
        let reaches = |at: &usize| *at != node && self.is_correct(*at) && self.links.connected(node, *at);
        let holder = (0..self.nodes.len()).filter(reaches).find(|at| self.nodes[*at].outcomes.contains_key(&base.slot));
        let Some(holder) = holder else { return };
        let (outcomes, contents) = self.nodes[holder].state(base.slot);
        if self.is_correct(node) {
            let matches = outcomes.get(&base.slot) == Some(&base.digest);
            self.ledger.must(matches, || format!("a checkpoint names another state in slot {}", base.slot));
        }
        self.nodes[node].install(base.slot, outcomes, contents);
        self.call(node, |protocol, now, out| protocol.on_input(now, Input::Installed(base), out));
    }

    fn send(&mut self, node: usize, to: To, message: &P::Msg) {
        let me = Index(node as u16);
        if self.setup.silent.contains(&me) {
            return;
        }
        if let Some(vote) = P::vote(message).filter(|_| self.is_correct(node)) {
            let (of, view, slot, digest) = vote;
            self.ledger.note(me, vote);
            if of == kind::ORDER {
                let locks = |record: &P::Record| P::locks(record, view, slot, Some(digest));
                let state = &self.nodes[node];
                let durable = state.written.iter().any(locks) || state.outcomes.contains_key(&slot);
                self.ledger.must(durable, || format!("{me} sent {vote:?}, which is not durable"));
            }
        }
        let all: Vec<usize> = match to {
            To::All => (0..self.nodes.len()).filter(|to| *to != node).collect(),
            To::One(to) => vec![usize::from(to.0)],
        };
        let kind = alloy_rlp::encode(message).first().copied().unwrap_or(0);
        *self.ledger.sent.entry(kind).or_default() += all.len();
        for to in all {
            if self.setup.traitors.contains(&me) {
                let lies = P::betray(message, &mut self.liar(me, to));
                lies.into_iter().for_each(|message| self.transmit(node, to, &message));
            } else {
                self.transmit(node, to, message);
            }
        }
    }

    fn liar(&mut self, me: Index, to: usize) -> Liar<'_> {
        Liar { me, to, calm: self.calm, domain: P::domain(&self.setup.config), rng: &mut self.rng }
    }

    fn transmit(&mut self, from: usize, to: usize, message: &P::Msg) {
        for delay in self.links.copies(from, to, &mut self.rng) {
            let message = message.clone();
            self.queue.after(delay, Event::Deliver { to, from: Index(from as u16), message });
        }
    }
}
